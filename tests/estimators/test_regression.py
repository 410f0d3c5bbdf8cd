"""The regressor against the textbook formulas."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.metrics import r2_score

from skconvgp import ConvNetGPRegressor, gram_matrix
from skconvgp.kernels import dot_product, rbf
from tests.helpers.deviations import plain, plain_cov
from tests.helpers.estimators import DensePosterior, digits, tiny_network, wave

KERNELS = {"rbf": rbf(1.0), "network": tiny_network(), "unbounded": dot_product()}
SETTINGS = [
    {},
    {"normalize_y": False},
    {"amplitude": 2.5},
    {"amplitude": None},
    {"amplitude": None, "normalize_y": False},
    {"noise_variance": 0.3},
]


def fit_and_dense(kernel, X, y, test, **settings):
    """Return a fitted regressor, and mean (n, k) and cov (n, n, k) in units of y."""
    exact = {"dtype": "float64"}  # on any backend
    settings = {"noise_variance": 1e-2} | settings
    gp = ConvNetGPRegressor(kernel, **exact, **settings).fit(X, y)
    gram = gram_matrix(kernel, X, **exact)
    targets = y.reshape(len(y), -1)
    shift = targets.mean(0) if gp.normalize_y else np.zeros(targets.shape[1])
    scale = targets.std(0) if gp.normalize_y else np.ones(targets.shape[1])
    given = settings.get("amplitude", "profile")
    if given is None:
        given = np.diag(gram).mean()
    dense = DensePosterior(
        gram, (targets - shift) / scale, noise=settings["noise_variance"]
    )
    amplitude = dense.amplitude * scale**2
    if given != "profile":
        amplitude = given * scale**2
    dense.amplitude = 1.0
    cross = gram_matrix(kernel, test, X, **exact)
    prior = gram_matrix(kernel, test, **exact)
    mean = dense.mean(cross) * scale + shift
    cov = dense.cov(cross, prior)[:, :, None] * amplitude
    return gp, mean, cov, amplitude


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("name", KERNELS)
def test_mean_std_and_cov_are_those_of_the_dense_formulas(name, settings):
    X, y = digits(30) if name == "network" else wave(30)
    gp, mean, cov, amplitude = fit_and_dense(
        KERNELS[name], X[:24], y[:24], X[24:], **settings
    )
    test = X[24:]
    np.testing.assert_allclose(gp.amplitude_, amplitude[0], rtol=1e-6)
    np.testing.assert_allclose(gp.predict(test), mean[:, 0], rtol=1e-6)
    got, std = gp.predict(test, return_std=True)
    np.testing.assert_allclose(got, mean[:, 0], rtol=1e-6)
    atol = 1e-8 * amplitude[0]
    std = plain(gp, std)
    np.testing.assert_allclose(std**2, np.diag(cov[:, :, 0]), rtol=1e-5, atol=atol)
    got, got_cov = gp.predict(test, return_cov=True)
    np.testing.assert_allclose(got, mean[:, 0], rtol=1e-6)
    got_cov = plain_cov(gp, got_cov)
    np.testing.assert_allclose(got_cov, cov[:, :, 0], rtol=1e-5, atol=atol)


def test_latent_with_noise_adds_the_noise_of_one_observation():
    X, y = wave(20)
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=0.05).fit(X, y)
    added = (
        gp.amplitude_ * gp.noise_variance_ * gp.fit_report_.deviation_factors[0] ** 2
    )
    mean, std = gp.predict_latent(X, return_std=True)
    noisy_mean, noisy_std = gp.predict_latent(X, return_std=True, noise=True)
    np.testing.assert_array_equal(mean, noisy_mean)
    np.testing.assert_allclose(noisy_std**2, std**2 + added, rtol=1e-10)
    cov = gp.predict_latent(X, return_cov=True)[1]
    noisy_cov = gp.predict_latent(X, return_cov=True, noise=True)[1]
    np.testing.assert_allclose(noisy_cov, cov + added * np.eye(20), atol=1e-12)


def test_latent_is_what_predict_returns():
    X, y = wave(15)
    gp = ConvNetGPRegressor(rbf(1.0)).fit(X, y)
    np.testing.assert_array_equal(gp.predict_latent(X), gp.predict(X))


def test_std_and_cov_together_are_refused():
    gp = ConvNetGPRegressor(rbf(1.0)).fit(*wave(5))
    with pytest.raises(ValueError, match=r"return_std.*return_cov.*diagonal"):
        gp.predict(wave(5)[0], return_std=True, return_cov=True)


def test_agrees_with_scikit_learn_at_its_amplitude():
    X, y = wave(25)
    y = y - y.mean()
    test = np.linspace(-1.0, 8.0, 20)[:, None]
    ours = ConvNetGPRegressor(
        rbf(lengthscale=1.3), noise_variance=0.02, amplitude=None, normalize_y=False
    ).fit(X, y)
    theirs = GaussianProcessRegressor(RBF(1.3), alpha=0.02, optimizer=None).fit(X, y)
    for got, expected in zip(
        ours.predict(test, return_std=True),
        theirs.predict(test, return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(
        ours.log_marginal_likelihood(), theirs.log_marginal_likelihood_value_, rtol=1e-9
    )


@pytest.mark.parametrize("normalize_y", [True, False])
def test_units_of_y_are_those_of_the_results(normalize_y):
    X, y = wave(20)
    settings = {"normalize_y": normalize_y}
    mean, std = ConvNetGPRegressor(rbf(1.0), **settings).fit(X, y).predict(X, True)
    large = ConvNetGPRegressor(rbf(1.0), **settings).fit(X, 1000.0 * y)
    large_mean, large_std = large.predict(X, return_std=True)
    np.testing.assert_allclose(large_mean, 1000.0 * mean, rtol=1e-9)
    np.testing.assert_allclose(large_std, 1000.0 * std, rtol=1e-9)
    small = ConvNetGPRegressor(rbf(1.0), **settings).fit(X, y)
    np.testing.assert_allclose(large.amplitude_, 1e6 * small.amplitude_, rtol=1e-9)


@pytest.mark.parametrize("name", ["rbf", "network"])
def test_scale_of_the_kernel_does_not_matter_with_a_profiled_amplitude(name):
    X, y = digits(30) if name == "network" else wave(30)
    kernel = KERNELS[name]
    gp = ConvNetGPRegressor(kernel, dtype="float64").fit(X[:25], y[:25])
    mean, std = gp.predict(X[25:], True)
    scaled = ConvNetGPRegressor(1e12 * kernel, dtype="float64").fit(X[:25], y[:25])
    big_mean, big_std = scaled.predict(X[25:], return_std=True)
    np.testing.assert_allclose(big_mean, mean, rtol=1e-8)
    np.testing.assert_allclose(big_std, std, rtol=1e-6)


def test_amplitude_none_takes_the_kernel_as_it_is():
    X, y = wave(10)
    gp = ConvNetGPRegressor(3.0 * rbf(1.0), amplitude=None).fit(X, y)
    assert gp.amplitude_ == pytest.approx(3.0 * y.var())
    far = gp.predict([[1e3]], return_std=True)[1]
    assert far[0] == pytest.approx(np.sqrt(3.0) * y.std())


def test_amplitude_is_the_prior_variance_far_from_the_data():
    X, y = wave(10)
    for normalize_y, unit in ((True, y.std()), (False, 1.0)):
        gp = ConvNetGPRegressor(
            3.0 * rbf(1.0), amplitude=0.7, normalize_y=normalize_y
        ).fit(X, y)
        assert gp.amplitude_ == pytest.approx(0.7 * unit**2)
        far = gp.predict([[1e3]], return_std=True)[1]
        assert far[0] == pytest.approx(np.sqrt(0.7) * unit)


def test_profiled_amplitude_maximises_the_evidence():
    X, y = wave(15)
    best = ConvNetGPRegressor(rbf(1.0)).fit(X, y)
    top = best.log_marginal_likelihood()
    for factor in (0.9, 0.99, 1.01, 1.1):
        other = ConvNetGPRegressor(
            rbf(1.0), amplitude=factor * best.amplitude_ / y.var()
        )
        assert other.fit(X, y).log_marginal_likelihood() < top


def test_normalize_y_falls_back_to_the_mean_far_away():
    X, y = wave(20)
    normal = ConvNetGPRegressor(rbf(1.0)).fit(X, y)
    plain = ConvNetGPRegressor(rbf(1.0), normalize_y=False).fit(X, y)
    assert normal.predict([[1e3]])[0] == pytest.approx(y.mean())
    assert plain.predict([[1e3]])[0] == pytest.approx(0.0)
    np.testing.assert_allclose(normal.y_scale_, [y.std()])
    np.testing.assert_array_equal(plain.y_scale_, [1.0])


@pytest.mark.filterwarnings("ignore:All targets are the same:UserWarning")
@pytest.mark.parametrize("normalize_y", [True, False])
@pytest.mark.parametrize("value", [0.0, 5.0])
def test_constant_targets_are_predicted(value, normalize_y):
    X = wave(8)[0]
    gp = ConvNetGPRegressor(rbf(3.0), noise_variance=1e-6, normalize_y=normalize_y)
    mean, std = gp.fit(X, np.full(8, value)).predict(X, return_std=True)
    np.testing.assert_allclose(mean, value, atol=0.01)
    assert np.isfinite(std).all()


@pytest.mark.parametrize("normalize_y", [True, False])
def test_outputs_are_predicted_as_separate_fits_predict_them(normalize_y):
    X, first = wave(20)
    both = np.column_stack([first, 100.0 * np.cos(X[:, 0]) - 7.0])
    settings = {"normalize_y": normalize_y, "noise_variance": 1e-2}
    gp = ConvNetGPRegressor(rbf(1.0), **settings).fit(X, both)
    assert gp.dual_coef_.shape == (20, 2)
    for i in range(2):
        single = ConvNetGPRegressor(rbf(1.0), **settings).fit(X, both[:, i])
        np.testing.assert_allclose(gp.predict(X)[:, i], single.predict(X), rtol=1e-9)


def test_outputs_share_one_amplitude_in_units_of_each():
    X, first = wave(20)
    both = np.column_stack([first, 100.0 * np.cos(X[:, 0]) - 7.0])
    gp, mean, cov, amplitude = fit_and_dense(rbf(1.0), X, both, X[::4])
    np.testing.assert_allclose(gp.amplitude_, amplitude, rtol=1e-8)
    got_mean, std = gp.predict(X[::4], return_std=True)
    got_cov = gp.predict(X[::4], return_cov=True)[1]
    assert std.shape == (5, 2)
    assert got_cov.shape == (5, 5, 2)
    np.testing.assert_allclose(got_mean, mean, rtol=1e-7)
    got_cov = plain_cov(gp, got_cov)
    np.testing.assert_allclose(got_cov, cov, rtol=1e-6, atol=1e-8 * amplitude.max())
    variances = np.diagonal(cov).T
    np.testing.assert_allclose(plain(gp, std) ** 2, variances, rtol=1e-5, atol=1e-8)


def test_one_column_stays_two_dimensional():
    X, y = wave(10)
    column = ConvNetGPRegressor(rbf(1.0)).fit(X, y[:, None])
    flat = ConvNetGPRegressor(rbf(1.0)).fit(X, y)
    assert column.predict(X).shape == (10, 1)
    np.testing.assert_array_equal(column.predict(X)[:, 0], flat.predict(X))


@pytest.mark.parametrize("normalize_y", [True, False])
@pytest.mark.parametrize("amplitude", ["profile", 2.0, None])
def test_evidence_is_the_density_of_the_targets(amplitude, normalize_y):
    X, y = wave(12)
    gp = ConvNetGPRegressor(rbf(1.0), amplitude=amplitude, normalize_y=normalize_y)
    gp.fit(X, y)
    mean = y.mean() if normalize_y else 0.0
    cov = gp.amplitude_ * (gram_matrix(rbf(1.0), X) + gp.noise_variance_ * np.eye(12))
    expected = multivariate_normal(np.full(12, mean), cov).logpdf(y)
    assert gp.log_marginal_likelihood() == pytest.approx(expected, rel=1e-9)


def test_evidence_sums_over_outputs():
    X, y = wave(12)
    both = np.column_stack([y, 50.0 * y**2])
    gp = ConvNetGPRegressor(rbf(1.0)).fit(X, both)
    gram = gram_matrix(rbf(1.0), X) + gp.noise_variance_ * np.eye(12)
    expected = sum(
        multivariate_normal(np.full(12, values.mean()), scale * gram).logpdf(values)
        for values, scale in zip(both.T, gp.amplitude_, strict=True)
    )
    assert gp.log_marginal_likelihood() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("amplitude", ["profile", 0.5])
@pytest.mark.parametrize("word", ["loo", "evidence"])
def test_chosen_noise_is_the_best_of_its_grid(word, amplitude):
    X, y = wave(30)

    def score(noise):
        gp = ConvNetGPRegressor(rbf(1.0), noise_variance=noise, amplitude=amplitude)
        gp.fit(X, y)
        if word == "evidence":
            return gp.log_marginal_likelihood()
        mean, std = gp.loo_predict(return_std=True)
        std = plain(gp, std)
        return np.sum(-0.5 * ((y - mean) / std) ** 2 - np.log(std))

    chosen = ConvNetGPRegressor(rbf(1.0), noise_variance=word, amplitude=amplitude)
    best = chosen.fit(X, y).noise_variance_
    top = score(best)
    assert 1e-4 < best < 1.0
    for factor in (0.01, 0.5, 2.0, 100.0):
        assert score(best * factor) < top
    np.testing.assert_allclose(
        ConvNetGPRegressor(rbf(1.0), noise_variance=best, amplitude=amplitude)
        .fit(X, y)
        .predict(X),
        chosen.predict(X),
    )


def test_zero_noise_interpolates():
    X = np.linspace(0.0, 5.0, 6)[:, None]
    y = np.sin(X[:, 0])
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=0.0).fit(X, y)
    mean, std = gp.predict(X, return_std=True)
    np.testing.assert_allclose(mean, y, atol=1e-9)
    np.testing.assert_allclose(std, 0.0, atol=1e-6)


def test_score_is_the_coefficient_of_determination():
    X, y = wave(40)
    gp = ConvNetGPRegressor(rbf(1.0)).fit(X[::2], y[::2])
    expected = r2_score(y[1::2], gp.predict(X[1::2]))
    assert gp.score(X[1::2], y[1::2]) == pytest.approx(expected)
    assert expected > 0.9


def test_prediction_does_not_depend_on_the_other_samples():
    X, y = digits(40)
    settings = {"memory_budget": "300 KB", "noise_variance": 1e-2}
    gp = ConvNetGPRegressor(tiny_network(), **settings).fit(X, y)
    mean, std = gp.predict(X, return_std=True)
    one_by_one = [gp.predict(X[i : i + 1], return_std=True) for i in range(40)]
    np.testing.assert_allclose(mean, [m[0] for m, _ in one_by_one], rtol=1e-9)
    np.testing.assert_allclose(std, [s[0] for _, s in one_by_one], rtol=1e-6)
