"""Errors of left-out targets: how wide deviations and intervals must be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from skconvgp._tensors import permutation
from skconvgp._typing import FloatArray
from skconvgp.engine import to_numpy
from skconvgp.estimators._deviations import added_noise, square_factors
from skconvgp.metrics._predictive import half_width
from skconvgp.processes import LeftOutValues, Model

# Errors of an output: their quantiles are wrong by less than 2 %. Many outputs have
# fewer each.
MOST_KEPT, LEAST_KEPT, MOST_OUTPUTS = 4096, 256, 16


@dataclass(frozen=True)
class LeftOutErrors:
    """Errors of left-out targets in their deviations, in increasing order."""

    sizes: FloatArray  # (k, m), absolute values
    weights: FloatArray  # (k, m), of their samples
    factors: FloatArray  # (k,), by which deviations are multiplied
    are_varied: NDArray[np.bool_]  # (k,), whether the targets of an output differ
    # (k,), noise that deviations of observations have beside that of the process
    added_noise: FloatArray

    @classmethod
    def of(
        cls,
        loo: LeftOutValues,
        weights: FloatArray,
        model: Model,
        *,
        is_scaled: bool,
        factor: float,
    ) -> Self:
        """Return the errors of left-out samples of weights (m,), times a factor.

        Samples of weight 0, and those with an error that is not known, do not
        count. `is_scaled` says whether the data scale deviations, by what
        `square_factors` and `added_noise` return. Targets of an output that are all the
        same say nothing.
        """
        missed = model.sample_targets[loo.indices] - loo.mean
        missed /= np.sqrt(model.amplitude)
        counts = np.isfinite(missed).all(1) & (weights > 0.0) & (loo.var > 0.0)
        squares, var, weights = missed[counts] ** 2, loo.var[counts], weights[counts]
        are_varied = np.ptp(model.targets, axis=0) > 0.0
        added = np.zeros(len(are_varied))
        if is_scaled and loo.repeated is not None and len(weights):
            scatter = loo.repeated.scatter / model.amplitude
            for i in np.flatnonzero(are_varied):
                copies = replace(loo.repeated, scatter=scatter[:, i])
                added[i] = added_noise(squares[:, i], var, weights, copies, model.noise)
        squares *= factor**2 / (var[:, None] + added)
        factors = np.sqrt(square_factors(squares, weights))
        factors[~(are_varied & is_scaled)] = 1.0
        sizes = np.sqrt(squares)
        shuffled = permutation(len(sizes), torch.Generator().manual_seed(0))
        most = max(
            LEAST_KEPT, MOST_KEPT * MOST_OUTPUTS // max(MOST_OUTPUTS, len(factors))
        )
        some = to_numpy(shuffled[:most])
        columns, of_columns = sizes[some].T, weights[some]
        order = np.argsort(columns, axis=1, kind="stable")
        sizes = np.take_along_axis(columns, order, 1)
        return cls(sizes, of_columns[order], factors, are_varied, added)

    @classmethod
    def unknown(cls, n_outputs: int) -> Self:
        """Return that no errors are known: deviations are those of the process."""
        empty = np.empty((n_outputs, 0))
        none, are_varied = np.zeros(n_outputs), np.zeros(n_outputs, dtype=bool)
        return cls(empty, empty, np.ones(n_outputs), are_varied, none)

    def half_widths(self, level: float) -> FloatArray:
        """Return half the widths (k,) of intervals, in deviations times their factors.

        With n errors of weight 1 it is the ceil((n + 1) level)-th smallest. If there
        are not so many, it is that of a normal distribution, or the largest error.
        """
        usual, found = half_width(level), []
        for sizes, weights, factor, is_varied in zip(
            self.sizes, self.weights, self.factors, self.are_varied, strict=True
        ):
            totals = weights.cumsum()
            wanted = level * (weights.sum() + 1.0)
            # Sums of weights such as 0.1 are rounded.
            place = int(np.searchsorted(totals, wanted * (1.0 - 1e-12)))
            if is_varied and place < len(sizes):
                found.append(sizes[place] / factor)
            else:
                found.append(max(usual, *(sizes[-1:] / factor)))
        return np.array(found)
