"""Low rank and a diagonal against dense linear algebra."""

from dataclasses import replace

import pytest
import torch

from skconvgp.linalg import BoundedInverse, LowRankPlusDiagonal
from tests.helpers.oracles import seeded
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


def test_inverse_is_exact_where_the_factor_leaves_nothing_out(pair):
    near, matrix = pair
    left, right, diagonal = near.inverse_near(matrix.diagonal())
    found = left @ right.mT + torch.diag(diagonal)
    assert_close(found @ matrix, torch.eye(N, dtype=torch.float64), kind="solve")


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


@pytest.mark.parametrize("rank", [1, 7, N - 1, N])
def test_left_out_variances_are_those_of_matrices_without_the_sample(rank):
    root = torch.randn(N, N, generator=seeded(), dtype=torch.float64)
    diagonal = torch.linspace(0.5, 3.0, N, dtype=torch.float64)
    matrix = root @ root.mT + torch.diag(diagonal)
    near = LowRankPlusDiagonal.from_factor(root[:, :rank], diagonal)
    found = BoundedInverse.from_products(near, lambda v: matrix @ v)
    numbers = torch.tensor([0, 3, N - 1])
    ceiling = 1.0 + float(torch.linalg.eigvalsh(matrix)[-1])
    variances = replace(found, ceiling=ceiling).left_out_variances(
        near, matrix[:, numbers], numbers, diagonal[numbers]
    )
    whole = near.scale[:, None] * matrix * near.scale
    for i, variance in zip(numbers.tolist(), variances.tolist(), strict=True):
        rest = torch.tensor([j for j in range(N) if j != i])
        part, vectors = whole[rest][:, rest], near.vectors[rest]
        if rank == N:  # N vectors of N - 1 entries: their span
            vectors = torch.eye(N - 1, dtype=torch.float64)
        inverse = vectors @ torch.linalg.inv(vectors.mT @ part @ vectors) @ vectors.mT
        outside = torch.eye(N - 1, dtype=torch.float64) - part @ inverse
        bounded = inverse + outside.mT @ outside / ceiling
        column = whole[rest, i]
        expected = whole[i, i] - column @ bounded @ column
        assert variance == pytest.approx(float(expected / near.scale[i] ** 2), rel=1e-9)
    exact = 1.0 / torch.linalg.inv(matrix).diagonal()[numbers]
    assert (variances >= exact * (1.0 - 1e-9)).all()
    if rank == N:
        assert_close(variances, exact, kind="solve")


def test_left_out_variance_of_a_sample_within_the_span():
    # The first sample is a vector of its own, which the others know nothing of.
    factor = torch.zeros(N, 3, dtype=torch.float64)
    factor[0, 0] = 2.0
    factor[1:, 1:] = torch.randn(N - 1, 2, generator=seeded(), dtype=torch.float64)
    noise = torch.full((N,), 0.1, dtype=torch.float64)
    matrix = factor @ factor.mT + torch.diag(noise)
    near = LowRankPlusDiagonal.from_factor(factor, noise)
    found = BoundedInverse.from_products(near, lambda v: matrix @ v)
    variances = replace(found, ceiling=1.0).left_out_variances(
        near, matrix, torch.arange(N), noise
    )
    assert float(variances[0]) == pytest.approx(4.1)
    exact = 1.0 / torch.linalg.inv(matrix).diagonal()
    assert_close(variances, exact, kind="solve")


@pytest.mark.parametrize("noise", [1e-6, 1e-11, 1e-12, 1e-14])
def test_left_out_variances_with_next_to_no_noise(noise):
    n, rank, ceiling = 300, 45, 1.5
    x = torch.linspace(-3.0, 3.0, n, dtype=torch.float64)[:, None]
    gram = torch.exp(-((x - x.mT) ** 2) / 2.0)
    values, vectors = torch.linalg.eigh(gram)
    factor = vectors[:, -rank:] * values[-rank:].clamp(min=0.0).sqrt()
    each = torch.full((n,), noise, dtype=torch.float64)
    near = LowRankPlusDiagonal.from_factor(factor, each)
    matrix = gram + torch.diag(each)
    found = BoundedInverse.from_products(near, lambda v: matrix @ v)
    numbers = torch.tensor([0, 40, 77, 150, 299])
    variances = replace(found, ceiling=ceiling).left_out_variances(
        near, matrix[:, numbers], numbers, each[numbers]
    )
    # Nearly all is known of a sample but its noise; at the ends of the line less.
    assert (variances >= noise).all()
    assert (variances <= 5.0 * noise).all()
    assert (variances[1:4] <= 1.5 * noise).all()


def test_bounded_inverse_of_a_singular_matrix_is_finite():
    factor = torch.ones(N, 2, dtype=torch.float64)
    diagonal = torch.full((N,), 1e-300, dtype=torch.float64)
    near = LowRankPlusDiagonal.from_factor(factor, diagonal)
    found = BoundedInverse.from_products(near, lambda v: 0.0 * v + v.mean(0))
    half = replace(found, ceiling=1.0).half_solve(near, columns())
    assert half.isfinite().all()
