"""Weights of a sum of covariances by left-out samples, beside refits without them."""

import math

import numpy as np
import pytest
import torch

from skconvgp.inference import LeftOutSamples, WeightedSum, choose_mixture
from skconvgp.inference._mixture import STRENGTH, _Search

N, N_CLASSES, N_PARTS = 24, 3, 3


@pytest.fixture(autouse=True)
def exact(monkeypatch):
    """Search until nothing changes."""
    monkeypatch.setattr("skconvgp.inference._mixture.TOLERANCE", 1e-9)
    monkeypatch.setattr("skconvgp.inference._mixture.SLOPE", 1e-6)


GROUPS = [np.arange(0, 8)[:, None], np.arange(8, 24).reshape(8, 2)]


def matrices(seed=0):
    """Return covariances of samples by three kernels, labels that two of them see."""
    rng = np.random.default_rng(seed)
    codes = np.arange(N) % N_CLASSES
    centres = rng.normal(size=(N_CLASSES, 2))
    views = [rng.normal(size=(N, 2)) + scale * centres[codes] for scale in (2, 1, 0)]
    grams = []
    for rows in views:
        squares = np.sum((rows[:, None] - rows) ** 2, -1)
        grams.append((1.0 + rng.uniform()) * np.exp(-squares / 4.0))
    return grams, codes


def class_factors(codes, groups):
    """Return what a sample alone leaves of each class, over what its group leaves."""
    factors = np.ones((N, N_CLASSES))
    for own in (own for of_size in groups for own in of_size):
        for c in range(N_CLASSES):
            left = np.sum(codes == c) - np.sum(codes[own] == c)
            factors[own, c] = (np.sum(codes == c) - (codes[own] == c)) / left
    return factors


def samples_of(codes, weights=None, groups=None):
    one_hot = np.eye(N_CLASSES)[codes]
    weights = np.ones(N) if weights is None else weights
    factors = None
    if groups is not None:
        factors = torch.as_tensor(class_factors(codes, groups))
        groups = [torch.as_tensor(one) for one in groups]
    targets = one_hot - one_hot.mean(0)
    given = (torch.as_tensor(one) for one in (targets, weights, one_hot))
    return LeftOutSamples(*given, groups=groups, class_factors=factors)


def sum_of(grams, given=None, **settings):
    given = np.full(len(grams), np.nan) if given is None else np.array(given)
    tensors = [torch.as_tensor(gram) for gram in grams]
    return WeightedSum(tensors, given, np.ones(len(grams)), **settings)


def by_refits(grams, codes, shares, noise, temperature, groups=None):
    """Return the criterion without the prior: each group is predicted by the others."""
    targets = np.eye(N_CLASSES)[codes]
    targets = targets - targets.mean(0)
    gram = sum(s * g for s, g in zip(shares, grams, strict=True))
    whole = gram + noise * np.mean(np.diag(gram)) * np.eye(N)
    groups = [np.arange(N)[:, None]] if groups is None else groups
    means, variances = np.empty_like(targets), np.empty(N)
    for own in (own for of_size in groups for own in of_size):
        others = np.setdiff1d(np.arange(N), own)
        solved = np.linalg.solve(whole[np.ix_(others, others)], whole[others][:, own])
        means[own] = solved.T @ targets[others]
        cov = whole[np.ix_(own, own)] - whole[own][:, others] @ solved
        variances[own] = np.diag(cov)
    squares = (targets - means) ** 2 / variances[:, None]
    density = np.log(2.0 * np.pi * squares.mean()) + np.mean(np.log(variances)) + 1.0
    scores = means - targets.min(0)
    more = class_factors(codes, groups)
    scores = np.where(scores > 0.0, more * scores, scores) / temperature
    logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    wrong = 1.0 / sum(len(own) for own in groups)
    expected = np.full_like(targets, wrong / (N_CLASSES - 1))
    expected[np.arange(N), codes] = 1.0 - wrong
    return -np.mean(np.sum(expected * logs, 1)) + 0.25 * density


