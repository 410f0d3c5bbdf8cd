"""Samples and targets of a Bayesian network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from skconvgp._settings import shown
from skconvgp._typing import FloatArray, ImageShape
from skconvgp.engine import host_values, to_tensor
from skconvgp.estimators._given import checked_pair, images_to_rows
from skconvgp.estimators._scale import (
    mean_squares,
    warn_of_units,
    warn_of_weights,
)
from skconvgp.estimators._validation import (
    check_weights,
    random_source,
    read_shape,
)
from skconvgp.estimators.networks._network_settings import NetworkSettings
from skconvgp.networks import CategoricalData, DataTerm, GaussianData

# Noise of samples whose weight is huge or tiny, and weights: sums of derivatives over
# them have squares that single precision holds.
LEAST_NOISE, MOST_NOISE, MOST_WEIGHT = 1e-12, 1e30, 1e12


@dataclass(frozen=True)
class NetworkSamples:
    """Training samples of positive weight."""

    rows: NDArray[Any]  # inputs (n, d)
    y: NDArray[Any]  # labels or targets (n, ...)
    weights: FloatArray  # (n,), > 0
    image_shape: ImageShape  # how a row is read
    # The smallest and the largest mean square of a sample.
    mean_squares: tuple[float, float]
    # (m, d), further inputs at which a kernel is the prior; None if they are drawn.
    points: FloatArray | None = None


class NetworkTargets(Protocol):
    """Targets of the outputs of networks."""

    @property
    def n_outputs(self) -> int:
        """Number of outputs of a network."""
        ...

    @property
    def codes(self) -> NDArray[np.intp] | None:
        """Class codes (n,), if there are classes."""
        ...

    def term(self, indices: NDArray[np.intp], like: Tensor) -> DataTerm:
        """Return the likelihood of some samples, on the device of a tensor."""
        ...


@dataclass(frozen=True)
class NumberTargets:
    """Numbers with Gaussian noise."""

    values: FloatArray  # (n, n_outputs), scaled
    # Variances (n, 1 or n_outputs) of the noise, with the weights of the samples.
    noise: FloatArray
    # Class codes (n,), if the numbers stand for classes.
    codes: NDArray[np.intp] | None = None

    def with_noise(self, factor: float) -> NumberTargets:
        """Return the same numbers with the noise times a factor."""
        return replace(self, noise=self.noise * factor)

    @property
    def n_outputs(self) -> int:
        """Number of outputs of a network."""
        return int(self.values.shape[1])

    def term(self, indices: NDArray[np.intp], like: Tensor) -> GaussianData:
        """Return the likelihood of some samples, on the device of a tensor."""
        values = to_tensor(self.values[indices], like.device, like.dtype)
        limited = self.noise[indices].clip(LEAST_NOISE, MOST_NOISE)
        noise = to_tensor(limited, like.device, like.dtype)
        return GaussianData(values[None], noise)


@dataclass(frozen=True)
class CodeTargets:
    """Class codes."""

    codes: NDArray[np.intp]  # (n,)
    weights: FloatArray  # (n,), of the samples
    n_outputs: int  # number of classes
    scale: float  # latent functions are outputs times this number

    def term(self, indices: NDArray[np.intp], like: Tensor) -> CategoricalData:
        """Return the likelihood of some samples, on the device of a tensor."""
        codes = to_tensor(self.codes[indices], like.device)
        limited = self.weights[indices].clip(max=MOST_WEIGHT)
        weights = to_tensor(limited, like.device, like.dtype)
        return CategoricalData(codes, weights, self.scale)


def read_samples(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: ArrayLike | None,
    settings: NetworkSettings,
    *,
    read_y: Callable[[Any], NDArray[Any]] = np.asarray,
    **options: Any,
) -> NetworkSamples:
    """Return training samples; set the attributes that describe the columns of X.

    The estimator gets `n_features_in_` and, if X has names, `feature_names_in_`. X, y
    and weights are as in `fit`. `read_y` returns checked labels or targets, or raises
    an error. The options are for :func:`sklearn.utils.validation.validate_data`.
    """
    random_source(settings.given["random_state"])
    rows, given = images_to_rows(X)
    rows, y = checked_pair(estimator, rows, host_values(y, "y"), **options)
    y, kernel = read_y(y), settings.kernel or settings.target
    is_spatial = settings.make_module is not None or (
        kernel is not None and kernel.is_spatial
    )
    shape = read_shape(
        settings.given["image_shape"], rows.shape[1], given, is_spatial=is_spatial
    )
    weights = check_weights(sample_weight, rows)
    kept = np.flatnonzero(weights)
    warn_of_weights(weights[kept])
    rows, y = rows[kept], y[kept]
    squares = mean_squares(rows)
    if settings.make_module is None:
        warn_of_units(rows)
    points = _given_points(settings, rows)
    return NetworkSamples(rows, y, weights[kept], shape, squares, points)


def _given_points(settings: NetworkSettings, rows: NDArray[Any]) -> FloatArray | None:
    """Return the further inputs (m, d) of a setting, which are like rows (n, d)."""
    if settings.n_given_points is None:
        return None
    given = host_values(settings.given["extra_points"], "extra_points")
    try:
        points = np.asarray(images_to_rows(given)[0], dtype=np.float64)
    except (TypeError, ValueError):
        points = np.empty((0, 0))
    if points.ndim != 2 or not len(points) or points.shape[1] != rows.shape[1]:
        raise ValueError(
            "`extra_points` must be a number, or images or vectors like those of X, of "
            f"{rows.shape[1]} values each, got {shown(np.shape(given))} as shape: "
            "scale and reshape them as X."
        )
    if not np.isfinite(points).all():
        raise ValueError("`extra_points` must be finite, and some values are not.")
    return points
