r"""Latent functions of classes by features, from sums over the samples of each class.

The formulas: docs/maths.rst, "Patches of labels as counts".

A label gives each latent function a target and a noise variance, so that all that a
posterior needs are the sums of each class: :math:`M_c = F^\top W_c F`,
:math:`F^\top w_c` and the total weight. The noise of a function usually has two values,
one for its class and one for all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor

from skconvgp._protocols import Targets
from skconvgp._tensors import int_range
from skconvgp.inference._features import FeatureSums
from skconvgp.linalg import Moments

__all__ = ["ClassMoments", "ClassSums", "LabelCode"]


@dataclass(frozen=True)
class LabelCode:
    """Targets and noise variances of the k latent functions, for each of c labels.

    There are as many functions as labels, or one for the second of two labels.
    """

    values: Any  # targets (c, k) minus the prior mean
    noise: Any  # (c, k), variance of a single observation, as a share of the amplitude

    @classmethod
    def of(cls, targets: Targets, amplitude: float, added: float) -> LabelCode:
        """Return the code of the targets of c samples, one of each label.

        The noise variances of the targets are (c, c). The noise `added` to them is a
        share of the amplitude, the mean prior variance.
        """
        assert targets.noise is not None
        values = targets.values - targets.offset
        return cls(values, targets.noise / amplitude + added)

    def to(self, device: torch.device) -> LabelCode:
        """Return the same on a device."""
        return LabelCode(self.values.to(device), self.noise.to(device))

    @property
    def has_two_levels(self) -> bool:
        """Whether all labels but its own give a function the same noise."""
        labels = int_range(len(self.noise), self.noise.device)
        for i, column in enumerate(self.noise.mT):
            others = column[labels != self.label_of(i)]
            if bool((others != others[0]).any()):
                return False
        return True

    def of_second(self) -> LabelCode:
        """Return the code of the function of the second label alone."""
        return LabelCode(self.values[:, 1:], self.noise[:, 1:])

    def label_of(self, function: int) -> int:
        """Return the label of a latent function."""
        n_labels, n_functions = self.noise.shape
        return int(function + n_labels - n_functions)

    def energy(self, weights: Tensor) -> Tensor:
        """Return sums (k,) of weighted squares of targets over their noise."""
        energy: Tensor = weights @ (self.values.square() / self.noise)
        return energy

    def log_noise(self, weights: Tensor) -> Tensor:
        """Return sums (k,) of weighted logarithms of the noise."""
        total: Tensor = weights @ self.noise.log()
        return total

    def precision(self, weights: Tensor) -> Tensor:
        """Return sums (k,) of weights over the noise."""
        total: Tensor = weights @ (1.0 / self.noise)
        return total


@dataclass(frozen=True)
class ClassSums:
    """Sums over the samples of each class; sums over parts of the samples add up."""

    moments: Tensor  # (c, r, r), F^T W_c F
    totals: Tensor  # (r, c), F^T w_c
    weights: Tensor  # (c,), sums of the weights

    def of_function(self, index: int, code: LabelCode, whole: Tensor) -> FeatureSums:
        """Return the sums of a latent function for its targets and noise.

        `index` says which function. `whole` (r, r) is the sum of the moments of all
        classes.
        """
        column, usual = slice(index, index + 1), code.label_of(index) - 1  # any other
        values, precision = code.values[:, column], 1.0 / code.noise[:, column]
        excess = precision[:, 0] - precision[usual]
        moment = whole * precision[usual]
        for label in excess.nonzero()[:, 0].tolist():  # its own, with two levels
            moment.add_(self.moments[label], alpha=float(excess[label]))
        return FeatureSums(
            moment,
            self.totals @ (values * precision),
            code.energy(self.weights)[column],
            code.log_noise(self.weights)[index],
            self.weights.sum(),
        )

    def factors(self, code: LabelCode) -> Tensor:
        """Return room (k, r, r) for a factor of each function, made from these sums.

        With two levels of noise the sum of all classes and the moment of its own are
        all that a function reads: the moment can be overwritten as soon as it was read.
        """
        first = code.label_of(0)
        if code.has_two_levels:
            return self.moments[first:]
        return torch.empty_like(self.moments[first:])


@dataclass
class ClassMoments:
    """Sums over the samples of each class, to which blocks of samples are added."""

    squares: Tensor  # (c, r, r), overwritten by the moments
    dtype: torch.dtype  # precision of products within a block
    each: list[Moments]  # sums of each class; none before the first block

    @classmethod
    def empty(
        cls, n_classes: int, n_features: int, dtype: torch.dtype, device: torch.device
    ) -> Self:
        """Return sums over no samples."""
        size = n_classes, n_features, n_features
        return cls(torch.zeros(size, dtype=torch.float64, device=device), dtype, [])

    def add(self, features: Tensor, weights: Tensor) -> None:
        """Add samples with features (b, r), of weights (b, c) in each class."""
        if not self.each:
            centre = features.mean(0)
            self.each = list(
                map(partial(Moments.around, centre, 1, self.dtype), self.squares)
            )
        for own, of_class in zip(self.each, weights.mT, strict=True):
            members = of_class.nonzero()[:, 0]
            if len(members):
                ones = of_class.new_ones(len(members), 1)
                own.add(features[members], ones, of_class[members])

    def finish(self) -> ClassSums:
        """Return the sums; no further samples can be added."""
        totals = torch.cat([own.finish()[1] for own in self.each], 1)
        weights = torch.stack([own.weight for own in self.each])
        return ClassSums(self.squares, totals, weights)
