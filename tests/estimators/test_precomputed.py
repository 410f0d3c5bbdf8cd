"""kernel="precomputed": the same posterior from a given Gram matrix."""

import numpy as np
import pytest
from sklearn.model_selection import cross_val_predict
from sklearn.utils import get_tags

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    NystromCompletedGP,
    NystromCompletedGPRegressor,
    gram_diag,
    gram_matrix,
)
from skconvgp.exceptions import NotPSDError
from skconvgp.kernels import rbf
from skconvgp.likelihoods import Gaussian
from tests.helpers.estimators import blobs, digits, tiny_network, wave

EXACT = {"dtype": "float64"}  # on any backend


def images_and_grams(n=40, n_train=30):
    X, y = digits(n)
    train, test = X[:n_train], X[n_train:]
    gram = gram_matrix(tiny_network(), train, **EXACT)
    cross = gram_matrix(tiny_network(), test, train, **EXACT)
    return train, y[:n_train], test, gram, cross


def test_classification_is_that_of_the_kernel():
    train, y, test, gram, cross = images_and_grams()
    # Without variances of new samples there is no spread.
    likelihood = Gaussian(spread=False)
    direct = ConvNetGPClassifier(tiny_network(), likelihood=likelihood, **EXACT)
    direct.fit(train, y)
    gp = ConvNetGPClassifier("precomputed").fit(gram, y)
    np.testing.assert_allclose(gp.predict_proba(cross), direct.predict_proba(test))
    np.testing.assert_array_equal(gp.predict(cross), direct.predict(test))
    diag = gram_diag(tiny_network(), test, **EXACT)
    for got, expected in zip(
        gp.predict_latent(cross, return_std=True, diag=diag),
        direct.predict_latent(test, return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(gp.loo_predict_proba(), direct.loo_predict_proba())


def test_regression_is_that_of_the_kernel():
    train, y, test, gram, cross = images_and_grams()
    direct = ConvNetGPRegressor(tiny_network(), **EXACT).fit(train, y)
    gp = ConvNetGPRegressor("precomputed").fit(gram, y)
    np.testing.assert_allclose(gp.predict(cross), direct.predict(test))
    diag = gram_diag(tiny_network(), test, **EXACT)
    std = gp.predict_latent(cross, return_std=True, diag=diag, noise=True)[1]
    expected = direct.predict_latent(test, return_std=True, noise=True)[1]
    np.testing.assert_allclose(std, expected, rtol=1e-7)
    evidence = direct.log_marginal_likelihood()
    assert gp.log_marginal_likelihood() == pytest.approx(evidence)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_given_matrix_is_not_changed_and_not_kept(dtype):
    _, y, _, gram, cross = images_and_grams()
    gram = gram.astype(dtype)
    before = gram.copy()
    solve_dtype = np.dtype(dtype).name
    gp = ConvNetGPRegressor("precomputed", solve_dtype=solve_dtype, device="cpu")
    mean = gp.fit(gram, y).predict(cross)
    np.testing.assert_array_equal(gram, before)
    gram[:] = 0.0
    np.testing.assert_array_equal(gp.predict(cross), mean)


def test_shape_and_kernel_of_the_images_are_unknown():
    gram, y = np.eye(5), np.arange(5.0)
    gp = ConvNetGPRegressor("precomputed", image_shape=(7, 7)).fit(gram, y)
    assert gp.kernel_ == "precomputed"
    assert gp.image_shape_ is None
    assert gp.n_features_in_ == 5


def test_deviations_need_the_prior_variances():
    _, y, _, gram, cross = images_and_grams()
    gp = ConvNetGPRegressor("precomputed").fit(gram, y)
    for method in (gp.predict, gp.predict_latent):
        with pytest.raises(ValueError, match=r"precomputed.*`diag`"):
            method(cross, return_std=True)


@pytest.mark.parametrize("shape", [(), (9,), (10, 1), (11,)])
def test_prior_variances_need_one_value_a_row(shape):
    _, y, _, gram, cross = images_and_grams()
    gp = ConvNetGPRegressor("precomputed").fit(gram, y)
    with pytest.raises(ValueError, match=r"`diag` must have shape \(10,\)"):
        gp.predict_latent(cross, return_std=True, diag=np.ones(shape))


def test_covariances_and_draws_are_refused():
    _, y, _, gram, cross = images_and_grams()
    gp = ConvNetGPRegressor("precomputed").fit(gram, y)
    with pytest.raises(ValueError, match=r"precomputed.*kernel object"):
        gp.predict(cross, return_cov=True)
    with pytest.raises(ValueError, match=r"precomputed.*kernel object"):
        gp.sample_y(cross)


def test_draws_before_fit_need_only_the_matrix():
    X = wave(4)[0]
    draws = ConvNetGPRegressor("precomputed", random_state=0).sample_y(
        gram_matrix(rbf(1.0), X), 3
    )
    expected = ConvNetGPRegressor(rbf(1.0), random_state=0).sample_y(X, 3)
    np.testing.assert_allclose(draws, expected, rtol=1e-6)


@pytest.mark.parametrize("shape", [(6, 5), (6, 7)])
def test_training_matrix_must_be_square(shape):
    gp = ConvNetGPRegressor("precomputed")
    with pytest.raises(ValueError, match=r"precomputed.*square.*\(6, \d\)"):
        gp.fit(np.ones(shape), np.arange(6.0))


def test_rows_at_predict_must_have_a_value_for_each_training_sample():
    gp = ConvNetGPRegressor("precomputed").fit(np.eye(5), np.arange(5.0))
    with pytest.raises(ValueError, match=r"4 features.*5 features"):
        gp.predict(np.ones((2, 4)))


def test_matrix_that_is_not_psd_is_refused_with_its_smallest_eigenvalue():
    values = np.array([-0.5, 0.7, 1.0, 1.3, 1.5])
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 5)))[0]
    gram = basis @ np.diag(values) @ basis.T
    gp = ConvNetGPRegressor("precomputed", noise_variance=0.0)
    with pytest.raises(NotPSDError, match="smallest eigenvalue") as caught:
        gp.fit(gram, np.arange(5.0))
    scale = np.diag(gram).mean()
    assert f"{-0.5 / scale:.3g}" in str(caught.value)
    assert "noise_variance" in str(caught.value)


