"""Device, precision, memory and progress of one call."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from skconvgp._config import ComputeConfig
from skconvgp._protocols import TileRunner
from skconvgp._typing import ImageShape, OnStep
from skconvgp.backends import BackendChoice
from skconvgp.engine import (
    Placement,
    TileCache,
    require_memory,
    to_tensor,
    wait_for,
)

SMALLER_MATRIX = (
    "fit on fewer samples, with solver='cg' and a number as `noise_variance` (of "
    "classifiers with likelihood='gaussian'), or with solve_dtype='float32'."
)


class ShowProgress(Protocol):
    """Returns the callback of the progress of a computation."""

    def __call__(
        self,
        label: str,
        n_position_pairs: int = 1,
        *,
        unit: str = "pairs",
        is_part: bool = False,
    ) -> OnStep:
        """Return a progress callback.

        Parameters
        ----------
        label : str
            Name of the computation.
        n_position_pairs : int, default=1
            Pairs of positions whose covariances a pair of samples needs.
        unit : str, default="pairs"
            What is counted; empty if the speed tells nothing.
        is_part : bool, default=False
            Whether a part of the pairs of training samples is computed, as settings of
            the user say, and not all of them.
        """
        ...


@dataclass(frozen=True)
class Run:
    """Everything on which the computation of one call depends, but its data.

    `fit` and each prediction make a new one.

    Parameters
    ----------
    placement : Placement
        Device of the computation.
    config : ComputeConfig
        Device, precisions and memory. The precision of tiles is that of a basis.
    runner : TileRunner
        Runs blocks of tiles.
    backend : str
        Backend of tiles: "auto", "torch" or "fused".
    progress : callable
        Returns the progress callback of a computation.
    find_cache : callable
        Returns the cache of tiles of training samples, or None, given the backend, the
        configuration and the images.
    caches : list of TileCache
        Caches that `find_cache` has returned, for the report.
    choices : dict
        Backends of kernels, which are lowered once: by `id` of the kernel, which a
        backend keeps alive, and shape of the images.
    """

    placement: Placement
    config: ComputeConfig
    runner: TileRunner
    backend: str
    progress: ShowProgress
    find_cache: Callable[[BackendChoice, ComputeConfig, Tensor], TileCache | None]
    caches: list[TileCache] = field(default_factory=list)
    choices: dict[tuple[int, ImageShape], BackendChoice] = field(default_factory=dict)

    def tensor(self, array: NDArray[Any]) -> Tensor:
        """Return an array on the device, in the precision of solves."""
        return to_tensor(array, self.config.device, self.config.solve_dtype)

    def quiet(self) -> Self:
        """Return the run without progress."""
        return replace(self, progress=_show_nothing)


class Resources(Protocol):
    """Devices, memory and randomness of a call, from the settings of an estimator."""

    @property
    def solve_dtype(self) -> torch.dtype:
        """Precision of Gram matrices and of solves."""
        ...

    def placement(self, needed: int) -> Placement:
        """Return the placement of a computation that holds `needed` bytes at once."""
        ...

    def run(self, placement: Placement, reserved: int = 0) -> Run:
        """Return the run on a placement, while `reserved` bytes are held."""
        ...

    def with_precision(self, basis: Any, run: Run) -> Any:
        """Return a basis of training samples with the precision of its tiles."""
        ...

    def memory_budget(self, placement: Placement, reserved: int) -> int:
        """Return the bytes that tiles may hold, while `reserved` bytes are held."""
        ...

    def generator(self) -> Generator:
        """Return a source of randomness, with the same state each time if seeded."""
        ...


def clock(device: torch.device) -> float:
    """Wait until a device has done all work; return the time in seconds."""
    wait_for(device)
    return time.perf_counter()


def run_of_fit(
    n: int,
    needed: int,
    placement: Placement,
    resources: Resources,
    remedy: str = SMALLER_MATRIX,
    user: str = "",
) -> Run:
    """Return the run of a fit to n samples, or of another user of memory.

    Raises
    ------
    TileMemoryError
        If `needed` bytes are not free.
    """
    user = user or f"A fit to {n} samples, beside tiles,"
    require_memory(needed, placement.device, user, remedy)
    return resources.run(placement, needed)


def _show_nothing(
    label: str,  # noqa: ARG001  (nothing is shown)
    n_position_pairs: int = 1,  # noqa: ARG001  (nothing is shown)
    *,
    unit: str = "pairs",  # noqa: ARG001  (nothing is shown)
    is_part: bool = False,  # noqa: ARG001  (nothing is shown)
) -> OnStep:
    return _silent


def _silent(done: int, total: int) -> None:
    """Report progress to nobody."""
