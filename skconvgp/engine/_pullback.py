"""Derivatives of a weighted sum of all covariances, computed tile by tile.

With weights G the sum is <G, K>. If the matrix is symmetric, only one triangle is
visited: <G, dK> is the sum of (G_ij + G_ji) dK_ij over i < j, and of G_ii dK_ii.
If a device has no room for the tiles planned, smaller tiles are summed in another
order, and the last bit of the sums may differ.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from skconvgp._config import ComputeConfig
from skconvgp._protocols import (
    PullbackBackend,
    Pulled,
    TileCosts,
    TileRunner,
    run_serially,
)
from skconvgp._typing import OnStep
from skconvgp.engine._devices import TileSide, measure_tiles, on_device
from skconvgp.engine._plan import Block, PullbackCosts, TilePlan, plan_pullback
from skconvgp.engine._tables import ImagesPart

__all__ = ["FactoredWeights", "pull_back"]

HOST = torch.device("cpu")


@dataclass(frozen=True)
class FactoredWeights:
    """Weights A B^T + diag(d) (n, n) on the host, formed one block at a time."""

    left: Tensor  # A (n, r)
    right: Tensor  # B (n, r)
    diag: Tensor  # d (n,)

    def __getitem__(self, sides: tuple[slice, slice]) -> Tensor:
        """Return the weights of slices of the rows and of the columns."""
        rows, cols = sides
        part = self.left[rows] @ self.right[cols].mT
        if rows == cols:
            part.diagonal().add_(self.diag[rows])
        return part


def pull_back(
    backend: PullbackBackend,
    rows: Tensor,
    cols: Tensor | None,
    weights: Tensor | FactoredWeights,
    config: ComputeConfig,
    runner: TileRunner = run_serially,
    on_step: OnStep | None = None,
    known_costs: TileCosts | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Return the derivatives of sum(weights * covariances), summed in float64.

    They are by the logarithms of the free hyperparameters (p,), and by the images of
    the rows (n1, c, h, w), or None if the backend gives none.

    `rows` (n1, c, h, w) and `cols` (n2, c, h, w) are on the host. If `cols` is None,
    both sides are `rows`, and derivatives are by both. The weights (n1, n2) are on the
    host too, and need not be symmetric. Factored weights require the same images on
    both sides. Results are added in the order of the blocks, whatever the order in
    which the runner returns them. `on_step` is called with (pairs done, pairs in all)
    before the first block and after each. The costs of tiles are measured if none are
    given.
    """
    costs = known_costs or measure_tiles(backend, rows, config)
    plan = _plan(costs, rows, cols, config)
    by_theta, by_rows, done = None, None, 0
    jobs = _jobs(backend, plan, rows, cols, weights, config)
    if on_step is not None:
        on_step(0, plan.n_pairs)
    for block, pulled in _in_order(runner(jobs)):
        if by_theta is None:
            by_theta = torch.zeros_like(pulled.by_theta)
        by_theta += pulled.by_theta
        if pulled.by_one is not None:
            if by_rows is None:
                by_rows = torch.zeros(rows.shape, dtype=torch.float64, device="cpu")
            by_rows[block.rows] += pulled.by_one
            if pulled.by_two is not None and plan.is_symmetric:
                by_rows[block.cols] += pulled.by_two
        done += block.n_pairs
        if on_step is not None:
            on_step(done, plan.n_pairs)
    assert by_theta is not None
    return by_theta, by_rows


def _plan(
    measured: TileCosts, rows: Tensor, cols: Tensor | None, config: ComputeConfig
) -> TilePlan:
    pixels = rows[0].numel()
    double = torch.float64.itemsize
    return plan_pullback(
        len(rows),
        len(rows if cols is None else cols),
        is_symmetric=cols is None,
        costs=PullbackCosts(
            # Beside the graph: weights of the pair, and copies while they are summed.
            pair_bytes=measured.pair_bytes + 4 * double,
            image_bytes=measured.image_bytes,
            result_bytes=pixels * (config.dtype.itemsize + double),
            weight_bytes=double,
            worker_bytes=measured.worker_bytes,
            n_passes=measured.n_passes,
        ),
        memory_budget=config.memory_budget,
        n_workers=config.n_workers,
        on_gpu=config.device.type == "cuda",
    )


