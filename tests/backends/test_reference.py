"""The reference backend and its tangents, against finite differences."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad

from skconvgp.backends import (
    ReferenceBackend,
    ReverseTangentBackend,
    TangentBackend,
)
from skconvgp.backends._reference import LIVE_MAPS
from skconvgp.kernels import (
    GELU,
    Abs,
    Conv2d,
    Dense,
    Elementwise,
    Erf,
    Flatten,
    Kernel,
    Residual,
    Sequential,
    Sin,
    arcsine,
    convnet,
    matern,
    polynomial,
    rbf,
    residual_convnet,
    resnet32,
)
from tests.helpers.kernels import RTOL, assert_close, cross, diag, name, random_images

SHAPE = (2, 4, 3)
KERNELS = [
    convnet(depth=2, kernel_size=3),
    convnet(depth=2, kernel_size=3).unshared(),
    residual_convnet(depth=2, kernel_size=2),
    resnet32(bias_variance=0.2),
    Sequential(
        Conv2d(2, bias_variance=0.1),
        Erf(),
        Residual(Conv2d(3, dilation=2), GELU(), Conv2d(1)),
        Sin(),
        Flatten(),
        Dense(bias_variance=0.3),
    ),
    Sequential(Flatten(), Dense(), Elementwise(torch.tanh, n_nodes=32), Dense()),
    Sequential(Conv2d(3), Abs(), Flatten(), Dense(weight_variance_bounds="fixed")),
    rbf(lengthscale=3.0),
    matern(lengthscale=4.0, nu=2.5),
    polynomial(degree=3, weight_variance=0.2),
    2.0 * convnet(depth=1, kernel_size=2) + rbf(lengthscale=3.0) * arcsine(),
]


@dataclass(repr=False)
class Unmoved(Kernel):
    """Third-party kernel with a hyperparameter that its variances do not see."""

    slope: float = 1.0
    slope_bounds: tuple[float, float] = (0.1, 10.0)
    is_spatial = False

    def check(self, image_shape):
        pass

    def n_positions(self, image_shape):
        return 1

    def prepare(self, images):
        return images.sum((1, 2, 3))

    def cross(self, one, two):
        return torch.exp(-self.slope * (one[:, None] - two[None, :]).abs())

    def diag(self, one):
        return torch.ones_like(one)


def finite_difference(function, theta: np.ndarray, step: float = 1e-3) -> list:
    """Return derivatives by central differences of fourth order."""
    columns = []
    for direction in np.eye(len(theta)) * step:
        near = function(theta + direction) - function(theta - direction)
        far = function(theta + 2 * direction) - function(theta - 2 * direction)
        columns.append((8 * near - far) / (12 * step))
    return columns


@pytest.mark.parametrize("kernel", KERNELS, ids=name)
def test_reference_is_the_kernel(kernel):
    one, two = random_images(4, *SHAPE), random_images(3, *SHAPE, seed=1)
    backend = ReferenceBackend(kernel)
    first, second = backend.prepare(one), backend.prepare(two)
    assert torch.equal(backend.cross(first, second), cross(kernel, one, two))
    assert torch.equal(backend.diag(first), diag(kernel, one))
    costs = backend.measure(one[:1])
    n_positions = kernel.n_positions(SHAPE)
    assert costs.pair_bytes == LIVE_MAPS * n_positions * one.itemsize
    assert (costs.value_bytes, costs.value_shape) == (one.itemsize, ())
    assert costs.worker_bytes == 0


MODES = pytest.mark.parametrize("mode", [TangentBackend, ReverseTangentBackend])


@MODES
@pytest.mark.parametrize("kernel", [*KERNELS, Unmoved()], ids=name)
def test_tangents_match_finite_differences(kernel, mode):
    one, two = random_images(3, *SHAPE), random_images(2, *SHAPE, seed=1)
    two[0] = one[0]  # a pair of equal images
    backend = mode(kernel)
    first, second = backend.prepare(one), backend.prepare(two)
    tile, variances = backend.cross(first, second), backend.diag(first)
    assert tile.shape == (3, 2, 1 + len(kernel.theta))
    assert variances.shape == (3, 1 + len(kernel.theta))
    assert torch.equal(tile[..., 0], cross(kernel, one, two))
    assert torch.equal(variances[..., 0], diag(kernel, one))
    by_theta = finite_difference(
        lambda theta: cross(kernel.with_theta(theta), one, two), kernel.theta
    )
    by_theta_diag = finite_difference(
        lambda theta: diag(kernel.with_theta(theta), one), kernel.theta
    )
    scale = float(variances[..., 0].max())
    # truncation of order step^4, rounding of order eps / step
    for i in range(len(kernel.theta)):
        assert_close(tile[..., 1 + i], by_theta[i], rtol=1e-9, scale=scale)
        assert_close(variances[..., 1 + i], by_theta_diag[i], rtol=1e-9, scale=scale)


@MODES
@pytest.mark.parametrize("kernel", KERNELS, ids=name)
def test_tangents_in_single_precision(kernel, mode):
    one, two = random_images(3, *SHAPE), random_images(2, *SHAPE, seed=1)
    backend = mode(kernel)
    exact = backend.cross(backend.prepare(one), backend.prepare(two))
    single = backend.cross(backend.prepare(one.float()), backend.prepare(two.float()))
    scale = float(diag(kernel, one).max())
    assert_close(single, exact, rtol=10 * RTOL[torch.float32], scale=scale)


@MODES
def test_tangents_of_a_kernel_with_nothing_to_learn(mode):
    kernel = rbf(1.0, lengthscale_bounds="fixed")
    backend = mode(kernel)
    one = backend.prepare(random_images(3, *SHAPE))
    assert backend.cross(one, one).shape == (3, 3, 1)
    assert backend.diag(one).shape == (3, 1)


@MODES
def test_tangents_of_a_scale_have_closed_forms(mode):
    kernel = 3.0 * rbf(lengthscale=2.0)
    images = random_images(3, *SHAPE)
    backend = mode(kernel)
    one = backend.prepare(images)
    value, by_factor, by_lengthscale = backend.cross(one, one).unbind(-1)
    distance2 = torch.cdist(images.flatten(1), images.flatten(1)).square()
    expected = value * distance2 / 4.0
    slots = {item.name: i for i, item in enumerate(kernel.hyperparameters)}
    if slots["factor"] > slots["kernel__lengthscale"]:
        by_factor, by_lengthscale = by_lengthscale, by_factor
    assert_close(by_factor, value)
    assert_close(by_lengthscale, expected, scale=3.0)


def test_tables_have_the_images_last():
    images = random_images(5, *SHAPE)
    backend = TangentBackend(KERNELS[0])
    whole, part = backend.prepare(images), backend.prepare(images[1:4])
    assert torch.equal(whole[..., 1:4], part)


def test_tangents_ask_for_more_memory():
    kernel = KERNELS[0]
    image = random_images(1, *SHAPE)
    plain = ReferenceBackend(kernel).measure(image)
    tangent = TangentBackend(kernel).measure(image)
    assert tangent.pair_bytes == 2 * plain.pair_bytes
    assert tangent.value_shape == (1 + len(kernel.theta),)
    assert tangent.value_bytes == tangent.value_shape[0] * plain.value_bytes


@dataclass(repr=False)
class Watched(Unmoved):
    """Third-party kernel that writes down how many of its settings move."""

    power: float = 2.0
    power_bounds: tuple[float, float] = (0.1, 10.0)

    def cross(self, one, two):
        settings = [self.slope, self.power]
        moving = [s for s in settings if isinstance(s, torch.Tensor)]
        tangents = [forward_ad.unpack_dual(s).tangent for s in moving]
        MOVED.append(sum(tangent is not None for tangent in tangents))
        return super().cross(one, two) ** self.power


MOVED = []


def test_one_setting_at_a_time_moves():
    MOVED.clear()
    backend = TangentBackend(Watched())
    one = backend.prepare(random_images(2, *SHAPE))
    value, by_slope, by_power = backend.cross(one, one).unbind(-1)
    assert MOVED == [0, 1, 1]
    assert_close(by_slope, by_power)  # the slope is multiplied by the power
    assert_close(by_slope, value * value.log())
