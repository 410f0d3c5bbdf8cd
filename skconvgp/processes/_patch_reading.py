"""One pass over images: sums over their features, some of which are kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import torch
from torch import Generator, Tensor

from skconvgp._tensors import integers
from skconvgp.engine import rows_to_tensor, to_numpy
from skconvgp.inference import (
    ClassMoments,
    ClassSums,
    FeatureSums,
    MergedSamples,
    mean_variance,
)
from skconvgp.linalg import Moments
from skconvgp.processes._patch_images import (
    ImageFeatures,
    PatchImages,
    PatchReservoir,
    draw_keys,
)
from skconvgp.processes._patch_prior import PatchPrior
from skconvgp.processes._problem import Problem
from skconvgp.processes._run import Run

MANY_IMAGES = 5000  # whose products are summed in single precision
VARIANCE_IMAGES = 256  # whose mean prior variance is the unit


@dataclass(frozen=True)
class Reading:
    """The different images of a problem, and those whose features are kept.

    Equal images are drawn and left out together, so that weights stand for repetitions.

    Parameters
    ----------
    problem : Problem
        The samples that show the images.
    images : PatchImages
        The images.
    data : MergedSamples
        Their targets and weights.
    keys : Tensor of shape (m,)
        Random keys.
    kept : Tensor of shape (q,)
        Indices of the images with the smallest keys, in increasing order.
    """

    problem: Problem
    images: PatchImages
    data: MergedSamples
    keys: Tensor
    kept: Tensor

    @classmethod
    def of(
        cls,
        problem: Problem,
        n_before: int,
        n_kept: int,
        generator: Generator,
        device: torch.device,
    ) -> Self:
        """Return the images of samples that follow earlier ones.

        Parameters
        ----------
        problem : Problem
            The samples.
        n_before : int
            Number of earlier samples.
        n_kept : int
            Largest number of images whose features are kept.
        generator : torch.Generator
            Draws these images.
        device : torch.device
            Device of targets and weights.
        """
        images = PatchImages.of_problem(problem)
        data = images.merge(problem.targets, problem.weights, device)
        keys = draw_keys(n_before, len(images.rows), generator)
        kept = keys.argsort()[:n_kept].sort().values
        return cls(problem, images, data, keys, kept)

    @property
    def keeps_all(self) -> bool:
        """Whether the features of all images are kept."""
        return len(self.kept) == len(self.images.rows)

    @cached_property
    def subset(self) -> PatchImages:
        """The images whose features are kept."""
        return self.images.take(to_numpy(self.kept))

    def known(
        self, features: Tensor, prior: PatchPrior, unit: float, variance: str, run: Run
    ) -> ImageFeatures:
        """Return the images that are kept, given their features.

        Parameters
        ----------
        features : Tensor of shape (q, r)
            The features.
        prior : PatchPrior
            Gives prior variances.
        unit : float
            Mean prior variance, by which they are divided.
        variance : {"dtc", "sor"}
            What becomes of the variance that the features leave out.
        run : Run
            How to compute.
        """
        data = self.data.take(self.kept.to(features.device))
        rows = self.subset.rows
        return ImageFeatures.of(features, data, rows, prior, unit, variance, run)

    def reservoir(
        self, n_before: int, residual_diag: Tensor, dtype: torch.dtype
    ) -> PatchReservoir:
        """Return the images that are kept, in a precision, for later samples.

        Parameters
        ----------
        n_before : int
            Number of earlier samples.
        residual_diag : Tensor of shape (q,)
            What features leave out of their variances.
        dtype : torch.dtype
            The precision.
        """
        images = self.subset.in_precision(dtype)
        images = replace(images, samples=n_before + images.samples)
        keys = self.keys[self.kept].to(torch.float64)
        return PatchReservoir(images, to_numpy(keys), to_numpy(residual_diag))

    def class_weights(self, n_classes: int) -> Tensor:
        """Return the weight (m, c) of the samples of each class that show an image."""
        codes = self.problem.class_codes
        one_hot = torch.nn.functional.one_hot(rows_to_tensor(codes), n_classes)
        weights = to_numpy(one_hot) * self.problem.weights[:, None]
        return self.images.sum(weights, self.data.weights.device)

    def read(
        self, prior: PatchPrior, run: Run, add: Callable[[slice, Tensor], None]
    ) -> Tensor:
        """Give away all features block by block; return those (q, r) that are kept."""
        shape, device = (len(self.kept), prior.n_samples), self.data.weights.device
        features = torch.empty(shape, dtype=torch.float64, device=device)
        for part, block in prior.blocks(self.images.rows, run, "fit"):
            add(part, block)
            ends = integers([part.start, part.stop])
            first, last = torch.searchsorted(self.kept, ends)
            features[first:last] = block[self.kept[first:last] - part.start].to(
                features
            )
        return features

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the products of a block of features."""
        is_many = len(self.images.rows) >= MANY_IMAGES
        return torch.float32 if is_many else torch.float64


def unit_of(
    reading: Reading, prior: PatchPrior, run: Run
) -> tuple[PatchPrior, float, float]:
    """Return the prior in units of its mean variance, that, and the explained share.

    They are estimated from at most `VARIANCE_IMAGES` of the images.
    """
    order = reading.keys.argsort()
    drawn = to_numpy(order[:VARIANCE_IMAGES].sort().values)
    rows, weights = reading.images.rows[drawn], reading.data.weights[drawn]
    diag = prior.variances(rows, run)
    mean_diag = mean_variance(diag, weights.to(diag))
    prior = prior.in_units(mean_diag)
    squares = prior.features(rows, run).to(weights).square().sum(1)
    explained = min(1.0, float(weights @ squares / weights.sum()))
    return prior, mean_diag, explained


def sum_images(
    reading: Reading, prior: PatchPrior, run: Run
) -> tuple[FeatureSums, Tensor]:
    """Return sums for a noise of 1, and features of images that are kept.

    Parameters
    ----------
    reading : Reading
        The images.
    prior : PatchPrior
        Gives the features.
    run : Run
        How to compute.
    """
    data = reading.data
    targets, weights = data.targets, data.weights
    moments: list[Moments] = []

    def add(part: slice, block: Tensor) -> None:
        if not moments:
            n_targets, dtype = targets.shape[1], reading.dtype
            moments.append(Moments.around(block.mean(0), n_targets, dtype))
        moments[0].add(block, targets[part], weights[part])

    features = reading.read(prior, run, add)
    moment, response = moments[0].finish()
    energy = (targets.square() * weights[:, None] + data.scatter).sum(0)
    total = moments[0].weight
    sums = FeatureSums(moment, response, energy, torch.zeros_like(total), total)
    return sums, features


def sum_classes(
    reading: Reading, n_classes: int, prior: PatchPrior, run: Run
) -> tuple[ClassSums, Tensor]:
    """Return sums over the images of each class, and features of images that are kept.

    Parameters
    ----------
    reading : Reading
        The images.
    n_classes : int
        Number of classes.
    prior, run : object
        As in `sum_images`.
    """
    of_classes, dtype = reading.class_weights(n_classes), reading.dtype
    moments = ClassMoments.empty(n_classes, prior.n_samples, dtype, of_classes.device)

    def add(part: slice, block: Tensor) -> None:
        moments.add(block, of_classes[part])

    features = reading.read(prior, run, add)
    return moments.finish(), features
