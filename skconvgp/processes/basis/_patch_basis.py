"""PatchBasis: a basis whose covariances are products of the features of patches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._config import ComputeConfig
from skconvgp._typing import FloatArray, Rows
from skconvgp.backends import ResponsesChoice
from skconvgp.engine import (
    for_each,
    place,
    place_rows,
    slices,
    stream_rows,
    to_numpy,
    to_tensor,
)
from skconvgp.exceptions import TileMemoryError
from skconvgp.kernels import Kernel
from skconvgp.processes._run import FEATURES, IMAGES, Run
from skconvgp.processes.basis._basis import Basis, BasisReport, NewRows, Stream
from skconvgp.processes.basis._folded import FoldedBasis, FoldedPatches
from skconvgp.processes.basis._inducing import Inducing
from skconvgp.processes.basis._plain import KernelBasis, report_of

MOST_IMAGES, ON_GPU = 32, 1024  # whose patches a worker, or a GPU, holds at once
COPIES = 3  # of patches, of pairs of patches and of features, temporaries included
MOST_ROWS = 1024  # of features that are held at once


@dataclass(frozen=True)
class PatchBasis(Basis):
    """Features of images, which stand for covariances with inducing variables.

    Parameters
    ----------
    inducing : Inducing
        Gives the features.
    exact : KernelBasis
        The kernel, for prior variances and covariances of new samples.
    """

    inducing: Inducing
    exact: KernelBasis

    is_projection: ClassVar[bool] = True  # of the kernel, in exact arithmetic
    gives_features: ClassVar[bool] = True
    is_streamed: ClassVar[bool] = True
    lift_map: ClassVar[None] = None  # no covariances are taken to features

    @property
    def kernel(self) -> Kernel:
        """The kernel."""
        return self.exact.kernel

    @property
    def n_samples(self) -> int:
        """Number of features, with which new samples are compared."""
        return self.inducing.n_features

    @property
    def kernel_basis(self) -> KernelBasis:
        """The kernel, without samples."""
        return self.exact

    @property
    def tile_dtype(self) -> torch.dtype:
        """Precision of features."""
        return self.exact.tile_dtype

    @property
    def basis(self) -> Self:
        """The basis of a process with these features."""
        return self

    def streamed(self, lift_map: object) -> Self:  # noqa: ARG002  (gives features)
        """Return the features of images."""
        return self

    def with_dtype(self, dtype: str) -> Self:
        """Return the basis with another precision of features."""
        return replace(self, exact=replace(self.exact, dtype=dtype))

    def fold(self, dual: FloatArray) -> FoldedBasis:
        """Return latent means by responses, given weights (r, k) of features."""
        part = FoldedPatches.of(None, self, dual, is_averaged=False)
        # Pixels are averaged by the part.
        return FoldedBasis.of(replace(self.exact, pool=1.0), (part,), dual)

    def choice(self, run: Run) -> ResponsesChoice:
        """Return the backend of responses to patches."""
        device = run.config.device
        return self.inducing.choice(run.backend, device, self.tile_dtype)

    def precision(self, config: ComputeConfig) -> torch.dtype:
        """Return the coarsest precision that features and sums have gone through."""
        return self.exact.precision(config)

    def in_units(self, unit: float) -> Self:
        """Return the prior with features for a mean prior variance `unit`."""
        return replace(self, inducing=self.inducing.in_units(unit))

    def features(self, rows: Rows, run: Run) -> Tensor:
        """Return features (n, r) of a block of rows."""
        return self.mean_features([rows], run)

    def mean_features(self, versions: Sequence[Rows], run: Run) -> Tensor:
        """Return means (n, r) of the features of versions of images, as blocks of rows.

        They cost less than features of each version, as the whitening is linear.
        """
        evaluate = partial(self.inducing.features, dtype=run.config.solve_dtype)
        return torch.cat(self.in_tiles(evaluate, versions, run))

    def variances(self, rows: Rows, run: Run) -> Tensor:
        """Return prior variances (n,) of rows, in the precision of solves."""
        evaluate = self.inducing.variances
        variances = torch.cat(self.in_tiles(evaluate, [rows], run))
        return variances.to(run.config.solve_dtype)

    def blocks(
        self, rows: Rows, run: Run, label: str
    ) -> Iterator[tuple[slice, Tensor]]:
        """Yield blocks of rows with their features (b, r), in solve precision."""
        size = min(MOST_ROWS, self.rows_at_once(run.config))
        show = run.progress(FEATURES, unit=IMAGES, is_fit=label == "fit")
        show(0, len(rows))
        rows = place_rows(rows, run.config.device)
        for part in slices(len(rows), size):
            yield part, self.features(rows[part], run)
            show(part.stop, len(rows))

    def report(self, run: Run) -> BasisReport:
        """Return the backend of responses to patches."""
        return report_of(self.choice(run), self.tile_dtype)

    def gram_of(
        self, rows: NDArray[Any], run: Run, unit: float, dtype: str | None = None
    ) -> Tensor:
        """Return covariances (n1, n1) of other images, by the kernel."""
        return self.exact.gram_of(rows, run, unit, dtype)

    def stream(
        self,
        new: NewRows,
        run: Run,
        width: int = 0,  # noqa: ARG002  (few rows are held at once)
        *,
        needs_diag: bool = True,
    ) -> Stream:
        """Yield features (b, r) and prior variances (b,) of new samples.

        A variance takes P^2 evaluations of the base kernel for an image of P patches.
        """
        rows = place_rows(new.rows, run.config.device)
        for part, features in self.blocks(rows, run, "predict"):
            if needs_diag:
                yield features, self.variances(rows[part], run)
            else:
                yield features, features.new_zeros(len(features))

    def covariance(self, rows: Rows, run: Run, unit: float) -> Tensor:
        """Return covariances (n1, n1) of new samples with each other, in a unit."""
        return self.exact.covariance(rows, run, unit)

    def pull(self, rows: NDArray[Any], sums: FloatArray, run: Run) -> FloatArray:
        """Return derivatives (n1, d) by new samples of sums over features."""
        images, device = self.exact.images(rows), run.config.device
        parts = []
        for part in slices(len(rows), self.images_at_once(run.config)):
            given = images[part].to(device, torch.float64).requires_grad_()
            features = self.inducing.features(given, backend="torch", dtype=given.dtype)
            factors = to_tensor(sums[part], device, torch.float64)
            (gradient,) = torch.autograd.grad((features * factors).sum(), given)
            parts.append(gradient)
        whole = self.exact.unpooled(torch.cat(parts), rows)
        return to_numpy(whole).reshape(len(rows), -1)

    def images_at_once(self, config: ComputeConfig) -> int:
        """Return how many images a worker reads at once.

        Raises
        ------
        TileMemoryError
            If the memory budget does not allow one.
        """
        an_image, shared = (n * config.dtype.itemsize for n in self.inducing.n_numbers)
        an_image += self.n_samples * config.solve_dtype.itemsize
        share = config.memory_budget // config.n_workers
        n_images = (share // COPIES - shared) // an_image
        if n_images < 1:
            n_workers = config.n_workers
            fewer = "use a smaller `n_jobs`, " if n_workers > 1 else ""
            raise TileMemoryError(
                f"The patches of a single image need {COPIES * (shared + an_image)} "
                f"bytes{for_each(n_workers, 'workers')} and `memory_budget` allows "
                f"{share}: raise `memory_budget`, {fewer}or pass a PatchKernel "
                "with a larger `stride` or, to an estimator of patches, a smaller "
                "`n_inducing` or `n_locations`."
            )
        return min(MOST_IMAGES if config.device.type == "cpu" else ON_GPU, n_images)

    def rows_at_once(self, config: ComputeConfig) -> int:
        """Return how many rows of features are held at once."""
        itemsize = config.solve_dtype.itemsize
        return stream_rows(self.n_samples, itemsize, config.memory_budget)

    def in_tiles(
        self, evaluate: Any, versions: Sequence[Rows], run: Run
    ) -> list[Tensor]:
        """Return the results of tiles of rows of one or more versions, in their order.

        `evaluate` takes as many blocks of images as there are versions.
        """
        config = run.config
        images = [place(self.exact.images(rows), config.device) for rows in versions]
        n_images = self.images_at_once(config)
        jobs = (
            partial(
                _tile,
                evaluate,
                i,
                [of_version[part] for of_version in images],
                config.device,
                self.tile_dtype,
                run.backend,
            )
            for i, part in enumerate(slices(len(images[0]), n_images))
        )
        return [
            values for _, values in sorted(run.runner(jobs), key=lambda one: one[0])
        ]


def _tile(
    evaluate: Any,
    index: int,
    versions: list[Tensor],
    device: torch.device,
    dtype: torch.dtype,
    backend: str,
) -> tuple[int, Tensor]:
    with torch.no_grad():
        given = [images.to(device, dtype) for images in versions]
        return index, evaluate(*given, backend=backend)
