"""Upright images: moments by sums over pixels, and invariance."""

import numpy as np
import pytest
import torch

from skconvgp.image_maps import Upright

SIZE = 32


def shape(row, column, slant, contrast=1.0, ground=0.0):
    """Return an image (1, 1, h, w) of a slanted blob around a place."""
    rows, columns = np.mgrid[:SIZE, :SIZE] - (SIZE - 1) / 2.0
    along, across = rows - row, columns - column - slant * (rows - row)
    blob = np.exp(-((along / 3.0) ** 2) / 2.0 - (across / 2.0) ** 2 / 2.0)
    blob = np.where(blob > 1e-4, blob, 0.0)
    return torch.as_tensor(ground + contrast * blob)[None, None]


def moments(image, ground=0.0):
    """Return the centre and the slant of the mass around a ground."""
    mass = np.abs(image.numpy()[0, 0] - ground)
    rows, columns = np.mgrid[:SIZE, :SIZE] - (SIZE - 1) / 2.0
    row, column = (np.average(one, weights=mass) for one in (rows, columns))
    spread = np.average((rows - row) ** 2, weights=mass)
    return (
        row,
        column,
        np.average((rows - row) * (columns - column), weights=mass) / spread,
    )


@pytest.mark.parametrize(("contrast", "ground"), [(1.0, 0.0), (-0.7, 0.9)])
@pytest.mark.parametrize("slant", [-0.6, 0.0, 0.4])
def test_mass_stands_upright_in_the_middle(slant, contrast, ground):
    image = shape(2.3, -1.7, slant, contrast, ground)
    np.testing.assert_allclose(moments(image, ground)[2], slant, atol=0.02)
    upright = Upright()(image)
    np.testing.assert_allclose(moments(upright, ground), 0.0, atol=0.02)
    straight = shape(0.0, 0.0, 0.0, contrast, ground)
    np.testing.assert_allclose(upright, straight, atol=0.06)


def test_units_of_pixels_change_nothing():
    image = shape(2.3, -1.7, 0.4)
    found = Upright()(1e-9 * image)
    np.testing.assert_allclose(1e9 * found, Upright()(image), atol=1e-12)


def test_images_without_mass_stay_as_they_are():
    images = torch.full((2, 3, 5, 6), 0.4, dtype=torch.float64)
    np.testing.assert_allclose(Upright()(images), images, rtol=1e-12)


def test_derivatives_by_images():
    rng = np.random.default_rng(0)
    images = torch.as_tensor(rng.normal(size=(2, 1, 7, 6))).requires_grad_()
    assert torch.autograd.gradcheck(Upright(), (images,), eps=1e-7, atol=1e-4)
