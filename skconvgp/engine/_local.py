"""Nearest neighbours, and the small Gram matrix of each sample with its neighbours."""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from skconvgp._config import ComputeConfig
from skconvgp._protocols import TileBackend, run_serially
from skconvgp._tensors import int_range
from skconvgp.engine._devices import TileSide
from skconvgp.engine._evaluate import KernelOracle, evaluate_block
from skconvgp.engine._plan import TilePlan, plan_tiles, slices, stream_rows
from skconvgp.engine._precomputed import MatrixOracle
from skconvgp.engine._store import TensorStore
from skconvgp.engine._tables import Tables
from skconvgp.linalg import symmetrize_

__all__ = ["kernel_neighborhoods", "matrix_neighborhoods", "nearest"]

# Samples of a job. With fewer, the calls cost more than the solves of small matrices.
SAMPLES_A_JOB = 16
JOBS_A_WORKER = 4  # so many that the last job, computed alone, wastes little time
JOB_SHARE = 4  # images and results of jobs take at most a quarter of the budget
HELD = 3  # jobs for each worker: one in work, one waiting, one being put together


def nearest(
    similarities: Callable[[slice], Tensor],
    shape: tuple[int, int],
    n_neighbors: int,
    memory_budget: int,
    indices: Tensor | None = None,
    *,
    only_earlier: bool = False,
) -> Tensor:
    """Return the indices (m, n_neighbors) of the most similar samples.

    Each row is in rising order. Rows are found a block at a time: `similarities`
    returns the similarities (b, n) of a slice of the rows to all n samples, and
    `memory_budget` is the bytes for them. `shape` is (m, n). If the rows are samples
    themselves, `indices` (m,) says which: no sample is its own neighbour. With
    `only_earlier`, only samples with a smaller index are neighbours. `n_neighbors` is
    at most the number of candidates.
    """
    m, n = shape
    if indices is None and n_neighbors == n:
        return int_range(n).expand(m, n)
    n_rows = stream_rows(n, torch.float64.itemsize, memory_budget)
    neighbors = [torch.empty(0, n_neighbors, dtype=torch.long, device="cpu")]
    for part in slices(m, n_rows):
        values = similarities(part)
        if indices is not None:
            row_indices, samples = (indices[part][:, None], int_range(n))
            is_barred = (
                samples >= row_indices if only_earlier else samples == row_indices
            )
            values = values.masked_fill(is_barred, -torch.inf)
        neighbors.append(values.topk(n_neighbors, dim=1).indices.sort(dim=1).values)
    return torch.cat(neighbors)


def kernel_neighborhoods(
    oracle: KernelOracle, images: Callable[[slice], Tensor], neighbors: Tensor
) -> Iterator[tuple[slice, Tensor]]:
    """Yield Gram matrices (b, 1 + k, 1 + k) of images and of their neighbours.

    Each comes with its slice of the images; slices come in any order. The image itself
    comes first in a matrix, and diagonals are prior variances, exactly. `images`
    returns a slice of the images (b, c, h, w), on the host. `neighbors` (m, k) are
    indices of samples of the oracle.

    No tables are kept between the matrices: to compute the tables of scattered images
    anew takes no longer than to gather copies of them. Raises a `TileMemoryError` if
    not even a single pair fits in the budget.
    """
    m, side = neighbors.shape[0], neighbors.shape[1] + 1
    config, n_bytes = oracle.config, oracle.images[:1].nbytes
    share = config.memory_budget // config.n_workers
    sample_bytes = HELD * side * (n_bytes + side * config.solve_dtype.itemsize)
    size = min(
        SAMPLES_A_JOB,
        max(1, share // JOB_SHARE // sample_bytes),
        max(1, m // (JOBS_A_WORKER * config.n_workers)),
    )
    plan = plan_tiles(
        side,
        side,
        is_symmetric=True,
        costs=oracle.costs,
        memory_budget=share - size * sample_bytes,
        on_gpu=config.device.type == "cuda",
    )
    tile_side = TileSide(config.device)
    jobs = (
        partial(
            _evaluate_neighborhoods,
            oracle.backend,
            config,
            plan,
            tile_side,
            part,
            _stack(images(part), oracle.images, neighbors[part]),
        )
        for part in slices(m, size)
    )
    done, pairs = 0, plan.n_pairs
    oracle.on_step(0, m * pairs)
    for part, grams in oracle.runner(jobs):
        done += part.stop - part.start
        oracle.on_step(done * pairs, m * pairs)
        yield part, grams.to(config.device)


def matrix_neighborhoods(
    oracle: MatrixOracle,
    cross: Callable[[slice], Tensor],
    diag: Tensor,
    neighbors: Tensor,
) -> Iterator[tuple[slice, Tensor]]:
    """Yield the Gram matrices of `kernel_neighborhoods` from a precomputed matrix.

    `cross` returns the covariances (b, n) of a slice of the other samples with the
    samples of the oracle. `diag` (m,) holds the prior variances of the other samples,
    `neighbors` (m, k) the indices of their neighbours.
    """
    m, side = neighbors.shape[0], neighbors.shape[1] + 1
    config = oracle.config
    sample_bytes = HELD * side**2 * torch.float64.itemsize
    size = max(1, config.memory_budget // JOB_SHARE // sample_bytes)
    for part in slices(m, min(size, SAMPLES_A_JOB)):
        near = neighbors[part]
        grams = oracle.matrix.new_empty(len(near), side, side)
        grams[:, 0, 0] = diag[part]
        grams[:, 0, 1:] = cross(part).to(oracle.matrix).gather(1, near)
        grams[:, 1:, 0] = grams[:, 0, 1:]
        grams[:, 1:, 1:] = oracle.matrix[near[:, :, None], near[:, None, :]]
        for gram in grams:
            symmetrize_(gram)
        yield part, grams.to(config.device, config.solve_dtype)


def _stack(images: Tensor, samples: Tensor, indices: Tensor) -> Tensor:
    """Return each image with its neighbours behind it (b, 1 + k, c, h, w)."""
    return torch.cat([images[:, None], samples[indices]], dim=1)


def _evaluate_neighborhoods(
    backend: TileBackend,
    config: ComputeConfig,
    plan: TilePlan,
    tile_side: TileSide,
    part: slice,
    images: Tensor,
) -> tuple[slice, Tensor]:
    shape = (len(images), plan.n_rows, plan.n_rows)
    grams = torch.empty(shape, dtype=config.solve_dtype, device=config.device)
    for neighborhood, gram in zip(images, grams, strict=True):
        _evaluate_gram(backend, config, plan, tile_side, neighborhood, gram)
    return part, grams


def _evaluate_gram(
    backend: TileBackend,
    config: ComputeConfig,
    plan: TilePlan,
    tile_side: TileSide,
    images: Tensor,
    out: Tensor,
) -> None:
    tables = Tables(backend, images, config)
    if plan.keeps_tables:
        tables.keep(slices(plan.n_rows, plan.block), run_serially)
    store = TensorStore(out, is_symmetric=True)
    run_in_tiles = partial(tile_side.shrink_to_fit, side=plan.tile)
    for block in plan.blocks():
        one = tables.source(block.rows)
        two = None if block.is_diagonal else tables.source(block.cols)
        store.write(*evaluate_block(backend, config, block, run_in_tiles, one, two))
