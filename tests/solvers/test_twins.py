"""Iterative solvers beside those of linear_operator, which GPyTorch is built on."""

import warnings

import numpy as np
import pytest
import torch

from skconvgp import gram_matrix
from skconvgp.kernels import rbf
from skconvgp.linalg import DenseGram, pivoted_cholesky
from skconvgp.solvers import ConjugateGradient
from tests.helpers.probes import trace_with
from tests.helpers.tolerances import assert_close

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of torch.jit
    from linear_operator import pivoted_cholesky as their_pivoted
    from linear_operator import settings, to_linear_operator

N, RANK, NOISE = 300, 40, 1e-1
N_PROBES, N_NEW = 200, 50


@pytest.fixture(scope="module")
def system():
    """Return a Gram matrix of vectors and right-hand sides."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 4))
    gram = torch.as_tensor(gram_matrix(rbf(1.5), X))
    return gram, torch.as_tensor(np.column_stack([np.sin(X).sum(1), X[:, 0] ** 2]))


@pytest.fixture
def iterates():
    """Have linear_operator iterate: it factors matrices as small as these."""
    torch.manual_seed(0)
    with (
        settings.max_cholesky_size(0),
        settings.min_preconditioning_size(0),
        settings.max_preconditioner_size(RANK),
        settings.cg_tolerance(1e-5),
        settings.max_cg_iterations(500),
        settings.max_lanczos_quadrature_iterations(60),
        settings.num_trace_samples(N_PROBES),
    ):
        yield


def ours(gram, **given):
    solver = ConjugateGradient(rank=RANK, n_probes=N_PROBES, tolerance=1e-8, **given)
    noise = torch.full((len(gram),), NOISE, dtype=torch.float64)
    return solver, solver.init(DenseGram(gram), noise)


def theirs(gram):
    noise = torch.full((len(gram),), NOISE, dtype=torch.float64)
    return to_linear_operator(gram).add_diagonal(noise)


@pytest.mark.parametrize("rank", [1, 10, 40])
def test_greedy_pivots_are_the_same(system, rank):
    gram, _ = system
    found = pivoted_cholesky(gram.diagonal(), lambda i: gram[:, i], rank)
    expected = their_pivoted(to_linear_operator(gram), rank)
    assert_close(found.factor @ found.factor.mT, expected @ expected.mT, kind="solve")


@pytest.mark.usefixtures("iterates")
def test_solutions_agree(system):
    gram, rhs = system
    solver, state = ours(gram)
    found = solver.solve(state, rhs).value
    expected = theirs(gram).solve(rhs)
    difference = (found - expected).norm(dim=0) / expected.norm(dim=0)
    assert (difference < 1e-4).all()  # theirs stop there


@pytest.mark.usefixtures("iterates")
@pytest.mark.parametrize("deviations", ["solve", "bound"])
def test_variances_agree_and_bounds_are_never_below(system, deviations):
    gram, _ = system
    known, new = gram[:-N_NEW, :-N_NEW], gram[:-N_NEW, -N_NEW:]
    solver, state = ours(known, deviations=deviations)
    prior = 1.0 + NOISE
    found = prior - solver.half_solve(state, new).square().sum(dim=0)
    expected = prior - theirs(known).inv_quad(new, reduce_inv_quad=False)
    assert expected.min() < 0.5 * prior  # something is known of them
    rounding = 1e-4 * prior  # theirs stop there
    assert (found > expected - rounding).all()
    most = {"solve": rounding, "bound": 0.1 * prior}[deviations]
    assert (found < expected + most).all()


@pytest.mark.usefixtures("iterates")
def test_determinants_agree_within_their_errors(system):
    gram, rhs = system
    solver, state = ours(gram)
    value, error = solver.logdet_estimate(state)
    quadratic, expected = theirs(gram).inv_quad_logdet(rhs, logdet=True)
    assert float(value) == pytest.approx(float(expected), abs=6.0 * float(error))
    solution = solver.solve(state, rhs).value
    assert float((rhs * solution).sum()) == pytest.approx(float(quadratic), rel=1e-4)
    exact = float(torch.logdet(gram + NOISE * torch.eye(N, dtype=torch.float64)))
    assert float(value) == pytest.approx(exact, abs=4.0 * float(error))


@pytest.mark.usefixtures("iterates")
def test_derivatives_of_determinants_agree(system):
    gram, _ = system
    scale = torch.ones((), dtype=torch.float64, requires_grad=True)
    squares = -2.0 * gram.log()  # of distances by the lengthscale
    theirs(torch.exp(-squares * scale / 2.0)).logdet().backward()
    change = -squares / 2.0 * gram
    inverse = torch.linalg.inv(gram + NOISE * torch.eye(N, dtype=torch.float64))
    exact = float((inverse * change).sum())
    solver, state = ours(gram)
    found, error = trace_with(solver, state, change)
    assert found == pytest.approx(exact, abs=4.0 * error)
    assert found == pytest.approx(float(scale.grad), abs=8.0 * error)
    assert error < 0.05 * abs(exact)
