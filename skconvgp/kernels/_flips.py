"""FlipAverage: the average of a kernel over left-right flips of the images.

The formulas: docs/maths.rst, "Flips".
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from skconvgp._typing import ImageShape, Prepared
from skconvgp.kernels._base import Kernel, require_kernels, split
from skconvgp.kernels._capabilities import require_mirrored
from skconvgp.kernels._patch_maps import PatchWhitening
from skconvgp.kernels._patches import PatchKernel
from skconvgp.kernels._prepared import take

__all__ = ["FlipAverage", "flip"]


@dataclass(repr=False)
class FlipAverage(Kernel):
    r"""Average of a kernel over left-right flips of both images.

    .. math:: k_G(x, x') = \frac14 \sum_{g, g'} k(g x, g' x')
              = \frac12 \bigl(k(x, x') + k(x, \bar x')\bigr)

    where g and g' are the identity and the flip :math:`x \mapsto \bar x`. The second
    form needs two evaluations, not four. It holds for kernels that do not change if
    both images are flipped, :math:`k(\bar x, \bar x') = k(x, x')`; all others are
    refused.

    A function of this process has the same value for an image and for its flip: what
    is learned of one holds for the other. The Gram matrix has one row for each image,
    so leave-one-out predictions never see the flip of the image that is left out.

    Parameters
    ----------
    kernel : Kernel
        Kernel that is averaged: a whole kernel, not a layer of a network.

    Raises
    ------
    ValueError
        Before any work, if flips change the covariances of `kernel`, as when strides
        leave out columns at one side of a map only, or if images have a single column,
        as vectors have. The message names the layer and the width of its map.

    Notes
    -----
    The time for a pair is twice that of `kernel`, on the same backend. A variance takes
    the evaluation of one pair, :math:`k_G(x, x) = (k(x, x) + k(x, \bar x)) / 2`.
    The images are flipped as the kernel sees them. Behind a
    :class:`~skconvgp.transforms.ScatteringTransform` these are maps of coefficients,
    whose directions would have to change, too: take
    ``ImageClassifier([(transformer, kernel)], flips=True)`` there, which flips images.
    :class:`~skconvgp.PatchGPClassifier` and :class:`~skconvgp.PatchGPRegressor` average
    the features of an image and of its flip. Patches that are whitened need
    ``PatchWhitening(flips=True)``, for which ``normalization="auto"`` stands here.

    References
    ----------
    Haasdonk, Vossen and Burkhardt, "Invariance in kernel methods by Haar-integration
    kernels", 2005 (averages over groups of transformations).

    Examples
    --------
    >>> import numpy as np
    >>> from skconvgp import gram_matrix
    >>> from skconvgp.kernels import FlipAverage, rbf
    >>> X = np.array([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])
    >>> gram_matrix(rbf(lengthscale=2.0), X).round(2)
    array([[1.  , 0.61],
           [0.61, 1.  ]])
    >>> gram_matrix(FlipAverage(rbf(lengthscale=2.0)), X).round(2)
    array([[0.8, 0.8],
           [0.8, 0.8]])
    """

    kernel: Kernel

    def check(self, image_shape: ImageShape) -> None:
        """Raise a ValueError that says why images of this shape cannot be used."""
        require_kernels(self, (self.kernel,))
        self.kernel.check(image_shape)
        if image_shape[2] == 1:
            raise ValueError(
                f"{self!r} flips images, and samples of shape {image_shape!r} (c, h, "
                "w) have a single column, as vectors have: pass images or set "
                "`image_shape`, or take `kernel` without the average."
            )
        try:
            require_mirrored(self.kernel, image_shape)
        except ValueError as error:
            raise ValueError(
                f"FlipAverage needs a kernel that does not change if both images are "
                f"flipped: {error}"
            ) from error

    def check_flips(self, shape: ImageShape) -> None:
        """Accept every shape: an average over flips does not change by them."""

    @property
    def is_spatial(self) -> bool:
        """Whether the value depends on the layout of the pixels: always."""
        return True

    def settings_from(self, images: Tensor) -> dict[str, object]:
        """Return the kernel, if settings of it follow from images (n, c, h, w)."""
        words = dict(_usual_whitenings(self.kernel, images))
        kernel = self.kernel.replace(**words) if words else self.kernel
        resolved = kernel.resolve(images)
        return {} if resolved is self.kernel else {"kernel": resolved}

    def n_positions(self, image_shape: ImageShape) -> int:
        """Return the positions of the map of one pair of the averaged kernel."""
        return self.kernel.n_positions(image_shape)

    def n_position_pairs(self, image_shape: ImageShape) -> int:
        """Return the pairs of positions that two evaluations of a pair need."""
        return 2 * self.kernel.n_position_pairs(image_shape)

    def prepare(self, images: Tensor) -> Prepared:
        """Prepare images (n, c, h, w) and their flips."""
        return self.kernel.prepare(images), self.kernel.prepare(flip(images))

    def cross(self, one: Prepared, two: Prepared) -> Tensor:
        """Return the covariance (n1, n2) of two prepared sets of images."""
        (first, _), (second, flipped) = split(one), split(two)
        return (
            self.kernel.cross(first, second) + self.kernel.cross(first, flipped)
        ) / 2

    def diag(self, one: Prepared) -> Tensor:
        """Return the prior variance (n,) of each prepared image."""
        images, flipped = split(one)
        values = self.kernel.diag(images)
        crossed = [
            self.kernel.cross(take(images, part), take(flipped, part)).reshape(1)
            for part in (slice(i, i + 1) for i in range(len(values)))
        ]
        return (values + torch.cat([values[:0], *crossed])) / 2


def _usual_whitenings(
    kernel: Kernel, images: Tensor
) -> Iterator[tuple[str, PatchWhitening]]:
    """Yield settings that "auto" stands for, so that patches and flips are alike."""
    if images.ndim != 4:
        return
    shape = cast(ImageShape, tuple(images.shape[1:]))
    parts = {"": kernel, **{f"{k}__": v for k, v in kernel.get_params().items()}}
    for prefix, part in parts.items():
        if isinstance(part, PatchKernel) and part.is_usually_whitened(shape):
            yield f"{prefix}normalization", PatchWhitening(flips=True)


def flip(images: Tensor) -> Tensor:
    """Return images (n, c, h, w) with left and right exchanged."""
    return images.flip(-1)
