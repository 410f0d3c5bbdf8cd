"""Pivoted Cholesky from columns on demand, against dense matrices."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skconvgp.linalg import pivoted_cholesky
from tests.helpers.oracles import low_rank, seeded, smooth
from tests.helpers.tolerances import assert_close

RULES = {"greedy": None, "random": 0}
every_rule = pytest.mark.parametrize("rule", RULES)
every_block = pytest.mark.parametrize("block", [1, 4, 7])


class Columns:
    """Columns of a matrix, and a list of those that were asked for."""

    def __init__(self, matrix):
        self.matrix = matrix
        self.asked = []

    def __call__(self, indices):
        self.asked.append(indices.tolist())
        return self.matrix[:, indices]

    @property
    def flat(self):
        return [index for some in self.asked for index in some]


def factored(matrix, max_columns, rule="greedy", **settings):
    columns = Columns(matrix)
    generator = None if RULES[rule] is None else seeded(RULES[rule])
    result = pivoted_cholesky(
        matrix.diagonal(), columns, max_columns, generator, **settings
    )
    return result, columns


def full_rank(n, seed=0):
    return low_rank(n, n, seed=seed, noise=0.1)


@every_rule
@every_block
def test_pivot_rows_are_exact_and_the_rest_is_positive(rule, block):
    matrix = full_rank(30)
    result, columns = factored(matrix, 12, rule, block=block)
    product = result.factor @ result.factor.mT
    pivots = result.pivots
    assert result.factor.shape == (30, 12)
    assert sorted(pivots.tolist()) == sorted(columns.flat)
    assert_close(product[pivots], matrix[pivots])
    rest = matrix - product
    assert float(torch.linalg.eigvalsh(rest)[0]) > -1e-12
    assert_close(result.residual, rest.diagonal(), kind="solve")
    assert (result.residual[pivots] == 0.0).all()
    rows = result.factor[pivots]
    assert_close(rows, rows.tril(), kind="solve")


def test_factor_is_that_of_the_permuted_matrix():
    matrix = full_rank(9)
    result, _ = factored(matrix, 9)
    order = result.pivots
    expected = np.linalg.cholesky(matrix[order][:, order].numpy())
    assert_close(result.factor[order].tril(), expected, kind="solve")


def test_greedy_takes_the_largest_residual():
    matrix = full_rank(20)
    result, columns = factored(matrix, 8)
    rest = matrix.clone()
    for pivot in result.pivots.tolist():
        assert pivot == int(rest.diagonal().argmax())
        rest = rest - torch.outer(rest[pivot], rest[pivot]) / rest[pivot, pivot]
    assert [len(some) for some in columns.asked] == [1] * 8


def test_greedy_follows_a_permutation():
    matrix, order = full_rank(15), torch.randperm(15, generator=seeded(3))
    result, _ = factored(matrix, 6)
    permuted, _ = factored(matrix[order][:, order], 6)
    assert torch.equal(order[permuted.pivots], result.pivots)
    assert_close(permuted.factor, result.factor[order], kind="solve")


def frequencies(matrix, n_draws, place):
    generator, counts = seeded(), torch.zeros(len(matrix), dtype=torch.float64)
    for _ in range(n_draws):
        columns = Columns(matrix)
        pivoted_cholesky(matrix.diagonal(), columns, place + 1, generator)
        counts[columns.flat[place]] += 1.0
    return counts


def chi_square(counts, shares):
    expected = shares / shares.sum() * counts.sum()
    kept = expected > 0.0
    assert (counts[~kept] == 0.0).all()
    return float(((counts - expected).square() / expected)[kept].sum())


def test_first_pivot_is_drawn_in_proportion_to_the_diagonal():
    shares = torch.tensor([1.0, 2.0, 0.0, 5.0], dtype=torch.float64)
    counts = frequencies(torch.diag(shares), 2000, place=0)
    assert chi_square(counts, shares) < 13.8  # once in 1000 times
    assert chi_square(counts, torch.tensor([2.0, 2.0, 0.0, 5.0])) > 50.0


def test_second_pivot_is_drawn_in_proportion_to_the_residual():
    matrix = torch.tensor([[1.0, 0.8, 0.0], [0.8, 1.0, 0.0], [0.0, 0.0, 1.0]]).double()
    # After 0 (or 1), 0.36 is left of the other one and 1 of the last; after 2, 1 each.
    shares = torch.tensor([0.36 / 1.36 + 0.5, 0.36 / 1.36 + 0.5, 2.0 / 1.36]).double()
    assert chi_square(frequencies(matrix, 2000, place=1), shares) < 13.8


@every_rule
@every_block
def test_a_matrix_of_low_rank_ends_early(rule, block):
    matrix = low_rank(25, 5)
    result, columns = factored(matrix, 20, rule, block=block)
    assert result.factor.shape == (25, 5)
    assert result.factor.isfinite().all()
    assert_close(result.factor @ result.factor.mT, matrix, kind="solve")
    assert len(columns.flat) <= 5 + block - 1
    assert len(set(columns.flat)) == len(columns.flat)


@every_rule
@every_block
def test_duplicates_are_never_pivots(rule, block):
    matrix = full_rank(6).repeat(3, 3)
    result, _ = factored(matrix, 18, rule, block=block)
    assert sorted((result.pivots % 6).tolist()) == list(range(6))


@every_rule
def test_single_precision_ends_where_rounding_begins(rule):
    matrix = low_rank(25, 5).float()
    result, _ = factored(matrix, 20, rule)
    assert result.factor.dtype == torch.float32
    assert len(result.pivots) == 5
    assert_close(result.factor @ result.factor.mT, matrix, torch.float32, "solve")


def test_stops_at_a_share_of_the_trace():
    matrix = smooth(60)[0]
    result, _ = factored(matrix, 60, rtol=1e-2)
    before, _ = factored(matrix, len(result.pivots) - 1)
    assert float(result.residual.sum()) <= 0.6
    assert float(before.residual.sum()) > 0.6


@every_rule
def test_a_matrix_of_zeros_has_no_pivot(rule):
    result, columns = factored(torch.zeros(4, 4, dtype=torch.float64), 3, rule)
    assert result.factor.shape == (4, 0)
    assert columns.asked == []


@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(1, 12),
    rank=st.integers(1, 12),
    max_columns=st.integers(1, 15),
    block=st.integers(1, 5),
    rule=st.sampled_from(list(RULES)),
    seed=st.integers(0, 1000),
)
def test_any_matrix_is_approached_from_below(n, rank, max_columns, block, rule, seed):
    matrix = low_rank(n, rank, seed=seed)
    result, columns = factored(matrix, max_columns, rule, block=block)
    assert len(columns.flat) <= min(n, max_columns)
    rest = matrix - result.factor @ result.factor.mT
    scale = float(matrix.diagonal().max())
    assert float(torch.linalg.eigvalsh(rest)[0]) > -1e-9 * scale
    assert len(set(result.pivots.tolist())) == len(result.pivots)