@pytest.mark.parametrize("gram", [np.zeros((4, 4)), -np.eye(4)])
def test_matrix_without_variance_is_refused(gram):
    with pytest.raises(ValueError, match="mean prior variance"):
        ConvNetGPRegressor("precomputed").fit(gram, np.arange(4.0))


def test_only_a_precomputed_kernel_is_pairwise():
    for cls in (ConvNetGPClassifier, ConvNetGPRegressor):
        assert get_tags(cls("precomputed")).input_tags.pairwise
        assert not get_tags(cls()).input_tags.pairwise


def test_cross_validation_cuts_rows_and_columns():
    X, y = blobs(45)
    direct = cross_val_predict(ConvNetGPClassifier(rbf(1.0)), X, y, cv=3)
    gram = gram_matrix(rbf(1.0), X)
    cut = cross_val_predict(ConvNetGPClassifier("precomputed"), gram, y, cv=3)
    np.testing.assert_array_equal(cut, direct)


@pytest.mark.parametrize(
    "cls",
    [
        ConvNetGPClassifier,
        ConvNetGPRegressor,
        NystromCompletedGP,
        NystromCompletedGPRegressor,
    ],
)
def test_a_matrix_that_is_not_symmetric_is_refused(cls):
    gram = np.eye(5) + 0.5 * np.triu(np.ones((5, 5)), 1)
    gram[3, 1] = -0.25
    words = (
        r"entries \[1, 3\] and \[3, 1\] differ by 0\.75.* up to 1\..*X \+ X\.T\) / 2"
    )
    with pytest.raises(ValueError, match=words):
        cls("precomputed").fit(gram, np.arange(5) % 2)
    cls("precomputed").fit((gram + gram.T) / 2, np.arange(5) % 2)


@pytest.mark.parametrize("place", [(0, 599), (599, 0), (437, 436), (300, 301)])
def test_one_entry_far_down_is_found(place):
    gram = np.eye(600)
    gram[place] = 1e-4
    i, j = sorted(place)
    with pytest.raises(ValueError, match=rf"entries \[{i}, {j}\] and \[{j}, {i}\]"):
        ConvNetGPRegressor("precomputed").fit(gram, np.arange(600.0))


def test_rounding_is_no_asymmetry():
    X = np.random.default_rng(0).normal(size=(40, 300)).astype(np.float32)
    gram = (X @ X.T).astype(np.float64)
    gram[1, 0] *= 1.0 + 1e-6
    ConvNetGPRegressor("precomputed").fit(gram, X[:, 0])
