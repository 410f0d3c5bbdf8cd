"""Where and how `gram_matrix` and similar functions compute, from their arguments.

Estimators do the same from their settings, in `_resources`.
"""

import torch

from skconvgp._config import ComputeConfig
from skconvgp._protocols import TileRunner
from skconvgp._typing import ImageShape
from skconvgp.backends import BackendChoice, choose_backend
from skconvgp.engine import Placement, kernel_shape, require_memory
from skconvgp.estimators._resolve import (
    device_exists,
    resolve_backend,
    resolve_device,
    resolve_dtype,
    resolve_jobs,
    resolve_memory_budget,
)
from skconvgp.estimators.compute._parallel import make_runner
from skconvgp.kernels import Kernel

GPU = torch.device("cuda")


def find_placement(
    owner: str, device: object, dtype: object = "auto", n_values: int = 0
) -> Placement:
    """Return where to compute `n_values` numbers; raise if the device is missing."""
    precision = resolve_dtype(owner, dtype, GPU, "torch")
    placement = resolve_device(owner, device, n_values * precision.itemsize)
    if not device_exists(placement.device):
        raise ValueError(
            f"device={device!r} was asked for and is not on this machine; use "
            "device='auto' or 'cpu'."
        )
    return placement


def backend_choice(
    owner: str, kernel: Kernel, shape: ImageShape, backend: object, placement: Placement
) -> BackendChoice:
    """Return the backend of a kernel on images of a shape."""
    word = resolve_backend(owner, backend)
    return choose_backend(kernel, kernel_shape(kernel, shape), word, placement.device)


def make_config(
    owner: str,
    backend: str,
    placement: Placement,
    *,
    dtype: object,
    memory_budget: object = None,
    n_jobs: object = None,
    n_values: int = 0,
    remedy: str = "",
) -> tuple[ComputeConfig, TileRunner]:
    """Return device, precision and memory of a computation, and its runner of blocks.

    `owner` is the public function, for messages. `dtype`, `memory_budget` and `n_jobs`
    are its settings. The result has `n_values` numbers; `remedy` is advice if they do
    not fit in memory.
    """
    device = placement.device
    runner, n_workers = make_runner(resolve_jobs(owner, n_jobs), device)
    precision = resolve_dtype(owner, dtype, device, backend)
    reserved = n_values * precision.itemsize
    if reserved:
        require_memory(reserved, device, f"A result of {n_values} covariances", remedy)
    budget = resolve_memory_budget(owner, memory_budget, device, reserved, n_workers)
    return ComputeConfig(device, precision, precision, budget, n_workers), runner
