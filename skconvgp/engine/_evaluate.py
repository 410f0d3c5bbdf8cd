"""Evaluates a kernel on pairs of images: plans, tables, blocks and tiles."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial

import torch
from torch import Tensor

from skconvgp._config import ComputeConfig
from skconvgp._protocols import TileBackend, TileCosts, TileRunner, run_serially
from skconvgp._resident import require_finite
from skconvgp._tensors import int_range
from skconvgp._typing import OnStep, Prepared
from skconvgp.engine._cache import (
    TileCache,
    cut_for_cache,
    is_worth_files,
    name_of,
)
from skconvgp.engine._devices import TileSide, measure_tiles, on_device
from skconvgp.engine._plan import (
    LANES,
    STREAM_SHARE,
    Block,
    TilePlan,
    plan_tiles,
    slices,
)
from skconvgp.engine._store import ProductStore, Store, TensorStore
from skconvgp.engine._tables import Tables
from skconvgp.exceptions import NotFiniteError, TileMemoryError
from skconvgp.kernels._prepared import take

__all__ = ["KernelOracle", "evaluate_block"]


def _silent(done: int, total: int) -> None:
    """Report progress to nobody."""


@dataclass(frozen=True)
class Progress:
    """Progress callback, and the number of pairs already done."""

    # Called with (pairs done, pairs in all) before the first block that is computed,
    # when those that were read are done, and after each.
    on_step: OnStep
    done: int  # pairs done before
    total: int  # pairs in all


@dataclass(frozen=True)
class KernelOracle:
    """Evaluates a kernel on a set of images, tile by tile."""

    backend: TileBackend
    images: Tensor  # (n, c, h, w), on the host or on the device
    config: ComputeConfig
    runner: TileRunner = run_serially
    # Called with (pairs done, pairs in all), as that of `Progress`.
    on_step: OnStep = _silent
    # Files of finished blocks, which are read and written.
    cache: TileCache | None = None
    known_costs: TileCosts | None = None  # from `measure_tiles`; None: measured here

    @property
    def n_samples(self) -> int:
        """Number of images."""
        return self.images.shape[0]

    def diag(self) -> Tensor:
        """Return the prior variances (n,) in the precision of solves.

        Raises a `ValueError` if a variance is not finite, because the dtype holds no
        numbers of its size.
        """
        return self._variances.clone()  # completions may change it

    def gram(self, out: Tensor | None = None) -> Tensor:
        """Return the Gram matrix (n, n), exactly symmetric; with tangents (n, n, q).

        It is written to `out`, by default a new tensor on the device.
        """
        out = self._new(self.n_samples, self.n_samples) if out is None else out
        store = TensorStore(out, True)
        tables = self._tables
        self._fill(self._gram_plan, tables, tables, store, matrix="gram")
        return out

    def product(self, columns: Tensor) -> Tensor:
        """Return the product of the Gram matrix, which is not stored, with columns."""
        out = torch.zeros_like(columns)
        store = ProductStore(columns, out, self._gram_plan.blocks())
        self._fill(self._gram_plan, self._tables, self._tables, store)
        return out

    def cross(self, images: Tensor, out: Tensor | None = None) -> Tensor:
        """Return the covariances (n1, n) of other images (n1, c, h, w) with these.

        They are written to `out`, by default a new tensor on the device.
        """
        plan = self._plan(images.shape[0], self.n_samples, is_symmetric=False)
        out = self._new(images.shape[0], self.n_samples) if out is None else out
        rows = Tables(self.backend, images, self.config)
        self._fill(plan, rows, self._tables, TensorStore(out, False), matrix="cross")
        return out

    def block(
        self, rows: Tensor | None, cols: Tensor | None, on_step: OnStep = _silent
    ) -> Tensor:
        """Return the covariances (n1, n2) of samples given by index; None is all.

        An entry on the diagonal of the Gram matrix is the prior variance, exactly.
        `on_step` is called instead of the oracle's own, whose caller asks for many such
        blocks.
        """
        n = self.n_samples
        if cols is not None and len(cols) < LANES <= (n if rows is None else len(rows)):
            # Vectors run along the columns: with few columns most lanes would be idle.
            return self.block(cols, rows, on_step).mT
        one, two = self._tables_of(rows), self._tables_of(cols)
        all_samples = int_range(n)
        rows, cols = (all_samples if side is None else side for side in (rows, cols))
        is_symmetric = torch.equal(rows, cols)
        plan = self._plan(len(rows), len(cols), is_symmetric=is_symmetric)
        out = self._new(len(rows), len(cols))
        two = one if is_symmetric else two
        store = TensorStore(out, is_symmetric)
        progress = Progress(on_step, 0, plan.n_pairs)
        matrix = name_of(rows, cols) if self.cache else ""
        self._fill(plan, one, two, store, progress, matrix)
        # Off the diagonal of the block, a tile computes the variance of a sample as a
        # covariance, which is rounded.
        if not is_symmetric or len(set(rows.tolist())) < len(rows):
            i, j = (rows[:, None] == cols).nonzero(as_tuple=True)
            out[i, j] = self._variances[rows[i]]
        return out

    def points(self) -> Tensor:
        """Return the samples (n, d)."""
        return self.images.flatten(1).to("cpu")

    def stream(
        self, images: Tensor, n_rows: int, *, needs_diag: bool = True
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield covariances (b, n) and prior variances (b,), `n_rows` images at a time.

        Without `needs_diag` the prior variances are zeros: with pools one takes half
        the time of a pair. The images are (n1, c, h, w).
        """
        n = self.n_samples
        try:
            whole = self._plan(n_rows, n, is_symmetric=False, share=STREAM_SHARE)
        except TileMemoryError:  # a budget that was enough for `gram` must be enough
            whole = self._plan(n_rows, n, is_symmetric=False)
        for part in slices(images.shape[0], n_rows):
            rows = Tables(self.backend, images[part], self.config)
            plan = replace(whole, n_rows=rows.images.shape[0])
            out = self._new(plan.n_rows, n)
            progress = Progress(self.on_step, part.start * n, images.shape[0] * n)
            store = TensorStore(out, False)
            diag = self._diag_of(rows, plan) if needs_diag else out.new_zeros(len(out))
            self._fill(plan, rows, self._tables, store, progress)
            yield out, diag

    @cached_property
    def costs(self) -> TileCosts:
        """Bytes that the kernel needs for an image and for a pair."""
        return self.known_costs or measure_tiles(self.backend, self.images, self.config)

    def tile_bytes(self, n: int) -> int:
        """Return the bytes of tables and tiles while the matrix of n is computed."""
        plan = self._plan(n, n, is_symmetric=True)
        return plan.n_bytes(self.costs, self.config.n_workers)

    @cached_property
    def _tables(self) -> Tables:
        return Tables(self.backend, self.images, self.config)

    @cached_property
    def _variances(self) -> Tensor:
        return self._diag_of(self._tables, self._gram_plan)

    def _tables_of(self, indices: Tensor | None) -> Tables:
        """Return the tables of images given by index; tables of all images are kept."""
        if indices is None:
            return self._tables
        return Tables(self.backend, self.images[indices], self.config)

    @cached_property
    def _gram_plan(self) -> TilePlan:
        return self._plan(self.n_samples, self.n_samples, is_symmetric=True)

    @cached_property
    def _tile_side(self) -> TileSide:
        return TileSide(self.config.device)

    def _plan(
        self, n_rows: int, n_cols: int, *, is_symmetric: bool, share: int = 1
    ) -> TilePlan:
        return plan_tiles(
            n_rows,
            n_cols,
            is_symmetric=is_symmetric,
            costs=self.costs,
            memory_budget=self.config.memory_budget // share,
            n_workers=self.config.n_workers,
            on_gpu=self.config.device.type == "cuda",
        )

    def _new(self, n_rows: int, n_cols: int) -> Tensor:
        shape = (n_rows, n_cols, *self.costs.value_shape)
        device = self.config.device
        with on_device(device):
            return torch.empty(shape, dtype=self.config.solve_dtype, device=device)

    def _diag_of(self, tables: Tables, plan: TilePlan) -> Tensor:
        n = tables.images.shape[0]
        cuts = slices(n, plan.block)
        if plan.keeps_tables:
            tables.keep(cuts, self.runner)
        jobs = (
            partial(_evaluate_diag, self.backend, self.config, i, tables.source(part))
            for i, part in enumerate(cuts)
        )
        parts = dict(self.runner(jobs))
        diag = torch.cat([parts[i].to(self.config.device) for i in range(len(cuts))])
        is_bad, values = ~diag.isfinite().reshape(n, -1).all(1), "The prior variance of"
        if diag.device.type != "cpu":
            values = f"{values} some samples"
            require_finite(~is_bad.any(), _not_finite(values, self.config.dtype))
        elif n_bad := int(is_bad.sum()):
            values = f"{values} {n_bad} of {n} samples"
            raise NotFiniteError(_not_finite(values, self.config.dtype))
        return diag

    def _fill(
        self,
        plan: TilePlan,
        rows: Tables,
        cols: Tables,
        store: Store,
        progress: Progress | None = None,
        matrix: str = "",
    ) -> None:
        """Compute the blocks of a plan, except blocks of the matrix that have files."""
        is_kept = bool(matrix) and is_worth_files(plan, self.costs.n_passes)
        cache = self.cache if is_kept else None
        plan = cut_for_cache(plan) if cache else plan
        left = plan.blocks()
        if cache:
            left = cache.fill(matrix, left, store, self.costs.value_shape)
        n_read = plan.n_pairs - sum(block.n_pairs for block in left)
        progress = progress or Progress(self.on_step, 0, plan.n_pairs)
        done = progress.done + n_read
        if left and plan.keeps_tables:
            rows.keep(slices(plan.n_rows, plan.block), self.runner)
            cols.keep(slices(plan.n_cols, plan.block), self.runner)
        if progress.total and not progress.done:
            # The time of tables and of files is no time of pairs.
            progress.on_step(done, progress.total)
        for block, values in self.runner(self._jobs(plan.tile, left, rows, cols)):
            if cache:
                _require_finite(values, self.config.dtype, is_urgent=True)
                cache.keep(matrix, block, values)
            store.write(block, values)
            done += block.n_pairs
            progress.on_step(done, progress.total)

    def _jobs(
        self, side: int, blocks: list[Block], rows: Tables, cols: Tables
    ) -> Iterator[Callable[[], tuple[Block, Tensor]]]:
        for block in blocks:
            one = rows.source(block.rows)
            two = None if block.is_diagonal else cols.source(block.cols)
            run_in_tiles = partial(self._tile_side.shrink_to_fit, side=side)
            how = self.backend, self.config, block, run_in_tiles
            yield partial(evaluate_block, *how, one, two)


