"""Hyperparameters chosen by `fit` on all samples."""

import warnings

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter
from scipy.stats import norm
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.model_selection import GridSearchCV

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    KernelFlowsClassifier,
    KernelFlowsRegressor,
    gram_matrix,
)
from skconvgp.completion import CoarseKernel, Nystrom
from skconvgp.display import RhoTraceDisplay
from skconvgp.engine import KernelOracle
from skconvgp.estimators.settings import _search
from skconvgp.exceptions import TileMemoryError
from skconvgp.flows import LBFGS, Adam, BayesianOptimization
from skconvgp.flows._iterative import IterativeEvidence
from skconvgp.kernels import arcsine, convnet, dense, rbf
from skconvgp.solvers import ConjugateGradient
from tests.helpers.estimators import DensePosterior, blobs, digits, wave

WIDTHS = np.geomspace(0.1, 10.0, 81)


def regressor(kernel=None, **settings):
    usual = {"optimizer": "evidence", "random_state": 0, "noise_variance": 1e-2}
    settings = usual | settings
    return ConvNetGPRegressor(rbf(1.0) if kernel is None else kernel, **settings)


def leave_one_out_density(gp, X, y):
    """Return the log density of each target given all others, one by one."""
    gram = gram_matrix(gp.kernel_, X, dtype="float64")
    noise = gp.noise_variance_ * np.eye(len(X)) * gram[0, 0]
    total = 0.0
    scaled = (y - gp.y_mean_) / gp.y_scale_
    residuals, variances = [], []
    for i in range(len(X)):
        rest = np.delete(np.arange(len(X)), i)
        solved = np.linalg.solve((gram + noise)[np.ix_(rest, rest)], gram[rest, i])
        residuals.append(scaled[i] - solved @ scaled[rest])
        variances.append(gram[i, i] + noise[i, i] - solved @ gram[rest, i])
    # The amplitude that this criterion profiles out is its own.
    variances = np.array(variances) * np.mean(np.square(residuals) / variances)
    total = norm.logpdf(residuals, scale=np.sqrt(variances)).sum()
    return total - len(X) * np.log(gp.y_scale_[0])


def test_evidence_finds_what_scikit_learn_finds():
    X, y = wave(80)
    gp = regressor(rbf(0.3), noise_variance="evidence").fit(X, y)
    twin = GaussianProcessRegressor(
        ConstantKernel(1.0, (1e-6, 1e6)) * RBF(0.3) + WhiteKernel(0.1),
        normalize_y=True,
        n_restarts_optimizer=3,
        random_state=0,
    ).fit(X, y)
    amplitude, white = twin.kernel_.k1.k1.constant_value, twin.kernel_.k2.noise_level
    expected = [twin.kernel_.k1.k2.length_scale, amplitude, white / amplitude]
    found = [gp.kernel_.lengthscale, gp.amplitude_ / gp.y_scale_[0] ** 2]
    found.append(gp.noise_variance_)
    np.testing.assert_allclose(np.log(found), np.log(expected), atol=1e-2)
    # scikit-learn's evidence is that of the targets it has scaled.
    evidence = gp.log_marginal_likelihood() + len(y) * np.log(gp.y_scale_[0])
    assert evidence >= twin.log_marginal_likelihood_value_ - 1e-4


def test_a_noise_that_is_a_number_is_held():
    X, y = wave(60)
    gp = regressor(noise_variance=0.02).fit(X, y)
    assert gp.noise_variance_ == 0.02
    assert gp.optimizer_result_.labels == ("lengthscale",)
    others = [
        ConvNetGPRegressor(rbf(width), noise_variance=0.02).fit(X, y)
        for width in WIDTHS
    ]
    evidences = [other.log_marginal_likelihood() for other in others]
    assert max(evidences) <= gp.log_marginal_likelihood() + 1e-9
    step = WIDTHS[1] / WIDTHS[0]
    assert 1 / step < gp.kernel_.lengthscale / WIDTHS[np.argmax(evidences)] < step


