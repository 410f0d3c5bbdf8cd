"""Blocks of entries that completions ask for are those of the whole matrix."""

import functools
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skconvgp.backends import ReferenceBackend
from skconvgp.engine import KernelOracle, MatrixOracle, SampleOracle
from skconvgp.kernels import convnet, rbf
from tests.helpers.tiles import (
    PlaceBackend,
    WatchedBackend,
    config,
    numbered_images,
    run_in_threads,
    run_shuffled,
    small_tiles,
)
from tests.helpers.tolerances import assert_close

N = 23
BLOCK, TILE = 7, 3  # blocks of 7, 7, 7, 2 images; tiles of 3, 3, 1
KERNELS = {"convnet": convnet(depth=1, kernel_size=3), "rbf": rbf(2.0)}
GENERATOR = torch.Generator().manual_seed(0)
IMAGES = torch.randn(N, 2, 4, 5, generator=GENERATOR, dtype=torch.float64)
PERMUTED = torch.randperm(N, generator=GENERATOR)
NUMBERS = {
    "all": None,
    "everyone": torch.arange(N),
    "permuted": PERMUTED,
    "some": PERMUTED[:17],
    "one": torch.tensor([4]),
    "repeated": torch.cat([PERMUTED[:9], torch.tensor([5, 5, 0]), PERMUTED[:6]]),
    "none": torch.tensor([], dtype=torch.int64),
}
every_dtype = pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
every_kernel = pytest.mark.parametrize("name", KERNELS)
every_row = pytest.mark.parametrize("rows", NUMBERS)
every_col = pytest.mark.parametrize("cols", NUMBERS)


def oracle_of(name, dtype=torch.float64, **settings):
    backend = WatchedBackend(ReferenceBackend(KERNELS[name]))
    return KernelOracle(backend, IMAGES, config(dtype=dtype), **settings)


def cut(name, dtype=torch.float64):
    """Let the planner cut tiles of three images a side."""
    image = torch.zeros(1, *IMAGES.shape[1:], dtype=dtype)
    costs = ReferenceBackend(KERNELS[name]).measure(image)
    return small_tiles(BLOCK, TILE, costs.pair_bytes)


@functools.cache
def whole(name, dtype):
    """Return the Gram matrix and the prior variances, computed in the same tiles."""
    oracle = oracle_of(name, dtype)
    with cut(name, dtype):
        return oracle.gram(), oracle.diag()


def part_of(matrix, rows, cols):
    rows, cols = (torch.arange(N) if some is None else some for some in (rows, cols))
    return matrix[rows[:, None], cols]


@every_row
@every_col
@every_dtype
@every_kernel
def test_block_is_that_of_the_gram_matrix_with_the_prior_variances(
    name, dtype, rows, cols
):
    gram, diag = whole(name, dtype)
    numbers = NUMBERS[rows], NUMBERS[cols]
    with cut(name, dtype):
        block = oracle_of(name, dtype).block(*numbers)
    assert block.dtype == torch.float64
    assert_close(block, part_of(gram, *numbers), dtype)
    rows, cols = (torch.arange(N) if some is None else some for some in numbers)
    i, j = (rows[:, None] == cols).nonzero(as_tuple=True)
    assert torch.equal(block[i, j], diag[rows[i]])  # to the bit


@every_dtype
@every_kernel
def test_square_block_is_symmetric_to_the_bit(name, dtype):
    oracle = oracle_of(name, dtype)
    for numbers in NUMBERS.values():
        with cut(name, dtype):
            block = oracle.block(numbers, numbers)
        assert torch.equal(block, block.mT)


def test_blocks_are_cut_into_ragged_tiles():
    oracle = oracle_of("convnet")
    with cut("convnet"):
        oracle.block(None, PERMUTED[:17])
    heights, widths = map(set, zip(*oracle.backend.tiles, strict=True))
    assert heights == {3, 1, 2}
    assert widths == {3, 1}
    assert len(oracle.backend.tiles) > 3 * 3


def test_a_square_block_costs_one_triangle():
    oracle = oracle_of("convnet")
    with cut("convnet"):
        oracle.block(PERMUTED, PERMUTED)
        square = sum(rows * cols for rows, cols in oracle.backend.tiles)
        oracle.backend.tiles.clear()
        oracle.block(None, PERMUTED)
        rectangle = sum(rows * cols for rows, cols in oracle.backend.tiles)
    assert rectangle == N * N
    assert square < 0.7 * N * N


