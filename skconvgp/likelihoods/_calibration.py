"""Calibration on leave-one-out latents: temperature, spread, bend, floor, offsets."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, root
from torch import Tensor

from skconvgp._protocols import Calibration
from skconvgp._threads import small_on_one_thread
from skconvgp._typing import FloatArray

__all__ = ["fit_calibration"]

# Priors, each worth one sample: the logarithm of each number is normal around that of
# the usual one, so that samples that say nothing of it leave it there, and that none
# ends at a bound. The temperature is a share of the size of the latents. The spread
# is the factor by which the variance enters the average of a logistic function over a
# Gaussian. The inverse of the bend is the latent from which odds grow as a power.
USUAL = np.log([0.1, math.pi / 8.0, 0.1, 1e-3])
DEVIATIONS = np.array([1.0, 1.0, 1.0, 2.0])
OFFSET_DEVIATION = 0.25  # of offsets over the temperature, around 0
LARGEST = 50.0  # logarithm; priors keep searches far from it
# Many errors are either of scores that say little or of labels that fall anywhere. Both
# can be a mode, and a search from the usual odds of the floor does not find the second.
LARGE_ODDS = 0.25

SEARCH = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 500}
ROOT_TOLERANCE = 1e-12
NEAR = 1e-3  # a root of the slopes as far from where the search ends is another one


def fit_calibration(
    mean: Tensor,
    var: Tensor | None,
    codes: Tensor,
    weights: Tensor,
    *,
    has_offsets: bool,
) -> Calibration:
    """Return the most probable calibration: log loss and priors.

    `mean` and `var` (n, k) are of the leave-one-out latents; None for no spread. Class
    codes and sample weights are (n,). A prior counts as much as one sample. If all
    weights are 0, samples give the size of the latents alone. `has_offsets` says
    whether classes have offsets.
    """
    # Evaluations are many and small: a call of numpy costs less than one of torch.
    means, masses = np.asarray(mean), np.asarray(weights)
    centred = means - means.mean(1, keepdims=True)
    has_any = masses.any()
    squares = np.square(centred).sum(1)
    size = math.sqrt(np.average(squares, weights=masses if has_any else None))
    if size == 0.0:  # every class is as probable, whatever the temperature
        return Calibration()
    # In units of their size latents are the same, whatever the scale of the kernel.
    common = None if var is None else np.asarray(var).mean(1, keepdims=True) / size**2
    own = np.arange(len(means)), np.asarray(codes)
    posterior = _Posterior(centred / size, common, own, masses, has_offsets)
    if not has_any:
        return posterior.calibration(posterior.usual, size)
    point = _most_probable(posterior)
    return posterior.calibration(_sharpened(posterior, point), size)


def _most_probable(posterior: "_Posterior") -> FloatArray:
    """Return the point at which the better one of two searches ends."""
    usual = posterior.usual
    floored = usual.copy()
    floored[3] = math.log(LARGE_ODDS)
    with small_on_one_thread():
        ends = [
            minimize(
                posterior.value_and_slope,
                start,
                jac=True,
                method="L-BFGS-B",
                options=SEARCH,
            )
            for start in (usual, floored)
        ]
    best: FloatArray = min(ends, key=lambda end: float(end.fun)).x
    return best


def _sharpened(posterior: "_Posterior", point: FloatArray) -> FloatArray:
    """Return the root of the slopes near the point at which a search has ended."""
    solution = root(
        lambda x: posterior.value_and_slope(x)[1], point, tol=ROOT_TOLERANCE
    )
    nearest: FloatArray = solution.x
    return nearest if np.abs(nearest - point).max() < NEAR else point


@dataclass(frozen=True)
class _Posterior:
    """Log loss and priors, for each unit of weight, of latents whose size is 1.

    Its points hold the logarithms of temperature, spread, bend and odds of the floor,
    followed by the offsets b / T, if there are any.
    """

    mean: FloatArray
    var: FloatArray | None
    own: tuple[NDArray[np.intp], NDArray[np.intp]]  # where latents of labels are
    weights: FloatArray
    has_offsets: bool

    @cached_property
    def n_offsets(self) -> int:
        return self.mean.shape[1] if self.has_offsets else 0

    @cached_property
    def total(self) -> float:
        return float(self.weights.sum())

    @cached_property
    def usual(self) -> FloatArray:
        return np.concatenate([USUAL, np.zeros(self.n_offsets)])

    @cached_property
    def deviations(self) -> FloatArray:
        return np.concatenate([DEVIATIONS, np.full(self.n_offsets, OFFSET_DEVIATION)])

    def calibration(self, point: FloatArray, size: float) -> Calibration:
        temperature, spread, bend, odds = _numbers(point)
        offsets = tuple(float(value) * temperature * size for value in point[4:])
        spread = 0.0 if self.var is None else spread
        return Calibration(
            temperature * size, spread, offsets, bend, odds / (1.0 + odds)
        )

    def value_and_slope(self, point: FloatArray) -> tuple[float, FloatArray]:
        """Return the value and its derivatives.

        Let z = (m + T u) s with s = (T^2 + kappa v)^(-1/2), y = asinh(c z) / c, and let
        g and h be the derivatives by z and by y. The derivative by log T is
        g T u s - g z s^2 T^2, the one by log kappa is -g z s^2 kappa v / 2, and the one
        by log c is h (z / sqrt(1 + (c z)^2) - y).
        """
        temperature, spread, bend, odds = _numbers(point)
        wide = 0.0 if self.var is None else spread * self.var
        square = temperature**2 + wide
        scale = 1.0 / np.sqrt(square)
        latents = self.mean * scale
        if self.has_offsets:
            added = temperature * (point[4:] - point[4:].mean())
            latents += added * scale
        bows = bend * latents
        root = np.sqrt(1.0 + np.square(bows))
        bent = np.arcsinh(bows) / bend
        loss, slope, by_floor = self._loss(bent, odds)
        by_bend = np.vdot(slope, latents / root - bent)
        slope /= root
        by_square = (slope * latents).sum(1, keepdims=True) / square
        by_log_t = -by_square.sum() * temperature**2
        by_log_spread = -0.5 * (by_square * wide).sum()
        slopes = np.array([by_log_t, by_log_spread, by_bend, by_floor])
        if self.has_offsets:
            by_offsets = (slope * scale).sum(0) * temperature
            slopes[0] += by_offsets @ added / temperature
            slopes = np.concatenate([slopes, by_offsets - by_offsets.mean()])
        far = (point - self.usual) / self.deviations
        value = loss + 0.5 * float(far @ far)
        return value / self.total, (slopes + far / self.deviations) / self.total

    def _loss(
        self, latents: FloatArray, odds: float
    ) -> tuple[float, FloatArray, float]:
        """Return the log loss, and its derivatives by latents and log odds.

        Let r be the share of a label's probability that does not come from the floor.
        The derivative by the latents is the derivative of the softmax times r, and the
        derivative by the log odds is r - (1 - floor).
        """
        floor = odds / (1.0 + odds)
        # By columns, of which there are few, numpy is three times as fast.
        largest = latents.T.copy().max(0)[:, None]
        slope = np.exp(latents - largest)
        sums = slope.sum(1, keepdims=True)
        log_sums = (largest + np.log(sums))[:, 0]
        above_floor = latents[self.own] - log_sums - math.log1p(odds)
        log_prob = np.logaddexp(above_floor, math.log(floor / latents.shape[1]))
        share = np.exp(above_floor - log_prob)
        slope /= sums
        slope[self.own] -= 1.0
        slope *= (self.weights * share)[:, None]
        by_floor = float(self.weights @ (share - 1.0 + floor))
        return -float(self.weights @ log_prob), slope, by_floor


def _numbers(point: FloatArray) -> list[float]:
    """Return temperature, spread, bend and odds, which are finite at every point."""
    numbers: list[float] = np.exp(point[:4].clip(-LARGEST, LARGEST)).tolist()
    return numbers
