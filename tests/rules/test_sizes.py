"""Settings that decide how much memory is taken are checked before any work."""

from functools import cache

import numpy as np
import pytest
import torch

from skconvgp import (
    BayesianNetworkClassifier,
    BinaryEncoder,
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    KernelFeatures,
    NystromCompletedGP,
    PatchGPClassifier,
    gram_matrix,
)
from skconvgp.completion import RandomFeatures
from skconvgp.exceptions import TileMemoryError
from skconvgp.kernels import (
    PatchKernel,
    Product,
    Scale,
    Sequential,
    Sum,
    convnet,
    dense,
    optical,
    polynomial,
    rbf,
    residual_convnet,
)
from skconvgp.likelihoods import Laplace
from skconvgp.processes.basis import _chosen_patches
from skconvgp.transforms import Downsample, ScatteringTransform
from tests.helpers.estimators import digits
from tests.helpers.work import no_work

GPC, GPR, HUGE = ConvNetGPClassifier, ConvNetGPRegressor, 10**9
X, LABELS = digits(30)
Y = LABELS % 3


def features(kernel, n=HUGE):
    return GPC(kernel, completion=RandomFeatures(n)).fit(X, Y)


@cache
def fitted():
    return GPR(rbf(1.0)).fit(X, LABELS)


def draws(n=10**10, **how):
    return fitted().sample_y(X, n, **how)


