"""Shared by searches of a landscape: the best theta so far, and slopes."""

import math
from dataclasses import dataclass

import numpy as np

from skconvgp._parts import Part
from skconvgp._protocols import Batch, Landscape
from skconvgp._settings import is_number, one_of, require
from skconvgp._typing import FloatArray

__all__ = ["ALL_DONE", "DIFFERENCE_STEP", "STOPPED", "Best", "check_slope", "slope"]

GRADIENTS = ("exact", "autograd", "finite_difference")
# The cube root of the precision of float32 (docs/maths.rst, "Kernel Flows"): of float64
# it would be 6e-6, where tiles in float32 leave two digits of a difference, or none.
DIFFERENCE_STEP = 0.005

ALL_DONE = "all steps done"
STOPPED = "stopped by a callback"


@dataclass
class Best:
    """The best theta so far: the start, until another one is better.

    Parameters
    ----------
    theta : ndarray of shape (p,)
        Where it is.
    value : float
        Mean value over the fixed batches; NaN where the start is undefined.
    """

    theta: FloatArray
    value: float

    @classmethod
    def at_start(cls, landscape: Landscape) -> "Best":
        """Begin at the start."""
        theta = landscape.start.copy()
        return cls(theta, landscape.value(theta, landscape.fixed))

    def is_beaten_by(self, value: float) -> bool:
        """Say whether a value is better; one that is not finite never is."""
        return math.isfinite(value) and not self.value <= value

    def offer(self, theta: FloatArray, value: float) -> None:
        """Keep theta if it is better."""
        if self.is_beaten_by(value):
            self.theta, self.value = theta, value


def slope(
    landscape: Landscape,
    theta: FloatArray,
    batches: tuple[Batch, ...],
    method: str,
    difference_step: float,
) -> tuple[float, FloatArray]:
    """Return the mean value over batches and its derivatives; NaN if one is undefined.

    Parameters
    ----------
    landscape : Landscape
        What is derived.
    theta : ndarray of shape (p,)
        Where.
    batches : tuple of Batch
        On which; both sides of a difference are evaluated on the same ones.
    method : str
        How: "exact", "autograd" or "finite_difference".
    difference_step : float
        Half the distance of the two sides; at a bound only one side is used.

    Returns
    -------
    value : float
        The value.
    by_theta : ndarray of shape (p,)
        Its derivatives, all finite where the value is.
    """
    if method == "finite_difference":
        value = landscape.value(theta, batches)
        by_theta = np.zeros_like(theta)
        if math.isfinite(value):
            by_theta = _differences(landscape, theta, batches, difference_step)
    else:
        value, by_theta = landscape.gradient(theta, batches, method)
    is_defined = math.isfinite(value) and bool(np.isfinite(by_theta).all())
    return (value if is_defined else math.nan), by_theta


def _differences(
    landscape: Landscape,
    theta: FloatArray,
    batches: tuple[Batch, ...],
    difference_step: float,
) -> FloatArray:
    by_theta = np.zeros_like(theta)
    lows, highs = landscape.bounds.T
    for i, middle in enumerate(theta):
        below, above = theta.copy(), theta.copy()
        below[i] = max(middle - difference_step, lows[i])
        above[i] = min(middle + difference_step, highs[i])
        width = above[i] - below[i]
        if width > 0.0:
            rise = landscape.value(above, batches) - landscape.value(below, batches)
            by_theta[i] = rise / width
    return by_theta


def check_slope(part: Part, gradient: str, difference_step: float) -> None:
    """Raise unless the settings that `slope` needs are allowed."""
    is_known = isinstance(gradient, str) and gradient in GRADIENTS
    require(part, "gradient", is_known, one_of(GRADIENTS))
    is_step = is_number(difference_step)
    require(part, "difference_step", is_step, "a finite number > 0")
