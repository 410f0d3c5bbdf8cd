"""What is particular to conjugate gradients: accuracy, preconditioners, estimates."""

import math
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

from skconvgp import ConvNetGPClassifier, ConvNetGPRegressor, gram_matrix
from skconvgp.exceptions import NotPSDError
from skconvgp.kernels import convnet, rbf
from skconvgp.linalg import DenseGram
from skconvgp.solvers import Cholesky, ConjugateGradient
from tests.helpers.deviations import plain as plainly
from tests.helpers.deviations import plain_cov
from tests.helpers.estimators import digits
from tests.helpers.probes import trace_with
from tests.helpers.tolerances import assert_close

N = 300  # samples
NETWORK = convnet(depth=2, kernel_size=3)
KINDS = ["pivoted_cholesky", "nystrom"]
every_kind = pytest.mark.parametrize("kind", KINDS)
NOISES = [1e-2, 1e-4]
# The smaller one is harder.
every_noise = pytest.mark.parametrize(
    "noise", [pytest.param(NOISES[0], marks=pytest.mark.slow), *NOISES[1:]]
)


def vectors(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))
    return X, np.sin(X).sum(1) + 0.05 * rng.normal(size=n)


@pytest.fixture(scope="module", params=["digits", "vectors"])
def data(request):
    """Return a scaled Gram matrix of a few hundred samples and right-hand sides."""
    if request.param == "digits":
        X, y = digits(N)
        gram, rhs = gram_matrix(NETWORK, X), np.eye(10)[y] - 0.1
    else:
        X, y = vectors(N)
        gram, rhs = gram_matrix(rbf(2.0), X), np.column_stack([y, y**2])
    gram = torch.as_tensor(gram).double()
    return gram / gram.diagonal().mean(), torch.as_tensor(rhs)


def same(n, noise):
    return torch.full((n,), noise, dtype=torch.float64)


def solved(gram, rhs, noise, **settings):
    solver = ConjugateGradient(**settings)
    return solver.solve(solver.init(DenseGram(gram), noise), rhs)


def residual_of(gram, rhs, noise, value):
    rest = rhs - gram @ value - noise[:, None] * value
    return float((rest.norm(dim=0) / rhs.norm(dim=0)).max())


@pytest.fixture(scope="module")
def plain(data):
    """Return the solutions without a preconditioner, by their noise."""
    return {
        noise: solved(*data, same(N, noise), preconditioner=None, max_iter=3000)
        for noise in NOISES
    }


@every_noise
@pytest.mark.parametrize("kind", [*KINDS, None])
def test_true_residual_is_below_the_tolerance_and_told(data, plain, noise, kind):
    gram, rhs = data
    settings = {"preconditioner": kind, "rank": 100}
    solution = solved(*data, same(N, noise), **settings) if kind else plain[noise]
    noise = same(N, noise)
    assert solution.converged
    assert solution.stats["residual"] <= 1e-6
    told = residual_of(gram, rhs, noise, solution.value)
    assert solution.stats["residual"] == pytest.approx(told, rel=1e-3)


@every_noise
@every_kind
def test_preconditioner_saves_iterations_and_rank_more(data, plain, noise, kind):
    solutions = [plain[noise]] + [
        solved(*data, same(N, noise), preconditioner=kind, rank=rank)
        for rank in (30, 150, N)
    ]
    counts = [solution.stats["iterations"] for solution in solutions]
    assert counts[1] < 0.8 * counts[0]
    assert counts[2] < 0.8 * counts[1]
    assert counts[3] <= (3 if kind == "pivoted_cholesky" else counts[2])


def test_noise_of_each_sample(data):
    gram, rhs = data
    noise = torch.logspace(-4, 1, N, dtype=torch.float64)
    solver = ConjugateGradient(tolerance=1e-9)
    state = solver.init(DenseGram(gram), noise)
    expected = torch.linalg.inv(gram + torch.diag(noise))
    assert_close(solver.solve(state, rhs).value, expected @ rhs, kind="root")
    assert_close(solver.inverse_diag(state), expected.diagonal(), kind="root")
    half = solver.half_solve(state, gram[:, :200])  # two blocks of columns
    form = gram[:, :200].mT @ expected @ gram[:, :200]
    assert_close(half.mT @ half, form, kind="root")


