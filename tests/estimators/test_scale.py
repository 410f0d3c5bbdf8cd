"""Samples of another scale than in `fit` are told."""

import warnings

import numpy as np
import pytest

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    ImageClassifier,
    KernelFeatures,
    KernelFlowsClassifier,
    KernelFlowsWarp,
    NystromCompletedGP,
    PatchGPClassifier,
)
from skconvgp.exceptions import ScaleWarning
from skconvgp.flows import Adam
from skconvgp.kernels import PatchKernel, convnet, dense, dot_product, matern, rbf
from skconvgp.metrics import robustness_curve
from tests.helpers.estimators import blobs, digits, tiny_network

KERNELS = [tiny_network(), dense(depth=1), rbf(2.0)]
every_kernel = pytest.mark.parametrize(
    "kernel", KERNELS, ids=["network", "dense", "rbf"]
)


@pytest.mark.filterwarnings("ignore:All covariances of different samples")
@every_kernel
@pytest.mark.parametrize("n", [1, 30])
def test_pixels_up_to_255_and_up_to_1(kernel, n):
    X, y = digits(40)
    X = X / X.max()
    for fitted, new in ((1.0, 255.0), (255.0, 1.0)):
        gp = ConvNetGPClassifier(kernel).fit(fitted * X, y)
        for method in (gp.predict, gp.predict_proba, gp.predict_latent):
            with pytest.warns(ScaleWarning, match=r"root mean square.*X / 255"):
                method(new * X[:n])


def test_features_of_pixels_up_to_255_and_up_to_1():
    X, _ = digits(40)
    features = KernelFeatures(rbf(2.0), 8, random_state=0).fit(X)
    features.transform(X)
    with pytest.warns(ScaleWarning, match=r"root mean square"):
        features.transform(255.0 * X)


@every_kernel
def test_a_few_dark_images_hide_nothing(kernel):
    X, y = digits(40)
    gp = ConvNetGPClassifier(kernel).fit(X, y)
    new = 255.0 * X[:12]
    new[[3, 7]] = 1e-2 * X[:2]
    with pytest.warns(ScaleWarning, match=r"is mostly"):
        gp.predict(new)


def test_a_warp_and_further_samples():
    X, y = digits(40)
    with pytest.warns(ScaleWarning):
        KernelFlowsWarp(rbf(2.0), n_steps=1, random_state=0).fit(X, y).transform(50 * X)
    gp = NystromCompletedGP(tiny_network(), n_landmarks=10)
    gp.partial_fit(X, y, classes=np.arange(10))
    with pytest.warns(ScaleWarning):
        gp.partial_fit(50.0 * X, y)
    gp.predict(50.0 * X)  # it has seen both


@every_kernel
def test_samples_of_the_same_scale_are_taken_without_a_word(kernel):
    X, y = digits(40)
    gp = ConvNetGPClassifier(kernel).fit(X, y)
    rng = np.random.default_rng(0)
    odd = [
        np.zeros_like(X[:1]),
        np.zeros_like(X[:3]),
        5.0 * X[:2],
        0.2 * X,
        np.concatenate([X[:1], 255.0 * X[:1]]),
        X + rng.normal(size=X.shape),
        X.max() * np.ones_like(X[:1]),
    ]
    for new in odd:
        gp.predict(new)
    robustness_curve(gp, X, y, [0.5])


def test_far_points_of_few_features_are_taken_without_a_word():
    X, y = blobs(20)
    gp = ConvNetGPClassifier(rbf(1.0)).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gp.predict(1e3 * X)


@pytest.mark.filterwarnings("ignore:All .* training samples are equal")
def test_zeros_in_fit_and_matrices_have_no_scale():
    X, y = digits(12)
    ConvNetGPClassifier(rbf(1.0)).fit(np.zeros_like(X), y).predict(X)
    gram = np.eye(20)
    labels = np.arange(20) % 2
    gp = ConvNetGPClassifier("precomputed").fit(gram, labels)
    gp.predict(1e-3 * gram)


BLIND = {
    "near": (rbf(1.0), 1e-7, "the same"),
    "far": (matern(1.0), 1e5, "unrelated"),
    "beside a bias": (convnet(1, 3), 1e-7, "the same"),
}
LEARNERS = {
    "exact": ConvNetGPClassifier,
    "by columns": lambda kernel: NystromCompletedGP(kernel, n_landmarks=10),
    "parts": lambda kernel: ImageClassifier([kernel]),
    "features": lambda kernel: KernelFeatures(kernel, 10),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("name", BLIND)
def test_a_kernel_that_sees_nothing_of_the_samples_is_told(learner, name):
    kernel, size, word = BLIND[name]
    X, y = digits(30)
    with pytest.warns(ScaleWarning, match=f"{word}.* Scale X to numbers near 1"):
        LEARNERS[learner](kernel).fit(size * X, y)


@pytest.mark.parametrize("side", [8, 32])
def test_a_kernel_of_patches_that_sees_nothing_is_told(side):
    X, y = digits(30)
    X = np.tile(X, (1, 1, side // 8, side // 8))
    gp = PatchGPClassifier(PatchKernel(rbf(1.0), patch_size=3), n_inducing=6)
    with pytest.warns(ScaleWarning, match=r"the same.* Scale X to numbers near 1"):
        gp.fit(1e-7 * X, y)


def test_a_kernel_of_patches_that_sees_them_is_not_told():
    X, y = digits(30)
    kernel = PatchKernel(rbf(1.0), patch_size=3)
    PatchGPClassifier(kernel, n_inducing=6).fit(np.tile(X, (1, 1, 4, 4)), y)


ALIKE = {
    **LEARNERS,
    "patches": lambda kernel: PatchGPClassifier(n_inducing=6),
    "flows": lambda kernel: KernelFlowsClassifier(kernel, optimizer=Adam(max_iter=1)),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:.* at a bound:UserWarning")
@pytest.mark.parametrize("learner", ALIKE)
def test_samples_that_are_all_equal_are_told(learner):
    X, y = digits(30)
    with pytest.warns(ScaleWarning, match=r"All 30 training samples are equal"):
        ALIKE[learner](rbf(1.0)).fit(np.repeat(X[:1], 30, axis=0), y)


def test_samples_that_differ_by_their_size_alone_are_seen():
    X = np.linspace(1.0, 2.0, 20)[:, None]
    gp = ConvNetGPRegressor(dot_product()).fit(X, X[:, 0])
    assert gp.predict([[1.5]]) == pytest.approx(1.5, abs=1e-3)


def test_far_samples_with_neighbours_are_seen():
    X = np.repeat(np.arange(20.0) * 1e3, 2)[:, None] + np.tile([0.0, 1.0], 20)[:, None]
    gp = ConvNetGPRegressor(rbf(1.0)).fit(X, np.sin(X[:, 0]))
    assert gp.fit_report_.n_samples == 40
