"""Random networks on random shapes: the fused backend agrees with torch."""

from dataclasses import dataclass

import pytest
import torch
from hypothesis import event, given, note, settings
from hypothesis import strategies as st

from skconvgp.backends import TangentBackend
from skconvgp.kernels import (
    Abs,
    Conv2d,
    Dense,
    Erf,
    Flatten,
    Identity,
    LeakyReLU,
    ReLU,
    Residual,
    Scale,
    Sequential,
    Sum,
)
from tests.helpers.fused import (
    DIAG_BOUND,
    assert_values,
    assert_within,
    fused,
    fused_tangents,
    needs_extension,
    reference,
    tile,
    variances,
)

pytestmark = needs_extension
MANY = settings(deadline=None, max_examples=100)
FEWER = settings(deadline=None, max_examples=60)


@dataclass(frozen=True)
class Problem:
    """A network and images for it."""

    kernel: Sequential
    images: torch.Tensor

    @property
    def shape(self):
        return tuple(self.images.shape[1:])


weights = st.sampled_from([0.3, 1.0, 2.0])
biases = st.sampled_from([0.0, 0.0, 0.1, 2.0])
slopes = st.sampled_from([-1.0, -0.5, 0.2, 1.0, 3.0])
activations = st.one_of(
    st.just(ReLU()),
    st.just(Abs()),
    st.just(Erf()),
    st.just(Identity()),
    slopes.map(LeakyReLU),
)


@st.composite
def convolutions(draw, shape):
    """Draw a convolution for maps of a shape, and the shape of what it makes."""
    largest = max(shape) + 3
    sizes = st.integers(1, largest)
    layer = Conv2d(
        draw(st.one_of(sizes, st.tuples(sizes, sizes))),
        stride=draw(st.sampled_from([1, 1, 1, 2, 3])),
        padding=draw(st.sampled_from(["same", "valid", "circular", 0, 1, 2, 4])),
        dilation=draw(st.sampled_from([1, 1, 1, 2, 3])),
        weight_variance=draw(weights),
        bias_variance=draw(biases),
    )
    try:
        return layer, layer.out_shape(shape)
    except ValueError:  # it does not fit
        layer = layer.replace(padding="same")
        return layer, layer.out_shape(shape)


@st.composite
def same_size(draw, depth):
    """Draw a layer that keeps the size of maps."""
    kind = draw(st.sampled_from(["window", "activation", "residual", "sum", "scale"]))
    if kind == "window" or depth == 0:
        return Conv2d(
            draw(st.one_of(st.integers(1, 8), st.sampled_from([(1, 3), (4, 2)]))),
            padding=draw(st.sampled_from(["same", "circular"])),
            dilation=draw(st.sampled_from([1, 1, 2])),
            weight_variance=draw(weights),
            bias_variance=draw(biases),
        )
    if kind == "activation":
        return draw(activations)
    if kind == "scale":
        return Scale(draw(same_size(depth - 1)), draw(weights))
    branches = draw(st.lists(same_size(depth - 1), min_size=1, max_size=3))
    return Residual(*branches) if kind == "residual" else Sum(*branches)


@st.composite
def strided_branches(draw, shape):
    """Draw a sum with a shortcut by a strided window of one position."""
    stride = draw(st.sampled_from([1, 2, 3]))
    size = draw(st.integers(1, 5))
    shortcut = Conv2d(1, stride=stride, weight_variance=draw(weights))
    branch = Sequential(
        Conv2d(size, stride=stride, bias_variance=draw(biases)),
        draw(activations),
        Conv2d(draw(st.integers(1, 5))),
    )
    return Sum(shortcut, branch), shortcut.out_shape(shape)


