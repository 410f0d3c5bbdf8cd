"""Derivatives by images of parts that see them through transformers."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from skconvgp import ImageClassifier, ImageRegressor, transforms
from skconvgp.kernels import PatchKernel, convnet, rbf

N, SIDE, STEP = 16, 8, 1e-5
SETTINGS = {"dtype": "float64", "noise_variance": 0.1, "random_state": 0}
PIPELINES = {
    "ScatteringTransform, ChannelWhitening": make_pipeline(
        transforms.ScatteringTransform(1, 4), transforms.ChannelWhitening()
    ),
    "ContrastNormalization, passthrough, Downsample": make_pipeline(
        transforms.ContrastNormalization(),
        "passthrough",
        make_pipeline(transforms.Downsample()),
    ),
    "a data frame of ChannelScaler": transforms.ChannelScaler().set_output(
        transform="pandas"
    ),
}
OF_IMAGES = [name for name in transforms.__all__ if name != "ReadImages"]  # of files
SHOWN = {name: getattr(transforms, name)() for name in OF_IMAGES} | PIPELINES


def images(n=N):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 2, SIDE, SIDE)), rng.normal(size=n)


def assert_slopes_of_differences(model, some):
    slopes = model.latent_gradient(some)[:, 0]
    direction = np.random.default_rng(1).normal(size=some.shape)
    ahead, behind = (model.predict(some + s * STEP * direction) for s in (1.0, -1.0))
    expected = (ahead - behind) / (2.0 * STEP)
    found = (slopes * direction).reshape(len(some), -1).sum(1)
    assert np.abs(expected).min() > 0.0
    np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("name", SHOWN)
def test_derivatives_through_a_transformer_are_those_of_differences(name):
    X, y = images()
    part = (SHOWN[name], rbf(5.0))
    model = ImageRegressor([part, rbf(9.0)], flips=True, **SETTINGS).fit(X, y)
    assert_slopes_of_differences(model, X[:3])


@pytest.mark.parametrize(
    "kernel",
    [convnet(depth=1, kernel_size=3), PatchKernel(rbf(1.0), patch_size=3)],
    ids=lambda kernel: type(kernel).__name__,
)
def test_networks_and_patches_have_them_as_well(kernel):
    X, y = images()
    part = (transforms.ChannelScaler(), kernel)
    assert_slopes_of_differences(ImageRegressor([part], **SETTINGS).fit(X, y), X[:3])


@pytest.mark.parametrize(
    "parts", [[rbf(9.0), PatchKernel(rbf(1.0), patch_size=3)], "patches"], ids=str
)
def test_images_that_are_reduced_have_them_by_whole_pixels(parts):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(N, 1, 5, 200)), rng.normal(size=N)
    model = ImageRegressor(parts, flips=True, **SETTINGS).fit(X, y)
    assert model.pool_ > 1.0
    assert_slopes_of_differences(model, X[:3])


@pytest.mark.parametrize(
    "transformer", [transforms.ChannelWhitening(0.1), transforms.ZCAWhitening(0.1)]
)
def test_pixels_that_are_zero_have_the_same_derivatives(transformer):
    X, y = images()
    X[:, :, :4] = 0.0
    parts = [(transformer, rbf(5.0))]
    model = ImageRegressor(parts, flips=False, **SETTINGS).fit(X, y)
    assert_slopes_of_differences(model, X[:3])
    assert np.isfinite(model.latent_gradient(np.zeros_like(X[:1]))).all()


def shown(X):
    return 2.0 * X


@pytest.mark.parametrize("flips", [False, True])
def test_a_transformer_of_others_is_named(flips):
    X, y = images()
    foreign = FunctionTransformer(shown)
    nested = make_pipeline(transforms.ChannelScaler(), foreign)
    for transformer in (foreign, nested):
        parts = [(transformer, rbf(5.0)), rbf(9.0)]
        model = ImageClassifier(
            parts, part_weights=(1, 1), flips=flips, **SETTINGS
        ).fit(X, y > 0.0)
        with pytest.raises(ValueError, match="not known for the transformer Function"):
            model.latent_gradient(X[:2])