def test_leave_one_out_finds_the_best_density():
    X, y = wave(40)
    gp = regressor(optimizer="loo", noise_variance="loo").fit(X, y)
    found = leave_one_out_density(gp, X, y)
    assert -found / 40 - np.log(gp.y_scale_[0]) == pytest.approx(
        gp.optimizer_result_.rho, abs=1e-6
    )
    for width in (0.5, 0.9, 1.1, 2.0):
        for noise in (0.5, 0.9, 1.1, 2.0):
            settings = {"noise_variance": noise * gp.noise_variance_}
            other = ConvNetGPRegressor(rbf(width * gp.kernel_.lengthscale), **settings)
            assert leave_one_out_density(other.fit(X, y), X, y) < found


def test_the_process_is_that_of_the_kernel_and_noise_that_were_chosen():
    X, y = wave(40)
    gp = regressor(noise_variance="evidence").fit(X, y)
    result = gp.optimizer_result_
    assert result.labels == ("lengthscale", "noise_variance")
    assert gp.noise_variance_ == pytest.approx(result.values["noise_variance"])
    evidence = -result.rho * 40 - 40 * np.log(gp.y_scale_[0])
    assert gp.log_marginal_likelihood() == pytest.approx(evidence, abs=1e-8)
    dense = DensePosterior(
        gram_matrix(gp.kernel_, X, dtype="float64"),
        ((y - gp.y_mean_) / gp.y_scale_)[:, None],
        gp.noise_variance_,
    )
    X_test, _ = wave(9, seed=1)
    mean = dense.mean(gram_matrix(gp.kernel_, X_test, X, dtype="float64"))[:, 0]
    expected = mean * gp.y_scale_ + gp.y_mean_
    np.testing.assert_allclose(gp.predict(X_test), expected, rtol=1e-7)


@pytest.mark.parametrize(
    "settings",
    [
        {"noise_variance": "loo"},
        {"noise_variance": "evidence", "completion": Nystrom(n_landmarks=20)},
    ],
)
def test_a_word_that_the_search_does_not_settle_chooses_on_the_grid(settings):
    X, y = wave(40)
    gp = regressor(**settings).fit(X, y)
    settings |= {"random_state": 0}
    expected = ConvNetGPRegressor(gp.kernel_, **settings).fit(X, y).noise_variance_
    assert gp.noise_variance_ == expected
    assert gp.noise_variance_ != gp.optimizer_result_.values["noise_variance"]


def test_with_a_completion_the_kernel_is_that_of_all_samples():
    X, y = wave(40)
    exact = regressor().fit(X, y)
    completed = regressor(completion=Nystrom(n_landmarks=10)).fit(X, y)
    assert completed.kernel_ == exact.kernel_
    assert len(completed.landmark_indices_) == 10


def test_a_search_that_does_not_fit_in_memory_is_refused(monkeypatch):
    X, y = wave(40)
    monkeypatch.setattr("skconvgp.engine._devices.free_memory", lambda _: 6 * 8 * 1600)
    ConvNetGPRegressor(rbf(1.0)).fit(X, y)
    with pytest.raises(TileMemoryError, match="40 samples"):
        regressor().fit(X, y)


def test_the_best_of_several_searches_is_taken():
    X, y = wave(60)
    far = rbf(lengthscale=50.0, lengthscale_bounds=(1e-2, 1e2))
    settings = {"optimizer": LBFGS(max_iter=2), "noise_variance": "evidence"}
    alone = regressor(far, **settings).fit(X, y)
    many = regressor(far, n_restarts_optimizer=6, **settings).fit(X, y)
    again = regressor(far, n_restarts_optimizer=6, **settings).fit(X, y)
    other = regressor(far, n_restarts_optimizer=6, **settings | {"random_state": 1})
    assert many.log_marginal_likelihood() > alone.log_marginal_likelihood() + 1.0
    begun = alone.optimizer_result_.n_restarts  # from the best noise of the start
    assert many.optimizer_result_.n_restarts == begun + 6
    np.testing.assert_array_equal(
        many.optimizer_result_.theta_trace, again.optimizer_result_.theta_trace
    )
    theta = other.fit(X, y).optimizer_result_.theta_trace
    assert not np.array_equal(theta, many.optimizer_result_.theta_trace)
    assert many.optimizer_result_.start_theta[0] == pytest.approx(np.log(50.0))


@pytest.mark.parametrize("n_restarts", [0, 2])
def test_nothing_is_worse_than_the_start(n_restarts):
    X, y = wave(60)
    best = regressor().fit(X, y).kernel_
    far = Adam(max_iter=1, learning_rate=3.0)
    gp = regressor(best, optimizer=far, n_restarts_optimizer=n_restarts).fit(X, y)
    start = ConvNetGPRegressor(best).fit(X, y)
    assert gp.log_marginal_likelihood() >= start.log_marginal_likelihood()


