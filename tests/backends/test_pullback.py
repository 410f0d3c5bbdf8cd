"""What is pulled back through a tile, against autograd of the whole formula."""

from dataclasses import dataclass
from functools import partial

import pytest
import torch

from skconvgp.backends import (
    ReversePullback,
    ReverseTangentBackend,
    TangentBackend,
    TangentPullback,
    choose_backend,
    choose_pullback,
)
from skconvgp.backends._graphs import stored_bytes
from skconvgp.kernels import (
    AvgPool2d,
    Conv2d,
    Dense,
    Elementwise,
    Flatten,
    ReLU,
    Sequential,
    convnet,
    rbf,
)
from tests.backends.test_reference import KERNELS, SHAPE, Unmoved
from tests.helpers.kernels import assert_close, name, random_images
from tests.helpers.memory import needs_peak, peak_memory

N, N_OTHERS = 5, 4


def random_weights(*shape):
    generator = torch.Generator().manual_seed(3)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def whole(kernel, one, two, weights):
    """Return derivatives of the weighted sum by autograd, in one piece."""
    theta = torch.tensor(kernel.theta, requires_grad=True)
    first = one.clone().requires_grad_()
    second = first if two is None else two.clone().requires_grad_()
    kernel = kernel.with_theta(theta)
    gram = kernel.cross(kernel.prepare(first), kernel.prepare(second))
    total = (weights * gram).sum()
    if two is None:
        off = weights - torch.diag(weights.diagonal())
        variances = kernel.diag(kernel.prepare(first))
        total = (off * gram).sum() + (weights.diagonal() * variances).sum()
    leaves = [theta, first] if two is None else [theta, first, second]
    return torch.autograd.grad(total, leaves, materialize_grads=True)


def parts(pulled):
    return [
        part for part in (pulled.by_theta, pulled.by_one, pulled.by_two)
        if part is not None
    ]  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS, ids=name)
@pytest.mark.parametrize("is_diagonal", [True, False])
def test_reverse_mode_is_that_of_the_whole_formula(kernel, is_diagonal):
    one = random_images(N, *SHAPE)
    two = None if is_diagonal else random_images(N_OTHERS, *SHAPE, seed=1)
    weights = random_weights(N, N if is_diagonal else N_OTHERS)
    weights = weights.triu() if is_diagonal else weights
    pulled = ReversePullback(kernel).pull(one, two, weights)
    expected = whole(kernel, one, two, weights)
    for got, right in zip(parts(pulled), expected, strict=True):
        assert_close(got, right, rtol=1e-10, scale=float(right.abs().max()) + 1e-300)


@pytest.mark.parametrize("kernel", [*KERNELS, Unmoved()], ids=name)
@pytest.mark.parametrize("is_diagonal", [True, False])
def test_tangents_and_reverse_mode_agree(kernel, is_diagonal):
    one = random_images(N, *SHAPE)
    two = None if is_diagonal else random_images(N_OTHERS, *SHAPE, seed=1)
    weights = random_weights(N, N if is_diagonal else N_OTHERS)
    weights = weights.triu() if is_diagonal else weights
    reverse = ReversePullback(kernel, has_inputs=False).pull(one, two, weights)
    forward = TangentPullback(TangentBackend(kernel)).pull(one, two, weights)
    assert reverse.by_one is reverse.by_two is None
    assert forward.by_one is forward.by_two is None
    scale = float(reverse.by_theta.abs().max())
    assert_close(forward.by_theta, reverse.by_theta, rtol=1e-10, scale=scale)


class UpperTangents(TangentBackend):
    """Tangents of which nothing below the diagonal is a number, nor on it."""

    def gram(self, one):
        values = super().gram(one)
        above = torch.ones(values.shape[:2], dtype=torch.bool).triu(1)
        return torch.where(above[..., None], values, torch.nan)


def test_tangents_read_above_the_diagonal_only():
    kernel, one = KERNELS[0], random_images(N, *SHAPE)
    weights = random_weights(N, N).triu()
    got = TangentPullback(UpperTangents(kernel)).pull(one, None, weights)
    expected = TangentPullback(TangentBackend(kernel)).pull(one, None, weights)
    assert torch.equal(got.by_theta, expected.by_theta)


