"""Each sample may have a noise variance of its own, which the user knows."""

import pickle

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.base import clone, is_regressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.model_selection import GridSearchCV

import skconvgp
from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    KernelFlowsRegressor,
    NystromCompletedGPRegressor,
    augmentation,
    flows,
    gram_matrix,
)
from skconvgp.completion import (
    CoarseKernel,
    IterativeSVD,
    NearestNeighbors,
    Nystrom,
    RandomFeatures,
    SubsetOfData,
)
from skconvgp.kernels import dot_product, rbf
from skconvgp.questions import novelty, prediction_interval, query
from skconvgp.solvers import ConjugateGradient, RefinedCholesky
from tests.helpers.conformal import target_p_value, units_of
from tests.helpers.estimators import digits, tiny_network
from tests.helpers.public import CASES

AMPLITUDE = 1.7
PLAIN = {"amplitude": AMPLITUDE, "normalize_y": False}


def measurements(n=30, seed=0, n_features=1):
    """Return inputs, noise variances, targets with this noise, and new inputs."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 6.0, (n, n_features))
    variances = rng.uniform(0.05, 0.6, n) ** 2
    y = np.sin(X).sum(1) + np.sqrt(variances) * rng.normal(size=n)
    return X, variances, y, rng.uniform(0.0, 6.0, (5, n_features))


def repeated(n=30):
    """Return measurements of which some have the same inputs."""
    X, variances, y, _ = measurements(n)
    X[5:8], X[9] = X[0], X[1]
    return X, variances, y


def dense(gp, X, new):
    """Return covariances of training and new samples, of mean variance 1."""
    every = np.vstack([X, new])
    return gram_matrix(gp.kernel_, every) / gp._process.model.mean_diag


@pytest.mark.parametrize("is_scaled", [False, True])
def test_it_is_the_alpha_of_scikit_learn(is_scaled):
    X, variances, y, new = measurements()
    kernel, unit = ConstantKernel(AMPLITUDE) * RBF(1.0), y.std() if is_scaled else 1.0
    twin = GaussianProcessRegressor(
        kernel, alpha=variances / unit**2, optimizer=None, normalize_y=is_scaled
    )
    gp = ConvNetGPRegressor(
        rbf(1.0), noise_variance=variances, amplitude=AMPLITUDE, normalize_y=is_scaled
    )
    twin.fit(X, y), gp.fit(X, y)
    for option in ("return_std", "return_cov"):
        found, expected = (one.predict(new, **{option: True}) for one in (gp, twin))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    evidence = twin.log_marginal_likelihood() - len(y) * np.log(unit)
    np.testing.assert_allclose(gp.log_marginal_likelihood(), evidence, rtol=1e-9)


@pytest.mark.parametrize(
    ("settings", "rtol"),
    [
        ({"solver": ConjugateGradient(tolerance=1e-12, max_iter=500)}, 1e-9),
        ({"solver": RefinedCholesky(tolerance=1e-13)}, 1e-5),  # single precision
        ({"completion": NearestNeighbors(30)}, 1e-9),
        ({"completion": Nystrom(n_landmarks=30)}, 1e-8),
    ],
)
def test_other_solvers_are_the_same(settings, rtol):
    X, variances, y, new = measurements()
    gp = ConvNetGPRegressor(rbf(0.3), noise_variance=variances, **PLAIN)
    exact, other = clone(gp).fit(X, y), clone(gp).set_params(**settings).fit(X, y)
    for one, found in zip(
        [*exact.predict(new, return_std=True), *exact.loo_predict(return_std=True)],
        [*other.predict(new, return_std=True), *other.loo_predict(return_std=True)],
        strict=True,
    ):
        np.testing.assert_allclose(found, one, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(
        other.log_marginal_likelihood(), exact.log_marginal_likelihood(), rtol=1e-5
    )


def test_equal_variances_are_one_number():
    X, _, y, new = measurements()
    settings = {"amplitude": AMPLITUDE, "normalize_y": True}
    one = ConvNetGPRegressor(rbf(1.0), noise_variance=0.1, **settings).fit(X, y)
    variances = np.full(len(y), 0.1 * AMPLITUDE * y.var())
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=variances, **settings).fit(X, y)
    assert gp.noise_variance_ == pytest.approx(0.1, rel=1e-12)
    for name in ("predict_latent", "predict_interval"):
        np.testing.assert_allclose(
            getattr(gp, name)(new), getattr(one, name)(new), rtol=1e-9
        )
    np.testing.assert_allclose(
        gp.sample_y(new, 3, random_state=0), one.sample_y(new, 3, random_state=0)
    )
    np.testing.assert_allclose(
        gp.predict_latent(new, return_std=True, noise=True)[1],
        one.predict_latent(new, return_std=True, noise=True)[1],
        rtol=1e-9,
    )


def refit(gram, noise, y, members, i):
    """Return mean and variance of function i, of a fit without the members."""
    rest = np.setdiff1d(np.arange(len(y)), members)
    matrix = gram[np.ix_(rest, rest)] + np.diag(noise[rest])
    gains = np.linalg.solve(matrix, gram[rest, i])
    return gains @ y[rest], gram[i, i] - gains @ gram[rest, i]


def check_left_out(gp, X, y, variances, *, weights=None, groups=None, n_few=10):
    """Compare left-out predictions with fits without the samples."""
    weights = np.ones(len(y)) if weights is None else weights
    gram = AMPLITUDE * gram_matrix(gp.kernel_, X) / gp._process.model.mean_diag
    units, noise = units_of(X, groups), variances / weights
    mean, std = gp.loo_predict(return_std=True)
    for i in range(len(y)):
        members, removed = np.flatnonzero(units == units[i]), weights[i]
        if groups is not None or len(np.unique(units)) >= n_few:
            removed = weights[(X[i] == X).all(1)].sum()
        else:
            members = [i]  # a weight above 1 is not part of this case
        expected, var = refit(gram, noise, y, members, i)
        var += variances[i] / min(removed, 1.0)
        np.testing.assert_allclose(mean[i], expected, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(std[i] ** 2, var, rtol=1e-9)


@pytest.mark.parametrize("n", [30, 9])
def test_left_out_predictions_are_those_of_refits(n):
    X, variances, y, _ = measurements(n)
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=variances, **PLAIN).fit(X, y)
    check_left_out(gp, X, y, variances)


def test_samples_of_one_input_are_left_out_together():
    X, variances, y = repeated()
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=variances, **PLAIN).fit(X, y)
    check_left_out(gp, X, y, variances)


def test_of_few_inputs_single_samples_are_left_out():
    X, variances, y = repeated(12)
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=variances, **PLAIN).fit(X, y)
    check_left_out(gp, X, y, variances)


def test_groups_are_left_out_together():
    X, variances, y, _ = measurements()
    groups = np.arange(30) // 4
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=variances, **PLAIN)
    check_left_out(gp.fit(X, y, groups=groups), X, y, variances, groups=groups)


@pytest.mark.parametrize("n_features", [1, 2])
def test_of_features_too(n_features):
    """Features of a linear kernel are exact, so that refits by the kernel are right."""
    X, variances, y, _ = measurements(n_features=n_features)
    X[5:8], X[9] = X[0], X[1]
    settings = {"n_landmarks": 12, "random_state": 0, "noise_variance": variances}
    gp = NystromCompletedGPRegressor(dot_product(), **settings, **PLAIN).fit(X, y)
    check_left_out(gp, X, y, variances)
    groups = np.arange(30) // 4
    groups[5:8], groups[9] = groups[0], groups[1]
    gp.fit(X, y, groups=groups)
    check_left_out(gp, X, y, variances, groups=groups)
    exact = ConvNetGPRegressor(dot_product(), noise_variance=variances, **PLAIN)
    exact.fit(X, y)
    np.testing.assert_allclose(
        gp.log_marginal_likelihood(), exact.log_marginal_likelihood(), rtol=1e-9
    )


def test_a_weight_is_that_of_as_many_equal_samples():
    X, variances, y, new = measurements()
    weights = 1.0 + np.arange(30) % 3
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=variances, amplitude=AMPLITUDE)
    gp.fit(X, y, sample_weight=weights)
    times = weights.astype(int)
    each = ConvNetGPRegressor(
        rbf(1.0), noise_variance=np.repeat(variances, times), amplitude=AMPLITUDE
    )
    each.fit(np.repeat(X, times, 0), np.repeat(y, times))
    for one, other in zip(
        [*gp.predict(new, return_std=True), *gp.loo_predict(return_std=True)],
        [
            *each.predict(new, return_std=True),
            *(v[np.cumsum(times) - 1] for v in each.loo_predict(return_std=True)),
        ],
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        gp.log_marginal_likelihood(), each.log_marginal_likelihood(), rtol=1e-9
    )


def test_samples_of_weight_0_are_none():
    X, variances, y, new = measurements()
    weights = np.ones(30)
    weights[[3, 8]] = 0.0
    kept = weights > 0.0
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=variances)
    found = gp.fit(X, y, sample_weight=weights).predict(new)
    rest = ConvNetGPRegressor(rbf(1.0), noise_variance=variances[kept])
    expected = rest.fit(X[kept], y[kept]).predict(new)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_the_posterior_is_that_of_weights():
    """A noise v / w is that of a sample of weight w, which all code paths know."""
    X, variances, y, new = measurements()
    number = variances.max() / AMPLITUDE
    weighted = ConvNetGPRegressor(rbf(1.0), noise_variance=number, **PLAIN)
    weighted.fit(X, y, sample_weight=variances.max() / variances)
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=variances, **PLAIN).fit(X, y)
    for method in ("joint", "pathwise"):
        settings = {"random_state": 0, "method": method}
        draws = [one.sample_y(new, 4, **settings) for one in (gp, weighted)]
        np.testing.assert_allclose(*draws, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(gp.loo_predict(), weighted.loo_predict(), rtol=1e-9)
    np.testing.assert_allclose(gp.latent_gradient(new), weighted.latent_gradient(new))


@pytest.mark.parametrize(
    ("cls", "settings"),
    [
        (ConvNetGPRegressor, {}),
        (ConvNetGPRegressor, {"solver": "cg"}),
        (ConvNetGPRegressor, {"completion": RandomFeatures(60), "random_state": 0}),
        (NystromCompletedGPRegressor, {"n_landmarks": 30}),
    ],
)
def test_the_profiled_amplitude_has_the_largest_evidence(cls, settings):
    X, variances, y, _ = measurements()
    gp = cls(rbf(1.0), noise_variance=variances, **settings).fit(X, y)
    best = gp.amplitude_ / gp.y_scale_[0] ** 2

    def evidence(log_share):
        amplitude = best * np.exp(log_share)
        one = clone(gp).set_params(amplitude=amplitude).fit(X, y)
        return one.log_marginal_likelihood()

    found = minimize_scalar(lambda a: -evidence(a), bounds=(-1, 1), method="bounded")
    assert abs(found.x) < 2e-3
    assert gp.log_marginal_likelihood() == pytest.approx(-found.fun, abs=1e-5)
    assert gp.noise_variance_ * gp.amplitude_ == pytest.approx(variances.mean())


def test_neighbours_profile_by_left_out_targets():
    X, variances, y, _ = measurements(60)
    settings = {"completion": NearestNeighbors(12), "noise_variance": variances}
    gp = ConvNetGPRegressor(rbf(1.0), **settings).fit(X, y)

    def density(amplitude):
        one = ConvNetGPRegressor(rbf(1.0), amplitude=amplitude, **settings).fit(X, y)
        mean, std = one.loo_predict(return_std=True)
        return (-0.5 * ((y - mean) / std) ** 2 - np.log(std)).sum()

    best = gp.amplitude_ / gp.y_scale_[0] ** 2
    assert density(best) > max(density(best * 1.5), density(best / 1.5))
    assert gp.noise_variance_ * gp.amplitude_ == pytest.approx(variances.mean())


def test_outputs_share_noise_and_amplitude():
    X, variances, y, new = measurements()
    both = np.stack([y, 3.0 * np.cos(X[:, 0])], 1)
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=variances).fit(X, both)
    assert np.ptp(gp.y_scale_) == 0.0
    amplitude, mean = gp.amplitude_, both.mean(0)
    gram = amplitude * dense(gp, X, new)
    solved = np.linalg.solve(gram[:30, :30] + np.diag(variances), both - mean)
    np.testing.assert_allclose(gp.predict(new), gram[30:, :30] @ solved + mean)


@pytest.mark.parametrize("kind", ["alone", "copies", "groups"])
def test_conformal_intervals_are_those_of_refits(kind):
    X, variances, y, new = measurements(24)
    groups = np.arange(24) // 3 if kind == "groups" else None
    if kind == "copies":
        X[12:15] = X[0]
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=variances, **PLAIN)
    gp.fit(X, y, groups=groups)
    for one, (lower, upper) in zip(new, prediction_interval(gp, new, 0.7), strict=True):
        gram = AMPLITUDE * dense(gp, X, one[None])
        near = 1e-6 * (upper - lower)
        wide = 0.9 * (upper - lower)
        points = [*np.linspace(lower - wide, upper + wide, 40)]
        points += [lower - near, lower + near, upper - near, upper + near]
        for target in points:
            p_value = target_p_value(
                gram,
                variances,
                y,
                target,
                units_of(X, groups),
                np.ones(24),
                new_noise=variances.mean(),
            )
            assert (lower <= target <= upper) == (p_value > 0.3 + 1e-9)


def test_intervals_of_left_out_errors_have_the_mean_noise():
    X, variances, y, new = measurements(40)
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=variances, **PLAIN).fit(X, y)
    mean, std = gp.predict(new, return_std=True)
    deviation = np.sqrt(std**2 + variances.mean())
    np.testing.assert_allclose(
        gp.predict_latent(new, return_std=True, noise=True)[1], deviation, rtol=1e-9
    )
    left_out, own = gp.loo_predict(return_std=True)
    errors = np.sort(np.abs(y - left_out) / own)
    half = errors[int(np.ceil(41 * 0.9)) - 1] * deviation
    np.testing.assert_allclose(
        gp.predict_interval(new), np.stack([mean - half, mean + half], 1), rtol=1e-9
    )


def test_known_noise_is_not_scaled_by_left_out_errors():
    X, variances, y, _ = measurements(40)
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=variances / 25.0).fit(X, y)
    assert gp.fit_report_.deviation_factors == (1.0,)


def test_questions_that_ask_for_no_noise_ignore_it():
    X, variances, y, new = measurements(40)
    one = ConvNetGPRegressor(rbf(1.0), noise_variance=0.1, **PLAIN).fit(X, y)
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=variances, **PLAIN).fit(X, y)
    np.testing.assert_allclose(novelty(gp, new), novelty(one, new), rtol=1e-6)


def test_a_query_reduces_the_mean_variance_most():
    X, variances, y, new = measurements(40)
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=variances, **PLAIN).fit(X, y)
    _, cov = gp.predict(new, return_cov=True)
    gains = (cov**2).sum(0) / (cov.diagonal() + variances.mean())
    assert query(gp, new, n=1)[0] == gains.argmax()


@pytest.mark.filterwarnings("ignore:IterativeSVD:UserWarning")
@pytest.mark.parametrize(
    "completion",
    [
        SubsetOfData(),
        IterativeSVD(rank=8, max_iter=20),
        CoarseKernel(pool=2),
        CoarseKernel(pool=2, exact=Nystrom(n_landmarks=12)),
    ],
)
def test_other_completions_take_it(completion):
    X, labels = digits(40)
    variances = np.linspace(0.01, 0.2, 40)
    gp = ConvNetGPRegressor(
        tiny_network(),
        noise_variance=variances,
        completion=completion,
        random_state=0,
    )
    gp.fit(X, labels.astype(float))
    own = gp._process.model.unit_noise * gp.amplitude_
    used = variances[gp._training.kept]
    # No noise is smaller than the error of a completion that measures it.
    np.testing.assert_allclose(own, np.maximum(used, own.min()))


def test_versions_of_an_image_have_its_noise():
    X, labels = digits(30)
    y, variances = labels.astype(float), np.linspace(0.1, 0.5, 30)
    gp = ConvNetGPRegressor(
        rbf(2.0), noise_variance=variances, augment=augmentation.Flip(), **PLAIN
    )
    gp.fit(X, y)
    rows = np.concatenate([X, X[..., ::-1]]).reshape(60, -1)
    gram = AMPLITUDE * gram_matrix(rbf(2.0), rows)
    mean, std = gp.loo_predict(return_std=True)
    noise, both = np.tile(2.0 * variances, 2), np.tile(y, 2)
    for i in (0, 7):
        expected, var = refit(gram, noise, both, [i, i + 30], i)
        assert mean[i] == pytest.approx(expected, rel=1e-9)
        assert std[i] ** 2 == pytest.approx(var + variances[i], rel=1e-9)


def test_kernel_flows_take_it():
    X, variances, y, new = measurements(40)
    gp = KernelFlowsRegressor(
        rbf(1.0), optimizer=flows.Adam(max_iter=2), noise_variance=variances
    )
    gp.set_params(batch_size=20, random_state=0).fit(X, y)
    exact = ConvNetGPRegressor(gp.kernel_, noise_variance=variances).fit(X, y)
    np.testing.assert_allclose(gp.predict(new), exact.predict(new), rtol=1e-9)


def test_an_array_is_a_parameter():
    X, variances, y, new = measurements()
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=variances)
    assert gp.get_params()["noise_variance"] is variances
    copy = clone(gp)
    np.testing.assert_array_equal(copy.noise_variance, variances)
    before = variances.copy()
    found = gp.fit(X, y).predict(new)
    np.testing.assert_array_equal(variances, before)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(gp)).predict(new), found)
    assert "noise_variance" in repr(gp)
    gp._repr_html_()
    for words in (variances.tolist(), variances.astype(np.float32).tolist()):
        gp.set_params(noise_variance=words).fit(X, y)
        np.testing.assert_allclose(gp.predict(new), found, rtol=1e-5)
    assert gp.plan(X, y).stages
    assert gp.plan((30, 1)).stages


def test_a_search_is_told_to_use_weights():
    X, variances, y, _ = measurements()
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=variances)
    search = GridSearchCV(gp, {"normalize_y": [True]}, error_score="raise", cv=3)
    with pytest.raises(ValueError, match=r"of the 20 samples.*`sample_weight`"):
        search.fit(X, y)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.ones(29), r"each of the 30 samples, got \(29,\)"),
        (np.ones((30, 1)), r"got \(30, 1\)"),
        (["a"] * 30, "no numbers"),
        (np.linspace(0.0, 1.0, 30), "finite numbers > 0, got 0 to 1"),
        (np.linspace(-1.0, 1.0, 30), "got -1 to 1"),
        (np.append(np.ones(29), np.nan), "finite numbers > 0"),
        (np.append(np.ones(29), np.inf), "finite numbers > 0"),
    ],
)
def test_wrong_arrays_are_refused(wrong, message):
    X, _, y, _ = measurements()
    with pytest.raises(ValueError, match=message):
        ConvNetGPRegressor(rbf(1.0), noise_variance=wrong).fit(X, y)


@pytest.mark.parametrize(
    ("gp", "message"),
    [
        (ConvNetGPRegressor(rbf(), optimizer="evidence"), "use optimizer=None"),
        (NystromCompletedGPRegressor(rbf(), variance="fitc"), "variance='dtc'"),
        (
            ConvNetGPRegressor(rbf(), solver="cg", memory_budget=2000),
            "set `amplitude` to a number",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(gp, message):
    X, variances, y, _ = measurements()
    with pytest.raises(ValueError, match=message):
        gp.set_params(noise_variance=variances).fit(X, y)


def test_no_samples_are_added():
    X, variances, y, _ = measurements()
    gp = NystromCompletedGPRegressor(rbf(), n_landmarks=9, noise_variance=variances)
    gp.partial_fit(X, y)
    with pytest.raises(ValueError, match="all of `noise_variance`"):
        gp.partial_fit(X, y)
    gp.set_params(noise_variance=0.1).fit(X, y)
    with pytest.raises(ValueError, match="all of `noise_variance`"):
        gp.set_params(noise_variance=variances).partial_fit(X, y)


def test_labels_have_one_noise():
    X, labels = digits(30)
    gp = ConvNetGPClassifier(rbf(), noise_variance=np.ones(30))
    with pytest.raises(ValueError, match="'noise_variance' parameter of ConvNet"):
        gp.fit(X, labels)


REGRESSORS = [
    case
    for case in CASES
    if is_regressor(case.estimator) and hasattr(case.estimator, "noise_variance")
]


REMEDIES = [
    "use a number v and `sample_weight`",
    "use variance='dtc'",
    "set `amplitude` to a number",
    "must be 'auto', 'evidence' or a finite number > 0",
]


@pytest.mark.filterwarnings("ignore:Lsqr:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("case", REGRESSORS, ids=lambda case: case.name)
def test_each_regressor_takes_it_or_names_the_remedy(case):
    X, y, new = case.data()
    gp = case.new(noise_variance=np.linspace(0.1, 1.0, len(y)))
    refusal = ""
    try:
        gp.fit(X, y)
    except ValueError as error:
        refusal = str(error)
    if refusal:
        assert any(remedy in refusal for remedy in REMEDIES), refusal
        return
    assert np.isfinite(gp.predict(new)).all()
    own = gp._process.model.unit_noise * gp.amplitude_
    np.testing.assert_allclose(own, np.linspace(0.1, 1.0, len(y)), rtol=1e-9)


def test_all_regressors_of_the_package_are_tried():
    names = {type(case.estimator).__name__ for case in REGRESSORS}
    every = {name for name in skconvgp.__all__ if name.endswith("Regressor")}
    assert names == every
