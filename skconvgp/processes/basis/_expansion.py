"""ExpansionBasis: a basis whose covariances are products of features of samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._config import ComputeConfig
from skconvgp._protocols import CompletedGram, Expansion, FeatureMap
from skconvgp._tensors import int_range
from skconvgp._threads import threads_for
from skconvgp._typing import FloatArray, OnStep, Rows
from skconvgp.backends import BackendChoice, choose_backend
from skconvgp.engine import freeze, slices, stream_rows, thaw, to_numpy
from skconvgp.exceptions import NotFiniteError, TileMemoryError
from skconvgp.kernels import Kernel
from skconvgp.kernels._feature_maps import KernelSource, shared_values
from skconvgp.processes._run import FEATURES, Run, clock
from skconvgp.processes.basis._basis import Basis, BasisReport, NewRows, Stream
from skconvgp.processes.basis._completed import Completed
from skconvgp.processes.basis._feature_room import require_features
from skconvgp.processes.basis._plain import KernelBasis, report_of

HOST = torch.device("cpu")


@dataclass(frozen=True)
class ExpansionBasis(Basis):
    """Features of samples, which stand for covariances with coefficients."""

    features: FeatureMap  # gives the features; tensors are arrays
    exact: KernelBasis  # the kernel that they approximate, without samples

    gives_features: ClassVar[bool] = True
    is_by_torch: ClassVar[bool] = True

    @property
    def kernel(self) -> Kernel:
        """The kernel."""
        return self.exact.kernel

    @property
    def n_samples(self) -> int:
        """Number of features, with which new samples are compared."""
        return self.features.n_features

    @property
    def kernel_basis(self) -> KernelBasis:
        """The kernel that features approximate, without samples."""
        return self.exact

    def require_room(self, config: ComputeConfig) -> None:
        """Raise a TileMemoryError if a sample needs more than the budget."""
        _block_rows(thaw(self.features, config.device), config)

    @property
    def tile_dtype(self) -> torch.dtype:
        """Precision of features."""
        return self.exact.tile_dtype

    def precision(self, config: ComputeConfig) -> torch.dtype:
        """Return the coarsest precision that covariances have gone through."""
        return self.exact.precision(config)

    def choice(self, run: Run) -> BackendChoice:
        """Return the backend that computes features: torch."""
        shape, device = self.exact.map_shape, run.config.device
        return choose_backend(self.kernel, shape, "torch", device)

    def report(self, run: Run) -> BasisReport:
        """Return the backend of features, and their precision."""
        return report_of(self.choice(run), self.tile_dtype)

    def stream(
        self,
        new: NewRows,
        run: Run,
        width: int = 0,
        *,
        needs_diag: bool = True,  # noqa: ARG002  (they cost nothing beside features)
    ) -> Stream:
        """Yield features (b, r) of samples, and their squared lengths (b,)."""
        for values in self.blocks(new.rows, run, width):
            yield values, (values * values).sum(1)

    def blocks(
        self,
        rows: Rows,
        run: Run,
        width: int = 0,
        on_step: OnStep | None = None,
    ) -> Iterator[Tensor]:
        """Yield features (b, r) of samples, a block of rows at a time.

        Parameters
        ----------
        rows : ndarray of shape (n1, d)
            Samples.
        run : Run
            How to compute.
        width : int, default=0
            Numbers that the caller holds for each sample.
        on_step : callable, optional
            Called with (samples done, samples) after each block.

        Raises
        ------
        NotFiniteError
            If features overflow.
        """
        config, images = run.config, self.exact.images(rows)
        features: FeatureMap = thaw(self.features, config.device)
        n_rows = _block_rows(features, config, width)
        for part in slices(len(images), n_rows):
            block = images[part].to(config.device, self.tile_dtype)
            operations = features.n_values * block.numel()
            with torch.no_grad(), threads_for(operations):
                values = features(block).to(config.solve_dtype)
            if not bool(values.isfinite().all()):
                raise NotFiniteError(
                    f"Random features of {self.kernel!r} are not finite in "
                    f"{self.tile_dtype}: scale X or the kernel down, or use "
                    "dtype='float64'."
                )
            yield values
            if on_step is not None:
                on_step(min(part.stop, len(images)), len(images))

    def covariance(self, rows: Rows, run: Run, unit: float) -> Tensor:
        """Return covariances (n1, n1) of new samples with each other, in a unit."""
        features = torch.cat(list(self.blocks(rows, run)))
        return features @ features.mT / unit

    def pull(self, rows: NDArray[Any], sums: FloatArray, run: Run) -> FloatArray:
        """Return derivatives (n1, d) by new samples of sums over features."""
        config, images = run.config, self.exact.images(rows)
        features: FeatureMap = thaw(self.features, config.device)
        n_rows = _block_rows(features, config)
        pulled = []
        for part in slices(len(images), n_rows):
            block = images[part].to(config.device, torch.float64).requires_grad_()
            total = (features(block) * run.tensor(sums[part])).sum()
            pulled.append(to_numpy(*torch.autograd.grad(total, block)))
        return np.concatenate(pulled).reshape(len(rows), -1)


def _block_rows(features: FeatureMap, config: ComputeConfig, width: int = 0) -> int:
    """Return of how many samples features are computed at a time."""
    itemsize, budget = config.solve_dtype.itemsize, config.memory_budget
    held, shared = max(width, features.n_values), shared_values(features)
    needed = (held + shared) * itemsize
    if needed > budget:
        raise TileMemoryError(
            f"The {features.n_features} features of a sample need {needed} bytes, and "
            f"`memory_budget` allows {budget}: raise it, or use fewer features."
        )
    return stream_rows(held, itemsize, budget - shared * itemsize)


def expand(
    expansion: Expansion,
    basis: KernelBasis,
    generator: torch.Generator,
    n_squares: int = 0,
) -> ExpansionBasis:
    """Return the basis of the features that a strategy draws.

    Later, so many square matrices of them are held: without memory for these, nothing
    is drawn.
    """
    require_room = partial(require_features, n_squares=n_squares)
    source = KernelSource(basis.kernel, basis.map_shape, require_room)
    features = expansion.expand(source, generator)
    empty = replace(basis, rows=basis.rows[:0], indices=basis.indices[:0])
    return ExpansionBasis(freeze(features), empty)


def expanded(basis: ExpansionBasis, rows: NDArray[Any], run: Run) -> Completed:
    """Return the matrix of the products of features of samples (n, d), on the host."""
    start = clock(run.config.device)
    show = run.progress(FEATURES, unit="samples", is_fit=True)
    show(0, len(rows))
    blocks = basis.blocks(rows, run, on_step=show)
    features = torch.cat([block.to(HOST) for block in blocks])
    diag = (features * features).sum(1)
    gram = CompletedGram(
        features, int_range(0), torch.ones((), dtype=features.dtype, device="cpu"), 0
    )
    return Completed(gram, diag, len(diag), clock(run.config.device) - start, [])
