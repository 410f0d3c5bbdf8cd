"""The cuts cover every pair once and stay within the budget."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skconvgp.engine import TileCosts, TilePlan, plan_tiles, slices, stream_rows
from skconvgp.engine._plan import LIVE_MAPS, MAX_BLOCK, QUEUED
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
    passing = 0 if plan.keeps_tables else 2 * QUEUED * plan.block * costs.image_bytes
    maps = LIVE_MAPS * plan.tile**2 * costs.map_bytes
    values = QUEUED * plan.block**2 * costs.value_bytes
    return kept + n_workers * (passing + maps + values)


@settings(deadline=None, max_examples=300)
@given(
    n_rows=st.integers(1, 5000),
    n_cols=st.integers(1, 5000),
    is_symmetric=st.booleans(),
    image_bytes=st.integers(0, 10**6),
    map_bytes=st.integers(4, 10**6),
    value_bytes=st.integers(4, 100),
    memory_budget=st.integers(0, 10**9),
    n_workers=st.integers(1, 8),
)
def test_a_plan_holds_no_more_than_the_budget(
    n_rows,
    n_cols,
    is_symmetric,
    image_bytes,
    map_bytes,
    value_bytes,
    memory_budget,
    n_workers,
):
    costs = TileCosts(image_bytes, map_bytes, value_bytes)
    n_cols = n_rows if is_symmetric else n_cols
    n_images = n_rows if is_symmetric else n_rows + n_cols
    cut = {"is_symmetric": is_symmetric, "costs": costs, "n_workers": n_workers}
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
    costs = TileCosts(image_bytes=1000, map_bytes=8, value_bytes=8)
    fits, does_not = (
        plan_tiles(10, 10, is_symmetric=True, costs=costs, memory_budget=budget)
        for budget in (20_000, 19_999)
    )
    assert fits.keeps_tables
    assert not does_not.keeps_tables


def test_the_error_gives_bytes_needed_bytes_allowed_and_parameters():
    costs = TileCosts(image_bytes=0, map_bytes=10**6, value_bytes=8)
    needed = LIVE_MAPS * 10**6 + QUEUED * 8
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
