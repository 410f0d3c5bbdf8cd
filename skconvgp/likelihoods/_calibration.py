"""Calibration on leave-one-out latents: a temperature, a spread and offsets."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize, root
from torch import Tensor

from skconvgp._protocols import Calibration

__all__ = ["fit_calibration"]

# Bounds of 1 / temperature. Targets lie one apart or two, so that at the upper bound
# a prediction as sure as a label has odds of e^50 and more.
INVERSE_TEMPERATURES = (1e-2, 50.0)
ROOT_TOLERANCE = 1e-12  # maths.md 4.2

# Prior of the spread: log-normal around the factor by which the variance enters the
# average of a logistic function over a Gaussian. Prior of offsets, over temperature.
USUAL_SPREAD, SPREAD_DEVIATION = math.pi / 8.0, 1.0
OFFSET_DEVIATION = 0.25
SPREADS = (1e-6, 1e3)
LARGEST_OFFSET = 20.0  # over temperature
SEARCH = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 500}
NEAR = 1e-3  # a root of the slopes as far from where the search ends is another one


def fit_calibration(
    mean: Tensor,
    var: Tensor | None,
    codes: Tensor,
    weights: Tensor,
    *,
    has_offsets: bool,
) -> Calibration:
    """Return the most probable calibration: log loss, and priors but for temperature.

    Parameters
    ----------
    mean : Tensor of shape (n, k)
        Leave-one-out latent means.
    var : Tensor of shape (n, k), or None
        Their variances; None for no spread.
    codes : Tensor of shape (n,)
        Class codes.
    weights : Tensor of shape (n,)
        Sample weights: the priors count as what one sample says.
    has_offsets : bool
        Whether classes have offsets.
    """
    temperature = _best_temperature(mean, codes, weights)
    if var is None and not has_offsets:
        return Calibration(temperature)
    posterior = _Posterior(mean, var, codes, weights, has_offsets)
    found = minimize(
        posterior.value_and_slope,
        posterior.start(temperature),
        jac=True,
        method="L-BFGS-B",
        bounds=posterior.bounds(),
        options=SEARCH,
    )
    return posterior.calibration(_sharpened(posterior, found.x))


def _best_temperature(mean: Tensor, codes: Tensor, weights: Tensor) -> float:
    """Return the root of the derivative of the log loss, or the nearest bound."""
    own = mean.gather(1, codes[:, None])[:, 0]

    def slope(inverse: float) -> float:
        expected = (torch.softmax(inverse * mean, dim=1) * mean).sum(1)
        return float((weights * (expected - own)).sum())

    low, high = INVERSE_TEMPERATURES
    if slope(low) >= 0.0:
        return 1.0 / low
    if slope(high) <= 0.0:
        return 1.0 / high
    return 1.0 / float(brentq(slope, low, high, xtol=ROOT_TOLERANCE))


def _sharpened(
    posterior: "_Posterior", place: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the root of the slopes beside the place where a search has ended."""
    low, high = np.array(posterior.bounds()).T
    is_free = (place > low) & (place < high)
    if not is_free.any():
        return place

    def moved(free: NDArray[np.float64]) -> NDArray[np.float64]:
        other = place.copy()
        other[is_free] = free
        return other

    def slopes(free: NDArray[np.float64]) -> NDArray[np.float64]:
        slope = posterior.value_and_slope(moved(free))[1]
        of_free: NDArray[np.float64] = slope[is_free]
        return of_free

    found = root(slopes, place[is_free], tol=ROOT_TOLERANCE)
    is_near = np.abs(found.x - place[is_free]).max(initial=0.0) < NEAR
    return moved(found.x) if is_near else place


@dataclass(frozen=True)
class _Posterior:
    """Log loss and priors at (log T, log kappa, b / T), for each unit of weight."""

    mean: Tensor
    var: Tensor | None
    codes: Tensor
    weights: Tensor
    has_offsets: bool

    def start(self, temperature: float) -> NDArray[np.float64]:
        n_offsets = self.mean.shape[1] if self.has_offsets else 0
        place = [math.log(temperature), math.log(USUAL_SPREAD)]
        return np.array(place + [0.0] * n_offsets)

    def bounds(self) -> list[tuple[float, float]]:
        coldest, hottest = (
            -math.log(inverse) for inverse in INVERSE_TEMPERATURES[::-1]
        )
        low, high = map(math.log, SPREADS)
        n_offsets = self.mean.shape[1] if self.has_offsets else 0
        within = [(-LARGEST_OFFSET, LARGEST_OFFSET)] * n_offsets
        return [(coldest, hottest), (low, high), *within]

    def calibration(self, place: NDArray[np.float64]) -> Calibration:
        temperature = math.exp(place[0])
        spread = 0.0 if self.var is None else math.exp(place[1])
        offsets = tuple(float(value) * temperature for value in place[2:])
        return Calibration(temperature, spread, offsets)

    def value_and_slope(
        self, place: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64]]:
        """Return the value and its derivatives.

        With z = (m + T u) s, s = (T^2 + kappa v)^(-1/2), and g the derivative by z:
        that by log T is g T u s - g z s^2 T^2, by log kappa -g z s^2 kappa v / 2.
        """
        temperature, spread = math.exp(place[0]), math.exp(place[1])
        added = torch.as_tensor(place[2:]) * temperature if self.has_offsets else 0.0
        wide = 0.0 * self.mean if self.var is None else spread * self.var
        square = temperature**2 + wide
        scale = square.rsqrt()
        latents = (self.mean + added) * scale
        log_probs = torch.log_softmax(latents, dim=1)
        total = float(self.weights.sum())
        own = log_probs.gather(1, self.codes[:, None])[:, 0]
        slope = log_probs.exp()
        slope[torch.arange(len(own)), self.codes] -= 1.0
        slope *= self.weights[:, None]
        by_square = slope * latents / square
        by_log_t = float((slope * added * scale - by_square * temperature**2).sum())
        by_log_spread = float(-0.5 * (by_square * wide).sum())
        far = (place[1] - math.log(USUAL_SPREAD)) / SPREAD_DEVIATION
        shares = place[2:] / OFFSET_DEVIATION
        value = float(-(self.weights * own).sum())
        value += 0.5 * (far**2 + float(shares @ shares))
        by_offsets = np.array((slope * scale).sum(0).tolist()) * temperature
        slopes = [by_log_t, by_log_spread + far / SPREAD_DEVIATION]
        if self.has_offsets:
            slopes += list(by_offsets + shares / OFFSET_DEVIATION)
        return value / total, np.array(slopes) / total
