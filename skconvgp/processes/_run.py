"""Device, precision, memory and progress of one call."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, Self

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
    held,
    require_memory,
    to_tensor,
    wait_for,
)

SMALLER_MATRIX = (
    "fit on fewer samples, with solver='cg' and a number as `noise_variance` (of "
    "classifiers with likelihood='gaussian'), or with solve_dtype='float32'."
)


# Names of stages.
COVARIANCES, FEATURES, NOISE, SOLVING = "covariances", "features", "noise", "solving"
PAIRS, IMAGES, FLOPS = "pairs", "images", "flops"  # what stages count
MILLISECONDS, VARIANCES = "milliseconds of a core", "variances of images"
# Operations of LAPACK for n^3, as operations of a product of matrices that take as
# long: 1 to 1.2 and 5 to 11 for n of 1000 to 2000.
FACTOR, INVERSE, EIGEN = 1.0, 1.2, 10.0


class Stage(NamedTuple):
    """A stage of a computation that is to come."""

    name: str
    amount: float = 0.0  # of the unit; 0 if it is not known
    unit: str = PAIRS  # stages of a unit take seconds in proportion to their amounts
    held: int = 0  # numbers that are held at once; 0: as many as by the whole fit
    # Basis whose pairs or images are counted, or a function that returns it; None for
    # that of the fit.
    of: Any = None
    # Whether progress is told when it begins; else it is a part of another one.
    is_told: bool = True


class ShowProgress(Protocol):
    """Shows how far a call is; makes the callback of the progress of a stage."""

    def __call__(
        self,
        name: str,
        n_position_pairs: int = 1,
        *,
        unit: str = PAIRS,
        is_part: bool = False,
        is_fit: bool = False,
    ) -> OnStep:
        """Return the callback of a stage, which begins when it is called.

        The first call says how much is done before the stage: nothing, or pairs that
        are read from files.

        Parameters
        ----------
        name : str
            Name of the stage.
        n_position_pairs : int, default=1
            Pairs of positions whose covariances a pair of samples needs.
        unit : str, default="pairs"
            What is counted.
        is_part : bool, default=False
            Whether a part of the pairs of training samples is computed, as settings of
            the user say, and not all of them.
        is_fit : bool, default=False
            Whether users are warned if the stage takes long.
        """
        ...

    def expect(self, *stages: Stage) -> None:
        """Tell of all stages to come, in place of those that were told of before."""
        ...

    def enter(self, name: str) -> None:
        """Begin a stage that counts nothing; it ends when the next one begins."""
        ...

    def tell(self, text: str) -> None:
        """Show what was found, beside the progress."""
        ...

    def inside(self, name: str) -> AbstractContextManager[None]:
        """Begin a stage, of which all stages inside of the context are parts."""
        ...


class NoProgress:
    """Shows nothing."""

    def __call__(self, name: str, *_: Any, **__: Any) -> OnStep:  # noqa: ARG002
        """Return a callback that does nothing."""
        return _silent

    def expect(self, *stages: Stage) -> None:
        """Tell nobody."""

    def enter(self, name: str) -> None:
        """Tell nobody."""

    def tell(self, text: str) -> None:
        """Tell nobody."""

    def inside(self, name: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """Return a context of no effect."""
        return nullcontext()


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
    progress : ShowProgress
        Shows how far the call is.
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

    def held(self, array: NDArray[Any]) -> Tensor:
        """Return an array as `tensor` does, copied to a GPU once in a call."""
        return held(array, self.config.device, self.config.solve_dtype)

    def quiet(self) -> Self:
        """Return the run without progress."""
        return replace(self, progress=NoProgress())


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


def _silent(done: int, total: int) -> None:
    """Report progress to nobody."""
