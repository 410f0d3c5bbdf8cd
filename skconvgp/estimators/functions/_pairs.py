"""Pairs of samples, whose covariances functions return."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray
from sklearn.utils.validation import check_array
from torch import Tensor

from skconvgp._config import ComputeConfig
from skconvgp._protocols import TileBackend
from skconvgp._tensors import native
from skconvgp._typing import ImageShape
from skconvgp.engine import KernelOracle, kernel_shape, rows_to_images
from skconvgp.estimators._given import FLOATS, images_to_rows
from skconvgp.estimators._scale import require_squares
from skconvgp.estimators._validation import require_channels_first, shape_of_rows
from skconvgp.estimators.settings._checks import is_kernel, way_to_kernel
from skconvgp.kernels import Kernel


@dataclass(frozen=True)
class Pairs:
    """All pairs of a sample of X and one of Y, or of two samples of X."""

    kernel: Kernel  # with settings that follow from X
    shape: ImageShape  # how a row is read
    rows: tuple[NDArray[Any], ...]  # the samples of X and, if it is given, those of Y
    given: ImageShape | None  # shape of a sample of X, if X holds images

    @property
    def size(self) -> tuple[int, int]:
        """Shape of the matrix of their covariances."""
        return len(self.rows[0]), len(self.rows[-1])

    @property
    def sides(self) -> tuple[Tensor, ...]:
        """The samples as the kernel sees them: one side if there is no Y."""
        shape = kernel_shape(self.kernel, self.shape)
        return tuple(rows_to_images(rows, shape) for rows in self.rows)


def read_pairs(kernel: Any, X: Any, Y: Any, image_shape: object) -> Pairs:
    """Return the pairs of samples; raise if the kernel cannot take them."""
    if not is_kernel(kernel):
        found = "samples; X comes behind it" if is_kernel(X) else repr(kernel)
        raise ValueError(
            "`kernel` must be a kernel of skconvgp.kernels"
            f"{way_to_kernel(kernel)}, got {found}."
        )
    rows, given = _sample_rows(X)
    shape = shape_of_rows(kernel, image_shape, rows.shape[1], given)
    others = (
        () if Y is None else (_matching_rows(Y, rows.shape[1], shape, image_shape),)
    )
    images = rows_to_images(rows, kernel_shape(kernel, shape))
    kernel = _resolve_by(kernel, images, is_alone=Y is None)
    return Pairs(kernel, shape, (rows, *others), given)


def covariances(
    oracle: KernelOracle, tiles: TileBackend, sides: tuple[Tensor, ...], out: Any
) -> Tensor:
    """Return the covariances of pairs; raise before any tile if a variance overflows.

    The oracle evaluates covariances with the last of the sides, which are as in
    `Pairs`; `tiles` computes prior variances. The result is written to `out`, if that
    is given.
    """
    if len(sides) == 1:
        oracle.diag()
        return oracle.gram(out)
    require_finite(tiles, oracle.config, sides)
    return oracle.cross(sides[0], out)


def require_finite(
    tiles: TileBackend, config: ComputeConfig, sides: tuple[Tensor, ...]
) -> None:
    """Raise before any tile if a prior variance overflows."""
    for images in sides:
        KernelOracle(tiles, images, config).diag()


def _sample_rows(X: Any) -> tuple[NDArray[Any], ImageShape | None]:
    """Return samples as rows, and their shape (c, h, w) if they were images."""
    rows, given = images_to_rows(X)
    rows = native(check_array(rows, dtype=FLOATS, input_name="X"))
    require_squares(rows, math.inf)  # covariances say which of them overflow
    return rows, given


def _matching_rows(
    Y: Any, n_features: int, shape: ImageShape, image_shape: object
) -> NDArray[Any]:
    """Return samples of Y as rows; raise unless they have the shape of samples of X."""
    given_rows, given = images_to_rows(Y)
    require_channels_first(image_shape, given)
    rows = native(check_array(given_rows, dtype=FLOATS, input_name="Y"))
    is_row = shape == (n_features, 1, 1)
    if rows.shape[1] != n_features or not (is_row or given in (None, shape)):
        raise ValueError(
            f"X and Y must have samples of one shape: Y has {rows.shape[1]} values a "
            f"sample, of shape {given!r}; X has {n_features}, read as {shape!r}."
        )
    return rows


def _resolve_by(kernel: Kernel, images: Tensor, *, is_alone: bool) -> Kernel:
    """Return the kernel with settings that follow from X; raise if there is a Y."""
    resolved = kernel.resolve(images)
    if resolved is not kernel and not is_alone:
        raise ValueError(
            f"{kernel!r} has settings that follow from training samples, and with Y "
            "it is not known which samples these are: pass `kernel.resolve(X_train)`, "
            "`kernel_` of a fitted estimator, or a kernel with numbers."
        )
    return resolved
