"""Our kernels inside scikit-learn's own estimators."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import KernelPCA
from sklearn.gaussian_process import (
    GaussianProcessClassifier,
    GaussianProcessRegressor,
)
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_approximation import Nystroem
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.svm import SVC

from skconvgp import as_sklearn_kernel, gram_diag, gram_matrix
from skconvgp.exceptions import ImageShapeWarning
from skconvgp.kernels import convnet, dense, matern, rbf
from tests.helpers.estimators import blobs, digits, tiny_network, wave


def network_kernel(**settings):
    return as_sklearn_kernel(tiny_network().replace(**settings), image_shape=(8, 8))


def digit_rows(n):
    X, y = digits(n)
    return X.reshape(n, -1), y


def test_values_are_those_of_the_gram_matrix():
    X = digit_rows(10)[0]
    kernel, images = network_kernel(), digits(10)[0]
    exact = {"dtype": "float64"}  # on any backend
    gram = gram_matrix(tiny_network(), images, **exact)
    np.testing.assert_array_equal(kernel(X), gram)
    cross = gram_matrix(tiny_network(), images[:4], images[4:], **exact)
    np.testing.assert_array_equal(kernel(X[:4], X[4:]), cross)
    diag = gram_diag(tiny_network(), images, **exact)
    np.testing.assert_array_equal(kernel.diag(X), diag)


@pytest.mark.parametrize(
    "kernel",
    [
        tiny_network(),
        tiny_network().unshared(),
        tiny_network() + 2.0 * rbf(3.0),
        dense(depth=2),
        matern(2.0, nu=2.5),
    ],
    ids=repr,
)
def test_gradient_is_that_of_finite_differences(kernel):
    X = digit_rows(6)[0]
    wrapped = as_sklearn_kernel(kernel, image_shape=(8, 8))
    gram, gradient = wrapped(X, eval_gradient=True)
    np.testing.assert_allclose(gram, wrapped(X), rtol=1e-12)
    assert gradient.shape == (6, 6, len(wrapped.theta))
    step = 1e-5
    for i in range(len(wrapped.theta)):
        shift = step * np.eye(len(wrapped.theta))[i]
        above = wrapped.clone_with_theta(wrapped.theta + shift)(X)
        below = wrapped.clone_with_theta(wrapped.theta - shift)(X)
        expected = (above - below) / (2.0 * step)
        scale = np.abs(gram).max()
        np.testing.assert_allclose(
            gradient[:, :, i], expected, rtol=1e-6, atol=1e-8 * scale
        )


def test_gradient_of_two_sets_is_refused():
    with pytest.raises(ValueError, match="eval_gradient"):
        as_sklearn_kernel(rbf(1.0))([[0.0]], [[1.0]], eval_gradient=True)


def test_regressor_finds_the_optimum_of_its_own_kernel():
    X, y = wave(30)
    y = y - y.mean()
    ours = GaussianProcessRegressor(as_sklearn_kernel(rbf(1.0)), alpha=0.01).fit(X, y)
    theirs = GaussianProcessRegressor(RBF(), alpha=0.01).fit(X, y)
    assert ours.kernel_.theta[0] != 0.0
    np.testing.assert_allclose(ours.kernel_.theta, theirs.kernel_.theta, atol=1e-3)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-4)
    assert ours.log_marginal_likelihood_value_ == pytest.approx(
        theirs.log_marginal_likelihood_value_, rel=1e-6
    )
    lengthscale = ours.kernel_.kernel.lengthscale
    assert np.log(lengthscale) == pytest.approx(ours.kernel_.theta[0])


def test_regressor_learns_a_network():
    X, y = digit_rows(40)
    kernel = network_kernel(bias_variance_bounds="fixed")
    model = GaussianProcessRegressor(kernel, alpha=0.1, normalize_y=True).fit(X, y)
    start = model.log_marginal_likelihood(kernel.theta)
    assert model.log_marginal_likelihood_value_ > start + 0.1
    gradient = model.log_marginal_likelihood(model.kernel_.theta, True)[1]
    assert np.abs(gradient).max() < 0.01
    assert kernel.kernel.weight_variance == tiny_network().weight_variance


def test_sums_with_kernels_of_scikit_learn():
    X, y = wave(20)
    kernel = ConstantKernel(2.0) * as_sklearn_kernel(rbf(0.5)) + WhiteKernel(0.1)
    reference = ConstantKernel(2.0) * RBF(0.5) + WhiteKernel(0.1)
    np.testing.assert_allclose(kernel(X), reference(X), atol=1e-12)
    np.testing.assert_allclose(kernel.diag(X), reference.diag(X))
    np.testing.assert_allclose(kernel.theta, reference.theta)
    got, expected = (k(X, eval_gradient=True)[1] for k in (kernel, reference))
    np.testing.assert_allclose(got, expected, atol=1e-12)
    model = GaussianProcessRegressor(kernel, optimizer=None).fit(X, y)
    assert model.predict(X).shape == (20,)


def test_classifier_with_the_laplace_approximation():
    X, y = blobs(30, 2)
    ours = GaussianProcessClassifier(as_sklearn_kernel(rbf(1.0))).fit(X, y)
    theirs = GaussianProcessClassifier(RBF()).fit(X, y)
    np.testing.assert_allclose(ours.kernel_.theta, theirs.kernel_.theta, atol=1e-2)
    np.testing.assert_allclose(
        ours.predict_proba(X), theirs.predict_proba(X), atol=1e-3
    )


def test_support_vectors_are_those_of_the_precomputed_matrix():
    X, y = digit_rows(60)
    gram, cross = network_kernel()(X[:40]), network_kernel()(X[40:], X[:40])
    ours = SVC(kernel=network_kernel()).fit(X[:40], y[:40])
    reference = SVC(kernel="precomputed").fit(gram, y[:40])
    np.testing.assert_array_equal(ours.predict(X[40:]), reference.predict(cross))


def test_a_search_names_settings_as_with_estimators_of_the_package():
    X, y = digit_rows(60)
    machine, given = SVC(kernel=network_kernel()), tiny_network().weight_variance
    assert machine.get_params()["kernel__weight_variance"] == given
    grid = {"kernel__weight_variance": [0.01, 9.0], "kernel__image_shape": [(1, 8, 8)]}
    search = GridSearchCV(machine, grid, cv=2).fit(X, y)
    values = [
        cross_val_score(SVC(kernel=network_kernel(weight_variance=w)), X, y, cv=2)
        for w in (0.01, 9.0)
    ]
    means = np.mean(values, axis=1)
    assert means[0] != means[1]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], means)
    best = search.best_params_["kernel__weight_variance"]
    assert search.best_estimator_.kernel.kernel.weight_variance == best
    assert machine.kernel.kernel.weight_variance == given


def test_settings_are_reached_by_both_names():
    kernel = as_sklearn_kernel(2.0 * rbf(3.0))
    assert set(kernel.get_params(deep=False)) == {"kernel", "image_shape"}
    assert set(kernel.get_params()) == {
        "image_shape",
        "kernel",  # of the wrapper: that of the scale is kernel__kernel
        "factor",
        "factor_bounds",
        "kernel__factor",
        "kernel__factor_bounds",
        "kernel__kernel",
        "kernel__kernel__lengthscale",
        "kernel__kernel__lengthscale_bounds",
    }
    assert kernel.set_params(factor=5.0).kernel.factor == 5.0
    for name, value in kernel.get_params().items():
        assert kernel.set_params(**{name: value}).get_params()[name] == value
    kernel.set_params(kernel__kernel__lengthscale=7.0)
    assert kernel.kernel.kernel.lengthscale == 7.0
    changed = clone(kernel).set_params(kernel=rbf(1.0), lengthscale=4.0)
    assert changed.kernel == rbf(4.0)
    assert kernel.kernel.kernel.lengthscale == 7.0
    summed = ConstantKernel(2.0) * kernel
    assert summed.set_params(k2__factor=9.0).k2.kernel.factor == 9.0
    with pytest.raises(ValueError, match="Invalid parameter 'depth'"):
        kernel.set_params(depth=3)
    with pytest.raises(ValueError, match="Invalid parameter 'image_shape'"):
        kernel.set_params(image_shape__depth=3)


def test_kernel_ridge():
    X, y = wave(20)
    ours = KernelRidge(alpha=0.1, kernel=as_sklearn_kernel(rbf(1.0)))
    gram = gram_matrix(rbf(1.0), X)
    expected = gram @ np.linalg.solve(gram + 0.1 * np.eye(20), y)
    np.testing.assert_allclose(ours.fit(X, y).predict(X), expected, rtol=1e-7)


def test_kernel_pca():
    X = digit_rows(20)[0]
    gram = network_kernel()(X)
    ours = KernelPCA(2, kernel=network_kernel()).fit_transform(X)
    centred = gram - gram.mean(0) - gram.mean(1)[:, None] + gram.mean()
    values, vectors = np.linalg.eigh(centred)
    expected = vectors[:, :-3:-1] * np.sqrt(values[:-3:-1])
    np.testing.assert_allclose(np.abs(ours), np.abs(expected), rtol=1e-6)


def test_nystroem_with_all_samples_is_exact():
    X = digit_rows(10)[0]
    features = Nystroem(kernel=network_kernel(), n_components=10).fit_transform(X)
    np.testing.assert_allclose(features @ features.T, network_kernel()(X), rtol=1e-6)


def test_kernel_works_as_a_callable_of_two_rows():
    X = digit_rows(12)[0]
    kernel = network_kernel()
    gram = kernel(X)
    assert kernel(X[:1], X[1:2]).shape == (1, 1)
    np.testing.assert_allclose(kernel(X[:1], X[1:2])[0, 0], gram[0, 1], rtol=1e-12)


def test_clone_and_equality():
    kernel = network_kernel(depth=2)
    copy = clone(kernel)
    assert copy == kernel
    assert copy is not kernel
    assert copy.kernel is not kernel.kernel
    assert kernel != network_kernel(depth=1)
    assert kernel != as_sklearn_kernel(kernel.kernel, image_shape=None)
    assert kernel != rbf(1.0)


def test_repr_shows_the_kernel():
    assert (
        repr(as_sklearn_kernel(rbf(2.0))) == "as_sklearn_kernel(rbf(lengthscale=2.0))"
    )


def test_fixed_bounds_leave_a_hyperparameter_alone():
    X, y = wave(20)
    fixed = as_sklearn_kernel(rbf(1.0, lengthscale_bounds="fixed"))
    assert fixed.n_dims == 0
    assert fixed.theta.shape == (0,)
    assert fixed.bounds.shape == (0, 2)
    model = GaussianProcessRegressor(fixed, alpha=0.1).fit(X, y)
    assert model.kernel_.kernel.lengthscale == 1.0
    half = network_kernel(weight_variance_bounds="fixed")
    assert half.n_dims == 1
    assert half(digit_rows(3)[0], eval_gradient=True)[1].shape == (3, 3, 1)


def test_hyperparameters_have_names_and_bounds():
    kernel = as_sklearn_kernel(
        convnet(depth=1, weight_variance_bounds=(0.1, 10.0), bias_variance=0.0)
    )
    names = [item.name for item in kernel.hyperparameters]
    assert names == ["weight_variance", "bias_variance"]
    assert [item.fixed for item in kernel.hyperparameters] == [False, True]
    np.testing.assert_allclose(kernel.theta, [np.log(2.79)])
    np.testing.assert_allclose(kernel.bounds, np.log([[0.1, 10.0]]))


def test_theta_can_be_set():
    kernel = as_sklearn_kernel(rbf(1.0))
    original = kernel.kernel
    kernel.theta = np.log([3.0])
    assert kernel.kernel.lengthscale == pytest.approx(3.0)
    assert original.lengthscale == 1.0


def test_image_shape_is_guessed_with_a_warning():
    X = digit_rows(4)[0]
    with pytest.warns(ImageShapeWarning):
        as_sklearn_kernel(tiny_network())(X)


def test_kernel_is_not_stationary():
    assert not as_sklearn_kernel(rbf(1.0)).is_stationary()
