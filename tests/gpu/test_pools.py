"""Averages over positions that a GPU computes."""

import pytest
import torch

from skconvgp import gram_matrix
from skconvgp.kernels import convnet, convnet_gap, myrtle
from tests.backends.test_fused_pools import NETWORKS, SHAPE, WIDTHS, exact
from tests.gpu.test_tangents import assert_gradients
from tests.helpers.all_pairs import waves
from tests.helpers.fused import assert_values, both_dtypes, images, tile
from tests.helpers.gpu import GPU, GPU_BOUNDS, FromHost, chosen, on_gpu
from tests.helpers.published_pools import PUBLISHED

pytestmark = pytest.mark.gpu
ALL = {name: (kernel, SHAPE) for name, kernel in NETWORKS.items()} | WIDTHS
OVERLAPPING = ("windows of 3, steps of 2",)  # between convolutions
CIFAR = {
    "myrtle": (myrtle(5), 32),
    "local": (convnet(5, kernel_size=3, pooling="local"), 32),
    "all positions": (convnet_gap(5), 16),
}


@both_dtypes
@pytest.mark.parametrize("name", ALL)
def test_all_pairs_of_positions_give_the_same_covariances(name, dtype):
    kernel, shape = ALL[name]
    given = images(9, shape).to(dtype)
    assert_values(on_gpu(kernel, shape), given, *exact(kernel, given), GPU_BOUNDS)


@pytest.mark.parametrize("name", PUBLISHED)
def test_values_that_were_published(name):
    kernel, expected, size = PUBLISHED[name]
    choice = chosen(kernel, (3, size, size), "auto")
    assert choice.name == ("torch" if name in OVERLAPPING else "fused")
    found = tile(FromHost(choice.tiles()), waves(3, 3, size, size))[0]
    assert found.tolist() == pytest.approx(expected, rel=1e-11)


@both_dtypes
@pytest.mark.parametrize("name", CIFAR)
def test_values_are_those_of_the_processor(name, dtype):
    kernel, side = CIFAR[name]
    given = images(7, (3, side, side)).numpy()
    settings = {"backend": "fused", "image_shape": given.shape[1:]}
    expected = gram_matrix(kernel, given, device="cpu", dtype="float64", **settings)
    precision = str(dtype).removeprefix("torch.")
    found = gram_matrix(kernel, given, device=str(GPU), dtype=precision, **settings)
    scale = expected.diagonal() ** 0.5
    error = abs(found - expected) / (scale[:, None] * scale)
    assert error.max() <= GPU_BOUNDS[dtype]


@both_dtypes
@pytest.mark.parametrize("name", ["near positions", "pools of 7 x 6", "branches"])
def test_a_pair_has_the_same_bits_in_every_tile(name, dtype):
    kernel = NETWORKS[name]
    backend, given = on_gpu(kernel, SHAPE), images(37, SHAPE).to(dtype)
    given[7] = given[2]
    whole = tile(backend, given)
    for i, j, n in [(0, 3, 1), (2, 11, 3), (5, 0, 17), (18, 18, 19)]:
        part = tile(backend, given[i : i + n], given[j : j + 2 * n])
        assert torch.equal(part, whole[i : i + n, j : j + 2 * n])
    upper = backend.gram(backend.prepare(given))
    rows, cols = torch.triu_indices(37, 37)
    assert torch.equal(upper[rows, cols], whole[rows, cols])


@both_dtypes
@pytest.mark.parametrize("name", ["near positions", "strides", "pools apart"])
def test_derivatives_are_those_of_the_processor(name, dtype):
    assert_gradients(NETWORKS[name], images(5, SHAPE), dtype)


def test_what_the_report_says():
    choice = chosen(myrtle(5), (3, 32, 32), "auto")
    assert (choice.name, choice.reason) == ("fused", "")
    kernel, _, size = PUBLISHED[OVERLAPPING[0]]
    choice = chosen(kernel, (3, size, size), "auto")
    assert choice.name == "torch"
    assert "windows that do not overlap" in choice.reason
