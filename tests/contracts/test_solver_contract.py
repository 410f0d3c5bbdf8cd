"""What every solver does, and a third-party one to prove the seam."""

import dataclasses
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from sklearn.base import clone

from skconvgp import ConvNetGPClassifier, ConvNetGPRegressor
from skconvgp._protocols import IterativeSolver, Solution, Solver
from skconvgp.kernels import rbf
from skconvgp.linalg import DenseGram
from skconvgp.solvers import Cholesky, ConjugateGradient, Lsqr
from tests.helpers.tolerances import assert_close


@dataclass(frozen=True)
class EigenState:
    values: torch.Tensor
    vectors: torch.Tensor
    jitter: float = 0.0


class EigenSolver:
    """Third-party solver: one eigendecomposition, no base class."""

    def init(self, gram, noise):
        return EigenState(*torch.linalg.eigh(gram.dense() + torch.diag(noise)))

    def solve(self, state, rhs):
        rotated = state.vectors.mT @ rhs
        return Solution(state.vectors @ (rotated / state.values[:, None]))

    def half_solve(self, state, rhs):
        return (state.vectors.mT @ rhs) / state.values.sqrt()[:, None]

    def logdet(self, state):
        return state.values.log().sum()

    def inverse_diag(self, state):
        return (state.vectors**2) @ (1.0 / state.values)


@dataclass(frozen=True)
class ProductsState:
    gram: object
    noise: torch.Tensor
    jitter: float = 0.0


class ProductsSolver:
    """Third-party iterative solver: products with the identity, anew in each call."""

    def init(self, gram, noise):
        return ProductsState(gram, noise)

    def _matrix(self, state):
        unit = torch.eye(len(state.noise)).to(state.noise)
        return state.gram.matmul(unit) + torch.diag(state.noise)

    def solve(self, state, rhs):
        return Solution(torch.linalg.solve(self._matrix(state), rhs))

    def half_solve(self, state, rhs):
        factor = torch.linalg.cholesky(self._matrix(state))
        return torch.linalg.solve_triangular(factor, rhs, upper=False)

    def logdet(self, state):
        return torch.logdet(self._matrix(state))

    def inverse_diag(self, state):
        return torch.linalg.inv(self._matrix(state)).diagonal()

    def n_values(self, n_samples):
        return 3 * n_samples  # of what it would hold if it did not cheat

    def inverse_diag_of(self, state, indices):
        return self.inverse_diag(state)[indices]

    def left_out_variances(self, state, indices):
        return None

    def logdet_estimate(self, state):
        return self.logdet(state), state.noise.new_zeros(())

    def inverse_factors(self, state):
        inverse = torch.linalg.inv(self._matrix(state))
        unit = torch.eye(len(inverse)).to(inverse)
        return inverse, unit, torch.zeros_like(inverse[0])

    def for_search(self):
        return self


class AlmostIterative(EigenSolver):
    """Third-party solver with some of the capabilities, which are not asked for."""

    n_values = ProductsSolver.n_values
    inverse_diag_of = ProductsSolver.inverse_diag_of


BUILT_IN = [
    Cholesky(),
    ConjugateGradient(tolerance=1e-12),
    Lsqr(atol=0.0, btol=1e-14, max_iter=1000),
]
SOLVERS = [*BUILT_IN, EigenSolver(), ProductsSolver()]
every_solver = pytest.mark.parametrize(
    "solver", SOLVERS, ids=lambda s: type(s).__name__
)

N = 33
NOISE = torch.linspace(0.01, 2.0, N, dtype=torch.float64)  # one for each sample


def system():
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(N, N, generator=generator, dtype=torch.float64)
    gram = root @ root.mT / N
    rhs = torch.randn(N, 4, generator=generator, dtype=torch.float64)
    return gram, rhs


def dense_system():
    gram, rhs = system()
    return gram.numpy() + np.diag(NOISE.numpy()), rhs.numpy()


def factored(solver):
    gram, rhs = system()
    return solver.init(DenseGram(gram), NOISE), rhs


