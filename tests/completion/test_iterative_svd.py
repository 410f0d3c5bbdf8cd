"""Iterative SVD against plain implementations of both papers."""

import numpy as np
import pytest
import torch

from skconvgp.completion import IterativeSVD
from skconvgp.completion._iterative_svd import symmetric_part, truncate
from skconvgp.completion._masked import Limits
from skconvgp.completion._observed import Filled, Observed
from skconvgp.completion._patterns import draw_pattern, evaluate
from tests.helpers.oracles import PlainOracle, low_rank, seeded, smooth
from tests.helpers.tolerances import assert_close

N_ROUNDS = 7


def observed(gram, fraction=0.4):
    pattern = draw_pattern("random", len(gram), fraction, 0.05, seeded())
    entries = evaluate(PlainOracle(gram), pattern)
    return entries, entries.values.numpy().copy(), entries.mask.numpy().copy()


LIMITS = Limits(rtol=1e-300, max_iter=N_ROUNDS)


def top(matrix, rank):
    """Return the part of a symmetric matrix in its largest eigenvalues, if positive."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    values, vectors = np.maximum(values[-rank:], 0), vectors[:, -rank:]
    return (vectors * values) @ vectors.T


def row_means(values, mask):
    return np.array([row[seen].mean() for row, seen in zip(values, mask, strict=True)])


@pytest.mark.parametrize("rank", [1, 4, 60])
def test_truncation_is_hard_impute(rank):
    entries, values, mask = observed(smooth(60)[0])
    means = row_means(values, mask)
    filled = np.where(mask, values, (means[:, None] + means) / 2)
    for _ in range(N_ROUNDS):
        made = top(filled, rank)
        filled = np.where(mask, values, made)
    known, left = Observed.of(entries), torch.as_tensor(means)[:, None]
    filled = Filled.of(known, *symmetric_part(left, torch.ones_like(left)))
    fit = truncate(known, filled, torch.eye(60)[:, :rank], LIMITS)
    assert_close(fit.factor @ fit.factor.mT, made, kind="solve")


@pytest.mark.parametrize("n", [60, 600])
@pytest.mark.parametrize("pattern", ["blocks", "landmarks"])
def test_result_is_a_fixed_point_of_hard_impute(pattern, n):
    gram = (low_rank(n, 5) + 0.1 * low_rank(n, n, seed=2)).numpy()
    oracle = PlainOracle(gram)
    method = IterativeSVD(5, pattern=pattern, rtol=1e-7, max_iter=1000)
    result = method.complete(oracle, 0.4, seeded())
    assert result.converged
    made = (result.factor @ result.factor.mT).numpy()
    seen = (oracle.asked | oracle.asked.mT).fill_diagonal_(True)
    if pattern == "landmarks":  # neither what was held out nor prior variances
        is_landmark = seen.all(1)
        seen = is_landmark[:, None] | is_landmark
    seen = seen.numpy()
    again = top(np.where(seen, gram, made), 5)
    assert np.linalg.norm(again - made) < 1e-7 * np.linalg.norm(made)


@pytest.mark.parametrize("rank", [1, 4])
def test_row_regression_is_that_of_troyanskaya(rank):
    entries, values, mask = observed(smooth(60)[0], 0.6)
    filled = np.where(mask, values, row_means(values, mask)[:, None])
    for _ in range(N_ROUNDS):
        eigenrows = np.linalg.svd(filled)[2][:rank]
        for row, seen in enumerate(mask):
            known = eigenrows[:, seen].T
            coefs = np.linalg.lstsq(known, values[row, seen], rcond=None)[0]
            filled[row, ~seen] = coefs @ eigenrows[:, ~seen]
    method = IterativeSVD(rank, rule="row_regression")
    fit = method._fit(entries, rank, None, LIMITS, seeded())
    assert_close(fit.factor @ fit.factor.mT, top(filled, rank), kind="root")


def test_best_approximation_of_a_matrix_that_is_all_observed():
    gram, _ = smooth(50)
    result = IterativeSVD(5).complete(PlainOracle(gram), 1.0, seeded())
    assert_close(result.factor @ result.factor.mT, top(gram.numpy(), 5), kind="solve")


def test_indefinite_parts_are_dropped():
    gram = torch.diag(torch.tensor([3.0, 2.0, 1.0, -4.0, -5.0]).double())
    result = IterativeSVD(5).complete(PlainOracle(gram), 1.0, seeded())
    expected = gram.clamp(min=0.0)
    assert_close(result.factor @ result.factor.mT, expected, kind="solve")
    change = (16 + 25) / (9 + 4 + 1 + 16 + 25)
    assert result.stats["observed_change"] == pytest.approx(change**0.5)


def test_many_samples():
    # Leading eigenpairs only: another path than that of small matrices.
    gram = low_rank(700, 4)
    for rule in ("truncation", "row_regression"):
        result = IterativeSVD(4, rule=rule).complete(PlainOracle(gram), 0.2, seeded())
        assert result.converged
        assert result.relative_rmse < 1e-4


def test_wrong_rule_is_refused():
    with pytest.raises(ValueError, match=r"'rule' .* one of 'truncation', 'row_reg"):
        IterativeSVD(rule="rows").complete(PlainOracle(torch.eye(9)), 0.5, seeded())
