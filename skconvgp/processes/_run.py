"""How one call computes: on which device, in which precision, in which memory."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from skconvgp._config import ComputeConfig
from skconvgp._protocols import TileRunner
from skconvgp._typing import OnStep
from skconvgp.backends import BackendChoice
from skconvgp.engine import Placement, TileCache, to_tensor, wait_for

__all__ = ["Resources", "Run", "clock"]


@dataclass(frozen=True)
class Run:
    """How one call computes; `fit` and each prediction make their own.

    Parameters
    ----------
    placement : Placement
        Device of the computation.
    config : ComputeConfig
        Device, precisions and memory. The precision of tiles is that of a prior.
    runner : TileRunner
        Runs blocks of tiles.
    backend : str
        Backend of tiles: "auto", "torch" or "fused".
    progress : callable
        Returns the progress callback of a computation, given its name.
    find_cache : callable
        Returns where the tiles of training samples are kept, if they are, given what
        computes them and the images.
    caches : list of TileCache
        Those that were found.
    """

    placement: Placement
    config: ComputeConfig
    runner: TileRunner
    backend: str
    progress: Callable[[str], OnStep]
    find_cache: Callable[[BackendChoice, ComputeConfig, Tensor], TileCache | None]
    caches: list[TileCache] = field(default_factory=list)

    def tensor(self, array: NDArray[Any]) -> Tensor:
        """Return an array on the device, in the precision of solves."""
        return to_tensor(array, self.config.device, self.config.solve_dtype)

    def quiet(self) -> Self:
        """Return the same without progress."""
        return replace(self, progress=lambda _: _silent)


class Resources(Protocol):
    """Resources of a call, which the estimators implement by their settings."""

    @property
    def solve_dtype(self) -> torch.dtype:
        """Precision of Gram matrices and of solves."""
        ...

    def placement(self, needed: int) -> Placement:
        """Return the placement of a computation that holds so many bytes as a whole."""
        ...

    def run(self, placement: Placement, reserved: int = 0) -> Run:
        """Return how to compute there, beside so many bytes."""
        ...

    def with_precision(self, prior: Any, run: Run) -> Any:
        """Return a prior of training samples with the precision that its tiles get."""
        ...

    def memory_budget(self, placement: Placement, reserved: int) -> int:
        """Return the bytes that a computation may hold there, beside so many."""
        ...

    def generator(self) -> Generator:
        """Return a source of randomness; the same one each time, if there is a seed."""
        ...


def clock(device: torch.device) -> float:
    """Return the time in seconds at which a device has done all work."""
    wait_for(device)
    return time.perf_counter()


def _silent(done: int, total: int) -> None:
    """Report progress to nobody."""
