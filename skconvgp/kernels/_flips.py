"""FlipAverage: the average of a kernel over left-right flips of the images.

The formulas: docs/maths.rst, "Flips and other orbits".
"""

from dataclasses import dataclass
from typing import ClassVar

from skconvgp._typing import ImageShape
from skconvgp.kernels._base import Kernel, require_kernels
from skconvgp.kernels._capabilities import require_mirrored
from skconvgp.kernels._orbit_maps import FLIPS, flip
from skconvgp.kernels._orbits import Average

__all__ = ["FlipAverage", "flip"]


@dataclass(repr=False)
class FlipAverage(Average):
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

    See Also
    --------
    OrbitAverage : Averages over turns, shifts and maps of your own.

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

    maps: ClassVar[str] = FLIPS  # type: ignore[misc]

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
