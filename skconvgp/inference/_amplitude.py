"""Amplitude of latent functions whose noise variances are known.

They come from labels, or from the user. Why it is searched: docs/maths.rst, "Labels as
counts".
"""

import math
from collections.abc import Callable

from scipy.optimize import minimize_scalar

__all__ = ["choose_amplitude"]

# Decades of the amplitude on the grid; tolerance of the search in its logarithm.
DECADES = range(-2, 7)
TOLERANCE = 0.02


def choose_amplitude(
    evidence: Callable[[float], float], tolerance: float = TOLERANCE
) -> float:
    """Return the amplitude with the largest log evidence.

    A grid of decades, then a bounded search around the best of them, in whose logarithm
    it has the tolerance.
    """
    scores = {decade: evidence(10.0**decade) for decade in DECADES}
    best = max(scores, key=lambda decade: scores[decade])
    middle = best * math.log(10.0)
    width = math.log(10.0)
    result = minimize_scalar(
        lambda log_amplitude: -evidence(math.exp(log_amplitude)),
        bounds=(middle - width, middle + width),
        method="bounded",
        options={"xatol": tolerance},
    )
    return math.exp(result.x) if -result.fun >= scores[best] else 10.0**best
