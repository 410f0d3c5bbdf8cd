"""Errors of new samples, beside refits without each fold and beside new samples."""

import numpy as np
import pytest
import torch

from skconvgp.inference import (
    LeftOutSamples,
    Mixture,
    WeightedSum,
    choose_mixture,
    error_factor,
)
from skconvgp.inference._mixture_errors import FOLDS, LEAST_UNITS, _folds

N, N_OUTPUTS = 30, 2
GROUPS = [np.arange(6)[:, None], np.arange(6, 30).reshape(12, 2)]


def tensors(arrays):
    return [torch.as_tensor(one) for one in arrays]


def covariances(rows, n_parts):
    """Return covariances of samples, a part for each two columns."""
    pairs = rows.reshape(len(rows), n_parts, 2).transpose(1, 0, 2)
    return [np.exp(-np.sum((x[:, None] - x) ** 2, -1) / 4.0) for x in pairs]


def left_out_squares(whole, y, groups):
    """Return squares of errors of groups that others predict, in their deviations."""
    squares = np.empty_like(y)
    for own in (own for of_size in groups for own in of_size):
        others = np.setdiff1d(np.arange(len(y)), own)
        squares[own] = squares_of(whole, y, own, others)
    return squares


def squares_of(whole, y, own, others):
    solved = np.linalg.solve(whole[np.ix_(others, others)], whole[np.ix_(others, own)])
    variances = np.diag(whole[np.ix_(own, own)] - whole[np.ix_(own, others)] @ solved)
    return (y[own] - solved.T @ y[others]) ** 2 / variances[:, None]


@pytest.mark.parametrize("groups", [None, GROUPS])
def test_it_is_that_of_refits_without_each_fold(groups):
    rng = np.random.default_rng(0)
    grams = covariances(rng.normal(size=(N, 4)), 2)
    y, weights = rng.normal(size=(N, N_OUTPUTS)), rng.uniform(0.5, 2.0, N)
    y[:3] *= 8.0  # whose fold is missed by far more than the others say
    y -= weights @ y / weights.sum()
    given, noise = np.array([0.3, 0.7]), 0.2
    of = None if groups is None else tensors(groups)
    samples = LeftOutSamples(*tensors([y, weights]), groups=of)
    total = WeightedSum(tensors(grams), given, np.ones(2), noise)
    start = Mixture(given, noise, 1.0, 0.0, 0.0, np.zeros(0))
    folds = _folds(samples).numpy()
    expected = np.empty_like(y)
    for fold in range(FOLDS):
        out, inside = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        gram, w = given[0] * grams[0] + given[1] * grams[1], weights[inside]
        mean = w @ y[inside] / w.sum()
        unit = w @ np.diag(gram)[inside] / w.sum()
        whole = gram + np.diag(noise * unit / weights)
        ways = [np.arange(N)[:, None]] if groups is None else groups
        places = np.full(N, -1)
        places[inside] = np.arange(len(inside))
        own = [places[way[np.isin(way, inside).all(1)]] for way in ways]
        left = left_out_squares(whole[np.ix_(inside, inside)], y[inside] - mean, own)
        amplitude = w @ left / w.sum()
        expected[out] = squares_of(whole, y - mean, out, inside) / amplitude
    factor = np.sqrt((weights @ expected).mean() / weights.sum())
    assert factor > 1.0
    assert error_factor(total, samples, start) == pytest.approx(factor, rel=1e-9)


def test_groups_are_in_one_fold_and_folds_are_alike():
    y = torch.zeros(N, 1, dtype=torch.float64)
    samples = LeftOutSamples(y, torch.ones(N), groups=tensors(GROUPS))
    folds = _folds(samples)
    assert (folds[6::2] == folds[7::2]).all()
    units = torch.cat([folds[:6], folds[6::2]]).bincount()
    assert units.max() - units.min() <= 1


def test_new_samples_are_missed_by_so_much_more():
    n, n_new, n_parts = 30, 300, 8
    factors, ratios = [], []
    for draw in range(20):
        rng = np.random.default_rng(draw)
        grams = covariances(rng.normal(size=(n + n_new, 2 * n_parts)), n_parts)
        true = grams[0] + 0.3 * np.eye(n + n_new)
        y = (np.linalg.cholesky(true) @ rng.normal(size=n + n_new))[:, None]
        y = y - y[:n].mean()
        few = tensors(gram[:n, :n] for gram in grams)
        samples = LeftOutSamples(*tensors([y[:n], np.ones(n)]))
        total = WeightedSum(few, np.full(n_parts, np.nan), np.ones(n_parts))
        found = choose_mixture(total, samples)
        factors.append(error_factor(total, samples, found))
        whole = np.tensordot(found.shares, grams, 1) + found.noise * np.eye(n + n_new)
        alone = [np.arange(n)[:, None]]
        left = left_out_squares(whole[:n, :n], y[:n], alone).mean()
        new = squares_of(whole, y, np.arange(n, n + n_new), np.arange(n)).mean()
        ratios.append(np.sqrt(new / left))
    assert np.mean(ratios) > 1.05
    assert np.mean(factors) == pytest.approx(np.mean(ratios), abs=0.06)


def test_outputs_that_are_constant_say_nothing():
    rng = np.random.default_rng(0)
    grams = tensors(covariances(rng.normal(size=(N, 4)), 2))
    y = rng.normal(size=(N, 1))
    y[:3] *= 8.0
    y -= y.mean()
    given, noise = np.array([0.3, 0.7]), 0.2
    total = WeightedSum(grams, given, np.ones(2), noise)
    start = Mixture(given, noise, 1.0, 0.0, 0.0, np.zeros(0))
    alone, beside = (
        error_factor(total, LeftOutSamples(*tensors([one, np.ones(N)])), start)
        for one in (y, np.hstack([y, np.zeros((N, 1))]))
    )
    assert beside == pytest.approx(alone, rel=1e-12)
    assert alone > 1.0


def test_few_samples_say_nothing():
    n = LEAST_UNITS - 1
    y = torch.arange(n, dtype=torch.float64)[:, None]
    gram = torch.eye(n, dtype=torch.float64)
    total = WeightedSum([gram], np.array([np.nan]), np.ones(1))
    samples = LeftOutSamples(y - y.mean(), torch.ones(n, dtype=torch.float64))
    found = choose_mixture(total, samples)
    assert error_factor(total, samples, found) == 1.0
