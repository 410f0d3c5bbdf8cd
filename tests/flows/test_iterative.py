"""The evidence by products against the evidence by factors."""

import math
from dataclasses import dataclass

import pytest
import torch

from skconvgp.flows import Rho
from skconvgp.flows._iterative import IterativeEvidence
from skconvgp.solvers import ConjugateGradient
from tests.helpers.oracles import smooth

N = 150


@dataclass(frozen=True)
class Products:
    """A matrix of which only products are known, and few columns."""

    matrix: torch.Tensor
    scale: float = 1.0

    @property
    def n_samples(self):
        return len(self.matrix)

    def diag(self):
        return self.matrix.diagonal() / self.scale

    def columns(self, numbers):
        return self.matrix[:, numbers] / self.scale

    def matmul(self, rhs):
        return self.matrix @ rhs / self.scale


def problem(n_targets):
    """Return a matrix with unequal prior variances, and targets."""
    gram, points = smooth(N, 0.3, 0)
    spread = torch.linspace(0.5, 1.6, N, dtype=torch.float64)
    targets = torch.sin(6.0 * points[:, :1] + torch.arange(n_targets))
    return 3.0 * spread[:, None] * gram * spread, targets


def dense_derivative(score):
    derivative = score.left @ score.right.mT + score.diag.diag()
    return (derivative + derivative.mT) / 2.0


@pytest.mark.parametrize("n_targets", [1, 3])
@pytest.mark.parametrize("noise", [1e-1, 1e-3])
def test_with_all_columns_it_is_exact(n_targets, noise):
    gram, targets = problem(n_targets)
    solver = ConjugateGradient(rank=N, tolerance=1e-10)
    found = IterativeEvidence(solver, 0.5).score_products(
        Products(gram), targets, noise
    )
    expected = Rho("evidence").score(gram, targets, noise)
    assert found.value == pytest.approx(expected.value, abs=1e-8)
    assert found.by_noise == pytest.approx(expected.by_noise, abs=1e-7)
    error = (dense_derivative(found) - expected.by_gram).norm()
    assert float(error) < 1e-6 * float(expected.by_gram.norm())


def test_with_few_columns_it_is_near():
    gram, targets = problem(2)
    gram = gram + 0.3 * gram.square()  # a slower spectrum
    exact = Rho("evidence", noise_variance=1e-2).score(gram, targets)
    change = gram.square()
    scale = float(gram.diagonal().mean())
    inverse = torch.linalg.inv(gram + 1e-2 * scale * torch.eye(N))
    size = float((inverse * change).sum()) / (2 * N)  # of the part that is estimated
    errors = {8: [], 256: []}
    for n_probes, told in errors.items():
        for seed in range(5):
            solver = ConjugateGradient(rank=12, n_probes=n_probes, random_state=seed)
            found = IterativeEvidence(solver, 1e-2).score_products(
                Products(gram), targets
            )
            difference = ((dense_derivative(found) - exact.by_gram) * change).sum()
            told += [found.value - exact.value, float(difference) / size]
    rms = {n: torch.tensor(told).square().mean().sqrt() for n, told in errors.items()}
    assert rms[256] < 0.03
    assert rms[256] < 0.5 * rms[8]


def test_a_multiple_of_the_matrix_changes_nothing():
    gram, targets = problem(1)
    objective = IterativeEvidence(ConjugateGradient(rank=30), 1e-2)
    one, other = (
        objective.score_products(Products(factor * gram), targets)
        for factor in (1.0, 50.0)
    )
    assert one.value == pytest.approx(other.value, rel=1e-9)
    assert one.by_noise == pytest.approx(other.by_noise, rel=1e-6)


def test_constant_targets_have_no_value():
    gram, targets = problem(1)
    objective = IterativeEvidence(ConjugateGradient(rank=30), 1e-2)
    score = objective.score_products(Products(gram), torch.zeros_like(targets))
    assert math.isnan(score.value)


def test_a_matrix_that_is_held_is_judged_exactly():
    gram, targets = problem(1)
    score = IterativeEvidence(ConjugateGradient(), 1e-2).score(gram, targets)
    assert (
        score.value == Rho("evidence", noise_variance=1e-2).score(gram, targets).value
    )
