"""Means over equal areas of images: what they keep to the bit."""

import numpy as np
import pytest
import torch

from skconvgp.engine import pool_images

SIZES = pytest.mark.parametrize("size", [(97, 97), (225, 225), (1, 300), (300, 20)])
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


def side(size):
    return max(np.sqrt(np.prod(size)) / 96, max(size) / 192)


@SIZES
@DTYPES
def test_flat_images_keep_their_value(size, dtype):
    flat = torch.full((2, 1, *size), 0.7, dtype=dtype)
    assert pool_images(flat, side(size)).unique().tolist() == [float(flat[0, 0, 0, 0])]


@SIZES
@DTYPES
def test_an_image_alone_has_the_means_that_it_has_among_others(size, dtype):
    images = torch.as_tensor(np.random.default_rng(0).uniform(size=(40, 3, *size)))
    images = images.to(dtype)
    alone = torch.cat([pool_images(one[None], side(size)) for one in images])
    assert torch.equal(pool_images(images, side(size)), alone)
