"""Integrated gradients: derivatives of scores, from a baseline to an image."""

from __future__ import annotations

from typing import Any

import numpy as np

from skconvgp._typing import FloatArray
from skconvgp.engine import slices
from skconvgp.estimators._slopes import latent_slopes
from skconvgp.estimators._warn import warn_caller
from skconvgp.processes import NewRows
from skconvgp.questions._scores import LatentScores

__all__ = ["path_maps"]

# Points on paths whose derivatives are computed at once, and numbers of them.
AT_ONCE, HELD = 128, 2**22
TOLERANCE = 0.01  # of the sum of the sizes of contributions


def path_maps(scores: LatentScores, start: FloatArray, n_steps: int) -> FloatArray:
    """Return maps (n, h, w) of integrated gradients from an image (c, h, w).

    Points and weights are those of Gauss and Legendre. A warning says if sums miss the
    differences of scores.
    """
    gp: Any = scores.estimator
    process, resources = gp._process, gp._resources()
    rows = gp._read_new(scores.given).astype(np.float64)
    first, n = start.reshape(1, -1), len(rows)
    nodes, weights = np.polynomial.legendre.leggauss(n_steps)
    chosen = np.eye(len(process.model.scale))[scores.outputs]
    mean_slopes = np.zeros_like(rows)
    size = max(1, min(AT_ONCE, HELD // rows.shape[1]))
    for part in slices(n * n_steps, size):
        owners, steps = np.divmod(np.arange(part.start, part.stop), n_steps)
        shares = (nodes[steps, None] + 1.0) / 2.0
        points = first + shares * (rows[owners] - first)
        given = points, points.shape[1:], chosen[owners], resources
        slopes = latent_slopes(process, *given)
        np.add.at(mean_slopes, owners, slopes * (weights[steps, None] / 2.0))
    maps = mean_slopes * (rows - first)
    ends = _scores(scores, np.concatenate([rows, np.repeat(first, n, 0)]))
    _warn_of_missed(maps, ends[:n] - ends[n:], n_steps)
    of_pixels: FloatArray = maps.reshape(n, *scores.image_shape).sum(1)
    return of_pixels


def _scores(scores: LatentScores, rows: FloatArray) -> FloatArray:
    """Return the scores (2 n,) of rows and of baselines, less prior means."""
    gp: Any = scores.estimator
    process, outputs = gp._process, np.tile(scores.outputs, 2)
    mean = process.latent(NewRows(rows), gp._resources()).mean
    units: FloatArray = process.model.scale[outputs]
    found: FloatArray = mean[np.arange(len(rows)), outputs] * units
    return found


def _warn_of_missed(maps: FloatArray, expected: FloatArray, n_steps: int) -> None:
    """Warn if sums of maps (n, d) are not the expected ones (n,)."""
    sizes = np.abs(maps).sum(1)
    errors = np.abs(maps.sum(1) - expected)
    missed = errors > TOLERANCE * sizes
    if not missed.any():
        return
    worst = float((errors[missed] / np.maximum(sizes[missed], 1e-300)).max())
    warn_caller(
        f"Integrated gradients of {int(missed.sum())} of {len(maps)} samples do not "
        f"add up to the difference of scores: they miss it by up to {worst:.1%} of the "
        f"sum of their sizes. Raise `n_steps`, which is {n_steps}.",
        UserWarning,
    )
