"""Soft-Impute against a plain implementation and its fixed point."""

import numpy as np
import pytest
import torch

from skconvgp.completion import SoftImpute
from skconvgp.completion._masked import Limits
from skconvgp.completion._patterns import draw_pattern, evaluate
from tests.helpers.oracles import PlainOracle, low_rank, seeded, smooth
from tests.helpers.tolerances import assert_close


def shrunk(matrix, gamma):
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values - gamma, 0)) @ vectors.T


def known_mask(oracle):
    return (oracle.asked | oracle.asked.mT).fill_diagonal_(True).numpy()


@pytest.mark.parametrize("gamma", [0.01, 0.5, 5.0])
def test_rounds_are_those_of_the_paper(gamma):
    gram, _ = smooth(60)
    pattern = draw_pattern("random", 60, 0.4, 0.05, seeded())
    entries = evaluate(PlainOracle(gram), pattern)
    values, mask = entries.values.numpy().copy(), entries.mask.numpy()
    made = np.zeros_like(values)
    for _ in range(7):
        made = shrunk(np.where(mask, values, made), gamma)
    limits = Limits(rtol=1e-300, max_iter=7)
    fit = SoftImpute()._fit(entries, gamma, None, limits, seeded())
    # Small matrices are decomposed whole, but no more than is asked for is kept.
    assert_close(fit.factor @ fit.factor.mT, made, kind="solve")


@pytest.mark.parametrize(
    ("n", "share"),
    [(24, 0.8)] + [pytest.param(n, 0.4, marks=pytest.mark.slow) for n in (60, 600)],
)
def test_result_is_a_fixed_point(n, share):
    gram = low_rank(n, 5)
    oracle = PlainOracle(gram)
    result = SoftImpute(rtol=1e-18, max_iter=1000).complete(oracle, share, seeded())
    assert result.converged
    made = (result.factor @ result.factor.mT).numpy()
    filled = np.where(known_mask(oracle), gram.numpy(), made)
    assert_close(shrunk(filled, result.stats["gamma"]), made, kind="root")


def test_eigenvalues_are_shrunk_where_all_is_observed():
    gram, _ = smooth(60)
    result = SoftImpute(rtol=1e-12).complete(PlainOracle(gram), 1.0, seeded())
    expected = shrunk(gram.numpy(), result.stats["gamma"])
    assert_close(result.factor @ result.factor.mT, expected, kind="solve")


def test_penalty_is_one_of_the_path():
    gram = low_rank(80, 3) + 0.1 * low_rank(80, 80, seed=2)
    oracle = PlainOracle(gram)
    result = SoftImpute().complete(oracle, 0.5, seeded())
    mask = known_mask(oracle)
    largest = np.linalg.norm(gram.numpy() * mask, 2)
    # Up to the held-out entries, which the path does not see.
    step = np.log(largest / result.stats["gamma"]) / np.log(1e4) * 20
    assert step == pytest.approx(round(step), abs=0.2)
    assert 1 <= round(step) < 20


def test_penalty_grows_with_the_noise():
    clean, noise = low_rank(80, 3), low_rank(80, 80, seed=2)
    gammas = [
        SoftImpute()
        .complete(PlainOracle(clean + share * noise), 0.5, seeded())
        .stats["gamma"]
        for share in (0.0, 2.0)
    ]
    assert gammas[0] < gammas[1]


def test_rank_bounds_the_eigenvalues():
    gram, _ = smooth(60)
    for rank in (1, 3):
        result = SoftImpute(rank=rank).complete(PlainOracle(gram), 0.5, seeded())
        assert result.factor.shape == (60, rank)


def test_nothing_but_zeros():
    result = SoftImpute().complete(PlainOracle(torch.zeros(20, 20)), 0.5, seeded())
    assert result.converged
    assert not bool(result.factor.any())