def photographs(n, contrast, seed):
    """Return smooth colour images (n, 3, 8, 8) of some brightness, and 4 labels."""
    rng = np.random.default_rng(seed)
    motives = smooth(np.random.default_rng(5).normal(size=(4, 3, 8, 8)))
    y = rng.integers(4, size=n)
    light = 0.15 * rng.normal(size=(n, 1, 1, 1))
    X = 0.5 + light + 0.2 * smooth(rng.normal(size=(n, 3, 8, 8)))
    return (X + contrast * motives[y]).clip(0.0, 1.0), y


def smooth(images):
    blurred = gaussian_filter(images, (0, 0, 1.5, 1.5))
    return blurred / blurred.std()


# A search that begins with little noise ends, on these, where noise explains all.
@pytest.mark.filterwarnings("ignore:The hyperparameters .* are at a bound")
@pytest.mark.parametrize("depth", [2, 3])
def test_no_search_ends_worse_than_with_the_best_noise_of_its_start(depth):
    X, y = photographs(60, 0.05, seed=0)
    start = convnet(depth=depth, kernel_size=3)
    plain = ConvNetGPClassifier(start, noise_variance="evidence").fit(X, y)
    gp = ConvNetGPClassifier(start, optimizer="evidence", noise_variance="evidence")
    gp.fit(X, y)
    result = gp.optimizer_result_
    assert np.exp(result.start_theta[-1]) == pytest.approx(plain.noise_variance_)
    assert gp.log_marginal_likelihood() > plain.log_marginal_likelihood()
    assert gp.score(*photographs(200, 0.05, seed=1)) > 0.35


@pytest.mark.filterwarnings("ignore:The hyperparameters .* are at a bound")
def test_left_out_samples_choose_the_noise_of_a_start():
    X, y = photographs(60, 0.02, seed=0)
    start = convnet(depth=1, kernel_size=3)
    plain = ConvNetGPClassifier(start, noise_variance="loo").fit(X, y)
    gp = ConvNetGPClassifier(start, optimizer="loo", noise_variance="loo").fit(X, y)
    result = gp.optimizer_result_
    assert np.exp(result.start_theta[-1]) == pytest.approx(plain.noise_variance_)
    assert result.rho < result.start_rho
    assert gp.noise_variance_ < 5.0


