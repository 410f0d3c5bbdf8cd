"""Finished blocks on disk are found again, whole, and by nobody else."""

import errno
import os

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from skconvgp.backends import ReferenceBackend
from skconvgp.engine import KernelOracle, TileCache, TileCosts, plan_tiles
from skconvgp.engine._cache import SIDE, cut_for_cache
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
def cache(tmp_path):
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
    whole = N * (N + 1) // 2
    assert 0 < told[0][0] < whole  # what is kept is done
    assert told[-1] == (whole, whole)
    assert told == sorted(told)


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


def test_cross_covariances_are_kept_too(cache):
    expected = oracle(cache).cross(images(N_OTHERS))
    assert_close(expected, oracle(None).cross(images(N_OTHERS)))
    silent = oracle(cache, StoppedBackend(limit=0))
    assert torch.equal(silent.cross(images(N_OTHERS)), expected)


def test_parts_are_kept_by_their_numbers(cache, again, monkeypatch):
    monkeypatch.setattr("skconvgp.engine._cache.FEWEST_PAIRS", 100)
    rows, cols = torch.arange(0, 40), torch.arange(20, 50)
    expected = oracle(cache).block(rows, cols)
    assert_close(expected, oracle(None).block(rows, cols))
    silent = oracle(cache, StoppedBackend(limit=0))
    assert torch.equal(silent.block(rows, cols), expected)
    moved = oracle(cache, again).block(rows + 1, cols)
    assert_close(moved, oracle(None).block(rows + 1, cols))
    assert again.tiles


def test_small_parts_and_products_are_not_kept(cache):
    own = oracle(cache)
    own.block(torch.arange(5), None)
    own.product(torch.ones(N, 1, dtype=torch.float64))
    list(own.stream(images(N_OTHERS), 16))
    assert not tiles_of(cache)


def test_a_full_disk_is_an_error_that_leaves_nothing_behind(cache, monkeypatch):
    def refuse(_source, _target):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="No space left"):
        oracle(cache).gram()
    assert not list(cache.folder.iterdir())


@given(n=st.integers(1, 9000), n_workers=st.integers(2, 64))
def test_cuts_do_not_depend_on_the_number_of_workers(n, n_workers):
    costs = TileCosts(image_bytes=1000, pair_bytes=800, value_bytes=4)
    one, many = (
        plan_tiles(
            n,
            n,
            is_symmetric=True,
            costs=costs,
            memory_budget=2**36,
            n_workers=each,
        )
        for each in (1, n_workers)
    )
    cut = cut_for_cache(one)
    assert cut.block <= SIDE
    assert cut.tile <= cut.block
    if cut.block <= many.block:
        assert cut_for_cache(many).blocks() == cut.blocks()


def test_little_memory_makes_small_blocks():
    costs = TileCosts(image_bytes=1000, pair_bytes=800, value_bytes=4)
    plan = plan_tiles(5000, 5000, is_symmetric=True, costs=costs, memory_budget=2**17)
    cut = cut_for_cache(plan)
    assert plan.block // 2 < cut.block <= plan.block < SIDE