def test_nothing_to_learn_gives_nothing():
    kernel = rbf(1.0, lengthscale_bounds="fixed")
    one, weights = random_images(N, *SHAPE), random_weights(N, N).triu()
    for backend in (
        ReversePullback(kernel, has_inputs=False),
        TangentPullback(TangentBackend(kernel)),
    ):
        pulled = backend.pull(one, None, weights)
        assert pulled.by_theta.shape == (0,)
        assert pulled.by_one is None
    pulled = ReversePullback(kernel).pull(one, None, weights)
    assert pulled.by_theta.shape == (0,)
    assert pulled.by_one.abs().max() > 0.0


@dataclass(repr=False)
class Constant(Unmoved):
    """Third-party kernel that depends on nothing."""

    def cross(self, one, two):
        return torch.ones(len(one), len(two), dtype=one.dtype)


def test_a_constant_kernel_has_derivatives_zero():
    one, weights = random_images(N, *SHAPE), random_weights(N, N).triu()
    pulled = ReversePullback(Constant()).pull(one, None, weights)
    assert pulled.by_theta.tolist() == [0.0]
    assert torch.equal(pulled.by_one, torch.zeros_like(one))


@pytest.mark.parametrize("kernel", KERNELS, ids=name)
@pytest.mark.parametrize(
    "backend",
    [
        ReversePullback,
        partial(ReversePullback, has_inputs=False),
        ReverseTangentBackend,
    ],
)
def test_measured_bytes_hold_the_graph_of_any_tile(kernel, backend):
    backend, image = backend(kernel), random_images(1, *SHAPE)
    costs, build = backend.measure(image), partial(backend._graph_of_tile, image)
    for n_rows, n_cols in ((1, 1), (3, 5), (7, 4), (9, 9)):
        graph = stored_bytes(build, n_rows, n_cols)
        held = costs.pair_bytes * n_rows * n_cols
        assert graph <= held + costs.image_bytes * (n_rows + n_cols)


def test_measured_bytes_are_the_same_each_time():
    """They decide the tiles, and these the last bits of sums."""
    kernel = Sequential(Conv2d(3), ReLU(), AvgPool2d(2), Flatten(), Dense())
    backend, image = ReversePullback(kernel), random_images(1, *SHAPE)
    assert len({repr(backend.measure(image)) for _ in range(60)}) == 1


def test_bytes_of_a_pair_grow_with_the_depth():
    one = random_images(1, 1, 8, 8)
    two_layers, six_layers = (
        ReversePullback(convnet(depth=depth, kernel_size=3)).measure(one).pair_bytes
        for depth in (2, 6)
    )
    a_map = 8 * 8 * 8
    assert six_layers - two_layers >= 4 * a_map


def test_a_pullback_is_chosen_by_what_is_asked():
    choice = choose_backend(KERNELS[0], SHAPE, "torch", torch.device("cpu"))
    for has_inputs in (True, False):
        found = choose_pullback(choice, has_inputs=has_inputs)
        assert found == ReversePullback(KERNELS[0], has_inputs)


def test_reverse_mode_gives_quadrature_layers_their_derivative():
    kernel = Sequential(Flatten(), Elementwise(torch.tanh, n_nodes=16))
    one, weights = random_images(3, 1, 2, 2), random_weights(3, 3).triu()
    pulled = ReversePullback(kernel).pull(one, None, weights)
    _, expected = whole(kernel, one, None, weights)
    assert_close(pulled.by_one, expected, rtol=1e-10, scale=float(expected.abs().max()))


@needs_peak
def test_measuring_leaves_nothing_behind():
    setup = """
import torch
from skconvgp.backends import ReversePullback
from skconvgp.kernels import rbf

def measure(n):
    pullback = ReversePullback(rbf(1.0), False)
    for _ in range(n):
        pullback.measure(torch.zeros(1, 3, 1, 1, dtype=torch.float64))

measure(20)
"""
    assert peak_memory(setup, "measure(300)") <= 4 * 2**20