@pytest.mark.parametrize(
    "gp",
    [
        ConvNetGPRegressor(optimizer="evidence", noise_variance=0.01),
        ConvNetGPRegressor(optimizer="loo", noise_variance="loo"),
        KernelFlowsRegressor(objective="evidence", optimizer=LBFGS(), n_batches=1),
    ],
    ids=["evidence", "loo", "flow"],
)
def test_a_hyperparameter_at_a_bound_is_told(gp):
    X, y = wave(40)
    gp.set_params(kernel=rbf(0.3, lengthscale_bounds=(0.1, 0.5)))
    told = "lengthscale at 0.5.*widen `lengthscale_bounds`"
    with pytest.warns(ConvergenceWarning, match=told):
        gp.fit(X, y)
    assert gp.kernel_.lengthscale == pytest.approx(0.5, rel=1e-3)
    gp.set_params(kernel=rbf(0.3, lengthscale_bounds=(0.01, 100.0)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gp.fit(X, y)


def test_bounds_of_one_setting_for_several_features_are_named_once():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    kernel = rbf([0.3, 0.3, 0.3], lengthscale_bounds=(0.1, 0.5))
    gp = ConvNetGPRegressor(kernel, optimizer="evidence", noise_variance=0.01)
    told = r"\[0\] at 0.5, .*\[2\] at 0.5.*widen `lengthscale_bounds` of the kernel"
    with pytest.warns(ConvergenceWarning, match=told) as caught:
        gp.fit(X, X.sum(1))
    assert str(caught[0].message).count("_bounds") == 1
    gp.set_params(kernel__lengthscale_bounds=(0.1, 1e6))  # as the message says


def test_a_noise_at_a_bound_is_told_and_is_the_bound():
    X, _ = wave(40)
    y = np.where(np.arange(40) % 2, 1.0, -1.0)  # as no smooth function is
    kernel = rbf(1.0, lengthscale_bounds=(1.0, 2.0))
    with pytest.warns(ConvergenceWarning, match="noise_variance at 10.*by a number"):
        gp = regressor(kernel, noise_variance="evidence").fit(X, y)
    assert gp.noise_variance_ == gp.optimizer_result_.values["noise_variance"] == 10.0


@pytest.mark.parametrize(
    "optimizer",
    [
        Adam(max_iter=80, learning_rate=0.1),
        BayesianOptimization(max_iter=20, n_initial=8),
    ],
    ids=repr,
)
def test_an_object_searches_by_evidence(optimizer):
    X, y = wave(60)
    best = regressor().fit(X, y).log_marginal_likelihood()
    gp = regressor(optimizer=optimizer).fit(X, y)
    assert gp.log_marginal_likelihood() == pytest.approx(best, abs=0.1)


def test_classifier_learns_a_network():
    X, y = digits(300)
    X_test, y_test = digits(300, start=300)
    start = convnet(depth=1, kernel_size=3, weight_variance=0.02, bias_variance=50.0)
    held = {"noise_variance": 1e-4}
    gp = ConvNetGPClassifier(start, optimizer="evidence", **held).fit(X, y)
    unlearned = ConvNetGPClassifier(start, **held).fit(X, y)
    assert gp.log_marginal_likelihood() > unlearned.log_marginal_likelihood() + 100.0
    assert gp.score(X_test, y_test) > unlearned.score(X_test, y_test) + 0.05


def test_outputs_share_what_is_chosen():
    X, y = wave(40)
    both = regressor(noise_variance="loo", optimizer="loo")
    both.fit(X, np.column_stack([y, -2.0 * y]))
    alone = clone(both).fit(X, y)
    np.testing.assert_allclose(both.kernel_.theta, alone.kernel_.theta, atol=1e-4)


def test_weights_of_zero_and_one_choose_among_samples():
    X, y = wave(40)
    weights = np.arange(40) % 2
    weighted = regressor().fit(X, y, weights)
    assert weighted.kernel_ == regressor().fit(X[1::2], y[1::2]).kernel_
    with pytest.raises(ValueError, match="no sample weights other than 0 and 1"):
        regressor().fit(X, y, weights + 1.0)


def test_without_an_optimizer_nothing_is_kept_of_an_earlier_search():
    X, y = wave(40)
    gp = regressor(noise_variance="evidence").fit(X, y)
    learned = gp.noise_variance_
    gp.set_params(optimizer=None).fit(X, y)
    fresh = ConvNetGPRegressor(rbf(1.0), noise_variance="evidence").fit(X, y)
    assert not hasattr(gp, "optimizer_result_")
    assert gp.kernel_ == rbf(1.0)
    assert gp.noise_variance_ == fresh.noise_variance_ != learned


def test_a_word_that_does_not_converge_warns(monkeypatch):
    X, y = wave(40)
    monkeypatch.setattr(_search, "USUAL", LBFGS(max_iter=1))
    with pytest.warns(ConvergenceWarning, match="has not converged"):
        regressor(rbf(20.0)).fit(X, y)
    regressor(rbf(20.0), optimizer=LBFGS(max_iter=1)).fit(X, y)  # as asked for


@pytest.mark.filterwarnings("ignore:All targets are the same")
def test_targets_that_say_nothing_are_told():
    X, _ = wave(20)
    with pytest.warns(UserWarning, match="has learned nothing"):
        gp = regressor().fit(X, np.ones(20))
    assert gp.kernel_ == rbf(1.0)


def test_search_and_trace_and_progress(capsys):
    X, y = blobs(30)
    kernel = arcsine(bias_variance_bounds="fixed")  # its optimum may be at a bound
    gp = ConvNetGPClassifier(kernel, optimizer=LBFGS(), verbose=1)
    grid = {"optimizer__max_iter": [1, 5], "kernel__weight_variance": [0.1, 1.0]}
    search = GridSearchCV(gp, grid, cv=2, error_score="raise").fit(X, y)
    assert "fit: 100%" in capsys.readouterr().err
    result = search.best_estimator_.optimizer_result_
    assert result.message in ("converged", "all steps done")
    assert RhoTraceDisplay.from_estimator(search.best_estimator_).result is result


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": rbf(1.0, lengthscale_bounds="fixed")}, "no free.*optimizer=None"),
        ({"kernel": rbf(lengthscale=1e5)}, "not within its bounds"),
        ({"kernel": "precomputed"}, "no hyperparameters to learn"),
        ({"optimizer": "adam"}, r"'optimizer' parameter.*'evidence', 'loo'"),
        ({"optimizer": Adam}, "'optimizer' parameter"),
        ({"optimizer": Adam(max_iter=0)}, "'max_iter' parameter of Adam"),
        ({"n_restarts_optimizer": -1}, "'n_restarts_optimizer' parameter"),
        ({"n_restarts_optimizer": 1.5}, "'n_restarts_optimizer' parameter"),
        ({"amplitude": 2.0}, "'amplitude' parameter.*'profile'"),
        ({"amplitude": None}, "'amplitude' parameter.*'profile'"),
        ({"noise_variance": "rho"}, "'noise_variance' parameter"),
    ],
)
def test_bad_settings_name_the_parameter(settings, message):
    X, y = wave(40)
    settings = dict(settings)
    gp = regressor(settings.pop("kernel", None), **settings)
    with pytest.raises(ValueError, match=message):
        gp.fit(X if gp.kernel != "precomputed" else X @ X.T, y)


