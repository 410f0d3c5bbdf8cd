"""The cuts cover every pair once and stay within the budget."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skconvgp.engine import (
    Block,
    PullbackCosts,
    TileCosts,
    TilePlan,
    plan_pullback,
    plan_tiles,
    slices,
    stream_rows,
)
from skconvgp.engine._plan import BLOCK_MAPS, MAX_BLOCK, PASSING, QUEUED
from skconvgp.exceptions import TileMemoryError

sizes = st.integers(1, 60)


@settings(deadline=None, max_examples=50)
@given(n=sizes, block=sizes)
def test_blocks_cover_every_distinct_pair_once(n, block):
    plan = TilePlan(n, n, is_symmetric=True, block=block, tile=1, keeps_tables=True)
    times = np.zeros((n, n), dtype=int)
    for part in plan.blocks():
        times[part.rows, part.cols] += 1
        assert part.is_diagonal == (part.rows == part.cols)
    assert (times[np.triu_indices(n)] == 1).all()
    # Below the diagonal only what lies in the squares on the diagonal.
    below = {(s.start + i, s.start + j) for s in slices(n, block)
             for i in range(s.stop - s.start) for j in range(i)}  # fmt: skip
    assert set(zip(*np.nonzero(np.tril(times, -1)), strict=True)) == below
    assert plan.n_pairs == n * (n + 1) // 2


@settings(deadline=None, max_examples=50)
@given(n_rows=sizes, n_cols=sizes, block=sizes)
def test_blocks_cover_a_rectangle_once(n_rows, n_cols, block):
    plan = TilePlan(
        n_rows, n_cols, is_symmetric=False, block=block, tile=1, keeps_tables=True
    )
    times = np.zeros((n_rows, n_cols), dtype=int)
    for part in plan.blocks():
        times[part.rows, part.cols] += 1
        assert not part.is_diagonal
    assert (times == 1).all()
    assert plan.n_pairs == n_rows * n_cols


@given(n=st.integers(0, 200), size=sizes)
def test_slices_are_of_one_size_but_the_last(n, size):
    parts = slices(n, size)
    assert [i for part in parts for i in range(part.start, part.stop)] == list(range(n))
    lengths = [part.stop - part.start for part in parts]
    assert all(length == size for length in lengths[:-1])
    assert all(1 <= length <= size for length in lengths)


def held(plan, costs, n_images, n_workers):
    """Return the bytes that the engine holds at once, counted from its loops."""
    kept = n_images * costs.image_bytes if plan.keeps_tables else 0
    passing = 0 if plan.keeps_tables else PASSING * plan.block * costs.image_bytes
    maps = plan.tile**2 * costs.pair_bytes + costs.worker_bytes
    values = QUEUED * plan.block**2 * costs.value_bytes
    return kept + n_workers * (passing + maps + values)


@settings(deadline=None, max_examples=300)
@given(
    n_rows=st.integers(1, 5000),
    n_cols=st.integers(1, 5000),
    is_symmetric=st.booleans(),
    image_bytes=st.integers(0, 10**6),
    pair_bytes=st.integers(4, 10**7),
    value_bytes=st.integers(4, 100),
    worker_bytes=st.integers(0, 10**7),
    memory_budget=st.integers(0, 10**9),
    n_workers=st.integers(1, 8),
    on_gpu=st.booleans(),
)
def test_a_plan_holds_no_more_than_the_budget(
    n_rows,
    n_cols,
    is_symmetric,
    image_bytes,
    pair_bytes,
    value_bytes,
    worker_bytes,
    memory_budget,
    n_workers,
    on_gpu,
):
    costs = TileCosts(image_bytes, pair_bytes, value_bytes, worker_bytes=worker_bytes)
    n_cols = n_rows if is_symmetric else n_cols
    n_images = n_rows if is_symmetric else n_rows + n_cols
    cut = {"is_symmetric": is_symmetric, "costs": costs, "n_workers": n_workers}
    cut |= {"on_gpu": on_gpu}
    try:
        plan = plan_tiles(n_rows, n_cols, memory_budget=memory_budget, **cut)
    except TileMemoryError:
        # Not even blocks of one pair fit, whether tables are kept or not.
        smallest = TilePlan(n_rows, n_cols, is_symmetric, 1, 1, keeps_tables=False)
        assert held(smallest, costs, n_images, n_workers) > memory_budget
        return
    assert 1 <= plan.tile <= plan.block <= max(n_rows, n_cols)
    assert held(plan, costs, n_images, n_workers) <= memory_budget


def test_tables_are_kept_when_they_take_half_of_the_budget_at_most():
    costs = TileCosts(image_bytes=1000, pair_bytes=64, value_bytes=8)
    fits, does_not = (
        plan_tiles(10, 10, is_symmetric=True, costs=costs, memory_budget=budget)
        for budget in (20_000, 19_999)
    )
    assert fits.keeps_tables
    assert not does_not.keeps_tables


def test_tiles_take_most_of_a_small_budget():
    costs = TileCosts(image_bytes=1024, pair_bytes=32_832, value_bytes=8)
    for budget, side in ((2**18, 2), (2**19, 3), (2**20, 5)):
        plan = plan_tiles(30, 30, is_symmetric=True, costs=costs, memory_budget=budget)
        assert plan.tile == side


def test_the_error_gives_bytes_needed_bytes_allowed_and_parameters():
    costs = TileCosts(0, pair_bytes=8_000_000, value_bytes=8, worker_bytes=1000)
    needed = 8_000_000 + QUEUED * 8 + 1000
    with pytest.raises(TileMemoryError) as caught:
        plan_tiles(
            9, 9, is_symmetric=True, costs=costs, memory_budget=10**6, n_workers=2
        )
    message = str(caught.value)
    assert f"needs {needed} bytes" in message
    assert "allows 500000" in message
    assert "`memory_budget`" in message
    assert "`n_jobs`" in message


@given(
    n_cols=st.integers(1, 10**6),
    value_bytes=st.sampled_from([4, 8]),
    memory_budget=st.integers(0, 10**12),
)
def test_three_copies_of_streamed_rows_take_half_of_the_budget(
    n_cols, value_bytes, memory_budget
):
    n_rows = stream_rows(n_cols, value_bytes, memory_budget)
    assert 1 <= n_rows <= MAX_BLOCK
    assert n_rows == 1 or 3 * n_rows * n_cols * value_bytes <= memory_budget / 2


@settings(deadline=None, max_examples=50)
@given(n_rows=sizes, n_cols=sizes, tile=sizes, is_diagonal=st.booleans())
def test_tiles_cover_a_block_once(n_rows, n_cols, tile, is_diagonal):
    n_cols = n_rows if is_diagonal else n_cols
    block = Block(slice(100, 100 + n_rows), slice(200, 200 + n_cols), is_diagonal)
    times = np.zeros((n_rows, n_cols), dtype=int)
    for part in block.tiles(tile):
        times[part.rows, part.cols] += 1
        assert part.is_diagonal == (is_diagonal and part.rows == part.cols)
    wanted = np.triu(np.ones_like(times)) if is_diagonal else np.ones_like(times)
    assert (times[wanted == 1] == 1).all()
    assert block.n_pairs == wanted.sum()


# What a compiled backend needs for 7 layers of 28x28 maps.
FUSED = {
    "float32": TileCosts(47_048, 32, 8, (), 2_000_000),
    "float64": TileCosts(94_088, 32, 8, (), 2_000_000),
}


@pytest.mark.parametrize("dtype", FUSED)
@pytest.mark.parametrize("n_workers", [1, 2])
def test_a_fast_backend_gets_large_tiles_and_many_blocks(dtype, n_workers):
    costs, budget = FUSED[dtype], 256 * 2**20
    cut = {"is_symmetric": True, "memory_budget": budget, "n_workers": n_workers}
    plan = plan_tiles(5000, 5000, costs=costs, **cut)
    assert not plan.keeps_tables  # 235 MB and more
    assert 300 <= plan.block <= 1400
    assert plan.tile >= 300
    assert held(plan, costs, 5000, n_workers) <= budget
    # Tables are computed again for each block: a small part of the work.
    n_prepared = sum(
        block.cols.stop - block.cols.start
        for block in plan.blocks()
    )  # fmt: skip
    assert n_prepared < 0.01 * plan.n_pairs
    small = plan_tiles(1000, 1000, costs=costs, **cut)
    assert small.keeps_tables


def test_a_gpu_gets_larger_tiles():
    costs = TileCosts(image_bytes=9000, pair_bytes=25_000, value_bytes=8)
    cut = {"is_symmetric": True, "memory_budget": 2**34}
    on_cpu, on_gpu = (
        plan_tiles(9000, 9000, costs=costs, on_gpu=is_gpu, **cut)
        for is_gpu in (False, True)
    )
    assert on_cpu.tile**2 * costs.pair_bytes <= 2**23
    assert 2**27 <= on_gpu.tile**2 * costs.pair_bytes <= 2**28
    back = PullbackCosts(157_000, 113_000, 12_544, 8)
    on_cpu, on_gpu = (
        plan_pullback(9000, 9000, costs=back, on_gpu=is_gpu, **cut)
        for is_gpu in (False, True)
    )
    assert on_gpu.tile >= 3 * on_cpu.tile


def test_blocks_back_are_small_where_a_pair_takes_long():
    # The user sees progress, and can stop the computation, after a block.
    costs = PullbackCosts(20_000, 100_000, 12_544, 8)
    cut = {"is_symmetric": True, "memory_budget": 8 * 2**30}
    plans = [
        plan_pullback(9000, 9000, costs=replace(costs, n_passes=n), **cut)
        for n in (1, 3, 1000, 10**7)
    ]
    assert plans[0].block == plans[1].block > 300
    assert plans[2].block ** 2 <= BLOCK_MAPS / 1000
    assert plans[3].block == plans[3].tile == 16


def test_blocks_on_the_diagonal_come_last():
    plan = TilePlan(70, 70, True, 16, 16, keeps_tables=True)
    kinds = [block.is_diagonal for block in plan.blocks()]
    assert kinds == [False] * 10 + [True] * 5


@pytest.mark.parametrize("n_workers", [2, 4])
def test_no_worker_waits_long_for_the_last_block(n_workers):
    plan = plan_tiles(
        5000,
        5000,
        is_symmetric=True,
        costs=FUSED["float32"],
        memory_budget=64 * 2**30,
        n_workers=n_workers,
    )
    assert plan.keeps_tables
    busy = [0] * n_workers
    for block in plan.blocks():
        busy[busy.index(min(busy))] += block.n_pairs
    assert max(busy) <= 1.05 * plan.n_pairs / n_workers


def held_back(plan, costs, n_workers):
    """Return the bytes that a pass back holds at once, counted from its loops."""
    tile = plan.tile**2 * costs.pair_bytes + 2 * plan.tile * costs.image_bytes
    images = 2 * plan.block * costs.result_bytes
    weights = 2 * plan.block**2 * costs.weight_bytes
    held = tile + QUEUED * (images + weights) + costs.worker_bytes
    return n_workers * held


@settings(deadline=None, max_examples=300)
@given(
    n_rows=st.integers(1, 5000),
    n_cols=st.integers(1, 5000),
    is_symmetric=st.booleans(),
    pair_bytes=st.integers(4, 10**6),
    image_bytes=st.integers(0, 10**6),
    result_bytes=st.integers(4, 10**5),
    worker_bytes=st.integers(0, 10**7),
    memory_budget=st.integers(0, 10**9),
    n_workers=st.integers(1, 8),
    on_gpu=st.booleans(),
)
def test_a_plan_back_holds_no_more_than_the_budget(
    n_rows,
    n_cols,
    is_symmetric,
    pair_bytes,
    image_bytes,
    result_bytes,
    worker_bytes,
    memory_budget,
    n_workers,
    on_gpu,
):
    costs = PullbackCosts(pair_bytes, image_bytes, result_bytes, 8, worker_bytes)
    n_cols = n_rows if is_symmetric else n_cols
    cut = {"is_symmetric": is_symmetric, "costs": costs, "n_workers": n_workers}
    cut |= {"on_gpu": on_gpu}
    try:
        plan = plan_pullback(n_rows, n_cols, memory_budget=memory_budget, **cut)
    except TileMemoryError:
        smallest = TilePlan(n_rows, n_cols, is_symmetric, 1, 1, keeps_tables=False)
        assert held_back(smallest, costs, n_workers) > memory_budget
        return
    assert 1 <= plan.tile <= plan.block <= max(n_rows, n_cols)
    assert held_back(plan, costs, n_workers) <= memory_budget


@given(n=st.integers(1, 3000), n_workers=st.integers(2, 8))
def test_cuts_of_a_pass_back_are_those_of_one_worker(n, n_workers):
    costs = PullbackCosts(157_000, 113_000, 12_544, 8)
    cut = {"is_symmetric": True, "costs": costs, "memory_budget": 2**30}
    plan = plan_pullback(n, n, n_workers=n_workers, **cut)
    assert plan == plan_pullback(n, n, **cut)
    assert plan.tile >= min(n, 8)


def test_blocks_of_pairs_that_take_long_are_small():
    quick = TileCosts(0, 2**16, 8, n_passes=8)
    slow = TileCosts(0, 2**16, 8, n_passes=128)
    slowest = TileCosts(0, 2**16, 8, n_passes=4096)
    cut = {"memory_budget": 2**30}
    plans = [
        plan_tiles(1000, 1000, is_symmetric=False, costs=costs, **cut)
        for costs in (quick, slow, slowest)
    ]
    assert [plan.block for plan in plans] == [128, 32, 11]
    assert [plan.tile for plan in plans] == [11, 11, 11]
    # Networks of 1, 5 and 20 layers that average over all positions of 32x32: a pair
    # takes some 0.4, 1.8 and 7 ms, and an interrupt waits for a block.
    for n_passes, side in ((1024, 64), (5 * 1024, 32), (20 * 1024, 16)):
        fused = TileCosts(0, 32, 8, n_passes=n_passes)
        plan = plan_tiles(5000, 5000, is_symmetric=True, costs=fused, **cut)
        assert (plan.block, plan.tile) == (side, side)


def test_blocks_without_tables_are_larger():
    # Each block computes the tables of its images, which take as long as some pairs.
    costs = TileCosts(2**20, 32, 8, n_passes=5 * 1024)
    cut = {"is_symmetric": True, "costs": costs}
    few, many = (plan_tiles(n, n, memory_budget=2**30, **cut) for n in (100, 5000))
    assert (few.keeps_tables, few.block) == (True, 32)
    assert (many.keeps_tables, many.block) == (False, 64)


@pytest.mark.parametrize("n_passes", [5 * 1024, 20 * 1024])
def test_blocks_back_leave_no_lanes_idle(n_passes):
    costs = PullbackCosts(64, 10_000, 12_544, 8, n_passes=2 * n_passes)
    plan = plan_pullback(
        5000, 5000, is_symmetric=True, costs=costs, memory_budget=2**30
    )
    assert plan.tile == plan.block
    assert plan.block % 16 == 0


def test_blocks_of_a_gpu_are_not_always_the_largest():
    costs = TileCosts(9000, pair_bytes=32, value_bytes=8, n_passes=7)
    cut = {"is_symmetric": True, "memory_budget": 2**34, "on_gpu": True}
    plan = plan_tiles(9000, 9000, costs=costs, **cut)
    assert plan.block == MAX_BLOCK
    deep = replace(costs, n_passes=20 * 1024)
    assert plan_tiles(9000, 9000, costs=deep, **cut).block == 128


@pytest.mark.parametrize("n_passes", [1, 54, 10**6])
@pytest.mark.parametrize("memory_budget", [2**25, 2**28, 2**34])
def test_a_gpu_gets_whole_tiles_of_any_number_of_passes(n_passes, memory_budget):
    """The costs are those of myrtle(5) on images of 16x16, and of other passes."""
    costs = TileCosts(9000, pair_bytes=41_344, value_bytes=8, n_passes=n_passes)
    plan = plan_tiles(
        2000,
        2000,
        is_symmetric=True,
        costs=costs,
        memory_budget=memory_budget,
        on_gpu=True,
    )
    # Half of the budget, beside the tables, is for the maps of a tile.
    maps = min(2**28, (memory_budget - plan.keeps_tables * 2000 * 9000) // 2)
    assert plan.tile**2 * costs.pair_bytes <= maps < (plan.tile + 1) ** 2 * 41_344
    assert plan.block % plan.tile == 0
    assert plan.block == plan.tile or plan.block**2 * n_passes * 41_344 <= 2**33