@st.composite
def problems(draw):
    channels = draw(st.integers(1, 3))
    height, width = draw(st.integers(1, 10)), draw(st.integers(1, 10))
    shape, layers = (height, width), []
    for _ in range(draw(st.integers(0, 5))):
        kind = draw(st.sampled_from(["window", "same size", "branches", "activation"]))
        if kind == "window":
            layer, shape = draw(convolutions(shape))
        elif kind == "branches":
            layer, shape = draw(strided_branches(shape))
        else:
            layer = draw(same_size(2) if kind == "same size" else activations)
        layers.append(layer)
        if max(shape) > 24:
            break
    if shape != (1, 1) or draw(st.booleans()):
        layers.append(Flatten())
    for _ in range(draw(st.integers(0, 2))):
        layers.append(draw(activations))
        layers.append(Dense(draw(weights), draw(biases)))
    kernel = Sequential(*layers)
    kernel.check((channels, height, width))
    n = draw(st.integers(1, 19))
    given_images = pixels((n, channels, height, width), draw(st.integers(0, 999)))
    return Problem(kernel, given_images)


def pixels(shape, seed):
    """Return images with pixels of like size: 0.5 to 1.5, of either sign.

    A window may otherwise keep only what is tiny beside the rest of the map: errors
    are relative to the largest value of a map, those of torch too.
    """
    generator = torch.Generator().manual_seed(seed)
    size = 0.5 + torch.rand(shape, generator=generator, dtype=torch.float64)
    sign = torch.randint(0, 2, shape, generator=generator) * 2 - 1
    given_images = size * sign
    given_images[::2] = given_images[::2].abs()
    if len(given_images) > 4:
        given_images[1] = given_images[0]
        given_images[2] = -given_images[0]
        given_images[3] = given_images[0] * (1.0 + 1e-6 * size[3])
    return given_images


@MANY
@given(problems())
def test_values_in_double_precision(problem):
    note(problem.kernel)
    event(f"{len(problem.kernel.layers)} layers")
    kernel, shape = problem.kernel, problem.shape
    assert_values(
        fused(kernel, shape), problem.images, *reference(kernel, problem.images)
    )


@MANY
@given(problems())
def test_values_in_single_precision(problem):
    note(problem.kernel)
    kernel, single = problem.kernel, problem.images.float()
    assert_values(fused(kernel, problem.shape), single, *reference(kernel, single))


@settings(deadline=None, max_examples=40)
@given(problems(), st.sampled_from([1, 2, 5, 64]))
def test_derivatives(problem, n_tangents):
    note(problem.kernel)
    kernel, given_images = problem.kernel, problem.images[:5]
    backend = fused_tangents(kernel, problem.shape, n_tangents)
    exact = TangentBackend(kernel)
    _, diag = reference(kernel, given_images)
    expected = tile(exact, given_images)
    assert_within(tile(backend, given_images), expected, diag, 2e-10)
    excess = (variances(backend, given_images) - variances(exact, given_images)).abs()
    assert bool((excess <= 10 * DIAG_BOUND * diag[:, None]).all())


@FEWER
@given(problems(), st.data())
def test_value_of_a_pair_depends_on_nothing_else(problem, data):
    note(problem.kernel)
    given_images = problem.images
    n = len(given_images)
    dtype = data.draw(st.sampled_from([torch.float32, torch.float64]))
    given_images = given_images.to(dtype)
    backend = fused(problem.kernel, problem.shape)
    whole = tile(backend, given_images)
    rows = torch.tensor(data.draw(st.lists(st.integers(0, n - 1), min_size=1)))
    cols = torch.tensor(data.draw(st.lists(st.integers(0, n - 1), min_size=1)))
    part = tile(backend, given_images[rows], given_images[cols])
    assert torch.equal(part, whole[rows][:, cols])
    assert torch.equal(whole, whole.mT)


@pytest.mark.slow
@settings(deadline=None, max_examples=600)
@given(problems(), st.sampled_from([torch.float32, torch.float64]))
def test_values_of_many_networks(problem, dtype):
    note(problem.kernel)
    given_images = problem.images.to(dtype)
    expected = reference(problem.kernel, given_images)
    assert_values(fused(problem.kernel, problem.shape), given_images, *expected)
