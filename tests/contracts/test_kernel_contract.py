"""What every kernel does; a third-party layer and kernel prove the seam."""

import copy
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from torch import Tensor

from skconvgp.kernels import (
    GELU,
    Abs,
    AvgPool2d,
    Conv2d,
    Dense,
    Dropout,
    Elementwise,
    Erf,
    Flatten,
    FlipAverage,
    GlobalAvgPool2d,
    Identity,
    Kernel,
    Layer,
    LayerNorm,
    LeakyReLU,
    MaxNormalization,
    OrbitAverage,
    PatchKernel,
    ReLU,
    Residual,
    Scale,
    Sequential,
    Sigmoid,
    SiLU,
    Sin,
    Softplus,
    Sum,
    Tanh,
    arcsine,
    convnet,
    dense,
    dot_product,
    matern,
    optical,
    polynomial,
    rbf,
    residual_convnet,
    resnet32,
    three_layer_convnet,
)
from tests.helpers.kernels import (
    QUICK,
    ROOT_RTOL,
    RTOL,
    assert_close,
    cross,
    deviations,
    diag,
    name,
    random_images,
)


@dataclass(repr=False)
class Square(Layer):
    """Third-party layer: the activation x^2, with V = a b + 2 c^2."""

    gain: float = 1.0
    gain_bounds: tuple[float, float] | str = (1e-2, 1e2)

    @property
    def is_spatial(self):
        return False

    def out_shape(self, shape):
        return shape

    def image_pass(self, var):
        return 3.0 * self.gain * var.square(), var

    def pair_pass(self, maps, one, two):
        mixed = one.unsqueeze(-1) * two.unsqueeze(-2)
        return maps.with_nngp(self.gain * (mixed + 2.0 * maps.nngp.square()))


@dataclass(repr=False)
class Cosine(Kernel):
    """Third-party kernel: the cosine of the angle of two flat images, to a power."""

    power: int = 1

    @property
    def is_spatial(self):
        return False

    def check(self, image_shape):
        if self.power < 1:
            raise ValueError("`power` must be at least 1.")

    def n_positions(self, image_shape):
        return 1

    def prepare(self, images):
        flat = images.flatten(1).T
        return flat / flat.square().sum(0).sqrt()

    def cross(self, one, two):
        return (one.mT @ two) ** self.power

    def diag(self, one):
        return torch.ones_like(one[0])


def closed(*layers) -> Sequential:
    return Sequential(*layers, Flatten(), Dense(bias_variance=0.1))


CONV = {"weight_variance": 1.7, "bias_variance": 0.3}
ACTIVATIONS = [
    ReLU(),
    LeakyReLU(slope=0.1),
    Abs(),
    Erf(),
    GELU(),
    Sin(),
    Identity(),
    Tanh(),
    Sigmoid(),
    SiLU(),
    Softplus(),
    Elementwise(torch.tanh, n_nodes=32),
    Square(gain=0.5),
]
NETWORKS = [
    *(closed(Conv2d(3, **CONV), layer, Conv2d(2, **CONV)) for layer in ACTIVATIONS),
    closed(Conv2d(4, stride=2, padding="circular", **CONV), ReLU()),
    closed(Conv2d((1, 3), dilation=2, padding=2, **CONV), ReLU()),
    closed(Conv2d(3), ReLU(), Sum(Conv2d(1, **CONV), Scale(Conv2d(2), factor=2.0))),
    closed(MaxNormalization(Conv2d(3, **CONV), mode="fixed", scale=3.0), ReLU()),
    closed(Conv2d(3), Residual(ReLU(), Conv2d(3, **CONV)), ReLU()),
    Sequential(AvgPool2d(1), Flatten(), Dense(), GlobalAvgPool2d()),
    closed(Conv2d(3, **CONV), LayerNorm(), ReLU(), Conv2d(2), LayerNorm("all")),
    closed(Conv2d(3, **CONV), Erf(), Dropout(0.3), Conv2d(2), Tanh(), Dropout()),
    convnet(depth=2, kernel_size=3),
    convnet(depth=2, kernel_size=3).unshared(),
    residual_convnet(depth=2),
    resnet32(bias_variance=0.1),
    three_layer_convnet(),
    dense(),
]
VECTORS = [
    rbf(lengthscale=4.0),
    matern(lengthscale=4.0, nu=0.5),
    matern(lengthscale=4.0, nu=1.5),
    matern(lengthscale=4.0, nu=2.5),
    dot_product(),
    optical(),
    optical(3.0, centered=True),
    polynomial(degree=3, weight_variance=0.1),
    arcsine(weight_variance=0.1),
    Cosine(power=2),
]
COMPOSED = [
    2.0 * convnet(depth=1) + rbf(lengthscale=4.0),
    dense(depth=1) * matern(lengthscale=4.0, nu=2.5),
    Cosine() * closed(Conv2d(2), Square()) + 0.5 * Cosine(power=3),
    MaxNormalization(convnet(depth=1) + rbf(lengthscale=4.0)),
    MaxNormalization(convnet(depth=2, kernel_size=3), mode="exact", scale=4.0**20),
    MaxNormalization(Cosine(), mode="fixed", scale=3.0),
    rbf(lengthscale=4.0).on(0) + dense(depth=1).on([3, 1]) * Cosine().on([2, 4, 5]),
]
PATCHES = [
    PatchKernel(rbf(2.0), normalization=None, location_lengthscale=None),
    PatchKernel(
        matern(2.0), location_lengthscale=1.5, color="channels", normalization="center"
    ),
    PatchKernel(
        dense(depth=1),
        stride=2,
        color="stacked",
        normalization=None,
        location_lengthscale=None,
    ),
]
FLIPS = [
    FlipAverage(convnet(depth=1, kernel_size=3)),
    0.5 * FlipAverage(rbf(lengthscale=4.0)) + FlipAverage(dense(depth=1)),
    OrbitAverage(residual_convnet(depth=2), "flips"),
]
KERNELS = NETWORKS + VECTORS + COMPOSED + PATCHES + FLIPS
IMAGES = [(1, 5, 4), (3, 4, 4)]
VECTOR = (7, 1, 1)