TOO_LARGE = {
    "random features": ("n_features", lambda: features(rbf(1.0))),
    "features of a sum": ("n_features", lambda: features(rbf(1.0) + rbf(2.0))),
    "features of a product": ("n_features", lambda: features(2.0 * rbf() * rbf())),
    "features of powers": ("n_features", lambda: features(polynomial())),
    "features of a network": ("n_features", lambda: features(dense(1))),
    "a square of features": ("n_features", lambda: features(rbf(1.0), 10**6)),
    "kernel features": ("features", KernelFeatures(rbf(), 10**30).fit),
    "optical features": ("features", KernelFeatures(optical(), HUGE).fit),
    "bits": ("n_bits", BinaryEncoder(HUGE).fit),
    "some bits": ("n_bits", BinaryEncoder(10**6).fit),
    "hidden units": (
        "hidden_layer_sizes",
        BayesianNetworkClassifier(hidden_layer_sizes=(HUGE,)).fit,
    ),
    "networks": ("n_draws", BayesianNetworkClassifier(n_draws=10**30).fit),
    "joint draws": ("n_samples", draws),
    "draws of functions": (
        "n_samples",
        lambda: draws(method="pathwise"),
    ),
    "features of functions": (
        "n_features",
        lambda: draws(1, method="pathwise", n_features=HUGE),
    ),
    "draws before fit": ("n_samples", lambda: GPR(rbf(1.0)).sample_y(X, 10**12)),
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_sizes_that_do_not_fit_are_named_before_any_work(name):
    setting, call = TOO_LARGE[name]
    fitted()
    with no_work(), pytest.raises(TileMemoryError, match=f"`{setting}`"):
        call(X, Y) if call.__name__ == "fit" else call()


OUT_OF_BOUNDS = {
    "depth of convnet": ("depth", lambda: gram_matrix(convnet(10**6, 3), X)),
    "depth of dense": ("depth", lambda: gram_matrix(dense(10**9), X)),
    "depth of shortcuts": ("depth", lambda: gram_matrix(residual_convnet(1001), X)),
    "angles": ("L", ScatteringTransform(1, 10**5).fit),
    "scales": ("2\\*\\*J", ScatteringTransform(10**9).fit),
    "power": ("degree", lambda: gram_matrix(polynomial(10**400), X)),
    "draws of classes": (
        "n_draws",
        GPC(rbf(), likelihood=Laplace(n_draws=10**9)).fit,
    ),
    "seed": ("random_state", GPC(rbf(), random_state=-1).fit),
    "text of a budget": (
        "memory_budget",
        GPC(rbf(), memory_budget="1" * 5000 + " GiB").fit,
    ),
    "number of a budget": ("memory_budget", GPC(rbf(), memory_budget=10**400).fit),
    "an int that Python does not print": (
        "noise_variance",
        GPC(rbf(), noise_variance=10**5000).fit,
    ),
    "image": ("image_shape", GPC(convnet(1), image_shape=(3, 10**6, 10**6)).fit),
}


@pytest.mark.parametrize("name", OUT_OF_BOUNDS)
def test_numbers_out_of_bounds_are_named(name):
    setting, call = OUT_OF_BOUNDS[name]
    with no_work(), pytest.raises(ValueError, match=setting):
        call(X, Y) if call.__name__ == "fit" else call()


@pytest.mark.parametrize("wanted", [10**4, 10**30, (10**30, 7)])
def test_more_places_than_positions_are_the_positions(wanted):
    kernel = PatchKernel(rbf(1.0), patch_size=5, location_lengthscale=2.0)
    gp = PatchGPClassifier(kernel, n_inducing=3, random_state=0)
    found, expected = (
        gp.set_params(n_locations=n).fit(X, Y).predict_proba(X) for n in (wanted, 4)
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("how", ["kmeans", "uniform"])
def test_as_many_patches_are_drawn_as_are_asked_for(monkeypatch, how):
    monkeypatch.setattr(_chosen_patches, "SAMPLED_PATCHES", 50)
    kernel, images = PatchKernel(rbf(1.0), patch_size=3), torch.rand(30, 1, 8, 8)
    for n in (20, 50, 300, 10**30):
        patches = _chosen_patches.choose_patches(
            kernel, images, how, n, torch.Generator().manual_seed(0)
        )
        assert len(patches) == min(n, 30 * 36)
        assert len(torch.unique(patches, dim=0)) == len(patches)


@pytest.mark.parametrize("how", ["kmeans", "uniform"])
def test_rounding_does_not_decide_which_patches_are_drawn(how):
    kernel = PatchKernel(rbf(1.0), patch_size=3)
    images = torch.rand(30, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    images, found = images.double(), []
    for noise in (0.0, 1e-15):
        other = images * (1.0 + noise * torch.rand(30, 1, 8, 8, dtype=torch.float64))
        draw = torch.Generator().manual_seed(0)
        found.append(_chosen_patches.choose_patches(kernel, other, how, 40, draw))
    torch.testing.assert_close(*found, rtol=0, atol=1e-12)


def test_a_matrix_of_inducing_patches_that_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr("skconvgp.engine._devices.free_memory", lambda device: 10**5)
    with pytest.raises(TileMemoryError, match=r"1080 inducing patches .*`n_inducing`"):
        PatchGPClassifier(
            PatchKernel(rbf(1.0), patch_size=3), n_inducing=10**30, memory_budget=10**9
        ).fit(np.random.default_rng(0).random((30, 1, 8, 8)), Y)


def test_squares_of_any_size_are_the_image():
    whole = Downsample(10**30).fit_transform(X)
    np.testing.assert_allclose(whole[:, 0, 0, 0], X.mean((1, 2, 3)), rtol=1e-6)


@pytest.mark.parametrize("length", [1e-100, 1e100])
def test_lengthscales_at_their_bounds_have_no_overflow(length):
    points = np.array([[0.0], [1.0]])
    found = gram_matrix(rbf(length), points)
    np.testing.assert_allclose(
        found, np.exp(-((points / length - points.T / length) ** 2))
    )
    with pytest.raises(ValueError, match="from 1e-100 to 1e\\+100"):
        gram_matrix(rbf(length**1.01), points)


def test_landmarks_are_as_many_as_there_are_samples():
    found, expected = (
        NystromCompletedGP(rbf(1.0), n_landmarks=n, random_state=0).fit(X, Y)
        for n in (10**30, len(X))
    )
    np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(X))


NESTED = {
    "multiples": lambda kernel: Scale(kernel, 1.0),
    "sums": lambda kernel: Sum(kernel, rbf(1.0)),
    "products": lambda kernel: Product(kernel, rbf(1.0)),
    "chains": Sequential,
}


@pytest.mark.parametrize("name", NESTED)
def test_kernels_nested_too_deeply_are_refused(name):
    kernel = dense(1)
    for _ in range(3000):
        kernel = NESTED[name](kernel)
    assert repr(kernel).startswith(type(kernel).__name__)
    for call in (
        lambda: gram_matrix(kernel, X),
        lambda: GPC(kernel).fit(X, Y),
        lambda: kernel.theta,
        kernel.get_params,
        kernel.replace,
    ):
        with pytest.raises(ValueError, match="nested too deeply"):
            call()
