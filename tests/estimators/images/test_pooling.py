"""Networks that average over positions, in estimators and functions."""

import re
import warnings

import numpy as np
import pytest
import torch
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    NystromCompletedGP,
    as_sklearn_kernel,
    gram_diag,
    gram_matrix,
)
from skconvgp.backends import choose_backend, missing_extension
from skconvgp.completion import CoarseKernel, Nystrom
from skconvgp.kernels import (
    AvgPool2d,
    Conv2d,
    Dense,
    Flatten,
    FlipAverage,
    ReLU,
    Scale,
    Sequential,
    convnet,
    convnet_gap,
    myrtle,
    rbf,
)
from tests.helpers.fused import needs_extension
from tests.helpers.lines import show_all

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


def test_columns_of_landmarks_show_what_they_take_and_how_far_they_are(
    capfd, monkeypatch
):
    X, y = data()
    show_all(monkeypatch)
    monkeypatch.setattr("skconvgp.engine._plan.MAX_BLOCK", 4)
    gp = NystromCompletedGP(KERNEL, n_landmarks=10, backend="torch", verbose=1)
    report = gp.fit(X, y).fit_report_
    lines = capfd.readouterr().err.splitlines()
    cost = rf"of {18 * 10} pairs, \S+/s of {4**4 + 2**4} pairs of positions"
    assert re.search(f"left: covariances, .* {cost}$", lines[0])
    assert f"143 pairs, {4**4 + 2**4} pairs of positions each," in str(report)
    done = [int(one) for one in re.findall(r"(\d+) of 180 pairs", "\n".join(lines))]
    assert len(set(done)) > 10  # blocks of 4 x 4 pairs, some of them ragged
    assert done == sorted(done)
    assert lines[-1].startswith("fit: 100%")


def test_variances_are_computed_only_where_deviations_are_asked_for(monkeypatch):
    X, y = data()
    settings = {"optimizer": None, "backend": "torch"}
    exact = Nystrom(n_landmarks=4)
    summed = CoarseKernel(pool=1, kernel=Scale(KERNEL, 2.0), exact=exact)
    models = [
        ConvNetGPClassifier(KERNEL, **settings),
        ConvNetGPRegressor(KERNEL, **settings),
        ConvNetGPRegressor(KERNEL, completion=summed, **settings),
        NystromCompletedGP(KERNEL, n_landmarks=10, backend="torch"),
    ]
    models = [gp.fit(X[:12], y[:12]) for gp in models]
    n_computed, of_kernel = [], Sequential.diag

    def diag(kernel, one):
        values = of_kernel(kernel, one)
        n_computed.append(len(values))
        return values

    monkeypatch.setattr(Sequential, "diag", diag)
    for gp in models:
        gp.predict(X[12:])
        assert not n_computed
        gp.predict_latent(X[12:], return_std=True)
        assert sum(n_computed) >= 6
        n_computed.clear()


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
def test_the_fused_backend_counts_displacements_and_layers():
    shape = (1, 8, 8)
    for depth, pooling, n_passes in (
        (1, "global", 64),
        (4, "global", 256),
        (1, None, 2),  # `Flatten` and `Dense` are a layer too
        (4, None, 5),
    ):
        kernel = convnet(depth=depth, kernel_size=3, pooling=pooling)
        choice = choose_backend(kernel, shape, "fused", torch.device("cpu"))
        image = torch.zeros(1, *shape)
        assert choice.tiles().measure(image).n_passes == n_passes
        assert choice.tangents().measure(image).n_passes == n_passes * 3  # two more


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"radius": 3}, "`radius`=3 has no effect without pooling='local'"),
        ({"pooling": "global", "step": 2}, "`step`=2 has no effect without"),
    ],
)
def test_settings_of_windows_without_windows_are_told(settings, words, monkeypatch):
    X, y = data()
    network = convnet(depth=1, kernel_size=3, **settings)
    for kernel in (network, FlipAverage(network) + rbf(1.0)):
        monkeypatch.setattr("skconvgp.estimators._warn.WARNED", {})
        with pytest.warns(UserWarning, match=words):
            gram_matrix(kernel, X)
        with warnings.catch_warnings():  # once is enough
            warnings.simplefilter("error")
            ConvNetGPClassifier(kernel, noise_variance=0.1).fit(X, y)


def test_windows_can_be_searched_beside_networks_without():
    X, y = data()
    grid = {"kernel__pooling": [None, "local"], "kernel__radius": [1, 3]}
    gp = ConvNetGPClassifier(convnet(depth=1, kernel_size=3), noise_variance=0.1)
    search = GridSearchCV(gp, grid, cv=2, error_score="raise")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores = search.fit(X, y).cv_results_["mean_test_score"]
    assert scores[0] == scores[1]
