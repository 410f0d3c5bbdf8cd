"""LSQR against scipy's."""

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import lsqr as scipy_lsqr

from skconvgp.linalg import lsqr
from tests.helpers.tolerances import assert_close


def system(decay=0.7, n=40):
    """Return a matrix with decaying eigenvalues and a right-hand side."""
    generator = torch.Generator().manual_seed(0)
    square = torch.randn(n, n, generator=generator, dtype=torch.float64)
    vectors = torch.linalg.qr(square)[0]
    values = 100.0 * decay ** torch.arange(n, dtype=torch.float64) + 1e-3
    rhs = torch.randn(n, generator=generator, dtype=torch.float64)
    return (vectors * values) @ vectors.mT, rhs


def solve(matrix, rhs, atol, btol, max_iter=1000):
    return lsqr(lambda v: matrix @ v, rhs, atol=atol, btol=btol, max_iter=max_iter)


@pytest.mark.parametrize("atol", [0.0, 1e-3, 1e-2])
@pytest.mark.parametrize("btol", [0.5, 1e-1, 1e-3])
@pytest.mark.parametrize("decay", [0.9, 0.95, 0.99])
def test_stops_where_scipy_stops(atol, btol, decay):
    matrix, rhs = system(decay)
    x, n_iter, is_solved = solve(matrix, rhs, atol, btol, 12)
    expected = scipy_lsqr(
        matrix.numpy(), rhs.numpy(), atol=atol, btol=btol, conlim=0.0, iter_lim=12
    )
    assert n_iter == expected[2]
    assert_close(x, expected[0], kind="solve")
    assert is_solved == (expected[3] <= btol * float(rhs.norm()))


def test_exact_tolerances_solve_the_system():
    matrix, rhs = system(decay=0.9)
    x, _, is_solved = solve(matrix, rhs, 0.0, 1e-13)
    assert is_solved
    assert_close(x, np.linalg.solve(matrix.numpy(), rhs.numpy()), kind="solve")


def test_indefinite_matrix():
    matrix = torch.diag(torch.tensor([-1.0, 2.0, 3.0]).double())
    x, n_iter, is_solved = solve(matrix, torch.ones(3).double(), 0.0, 1e-12)
    assert (n_iter, is_solved) == (3, True)
    assert_close(x, [-1.0, 0.5, 1.0 / 3.0])


def test_right_hand_sides_that_need_no_iteration():
    matrix, rhs = system()
    x, n_iter, is_solved = solve(matrix, 0.0 * rhs, 1e-3, 1e-3)
    assert (float(x.abs().max()), n_iter, is_solved) == (0.0, 0, True)
    x, n_iter, is_solved = solve(0.0 * matrix, rhs, 1e-3, 1e-3)
    assert (float(x.abs().max()), n_iter, is_solved) == (0.0, 0, False)
