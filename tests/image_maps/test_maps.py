"""Maps of channels and of whole images against dense linear algebra."""

import numpy as np
import pytest
import torch

from skconvgp.image_maps import (
    ChannelScaling,
    ChannelZCA,
    Contrast,
    ImageBlocks,
    PixelZCA,
    Pooling,
)


@pytest.fixture
def images():
    rng = np.random.default_rng(0)
    mixed = rng.gamma(1.0, size=(30, 4, 5, 6))
    mixed[:, 1] += 0.5 * mixed[:, 0]
    return torch.from_numpy(mixed)


def blocks(images, n_at_once=7):
    """Images that a fit reads a few at a time."""
    return ImageBlocks(images, torch.device("cpu"), n_at_once)


def root_of(matrix, added):
    """The symmetric matrix whose square is the inverse of `matrix` plus a ridge."""
    values, vectors = np.linalg.eigh(matrix + added * np.eye(len(matrix)))
    return vectors @ np.diag(values**-0.5) @ vectors.T


@pytest.mark.parametrize("n_at_once", [7, 1000])
@pytest.mark.parametrize(("offset", "eps"), [(0.1, 1.0), (None, 0.0), (2.0, 0.01)])
def test_channels_are_whitened_as_by_dense_matrices(images, offset, eps, n_at_once):
    values = (
        images.numpy() / np.sqrt((images.numpy() ** 2).mean((0, 2, 3)))[:, None, None]
    )
    if offset is not None:
        values = np.log(values + offset)
    channels = np.moveaxis(values, 1, 0).reshape(4, -1)
    cov = np.cov(channels, ddof=0)
    matrix = root_of(cov, eps * np.trace(cov) / 4)
    expected = matrix @ (channels - channels.mean(1, keepdims=True))
    found = ChannelZCA.fit(blocks(images, n_at_once), offset, eps)(images)
    np.testing.assert_allclose(
        np.moveaxis(found.numpy(), 1, 0).reshape(4, -1), expected, rtol=0, atol=1e-10
    )


@pytest.mark.parametrize("offset", [0.1, None])
def test_whitened_channels_go_back(images, offset):
    signed = images - 1.0
    fitted = ChannelZCA.fit(blocks(signed), offset, 0.3)
    torch.testing.assert_close(fitted.inverse(fitted(signed)), signed)
    scaling = ChannelScaling.fit(blocks(signed))
    torch.testing.assert_close(scaling.inverse(scaling(signed)), signed)


def test_channels_of_zeros_stay_zeros(images):
    images[:, 2] = 0.0
    assert not ChannelScaling.fit(blocks(images))(images)[:, 2].any()
    for offset in (None, 0.1):
        whitened = ChannelZCA.fit(blocks(torch.zeros_like(images)), offset, 1.0)
        assert not whitened(torch.zeros_like(images)).any()


@pytest.mark.parametrize("n_images", [30, 200])
@pytest.mark.parametrize("eps", [0.1, 2.0])
def test_pixels_are_whitened_as_by_a_dense_matrix(n_images, eps):
    """With fewer and with more images than pixels."""
    rng = np.random.default_rng(1)
    images = rng.normal(size=(n_images, 2, 6, 5)).cumsum(-1)
    rows = images.reshape(n_images, -1)
    rows = rows - rows.mean(1, keepdims=True)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    cov = np.cov(rows.T, ddof=0)
    expected = (rows - rows.mean(0)) @ root_of(cov, eps * np.trace(cov) / len(cov))
    given = torch.from_numpy(images)
    found = PixelZCA.fit(blocks(given), eps)(given)
    np.testing.assert_allclose(
        found.numpy().reshape(rows.shape), expected, rtol=0, atol=1e-10
    )
    new = torch.from_numpy(rng.normal(size=(3, 2, 6, 5)))
    of_new = new.numpy().reshape(3, -1)
    of_new = of_new - of_new.mean(1, keepdims=True)
    of_new /= np.linalg.norm(of_new, axis=1, keepdims=True)
    expected = (of_new - rows.mean(0)) @ root_of(cov, eps * np.trace(cov) / len(cov))
    found = PixelZCA.fit(blocks(given), eps)(new).numpy().reshape(3, -1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("n_images", [10, 200])
def test_pixels_without_a_ridge_are_white_on_their_span(n_images):
    given = torch.from_numpy(np.random.default_rng(1).normal(size=(n_images, 1, 5, 4)))
    found = PixelZCA.fit(blocks(given), 0.0)(given).numpy().reshape(n_images, -1)
    values = np.linalg.eigvalsh(np.cov(found.T, ddof=0))
    # Images lose their mean each, and together the mean image.
    rank = min(n_images, 20) - 1
    np.testing.assert_allclose(values[-rank:], 1.0, rtol=1e-9)
    np.testing.assert_allclose(values[:-rank], 0.0, atol=1e-9)


def test_dependent_channels_without_a_ridge_stay_dependent():
    signs = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    channels = np.c_[signs, signs.sum(1)]
    given = torch.from_numpy(channels.reshape(4, 3, 1, 1))
    fitted = ChannelZCA.fit(blocks(given), None, 0.0)
    values = np.linalg.eigvalsh(np.cov(fitted(given)[..., 0, 0].numpy().T, ddof=0))
    np.testing.assert_allclose(values, [0.0, 1.0, 1.0], atol=1e-12)
    across = torch.tensor([1.0, 1.0, -(2.0**0.5)]).double().reshape(1, 3, 1, 1)
    scaled = across / fitted.scaling(torch.ones_like(across))  # not stretched
    torch.testing.assert_close(fitted(scaled).norm(), across.norm())


def test_contrast_is_that_of_each_image(images):
    var = images.numpy().var((1, 2, 3))
    fitted = Contrast.fit(blocks(images), 0.2)
    centred = images.numpy() - images.numpy().mean((1, 2, 3), keepdims=True)
    scale = np.sqrt(var + 0.2 * var.mean())[:, None, None, None]
    np.testing.assert_allclose(fitted(images).numpy(), centred / scale, rtol=1e-12)
    constant = torch.ones(2, 1, 3, 3, dtype=torch.float64)
    assert not Contrast.fit(blocks(constant), 0.0)(constant).any()
    assert not PixelZCA.fit(blocks(constant), 0.1)(constant).any()


def test_squares_are_averaged():
    images = torch.arange(15.0).reshape(1, 1, 3, 5)
    expected = torch.tensor([[[[3.0, 5.0, 6.5], [10.5, 12.5, 14.0]]]])
    torch.testing.assert_close(Pooling(2)(images), expected)
