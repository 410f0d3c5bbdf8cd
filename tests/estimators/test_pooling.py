"""Networks that average over positions, in estimators and functions."""

import numpy as np
import torch
from sklearn.kernel_ridge import KernelRidge

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    NystromCompletedGP,
    as_sklearn_kernel,
    gram_diag,
    gram_matrix,
)
from skconvgp.backends import choose_backend, missing_extension
from skconvgp.completion import CoarseKernel
from skconvgp.kernels import (
    AvgPool2d,
    Conv2d,
    Dense,
    Flatten,
    ReLU,
    Sequential,
    convnet,
    convnet_gap,
    myrtle,
)
from tests.helpers.fused import needs_extension

KERNEL = Sequential(
    Conv2d(3, weight_variance=2.0, bias_variance=0.1),
    ReLU(),
    AvgPool2d(2),
    ReLU(),
    AvgPool2d(2),
    Flatten(),
    Dense(),
)
EXACT = {"dtype": "float64"}


def data(n=18):
    """Return images of a bar at one of four places, upright or flat."""
    rng = np.random.default_rng(0)
    X = 0.1 * rng.normal(size=(n, 4, 4))
    y = np.arange(n) % 2
    for image, label, place in zip(X, y, rng.integers(4, size=n), strict=True):
        image[(slice(None), place) if label else (place, slice(None))] += 1.0
    return X, y


def test_matrix_diagonal_and_cache(tmp_path):
    X, _ = data(7)
    gram = gram_matrix(KERNEL, X, **EXACT)
    np.testing.assert_allclose(gram_diag(KERNEL, X, **EXACT), gram.diagonal())
    cached = gram_matrix(KERNEL, X, cache_dir=tmp_path, **EXACT)
    again = gram_matrix(KERNEL, X, cache_dir=tmp_path, **EXACT)
    np.testing.assert_array_equal(cached, again)
    np.testing.assert_allclose(cached, gram, rtol=1e-12)
    small = gram_matrix(KERNEL, X, memory_budget=2**18, **EXACT)
    np.testing.assert_allclose(small, gram, rtol=1e-12)


def test_exact_processes_learn_a_shifted_bar():
    X, y = data()
    gp = ConvNetGPClassifier(KERNEL, optimizer=None).fit(X[:12], y[:12])
    assert gp.score(X[12:], y[12:]) == 1.0
    regressor = ConvNetGPRegressor(KERNEL, optimizer=None, noise_variance=0.01)
    mean, std = regressor.fit(X[:12], 2.0 * y[:12] - 1.0).predict(X, return_std=True)
    assert ((mean > 0.0) == y).all()
    assert (std > 0.0).all()


def test_derivatives_that_scikit_learn_optimizes_with():
    X = data(3)[0].reshape(3, -1)
    kernel = as_sklearn_kernel(KERNEL, image_shape=(4, 4))
    gram, slopes = kernel(X, eval_gradient=True)
    step = np.zeros(len(kernel.theta))
    step[0] = 1e-5
    higher, lower = (
        kernel.clone_with_theta(kernel.theta + move)(X) for move in (step, -step)
    )
    scale = gram.max()
    np.testing.assert_allclose(
        slopes[..., 0] / scale, (higher - lower) / 2e-5 / scale, atol=1e-8
    )


def test_landmarks_and_completions():
    X, y = data()
    gp = NystromCompletedGP(KERNEL, n_landmarks=10, random_state=0).fit(X[:12], y[:12])
    assert gp.score(X[12:], y[12:]) == 1.0
    coarse = CoarseKernel(kernel=Sequential(Conv2d(3), ReLU(), Flatten(), Dense()))
    gp = ConvNetGPClassifier(KERNEL, completion=coarse, optimizer=None)
    assert gp.fit(X[:12], y[:12]).predict(X[12:]).shape == (6,)


def test_as_a_kernel_of_scikit_learn():
    X, y = data()
    kernel = as_sklearn_kernel(KERNEL, image_shape=(4, 4))
    ridge = KernelRidge(alpha=0.01, kernel=kernel).fit(
        X[:12].reshape(12, -1), 2.0 * y[:12] - 1.0
    )
    assert ((ridge.predict(X[12:].reshape(6, -1)) > 0.0) == y[12:]).all()


def test_any_backend_gives_the_same_covariances():
    X, _ = data(3)
    for kernel in (KERNEL, myrtle(), convnet_gap(depth=1, lattice=2)):
        exact = gram_matrix(kernel, X, backend="torch", **EXACT)
        np.testing.assert_allclose(gram_matrix(kernel, X), exact, rtol=1e-5)
        choice = choose_backend(kernel, (1, 4, 4), "auto", torch.device("cpu"))
        assert choice.reason == missing_extension()


@needs_extension
def test_the_fused_backend_counts_displacements():
    shape = (1, 8, 8)
    for pooling, n_passes in (("global", 64), (None, 1)):
        kernel = convnet(depth=1, kernel_size=3, pooling=pooling)
        choice = choose_backend(kernel, shape, "fused", torch.device("cpu"))
        image = torch.zeros(1, *shape)
        assert choice.tiles().measure(image).n_passes == n_passes
        assert choice.tangents().measure(image).n_passes == n_passes
