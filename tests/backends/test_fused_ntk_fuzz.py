"""Tangent kernels of random networks: the fused backend agrees with torch."""

import pytest
import torch
from hypothesis import given, note, reject
from hypothesis import strategies as st

from skconvgp.exceptions import NotFusableError
from skconvgp.kernels import AvgPool2d, Flatten, GlobalAvgPool2d, Sequential
from tests.backends.test_fused_fuzz import (
    MODERATE,
    Problem,
    pixels,
    problems,
    same_size,
)
from tests.helpers.examples import examples
from tests.helpers.fused import (
    DTYPES,
    assert_within,
    both_dtypes,
    fused,
    needs_extension,
    reference,
    tile,
    variances,
)

pytestmark = needs_extension
# Images of one channel have correlations of 1 and -1, where slopes are steep.
BOUNDS = {torch.float32: 1e-3, torch.float64: 1e-7}
DIAG_BOUND = 1e-8


@st.composite
def inner_pools(draw):
    """Draw a pool between convolutions: side by side, or overlapping, padded, apart."""
    window = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    if draw(st.booleans()):
        return AvgPool2d(window)
    stride = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    padding = tuple(draw(st.integers(0, size // 2)) for size in window)
    dilation = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    return AvgPool2d(window, stride=stride, padding=padding, dilation=dilation)


@st.composite
def pooled(draw):
    """Draw a network with pools, and images for it."""
    shape = draw(st.integers(4, 9)), draw(st.integers(4, 9))
    layers = []
    for _ in range(draw(st.integers(0, 2))):
        layers += draw(st.lists(same_size(MODERATE, 1), max_size=2))
        layers.append(draw(inner_pools()))
    layers += draw(st.lists(same_size(MODERATE, 1), min_size=1, max_size=3))
    layers += draw(
        st.sampled_from([
            *([GlobalAvgPool2d()], [GlobalAvgPool2d(2)]),
            [AvgPool2d(3, stride=1, padding="same"), Flatten()],
        ])
    )  # fmt: skip
    images = pixels((draw(st.integers(1, 9)), 2, *shape), draw(st.integers(0, 999)))
    try:
        Sequential(*layers).check((2, *shape))
    except ValueError:  # windows that have become larger than the map
        reject()
    return Problem(Sequential(*layers), images)


def apart(images):
    """Return images of which none is close to another one or to its opposite."""
    return torch.cat([images[:1], images[4:]])


def assert_tangents(problem, dtype):
    """Compare with torch; return whether the network can be lowered."""
    kernel = Sequential(*problem.kernel.layers, kind="ntk")
    note(kernel)
    given_images = apart(problem.images).to(dtype)
    try:
        backend = fused(kernel, problem.shape)
    except NotFusableError:
        return False
    expected, diag = reference(kernel, given_images)
    assert_within(tile(backend, given_images), expected, diag, BOUNDS[dtype])
    error = (variances(backend, given_images) - diag).abs()
    assert bool((error <= DIAG_BOUND * diag).all())
    whole = tile(backend, problem.images.to(dtype))
    if len(whole) > 1 and torch.equal(problem.images[0], problem.images[1]):
        assert torch.equal(whole[0, 1], whole[0, 0])
    return True


@both_dtypes
@examples(60)
@given(problem=problems())
def test_values(problem, dtype):
    assert assert_tangents(problem, dtype)


@both_dtypes
@examples(30)
@given(problem=pooled())
def test_values_with_pools(problem, dtype):
    assert_tangents(problem, dtype)


@examples(40)
@given(st.one_of(problems(), pooled()), st.data())
def test_value_of_a_pair_depends_on_nothing_else(problem, data):
    kernel = Sequential(*problem.kernel.layers, kind="ntk")
    note(kernel)
    given_images = problem.images.to(data.draw(st.sampled_from(DTYPES)))
    try:
        backend = fused(kernel, problem.shape)
    except NotFusableError:
        return
    whole, n = tile(backend, given_images), len(given_images)
    rows, cols = (
        torch.tensor(data.draw(st.lists(st.integers(0, n - 1), min_size=1)))
        for _ in range(2)
    )
    part = tile(backend, given_images[rows], given_images[cols])
    assert torch.equal(part, whole[rows][:, cols])


@pytest.mark.slow
@both_dtypes
@examples(300)
@given(problem=st.one_of(problems(), pooled()))
def test_values_of_many_networks(problem, dtype):
    assert_tangents(problem, dtype)
