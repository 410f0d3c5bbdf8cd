"""Patches that are flat, faint or large: their contrast is that of numbers."""

import numpy as np
import pytest

from skconvgp import (
    ImageClassifier,
    PatchGPClassifier,
    gram_gradient,
    gram_matrix,
    gram_vjp,
)
from skconvgp.kernels import PatchContrast, PatchKernel, PatchWhitening, rbf


@pytest.mark.parametrize("normalization", [PatchContrast(), PatchWhitening()])
@pytest.mark.parametrize("size", [1e-40, 1e-20, 1e20, 1e30])
def test_sizes_of_images_do_not_matter_if_contrast_is_normalized(normalization, size):
    images = np.random.default_rng(0).random((6, 3, 7, 7))
    kernel = PatchKernel(patch_size=3, normalization=normalization)
    expected = gram_matrix(kernel, images, dtype="float64")
    for dtype in ("float32", "float64"):
        found = gram_matrix(kernel, images * size, dtype=dtype)
        np.testing.assert_allclose(found, expected, rtol=2e-3 if size < 1e-38 else 1e-4)


@pytest.mark.parametrize("normalization", [PatchContrast(), PatchWhitening()])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("colour", [0.0, 0.3, 1.0, 200.0])
def test_flat_patches_become_zeros(normalization, dtype, colour):
    flat = np.full((5, 3, 6, 6), colour)
    kernel = PatchKernel(rbf(1.0), patch_size=3, normalization=normalization)
    kernel = kernel.resolve(flat)
    found, slopes = gram_gradient(kernel, flat, dtype=dtype)
    np.testing.assert_allclose(found, found[0, 0], rtol=1e-5)
    assert found[0, 0] > 0.0
    assert np.isfinite(slopes).all()
    by_theta, by_pixels = gram_vjp(kernel, flat, flat, np.ones((5, 5)), dtype=dtype)
    assert np.isfinite(by_theta).all()
    assert np.isfinite(by_pixels).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_flat_image_among_others_and_swatches(dtype):
    images = np.random.default_rng(0).random((8, 3, 6, 6))
    images[2], images[5] = 0.4, 0.0
    swatches = np.broadcast_to(images[:, :, :1, :1], images.shape)
    for X in (images, swatches):
        gram = gram_matrix(PatchKernel(patch_size=3), X, dtype=dtype)
        assert np.isfinite(gram).all()
        assert (np.diag(gram) > 0.0).all()
        labels = np.arange(8) % 2
        for make in (ImageClassifier, PatchGPClassifier):
            model = make(dtype=dtype, random_state=0).fit(X, labels)
            assert np.isfinite(model.predict_proba(X)).all()
            assert np.isfinite(model.latent_gradient(X[2:3])).all()


@pytest.mark.filterwarnings("ignore:All .* training samples are equal")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("colours", [(0.3, 0.3, 0.3), (0.3, 0.7, 0.1), (200.0,)])
def test_rounding_errors_of_flat_images_are_not_learned(colours, dtype):
    X = np.ones((10, len(colours), 8, 8)) * np.reshape(colours, (-1, 1, 1))
    gp = ImageClassifier(dtype=dtype, random_state=0).fit(X, np.arange(10) % 2)
    np.testing.assert_allclose(gp.predict_proba(X), 0.5, atol=0.01)
    assert np.abs(gp.latent_gradient(X[:1])).max() < 1.0