def evaluate_block(
    backend: TileBackend,
    config: ComputeConfig,
    block: Block,
    run_in_tiles: Callable[[Callable[[int], Tensor]], Tensor],
    one_source: Callable[[], Prepared],
    two_source: Callable[[], Prepared] | None,
) -> tuple[Block, Tensor]:
    """Return a block with its values; the sources give the tables of its sides."""
    with torch.no_grad(), on_device(config.device):
        one = one_source()
        two = one if two_source is None else two_source()
        values = run_in_tiles(partial(_evaluate_tiles, backend, block, one, two))
        _require_finite(values, config.dtype, is_urgent=values.device.type == "cpu")
        return block, values


def _require_finite(values: Tensor, dtype: torch.dtype, *, is_urgent: bool) -> None:
    """Raise a NotFiniteError unless covariances are finite: now, or with others."""
    message = _not_finite("The covariance of some pairs of samples", dtype)
    if not is_urgent:
        require_finite(values.isfinite().all(), message)
    # The sum needs one pass and no copy. If it is not finite it may only have
    # overflowed, and each value has to be looked at.
    elif not (values.sum().isfinite() or values.isfinite().all()):
        raise NotFiniteError(message)


def _evaluate_tiles(
    backend: TileBackend, block: Block, one: Prepared, two: Prepared, side: int
) -> Tensor:
    """Return the values of a block, computed in tiles of the given side."""
    tiles = block.tiles(side)
    out: Tensor | None = None
    for part in tiles:
        values = _evaluate_tile(backend, part, one, two)
        if len(tiles) == 1:  # the tile is the block: nothing is copied
            out = values
            break
        if out is None:
            shape = (tiles[-1].rows.stop, tiles[-1].cols.stop, *values.shape[2:])
            out = values.new_empty(shape)
        out[part.rows, part.cols] = values
        if block.is_diagonal:
            out[part.cols, part.rows] = values.transpose(0, 1)
    assert out is not None
    if block.is_diagonal:
        # `diag` computes the variance of an image exactly. A tile computes it as the
        # covariance of a pair of equal images, which is rounded.
        index = int_range(len(out), out.device)
        out[index, index] = backend.diag(one).to(out.dtype)
    return out


