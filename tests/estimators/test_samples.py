"""Draws from posterior and prior."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from skconvgp import ConvNetGPClassifier, ConvNetGPRegressor, gram_matrix
from skconvgp.completion import SoftImpute
from skconvgp.kernels import rbf
from tests.helpers.estimators import blobs, digits, tiny_network, wave

N_DRAWS = 20_000
ERRORS = 5.0  # standard errors that an average may be off


def assert_moments(draws, mean, cov):
    """Compare draws (n, N_DRAWS) with a Gaussian."""
    variances = np.diag(cov)
    bound = ERRORS * np.sqrt(variances / N_DRAWS) + 1e-9
    assert (np.abs(draws.mean(1) - mean) < bound).all()
    spread = np.sqrt((np.outer(variances, variances) + cov**2) / N_DRAWS)
    assert (np.abs(np.cov(draws) - cov) < ERRORS * spread + 1e-9).all()


def test_regression_draws_have_the_moments_of_the_posterior():
    X, y = wave(15)
    gp = ConvNetGPRegressor(rbf(1.0), random_state=0).fit(X, y)
    test = np.array([[-2.0], [1.0], [1.3], [9.0]])
    draws = gp.sample_y(test, N_DRAWS)
    assert draws.shape == (4, N_DRAWS)
    assert_moments(draws, *gp.predict(test, return_cov=True))


def test_each_output_has_draws_of_its_own():
    X, y = wave(15)
    gp = ConvNetGPRegressor(rbf(1.0), random_state=0)
    gp.fit(X, np.column_stack([y, 100.0 * y**2]))
    test = np.array([[-2.0], [7.0]])
    draws = gp.sample_y(test, N_DRAWS)
    mean, cov = gp.predict(test, return_cov=True)
    assert draws.shape == (2, 2, N_DRAWS)
    for i in range(2):
        assert_moments(draws[:, i], mean[:, i], cov[:, :, i])
    correlation = np.corrcoef(draws[0, 0], draws[0, 1])[0, 1]
    assert abs(correlation) < ERRORS / np.sqrt(N_DRAWS)


def test_classifier_draws_have_the_moments_of_the_latents():
    X, y = blobs(20)
    gp = ConvNetGPClassifier(rbf(1.0), random_state=0).fit(X, y)
    test = np.array([[0.0, 0.0], [5.0, 5.0]])
    draws = gp.sample_y(test, N_DRAWS)
    mean, cov = gp.predict_latent(test, return_cov=True)
    assert draws.shape == (2, 3, N_DRAWS)
    for i in range(3):
        assert_moments(draws[:, i], mean[:, i], cov[:, :, i])


@pytest.mark.parametrize(
    ("amplitude", "variance"), [("profile", 1.0), (4.0, 4.0), (None, None)]
)
def test_draws_before_fit_are_those_of_the_prior(amplitude, variance):
    X = digits(4)[0]
    gram = gram_matrix(tiny_network(), X)
    if variance is not None:
        gram = variance * gram / np.diag(gram).mean()
    gp = ConvNetGPRegressor(tiny_network(), amplitude=amplitude, random_state=0)
    draws = gp.sample_y(X, N_DRAWS)
    assert draws.shape == (4, N_DRAWS)
    assert_moments(draws, np.zeros(4), gram)
    assert not hasattr(gp, "dual_coef_")
    assert not hasattr(gp, "n_features_in_")


def test_classifier_has_one_latent_before_fit():
    draws = ConvNetGPClassifier(rbf(1.0), random_state=0).sample_y(blobs(5)[0], 7)
    assert draws.shape == (5, 1, 7)


@pytest.mark.parametrize("is_fitted", [True, False])
def test_one_seed_gives_one_draw(is_fitted):
    X, y = wave(10)
    gp = ConvNetGPRegressor(rbf(1.0), random_state=3)
    if is_fitted:
        gp.fit(X, y)
    default = gp.sample_y(X, 2)
    np.testing.assert_array_equal(default, gp.sample_y(X, 2))
    np.testing.assert_array_equal(default, gp.sample_y(X, 2, random_state=3))
    assert not np.array_equal(default, gp.sample_y(X, 2, random_state=4))


def test_random_state_may_be_a_generator_that_moves_on():
    X, y = wave(10)
    gp = ConvNetGPRegressor(rbf(1.0)).fit(X, y)
    first = gp.sample_y(X, 2, random_state=np.random.RandomState(3))
    np.testing.assert_array_equal(first, gp.sample_y(X, 2, random_state=3))
    state = np.random.RandomState(3)
    gp.sample_y(X, 2, random_state=state)
    assert not np.array_equal(first, gp.sample_y(X, 2, random_state=state))


def test_draws_leave_the_global_generators_alone():
    def states():
        legacy = np.random.get_state()  # noqa: NPY002  (the one to be left alone)
        return legacy[1].tolist(), torch.get_rng_state().tolist()

    X, y = wave(10)
    before = states()
    ConvNetGPRegressor(rbf(1.0), random_state=0).fit(X, y).sample_y(X)
    assert states() == before


@pytest.mark.filterwarnings("ignore:.*of the variance of entries:UserWarning")
@pytest.mark.parametrize("fraction", [0.1, 0.5])
def test_draws_of_a_completed_matrix_are_finite(fraction):
    X, y = digits(120)
    gp = ConvNetGPClassifier(
        tiny_network(),
        completion=SoftImpute(),
        observed_fraction=fraction,
        random_state=0,
    ).fit(X[:80], y[:80])
    with pytest.warns(UserWarning, match="exceed the prior variance"):
        mean, cov = gp.predict_latent(X[80:], return_cov=True)
    assert np.linalg.eigvalsh(cov[:, :, 0])[0] > -1e-9
    with pytest.warns(UserWarning, match="exceed the prior variance"):
        draws = gp.sample_y(X[80:], n_samples=2)
    assert np.isfinite(draws).all()
    assert mean.shape == (40, 10)


@pytest.mark.parametrize("is_fitted", [True, False])
def test_what_is_no_array_is_refused_by_what_reads_it(is_fitted):
    gp = ConvNetGPRegressor(rbf(1.0))
    if is_fitted:
        gp.fit(*wave(6))
    with pytest.raises(TypeError, match="Sparse data was passed"):
        gp.sample_y(csr_array(np.eye(6)[:, :1]))
    with pytest.raises(ValueError, match="Expected 2D array"):
        gp.sample_y(None)
