"""Random networks on random shapes: the fused backend agrees with torch."""

from dataclasses import dataclass

import pytest
import torch
from hypothesis import event, given, note
from hypothesis import strategies as st

from skconvgp.backends import TangentBackend
from skconvgp.exceptions import NotFusableError
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
from tests.helpers.examples import examples
from tests.helpers.fused import (
    TANGENT_BOUNDS,
    assert_values,
    assert_within,
    both_dtypes,
    fused,
    fused_tangents,
    needs_extension,
    reference,
    tile,
    variances,
)

pytestmark = needs_extension
MANY = examples(100)
TANGENT_DIAG_BOUNDS = {torch.float32: 1e-5, torch.float64: 1e-12}
FEWER = examples(60)


@dataclass(frozen=True)
class Problem:
    """A network and images for it."""

    kernel: Sequential
    images: torch.Tensor

    @property
    def shape(self):
        return tuple(self.images.shape[1:])


slopes = st.sampled_from([-1.0, -0.5, 0.2, 1.0, 3.0])
homogeneous = st.one_of(
    st.just(ReLU()), st.just(Abs()), st.just(Identity()), slopes.map(LeakyReLU)
)


def powers(exponent):
    """Return numbers from 10^-exponent to 10^exponent."""
    return st.floats(-exponent, exponent).map(lambda x: 10.0**x)


@dataclass(frozen=True)
class Range:
    """What networks and images are drawn from."""

    weights: st.SearchStrategy
    biases: st.SearchStrategy
    activations: st.SearchStrategy
    sizes: st.SearchStrategy  # of images


MODERATE = Range(
    st.sampled_from([0.3, 1.0, 2.0]),
    st.sampled_from([0.0, 0.0, 0.1, 2.0]),
    st.one_of(homogeneous, st.just(Erf())),
    st.just(1.0),
)
# Without Erf, which loses digits where variances are large, in torch too.
WIDE = Range(
    powers(4),
    st.one_of(st.just(0.0), powers(4)),
    homogeneous,
    powers(4),
)
FAR = Range(
    st.one_of(powers(4), powers(18)),
    st.one_of(st.just(0.0), powers(4), powers(18)),
    homogeneous,
    st.one_of(powers(4), powers(18)),
)


@st.composite
def convolutions(draw, drawn, shape):
    """Draw a convolution for maps of a shape, and the shape of what it makes."""
    largest = max(shape) + 3
    sizes = st.integers(1, largest)
    layer = Conv2d(
        draw(st.one_of(sizes, st.tuples(sizes, sizes))),
        stride=draw(st.sampled_from([1, 1, 1, 2, 3])),
        padding=draw(st.sampled_from(["same", "valid", "circular", 0, 1, 2, 4])),
        dilation=draw(st.sampled_from([1, 1, 1, 2, 3])),
        weight_variance=draw(drawn.weights),
        bias_variance=draw(drawn.biases),
    )
    try:
        return layer, layer.out_shape(shape)
    except ValueError:  # it does not fit
        layer = layer.replace(padding="same")
        return layer, layer.out_shape(shape)


@st.composite
def same_size(draw, drawn, depth):
    """Draw a layer that keeps the size of maps."""
    kind = draw(st.sampled_from(["window", "activation", "residual", "sum", "scale"]))
    if kind == "window" or depth == 0:
        return Conv2d(
            draw(st.one_of(st.integers(1, 8), st.sampled_from([(1, 3), (4, 2)]))),
            padding=draw(st.sampled_from(["same", "circular"])),
            dilation=draw(st.sampled_from([1, 1, 2])),
            weight_variance=draw(drawn.weights),
            bias_variance=draw(drawn.biases),
        )
    if kind == "activation":
        return draw(drawn.activations)
    if kind == "scale":
        return Scale(draw(same_size(drawn, depth - 1)), draw(drawn.weights))
    branches = draw(st.lists(same_size(drawn, depth - 1), min_size=1, max_size=3))
    return Residual(*branches) if kind == "residual" else Sum(*branches)


