"""The evidence by products against the evidence by factors."""

import math

import pytest
import torch

from skconvgp.flows import Rho
from skconvgp.flows._iterative import IterativeEvidence
from skconvgp.linalg import DenseGram
from skconvgp.solvers import ConjugateGradient
from tests.helpers.oracles import smooth

N = 150


def problem(n_targets):
    """Return a matrix with unequal prior variances, and targets."""
    gram, points = smooth(N, 0.3, 0)
    spread = torch.linspace(0.5, 1.6, N, dtype=torch.float64)
    targets = torch.sin(6.0 * points[:, :1] + torch.arange(n_targets))
    return 3.0 * spread[:, None] * gram * spread, targets


def scaled(gram):
    return DenseGram(gram / gram.diagonal().mean())


def evidence(solver, noise=1e-2):
    return IterativeEvidence(solver, is_held=True, noise_variance=noise)


def dense_derivative(score, gram):
    """Return the derivative by a matrix that was scaled."""
    derivative = score.left @ score.right.mT + score.diag.diag()
    return (derivative + derivative.mT) / (2.0 * gram.diagonal().mean())


@pytest.mark.parametrize("n_targets", [1, 3])
@pytest.mark.parametrize("noise", [1e-1, 1e-3])
def test_with_all_columns_it_is_exact(n_targets, noise):
    gram, targets = problem(n_targets)
    solver = ConjugateGradient(rank=N, tolerance=1e-10)
    found = evidence(solver, noise=0.5).score(scaled(gram), targets, noise)
    expected = Rho("evidence").score(gram, targets, noise)
    assert found.value == pytest.approx(expected.value, abs=1e-8)
    assert found.by_parameter == pytest.approx(expected.by_parameter, abs=1e-7)
    error = (dense_derivative(found, gram) - expected.by_gram).norm()
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
            found = evidence(solver).score(scaled(gram), targets)
            derivative = dense_derivative(found, gram)
            difference = ((derivative - exact.by_gram) * change).sum()
            told += [found.value - exact.value, float(difference) / size]
    rms = {n: torch.tensor(told).square().mean().sqrt() for n, told in errors.items()}
    assert rms[256] < 0.03
    assert rms[256] < 0.5 * rms[8]


def test_the_value_alone_is_the_same():
    gram, targets = problem(1)
    objective = evidence(ConjugateGradient(rank=30))
    whole = objective.score(scaled(gram), targets)
    alone = objective.score(scaled(gram), targets, has_slopes=False)
    assert alone.value == whole.value
    assert alone.left.numel() == 0
    assert whole.left.numel() > 0


def test_undefined_values_are_none():
    gram, targets = problem(1)
    objective = evidence(ConjugateGradient(rank=30))
    assert objective.score(scaled(gram), torch.zeros_like(targets)) is None
    for spoiled in (torch.full_like(gram, math.nan), -gram):
        assert objective.score(DenseGram(spoiled), targets) is None
    spoiled = gram / gram.diagonal().mean()
    spoiled[:3, 3:] = spoiled[3:, :3] = math.nan
    assert objective.score(DenseGram(spoiled), targets) is None


def test_what_does_not_converge_is_undefined():
    gram, targets = problem(1)
    few = ConjugateGradient(rank=3, max_iter=2)
    assert evidence(few, noise=1e-8).score(scaled(gram), targets) is None
