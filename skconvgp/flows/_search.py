"""Parts that optimisers share: the best theta so far, and slopes."""

import math
from dataclasses import dataclass

import numpy as np

from skconvgp._parts import Part
from skconvgp._protocols import Batch, Landscape
from skconvgp._settings import is_number, one_of, require
from skconvgp._typing import FloatArray

GRADIENTS = ("exact", "autograd", "finite_difference")
# The cube root of the precision of float32 (docs/maths.rst, "Kernel Flows"). That of
# float64, 6e-6, would leave a difference of values in float32 two digits or none.
DIFFERENCE_STEP = 0.005

ALL_DONE = "all steps done"
STOPPED = "stopped by a callback"


@dataclass
class Best:
    """The best theta so far: the start, until another one is better."""

    theta: FloatArray  # (p,)
    value: float  # mean over the fixed batches; NaN if that of the start is undefined

    @classmethod
    def at_start(cls, landscape: Landscape) -> "Best":
        """Return the start of a landscape with its value."""
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

    The derivatives (p,) are all finite if the value is. The method is "exact",
    "autograd" or "finite_difference": both sides of a difference use the same batches.
    Sides lie `difference_step` away from theta (p,), but are moved back to the bounds.
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
    """Raise a ValueError unless the settings of `slope` are allowed."""
    is_known = isinstance(gradient, str) and gradient in GRADIENTS
    require(part, "gradient", is_known, one_of(GRADIENTS))
    is_step = is_number(difference_step)
    require(part, "difference_step", is_step, "a finite number > 0")
