"""Low rank and a diagonal against dense linear algebra."""

import pytest
import torch

from skconvgp.linalg import LowRankPlusDiagonal
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


def test_factor_with_dependent_columns():
    generator = torch.Generator().manual_seed(0)
    factor = torch.randn(N, 3, generator=generator, dtype=torch.float64)
    twice = torch.cat([factor, factor], dim=1) / 2.0**0.5
    diagonal = torch.full((N,), 1e-4, dtype=torch.float64)
    one, two = (LowRankPlusDiagonal.from_factor(f, diagonal) for f in (factor, twice))
    assert_close(two.solve(columns()), one.solve(columns()), kind="solve")
    assert_close(two.logdet(), one.logdet())
