"""Arguments that `gram_matrix` and similar functions share."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_array

from skconvgp._config import ComputeConfig
from skconvgp._protocols import TileRunner
from skconvgp._typing import ImageShape
from skconvgp.backends import BackendChoice, choose_backend
from skconvgp.engine import Placement, kernel_shape, require_memory, rows_to_tensor
from skconvgp.estimators._resolve import (
    device_exists,
    is_kernel,
    resolve_backend,
    resolve_device,
    resolve_dtype,
    resolve_jobs,
    resolve_memory_budget,
)
from skconvgp.estimators._validation import (
    images_to_rows,
    resolve_image_shape,
    warn_of_channels,
    warn_of_guess,
)
from skconvgp.estimators.compute._parallel import make_runner
from skconvgp.kernels import Kernel

__all__ = [
    "FLOATS",
    "choose",
    "find_placement",
    "find_shape",
    "make_config",
    "matching_rows",
    "resolve_by",
    "sample_rows",
]

FLOATS = [np.float64, np.float32]  # arrays of other types become float64
GPU = torch.device("cuda")


def sample_rows(X: Any) -> tuple[NDArray[Any], ImageShape | None]:
    """Return samples as rows, and their shape (c, h, w) if they were images."""
    rows, given = images_to_rows(X)
    return check_array(rows, dtype=FLOATS, input_name="X"), given


def find_shape(
    kernel: object, image_shape: object, n_features: int, given: ImageShape | None
) -> ImageShape:
    """Return the shape that a row is read as; raise if the kernel cannot take it."""
    if not is_kernel(kernel):
        raise ValueError(
            f"`kernel` must be a kernel of skconvgp.kernels, got {kernel!r}."
        )
    shape, is_guess = resolve_image_shape(
        image_shape, n_features, given, is_spatial=kernel.is_spatial
    )
    if is_guess:
        warn_of_guess(shape)
    if kernel.is_spatial:
        warn_of_channels(shape)
    kernel.check(kernel_shape(kernel, shape))
    return shape


def matching_rows(Y: Any, n_features: int, shape: ImageShape) -> NDArray[Any]:
    """Return samples of Y as rows; raise unless they have the shape of those of X."""
    rows, given = images_to_rows(Y)
    rows = check_array(rows, dtype=FLOATS, input_name="Y")
    is_row = shape == (n_features, 1, 1)
    if rows.shape[1] != n_features or not (is_row or given in (None, shape)):
        raise ValueError(
            f"X and Y must have samples of one shape: Y has {rows.shape[1]} values a "
            f"sample, of shape {given!r}; X has {n_features}, read as {shape!r}."
        )
    return rows  # type: ignore[no-any-return]


def resolve_by(kernel: Kernel, rows: NDArray[Any], *, is_alone: bool) -> Kernel:
    """Return the kernel with settings that follow from X; raise if there is a Y."""
    resolved = kernel.resolve(rows_to_tensor(rows))
    if resolved is not kernel and not is_alone:
        raise ValueError(
            f"{kernel!r} has settings that follow from training samples, and with Y "
            "it is not known which they are: pass `kernel.resolve(X_train)`, `kernel_` "
            "of a fitted estimator, or a kernel with numbers."
        )
    return resolved


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


def choose(
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
    """Return where and how to compute.

    Parameters
    ----------
    owner : str
        The public function, for messages.
    backend : str
        Name of the backend.
    placement : Placement
        Where to compute.
    dtype, memory_budget, n_jobs : object
        The settings.
    n_values : int
        Count of numbers in the result.
    remedy : str
        Advice if they do not fit in memory.

    Returns
    -------
    config : ComputeConfig
        Device, precision and memory.
    runner : TileRunner
        Runs the blocks.
    """
    device = placement.device
    runner, n_workers = make_runner(resolve_jobs(owner, n_jobs), device)
    precision = resolve_dtype(owner, dtype, device, backend)
    reserved = n_values * precision.itemsize
    if reserved:
        require_memory(reserved, device, f"A result of {n_values} covariances", remedy)
    budget = resolve_memory_budget(owner, memory_budget, device, reserved, n_workers)
    return ComputeConfig(device, precision, precision, budget, n_workers), runner
