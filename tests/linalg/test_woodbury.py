"""Low rank and a diagonal against dense linear algebra."""

from dataclasses import replace

import pytest
import torch

from skconvgp.linalg import BoundedInverse, LowRankPlusDiagonal
from tests.helpers.tolerances import assert_close

N = 40


@pytest.fixture(params=[0, 1, 7, N])
def pair(request):
    generator = torch.Generator().manual_seed(0)
    factor = torch.randn(N, request.param, generator=generator, dtype=torch.float64)
    diagonal = torch.linspace(0.01, 3.0, N, dtype=torch.float64)
    near = LowRankPlusDiagonal.from_factor(factor, diagonal)
    return near, factor @ factor.mT + torch.diag(diagonal)


def columns():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(N, 5, generator=generator, dtype=torch.float64)


def test_solve(pair):
    near, matrix = pair
    assert_close(
        near.solve(columns()), torch.linalg.solve(matrix, columns()), kind="solve"
    )


def test_logdet(pair):
    near, matrix = pair
    assert_close(near.logdet(), torch.logdet(matrix), kind="solve")


def test_root_whitens(pair):
    near, matrix = pair
    eye = torch.eye(N, dtype=torch.float64)
    assert_close(near.whiten(matrix @ near.whiten_transposed(eye)), eye, kind="solve")
    assert_close(near.whiten_transposed(eye), near.whiten(eye).mT)
    assert_close(near.whiten(near.unwhiten(eye)), eye, kind="solve")


def test_factor_with_dependent_columns():
    generator = torch.Generator().manual_seed(0)
    factor = torch.randn(N, 3, generator=generator, dtype=torch.float64)
    twice = torch.cat([factor, factor], dim=1) / 2.0**0.5
    diagonal = torch.full((N,), 1e-4, dtype=torch.float64)
    one, two = (LowRankPlusDiagonal.from_factor(f, diagonal) for f in (factor, twice))
    assert_close(two.solve(columns()), one.solve(columns()), kind="solve")
    assert_close(two.logdet(), one.logdet())


@pytest.mark.parametrize("rank", [1, 7, N])
def test_bounded_inverse_is_nowhere_above_and_right_in_its_span(rank):
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(N, N, generator=generator, dtype=torch.float64)
    diagonal = torch.linspace(0.5, 3.0, N, dtype=torch.float64)
    matrix = root @ root.mT + torch.diag(diagonal)
    near = LowRankPlusDiagonal.from_factor(root[:, :rank], diagonal)
    eye = torch.eye(N, dtype=torch.float64)
    white = near.whiten(matrix @ near.whiten_transposed(eye))
    ceiling = float(torch.linalg.eigvalsh(white)[-1])
    found = BoundedInverse.from_products(near, lambda v: matrix @ v)
    half = replace(found, ceiling=ceiling).half_solve(near, eye)
    inverse = torch.linalg.inv(matrix)
    excess = inverse - half.mT @ half
    assert torch.linalg.eigvalsh(excess).min() > -1e-10 * inverse.norm()
    inside = matrix @ (near.scale[:, None] * near.vectors)
    assert float((excess @ inside).abs().max()) < 1e-9
    assert (float(excess.norm()) < 1e-9) == (rank == N)


def test_bounded_inverse_of_a_singular_matrix_is_finite():
    factor = torch.ones(N, 2, dtype=torch.float64)
    diagonal = torch.full((N,), 1e-300, dtype=torch.float64)
    near = LowRankPlusDiagonal.from_factor(factor, diagonal)
    found = BoundedInverse.from_products(near, lambda v: 0.0 * v + v.mean(0))
    half = replace(found, ceiling=1.0).half_solve(near, columns())
    assert half.isfinite().all()
