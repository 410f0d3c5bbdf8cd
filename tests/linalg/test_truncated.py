"""Leading eigenpairs and singular vectors against whole decompositions."""

import pytest
import torch

from skconvgp.linalg import leading_eigenpairs, leading_right_vectors, widened
from tests.helpers.oracles import seeded
from tests.helpers.tolerances import assert_close

N = 520  # more than are decomposed whole


def rotated(values):
    root = torch.randn(N, len(values), generator=seeded(), dtype=torch.float64)
    basis = torch.linalg.qr(root).Q
    return (basis * torch.tensor(values).double()) @ basis.mT


def start(rank):
    return widened(torch.ones(N, 1).double(), rank, seeded(1))


@pytest.mark.parametrize("n", [20, N])
def test_leading_eigenpairs_are_the_algebraically_largest(n):
    # The largest one in size is negative.
    gram = rotated([5.0, 3.0, 2.0, 0.5, 0.1, -9.0, -4.0])[:n, :n]
    values, vectors = leading_eigenpairs(gram, start(3)[:n], max_rounds=60)
    expected = torch.linalg.eigvalsh(gram)[-3:].flip(0)
    assert_close(values, expected, kind="solve")
    assert_close(gram @ vectors, vectors * values, kind="root")
    assert_close(vectors.mT @ vectors, torch.eye(3))


def test_sum_of_eigenvalues_rises_round_by_round():
    gram = rotated([5.0, 4.9, 4.8, 4.7, 4.6, 4.5, -8.0])
    sums = [
        float(leading_eigenpairs(gram, start(3), max_rounds=n, rtol=0.0)[0].sum())
        for n in range(8)
    ]
    assert sums == sorted(sums)
    assert sums[-1] > sums[0]


def test_start_that_is_right_is_kept():
    gram = rotated([5.0, 3.0, 2.0])
    values, vectors = torch.linalg.eigh(gram)
    values, vectors = leading_eigenpairs(gram, vectors[:, -3:])
    assert_close(values, [5.0, 3.0, 2.0], kind="solve")


@pytest.mark.parametrize("n", [20, N])
def test_leading_right_vectors_span_those_of_the_decomposition(n):
    gram = rotated([5.0, 3.0, 2.0, 0.5])[:n].roll(1, dims=0)[:, :n]
    made = leading_right_vectors(gram, start(2)[:n], n_rounds=20)
    _, _, expected = torch.linalg.svd(gram)
    projector = expected[:2].mT @ expected[:2]
    assert_close(made @ made.mT, projector, kind="root")


@pytest.mark.parametrize("rank", [1, 2, 5])
def test_widened_columns_are_orthonormal_and_begin_with_the_given(rank):
    columns = torch.randn(N, 2, generator=seeded(), dtype=torch.float64)
    made = widened(columns, rank, seeded())
    assert_close(made.mT @ made, torch.eye(rank))
    known = columns[:, :rank]
    assert_close(made @ (made.mT @ known), known)
