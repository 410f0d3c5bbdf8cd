"""Finished blocks on disk are found again, whole, and by nobody else."""

import errno
import os
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from skconvgp.backends import ReferenceBackend
from skconvgp.engine import KernelOracle, TileCache, TileCosts, plan_tiles
from skconvgp.engine._cache import FILES, SIDE, cut_for_cache
from skconvgp.engine._plan import LANES
from skconvgp.kernels import convnet
from tests.helpers.tiles import WatchedBackend, config
from tests.helpers.tolerances import assert_close

N, N_OTHERS = 70, 33
N_BLOCKS = 15  # of 16 images a side, on and above the diagonal
KERNEL = convnet(depth=1, kernel_size=3)


class StoppedBackend(WatchedBackend):
    """Is interrupted after some tiles."""

    def __init__(self, limit=None):
        super().__init__(ReferenceBackend(KERNEL))
        self.limit = limit

    def cross(self, one, two):
        self._stop()
        return super().cross(one, two)

    def gram(self, one):
        self._stop()
        return super().gram(one)

    def _stop(self):
        if len(self.tiles) == self.limit:
            raise KeyboardInterrupt


def images(n):
    generator = torch.Generator().manual_seed(n)
    return torch.rand(n, 1, 4, 4, generator=generator, dtype=torch.float64)


def oracle(cache, backend=None, **settings):
    backend = backend or StoppedBackend()
    return KernelOracle(backend, images(N), config(), cache=cache, **settings)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr("skconvgp.engine._cache.FEWEST_PAIRS", 1)
    return TileCache(tmp_path)


@pytest.fixture
def again():
    return StoppedBackend()


def tiles_of(cache):
    return sorted(cache.folder.glob("*.tile"))


def test_kept_blocks_are_not_computed_again(cache, again):
    first = StoppedBackend()
    expected = oracle(cache, first).gram()
    assert_close(expected, oracle(None).gram())
    assert len(first.tiles) == len(tiles_of(cache)) == N_BLOCKS
    assert torch.equal(oracle(cache, again).gram(), expected)
    assert not again.tiles
    assert not again.n_prepared


def test_an_interrupted_matrix_goes_on_where_it_stopped(cache, again):
    killed, told = StoppedBackend(limit=6), []
    with pytest.raises(KeyboardInterrupt):
        oracle(cache, killed).gram()
    assert len(tiles_of(cache)) == 6
    gram = oracle(cache, again, on_step=lambda *step: told.append(step)).gram()
    assert_close(gram, oracle(None).gram())
    assert len(again.tiles) == N_BLOCKS - 6
    total = N * (N + 1) // 2
    (n_read, _), *others = told  # first what was read, then what is computed
    assert 0 < n_read < total
    assert len(others) == N_BLOCKS - 6
    assert others[-1] == (total, total)


@pytest.mark.parametrize("harm", ["cut", "flipped", "empty", "long", "zeros"])
def test_a_damaged_block_is_computed_again(cache, again, harm):
    expected = oracle(cache).gram()
    path = tiles_of(cache)[3]
    content = path.read_bytes()
    harmed = {
        "cut": content[: len(content) // 2],
        "flipped": content[:-900] + bytes([content[-900] ^ 1]) + content[-899:],
        "empty": b"",
        "long": content + b"0",
        "zeros": bytes(len(content)),
    }
    path.write_bytes(harmed[harm])
    assert torch.equal(oracle(cache, again).gram(), expected)
    assert len(again.tiles) == 1
    assert torch.equal(oracle(cache, StoppedBackend(limit=0)).gram(), expected)


def test_tiles_that_were_swapped_are_computed_again(cache, again):
    expected = oracle(cache).gram()
    one, other = tiles_of(cache)[2:4]
    assert one.stat().st_size == other.stat().st_size
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)
    assert torch.equal(oracle(cache, again).gram(), expected)
    assert len(again.tiles) == 2
    assert torch.equal(oracle(cache, StoppedBackend(limit=0)).gram(), expected)


def test_tiles_of_another_folder_are_computed_again(cache, again, tmp_path):
    expected = oracle(cache).gram()
    other = TileCache(tmp_path / "other")
    other.folder.mkdir()
    for path in tiles_of(cache):
        path.rename(other.folder / path.name)
    assert torch.equal(oracle(other, again).gram(), expected)
    assert len(again.tiles) == N_BLOCKS


def test_what_the_tiles_are_of_is_written_as_a_whole(cache, monkeypatch):
    cache.describe("one")

    def fail(_source, _target):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        with pytest.raises(OSError, match="No space left"):
            cache.describe("another")
    (path,) = cache.folder.iterdir()
    assert (path.name, path.read_text()) == ("about.json", "one")


def test_cross_covariances_are_kept_too(cache):
    expected = oracle(cache).cross(images(N_OTHERS))
    assert_close(expected, oracle(None).cross(images(N_OTHERS)))
    silent = oracle(cache, StoppedBackend(limit=0))
    assert torch.equal(silent.cross(images(N_OTHERS)), expected)


def test_parts_are_kept_by_their_numbers(cache, again):
    rows, cols = torch.arange(0, 40), torch.arange(20, 50)
    expected = oracle(cache).block(rows, cols)
    assert_close(expected, oracle(None).block(rows, cols))
    silent = oracle(cache, StoppedBackend(limit=0))
    assert torch.equal(silent.block(rows, cols), expected)
    moved = oracle(cache, again).block(rows + 1, cols)
    assert_close(moved, oracle(None).block(rows + 1, cols))
    assert again.tiles


