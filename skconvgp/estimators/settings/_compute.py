"""Settings of where and how to compute, of estimators and functions alike."""

from functools import cached_property
from pathlib import Path

import torch

from skconvgp._config import ComputeConfig
from skconvgp._protocols import TileRunner
from skconvgp._typing import ImageShape
from skconvgp.backends import BACKENDS, BackendChoice, choose_backend
from skconvgp.engine import Placement, kernel_shape, require_memory
from skconvgp.estimators._validation import make_generator
from skconvgp.estimators._warn import warn_caller
from skconvgp.estimators.compute._parallel import make_runner
from skconvgp.estimators.settings._checks import (
    AUTO,
    DTYPES,
    Given,
    as_budget,
    as_dtype,
    as_folder,
    as_jobs,
    as_placement,
    as_verbose,
    is_auto,
    word_of,
)
from skconvgp.kernels import Kernel

HOST, GPU = torch.device("cpu"), torch.device("cuda")


class Compute(Given):
    """Settings of device, backend, precision, memory, jobs, cache and progress."""

    @cached_property
    def backend(self) -> str:
        """The backend, which may be "auto"."""
        return self.read("backend", word_of(BACKENDS))

    @cached_property
    def solve_dtype(self) -> torch.dtype:
        """Precision of Gram matrices and of solves."""
        return DTYPES[self.read("solve_dtype", word_of(DTYPES))]

    @cached_property
    def verbose(self) -> int:
        """How much progress is shown."""
        return self.read("verbose", as_verbose)

    @cached_property
    def folder(self) -> Path | None:
        """Folder of all caches of tiles, which is made; None if none are kept."""
        return self.read("cache_dir", as_folder)

    def require(self) -> None:
        """Raise for settings that are not allowed: much is computed before them."""
        self.require_device()
        _ = self.backend, self.read("n_jobs", as_jobs)
        if self["memory_budget"] is not None:  # which asks how much memory is free
            self.memory_budget(HOST)
        _ = self.solve_dtype, self.verbose

    def require_device(self) -> None:
        """Raise if the device or the precision of tiles is not allowed."""
        if self["device"] != AUTO:  # which there always is
            self.placement()
        if not is_auto(self["dtype"]):
            self.dtype(HOST)

    def placement(self, needed: int = 0, *, is_fitted: bool = False) -> Placement:
        """Return the device, on which `needed` bytes must fit at once.

        If the device is missing, a fitted estimator falls back to the CPU.
        """
        placement = self.read("device", as_placement, needed=needed)
        if placement.device.type == "cpu" or _exists(placement.device):
            return placement
        message = f"device={self['device']!r} was asked for and is not on this machine"
        if not is_fitted:
            raise ValueError(f"{message}; use device='auto' or 'cpu'.")
        warn_caller(f"{message}: the CPU is used.", UserWarning)
        return Placement(HOST)

    def placement_of(self, n_values: int) -> Placement:
        """Return where a result of so many numbers fits."""
        return self.placement(n_values * self.dtype(GPU).itemsize)

    def dtype(self, device: torch.device, backend: str = "torch") -> torch.dtype:
        """Return the precision of tiles."""
        return self.read("dtype", as_dtype, device=device, backend=backend)

    def memory_budget(
        self, device: torch.device, reserved: int = 0, n_workers: int = 1
    ) -> int:
        """Return the bytes that a computation may hold beside `reserved` bytes."""
        return self.read(
            "memory_budget",
            as_budget,
            device=device,
            reserved=reserved,
            n_workers=n_workers,
        )

    def runner(self, device: torch.device) -> tuple[TileRunner, int]:
        """Return a runner of blocks, and how many blocks it runs at a time."""
        return make_runner(self.read("n_jobs", as_jobs), device)

    def backend_of(
        self, kernel: Kernel, shape: ImageShape, placement: Placement
    ) -> BackendChoice:
        """Return the backend of a kernel on images of a shape."""
        shape = kernel_shape(kernel, shape)
        return choose_backend(kernel, shape, self.backend, placement.device)

    def config(
        self, backend: str, placement: Placement, n_values: int = 0, remedy: str = ""
    ) -> tuple[ComputeConfig, TileRunner]:
        """Return device, precision and memory of a function, and its runner of blocks.

        The result has `n_values` numbers; `remedy` is advice if they do not fit in
        memory.
        """
        device = placement.device
        runner, n_workers = self.runner(device)
        precision = self.dtype(device, backend)
        reserved = n_values * precision.itemsize
        if reserved:
            user = f"A result of {n_values} covariances"
            require_memory(reserved, device, user, remedy)
        budget = self.memory_budget(device, reserved, n_workers)
        return ComputeConfig(device, precision, precision, budget, n_workers), runner

    def generator(self) -> torch.Generator:
        """Return a random generator; with a seed, an equal one each time."""
        return make_generator(self["random_state"])


def _exists(device: torch.device) -> bool:
    """Return whether a GPU exists on this machine."""
    return torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count()
