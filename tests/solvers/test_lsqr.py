"""What is particular to LSQR: it stops early."""

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

from skconvgp import ConvNetGPClassifier, ConvNetGPRegressor, gram_matrix
from skconvgp.kernels import convnet, rbf
from skconvgp.linalg import DenseGram
from skconvgp.solvers import Lsqr
from tests.helpers.deviations import plain
from tests.helpers.estimators import digits
from tests.helpers.tolerances import assert_close


@pytest.fixture(scope="module")
def system():
    """Return the scaled Gram matrix of 150 digits, its noise and one-hot labels."""
    X, y = digits(150)
    gram = torch.as_tensor(gram_matrix(convnet(depth=2, kernel_size=3), X))
    gram = gram.double() / gram.diagonal().mean()
    rhs = torch.eye(10, dtype=torch.float64)[torch.as_tensor(y)] - 0.1
    return DenseGram(gram), torch.full((150,), 1e-4, dtype=torch.float64), rhs


def test_default_tolerances_leave_most_of_the_right_hand_side(system):
    gram, noise, rhs = system
    solver = Lsqr()
    solution = solver.solve(solver.init(gram, noise), rhs)
    assert not solution.converged
    assert solution.stats["iterations"] <= 15
    residual = rhs - (gram.matrix + torch.diag(noise)) @ solution.value
    largest = float((residual.norm(dim=0) / rhs.norm(dim=0)).max())
    assert solution.stats["residual"] == pytest.approx(largest)
    assert largest > 0.3


def test_tolerance_of_the_right_hand_side_alone_converges(system):
    gram, noise, rhs = system
    solver = Lsqr(atol=0.0, max_iter=2000)
    solution = solver.solve(solver.init(gram, noise), rhs)
    assert solution.converged
    assert solution.stats["residual"] <= 1.001e-3
    assert solution.stats["iterations"] > 50


def test_iterations_are_bounded(system):
    gram, noise, rhs = system
    solver = Lsqr(atol=0.0, max_iter=4)
    solution = solver.solve(solver.init(gram, noise), rhs)
    assert (solution.converged, solution.stats["iterations"]) == (False, 4.0)
    expected = [Lsqr(atol=0.0, max_iter=4).solve(solver.init(gram, noise), rhs[:, :1])]
    assert_close(solution.value[:, :1], expected[0].value)


def test_right_hand_side_of_zeros():
    solver = Lsqr()
    state = solver.init(DenseGram(torch.eye(3)), torch.ones(3))
    solution = solver.solve(state, torch.zeros(3, 2))
    assert solution.converged
    assert torch.equal(solution.value, torch.zeros(3, 2))
    assert solution.stats == {"iterations": 0.0, "residual": 0.0}


def test_word_warns_and_loses_accuracy():
    X, y = digits(400)
    kernel = convnet(depth=2, kernel_size=3)
    exact = ConvNetGPClassifier(kernel).fit(X[:300], y[:300])
    with pytest.warns(ConvergenceWarning, match=r"Lsqr\(\) did not converge, .*resid"):
        gp = ConvNetGPClassifier(kernel, solver="lsqr").fit(X[:300], y[:300])
    assert gp.solver_ == Lsqr()
    assert gp.score(X[300:], y[300:]) < exact.score(X[300:], y[300:]) - 0.02


def test_deviations_and_evidence_are_those_of_the_direct_solver():
    X = np.linspace(0.0, 4.0, 30)[:, None]
    y = np.sin(X[:, 0])
    with pytest.warns(ConvergenceWarning):
        gp = ConvNetGPRegressor(rbf(1.0), solver="lsqr").fit(X, y)
    exact = ConvNetGPRegressor(rbf(1.0), noise_variance=1e-2).fit(X, y)
    assert_close(gp.amplitude_, exact.amplitude_, kind="solve")
    ours, theirs = gp.log_marginal_likelihood(), exact.log_marginal_likelihood()
    assert ours == pytest.approx(theirs, rel=1e-6)
    new = X + 0.05
    deviations = (plain(m, m.predict(new, return_std=True)[1]) for m in (gp, exact))
    assert_close(*deviations, kind="solve")


@pytest.mark.parametrize("name", ["atol", "btol"])
@pytest.mark.parametrize("wrong", [-1.0, np.inf, np.nan, "small", False, None])
def test_wrong_tolerances_are_refused(name, wrong):
    refused(name, wrong)


@pytest.mark.parametrize("wrong", [0, -1, 2.5, True, "all"])
def test_wrong_iterations_are_refused(wrong):
    refused("max_iter", wrong)


def refused(name, wrong):
    X = np.arange(5.0)[:, None]
    with pytest.raises(ValueError, match=f"'{name}' parameter of Lsqr must be"):
        ConvNetGPRegressor(rbf(1.0), solver=Lsqr(**{name: wrong})).fit(X, X[:, 0])
