"""How large deviations must be: a factor, and a noise that targets of copies ask for.

Why both: docs/maths.rst, "Evidence and leave-one-out".
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import wrightomega

from skconvgp._typing import FloatArray
from skconvgp.processes import RepeatedTargets

# Errors of size 0 are as good as rounding errors of deviations.
LEAST_SQUARE = float(np.finfo(np.float64).eps)
# Decades of the noise, as a share of the mean variance, on the grid of the search;
# tolerance of the search in its logarithm.
DECADES = range(-12, 2)
TOLERANCE = 0.02
# Nats that a noise must gain. With errors that are merely no normal ones it gains up to
# 7 on tables without any fault.
LEAST_GAIN = 10.0


def square_factors(squares: FloatArray, weights: FloatArray) -> FloatArray:
    """Return factors (k,) of variances, given squares (m, k) of errors in deviations.

    Their logarithms have a normal prior around 0 that is worth one sample, of which the
    factor is the most probable one.
    """
    total = float(weights.sum())
    sums = np.maximum(weights @ squares, LEAST_SQUARE * total)
    with np.errstate(divide="ignore"):  # without weight the factor is 1
        # The solution of phi^2 (total + log phi^2) = sum.
        logs = wrightomega(total + np.log(sums)) - total
    factors: FloatArray = np.exp(logs)
    return factors


def added_noise(
    squares: FloatArray,
    variances: FloatArray,
    weights: FloatArray,
    repeated: RepeatedTargets,
    noise: float,
) -> float:
    """Return the noise that is missing, in the units of the variances; 0 if none is.

    Left-out targets and the scatter of targets with equal inputs have, with variances v
    of the process, normal densities of variance a (v + noise that is added). It
    maximises their density with the best a, unless none has nearly the same.

    Parameters
    ----------
    squares : ndarray of shape (m,)
        Squares of the errors of left-out targets.
    variances, weights : ndarray of shape (m,)
        Their variances and weights.
    repeated : RepeatedTargets
        Scatter (q,) of targets with equal inputs.
    noise : float
        Variance of the noise of an observation.
    """
    size = float(np.average(variances, weights=weights))
    of_copies = np.full(len(repeated.units), max(noise, LEAST_SQUARE * size))
    variances = np.concatenate([variances, of_copies])
    sums = np.concatenate([weights * squares, repeated.scatter])
    weights = np.concatenate([weights, repeated.units])
    total = float(weights.sum())

    def density(added: float) -> float:
        raised = variances + added
        factor = max(float((sums / raised).sum()) / total, LEAST_SQUARE)
        return -0.5 * (total * math.log(factor) + float(weights @ np.log(raised)))

    scores = {decade: density(size * 10.0**decade) for decade in DECADES}
    best = max(scores, key=lambda decade: scores[decade])
    without = density(0.0)
    if scores[best] <= without:
        return 0.0
    width = math.log(10.0)
    result = minimize_scalar(
        lambda log_share: -density(size * math.exp(log_share)),
        bounds=((best - 1) * width, (best + 1) * width),
        method="bounded",
        options={"xatol": TOLERANCE},
    )
    is_needed = -result.fun - without > LEAST_GAIN
    return size * math.exp(result.x) if is_needed else 0.0
