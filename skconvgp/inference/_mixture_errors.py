"""By how much new samples are missed more than the samples that chose a sum's weights.

The reason and the formula: docs/maths.rst, "Sums of parts".
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Tensor

from skconvgp._tensors import permutation
from skconvgp.inference._evidence import informative, mean_variance
from skconvgp.inference._mixture import (
    LeftOutSamples,
    Mixture,
    WeightedSum,
    choose_mixture,
    left_out_errors,
    mixed,
)
from skconvgp.linalg import cholesky_inverse, shifted_cholesky_

__all__ = ["error_factor"]

FOLDS = 5
LEAST_UNITS = 10  # with fewer samples or groups, a fold says nothing


def error_factor(total: WeightedSum, samples: LeftOutSamples, found: Mixture) -> float:
    """Return the ratio of errors of new samples to errors of left-out ones, at least 1.

    Both are in their deviations. Samples, or groups, are split into folds. Without a
    fold, weights and noise are chosen anew, from those that all samples have chosen;
    left-out errors give the amplitude; and the errors of the fold are those of new
    samples. Weights that the same samples chose and judge are judged too well.
    """
    if samples.n_units < LEAST_UNITS:
        return 1.0
    folds, squares = _folds(samples), torch.zeros_like(samples.targets)
    for fold in range(FOLDS):
        is_out = folds == fold
        squares[is_out] = _squares_of_fold(total, samples, found, is_out)
    squares = squares[:, informative(samples.targets)]
    mean = (samples.weights @ squares).mean() / samples.weights.sum()
    return max(1.0, math.sqrt(float(mean)))


def _folds(samples: LeftOutSamples) -> Tensor:
    """Return the fold (n,) of each sample: those of a group have the same."""
    order = permutation(samples.n_units, torch.Generator().manual_seed(0))
    of_units = (order % FOLDS).to(samples.weights.device)
    folds, start = torch.empty_like(samples.weights, dtype=torch.int64), 0
    for indices in samples.blocks:
        folds[indices] = of_units[start : start + len(indices), None]
        start += len(indices)
    return folds


def _squares_of_fold(
    total: WeightedSum, samples: LeftOutSamples, found: Mixture, is_out: Tensor
) -> Tensor:
    """Return squares (m, k) of errors of a fold in deviations that others give."""
    inside = ~is_out
    judges = _some(samples, inside)
    few = replace(total, grams=[gram[inside][:, inside] for gram in total.grams])
    chosen = choose_mixture(few, judges, found)
    own = mixed(few.grams, chosen.shares)
    noise = chosen.noise * mean_variance(own.diagonal(), judges.weights)
    inverse = cholesky_inverse(shifted_cholesky_(own, noise / judges.weights)[0])
    duals = inverse @ judges.targets
    amplitude = _amplitude(judges, inverse, duals)
    between = mixed([gram[is_out] for gram in total.grams], chosen.shares)
    to_inside, to_out = between[:, inside], between[:, is_out]
    variances = to_out.diagonal() + noise / samples.weights[is_out]
    variances = variances - ((to_inside @ inverse) * to_inside).sum(1)
    targets = samples.targets[is_out] - _center(samples, inside)
    errors = targets - to_inside @ duals
    return errors.square() / variances[:, None] / amplitude


def _amplitude(judges: LeftOutSamples, inverse: Tensor, duals: Tensor) -> Tensor:
    """Return the amplitudes (k,) with which left-out errors have size 1."""
    squares = torch.empty_like(judges.targets)
    for indices in judges.blocks:
        block = inverse[indices[:, :, None], indices[:, None]]
        errors, variances = left_out_errors(block, duals[indices])
        squares[indices] = errors.square() / variances[..., None]
    mean: Tensor = judges.weights @ squares / judges.weights.sum()
    return mean.clamp(min=torch.finfo(mean.dtype).tiny)


def _center(samples: LeftOutSamples, inside: Tensor) -> Tensor:
    """Return the mean targets (k,) of the samples inside."""
    weights = samples.weights[inside]
    return weights @ samples.targets[inside] / weights.sum()


def _some(samples: LeftOutSamples, inside: Tensor) -> LeftOutSamples:
    """Return the samples inside, of whole groups, with targets of mean 0."""
    targets = samples.targets[inside] - _center(samples, inside)
    groups, places = samples.groups, inside.cumsum(0) - 1
    if groups is not None:
        whole = [places[one[inside[one[:, 0]]]] for one in groups]
        groups = [one for one in whole if len(one)]
    return LeftOutSamples(targets, samples.weights[inside], groups=groups)
