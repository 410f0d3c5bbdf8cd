"""The value of a pair is a function of the pair alone, to the last bit."""

import pytest
import torch

from skconvgp.engine import KernelOracle
from skconvgp.kernels import Flatten, convnet, dense, residual_convnet, resnet32
from skconvgp.kernels._prepared import take
from tests.helpers.fused import (
    BOUNDS,
    NETWORKS,
    assert_within,
    both_dtypes,
    every_instruction_set,
    fused,
    fused_tangents,
    images,
    lanes,
    needs_extension,
    reference,
    tile,
)
from tests.helpers.tiles import config, run_in_threads, run_shuffled, small_tiles

__all__ = ["every_instruction_set"]

pytestmark = needs_extension
BIT_NETWORKS = {
    "convnet": (convnet(depth=2, kernel_size=3), (2, 5, 4)),
    "convnet, no bias": (convnet(depth=2, kernel_size=2, bias_variance=0.0), (1, 4, 4)),
    "many channels": (convnet(depth=2, kernel_size=3), (19, 3, 4)),
    "residual convnet": (residual_convnet(depth=3), (1, 5, 4)),
    "resnet32": (resnet32(), (1, 5, 5)),
    "windows of all kinds": NETWORKS["windows of all kinds"],
    "leaky": NETWORKS["leaky"],
    "erf": NETWORKS["erf"],
    "branches": NETWORKS["branches"],
    "dense, 1 number": (dense(), (1, 1, 1)),
    "dense, 7 numbers": (dense(), (7, 1, 1)),
    "dense, 129 numbers": (dense(), (129, 1, 1)),
    "dense, 784 numbers": (dense(), (1, 28, 28)),
    "erf, vectors": NETWORKS["erf, vectors"],
    "inner product": (Flatten(), (3, 1, 1)),
}
SMALL = [
    "convnet",
    "many channels",
    "branches",
    "erf",
    "leaky",
    "dense, 7 numbers",
    "erf, vectors",
]
BACKENDS = [
    *((fused, name) for name in BIT_NETWORKS),
    *((fused_tangents, name) for name in SMALL),
]
every_backend = pytest.mark.parametrize(
    ("build", "name"), BACKENDS, ids=lambda item: getattr(item, "__name__", item)
)


def bit_problem(build, name, dtype, n):
    kernel, shape = BIT_NETWORKS[name]
    given = images(n, shape, seed=3).to(dtype)
    given[n // 2] = given[1]
    given[n // 3] = -given[2]
    backend = build(kernel, shape)
    return backend, given, tile(backend, given)


@both_dtypes
@every_backend
def test_tiles_of_any_size_and_place(build, name, dtype, every_instruction_set):
    width = lanes(every_instruction_set, dtype)
    n = 2 * width + 5
    backend, given, whole = bit_problem(build, name, dtype, n)
    sizes = sorted({1, 2, width - 1, width, width + 1, 2 * width + 3} - {0})
    prepared = backend.prepare(given)
    for n_rows, n_cols in [*zip(sizes, sizes[::-1], strict=True), (1, 1), (n, 3)]:
        for start in (0, 1, n - max(n_rows, n_cols)):
            rows, cols = slice(start, start + n_rows), slice(n - start - n_cols, n)
            cols = slice(cols.start, cols.start + n_cols)
            expected = whole[rows, cols]
            assert torch.equal(tile(backend, given[rows], given[cols]), expected)
            parts = take(prepared, rows), take(prepared, cols)
            assert torch.equal(backend.cross(*parts), expected)


@both_dtypes
@every_backend
def test_order_of_images(build, name, dtype, every_instruction_set):
    backend, given, whole = bit_problem(build, name, dtype, 37)
    order = torch.randperm(37, generator=torch.Generator().manual_seed(1))
    assert torch.equal(tile(backend, given[order]), whole[order][:, order])
    assert torch.equal(tile(backend, given, given[order]), whole[:, order])


@both_dtypes
@every_backend
def test_covariance_is_symmetric(build, name, dtype, every_instruction_set):
    backend, given, whole = bit_problem(build, name, dtype, 37)
    assert torch.equal(whole, whole.transpose(0, 1))
    one, two = given[:19], given[11:]
    there, back = tile(backend, one, two), tile(backend, two, one)
    assert torch.equal(there, back.transpose(0, 1))


@both_dtypes
@every_backend
def test_covariance_of_equal_images_is_their_variance(
    build, name, dtype, every_instruction_set
):
    backend, given, whole = bit_problem(build, name, dtype, 21)
    diag = backend.diag(backend.prepare(given))
    index = torch.arange(21)
    assert torch.equal(whole[index, index], diag)
    assert torch.equal(given[10], given[1])
    assert torch.equal(whole[10, 1], diag[1])
    again = given.clone()  # of the same value, in another place
    assert torch.equal(
        tile(backend, again[3:9], given)[index[:6], index[3:9]], diag[3:9]
    )


@both_dtypes
@every_backend
def test_upper_triangle_of_one_set(build, name, dtype, every_instruction_set):
    backend, given, whole = bit_problem(build, name, dtype, 37)
    prepared = backend.prepare(given)
    for n in (1, 2, 5, 16, 17, 31, 37):
        gram = backend.gram(take(prepared, slice(0, n)))
        index = torch.triu_indices(n, n)
        assert torch.equal(gram[*index], whole[:n, :n][*index])


@both_dtypes
@every_backend
def test_tables_do_not_depend_on_the_other_images(
    build, name, dtype, every_instruction_set
):
    backend, given, _ = bit_problem(build, name, dtype, 21)
    whole, diag = backend.prepare(given), backend.diag(backend.prepare(given))
    for part in (slice(0, 1), slice(3, 12), slice(8, 21)):
        alone = backend.prepare(given[part])
        assert torch.equal(backend.diag(alone), diag[part])
        assert torch.equal(backend.diag(take(whole, part)), diag[part])
        pairs = [(alone, take(whole, part))]
        while pairs:
            one, two = pairs.pop()
            if isinstance(one, tuple):
                pairs += zip(one, two, strict=True)
            else:
                assert torch.equal(one, two)


@pytest.mark.parametrize("n_samples", [127, 128, 129, 261])
@both_dtypes
def test_long_rows_of_vectors(n_samples, dtype):
    backend, given, whole = bit_problem(fused, "dense, 7 numbers", dtype, n_samples)
    for start in (0, 1, 100, n_samples - 1):
        assert torch.equal(tile(backend, given[start:], given[:3]), whole[start:, :3])
    kernel, _ = BIT_NETWORKS["dense, 7 numbers"]
    covariances, diag = reference(kernel, given)
    assert_within(whole, covariances, diag, BOUNDS[dtype])


@both_dtypes
@pytest.mark.parametrize("name", ["convnet", "branches", "dense, 7 numbers"])
@pytest.mark.parametrize("build", [fused, fused_tangents])
@pytest.mark.parametrize("runner", [run_shuffled, run_in_threads])
def test_blocks_tiles_and_threads_of_the_engine(build, name, dtype, runner):
    backend, given, whole = bit_problem(build, name, dtype, 41)
    pair_bytes = backend.measure(given[:1]).pair_bytes
    for block, side, workers in [(41, 41, 1), (17, 5, 3), (7, 3, 2), (16, 16, 3)]:
        with small_tiles(block, side, pair_bytes):
            settings = config(dtype=dtype, n_workers=workers)
            oracle = KernelOracle(backend, given.double(), settings, runner)
            assert torch.equal(oracle.gram(), whole)
            assert torch.equal(oracle.cross(given[5:20].double()), whole[5:20])
