"""Images whose features are read block by block: sums over all, some of them kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from skconvgp._tensors import int_range
from skconvgp.engine import rows_to_tensor, to_numpy, to_tensor
from skconvgp.inference import (
    ClassMoments,
    ClassSums,
    EqualInputs,
    FeatureSums,
    MergedSamples,
    mean_variance,
)
from skconvgp.linalg import Moments, row_factor
from skconvgp.processes._facts import Fact, TooFewPatches
from skconvgp.processes._grown import growth_of
from skconvgp.processes._model import Model
from skconvgp.processes._problem import Problem
from skconvgp.processes._process import Growth, KeptLeftOut, Labels, Process
from skconvgp.processes._run import Run, clock
from skconvgp.processes.basis._basis import Basis
from skconvgp.processes.basis._landmark_parts import MANY_IMAGES
from skconvgp.processes.fits._feature_rows import (
    EVERY,
    FeatureRows,
    Observed,
    Reservoir,
    draw_keys,
)
from skconvgp.processes.fits._label_choice import CHOOSING, LabelledRows
from skconvgp.processes.fits._label_models import spread_over_classes
from skconvgp.processes.fits._patch_noise import (
    LEAST_NOISE,
    at_noise,
    in_few_coordinates,
    search_noise,
)
from skconvgp.processes.posterior._left_out_images import (
    ImageFeatures,
    ImageRows,
    ImageSource,
    PatchImages,
    PatchLeftOut,
)
from skconvgp.processes.posterior._solutions import FeatureSolution, leave_out

LEAST_EXPLAINED = 0.5  # of the prior variance; defaults explain .8 and more
# Images whose features are kept, and whose leave-one-out predictions judge the noise
# and calibrate. Those of all would take as long as the fit, mostly for variances.
KEPT_IMAGES = 2000
VARIANCE_IMAGES = 256  # whose mean prior variance is the unit


@dataclass(frozen=True)
class ImageReading:
    """The different images of a problem, and the features of those that are kept.

    Equal images are drawn and left out together, so that weights stand for repetitions.
    """

    problem: Problem
    images: PatchImages  # all of them
    data: MergedSamples  # their targets and weights
    keys: NDArray[np.floating]  # (m,), random
    kept: NDArray[np.intp]  # (q,), images with the smallest keys, in increasing order
    reader: ImageFeatures
    explained: float  # share of the prior variance by features; 1 if not estimated
    rows: FeatureRows  # of images that are kept
    totals: Any  # sums over all images, for a noise of 1, or over those of each class
    gram_seconds: float

    keeps_sums: ClassVar[bool] = False  # they follow from the factor
    least_noise: ClassVar[float] = LEAST_NOISE

    @classmethod
    def of(
        cls,
        problem: Problem,
        source: ImageSource,
        run: Run,
        variance: str,
        generator: Generator,
        *,
        has_labels: bool = False,
        landmarks: NDArray[np.intp] | None = None,
        before: Process | None = None,
    ) -> Self:
        """Read the images of samples, which may follow the images of a process.

        A generator draws images whose features are kept. With labels that each give
        targets and noise, sums are over the images of each class. Landmarks are given
        by their numbers among the different images; other images are kept first.
        """
        device = run.config.device
        start, images = clock(device), PatchImages.of_problem(problem)
        data = images.merge(problem.targets, problem.weights, device)
        n_before = 0 if before is None else len(before.model.targets)
        keys = draw_keys(n_before, len(images.rows), generator)
        if landmarks is not None:
            keys[landmarks] += 1.0  # keys are below 1
        order = keys.argsort(kind="stable")
        if before is None:
            few = np.sort(order[:VARIANCE_IMAGES])
            weights = data.weights[few]
            source, unit, explained = _unit_of(source, images.rows[few], weights, run)
        else:
            unit, explained = before.model.mean_diag, 1.0
        kept = images.kept(order, KEPT_IMAGES)
        reader = ImageFeatures(source, unit, variance, run)
        of_classes = _class_weights(images, problem, device) if has_labels else None
        totals, features = _read(images, data, of_classes, kept, source, run)
        rows = reader.rows(features, images.rows[kept])
        found = rows, totals, clock(device) - start
        return cls(problem, images, data, keys, kept, reader, explained, *found)

    @property
    def basis(self) -> Basis:
        """The basis of a process with these features."""
        return self.reader.source.basis

    @property
    def mean_diag(self) -> float:
        """The unit: mean prior variance."""
        return self.reader.unit

    @property
    def variance(self) -> str:
        """Treatment of the variance that features do not explain."""
        return self.reader.variance

    @property
    def device(self) -> torch.device:
        """Device of targets and weights."""
        return self.data.weights.device

    @property
    def lift_map(self) -> Tensor | None:
        """As in `CoefficientState`."""
        lift_map = self.reader.source.lift_map
        return None if lift_map is None else to_tensor(lift_map, self.device)

    @property
    def n_pairs(self) -> int:
        """Number of pairs of an image and a feature."""
        return len(self.images.rows) * self.reader.source.n_samples

    @property
    def facts(self) -> Sequence[Fact]:
        """A fact if much of the prior variance is ignored."""
        has_noise = isinstance(self.totals, FeatureSums)
        is_ignored = self.variance == "sor" and self.explained < LEAST_EXPLAINED
        return [TooFewPatches(self.explained)] if has_noise and is_ignored else []

    @property
    def keeps_all(self) -> bool:
        """Whether the features of all images are kept."""
        return len(self.kept) == len(self.images.rows)

    @cached_property
    def subset(self) -> PatchImages:
        """The images whose features are kept."""
        return self.images.take(self.kept)

    def observed(self, dtype: torch.dtype) -> Observed:  # noqa: ARG002  (is double)
        """Return the observations of the samples of images that are kept."""
        codes, device = self.problem.codes, self.device
        return self.subset.observed(self.problem, codes, device)

    def sums(self, noise: float) -> FeatureSums:
        """Return sums over the features of all images."""
        return at_noise(self.totals, noise)

    def class_sums(self) -> ClassSums:
        """Return sums over the images of each class."""
        totals: ClassSums = self.totals
        return totals

    def choose_noise(self, criterion: str, amplitude: Tensor | None) -> float:
        """Return the noise that is best by a criterion, for an amplitude (k,)."""
        data = self.data.take(self.kept)
        judged = self.totals, self.rows.features, data
        if self.keeps_all:
            judged = *in_few_coordinates(*judged), data
        groups = self.subset.groups
        own = None if groups is None else to_tensor(groups, self.device)
        return search_noise(*judged, criterion, amplitude, own)

    def labelled(self) -> LabelledRows:
        """Return the images, with each label that they have, for an amplitude."""
        weights = self._class_weights
        images, codes = map(torch.as_tensor, np.nonzero(to_numpy(weights)))
        chosen = spread_over_classes(to_numpy(codes), CHOOSING)
        images, codes = images[chosen], codes[chosen]
        inputs = EqualInputs(int_range(len(self.kept))).take(images)
        features, own = self.rows.features[images], weights[images, codes]
        return LabelledRows(features, to_numpy(codes), own, inputs)

    def judged(self, sums: ClassSums) -> tuple[ClassSums, FeatureRows, slice]:
        """Return sums, and rows and samples whose left-out loss chooses a likelihood.

        If all images are kept there are at most as many features as images: predictions
        of the images depend on their features by products alone.
        """
        features = self.rows.features
        if not self.keeps_all or len(features) >= features.shape[1]:
            return sums, self.rows, EVERY
        features, weights = row_factor(features), self._class_weights
        moments = torch.stack([features.mT * w @ features for w in weights.mT])
        few = ClassSums(moments, features.mT @ weights, weights.sum(0))
        return few, replace(self.rows, features=features), EVERY

    @property
    def _class_weights(self) -> Tensor:
        """Weights (q, c), for each class, of the samples of images that are kept."""
        return _class_weights(self.subset, self.problem, self.device)

    def left_out(
        self,
        solution: FeatureSolution,
        model: Model,
        labels: Labels | None,
        generator: Generator | None,  # noqa: ARG002  (images are drawn already)
        before: Process | None,
    ) -> tuple[KeptLeftOut, Growth]:
        """Return left-out predictions, and the sums for further images."""
        n, dtype = len(self.problem.rows), self.reader.source.tile_dtype
        n_before = 0 if before is None else len(before.model.targets)
        images = self.subset.in_precision(dtype)
        images = replace(images, samples=n_before + images.samples)
        rows = ImageRows(images, to_numpy(self.rows.residual_diag))
        reservoir, coefficients = Reservoir(self.keys[self.kept], rows), None
        if self.reader.source.lift_map is not None:
            coefficients = to_numpy(solution.coefficients)
        if before is None:
            observed = self.observed(solution.dtype)
            leaving, of = solution.leaving(observed), observed.of
            mean, var = found = leave_out(solution, self.rows, leaving, of)
            others = None if self.keeps_all else self.images.in_precision(dtype)
            nothing = PatchLeftOut(mean[:0], var[:0], solution.has_noise, images=others)
            kept_alone = self.subset.samples, found
            left_out = nothing.followed_by(n, kept_alone)
            return left_out, Growth(reservoir, coefficients=coefficients)
        reservoir = growth_of(before).reservoir.join(reservoir, KEPT_IMAGES)
        kept, known = reservoir.rows.images, reservoir.rows.residual_diag
        found = self.reader.leave_out(kept, solution, model, labels, known)
        earlier: Any = before.left_out
        left_out = earlier.followed_by(n, (kept.samples, found))
        # Those of other images are not computed later: more samples are known then.
        left_out = replace(left_out, images=None)
        return left_out, Growth(reservoir, coefficients=coefficients)


def _unit_of(
    source: ImageSource, rows: NDArray[np.floating], weights: Tensor, run: Run
) -> tuple[ImageSource, float, float]:
    """Return features in units of their mean variance, that, and the explained share.

    They are estimated from images (v, d) with weights (v,).
    """
    diag = source.variances(rows, run)
    unit = mean_variance(diag, weights.to(diag))
    source = source.in_units(unit)
    squares = source.features(rows, run).to(weights).square().sum(1)
    return source, unit, min(1.0, float(weights @ squares / weights.sum()))


def _class_weights(
    images: PatchImages, problem: Problem, device: torch.device
) -> Tensor:
    """Return the weight (m, c) of the samples of each class that show an image."""
    codes = rows_to_tensor(problem.class_codes)[images.samples]
    one_hot = torch.nn.functional.one_hot(codes, len(problem.scale))
    weights = rows_to_tensor(problem.weights)[images.samples]
    of_classes = (one_hot * weights[:, None]).to(device)
    return images.inputs(device).sum(of_classes)


def _read(
    images: PatchImages,
    data: MergedSamples,
    of_classes: Tensor | None,
    kept: NDArray[np.intp],
    source: ImageSource,
    run: Run,
) -> tuple[FeatureSums | ClassSums, Tensor]:
    """Return sums over images, for a noise of 1, and features (q, r) that are kept.

    With weights (m, c) of classes they are sums over the images of each class.
    """
    weights, r = data.weights, source.n_samples
    dtype = torch.float32 if len(images.rows) >= MANY_IMAGES else torch.float64
    features = torch.empty((len(kept), r), dtype=torch.float64, device=weights.device)
    where = to_tensor(kept, weights.device)
    by_class: ClassMoments | None = None
    if of_classes is not None:
        by_class = ClassMoments.empty(of_classes.shape[1], r, dtype, weights.device)
    whole: Any = None
    for part, block in source.blocks(images.rows, run, "fit"):
        if by_class is not None and of_classes is not None:
            by_class.add(block, of_classes[part])
        else:
            n_targets = data.targets.shape[1]
            whole = whole or Moments.around(block.mean(0), n_targets, dtype)
            whole.add(block, data.targets[part], weights[part])
        first, last = np.searchsorted(kept, [part.start, part.stop])
        features[first:last] = block[where[first:last] - part.start].to(features)
    if by_class is not None:
        return by_class.finish(), features
    moment, response = whole.finish()
    energy = (data.targets.square() * weights[:, None] + data.scatter).sum(0)
    no_noise = torch.zeros_like(whole.weight)
    return FeatureSums(moment, response, energy, no_noise, whole.weight), features
