"""Autograd, backward and forward, against finite differences."""

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

from skconvgp.kernels import (
    GELU,
    Abs,
    Conv2d,
    Dense,
    Elementwise,
    Erf,
    Flatten,
    Identity,
    Kernel,
    LeakyReLU,
    MaxNormalization,
    ReLU,
    Residual,
    Sequential,
    Sigmoid,
    SiLU,
    Sin,
    Softplus,
    Tanh,
    arcsine,
    convnet,
    dot_product,
    matern,
    polynomial,
    rbf,
    residual_convnet,
    three_layer_convnet,
)
from tests.helpers.kernels import cross, diag, load_forward_mode, name, random_images

LAYERS = [
    ReLU(),
    LeakyReLU(slope=0.2),
    LeakyReLU(slope=-3.0),
    Abs(),
    Erf(),
    GELU(),
    Sin(),
    Identity(),
    Tanh(),
    Sigmoid(),
    SiLU(),
    Softplus(),
]

SMALL = {"kernel_size": 2, "weight_variance": 0.4, "bias_variance": 0.3}
NETWORKS = [
    convnet(depth=2, **SMALL),
    residual_convnet(depth=2, **SMALL),
    three_layer_convnet(weight_variance=0.2, bias_variance=0.1),
    convnet(depth=2, **SMALL).unshared(),
    Sequential(
        Conv2d(3, stride=2, padding="circular", bias_variance=0.2),
        Abs(),
        Residual(GELU(), Conv2d(2, dilation=2)),
        Erf(),
        Flatten(),
        Dense(bias_variance=0.1),
    ),
    Sequential(
        Flatten(),
        Dense(bias_variance=0.1),
        Elementwise(torch.tanh, n_nodes=6),
        Dense(bias_variance=0.2),
        Sin(),
        Dense(),
    ),
]
VECTORS = [
    rbf(lengthscale=3.0),
    matern(lengthscale=3.0, nu=0.5),
    matern(lengthscale=3.0, nu=1.5),
    matern(lengthscale=3.0, nu=2.5),
    dot_product(),
    polynomial(degree=3, weight_variance=0.3),
    arcsine(weight_variance=0.5),
]
COMPOSED = [
    2.0 * convnet(depth=1, **SMALL) + rbf(lengthscale=3.0),
    rbf(lengthscale=2.0) * convnet(depth=1, **SMALL),
    convnet(depth=1, **SMALL).replace(bias_variance_bounds="fixed"),
    MaxNormalization(rbf(lengthscale=2.0) + convnet(depth=1, **SMALL)),
    MaxNormalization(convnet(depth=2, **SMALL).unshared(), mode="exact", scale=16.0),
    MaxNormalization(convnet(depth=1, **SMALL), mode="fixed", scale=3.0),
]


@pytest.fixture(autouse=True, scope="module")
def forward_mode():
    load_forward_mode()


def check_both_modes(function, *inputs: Tensor) -> None:
    leaves = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    assert gradcheck(function, leaves, check_forward_ad=True, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize(
    "t", [-0.95, pytest.param(-0.3, marks=pytest.mark.slow), 0.0, 0.6, 0.98]
)
@pytest.mark.parametrize("layer", LAYERS, ids=name)
def test_expectation(layer, t):
    a = torch.tensor([[2.0], [0.3]], dtype=torch.float64)
    b = torch.tensor([0.7, 3.0], dtype=torch.float64)
    check_both_modes(layer.expectation, t * a.sqrt() * b.sqrt(), a, b)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("layer", LAYERS, ids=name)
def test_expectation_of_equal_and_opposite_vectors(layer, sign):
    # c, a and b of two vectors: all that finite differences reach is a covariance.
    def of_vectors(u: Tensor, v: Tensor) -> Tensor:
        return layer.expectation(u @ v, u @ u, v @ v)

    u = torch.tensor([0.8, -0.5, 0.3], dtype=torch.float64)
    check_both_modes(of_vectors, u, sign * u)


@pytest.mark.parametrize("layer", LAYERS, ids=name)
def test_derivative_at_equal_inputs_adds_up_to_that_of_the_second_moment(layer):
    a = torch.tensor(1.7, dtype=torch.float64, requires_grad=True)
    (whole,) = torch.autograd.grad(layer.second_moment(a), a)
    point = [a.detach().clone().requires_grad_() for _ in "cab"]
    parts = torch.autograd.grad(layer.expectation(*point), point, allow_unused=True)
    total = sum(float(part) for part in parts if part is not None)
    assert total == pytest.approx(float(whole), rel=1e-7)


@pytest.mark.parametrize("layer", LAYERS, ids=name)
def test_second_moment(layer):
    check_both_modes(
        layer.second_moment, torch.tensor([0.1, 1.0, 4.0], dtype=torch.float64)
    )


@pytest.mark.parametrize("kernel", NETWORKS + VECTORS + COMPOSED, ids=name)
def test_kernel_by_theta(kernel: Kernel):
    images = random_images(3, 1, 3, 4)

    def covariances(theta: Tensor) -> tuple[Tensor, Tensor]:
        at_theta = kernel.with_theta(theta)
        return cross(at_theta, images), diag(at_theta, images)

    check_both_modes(covariances, torch.as_tensor(kernel.theta))


@pytest.mark.parametrize("kernel", NETWORKS + VECTORS + COMPOSED, ids=name)
def test_kernel_by_images(kernel: Kernel):
    one, two = random_images(2, 1, 2, 3), random_images(1, 1, 2, 3, seed=1)

    def covariances(one: Tensor, two: Tensor) -> tuple[Tensor, Tensor]:
        return cross(kernel, one, two), diag(kernel, one)

    check_both_modes(covariances, one, two)


@pytest.mark.parametrize("kernel", [*NETWORKS, VECTORS[0], COMPOSED[0]], ids=name)
def test_network_by_images_compared_with_themselves(kernel: Kernel):
    check_both_modes(lambda images: cross(kernel, images), random_images(2, 1, 2, 2))
