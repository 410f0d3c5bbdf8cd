"""Block conjugate gradients against dense solves and scipy's."""

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import cg as scipy_cg

from skconvgp.linalg import block_cg
from tests.helpers.tolerances import assert_close

N = 200


def positive_definite(condition, n=N):
    """Return a matrix with eigenvalues from 1 down to 1 / condition, evenly in logs."""
    generator = torch.Generator().manual_seed(0)
    square = torch.randn(n, n, generator=generator, dtype=torch.float64)
    vectors = torch.linalg.qr(square)[0]
    values = condition ** -torch.linspace(0.0, 1.0, n, dtype=torch.float64)
    return (vectors * values) @ vectors.mT


def columns(k, n=N):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(n, k, generator=generator, dtype=torch.float64)


def solve(matrix, rhs, tolerance=1e-6, max_iter=2000, precondition=lambda v: v):
    return block_cg(
        lambda v: matrix @ v,
        rhs,
        precondition,
        tolerance=tolerance,
        max_iter=max_iter,
    )


def true_residual(matrix, rhs, value):
    return (rhs - matrix @ value).norm(dim=0) / rhs.norm(dim=0)


@pytest.mark.parametrize(
    ("condition", "k"),
    [(1e2, 1), (1e4, 1), (1e6, 1)]
    + [(10.0**i, k) for i in (2, 4, 6, 8) for k in (7, 60)],
)
def test_residuals_are_true_and_below_the_tolerance(condition, k):
    matrix, rhs = positive_definite(condition), columns(k)
    solution = solve(matrix, rhs, max_iter=5000)
    residual = true_residual(matrix, rhs, solution.value)
    assert (residual <= 1e-6).all()
    rounding = 1e-15 * condition  # of a residual that is computed twice
    assert float((solution.residual - residual).abs().max()) <= rounding
    expected = torch.linalg.solve(matrix, rhs)
    error = (solution.value - expected).norm(dim=0) / rhs.norm(dim=0)
    assert (error <= 1e-6 * condition).all()


def test_one_column_takes_the_iterations_of_scipy():
    matrix, rhs = positive_definite(1e2), columns(1)
    for tolerance in (1e-2, 1e-4, 1e-6):
        seen = []
        expected, info = scipy_cg(
            matrix.numpy(), rhs[:, 0].numpy(), rtol=tolerance, callback=seen.append
        )
        solution = solve(matrix, rhs, tolerance)
        assert info == 0
        assert abs(solution.n_iter - len(seen)) <= 1
        np.testing.assert_allclose(
            solution.value[:, 0], expected, atol=2e2 * tolerance * float(rhs.norm())
        )


def test_columns_share_their_directions():
    matrix, rhs = positive_definite(1e4), columns(20)
    alone = solve(matrix, rhs[:, :1]).n_iter
    assert solve(matrix, rhs).n_iter < alone / 4


def test_preconditioner_takes_away_iterations():
    matrix, rhs = positive_definite(1e6), columns(3)
    values, vectors = torch.linalg.eigh(matrix)
    known = values.clamp(max=values[N // 2])  # a half of the spectrum is taken for one
    root = vectors / known
    near = solve(matrix, rhs, precondition=lambda v: root @ (vectors.mT @ v))
    plain = solve(matrix, rhs)
    assert near.n_iter < plain.n_iter / 2
    exact = solve(matrix, rhs, precondition=lambda v: torch.linalg.solve(matrix, v))
    assert exact.n_iter == 1


def test_scale_of_a_column_does_not_matter():
    matrix, rhs = positive_definite(1e4), columns(5)
    scales = torch.tensor([1e-150, 1e-8, 1.0, 1e8, 1e150], dtype=torch.float64)
    solution = solve(matrix, rhs * scales)
    assert (true_residual(matrix, rhs, solution.value / scales) <= 1e-6).all()


def test_equal_dependent_and_zero_columns():
    matrix, rhs = positive_definite(1e4), columns(3)
    zero = torch.zeros(N, 1, dtype=torch.float64)
    both = torch.cat([rhs, rhs[:, :1], rhs[:, :1] - rhs[:, 1:2], zero], dim=1)
    solution = solve(matrix, both, tolerance=1e-10)
    assert (solution.residual <= 1e-10).all()
    assert_close(solution.value[:, 3], solution.value[:, 0], kind="root")
    assert torch.equal(solution.value[:, 5:], zero)


def test_only_zeros_take_no_iteration():
    zeros = torch.zeros(N, 2, dtype=torch.float64)
    solution = solve(positive_definite(1e2), zeros)
    assert (solution.n_iter, float(solution.residual.sum())) == (0, 0.0)
    assert torch.equal(solution.value, zeros)


def test_column_that_is_done_is_left_alone():
    matrix, rhs = positive_definite(1e6), columns(2)
    easy = matrix @ torch.linalg.eigh(matrix)[1][:, -1:]
    seen = []

    def matmul(v):
        seen.append(v.shape[1])
        return matrix @ v

    solution = block_cg(
        matmul, torch.cat([easy, rhs], 1), lambda v: v, tolerance=1e-6, max_iter=2000
    )
    assert (solution.residual <= 1e-6).all()
    assert min(seen) < 3


@pytest.mark.parametrize("max_iter", [0, 1, 5])
def test_iterations_are_bounded_and_the_residual_is_told(max_iter):
    matrix, rhs = positive_definite(1e6), columns(4)
    solution = solve(matrix, rhs, max_iter=max_iter)
    assert solution.n_iter == max_iter
    residual = true_residual(matrix, rhs, solution.value)
    assert_close(solution.residual, residual)
    assert residual.max() > 1e-2


def test_what_rounding_does_not_allow_ends_soon():
    # A product with the solution, of norm up to 1e4, is right to 1e4 times 1e-16. The
    # residual of the iteration falls further: a run takes sqrt(condition) / 2 times
    # log(2 sqrt(condition) / tolerance) iterations at most, 2200, and in truth a tenth;
    # the second or third one does not help.
    matrix, rhs = positive_definite(1e4), columns(4)
    solution = solve(matrix, rhs, tolerance=1e-17, max_iter=100_000)
    assert solution.n_iter < 2200
    assert 1e-17 < float(solution.residual.max()) < 1e-11
    ratio = solution.residual / true_residual(matrix, rhs, solution.value)
    assert ((ratio > 0.5) & (ratio < 2.0)).all()  # both are rounding errors


def test_singular_system_without_a_solution_is_told():
    matrix = positive_definite(1e2)
    matrix[0] = matrix[:, 0] = 0.0
    rhs = columns(2)
    solution = solve(matrix, rhs)
    assert solution.value.isfinite().all()
    assert (solution.residual > 1e-3).all()


def test_singular_system_with_a_solution_is_solved():
    matrix = positive_definite(1e2)
    matrix[0] = matrix[:, 0] = 0.0
    rhs = matrix @ columns(2)
    solution = solve(matrix, rhs)
    assert (true_residual(matrix, rhs, solution.value) <= 1e-6).all()


def test_indefinite_matrix_is_told():
    matrix = positive_definite(1e2) - 0.5 * torch.eye(N, dtype=torch.float64)
    solution = solve(matrix, columns(2))
    assert solution.value.isfinite().all()
    assert (solution.residual > 1e-6).all()