@pytest.mark.parametrize("groups", [None, GROUPS])
def test_the_criterion_is_that_of_refits_without_each_group(groups):
    grams, codes = matrices()
    search = _Search(sum_of(grams), samples_of(codes, groups=groups))
    logs, noise, temperature = np.array([0.3, -0.2, 0.1]), 0.2, 0.4
    shares = np.exp(logs) / np.exp(logs).sum()
    value, _ = search(np.array([*logs, math.log(noise), math.log(temperature)]))
    prior = -STRENGTH / N * np.mean(np.log(shares))
    expected = by_refits(grams, codes, shares, noise, temperature, groups)
    assert value - prior == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("groups", [None, GROUPS])
@pytest.mark.parametrize("noise", [None, 0.05])
@pytest.mark.parametrize("given", [None, (np.nan, 0.2, np.nan), (0.5, 0.2, 0.3)])
def test_derivatives_of_the_criterion(groups, noise, given):
    grams, codes = matrices()
    weights = np.random.default_rng(1).uniform(0.5, 2.0, N)
    samples = samples_of(codes, weights, groups)
    search = _Search(sum_of(grams, given, noise=noise), samples)
    first = search.first(None)
    at = first + 0.3 * np.random.default_rng(2).normal(size=len(first))
    _, slopes = search(at)
    for step, slope in zip(1e-5 * np.eye(len(at)), slopes, strict=True):
        change = (search(at + step)[0] - search(at - step)[0]) / 2e-5
        assert slope == pytest.approx(change, abs=1e-8)


def test_no_other_mixture_is_better():
    grams, codes = matrices()
    found = choose_mixture(sum_of(grams), samples_of(codes))
    assert found.shares.sum() == pytest.approx(1.0)
    assert found.shares[0] > found.shares[2]

    def value(shares, noise, temperature):
        prior = -STRENGTH / N * np.mean(np.log(shares))
        return by_refits(grams, codes, shares, noise, temperature) + prior

    best = value(found.shares, found.noise, found.temperature)
    assert best == pytest.approx(found.value, rel=1e-6)
    rng = np.random.default_rng(0)
    for _ in range(20):
        shares = found.shares * np.exp(0.2 * rng.normal(size=N_PARTS))
        noise, temperature = (
            one * math.exp(0.2 * rng.normal())
            for one in (found.noise, found.temperature)
        )
        assert value(shares / shares.sum(), noise, temperature) >= best - 1e-6


def test_given_shares_stay_and_others_are_chosen():
    grams, codes = matrices()
    found = choose_mixture(sum_of(grams, (0.0, np.nan, np.nan)), samples_of(codes))
    assert found.shares[0] == 0.0
    assert found.shares.sum() == pytest.approx(1.0)
    found = choose_mixture(sum_of(grams, (np.nan, 0.4, np.nan)), samples_of(codes))
    assert found.shares[1] == 0.4
    assert found.shares.sum() == pytest.approx(1.0)


def test_the_prior_is_of_the_preferred_shares():
    gram, codes = matrices()[0][0], np.arange(N) % N_CLASSES
    same = WeightedSum(
        [torch.as_tensor(gram)] * 2, np.full(2, np.nan), np.array([3.0, 1.0])
    )
    found = choose_mixture(same, samples_of(codes))
    np.testing.assert_allclose(found.shares, [0.75, 0.25], atol=1e-3)


def test_numbers_are_judged_by_their_density():
    grams, _ = matrices()
    targets = torch.as_tensor(np.linalg.cholesky(grams[1] + 0.01 * np.eye(N)))
    targets = targets @ torch.as_tensor(np.random.default_rng(0).normal(size=(N, 4)))
    samples = LeftOutSamples(targets, torch.ones(N, dtype=torch.float64))
    found = choose_mixture(sum_of(grams), samples)
    assert found.shares[1] == found.shares.max()


def test_a_class_of_one_sample_is_not_judged():
    grams, codes = matrices()
    codes = np.array(codes)
    codes[codes == 2] = 0
    codes[5] = 2
    samples = samples_of(codes)
    is_known = torch.as_tensor(codes != 2)
    known = LeftOutSamples(
        samples.targets, samples.weights, samples.shares, is_known=is_known
    )
    assert float(known.counts[5]) == 0.0
    total = sum_of(grams)
    assert choose_mixture(total, known).value < choose_mixture(total, samples).value
