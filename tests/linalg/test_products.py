"""Products of thin matrices against dense ones."""

import numpy as np
import pytest
import torch

from skconvgp.linalg import (
    column_factor,
    product_change,
    psd_factor,
    pseudo_inverse_map,
    ridge_solve,
    row_factor,
    spread_rows,
)
from tests.helpers.oracles import seeded
from tests.helpers.tolerances import assert_close


def thin(n, *ranks, seed=0):
    generator = seeded(seed)
    return [torch.randn(n, r, generator=generator, dtype=torch.float64) for r in ranks]


def test_change_of_a_product():
    left, right, old_left, old_right = thin(30, 3, 3, 2, 2)
    old = old_left @ old_right.mT
    change, size = product_change(left, right, old_left, old_right)
    assert change == pytest.approx(float((left @ right.mT - old).square().sum()))
    assert size == pytest.approx(float(old.square().sum()))


def test_change_that_is_tiny_beside_the_product():
    left, right = thin(30, 3, 3)
    change, size = product_change(left * (1 + 1e-12), right, left, right)
    assert change / size == pytest.approx(1e-24, rel=0.05)


@pytest.mark.parametrize("rank", [1, 3, 6])
def test_psd_factor_is_the_nearest(rank):
    left, right = thin(30, 3, 3)
    product = left @ right.mT
    values, vectors = torch.linalg.eigh((product + product.mT) / 2)
    values = values.clamp(min=0.0)
    values[: 30 - rank] = 0.0
    factor = psd_factor(left, right, rank)
    assert factor.shape == (30, rank)
    assert_close(factor @ factor.mT, (vectors * values) @ vectors.mT, kind="solve")


@pytest.mark.parametrize("n", [2, 3, 30])
def test_pseudo_inverse_map(n):
    (rows,) = thin(n, 3)
    assert_close(
        pseudo_inverse_map(rows, 1e-12), torch.linalg.pinv(rows).mT, kind="solve"
    )


def test_a_ridge_in_the_pseudo_inverse():
    (rows,) = thin(30, 3)
    inner = rows.mT @ rows + 0.7 * torch.eye(3, dtype=torch.float64)
    expected = rows @ torch.linalg.inv(inner)
    assert_close(pseudo_inverse_map(rows, 1e-12, 0.7), expected, kind="solve")


def test_small_eigenvalues_are_cut():
    rows = torch.diag(torch.tensor([1.0, 1e-4]).double())
    expected = torch.diag(torch.tensor([1.0, 0.0]))
    assert_close(pseudo_inverse_map(rows, 1e-6), expected)
    assert not bool(pseudo_inverse_map(torch.zeros(3, 2), 1e-6).any())


def test_ridge_solve():
    (root, rhs), (own,) = thin(4, 3, 3, seed=1), thin(4, 3)
    gram = root.mT @ root
    made = ridge_solve(gram, rhs, 0.5, own)
    for row, b, v in zip(made, rhs, own, strict=True):
        system = gram + torch.outer(v, v) + 0.5 * torch.eye(3)
        assert_close(system @ row, b, kind="solve")
    grams = torch.stack([gram, 1e20 * gram])  # each has rounding errors of its own
    both = ridge_solve(grams, rhs.expand(2, 4, 3), 0.5, torch.stack([own, 0.0 * own]))
    assert_close(both[0], made, kind="solve")
    assert_close(both[1], ridge_solve(grams[1], rhs, 0.5, 0.0 * own), kind="solve")


@pytest.mark.parametrize(("n", "r", "rank"), [(4, 9, 4), (9, 4, 4), (6, 8, 3)])
def test_row_factor_has_the_same_products(n, r, rank):
    left, right = thin(n, rank)[0], thin(r, rank, seed=1)[0]
    rows = left @ right.mT
    factor = row_factor(rows)
    assert factor.shape == (n, min(n, r))
    assert torch.equal(factor, factor.tril())
    assert_close((factor @ factor.mT).numpy(), (rows @ rows.mT).numpy())


def test_rows_are_spread():
    near = torch.tensor([[9.0, 0.0], [9.1, 0.0], [8.9, 0.1], [0.0, 1.0], [0.0, 0.9]])
    assert spread_rows(near, 2).tolist() == [1, 3]
    assert spread_rows(near, 4).tolist()[:2] == [1, 3]
    assert sorted(spread_rows(near, 5).tolist()) == [0, 1, 2, 3, 4]
    assert sorted(spread_rows(torch.zeros(3, 2), 3).tolist()) == [0, 1, 2]


@pytest.mark.parametrize("rank", [1, 3, 6])
def test_column_factor_is_what_columns_tell(rank):
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(20, 4, generator=generator, dtype=torch.float64)
    gram, numbers = root @ root.mT, torch.tensor([3, 0, 17, 9, 5])
    factor = column_factor(gram[:, numbers], numbers, rank, 1e-9)
    assert factor.shape == (20, min(rank, 4))  # the rest is rounding
    values, vectors = np.linalg.eigh(gram[numbers][:, numbers].numpy())
    columns = gram[:, numbers].numpy() @ vectors[:, -min(rank, 4) :]
    expected = columns / values[-min(rank, 4) :] @ columns.T
    np.testing.assert_allclose(factor @ factor.mT, expected, rtol=0, atol=1e-9)
    if rank > 3:
        np.testing.assert_allclose(factor @ factor.mT, gram, rtol=0, atol=1e-9)


def test_column_factor_of_nothing_positive_is_zero():
    columns = torch.tensor([[-1.0], [3.0]], dtype=torch.float64)
    assert column_factor(columns, torch.tensor([0]), 1, 1e-6).tolist() == [[0.0], [0.0]]


def test_column_factor_takes_the_symmetric_part_and_no_negative_eigenvalues():
    columns = torch.tensor([[2.0, 1.0], [3.0, -0.5], [4.0, 4.0]], dtype=torch.float64)
    factor = column_factor(columns, torch.tensor([0, 1]), 2, 0.0)
    own = np.array([[2.0, 2.0], [2.0, -0.5]])
    values, vectors = np.linalg.eigh(own)
    assert factor.shape == (3, 1)
    expected = columns.numpy() @ vectors[:, 1:] / np.sqrt(values[1])
    np.testing.assert_allclose(factor.abs(), np.abs(expected))


def test_column_factor_leaves_out_eigenvalues_that_are_errors_of_the_columns():
    # Errors of 1e-3, by that of -1e-3: divided by 1e-5 they would be 0.1.
    root = torch.tensor([2.0, 0.0, 0.0] + 17 * [1.0], dtype=torch.float64)
    columns = torch.outer(root, torch.tensor([2.0, 0.0, 0.0], dtype=torch.float64))
    columns[[1, 2], [1, 2]] = torch.tensor([-1e-3, 1e-5], dtype=torch.float64)
    columns[3:, 1:] = 1e-3 * thin(17, 2)[0]
    factor = column_factor(columns, torch.arange(3), 3, 1e-6)
    assert_close(factor @ factor.mT, torch.outer(root, root))