def leaves(state):
    """Return the values of a dataclass and of the dataclasses that it holds."""
    for field in dataclasses.fields(state):
        value = getattr(state, field.name)
        if dataclasses.is_dataclass(value):
            yield from leaves(value)
        else:
            yield value


@every_solver
def test_is_a_solver(solver):
    assert isinstance(solver, Solver)
    names = {"ConjugateGradient", "ProductsSolver"}
    assert isinstance(solver, IterativeSolver) == (type(solver).__name__ in names)


@every_solver
def test_solve(solver):
    state, rhs = factored(solver)
    solution = solver.solve(state, rhs)
    matrix, right = dense_system()
    assert solution.converged
    assert_close(solution.value, np.linalg.solve(matrix, right), kind="solve")


@every_solver
def test_half_solve_is_a_root_of_the_quadratic_form(solver):
    state, rhs = factored(solver)
    half = solver.half_solve(state, rhs)
    matrix, right = dense_system()
    expected = right.T @ np.linalg.solve(matrix, right)
    assert half.shape[1] == rhs.shape[1]
    assert_close(half.mT @ half, expected, kind="solve")


@every_solver
def test_logdet(solver):
    state, _ = factored(solver)
    sign, expected = np.linalg.slogdet(dense_system()[0])
    assert sign == 1.0
    assert_close(solver.logdet(state), expected, kind="solve")


@every_solver
def test_inverse_diag(solver):
    state, _ = factored(solver)
    expected = np.diag(np.linalg.inv(dense_system()[0]))
    assert_close(solver.inverse_diag(state), expected, kind="solve")


@every_solver
def test_state_is_a_frozen_dataclass_of_tensors_and_numbers(solver):
    state, _ = factored(solver)
    assert all(isinstance(v, torch.Tensor | float | int) for v in leaves(state))
    assert state.jitter == 0.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        state.jitter = 1.0


@every_solver
def test_matrix_and_right_hand_side_are_left_as_they_were(solver):
    gram, rhs = system()
    before = gram.clone(), rhs.clone(), NOISE.clone()
    state = solver.init(DenseGram(gram), NOISE)
    solver.solve(state, rhs)
    solver.half_solve(state, rhs)
    for now, then in zip((gram, rhs, NOISE), before, strict=True):
        assert torch.equal(now, then)


@pytest.mark.parametrize("solver", BUILT_IN, ids=lambda s: type(s).__name__)
def test_built_in_solvers_are_parts_with_settings(solver):
    names = {field.name for field in dataclasses.fields(solver)}
    assert set(solver.get_params()) == names
    assert clone(solver) == solver
    assert eval(repr(solver), {type(solver).__name__: type(solver)}) == solver


def problem(n=25):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(n, 3))
    weights = generator.uniform(0.3, 3.0, n)
    return X, np.sin(X).sum(1), weights, generator.normal(size=(9, 3))


def regressor(solver):
    return ConvNetGPRegressor(rbf(2.0), solver=solver, noise_variance=1e-2)


@every_solver
def test_regressor_gives_what_the_default_solver_gives(solver):
    X, y, weights, X_new = problem()
    gp = regressor(solver).fit(X, y, sample_weight=weights)
    expected = regressor("auto").fit(X, y, sample_weight=weights)
    for mine, theirs in zip(
        gp.predict(X_new, return_std=True),
        expected.predict(X_new, return_std=True),
        strict=True,
    ):
        assert_close(mine, theirs, kind="solve")
    assert_close(gp.loo_predict(), expected.loo_predict(), kind="solve")
    assert gp.log_marginal_likelihood() == pytest.approx(
        expected.log_marginal_likelihood(), rel=1e-9
    )
    assert gp.fit_report_.jitter == 0.0


@every_solver
def test_fitted_estimator_is_pickled_with_the_state_as_arrays(solver):
    X, y, _, X_new = problem()
    gp = regressor(solver).fit(X, y)
    assert not any(isinstance(v, torch.Tensor) for v in leaves(gp.solver_state_))
    again = pickle.loads(pickle.dumps(gp))
    assert (again.predict(X_new, return_std=True)[1]
            == gp.predict(X_new, return_std=True)[1]).all()  # fmt: skip