each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=name)
each_kernel_and_shape = pytest.mark.parametrize(
    ("kernel", "shape"),
    [(kernel, shape) for kernel in KERNELS for shape in IMAGES]
    + [(kernel, VECTOR) for kernel in KERNELS if kernel not in FLIPS],
    ids=name,
)


def root_rtol(kernel: Kernel, dtype: torch.dtype) -> float:
    """Distances of equal vectors are roots of rounding errors."""
    return (ROOT_RTOL if "matern" in repr(kernel) else RTOL)[dtype]


def take(prepared, images: slice):
    if prepared is None:
        return None
    if isinstance(prepared, tuple):
        return tuple(take(part, images) for part in prepared)
    assert isinstance(prepared, Tensor)
    return prepared[..., images]


@each_kernel_and_shape
def test_gram_is_a_covariance(kernel, shape):
    gram = cross(kernel, random_images(6, *shape))
    scale = deviations(gram)
    assert gram.shape == (6, 6)
    assert_close(gram, gram.T, scale=scale)
    rtol = root_rtol(kernel, torch.float64)
    assert bool((gram.abs() <= scale * (1 + rtol)).all())
    normal = (gram + gram.T) / (2 * scale)
    assert torch.linalg.eigvalsh(normal)[0] >= -6 * rtol


@each_kernel
@given(seed=st.integers(0, 10_000), n_copies=st.integers(0, 3))
@QUICK
def test_gram_of_any_images_is_positive_semidefinite(kernel, seed, n_copies):
    images = random_images(4, 1, 3, 2, seed=seed)
    images[:n_copies] = images[3]  # equal images, up to rounding
    images[:n_copies] += 1e-9 * random_images(n_copies, 1, 3, 2, seed=seed + 1)
    gram = cross(kernel, images)
    normal = (gram + gram.T) / (2 * deviations(gram))
    rtol = root_rtol(kernel, torch.float64)
    assert torch.linalg.eigvalsh(normal)[0] >= -4 * rtol


@each_kernel_and_shape
def test_diag_is_the_diagonal(kernel, shape):
    images = random_images(5, *shape)
    variances = diag(kernel, images)
    assert variances.shape == (5,)
    assert bool((variances > 0.0).all())
    rtol = root_rtol(kernel, torch.float64)
    assert_close(cross(kernel, images).diagonal(), variances, rtol=rtol)


@each_kernel_and_shape
def test_permuted_images_give_a_permuted_gram(kernel, shape):
    images = random_images(5, *shape)
    order = torch.tensor([3, 0, 4, 2, 1])
    gram = cross(kernel, images)
    permuted = gram[order][:, order]
    off_diagonal = ~torch.eye(5, dtype=torch.bool)
    actual = cross(kernel, images[order])
    assert_close(
        actual[off_diagonal], permuted[off_diagonal], scale=deviations(gram).max()
    )
    assert_close(diag(kernel, images[order]), diag(kernel, images)[order])


