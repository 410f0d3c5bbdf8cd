"""Affine layers against literal loops over positions and offsets."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from skconvgp.kernels import (
    AvgPool2d,
    Conv2d,
    Dense,
    Flatten,
    GlobalAvgPool2d,
    Maps,
    ReLU,
    Sequential,
)
from tests.helpers import naive_kernels as naive
from tests.helpers.kernels import (
    QUICK,
    assert_close,
    cross,
    double,
    input_maps,
    last_maps,
    random_images,
)

VARIANCES = st.just(0.0) | st.floats(1e-6, 1e6)
CONVOLUTIONS = st.builds(
    Conv2d,
    st.one_of(st.integers(1, 5), st.tuples(st.integers(1, 5), st.integers(1, 5))),
    stride=st.integers(1, 3),
    padding=st.sampled_from(["same", "valid", "circular", 0, 1, 2, 3]),
    dilation=st.integers(1, 3),
    weight_variance=VARIANCES,
    bias_variance=VARIANCES,
)
SIZES = st.tuples(st.integers(1, 7), st.integers(1, 7))


def by_loops(conv: Conv2d, maps: np.ndarray) -> np.ndarray:
    size = conv.kernel_size
    return naive.convolve(
        maps,
        size if isinstance(size, tuple) else (size, size),
        weight=conv.weight_variance,
        bias=conv.bias_variance,
        stride=conv.stride,
        padding=conv.padding,
        dilation=conv.dilation,
    )


@given(conv=CONVOLUTIONS, size=SIZES, seed=st.integers(0, 99))
@QUICK
def test_convolution_matches_loops(conv, size, seed):
    maps = np.random.default_rng(seed).random((*size, 2, 3))
    expected = by_loops(conv, maps)
    if expected.size == 0:
        with pytest.raises(ValueError, match=r"does not fit into a map of size"):
            conv.out_shape(size)
        return
    assert conv.out_shape(size) == expected.shape[:2]
    assert_close(conv.pair_pass(Maps(double(maps)), None, None).nngp, expected)
    var, trace = conv.image_pass(double(maps[..., 0]))
    assert_close(var, expected[..., 0])
    assert trace is None


@pytest.mark.parametrize("padding", ["same", "valid", "circular", 0, 2])
@pytest.mark.parametrize("size", [(1, 1), (5, 8)])
def test_one_by_one_convolution_matches_loops(padding, size):
    conv = Conv2d(1, padding=padding, weight_variance=1.7, bias_variance=0.2)
    maps = np.random.default_rng(0).random((*size, 2, 3))
    found = conv.pair_pass(Maps(double(maps)), None, None).nngp
    assert_close(found, by_loops(conv, maps))


@given(first=CONVOLUTIONS, second=CONVOLUTIONS, size=SIZES, seed=st.integers(0, 99))
@QUICK
def test_two_convolutions_with_relu_match_loops(first, second, size, seed):
    images = random_images(3, 2, *size, seed=seed)
    maps = by_loops(first, naive.input_maps(images.numpy()))
    if maps.size:
        maps = by_loops(second, naive.activate(maps, naive.leaky_relu))
    network = Sequential(first, ReLU(), second)
    if maps.size == 0:
        with pytest.raises(ValueError, match="does not fit"):
            network.out_shape(size)
        return
    # near |t| = 1 the textbook formula keeps half of the digits on its own scale
    scale = np.abs(maps).max() + 1e-300
    assert_close(last_maps(network, images), maps, rtol=1e-10, scale=scale)


@given(size=SIZES, seed=st.integers(0, 99))
@QUICK
def test_flatten_and_dense_equal_a_valid_convolution_of_full_size(size, seed):
    images = random_images(3, 2, *size, seed=seed)
    variances = {"weight_variance": 1.3, "bias_variance": 0.4}
    flat = Sequential(Conv2d(3), ReLU(), Flatten(), Dense(**variances))
    full = Conv2d(size, padding="valid", **variances)
    assert_close(
        cross(flat, images), cross(Sequential(Conv2d(3), ReLU(), full), images)
    )


def test_flatten_is_the_mean_over_positions():
    images = random_images(3, 2, 4, 5)
    expected = input_maps(images).mean((0, 1))
    assert_close(cross(Flatten(), images), expected, scale=1.0)


def test_flatten_adds_single_precision_maps_in_double():
    maps = torch.full((100, 100, 1, 1), 0.1, dtype=torch.float32)
    mean = Flatten().pair_pass(Maps(maps), None, None).nngp
    assert mean.dtype == torch.float64
    assert_close(mean, double([[[[float(torch.tensor(0.1))]]]]))


def test_input_covariance_is_the_mean_over_channels():
    images = random_images(4, 3, 1, 1)
    vectors = images.reshape(4, 3)
    assert_close(cross(Dense(), images), vectors @ vectors.T / 3, scale=1.0)


@pytest.mark.parametrize("layer", [AvgPool2d(1), AvgPool2d(), GlobalAvgPool2d()])
def test_pooling_of_single_positions_changes_nothing(layer):
    images = random_images(3, 2, 1, 1)
    assert torch.equal(cross(layer, images), cross(Flatten(), images))


def test_convolution_of_a_shifted_image_wraps():
    images = random_images(3, 1, 5, 6)
    shifted = torch.roll(images, (2, 3), (2, 3))
    network = Sequential(
        Conv2d(4, padding="circular", bias_variance=0.1),
        ReLU(),
        Conv2d((2, 3), padding="circular"),
    )
    expected = torch.roll(last_maps(network, images), (2, 3), (0, 1))
    assert_close(last_maps(network, shifted), expected, scale=expected.abs().max())


@pytest.mark.parametrize("padding", ["same", "valid", "circular", 0, 1, 4])
def test_positions_that_windows_reach(padding):
    settings = itertools.product(range(1, 9), range(1, 6), range(1, 5), range(1, 4))
    found = set()
    for size, window, stride, dilation in settings:
        layer = Conv2d((window, 1), stride=stride, padding=padding, dilation=dilation)
        axis, _ = layer.axes((size, 1))
        if axis.n_outputs < 1:
            continue
        sums = axis.matrix(torch.empty(0))
        assert axis.reaches_all == bool((sums > 0).any(0).all())
        found.add(axis.reaches_all)
    assert found == {True, False}


@pytest.mark.parametrize("padding", ["same", "valid", "circular", 3])
def test_sums_are_those_of_the_windows_one_by_one(padding):
    for size, window, stride, dilation in [(7, 3, 2, 1), (5, 4, 1, 3), (4, 9, 3, 2)]:
        layer = Conv2d((window, 1), stride=stride, padding=padding, dilation=dilation)
        axis, _ = layer.axes((size, 1))
        expected = torch.zeros(max(axis.n_outputs, 0), size)
        for i, tap in itertools.product(range(len(expected)), range(window)):
            place = i * stride - axis.before + tap * dilation
            if padding == "circular":
                expected[i, place % size] += 1.0
            elif 0 <= place < size:
                expected[i, place] += 1.0
        if len(expected):
            assert torch.equal(axis.matrix(torch.empty(0)), expected)


def test_large_windows_are_as_quick_as_the_map_is_small():
    layer = Conv2d(2**16, weight_variance=2.0**32)
    maps = layer.image_pass(torch.ones(3, 3, 1))[0]
    assert torch.equal(maps, torch.full((3, 3, 1), 9.0))
    axis = layer.axes((3, 3))[0]
    assert axis.reaches_all
    assert axis.hits == 1
