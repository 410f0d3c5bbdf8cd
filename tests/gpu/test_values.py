"""Values that a GPU computes: how exact they are, and that only the pair matters."""

import pytest
import torch

from skconvgp._config import ComputeConfig
from skconvgp.engine import KernelOracle
from skconvgp.kernels import convnet, residual_convnet, resnet32
from skconvgp.kernels._prepared import take
from tests.helpers.fused import (
    MNIST_NETWORKS,
    MNIST_SOURCES,
    NETWORKS,
    assert_values,
    both_dtypes,
    every_network,
    hard_images,
    hard_problem,
    images,
    reference,
    strokes,
    tile,
)
from tests.helpers.gpu import GPU, GPU_BOUNDS, chosen, on_gpu
from tests.helpers.tiles import small_tiles

pytestmark = pytest.mark.gpu
BIT_NETWORKS = [
    "convnet",
    "residual convnet",
    "resnet32",
    "windows of all kinds",
    "branches",
    "erf",
    "leaky",
    "dense",
]
WINDOWS = {
    "7, as for MNIST": convnet(depth=3),
    "4, to one side": residual_convnet(depth=3),
    "3, with strides": resnet32(),
}
# Narrower than a warp, as wide, one more, two to four columns a lane; rows are ragged
# too. Of the wide ones the maps do not fit in registers.
SHAPES = [(1, 5, 31), (3, 32, 32), (1, 30, 33), (1, 33, 28), (2, 40, 63), (3, 64, 64)]
SHAPES += [(1, 9, 65), (1, 6, 97), (2, 20, 128)]


@both_dtypes
@every_network
def test_values_are_those_of_the_reference(name, dtype):
    kernel, shape = NETWORKS[name]
    assert_values(on_gpu(kernel, shape), *hard_problem(name, dtype), GPU_BOUNDS)


@both_dtypes
@pytest.mark.parametrize("name", MNIST_NETWORKS)
@pytest.mark.parametrize("source", MNIST_SOURCES)
def test_networks_for_mnist_on_images_of_its_size(name, source, dtype):
    kernel, given = MNIST_NETWORKS[name], source(8).to(dtype)
    backend = on_gpu(kernel, (1, 28, 28))
    assert_values(backend, given, *reference(kernel, given), GPU_BOUNDS)


@both_dtypes
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("name", MNIST_NETWORKS)
def test_pairs_that_are_nearly_identical_or_opposite(name, sign, dtype):
    kernel, shape = MNIST_NETWORKS[name], (1, 28, 28)
    given = strokes(2)[:1].repeat(9, 1, 1, 1)
    for i, change in enumerate(images(8, shape, seed=1)):
        given[1 + i] *= sign * (1.0 + 10.0**-i * change)
    given = given.to(dtype)
    backend = on_gpu(kernel, shape)
    assert_values(backend, given, *reference(kernel, given), GPU_BOUNDS)


@both_dtypes
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("window", WINDOWS)
def test_images_of_up_to_128_columns(window, shape, dtype):
    kernel, given = WINDOWS[window], hard_images(shape)[:6].to(dtype)
    backend = on_gpu(kernel, shape)
    assert_values(backend, given, *reference(kernel, given), GPU_BOUNDS)


def bit_problem(name, dtype, n):
    """Return a backend, images with equal and opposite ones, and all covariances."""
    kernel, shape = NETWORKS[name]
    given = images(n, shape, seed=3).to(dtype)
    given[n // 2], given[n // 3] = given[1], -given[2]
    backend = on_gpu(kernel, shape)
    return backend, given, tile(backend, given)


@both_dtypes
@pytest.mark.parametrize("name", BIT_NETWORKS)
def test_tiles_of_any_size_and_place(name, dtype):
    n = 69
    backend, given, whole = bit_problem(name, dtype, n)
    prepared = backend.prepare(given)
    sizes = [1, 2, 3, 4, 31, 32, 33, 65]
    for n_rows, n_cols in [*zip(sizes, sizes[::-1], strict=True), (1, 1), (n, 3)]:
        for start in (0, 1, n - max(n_rows, n_cols)):
            stop = n - start
            rows, cols = slice(start, start + n_rows), slice(stop - n_cols, stop)
            expected = whole[rows, cols]
            assert torch.equal(tile(backend, given[rows], given[cols]), expected)
            parts = take(prepared, rows), take(prepared, cols)
            assert torch.equal(backend.cross(*parts), expected)


@both_dtypes
@pytest.mark.parametrize("name", BIT_NETWORKS)
def test_number_and_order_of_images(name, dtype):
    backend, given, whole = bit_problem(name, dtype, 37)
    order = torch.randperm(37, generator=torch.Generator().manual_seed(1))
    assert torch.equal(tile(backend, given[order]), whole[order][:, order])
    prepared = backend.prepare(given)
    for n in (1, 2, 5, 16, 31, 37):
        assert torch.equal(tile(backend, given[:n]), whole[:n, :n])
        upper = backend.gram(take(prepared, slice(0, n)))
        index = torch.triu_indices(n, n)
        assert torch.equal(upper[*index], whole[:n, :n][*index])


@both_dtypes
@pytest.mark.parametrize("name", ["convnet", "branches", "dense"])
def test_blocks_and_tiles_of_the_engine(name, dtype):
    kernel, shape = NETWORKS[name]
    backend, given = chosen(kernel, shape).tiles(), images(41, shape)
    settings = ComputeConfig(GPU, dtype=dtype)
    pair_bytes = backend.measure(given[:1].to(GPU, dtype)).pair_bytes
    whole = KernelOracle(backend, given, settings).gram()
    assert whole.device.type == GPU.type
    for block, side in [(17, 5), (7, 3), (16, 16)]:
        with small_tiles(block, side, pair_bytes):
            oracle = KernelOracle(backend, given, settings)
            assert torch.equal(oracle.gram(), whole)
            assert torch.equal(oracle.cross(given[5:20]), whole[5:20])