def _jobs(
    backend: PullbackBackend,
    plan: TilePlan,
    rows: Tensor,
    cols: Tensor | None,
    weights: Tensor | FactoredWeights,
    config: ComputeConfig,
) -> Iterator[Callable[[], tuple[int, Block, Pulled]]]:
    others = rows if cols is None else cols
    run_in_tiles = partial(TileSide(config.device).shrink_to_fit, side=plan.tile)
    for index, block in enumerate(plan.blocks()):
        one = ImagesPart(rows[block.rows], config)
        two = None if block.is_diagonal else ImagesPart(others[block.cols], config)
        part = _weights_of(block, weights, plan.is_symmetric)
        yield partial(_pull_block, backend, index, block, run_in_tiles, one, two, part)


def _weights_of(
    block: Block, weights: Tensor | FactoredWeights, is_symmetric: bool
) -> Tensor:
    """Return the weights of a block; for a symmetric matrix, of one triangle.

    A pair of different images has the weights of both entries, G_ij + G_ji.
    """
    part = weights[block.rows, block.cols].to(torch.float64, copy=True)
    if not is_symmetric:
        return part
    both = part.add_(weights[block.cols, block.rows].mT.to(torch.float64))
    if not block.is_diagonal:
        return both
    both.diagonal().mul_(0.5)
    return both.triu_()


def _pull_block(
    backend: PullbackBackend,
    index: int,
    block: Block,
    run_in_tiles: Callable[[Callable[[int], Pulled]], Pulled],
    rows: ImagesPart,
    cols: ImagesPart | None,
    weights: Tensor,
) -> tuple[int, Block, Pulled]:
    with on_device(rows.config.device):
        one, two = rows.load(), None if cols is None else cols.load()
        weights = weights.to(one.device)
        total = run_in_tiles(partial(_pull_tiles, backend, block, one, two, weights))
    return index, block, total


def _pull_tiles(
    backend: PullbackBackend,
    block: Block,
    one: Tensor,
    two: Tensor | None,
    weights: Tensor,
    side: int,
) -> Pulled:
    """Return the sums of a block, computed in tiles of the given side."""
    total: Pulled | None = None
    for part in block.tiles(side):
        first = one[part.rows]
        second = None if part.is_diagonal else (one if two is None else two)[part.cols]
        pulled = backend.pull(first, second, weights[part.rows, part.cols])
        if total is None:
            total = _zeros(pulled, one, two)
        _add_(total, part, pulled, is_diagonal=two is None)
    assert total is not None
    return total


def _zeros(pulled: Pulled, one: Tensor, two: Tensor | None) -> Pulled:
    """Return float64 zeros on the host, with the shapes of the sums of a block."""
    by_theta = torch.zeros(pulled.by_theta.shape, dtype=torch.float64, device="cpu")
    if pulled.by_one is None:
        return Pulled(by_theta)
    sides = [side for side in (one, two) if side is not None]
    return Pulled(
        by_theta,
        *(torch.zeros(side.shape, dtype=torch.float64, device="cpu") for side in sides),
    )


def _add_(total: Pulled, part: Block, pulled: Pulled, *, is_diagonal: bool) -> None:
    """Add a tile to the sums of its block, which lie on the host."""
    total.by_theta.add_(pulled.by_theta.to(HOST))
    if total.by_one is None or pulled.by_one is None:
        return
    total.by_one[part.rows] += pulled.by_one.to(HOST)
    by_cols = total.by_one if is_diagonal else total.by_two
    if pulled.by_two is not None and by_cols is not None:
        by_cols[part.cols] += pulled.by_two.to(HOST)


def _in_order(
    results: Iterable[tuple[int, Block, Pulled]],
) -> Iterator[tuple[Block, Pulled]]:
    """Yield the results by index: the rounding of a sum depends on its order."""
    waiting: dict[int, tuple[Block, Pulled]] = {}
    following = 0
    for index, block, pulled in results:
        waiting[index] = (block, pulled)
        while following in waiting:
            yield waiting.pop(following)
            following += 1
