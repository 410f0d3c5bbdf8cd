"""Different images, and left-out predictions of the samples that show them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._typing import FloatArray
from skconvgp.engine import Placement, compute_at, frozen_bytes, to_numpy, to_tensor
from skconvgp.inference import EqualInputs, MergedSamples
from skconvgp.processes._model import Model
from skconvgp.processes._problem import Problem
from skconvgp.processes._process import (
    CodedLabels,
    KeptLeftOut,
    Labels,
    LeftOutValues,
    Process,
    run_beside,
)
from skconvgp.processes._run import Resources, Run
from skconvgp.processes.basis._basis import Basis
from skconvgp.processes.fits._feature_rows import FeatureRows, Observed, whole_groups
from skconvgp.processes.posterior._coefficients import coefficients_of
from skconvgp.processes.posterior._one_more_features import AsksFeatures, ScoredFeatures
from skconvgp.processes.posterior._solutions import LeavesOut, solution_of

AT_ONCE = 256  # images of groups, about
LEAST_SHARE = 1e-12  # of a weight; less is rounding of a difference


@dataclass(frozen=True)
class PatchImages:
    """Different images, and the training samples that show them."""

    rows: NDArray[np.floating]  # (m, d), the images
    samples: NDArray[np.intp]  # (s,), indices of samples, in increasing order
    of: NDArray[np.intp]  # (s,), which image each of these samples shows
    groups: NDArray[np.intp] | None = None  # (m,), of images that are left out together

    @classmethod
    def of_problem(cls, problem: Problem) -> Self:
        """Return the different images of a problem."""
        inputs, rows = problem.inputs, problem.rows
        if inputs.n_inputs < len(rows):
            rows = rows[to_numpy(inputs.first())]
        groups = inputs.input_groups
        known = None if groups is None else to_numpy(groups)
        return cls(rows, np.arange(len(problem.rows)), to_numpy(inputs.of), known)

    def take(self, images: NDArray[np.intp]) -> Self:
        """Return some of the images, with all samples that show them."""
        position = np.full(len(self.rows), -1)
        position[images] = np.arange(len(images))
        is_shown = position[self.of] >= 0
        of = position[self.of[is_shown]]
        groups = None if self.groups is None else self.groups[images]
        return type(self)(self.rows[images], self.samples[is_shown], of, groups)

    def join(self, other: Self) -> Self:
        """Return the images of both; images of the other follow."""
        return type(self)(
            np.vstack([self.rows, other.rows]),
            np.concatenate([self.samples, other.samples]),
            np.concatenate([self.of, len(self.rows) + other.of]),
        )

    def in_precision(self, dtype: torch.dtype) -> Self:
        """Return a copy with images in the precision of tiles."""
        rows = to_numpy(torch.tensor(self.rows, dtype=dtype, device="cpu"))
        return replace(self, rows=rows)

    def merge(
        self, targets: FloatArray, weights: FloatArray, device: torch.device
    ) -> MergedSamples:
        """Return one sample for each image, of all samples (n, k), (n,)."""
        own = (to_tensor(v[self.samples], device) for v in (targets, weights))
        return self.inputs(device).merge(*own)

    def inputs(self, device: torch.device) -> EqualInputs:
        """Return which of the samples have equal inputs."""
        inputs = EqualInputs(to_tensor(self.of, device))
        if self.groups is None:
            return inputs
        return replace(inputs, groups=to_tensor(self.groups[self.of], device))

    def kept(self, order: NDArray[np.intp], n_most: int) -> NDArray[np.intp]:
        """Return the first images of a random order, with groups as a whole."""
        if self.groups is None:
            return np.sort(order[:n_most])
        return whole_groups(order, self.groups, n_most)

    def parts(self) -> list[NDArray[np.intp]]:
        """Return indices of images in parts that have groups as a whole."""
        groups = np.zeros(0) if self.groups is None else self.groups
        order = np.argsort(groups, kind="stable")
        new = np.flatnonzero(np.diff(groups[order])) + 1
        # The last group that begins in a block of images ends its part.
        ends = [new[new <= stop][-1:] for stop in range(AT_ONCE, len(order), AT_ONCE)]
        return np.split(order, np.unique(np.concatenate([new[:0], *ends])))

    def observed(
        self,
        source: Problem | Model,
        codes: NDArray[np.intp] | None,
        device: torch.device,
    ) -> Observed:
        """Return the observations of the samples, among all of a source.

        `codes` (n,) are those of the classes of all, if there are classes.
        """
        samples, inputs = self.samples, self.inputs(device)
        targets, weights, left = (
            to_tensor(values[samples], device)
            for values in (source.targets, source.weights, source.left_out_weights)
        )
        totals = inputs.sum(weights)[inputs.of]
        # Rounding in the difference must not look like weight that stays.
        staying = (totals - left).clamp(min=0.0)
        staying = torch.where(staying > LEAST_SHARE * totals, staying, 0.0)
        own = None if codes is None else to_tensor(codes[samples], device)
        return Observed(targets, weights, staying, inputs, inputs.of, own)


@dataclass(frozen=True)
class ImageRows:
    """Images that are kept; their features are computed again."""

    images: PatchImages
    # (m,), prior variances minus what features explain, if they count; else zeros
    residual_diag: FloatArray

    def knows_variances(self, variance: str) -> bool:  # noqa: ARG002  (by the kernel)
        """Return True: prior variances of images are computed."""
        return True

    def take(self, chosen: NDArray[np.intp]) -> Self:
        """Return some of the images."""
        return type(self)(self.images.take(chosen), self.residual_diag[chosen])

    def scored_features(self, process: Process, run: Run) -> ScoredFeatures:
        """Return the images with their features, and the samples that show them."""
        images, device = self.images, run.config.device
        model, blocks = (
            process.model,
            source_of(process).blocks(images.rows, run, "ask"),
        )
        merged = images.merge(model.targets, model.weights, device)
        return ScoredFeatures(
            torch.cat([block for _, block in blocks]),
            to_tensor(self.residual_diag, device),
            merged.targets,
            merged.weights,
            images.samples,
            images.of,
            images.of if images.groups is None else images.groups[images.of],
            images.groups,
            images.of,
        )

    def join(self, other: Self) -> Self:
        """Return the images of both; images of the other follow."""
        residual_diag = np.concatenate([self.residual_diag, other.residual_diag])
        return type(self)(self.images.join(other.images), residual_diag)


class ImageSource(Protocol):
    """Features of images: of inducing patches, or by covariances with landmarks."""

    @property
    def n_samples(self) -> int:
        """Number r of features."""
        ...

    @property
    def tile_dtype(self) -> torch.dtype:
        """Precision of images that are kept."""
        ...

    @property
    def lift_map(self) -> FloatArray | None:
        """Map (m, r) of the covariances that a basis gives; None if it gives these."""
        ...

    @property
    def basis(self) -> Basis:
        """The basis of a process with these features."""
        ...

    def in_units(self, unit: float) -> Self:
        """Return the features for a mean prior variance `unit`."""
        ...

    def features(self, rows: NDArray[Any], run: Run) -> Tensor:
        """Return features (n, r) of a block of images."""
        ...

    def variances(self, rows: NDArray[Any], run: Run) -> Tensor:
        """Return prior variances (n,) of images, for a unit of 1."""
        ...

    def blocks(
        self, rows: NDArray[Any], run: Run, label: str
    ) -> Iterator[tuple[slice, Tensor]]:
        """Yield blocks of images with their features (b, r); `label` says for what."""
        ...


def source_of(process: Process) -> ImageSource:
    """Return the features of a process whose basis is streamed, in its unit."""
    basis: Any = process.basis
    source: ImageSource = basis.streamed(process.state.lift_map)
    return source


@dataclass(frozen=True)
class ImageFeatures:
    """How features and prior variances of images are computed."""

    source: ImageSource
    unit: float  # mean prior variance, by which variances are divided
    variance: str  # of what features do not explain: with "sor" it does not count
    run: Run

    def rows(
        self,
        features: Tensor,
        images: NDArray[np.floating],
        known: FloatArray | None = None,
    ) -> FeatureRows:
        """Return rows of images (m, d), given their features (m, r).

        What features leave out of their variances (m,) may be known.
        """
        if known is not None:
            return FeatureRows(features, to_tensor(known, features.device))
        if self.variance == "sor":
            return FeatureRows(features, features.new_zeros(len(features)))
        variances = self.source.variances(images, self.run).to(features) / self.unit
        residual_diag = (variances - features.square().sum(1)).clamp(min=0.0)
        return FeatureRows(features, residual_diag)

    def leave_out(
        self,
        images: PatchImages,
        solution: LeavesOut,
        model: Model,
        labels: Labels | None,
        known: FloatArray | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """Return left-out means and variances of the samples of images.

        Features are computed a block of images at a time. `known` is as in `rows`.
        """
        codes = labels.codes if isinstance(labels, CodedLabels) else None
        observed = images.observed(model, codes, self.run.config.device)
        leaving, found = solution.leaving(observed), []
        for part, block in self._blocks(images):
            of_part = None if known is None else known[part]
            rows = self.rows(block.to(torch.float64), images.rows[part], of_part)
            at_rows = solution.at_rows(rows, leaving, part)
            found.append((*at_rows, rows.residual_diag))
        mean, var, residual_diag = map(torch.cat, zip(*found, strict=True))
        if images.groups is not None:
            back = np.argsort(np.concatenate(images.parts()))
            mean, var, residual_diag = mean[back], var[back], residual_diag[back]
        return solution.left_out((mean, var), residual_diag, leaving, observed.of)

    def _blocks(self, images: PatchImages) -> Iterator[tuple[Any, Tensor]]:
        """Yield features of images, a part at a time, with groups as a whole."""
        if images.groups is None:
            yield from self.source.blocks(images.rows, self.run, "leave out")
            return
        for part in images.parts():
            yield part, self.source.features(images.rows[part], self.run)


@dataclass(frozen=True)
class PatchLeftOut(AsksFeatures, KeptLeftOut):
    """Left-out predictions that are kept of some images, and computed of all others."""

    images: PatchImages | None = None  # all training images; None if nothing is missing

    def values(
        self, process: Process, resources: Resources, *, is_subset_enough: bool
    ) -> LeftOutValues:
        """Return the predictions; features of images are computed again."""
        images, needed = self.images, frozen_bytes(process.state)
        if images is None or is_subset_enough:
            return super().values(process, resources, is_subset_enough=is_subset_enough)

        def leave_out_at(placement: Placement) -> tuple[FloatArray, FloatArray]:
            run = run_beside(resources, placement, needed)
            variance = coefficients_of(process).variance
            own = source_of(process), process.model.mean_diag, variance
            solution = solution_of(process, placement.device)
            return ImageFeatures(*own, run).leave_out(
                images, solution, process.model, process.labels
            )

        found = compute_at(resources.placement(needed), leave_out_at)
        return LeftOutValues(np.arange(len(self.mean)), *found, self.has_noise)
