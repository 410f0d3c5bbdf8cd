"""EstimatorResources: resources of a computation, by the settings of an estimator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Generator, Tensor

from skconvgp._config import ComputeConfig
from skconvgp.backends import BackendChoice
from skconvgp.engine import Placement, TileCache
from skconvgp.estimators._warn import warn_caller
from skconvgp.estimators.compute._kept_tiles import find_cache
from skconvgp.estimators.compute._progress import CallProgress, progress_of
from skconvgp.estimators.compute._sight import warn_of_blindness
from skconvgp.estimators.compute._steep import why_double
from skconvgp.estimators.settings._checks import AUTO, DTYPES
from skconvgp.estimators.settings._compute import Compute
from skconvgp.kernels import Kernel
from skconvgp.processes import (
    Basis,
    KernelBasis,
    PatchBasis,
    Run,
)

AnyKernel = TypeVar("AnyKernel", KernelBasis, PatchBasis)


class EstimatorResources:
    """Resources of an estimator: device, backend, precision, memory, jobs, cache.

    `fitted` is the basis of a fitted process. A fitted model that is loaded on another
    machine falls back to the CPU and to torch; before `fit`, a missing device or
    backend is an error.
    """

    def __init__(self, compute: Compute, fitted: Basis | None = None) -> None:
        self._compute, self._fitted = compute, fitted
        self.dtype_reason = ""  # why ``dtype="auto"`` is not float32
        self._tried: list[Kernel] = []  # that were asked what they see of the samples
        if fitted is None:
            compute.require()

    @property
    def solve_dtype(self) -> torch.dtype:
        """Precision of Gram matrices and of solves."""
        return self._compute.solve_dtype

    @property
    def progress(self) -> CallProgress:
        """Progress of the call that is made now."""
        return progress_of(self._compute.verbose)

    def report(self, noise_reason: str) -> dict[str, Any]:
        """Return fields of the report of a fit: why it has its precision and noise."""
        return {"dtype_reason": self.dtype_reason, "noise_reason": noise_reason}

    def placement(self, needed: int) -> Placement:
        """Return where to compute if `needed` bytes must fit there at once."""
        return self._compute.placement(needed, is_fitted=self._fitted is not None)

    def run(self, placement: Placement, reserved: int = 0) -> Run:
        """Return how to compute there, with `reserved` bytes in use."""
        compute, device = self._compute, placement.device
        backend = compute.backend
        if self._fitted is None:
            dtype = compute.dtype(device)
        else:
            dtype = DTYPES[compute["dtype_"]]
        runner, n_workers = compute.runner(device)
        budget = compute.memory_budget(device, reserved, n_workers)
        solve_dtype = compute.solve_dtype
        config = ComputeConfig(device, dtype, solve_dtype, budget, n_workers)
        progress = progress_of(compute.verbose, n_workers)
        run = Run(placement, config, runner, backend, progress, self._find_cache)
        return run if self._fitted is None else self._at_hand(run, self._fitted)

    def with_precision(self, basis: Any, run: Run) -> Any:
        """Return a basis of training samples with the precision of its tiles.

        Training and test covariances then have the same rounding errors, even if a
        model is loaded on a machine with another device or backend.
        """
        compute, device = self._compute, run.config.device
        if basis.is_streamed:  # sums are double: responses may be single
            dtype = compute.dtype(device, "fused")
            return basis.with_dtype(str(dtype).removeprefix("torch."))
        kernel, images = basis.kernel, basis.images()
        if self._fitted is None and kernel not in self._tried:
            self._tried.append(kernel)
            warn_of_blindness(kernel, images)
        dtype = compute.dtype(device, basis.choice(run).name)
        if (compute["dtype"], dtype) == (AUTO, torch.float32):
            reason = why_double(kernel, images)
            self.dtype_reason = self.dtype_reason or reason
            dtype = torch.float64 if reason else dtype
        return replace(basis, dtype=str(dtype).removeprefix("torch."))

    def memory_budget(self, placement: Placement, reserved: int) -> int:
        """Return the bytes that a computation may hold beside `reserved` bytes."""
        return self._compute.memory_budget(placement.device, reserved)

    def generator(self) -> Generator:
        """Return a random generator; with a seed, an equal one each time."""
        return self._compute.generator()

    def _at_hand(self, run: Run, fitted: Basis) -> Run:
        """Return how to compute predictions; warn if "fused" is missing here."""
        basis = fitted.kernel_basis
        if run.backend != "fused" or basis is None or fitted.is_by_torch:
            return run
        run = replace(run, backend="auto")
        report = fitted.report(run)
        if report.backend != "fused":
            warn_caller(
                f"backend='fused' was asked for and cannot be used here: "
                f"{report.backend_reason}. torch computes, in the precision of `fit`, "
                f"{basis.dtype}.",
                UserWarning,
            )
        return run

    def _find_cache(
        self, choice: BackendChoice, config: ComputeConfig, images: Tensor
    ) -> TileCache | None:
        folder = self._compute.folder
        return find_cache(folder, choice, config.dtype, config.device, images)