@every_noise
@every_kind
@pytest.mark.parametrize("n_lanczos", [30, 200])
def test_logdet_is_within_its_error(data, noise, kind, n_lanczos):
    gram, _ = data
    noise = same(N, noise)
    exact = float(torch.logdet(gram + torch.diag(noise)))
    errors, told = [], []
    for seed in range(4):
        solver = ConjugateGradient(
            preconditioner=kind,
            rank=60,
            n_lanczos=n_lanczos,
            random_state=seed,
        )
        value, error = solver.logdet_estimate(solver.init(DenseGram(gram), noise))
        errors.append(float(value) - exact)
        told.append(float(error))
    assert np.sqrt(np.mean(np.square(errors))) < 2.0 * np.mean(told)
    assert np.mean(told) < (0.1 if n_lanczos == 30 else 0.02) * abs(exact)


def test_more_probes_make_the_determinant_more_certain(data):
    # A preconditioner of so few columns leaves much to the probes: with all that the
    # usual rank takes of smooth data, errors are those of rounding.
    gram, _ = data
    errors = []
    for n_probes in (8, 128):
        solver = ConjugateGradient(rank=60, n_probes=n_probes)
        state = solver.init(DenseGram(gram), same(N, 1e-2))
        errors.append(float(solver.logdet_estimate(state)[1]))
    assert 0.1 < errors[1] < 0.5 * errors[0]


def test_one_probe_knows_no_error(data):
    solver = ConjugateGradient(n_probes=1, rank=60)
    state = solver.init(DenseGram(data[0]), same(N, 1e-2))
    value, error = solver.logdet_estimate(state)
    assert torch.isfinite(value)
    assert torch.isinf(error)


def test_determinant_and_solution_are_repeated_and_follow_the_seed(data):
    gram, rhs = data
    noise = same(N, 1e-2)

    def values(seed):
        solver = ConjugateGradient(random_state=seed, rank=60)
        state = solver.init(DenseGram(gram), noise)
        return solver.logdet(state), solver.solve(state, rhs).value

    first = values(0)
    for one, two in zip(first, values(0), strict=True):
        assert torch.equal(one, two)
    assert first[0] != values(1)[0]


def test_derivative_of_the_determinant_by_its_probes(data):
    gram, noise = data[0], 1e-2
    change = gram.square()  # of the matrix: any symmetric one
    inverse = torch.linalg.inv(gram + noise * torch.eye(N, dtype=torch.float64))
    exact = float((inverse * change).sum())
    errors = []
    for n_probes in (16, 256):
        solver = ConjugateGradient(rank=60, n_probes=n_probes)
        state = solver.init(DenseGram(gram), same(N, noise))
        value, error = trace_with(solver, state, change)
        assert abs(value - exact) < 4.0 * error
        errors.append(error)
        assert trace_with(solver, state, change) == (value, error)
    assert errors[1] < 0.4 * errors[0]
    assert errors[1] < 0.02 * exact


def test_a_better_preconditioner_makes_the_derivative_more_certain(data):
    gram, change = data[0], data[0].square()
    errors = []
    for rank in (20, 200):
        solver = ConjugateGradient(rank=rank)
        state = solver.init(DenseGram(gram), same(N, 1e-2))
        errors.append(trace_with(solver, state, change)[1])
    assert errors[1] < 0.5 * errors[0]


