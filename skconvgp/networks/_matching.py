"""Variances of layers with which wide networks resemble a Gaussian process."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize
from torch import Tensor

from skconvgp._threads import small_on_one_thread
from skconvgp._typing import FloatArray
from skconvgp.engine import to_numpy, to_tensor
from skconvgp.linalg import gaussian_transport

__all__ = ["match_covariance"]

# Smaller steps lowered the distance of a point by 2e-5 at most, and took half as many
# evaluations again.
LIMITS = {"maxiter": 200, "ftol": 1e-6}


def match_covariance(
    evaluate: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    target: Tensor,
    start: FloatArray,
    bounds: FloatArray,
) -> tuple[FloatArray, float]:
    """Return hyperparameters (p,) whose covariance is nearest to a target (m, m).

    The second result is the squared Wasserstein distance of the two Gaussian
    distributions, for each of the m points. `evaluate` returns for hyperparameters the
    covariance (m, m) and its derivatives (m, m, p). The search begins at `start` (p,),
    within the bounds (p, 2).
    """

    def loss(theta: FloatArray) -> tuple[float, FloatArray]:
        gram, slopes = evaluate(theta)
        square, slope = gaussian_transport(target, to_tensor(gram, target.device))
        gradient = np.einsum("ij,ijp->p", to_numpy(slope), slopes)
        return square / len(target), gradient / len(target)

    with small_on_one_thread():
        found = minimize(
            loss,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options=LIMITS,
        )
    return np.asarray(found.x), float(found.fun)