@pytest.mark.parametrize("is_symmetric", [True, False])
@pytest.mark.parametrize("runner", [run_shuffled, run_in_threads])
def test_every_value_comes_to_its_place(runner, is_symmetric):
    backend = PlaceBackend(is_symmetric)
    oracle = KernelOracle(backend, numbered_images(N), config(), runner)
    rows, cols = PERMUTED[:20], PERMUTED[3:]
    with small_tiles(BLOCK, TILE, 64):
        block = oracle.block(rows, cols)
    one, two = rows[:, None], cols
    expected = 1000 * one + two
    if is_symmetric:
        expected = 1000 * torch.maximum(one, two) + torch.minimum(one, two)
    assert torch.equal(block, expected.to(torch.float64))


numbers = st.none() | st.lists(st.integers(0, N - 1), max_size=30)


@settings(deadline=None, max_examples=30)
@given(rows=numbers, cols=numbers, block=st.integers(1, 9), tile=st.integers(1, 9))
def test_any_cut_gives_the_block(rows, cols, block, tile):
    oracle = KernelOracle(PlaceBackend(is_symmetric=True), numbered_images(N), config())
    rows, cols = (
        None if some is None else torch.tensor(some, dtype=torch.int64)
        for some in (rows, cols)
    )
    with small_tiles(block, tile, 64):
        values = oracle.block(rows, cols)
    assert torch.equal(values, part_of(oracle.gram(), rows, cols))


def test_points_are_rows():
    assert torch.equal(oracle_of("rbf").points(), IMAGES.reshape(N, -1))


def matrix_oracle(dtype=torch.float64):
    root = torch.randn(N, N, generator=torch.Generator().manual_seed(1))
    matrix = (root @ root.mT).to(dtype)
    matrix[0, 1] += 1.0  # not quite symmetric
    return MatrixOracle(matrix, config())


@every_row
@every_col
@every_dtype
def test_block_of_a_matrix_is_that_of_its_symmetric_part(dtype, rows, cols):
    oracle = matrix_oracle(dtype)
    before = oracle.matrix.clone()
    rows, cols = NUMBERS[rows], NUMBERS[cols]
    block = oracle.block(rows, cols)
    assert block.dtype == torch.float64
    assert torch.equal(block, part_of(oracle.gram(), rows, cols))
    block.zero_()
    assert torch.equal(oracle.matrix, before)


@dataclass
class Steps:
    """Whom a sample oracle tells what it has done."""

    seen: list = field(default_factory=list)

    def __call__(self, done, total):
        self.seen.append((done, total))


def sample_oracle(oracle, n_allowed=100, labels=None):
    steps = Steps()
    return SampleOracle(oracle, torch.float32, steps, n_allowed, labels), steps


@pytest.mark.parametrize("oracle", [oracle_of("rbf"), matrix_oracle()], ids=type)
def test_sample_oracle_passes_entries_on(oracle):
    samples, _ = sample_oracle(oracle)
    rows, cols = NUMBERS["some"], NUMBERS["repeated"]
    assert samples.n_samples == N
    assert torch.equal(samples.diag(), oracle.diag())
    assert torch.equal(samples.block(rows, cols), oracle.block(rows, cols))
    assert torch.equal(samples.block(None, None), oracle.gram())
    assert samples.precision == torch.float32


def test_sample_oracle_tells_what_it_has_evaluated_but_no_more_than_allowed():
    samples, steps = sample_oracle(matrix_oracle())
    samples.diag()  # is free
    samples.block(NUMBERS["one"], None)
    samples.block(PERMUTED[:4], PERMUTED[4:9])
    samples.block(None, None)
    assert steps.seen == [(N, 100), (N + 20, 100), (100, 100)]


def test_sample_oracle_tells_of_blocks_of_the_columns_that_it_evaluates():
    samples, steps = sample_oracle(oracle_of("rbf"), n_allowed=1000)
    with small_tiles(BLOCK, TILE, 64):
        samples.block(None, PERMUTED[:17])
        samples.block(PERMUTED[:4], PERMUTED[4:9])
    size = 17 * N
    done = [entries for entries, _ in steps.seen]
    assert {total for _, total in steps.seen} == {1000}
    assert done[0] == 0
    assert done == sorted(done)
    assert done[4 * 3] == size  # in blocks of 7 of 23 rows and 17 columns
    assert done[-1] == size + 20


def test_what_is_not_known_of_the_samples_is_no_attribute():
    kernel, _ = sample_oracle(oracle_of("rbf"))
    matrix, _ = sample_oracle(matrix_oracle())
    codes = torch.arange(N) % 3
    labelled, _ = sample_oracle(matrix_oracle(), labels=codes)
    assert torch.equal(kernel.points(), IMAGES.reshape(N, -1))
    assert not hasattr(matrix, "points")
    assert not hasattr(matrix, "labels")
    assert torch.equal(labelled.labels(), codes)


def test_kernel_is_not_told_of_by_its_own_oracle():
    told = []
    oracle = oracle_of("rbf", on_step=lambda *step: told.append(step))
    oracle.block(None, PERMUTED[:5])
    assert not told
    oracle.gram()
    assert told