def test_what_is_quick_and_products_are_not_kept(cache, monkeypatch):
    own = oracle(cache)
    n_passes = own.costs.n_passes
    own.block(torch.arange(5), None)  # not even lanes are full
    own.product(torch.ones(N, 1, dtype=torch.float64))
    list(own.stream(images(N_OTHERS), 16))
    monkeypatch.setattr("skconvgp.engine._cache.FEWEST_PAIRS", n_passes * N * (N + 1))
    own.gram()
    own.cross(images(N_OTHERS))
    assert not tiles_of(cache)


def test_fewer_pairs_are_kept_if_each_takes_longer(cache, monkeypatch):
    slow = StoppedBackend()
    costs = slow.measure(images(1))
    too_many = costs.n_passes * N * (N + 1)
    monkeypatch.setattr("skconvgp.engine._cache.FEWEST_PAIRS", too_many)
    slow.measure = lambda _: replace(costs, n_passes=3 * costs.n_passes)
    oracle(cache, slow).gram()
    assert len(tiles_of(cache)) == N_BLOCKS


@pytest.fixture
def full_disk(monkeypatch):
    """Return a list to which the number of files that fit is written."""
    room, replace = [0], os.replace

    def replace_while_there_is_room(source, target):
        room[0] -= 1
        if room[0] < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", replace_while_there_is_room)
    return room


def test_a_full_disk_leaves_nothing_behind(cache, full_disk):
    with pytest.raises(OSError, match="No space left"):
        oracle(cache).gram()
    assert not list(cache.folder.iterdir())


def test_a_full_disk_is_told_once_and_no_failure_of_the_work(cache, full_disk, again):
    told = []
    full = TileCache(cache.folder, lambda path, error: told.append((path.name, error)))
    full_disk[0] = 4
    expected = oracle(full).gram()
    assert_close(expected, oracle(None).gram())
    ((name, error),) = told
    # The first row has four blocks off the diagonal.
    assert name == "gram-16-32-32-48.tile"
    assert error.errno == errno.ENOSPC
    assert full_disk[0] == -1  # nothing more was tried
    assert len(tiles_of(cache)) == 4
    full_disk[0] = N_BLOCKS
    assert torch.equal(oracle(cache, again).gram(), expected)
    assert len(again.tiles) == N_BLOCKS - 4


def test_a_folder_in_the_place_of_a_block_concerns_that_block_alone(cache, again):
    expected = oracle(cache).gram()
    paths = tiles_of(cache)
    for path in paths:
        path.unlink()
    taken = {paths[0], paths[5], cache.folder / "about.json"}
    for path in taken:
        path.mkdir()
    told = []
    other = TileCache(cache.folder, lambda path, error: told.append((path, error)))
    other.describe("what")
    assert torch.equal(oracle(other).gram(), expected)
    assert {path for path, _ in told} == taken
    assert sum(path.is_file() for path in cache.folder.iterdir()) == N_BLOCKS - 2
    assert torch.equal(oracle(other, again).gram(), expected)
    assert len(again.tiles) == 2


def test_what_is_there_is_read_where_nothing_can_be_written(cache, full_disk, again):
    full_disk[0] = N_BLOCKS + 1
    cache.describe("what")
    expected = oracle(cache).gram()
    full_disk[0] = 0
    tiles_of(cache)[3].unlink()
    told = []
    full = TileCache(cache.folder, lambda *failure: told.append(failure))
    full.describe("what")
    assert not told
    assert torch.equal(oracle(full, again).gram(), expected)
    assert len(again.tiles) == len(told) == 1


@pytest.mark.parametrize("harmed", ["", "other", "what what", None])
def test_a_description_that_was_harmed_is_written_again(harmed, cache):
    path = cache.folder / "about.json"
    if harmed is not None:
        path.write_text(harmed)
    cache.describe("what")
    assert path.read_text() == "what"


COSTS = TileCosts(image_bytes=1000, pair_bytes=800, value_bytes=8)


def cut(n_rows, n_cols, n_workers=1, memory_budget=2**36):
    plan = plan_tiles(
        n_rows,
        n_cols,
        is_symmetric=n_rows == n_cols,
        costs=COSTS,
        memory_budget=memory_budget,
        n_workers=n_workers,
    )
    return cut_for_cache(plan)


@given(n=st.integers(1, 70_000), n_workers=st.integers(2, 64))
def test_cuts_do_not_depend_on_the_number_of_workers(n, n_workers):
    one, many = cut(n, n), cut(n, n, n_workers)
    assert one.block == many.block <= SIDE
    assert one.tile <= one.block
    assert one.block % LANES == 0 or one.block == n


@given(n_rows=st.integers(LANES, 3000), n_cols=st.integers(3001, 70_000))
def test_files_are_neither_many_nor_large(n_rows, n_cols):
    own = cut(n_rows, n_cols)
    height, width = min(own.block, n_rows), min(own.block, n_cols)
    n_files = -(-n_rows // own.block) * -(-n_cols // own.block)
    assert height * width <= SIDE**2
    assert n_files <= 8 * FILES or height * width >= SIDE**2 // 8


def test_little_memory_makes_small_blocks():
    small = cut(5000, 5000, memory_budget=2**17)
    large = cut(5000, 5000)
    assert small.block < large.block <= SIDE
