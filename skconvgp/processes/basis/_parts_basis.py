"""PartsBasis: the weighted sum of parts, each of them in its unit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._config import ComputeConfig
from skconvgp._typing import FloatArray, Rows
from skconvgp.backends import BackendChoice, ResponsesChoice
from skconvgp.engine import (
    MatrixOracle,
    place,
    place_rows,
    slices,
    stream_rows,
    to_numpy,
)
from skconvgp.processes._run import COVARIANCES, IMAGES, Run
from skconvgp.processes.basis._basis import Basis, BasisReport, NewRows, Stream
from skconvgp.processes.basis._folded import FoldedBasis
from skconvgp.processes.basis._landmark_parts import LandmarkParts
from skconvgp.processes.basis._parts import Part
from skconvgp.processes.basis._plain import KernelBasis, report_of
from skconvgp.processes.basis._quick_patches import quick_parts
from skconvgp.processes.basis._sight import Sight, shared_values, source_of
from skconvgp.processes.basis._views import require_slopes

VERSIONS = 2  # of an image: as it is, and its mirror image


@dataclass(frozen=True)
class PartsBasis(Basis):
    """The weighted sum of parts."""

    # The training images as they were given, or landmarks among them; its kernel is
    # not evaluated.
    images: KernelBasis
    parts: tuple[Part, ...]
    factors: FloatArray  # (p,), weight of each part, divided by its unit
    computed: Tensor | None = None  # (n, n), the Gram matrix, during a fit

    is_streamed: ClassVar[bool] = True  # if its images are landmarks
    is_joined: ClassVar[bool] = True

    @property
    def n_samples(self) -> int:
        """Number of training images."""
        return self.images.n_samples

    @property
    def kernel_basis(self) -> KernelBasis:
        """The kernel of the first part."""
        return self.parts[0].kernel_basis

    @property
    def pool(self) -> float:
        """Side of the squares of pixels of the images as they were given."""
        return self.images.pool

    @property
    def kept_rows(self) -> NDArray[Any]:
        """The samples (n, d)."""
        return self.images.rows

    @property
    def kept_indices(self) -> NDArray[np.intp]:
        """Their indices among the samples that `fit` was given."""
        return self.images.indices

    @property
    def tile_dtype(self) -> torch.dtype:
        """Coarsest precision of tiles and of features."""
        dtypes = [part.kernel_basis.tile_dtype for part in self.parts]
        return torch.float32 if torch.float32 in dtypes else torch.float64

    def precision(self, config: ComputeConfig) -> torch.dtype:
        """Return the coarsest precision that a Gram matrix has gone through."""
        dtypes = [part.precision(config) for part in self.parts]
        return torch.float32 if torch.float32 in dtypes else torch.float64

    def choice(self, run: Run) -> BackendChoice | ResponsesChoice:
        """Return the backend of the slowest part."""
        choices = [part.choice(run) for part in self.parts]
        return max(choices, key=lambda one: one.name == "torch")

    def with_gram(self, gram: Tensor) -> Self:
        """Return the basis with its Gram matrix, for a fit."""
        return replace(self, computed=gram)

    def streamed(self, lift_map: FloatArray) -> LandmarkParts:
        """Return features of images by a map (n, n) of covariances, as landmarks'."""
        dtypes = [part.kernel_basis.tile_dtype for part in self.parts]
        is_single = all(dtype == torch.float32 for dtype in dtypes)
        return LandmarkParts(self, lift_map, is_single)

    def cached_oracle(self, run: Run) -> MatrixOracle:
        """Return the oracle that reads the Gram matrix, which is computed before."""
        assert self.computed is not None
        return MatrixOracle(self.computed, run.config)

    def report(self, run: Run) -> BasisReport:
        """Return the backend of the slowest part, and the precision of the first."""
        first = self.parts[0].kernel_basis
        return report_of(self.choice(run), first.tile_dtype)

    def stream(
        self,
        new: NewRows,
        run: Run,
        width: int = 0,  # noqa: ARG002  (that of the parts is what counts)
        *,
        needs_diag: bool = True,
    ) -> Stream:
        """Yield covariances (b, n) and prior variances (b,) of new images."""
        show = run.progress(COVARIANCES, unit=IMAGES)
        show(0, len(new))
        rows = place_rows(new.rows, run.config.device)
        for block in slices(len(new), self.rows_at_once(run.config)):
            sight = self._sight(rows[block], run)
            cross = torch.zeros(
                (len(sight.images), self.n_samples),
                dtype=run.config.solve_dtype,
                device=run.config.device,
            )
            diag = cross.new_zeros(len(cross))
            for part, factor in self._in_turn:
                of_part, variances = part.cross(sight, run, needs_diag=needs_diag)
                cross.add_(of_part, alpha=factor)
                diag.add_(variances, alpha=factor)
            yield cross, diag
            show(block.stop, len(new))

    def joined(self, rows: NDArray[Any], run: Run) -> tuple[Self, Tensor]:
        """Return it with further images, and covariances (n1, m + n1) of these."""
        every, quiet = self, run.quiet()
        for block in slices(len(rows), self.rows_at_once(run.config)):
            sight = self._sight(rows[block], run)
            parts = tuple(part.joined(sight, quiet) for part in every.parts)
            images = every.images.followed_by(rows[block])
            every = replace(every, images=images, parts=parts)
        size = len(rows), every.n_samples
        dtype, device = run.config.solve_dtype, run.config.device
        own = torch.zeros(size, dtype=dtype, device=device)
        for part, factor in every._in_turn:
            own.add_(part.gram(quiet)[self.n_samples :], alpha=factor)
        return every, own

    def variances(self, rows: Rows, run: Run) -> Tensor:
        """Return prior variances (n1,) of new images (n1, d)."""
        quiet, found = run.quiet(), []
        rows = place_rows(rows, run.config.device)
        for block in slices(len(rows), self.rows_at_once(run.config)):
            sight = self._sight(rows[block], run)
            of_parts = [
                part.variances(sight, quiet).to(run.config.solve_dtype) * factor
                for part, factor in self._in_turn
            ]
            found.append(torch.stack(of_parts).sum(0))
        return torch.cat(found)

    def covariance(self, rows: Rows, run: Run, unit: float) -> Tensor:
        """Return covariances (n1, n1) of new images with each other, in a unit."""
        sight = self._sight(rows, run)
        return torch.stack(
            [
                part.covariance(sight, run) * (factor / unit)
                for part, factor in self._in_turn
            ]
        ).sum(0)

    def pull(self, rows: NDArray[Any], sums: FloatArray, run: Run) -> FloatArray:
        """Return the derivatives (n1, d) by new images of sums over covariances."""
        for part in self.parts:
            require_slopes(part.view)
        images = self.images.images(rows)
        gradients = [
            factor * part.pull(images, sums, run).to(torch.float64)
            for part, factor in zip(self.parts, self.factors.tolist(), strict=True)
        ]
        whole = self.images.unpooled(torch.stack(gradients).sum(0), rows)
        return to_numpy(whole).reshape(len(rows), -1)

    def fold(self, dual: FloatArray) -> FoldedBasis | None:
        """Return latent means by parts, if some of them are patches."""
        if all(part.compares_images for part in self.parts):
            return None
        parts = tuple(part.fold(dual * factor) for part, factor in self._in_turn)
        return FoldedBasis.of(self.images, parts, dual)

    def quick(self) -> Self:
        """Return the sum with features in the precision of responses."""
        parts, factors = quick_parts(self.parts, self.factors)
        return replace(self, parts=parts, factors=factors)

    def rows_at_once(self, config: ComputeConfig) -> int:
        """Return how many new images are looked at at once."""
        shape = self.images.map_shape
        n_shared = max(shared_values(part.view, shape) for part in self.parts)
        n_own = max(part.n_values for part in self.parts)
        width = self.n_samples + n_own + VERSIONS * n_shared
        return stream_rows(width, config.solve_dtype.itemsize, config.memory_budget)

    @property
    def _in_turn(self) -> list[tuple[Part, float]]:
        """Parts with their factors; those that share a source follow each other."""
        pairs = list(zip(self.parts, self.factors.tolist(), strict=True))
        sources = [source_of(part.view) for part in self.parts]
        order = sorted(range(len(pairs)), key=lambda i: (sources.index(sources[i]), i))
        return [pairs[i] for i in order]

    def _sight(self, rows: Rows, run: Run) -> Sight:
        """Return new images (n1, d), for parts that look at them in turn."""
        return Sight(place(self.images.images(rows), run.config.device))


def unit_of(gram: Tensor, weights: Tensor) -> float:
    """Return the mean prior variance of functions minus their weighted sample mean.

    If all images are alike, it is their mean variance.
    """
    share = weights / weights.sum()
    terms = share @ gram.diagonal(), share @ gram @ share
    whole, of_mean = map(float, torch.stack(terms).tolist())
    around = whole - of_mean
    return around if around > whole * torch.finfo(torch.float32).eps else whole
