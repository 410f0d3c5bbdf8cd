"""What is particular to the direct solver."""

import pytest
import torch

from skconvgp import ConvNetGPRegressor
from skconvgp.exceptions import JitterWarning, NotPSDError
from skconvgp.kernels import rbf
from skconvgp.linalg import DenseGram
from skconvgp.solvers import Cholesky
from tests.helpers.tolerances import assert_close


def indefinite(smallest):
    return DenseGram(torch.diag(torch.tensor([smallest, 1.0, 2.0]).double()))


def test_state_reports_the_jitter_and_solves_the_system_with_it():
    solver, gram = Cholesky(), indefinite(-3e-7)
    state = solver.init(gram, torch.zeros(3).double())
    assert state.jitter == pytest.approx(1e-6)
    rhs = torch.ones(3, 1).double()
    expected = 1.0 / (gram.matrix.diagonal() + state.jitter)
    assert_close(solver.solve(state, rhs).value[:, 0], expected, kind="solve")


def test_matrix_that_jitter_does_not_help_is_refused():
    with pytest.raises(NotPSDError):
        Cholesky().init(indefinite(-0.5), torch.zeros(3).double())


def test_single_precision():
    gram = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    state = Cholesky().init(DenseGram(gram), torch.tensor([0.5, 1.0]))
    expected = torch.linalg.inv(torch.tensor([[2.5, 1.0], [1.0, 4.0]]).double())
    solution = Cholesky().solve(state, torch.eye(2)).value
    assert solution.dtype == torch.float32
    assert_close(solution, expected, torch.float32, "solve")


def test_jitter_of_a_fit_is_in_its_report():
    X = [[0.0], [0.0], [1.0], [1.0]]
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=0.0)
    with pytest.warns(JitterWarning):
        gp.fit(X, [0.0, 0.0, 1.0, 1.0])
    assert 0.0 <= gp.fit_report_.jitter <= 1e-10
    assert gp.fit_report_.jitter == gp.solver_state_.jitter