@each_kernel_and_shape
def test_blocks_are_blocks_of_the_whole(kernel, shape):
    images = random_images(7, *shape)
    whole = cross(kernel, images)
    scale, rtol = deviations(whole), root_rtol(kernel, torch.float64)
    for rows, cols in (
        (slice(0, 3), slice(3, 7)),
        (slice(2, 3), slice(0, 7)),
        (slice(3, 6), slice(3, 6)),
    ):
        block = cross(kernel, images[rows], images[cols])
        assert_close(block, whole[rows, cols], rtol=rtol, scale=scale[rows, cols])


@each_kernel_and_shape
def test_prepared_trees_can_be_sliced(kernel, shape):
    images = random_images(7, *shape)
    tree = kernel.prepare(images)
    rows, cols = slice(1, 4), slice(3, 7)
    one, two = take(tree, rows), take(tree, cols)
    rtol = root_rtol(kernel, torch.float64)
    whole = cross(kernel, images)
    scale = deviations(whole)[rows, cols]
    assert_close(kernel.cross(one, two), whole[rows, cols], rtol=rtol, scale=scale)
    assert torch.equal(kernel.diag(one), kernel.diag(tree)[rows])


@each_kernel_and_shape
def test_preparing_and_comparing_change_nothing(kernel, shape):
    images = random_images(3, *shape)
    before, settings = images.clone(), copy.deepcopy(kernel)
    tree = kernel.prepare(images)
    first = kernel.cross(tree, tree)
    assert torch.equal(kernel.cross(tree, tree), first)
    assert torch.equal(images, before)
    assert kernel == settings


@each_kernel_and_shape
def test_single_precision_is_close_to_double(kernel, shape):
    images = random_images(5, *shape)
    exact = cross(kernel, images)
    rtol = root_rtol(kernel, torch.float32)
    single = cross(kernel, images.float())
    assert_close(single, exact, rtol=rtol, scale=deviations(exact))
    rtol = RTOL[torch.float32]
    assert_close(diag(kernel, images.float()), diag(kernel, images), rtol=rtol)


@each_kernel_and_shape
def test_number_of_positions(kernel, shape):
    kernel.check(shape)
    n_positions, n_pixels = kernel.n_positions(shape), shape[1] * shape[2]
    if isinstance(kernel, PatchKernel):  # of pairs of patches
        grid = kernel.grid(shape)
        assert n_positions == grid.n_groups * grid.n_positions**2
    else:
        assert n_positions in (1, n_pixels)


@each_kernel
def test_spatial_kernels_alone_see_the_layout(kernel):
    assert isinstance(kernel.is_spatial, bool)
    if not kernel.is_spatial:
        images = random_images(4, 2, 3, 3)
        flat = images.reshape(4, 18, 1, 1)
        assert_close(cross(kernel, images), cross(kernel, flat), rtol=1e-7)


@each_kernel
def test_settings_round_trip(kernel):
    params = kernel.get_params()
    twin = copy.deepcopy(kernel)
    assert twin.set_params(**copy.deepcopy(params)) is twin
    assert twin == kernel
    assert twin.get_params() == params
    assert clone(kernel) == kernel


@each_kernel
def test_repr_and_pickle(kernel):
    assert repr(kernel).startswith(type(kernel).__name__ + "(")
    twin = pickle.loads(pickle.dumps(kernel))
    assert twin == kernel
    assert repr(twin) == repr(kernel)


@each_kernel
def test_theta_round_trip(kernel):
    assert kernel.bounds.shape == (len(kernel.theta), 2)
    moved = kernel.with_theta(kernel.theta + 0.1)
    np.testing.assert_allclose(moved.theta, kernel.theta + 0.1, rtol=0, atol=1e-12)
    back = moved.with_theta(kernel.theta)
    images = random_images(3, 1, 3, 3)
    gram = cross(kernel, images)
    assert_close(cross(back, images), gram, scale=deviations(gram))


def test_third_party_layer_has_hyperparameters():
    kernel = closed(Square(gain=0.5))
    names = [item.name for item in kernel.hyperparameters if item.is_free]
    assert names[0] == "layer0__gain"
    assert kernel.replace(layer0__gain=2.0).parts[0] == Square(gain=2.0)


def test_third_party_layer_closes_a_network():
    images = random_images(3, 2, 1, 1)
    kernel = Square()
    kernel.check((2, 1, 1))
    inner = images.flatten(1) @ images.flatten(1).T / 2
    var = inner.diagonal()
    expected = var[:, None] * var[None, :] + 2 * inner.square()
    assert_close(cross(kernel, images), expected)
