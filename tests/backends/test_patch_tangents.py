"""Derivatives of kernels of patches in one pass, against torch's forward mode."""

import pytest
import torch

from skconvgp.backends import ReverseTangentBackend, TangentBackend, choose_backend
from skconvgp.kernels import (
    FlipAverage,
    MaxNormalization,
    PatchKernel,
    Scale,
    arcsine,
    convnet,
    dot_product,
    matern,
    polynomial,
    rbf,
)
from tests.helpers.kernels import assert_close, name, random_images

SHAPE = (2, 6, 5)
CPU = torch.device("cpu")


def of_patches(base, **settings):
    settings = {"location_lengthscale": 1.5, "patch_size": 3} | settings
    return PatchKernel(base, **settings)


KERNELS = [
    of_patches(rbf(2.0)),
    of_patches(rbf(2.0), color="stacked", location_lengthscale=None),
    of_patches(rbf(2.0), color="channels", location_lengthscale_bounds="fixed"),
    of_patches(rbf(2.0, lengthscale_bounds="fixed"), color="additive", stride=2),
    of_patches(matern(2.0, nu=0.5), weights=[1, 2, 0, -1, 1, 1, 3, 1, 1, 1, 0, 1]),
    of_patches(matern(2.0, nu=2.5), normalization="center"),
    of_patches(dot_product(), color="channels"),
    of_patches(polynomial(3, bias_variance=0.0)),
    of_patches(arcsine(), color="stacked", patch_size=2),
    of_patches(2.0 * rbf(1.0) * dot_product() + matern(2.0)),
    FlipAverage(of_patches(arcsine())),
    MaxNormalization(of_patches(rbf(2.0)), mode="correlation"),
    0.5 * FlipAverage(3.0 * of_patches(rbf(2.0))),
    Scale(of_patches(dot_product()) + rbf(1.0), 0.2, factor_bounds="fixed"),
    of_patches(arcsine()) + convnet(depth=2, kernel_size=3) + rbf(1.0),
]


def tangents(kernel):
    return choose_backend(kernel, SHAPE, "torch", CPU).tangents()


@pytest.mark.parametrize("kernel", KERNELS, ids=name)
def test_one_pass_has_the_derivatives_of_forward_mode(kernel):
    one, two = random_images(3, *SHAPE), random_images(2, *SHAPE, seed=1)
    two[0] = one[0]  # a pair of equal images
    fast, slow = tangents(kernel), TangentBackend(kernel)
    assert not isinstance(fast, TangentBackend)
    for got, right in zip(values(fast, one, two), values(slow, one, two), strict=True):
        assert got.shape == right.shape
        assert not got.requires_grad
        assert_close(got, right, rtol=1e-11, scale=float(right.abs().max()))


def values(backend, one, two):
    """Return a tile, the upper triangle of a diagonal tile, and the variances."""
    first, second = backend.prepare(one), backend.prepare(two)
    upper = backend.gram(first).permute(2, 0, 1).triu()
    return backend.cross(first, second), upper, backend.diag(first)


@pytest.mark.parametrize(
    "kernel",
    [
        of_patches(rbf([2.0] * 18)),  # a number for each feature
        of_patches(convnet(depth=1, kernel_size=2)),
        rbf(2.0) * of_patches(rbf(2.0)),
        convnet(depth=2, kernel_size=3),
    ],
    ids=name,
)
def test_other_kernels_have_those_of_reverse_mode(kernel):
    assert isinstance(tangents(kernel), ReverseTangentBackend)


def test_room_for_the_columns_of_multiples_is_asked_for():
    image = random_images(1, *SHAPE)
    plain, free, fixed = (
        tangents(kernel).measure(image)
        for kernel in (
            of_patches(rbf(2.0)),
            2.0 * of_patches(rbf(2.0)),
            Scale(of_patches(rbf(2.0)), 2.0, factor_bounds="fixed"),
        )
    )
    assert plain.value_shape == fixed.value_shape == (3,)
    assert free.value_shape == (4,)
    assert free.value_bytes == 4 * image.itemsize
    assert free.pair_bytes > fixed.pair_bytes > plain.pair_bytes


def test_covariances_of_patches_are_computed_once_for_all_derivatives(monkeypatch):
    calls, cross = [], arcsine.cross

    def counted(*sides):
        calls.append(sides)
        return cross(*sides)

    backend = tangents(of_patches(arcsine()))
    one = backend.prepare(random_images(3, *SHAPE))
    monkeypatch.setattr(arcsine, "cross", counted)
    assert backend.gram(one).shape == (3, 3, 1 + 3)
    assert len(calls) == 3  # once for each image


def test_callers_without_gradients_get_them():
    backend, images = tangents(KERNELS[0]), random_images(2, *SHAPE)
    expected = backend.gram(backend.prepare(images))
    with torch.no_grad():
        assert torch.equal(backend.gram(backend.prepare(images)), expected)


def test_single_precision_stays():
    backend, images = tangents(KERNELS[0]), random_images(2, *SHAPE)
    exact = backend.gram(backend.prepare(images))
    single = backend.gram(backend.prepare(images.float()))
    assert single.dtype == torch.float32
    assert_close(single, exact, rtol=1e-5, scale=float(exact.abs().max()))