@every_kind
@pytest.mark.parametrize("lengthscale", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("noise", [1e-4, 1e-8])
def test_evidence_where_the_noise_is_far_below_what_columns_leave(
    noise, lengthscale, kind
):
    points = torch.as_tensor(vectors(500)[0])
    squares = torch.cdist(points, points).square() / lengthscale**2
    gram = torch.exp(-squares / 2.0)
    change = squares * gram  # by the logarithm of the lengthscale
    inverse = torch.linalg.inv(gram + same(500, noise).diag())
    solver = ConjugateGradient(preconditioner=kind, rank=50, max_iter=3000)
    state = solver.init(DenseGram(gram), same(500, noise))
    slope, error = trace_with(solver, state, change)
    exact = float((inverse * change).sum())
    assert slope == pytest.approx(exact, abs=4.0 * error)
    assert error < 0.1 * abs(exact)
    value, error = (float(number) for number in solver.logdet_estimate(state))
    determinant = -float(torch.logdet(inverse))
    assert value == pytest.approx(determinant, abs=4.0 * error)
    assert error < 0.1 * 500


def test_derivative_by_probes_is_exact_where_the_preconditioner_is_the_matrix():
    X, _ = vectors(60)
    gram = torch.as_tensor(gram_matrix(rbf(2.0), X))
    solver = ConjugateGradient(tolerance=1e-10)
    state = solver.init(DenseGram(gram), same(60, 1e-3))
    change = gram.square()
    inverse = torch.linalg.inv(gram + same(60, 1e-3).diag())
    value, error = trace_with(solver, state, change)
    exact = float((inverse * change).sum())
    assert value == pytest.approx(exact, rel=1e-6)
    assert error < 1e-6 * exact


def test_as_many_columns_as_samples_is_direct():
    X, _ = vectors(60)
    gram = torch.as_tensor(gram_matrix(rbf(2.0), X))
    noise = same(60, 1e-3)
    solver = ConjugateGradient(tolerance=1e-10)
    state = solver.init(DenseGram(gram), noise)
    exact = Cholesky().init(DenseGram(gram), noise)
    rhs = torch.eye(60, dtype=torch.float64)
    solution = solver.solve(state, rhs)
    assert solution.stats["iterations"] <= 2.0
    assert_close(solution.value, Cholesky().solve(exact, rhs).value, kind="solve")
    assert_close(solver.logdet(state), Cholesky().logdet(exact), kind="solve")


def test_matrix_is_asked_for_products_and_few_columns_only(data):
    gram, rhs = data
    asked = []

    class Operator:
        n_samples = N

        def diag(self):
            return gram.diagonal()

        def columns(self, numbers):
            asked.extend(numbers.tolist())
            return gram[:, numbers]

        def matmul(self, columns):
            return gram @ columns

    solver = ConjugateGradient(rank=80)
    state = solver.init(Operator(), same(N, 1e-2))
    assert len(asked) == len(set(asked)) <= 80
    expected = solved(gram, rhs, same(N, 1e-2), rank=80)
    assert_close(solver.solve(state, rhs).value, expected.value)
    solver.half_solve(state, rhs)
    solver.logdet(state)
    solver.inverse_diag(state)
    assert len(asked) <= 80


@dataclass(frozen=True)
class LowRankGram:
    """The matrix F F^T, of which only F is held."""

    factor: torch.Tensor

    @property
    def n_samples(self):
        return len(self.factor)

    def dense(self):
        return self.factor @ self.factor.mT

    def diag(self):
        return self.factor.square().sum(1)

    def columns(self, indices):
        return self.factor @ self.factor[indices].mT

    def matmul(self, rhs):
        return self.factor @ (self.factor.mT @ rhs)


def test_low_rank_matrix():
    generator = torch.Generator().manual_seed(0)
    factor = torch.randn(300, 20, generator=generator, dtype=torch.float64)
    rhs = torch.randn(300, 3, generator=generator, dtype=torch.float64)
    gram, noise = LowRankGram(factor), same(300, 1e-3)
    solver = ConjugateGradient()
    solution = solver.solve(solver.init(gram, noise), rhs)
    assert solution.stats["iterations"] <= 2.0
    expected = torch.linalg.solve(gram.dense() + torch.diag(noise), rhs)
    assert_close(solution.value, expected, kind="root")


def test_dense_operator_agrees_with_its_matrix():
    generator = torch.Generator().manual_seed(0)
    factor = torch.randn(12, 4, generator=generator, dtype=torch.float64)
    matrix, indices = factor @ factor.mT, torch.tensor([7, 0, 7])
    operator = DenseGram(matrix)
    assert_close(operator.diag(), matrix.diagonal())
    assert_close(operator.columns(indices), matrix[:, indices])
    assert_close(operator.matmul(matrix[:, :5]), matrix @ matrix[:, :5])


def test_too_few_iterations_are_told(data):
    gram, rhs = data
    noise = same(N, 1e-4)
    solution = solved(gram, rhs, noise, max_iter=3, rank=50)
    assert not solution.converged
    assert solution.stats["iterations"] == 3.0
    told = residual_of(gram, rhs, noise, solution.value)
    assert solution.stats["residual"] == pytest.approx(told)
    assert told > 1e-3


def test_deviations_of_too_few_iterations_are_too_large():
    X, y = vectors(300)
    new, _ = vectors(20, seed=1)
    exact = ConvNetGPRegressor(rbf(2.0), amplitude=1.0, noise_variance=1e-3).fit(X, y)
    solver = ConjugateGradient(max_iter=2, rank=20, deviations="solve")
    with pytest.warns(
        ConvergenceWarning, match=r"max_iter=2, .*\) did not .*residual 0\.77"
    ):
        gp = ConvNetGPRegressor(
            rbf(2.0), amplitude=1.0, noise_variance=1e-3, solver=solver
        ).fit(X, y)
    theirs = exact.predict(new, return_std=True)[1]
    with pytest.warns(ConvergenceWarning, match="deviations, .* are inexact"):
        ours = gp.predict(new, return_std=True)[1]
    assert (ours > theirs).all()


def test_without_noise_and_with_equal_samples_is_told():
    X, y = vectors(150)
    X, y = np.vstack([X, X[:20]]), np.concatenate([y, y[:20] + 1.0])
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        gp = ConvNetGPRegressor(rbf(2.0), solver="cg", noise_variance=0.0).fit(X, y)
    assert np.isfinite(gp.predict(X)).all()


def test_what_follows_from_a_fit_that_did_not_converge_is_told():
    X, y = vectors(150)
    few = ConjugateGradient(max_iter=3, rank=5, deviations="solve")
    gp = ConvNetGPRegressor(rbf(2.0), solver=few, noise_variance=1e-4)
    with pytest.warns(ConvergenceWarning, match="did not converge"):
        gp.fit(X, y)
    gp.predict(X)  # that of the last iterate, of which `fit` has told
    with pytest.warns(ConvergenceWarning, match="did not converge in `fit`"):
        gp.predict(X, return_std=True)
    with pytest.raises(ValueError, match="Leave-one-out predictions need"):
        gp.loo_predict()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gp.set_params(solver="cg").fit(X, y).predict(X, return_std=True)


@every_noise
@every_kind
def test_regressor_agrees_with_the_direct_solver(noise, kind):
    X, y = vectors(N)
    new, _ = vectors(100, seed=1)
    # With as many columns as samples, the default here, nothing would be iterated.
    solver = ConjugateGradient(preconditioner=kind, rank=60, deviations="solve")
    weights = np.random.default_rng(2).uniform(0.2, 4.0, N)
    fitted = [
        ConvNetGPRegressor(rbf(2.0), solver=s, noise_variance=noise).fit(
            X, y, sample_weight=weights
        )
        for s in (solver, "cholesky")
    ]
    ours, exact = (gp.predict(new, return_std=True) for gp in fitted)
    np.testing.assert_allclose(ours[0], exact[0], atol=1e-4 * np.ptp(exact[0]))
    # Their factors are of 64 left-out samples, and of all.
    one, other = (
        plainly(gp, found[1]) for gp, found in zip(fitted, (ours, exact), strict=True)
    )
    np.testing.assert_allclose(one, other, rtol=1e-2)


@every_noise
def test_classifier_agrees_with_the_direct_solver(noise):
    X, y = digits(600)
    few = ConjugateGradient(rank=60, deviations="solve")
    ours, exact = (
        ConvNetGPClassifier(NETWORK, solver=s, noise_variance=noise).fit(
            X[:500], y[:500]
        )
        for s in (few, "cholesky")
    )
    assert ours.fit_report_.iterations > 10
    assert ours.temperature_ == pytest.approx(exact.temperature_, rel=1e-4)
    mean, std = ours.predict_latent(X[500:], return_std=True)
    mean_exact, std_exact = exact.predict_latent(X[500:], return_std=True)
    np.testing.assert_allclose(mean, mean_exact, atol=1e-4 * np.ptp(mean_exact))
    np.testing.assert_allclose(std, std_exact, rtol=1e-2)
    probability = exact.predict_proba(X[500:])
    np.testing.assert_allclose(ours.predict_proba(X[500:]), probability, atol=1e-4)


def test_joint_covariance_of_many_blocks_is_positive(monkeypatch):
    monkeypatch.setattr("skconvgp.solvers._cg.ROOT_BLOCK", 16)
    X, y = vectors(300)
    new, _ = vectors(60, seed=1)
    fitted = [
        ConvNetGPRegressor(rbf(2.0), solver=s, noise_variance=1e-2).fit(X, y)
        for s in ("cg", "cholesky")
    ]
    ours, exact = (plain_cov(gp, gp.predict(new, return_cov=True)[1]) for gp in fitted)
    assert_close(ours, exact, kind="root")
    assert np.linalg.eigvalsh(ours).min() > -1e-7 * ours.max()


def test_few_steps_and_probes_leave_bounds_bounds():
    X, y = vectors(800)
    new, _ = vectors(200, seed=1)
    exact = ConvNetGPRegressor(rbf(2.0), noise_variance=1e-2).fit(X, y)
    least = plainly(exact, exact.predict(new, return_std=True)[1])
    for rank in (5, 50):
        solver = ConjugateGradient(rank=rank, n_probes=1, n_lanczos=8)
        gp = ConvNetGPRegressor(rbf(2.0), noise_variance=1e-2, solver=solver)
        std = plainly(gp, gp.fit(X, y).predict(new, return_std=True)[1])
        assert (std >= (1.0 - 1e-6) * least).all()
        assert gp.fit_report_.deviation_excess > 0.0


def test_a_matrix_that_is_not_positive_definite_is_told():
    for seed in range(8):  # in some of them the columns show it
        some = np.random.default_rng(seed).normal(size=(100, 100))
        gram = some + some.T + 3.5 * np.eye(100)
        solver = ConjugateGradient(rank=15)
        gp = ConvNetGPRegressor(kernel="precomputed", solver=solver)
        told = (NotPSDError, ConvergenceWarning)  # the second is an error here
        with pytest.raises(told, match="not positive"):
            gp.fit(gram, some[:, 0])


@pytest.mark.parametrize("wrong", ["ilu", 3, True, np.zeros(2)])
def test_unknown_preconditioner_is_refused(wrong):
    X, y = vectors(20)
    solver = ConjugateGradient(preconditioner=wrong)
    with pytest.raises(ValueError, match="'preconditioner' parameter of Conjugate"):
        ConvNetGPRegressor(rbf(1.0), solver=solver).fit(X, y)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("tolerance", 5.0),
        ("tolerance", math.nan),
        ("tolerance", 0.0),
        ("tolerance", "small"),
        ("max_iter", 0),
        ("max_iter", 2.5),
        ("n_probes", 0),
        ("n_lanczos", 0),
        ("n_lanczos", 7),
        ("random_state", None),
        ("random_state", 2**64),
        ("deviations", "root"),
    ],
)
def test_wrong_settings_are_refused(name, wrong):
    X, y = vectors(20)
    solver = ConjugateGradient(**{name: wrong})
    with pytest.raises(ValueError, match=f"'{name}' parameter of ConjugateGradient"):
        ConvNetGPRegressor(rbf(1.0), solver=solver).fit(X, y)


@pytest.mark.parametrize("wrong", ["all", 0, -3, 2.5, True])
def test_wrong_rank_is_refused(wrong):
    X, y = vectors(20)
    with pytest.raises(ValueError, match="'rank' parameter of ConjugateGradient"):
        ConvNetGPRegressor(rbf(1.0), solver=ConjugateGradient(rank=wrong)).fit(X, y)