@pytest.mark.filterwarnings("ignore:All targets are the same")
def test_a_single_sample_teaches_nothing():
    with pytest.raises(ValueError, match="2 samples or more"):
        regressor().fit([[1.0]], [1.0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"solver": "qr"}, "'solver' parameter"),
        ({"completion": "all"}, "'completion' parameter"),
        ({"completion": Nystrom(), "observed_fraction": 2.0}, "'observed_fraction'"),
        ({"completion": Nystrom(), "solver": "cg"}, "solver='auto'"),
        ({"completion": CoarseKernel()}, "needs a kernel that looks at images"),
        ({"likelihood": "dirichlet", "noise_variance": "loo"}, "use a number"),
        ({"likelihood": "dirichlet", "solver": "cg"}, "solver='auto'"),
    ],
)
@pytest.mark.parametrize("cls", [ConvNetGPClassifier, KernelFlowsClassifier])
def test_what_cannot_be_fitted_is_told_before_the_search(
    cls, settings, message, monkeypatch
):
    def search(*_):
        raise AssertionError("the search has begun")

    monkeypatch.setattr("skconvgp.flows.LBFGS.minimize", search)
    X, y = blobs(30)
    with pytest.raises(ValueError, match=message):
        cls(rbf(1.0), optimizer=LBFGS(), **settings).fit(X, y)


def test_a_process_that_does_not_fit_in_memory_is_told_before_the_search(monkeypatch):
    monkeypatch.setattr("skconvgp.engine._devices.free_memory", lambda _: 8 * 1600)
    X, y = wave(40)

    def search(*_):
        raise AssertionError("the search has begun")

    monkeypatch.setattr("skconvgp.flows.Adam.minimize", search)
    with pytest.raises(TileMemoryError, match="40 samples"):
        KernelFlowsRegressor(optimizer=Adam(), batch_size=10).fit(X, y)


def vectors(n):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, np.sin(X).sum(1) + 0.2 * rng.normal(size=n)


ITERATIVE = ConjugateGradient(rank=60, tolerance=1e-8)


@pytest.fixture
def grams(monkeypatch):
    """Return a list that fills with the sizes of matrices that are evaluated whole."""
    sizes = []
    whole = KernelOracle.gram

    def counted(self, *args):
        sizes.append(self.n_samples)
        return whole(self, *args)

    monkeypatch.setattr(KernelOracle, "gram", counted)
    return sizes


LITTLE = {"memory_budget": "100 KiB"}  # a matrix of 120 samples takes 113


def test_evidence_is_maximised_by_products_where_the_matrix_is_not_held(grams):
    X, y = vectors(120)
    settings = {"noise_variance": "evidence"}
    gp = regressor(rbf(0.5), solver=ITERATIVE, **settings, **LITTLE).fit(X, y)
    assert not grams
    assert not gp.fit_report_.is_gram_held
    exact = regressor(rbf(0.5), **settings).fit(X, y)
    assert grams
    found, expected = (model.optimizer_result_.values for model in (gp, exact))
    assert found.keys() == expected.keys()
    for label, value in found.items():
        assert value == pytest.approx(expected[label], rel=0.05)
    assert gp.noise_variance_ == found["noise_variance"]