@st.composite
def strided_branches(draw, drawn, shape):
    """Draw a sum with a shortcut by a strided window of one position."""
    stride = draw(st.sampled_from([1, 2, 3]))
    size = draw(st.integers(1, 5))
    shortcut = Conv2d(1, stride=stride, weight_variance=draw(drawn.weights))
    branch = Sequential(
        Conv2d(size, stride=stride, bias_variance=draw(drawn.biases)),
        draw(drawn.activations),
        Conv2d(draw(st.integers(1, 5))),
    )
    return Sum(shortcut, branch), shortcut.out_shape(shape)


@st.composite
def problems(draw, drawn=MODERATE):
    channels = draw(st.integers(1, 3))
    height, width = draw(st.integers(1, 10)), draw(st.integers(1, 10))
    shape, layers = (height, width), []
    for _ in range(draw(st.integers(0, 5))):
        kind = draw(st.sampled_from(["window", "same size", "branches", "activation"]))
        if kind == "window":
            layer, shape = draw(convolutions(drawn, shape))
        elif kind == "branches":
            layer, shape = draw(strided_branches(drawn, shape))
        else:
            same = same_size(drawn, 2)
            layer = draw(same if kind == "same size" else drawn.activations)
        layers.append(layer)
        if max(shape) > 24:
            break
    if shape != (1, 1) or draw(st.booleans()):
        layers.append(Flatten())
    for _ in range(draw(st.integers(0, 2))):
        layers.append(draw(drawn.activations))
        layers.append(Dense(draw(drawn.weights), bias_variance=draw(drawn.biases)))
    kernel = Sequential(*layers)
    kernel.check((channels, height, width))
    n = draw(st.integers(1, 19))
    given_images = pixels((n, channels, height, width), draw(st.integers(0, 999)))
    return Problem(kernel, draw(drawn.sizes) * given_images)


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


def assert_fused(problem, dtype):
    """Compare with torch; return whether maps of the precision hold the variances."""
    note(problem.kernel)
    event(f"{len(problem.kernel.layers)} layers")
    given_images = problem.images.to(dtype)
    try:
        backend = fused(problem.kernel, problem.shape)
    except NotFusableError:
        return False
    if not bool(torch.isfinite(variances(backend, given_images)).all()):
        return False
    assert_values(backend, given_images, *reference(problem.kernel, given_images))
    return True


def assert_tangents(problem, dtype, n_tangents):
    """Compare derivatives with torch, where maps hold the variances."""
    note(problem.kernel)
    kernel, given_images = problem.kernel, problem.images[:5].to(dtype)
    try:
        backend = fused_tangents(kernel, problem.shape, n_tangents)
    except NotFusableError:
        return False
    actual, actual_diag = tile(backend, given_images), variances(backend, given_images)
    if not bool(torch.isfinite(actual_diag).all()):
        return False
    exact, doubled = TangentBackend(kernel), given_images.double()
    _, diag = reference(kernel, given_images)
    assert_within(actual, tile(exact, doubled), diag, TANGENT_BOUNDS[dtype])
    bound = TANGENT_DIAG_BOUNDS[dtype]
    excess = (actual_diag - variances(exact, doubled)).abs() - bound * diag[:, None]
    assert bool((excess <= 0.0).all())
    return True


@both_dtypes
@MANY
@given(problem=st.one_of(problems(), problems(WIDE)))
def test_values(problem, dtype):
    assert assert_fused(problem, dtype)


@both_dtypes
@MANY
@given(problem=problems(FAR))
def test_values_of_far_scales_are_right_or_refused(problem, dtype):
    event(f"held: {assert_fused(problem, dtype)}")


@both_dtypes
@examples(40)
@given(problem=problems(), n_tangents=st.sampled_from([1, 2, 5, 64]))
def test_derivatives(problem, n_tangents, dtype):
    assert assert_tangents(problem, dtype, n_tangents)


@both_dtypes
@examples(40)
@given(problem=st.one_of(problems(WIDE), problems(FAR)))
def test_derivatives_of_far_scales_are_right_or_refused(problem, dtype):
    event(f"held: {assert_tangents(problem, dtype, 8)}")


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
@both_dtypes
@examples(600)
@given(problem=st.one_of(problems(), problems(WIDE), problems(FAR)))
def test_values_of_many_networks(problem, dtype):
    event(f"held: {assert_fused(problem, dtype)}")