def _evaluate_tile(
    backend: TileBackend, tile: Block, one: Prepared, two: Prepared
) -> Tensor:
    if tile.is_diagonal:
        return _mirrored(backend.gram(take(one, tile.rows)))
    return backend.cross(take(one, tile.rows), take(two, tile.cols))


def _mirrored(values: Tensor) -> Tensor:
    """Return a copy in which values above the diagonal replace those below it.

    Backends need not compute the values below; any number, or NaN, may stand there.
    """
    lower = torch.ones(values.shape[:2], dtype=torch.bool, device=values.device)
    lower = lower.tril_(-1).reshape(*lower.shape, *(1,) * (values.ndim - 2))
    return torch.where(lower, values.transpose(0, 1), values)


def _evaluate_diag(
    backend: TileBackend,
    config: ComputeConfig,
    index: int,
    source: Callable[[], Prepared],
) -> tuple[int, Tensor]:
    with torch.no_grad(), on_device(config.device):
        return index, backend.diag(source()).to(config.solve_dtype)


def _not_finite(values: str, dtype: torch.dtype) -> str:
    """Return the message about values that are not finite."""
    remedies = (
        "scale X to numbers near 1, or lower the depth or the weight variances of the "
        "kernel if they make variances large"
    )
    if dtype != torch.float64:
        remedies = f"compute with dtype='float64', {remedies}"
    return (
        f"{values} is not finite in {dtype}, which does not hold numbers of this size: "
        f"{remedies}."
    )
