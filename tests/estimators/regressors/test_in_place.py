"""Fits that hold one matrix in single precision, where two in double do not fit."""

import pickle

import numpy as np
import pytest

from skconvgp import ConvNetGPClassifier, ConvNetGPRegressor
from skconvgp.kernels import rbf
from skconvgp.solvers import Cholesky, ConjugateGradient, RefinedCholesky
from tests.helpers.deviations import plain
from tests.helpers.memory import needs_peak, peak_memory

N = 1500
FREE = 2 * 8 * N**2 - 1
KERNEL = rbf(1.0)
RNG = np.random.default_rng(0)
X, X_NEW = RNG.normal(size=(N, 4)), RNG.normal(size=(40, 4))
Y = np.sin(X).sum(1) + 0.05 * RNG.normal(size=N)
LITTLE = {"memory_budget": "4 MiB", "dtype": "float64"}


@pytest.fixture
def little_memory(monkeypatch):
    """Let free memory lack a byte of what matrix and factor need.

    Iterations, which may take over, solve for few columns at once, as they are as many
    as the matrix has otherwise.
    """
    monkeypatch.setattr("skconvgp.solvers._cg.BLOCK", 32)
    monkeypatch.setattr("skconvgp.solvers._preconditioners.DEFAULT_RANK", 50)
    for module in ("skconvgp.engine._devices", "skconvgp.processes._plan"):
        monkeypatch.setattr(f"{module}.free_memory", lambda device: FREE)


@pytest.fixture(scope="module")
def exact():
    """Return dense solutions in double precision: one fit, before memory is short."""
    gram = np.exp(-((X[:, None] - X) ** 2).sum(2) / 2.0) + 1e-2 * np.eye(N)
    cross = np.exp(-((X_NEW[:, None] - X) ** 2).sum(2) / 2.0)
    dual = np.linalg.solve(gram, (Y - Y.mean()) / Y.std())
    var = 1.0 - np.einsum("ij,ji->i", cross, np.linalg.solve(gram, cross.T))
    quadratic = dual @ (Y - Y.mean()) / Y.std()
    amplitude = quadratic / N
    evidence = -0.5 * (
        N * np.log(2.0 * np.pi * amplitude * Y.var()) + N + np.linalg.slogdet(gram)[1]
    )
    mean = cross @ dual * Y.std() + Y.mean()
    left_out = Y - dual / np.diag(np.linalg.inv(gram)) * Y.std()
    return mean, np.sqrt(var * amplitude) * Y.std(), evidence, left_out


def test_regressor_agrees_with_dense_algebra_and_tells_the_residual(
    exact, little_memory, monkeypatch
):
    monkeypatch.setattr(RefinedCholesky, "n_left_out", 300)
    gp = ConvNetGPRegressor(KERNEL, noise_variance=1e-2, **LITTLE).fit(X, Y)
    report = gp.fit_report_
    assert gp.solver_ == RefinedCholesky()
    assert report.solver == "RefinedCholesky"
    assert "one matrix in single precision" in report.solver_reason
    assert report.is_gram_held
    assert report.residual <= 1e-6
    assert f"residual {report.residual:.2g}" in str(report)
    assert gp.solver_state_.both.matrix.dtype == np.float32
    mean, std, evidence, left_out = exact
    found, deviations = gp.predict(X_NEW, return_std=True)
    np.testing.assert_allclose(found, mean, atol=1e-4)
    np.testing.assert_allclose(plain(gp, deviations), std, rtol=1e-3)
    missing = abs(gp.log_marginal_likelihood() - evidence)
    assert missing < 3.0 * report.evidence_error < 1.0
    assert gp._training.errors.sizes.shape == (1, 300)
    np.testing.assert_allclose(gp.loo_predict(), left_out, atol=1e-3)
    again = pickle.loads(pickle.dumps(gp))
    np.testing.assert_array_equal(again.predict(X_NEW), found)


def test_classifier_has_the_probabilities_of_the_direct_solver(
    monkeypatch, little_memory
):
    labels = np.digitize(Y, [-1.0, 1.0])
    gp = ConvNetGPClassifier(
        KERNEL, noise_variance=1e-2, solver="auto", random_state=0, **LITTLE
    ).fit(X, labels)
    assert gp.fit_report_.solver == "RefinedCholesky"
    found = gp.predict_proba(X_NEW)
    monkeypatch.undo()
    gp.set_params(solver=Cholesky()).fit(X, labels)
    np.testing.assert_allclose(found, gp.predict_proba(X_NEW), atol=1e-3)


def test_iterations_take_over_where_there_is_no_factor(
    exact, little_memory, monkeypatch
):
    monkeypatch.setattr("skconvgp.linalg._in_place.LEAST_PIVOT", 1e9)
    gp = ConvNetGPRegressor(KERNEL, noise_variance=1e-2, **LITTLE).fit(X, Y)
    assert isinstance(gp.solver_, ConjugateGradient)
    assert gp.fit_report_.solver == "ConjugateGradient"
    assert gp.fit_report_.is_gram_held
    assert "has no factor" in gp.fit_report_.solver_reason
    np.testing.assert_allclose(gp.predict(X_NEW), exact[0], atol=1e-4)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"noise_variance": 1e-6}, "ConjugateGradient"),
        ({"solve_dtype": "float32"}, "Cholesky"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_it_is_taken_only_where_it_is_of_use(settings, expected, little_memory):
    usual = {"noise_variance": 1e-2} | LITTLE | settings
    gp = ConvNetGPRegressor(rbf(30.0), solver="auto", **usual).fit(X, Y)
    assert gp.fit_report_.solver == expected


FIT = """
import numpy as np
import skconvgp.engine._devices, skconvgp.processes._plan
from skconvgp import ConvNetGPRegressor
from skconvgp.kernels import rbf
from skconvgp.solvers import RefinedCholesky

random = np.random.default_rng(0)
X, y = random.normal(size=({n}, 4)), random.normal(size={n})
gp = ConvNetGPRegressor(
    rbf(1.0), noise_variance=0.1, memory_budget="4 MiB", solver={solver}
)
gp.fit(X[:50], y[:50]).predict(X[:50], return_std=True)
if gp.solver == "auto":
    for module in (skconvgp.engine._devices, skconvgp.processes._plan):
        module.free_memory = lambda device: 16 * {n} ** 2 - 1
"""
CALL = """
gp.fit(X, y).predict(X[:500], return_std=True)
assert gp.fit_report_.solver == "RefinedCholesky"
"""


@needs_peak
@pytest.mark.parametrize("solver", ["'auto'", "RefinedCholesky()"])
def test_a_fit_holds_one_matrix(solver):
    n = 2500
    n_single, beside = RefinedCholesky().n_single_values(n)
    peak = peak_memory(FIT.format(n=n, solver=solver), CALL, is_second=True)
    assert peak <= 4 * n_single + 8 * beside + (4 + 8) * 2**20
    assert peak < 16 * n**2 / 2.0
