"""Derivatives of latent means by inputs."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_array

from skconvgp._typing import FloatArray
from skconvgp.engine import Placement, compute_at, host_values
from skconvgp.estimators.compute._resources import EstimatorResources
from skconvgp.processes import NOT_KEPT


def require_slopes(process: Any, mean: Any = None) -> None:
    """Raise unless a process has a kernel, and one sum of covariances.

    The prior mean may be a regressor.
    """
    if mean is not None:
        raise ValueError(
            f"Derivatives by inputs are of the process alone, and mean={mean!r} is "
            "added to it: fit with mean=None."
        )
    dual = getattr(process, "dual", None)
    if process.basis.gives_means:
        raise ValueError(NOT_KEPT.format("derivatives"))
    has_around = getattr(process, "around", None) is not None
    if not process.basis.knows_variances or dual is None or has_around:
        raise ValueError(
            "Derivatives by inputs need a kernel object and one sum of covariances "
            "for all samples, which a precomputed kernel, nearest neighbours and "
            "mean='linear' do not give."
        )


def without_sum(process: Any, owner: str, name: str) -> str:
    """Return why a process has no sum of covariances, of which an attribute tells."""
    if process.basis.gives_means:
        return NOT_KEPT.format(repr(name))
    return (
        f"{owner} has no {name!r}: each sample is predicted from separate neighbours."
    )


def latent_slopes(
    process: Any,
    rows: NDArray[Any],
    shape: Sequence[int],
    weights: ArrayLike | None,
    resources: EstimatorResources,
) -> FloatArray:
    """Return the derivatives of latent means (n, k, ...) by samples.

    The rows are of samples of a shape. With weights (n, k) of the latent functions it
    is the derivatives (n, ...) of the weighted sum.
    """
    dual, units = process.dual, process.model.scale
    size = (len(rows), dual.shape[1])
    if weights is None:
        choices = [np.broadcast_to(row, size) for row in np.eye(size[1])]
    else:
        given = host_values(weights, "weights")
        given = check_array(given, dtype=np.float64, input_name="weights")
        if given.shape != size:
            raise ValueError(
                f"`weights` must have one for each sample and latent function, "
                f"shape {size!r}, got {given.shape!r}."
            )
        choices, units = [given * (units / units.max())], units.max(keepdims=True)

    def pull_at(sums: FloatArray, placement: Placement) -> FloatArray:
        pulled: FloatArray = process.basis.pull(rows, sums, resources.run(placement))
        return pulled

    placement = resources.placement(0)
    parts = [
        compute_at(placement, partial(pull_at, one @ dual.T)).reshape(-1, *shape) * unit
        for one, unit in zip(choices, units, strict=True)
    ]
    return parts[0] if weights is not None else np.stack(parts, axis=1)