@every_solver
def test_estimator_copies_its_solver(solver):
    X, y, _, _ = problem()
    gp = clone(regressor(solver))
    assert type(gp.get_params()["solver"]) is type(solver)
    gp.fit(X, y)
    assert gp.solver_ is not gp.solver


@every_solver
def test_classifier_gives_what_the_default_solver_gives(solver):
    X, y, _, X_new = problem()
    gp, expected = (
        ConvNetGPClassifier(rbf(2.0), noise_variance=1e-2, solver=s).fit(X, y > 0.0)
        for s in (solver, "auto")
    )
    assert gp.temperature_ == pytest.approx(expected.temperature_, rel=1e-6)
    assert_close(gp.predict_proba(X_new), expected.predict_proba(X_new), kind="solve")


ITERATIVE = [solver for solver in SOLVERS if isinstance(solver, IterativeSolver)]
every_iterative_solver = pytest.mark.parametrize(
    "solver", ITERATIVE, ids=lambda s: type(s).__name__
)
TIGHT = {"memory_budget": "4 KiB"}  # the matrix of 25 samples takes 5


@every_iterative_solver
def test_entries_and_estimates_of_an_iterative_solver(solver):
    matrix, _ = dense_system()
    state, _ = factored(solver)
    inverse, some = np.linalg.inv(matrix), torch.tensor([4, 0, 30])
    own = solver.inverse_diag_of(state, some)
    assert_close(own, inverse.diagonal()[some], kind="solve")
    left, right, diag = solver.for_search().inverse_factors(state)
    assert_close(left @ right.mT + torch.diag(diag), inverse, kind="solve")
    value, error = solver.logdet_estimate(state)
    assert float(error) <= 1e-9
    assert_close(value, np.linalg.slogdet(matrix)[1], kind="solve")
    bounds = solver.left_out_variances(state, some)
    if bounds is not None:
        assert_close(bounds, 1.0 / inverse.diagonal()[some], kind="solve")
    assert solver.n_values(N) > 0


@every_iterative_solver
def test_an_iterative_solver_needs_no_matrix(solver):
    X, y, weights, X_new = problem()
    gp = regressor(solver).set_params(**TIGHT).fit(X, y, sample_weight=weights)
    assert not gp.fit_report_.is_gram_held
    assert gp.solver_state_.gram is None
    expected = regressor("auto").fit(X, y, sample_weight=weights)
    for mine, theirs in zip(
        gp.predict(X_new, return_std=True),
        expected.predict(X_new, return_std=True),
        strict=True,
    ):
        assert_close(mine, theirs, kind="solve")
    assert_close(gp.loo_predict(), expected.loo_predict(), kind="solve")


def test_hyperparameters_are_learned_by_products(monkeypatch):
    X, y, _, _ = problem()
    calls = []
    own = ProductsSolver.inverse_factors

    def counted(self, state):
        calls.append(len(state.noise))
        return own(self, state)

    monkeypatch.setattr(ProductsSolver, "inverse_factors", counted)
    settings = {"optimizer": "evidence", "n_restarts_optimizer": 0}
    gp = regressor(ProductsSolver()).set_params(**settings, **TIGHT).fit(X, y)
    expected = regressor("auto").set_params(**settings).fit(X, y)
    assert calls
    assert gp.kernel_.theta == pytest.approx(expected.kernel_.theta, abs=1e-3)


def test_a_solver_with_some_of_the_capabilities_is_a_plain_one():
    X, y, _, X_new = problem()
    assert not isinstance(AlmostIterative(), IterativeSolver)
    gp = regressor(AlmostIterative()).set_params(**TIGHT).fit(X, y)
    assert gp.fit_report_.is_gram_held
    expected = regressor("auto").fit(X, y)
    assert_close(gp.predict(X_new), expected.predict(X_new), kind="solve")


@pytest.mark.parametrize("wrong", ["lu", 3, object()])
def test_what_is_no_solver_is_refused(wrong):
    X, y, _, _ = problem()
    with pytest.raises(ValueError, match="'solver' parameter of ConvNetGPRegressor"):
        regressor(wrong).fit(X, y)
