"""Evaluates kernels on sets of samples, tile by tile, within a memory budget."""

from skconvgp._protocols import TileCosts
from skconvgp.engine._arrays import (
    freeze,
    frozen_bytes,
    kernel_shape,
    pool_images,
    pooled_size,
    rows_to_images,
    rows_to_tensor,
    thaw,
    to_numpy,
    to_tensor,
)
from skconvgp.engine._cache import TileCache
from skconvgp.engine._devices import (
    count_gpus,
    drop_cached_memory,
    finish_on_gpu,
    free_memory,
    full_precision,
    gpu_memory,
    measure_tiles,
    on_device,
    require_memory,
    use_gpu,
    wait_for,
)
from skconvgp.engine._evaluate import KernelOracle
from skconvgp.engine._files import read_tile, write_tile
from skconvgp.engine._held import (
    has_room,
    held,
    join_rows,
    keep_held,
    place,
    place_rows,
)
from skconvgp.engine._host_values import (
    first_shapes,
    host_arrays,
    host_numbers,
    host_values,
    named_shapes,
)
from skconvgp.engine._local import (
    kernel_neighborhoods,
    matrix_neighborhoods,
    nearest,
)
from skconvgp.engine._operator import KernelGram
from skconvgp.engine._placement import (
    Placement,
    Size,
    choose_placement,
    compute_at,
    gibibytes,
)
from skconvgp.engine._plan import (
    Block,
    PullbackCosts,
    TilePlan,
    for_each,
    plan_pullback,
    plan_tiles,
    slices,
    stream_rows,
)
from skconvgp.engine._precomputed import MatrixOracle
from skconvgp.engine._pullback import FactoredWeights, pull_back
from skconvgp.engine._samples import SampleOracle
from skconvgp.engine._summed import SummedOracle
from skconvgp.engine._threads import survive_forks

__all__ = [
    "Block",
    "FactoredWeights",
    "KernelGram",
    "KernelOracle",
    "MatrixOracle",
    "Placement",
    "PullbackCosts",
    "SampleOracle",
    "Size",
    "SummedOracle",
    "TileCache",
    "TileCosts",
    "TilePlan",
    "choose_placement",
    "compute_at",
    "count_gpus",
    "drop_cached_memory",
    "finish_on_gpu",
    "first_shapes",
    "for_each",
    "free_memory",
    "freeze",
    "frozen_bytes",
    "full_precision",
    "gibibytes",
    "gpu_memory",
    "has_room",
    "held",
    "host_arrays",
    "host_numbers",
    "host_values",
    "join_rows",
    "keep_held",
    "kernel_neighborhoods",
    "kernel_shape",
    "matrix_neighborhoods",
    "measure_tiles",
    "named_shapes",
    "nearest",
    "on_device",
    "place",
    "place_rows",
    "plan_pullback",
    "plan_tiles",
    "pool_images",
    "pooled_size",
    "pull_back",
    "read_tile",
    "require_memory",
    "rows_to_images",
    "rows_to_tensor",
    "slices",
    "stream_rows",
    "survive_forks",
    "thaw",
    "to_numpy",
    "to_tensor",
    "use_gpu",
    "wait_for",
    "write_tile",
]
