"""EstimatorResources: resources of a computation, by the settings of an estimator."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Generator, Tensor

from skconvgp._config import ComputeConfig
from skconvgp._typing import OnStep
from skconvgp.backends import BackendChoice
from skconvgp.engine import Placement, TileCache
from skconvgp.estimators._resolve import (
    AUTO,
    DTYPES,
    device_exists,
    resolve_backend,
    resolve_device,
    resolve_dtype,
    resolve_jobs,
    resolve_memory_budget,
    resolve_solve_dtype,
    resolve_verbose,
)
from skconvgp.estimators._validation import make_generator
from skconvgp.estimators._warn import warn_caller
from skconvgp.estimators.compute._kept_tiles import find_cache, resolve_cache_dir
from skconvgp.estimators.compute._parallel import make_runner
from skconvgp.estimators.compute._progress import PAIRS, FitLine, ProgressLine
from skconvgp.estimators.compute._sight import warn_of_blindness
from skconvgp.estimators.compute._steep import why_double
from skconvgp.kernels import Kernel
from skconvgp.processes import (
    Basis,
    KernelPrior,
    PatchPrior,
    Run,
)

HOST = torch.device("cpu")
AnyKernel = TypeVar("AnyKernel", KernelPrior, PatchPrior)


class EstimatorResources:
    """Resources of an estimator: device, backend, precision, memory, jobs, cache.

    `fitted` is the prior of a fitted process. A fitted model that is loaded on another
    machine falls back to the CPU and to torch; before `fit`, a missing device or
    backend is an error.
    """

    def __init__(self, owner: Any, fitted: Basis | None = None) -> None:
        self._owner, self._fitted = owner, fitted
        self.dtype_reason = ""  # why ``dtype="auto"`` is not float32
        self._tried: list[Kernel] = []  # that were asked what they see of the samples
        if fitted is None:
            self._require_settings()

    @property
    def solve_dtype(self) -> torch.dtype:
        """Precision of Gram matrices and of solves."""
        return resolve_solve_dtype(self._owner, self._owner.solve_dtype)

    def placement(self, needed: int) -> Placement:
        """Return where to compute if `needed` bytes must fit there at once."""
        return find_device(self._owner, needed, is_fitted=self._fitted is not None)

    def run(self, placement: Placement, reserved: int = 0) -> Run:
        """Return how to compute there, with `reserved` bytes in use."""
        owner, device = self._owner, placement.device
        backend = resolve_backend(owner, owner.backend)
        if self._fitted is None:
            dtype = resolve_dtype(owner, owner.dtype, device, "torch")
        else:
            dtype = DTYPES[owner.dtype_]
        runner, n_workers = make_runner(resolve_jobs(owner, owner.n_jobs), device)
        budget = resolve_memory_budget(
            owner, owner.memory_budget, device, reserved, n_workers
        )
        solve_dtype = resolve_solve_dtype(owner, owner.solve_dtype)
        config = ComputeConfig(device, dtype, solve_dtype, budget, n_workers)
        verbose = resolve_verbose(owner, owner.verbose)
        progress = partial(_progress, verbose=verbose, n_workers=n_workers)
        run = Run(placement, config, runner, backend, progress, self._find_cache)
        return run if self._fitted is None else self._at_hand(run, self._fitted)

    def with_precision(self, prior: AnyKernel, run: Run) -> AnyKernel:
        """Return a prior of training samples with the precision of its tiles.

        Training and test covariances then have the same rounding errors, even if a
        model is loaded on a machine with another device or backend.
        """
        owner = self._owner
        if isinstance(prior, PatchPrior):  # sums are double: responses may be single
            dtype = resolve_dtype(owner, owner.dtype, run.config.device, "fused")
            return prior.with_dtype(str(dtype).removeprefix("torch."))
        if self._fitted is None and prior.kernel not in self._tried:
            self._tried.append(prior.kernel)
            warn_of_blindness(prior.kernel, prior.images())
        choice = prior.choice(run)
        dtype = resolve_dtype(owner, owner.dtype, run.config.device, choice.name)
        if (owner.dtype, dtype) == ("auto", torch.float32):
            reason = why_double(prior.kernel, prior.images())
            self.dtype_reason = self.dtype_reason or reason
            dtype = torch.float64 if reason else dtype
        return replace(prior, dtype=str(dtype).removeprefix("torch."))

    def memory_budget(self, placement: Placement, reserved: int) -> int:
        """Return the bytes that a computation may hold beside `reserved` bytes."""
        owner = self._owner
        return resolve_memory_budget(
            owner, owner.memory_budget, placement.device, reserved, 1
        )

    def generator(self) -> Generator:
        """Return a random generator; with a seed, an equal one each time."""
        return make_generator(self._owner.random_state)

    def _require_settings(self) -> None:
        """Raise for settings that are not allowed: much is computed before `run`."""
        owner = self._owner
        require_device(owner)
        resolve_backend(owner, owner.backend)
        resolve_jobs(owner, owner.n_jobs)
        resolve_memory_budget(owner, owner.memory_budget, HOST, 0, 1)
        resolve_solve_dtype(owner, owner.solve_dtype)
        resolve_verbose(owner, owner.verbose)

    def _at_hand(self, run: Run, fitted: Basis) -> Run:
        """Return how to compute predictions; warn if "fused" is missing here."""
        prior = fitted.kernel_prior
        if run.backend != "fused" or prior is None or fitted.is_by_torch:
            return run
        run = replace(run, backend="auto")
        report = fitted.report(run)
        if report.backend != "fused":
            warn_caller(
                f"backend='fused' was asked for and cannot be used here: "
                f"{report.backend_reason}. torch computes, in the precision of `fit`, "
                f"{prior.dtype}.",
                UserWarning,
            )
        return run

    def _find_cache(
        self, choice: BackendChoice, config: ComputeConfig, images: Tensor
    ) -> TileCache | None:
        folder = resolve_cache_dir(self._owner, getattr(self._owner, "cache_dir", None))
        return find_cache(folder, choice, config.dtype, config.device, images)


def _progress(
    label: str,
    n_position_pairs: int = 1,
    *,
    unit: str = PAIRS,
    is_part: bool = False,
    verbose: int,
    n_workers: int,
) -> OnStep:
    """Return the callback of computed pairs, for a fit or for predictions."""
    if label != "fit":
        return ProgressLine(label, verbose, unit)
    line = FitLine(
        label, verbose, n_position_pairs, n_workers, unit=unit, is_part=is_part
    )
    return line.report


def find_device(owner: Any, needed: int = 0, *, is_fitted: bool) -> Placement:
    """Return the device of an estimator, on which `needed` bytes must fit at once.

    If the device is missing, a fitted estimator falls back to the CPU.
    """
    placement = resolve_device(owner, owner.device, needed)
    if device_exists(placement.device):
        return placement
    message = f"device={owner.device!r} was asked for and is not on this machine"
    if not is_fitted:
        raise ValueError(f"{message}; use device='auto' or 'cpu'.")
    warn_caller(f"{message}: the CPU is used.", UserWarning)
    return Placement(torch.device("cpu"))


def require_device(owner: Any) -> None:
    """Raise if the device or the precision of a fit is not allowed."""
    if owner.device != AUTO:  # which there always is
        find_device(owner, is_fitted=False)
    resolve_dtype(owner, owner.dtype, HOST, "torch")