def test_a_noise_that_is_held_stays_with_products_too(grams):
    X, y = vectors(120)
    gp = regressor(rbf(0.5), solver=ITERATIVE, noise_variance=0.02, **LITTLE).fit(X, y)
    assert not grams
    exact = regressor(rbf(0.5), noise_variance=0.02).fit(X, y)
    assert gp.noise_variance_ == 0.02
    assert gp.kernel_.lengthscale == pytest.approx(exact.kernel_.lengthscale, rel=0.05)


def test_labels_are_learned_by_products_too(grams):
    X, y = blobs(120)
    settings = {"optimizer": "evidence", "noise_variance": "evidence"}
    gp = ConvNetGPClassifier(rbf(1.0), solver=ITERATIVE, **settings, **LITTLE).fit(X, y)
    assert not grams
    exact = ConvNetGPClassifier(rbf(1.0), **settings).fit(X, y)
    assert gp.kernel_.lengthscale == pytest.approx(exact.kernel_.lengthscale, rel=0.1)
    assert gp.score(X, y) == pytest.approx(exact.score(X, y), abs=0.02)


def test_a_solver_that_holds_the_matrix_leaves_the_search_exact(monkeypatch):
    def never(*args, **kwargs):
        raise AssertionError

    monkeypatch.setattr(IterativeEvidence, "score", never)
    X, y = vectors(200)
    gp = regressor(rbf(0.5), solver=ITERATIVE, noise_variance=0.02).fit(X, y)
    exact = regressor(rbf(0.5), noise_variance=0.02).fit(X, y)
    assert gp.kernel_ == exact.kernel_


@pytest.mark.parametrize(("n_copies", "is_exact"), [(8, True), (7.9, False)])
def test_a_search_iterates_where_its_matrices_do_not_fit(
    monkeypatch, n_copies, is_exact
):
    n_bytes = int(n_copies * 8 * 1000**2)
    for module in ("skconvgp.engine._devices", "skconvgp.processes._plan"):
        monkeypatch.setattr(f"{module}.free_memory", lambda device: n_bytes)
    monkeypatch.setattr("skconvgp.solvers._preconditioners.DEFAULT_RANK", 20)
    calls, score = [], IterativeEvidence.score

    def counted(self, *args, **kwargs):
        calls.append(self.is_held)
        return score(self, *args, **kwargs)

    monkeypatch.setattr(IterativeEvidence, "score", counted)
    X, y = vectors(1000)
    gp = regressor(optimizer=LBFGS(max_iter=2), noise_variance=0.02).fit(X, y)
    assert gp.fit_report_.solver == "Cholesky"  # its two matrices fit
    assert (not calls) == is_exact


@pytest.mark.filterwarnings("ignore:All covariances of different samples")
@pytest.mark.parametrize(
    ("n", "n_restarts"), [(30, 1), pytest.param(200, 3, marks=pytest.mark.slow)]
)
def test_places_that_are_undefined_are_left_by_products_too(n, n_restarts):
    X, y = vectors(n)
    # Where all variances are large, those of a hundred layers are not finite.
    gp = regressor(
        dense(100, weight_variance=1.0),
        solver=ConjugateGradient(rank=20),
        optimizer=LBFGS(max_iter=2),
        n_restarts_optimizer=n_restarts,
        memory_budget="500 KiB",
    ).fit(X, y)
    assert np.isfinite(gp.optimizer_result_.rho)
    assert np.isfinite(gp.predict(X)).all()


def test_slopes_of_products_hold_no_graph(grams):
    X, y = vectors(120)
    settings = {"solver": ITERATIVE, "noise_variance": 0.02, **LITTLE}
    exact, graph = (
        regressor(rbf(0.5), optimizer=optimizer, **settings).fit(X, y)
        for optimizer in (LBFGS(max_iter=2), LBFGS(max_iter=2, gradient="autograd"))
    )
    assert not grams
    assert graph.kernel_ == exact.kernel_


def test_leave_one_out_takes_the_matrix_with_any_solver(grams):
    X, y = vectors(120)
    regressor(optimizer="loo", solver=ITERATIVE, noise_variance=0.02, **LITTLE).fit(
        X, y
    )
    assert grams
