"""Dropout: the mean of a network over the channels that are set to 0.

The formulas: docs/maths.rst, "Normalization and dropout".
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from skconvgp._settings import as_float, shown
from skconvgp._typing import MapShape, Prepared
from skconvgp.kernels._layer import Layer
from skconvgp.kernels._map_layer import Maps

__all__ = ["Dropout"]


@dataclass(repr=False)
class Dropout(Layer):
    r"""Dropout in expectation: variances grow, covariances stay.

    .. math:: a^{out}_\mu = a_\mu / (1 - p), \qquad c^{out}_\mu = c_\mu

    A network with dropout sets each value to 0 with the probability p and divides the
    others by 1 - p, anew whenever it sees an image. The kernel is the covariance of its
    outputs in two independent passes, also for an image and itself: that of the mean
    of the outputs over all passes. A larger variance in front of an activation makes
    images less alike, so that a function changes faster.

    The layer stands behind an activation and in front of the next `Conv2d` or `Dense`:
    sums over many masked values are normal, as activations need them.

    Parameters
    ----------
    rate : float, default=0.5
        Probability p that a value is set to 0, at least 0 and below 1.

    Raises
    ------
    ValueError
        Before any work, for another `rate`, at another place, and in a network that
        averages over positions or with kind="ntk".

    Notes
    -----
    Without an activation somewhere behind it, the layer changes nothing. The variance
    of an output in a single pass is larger than the kernel's; the difference is noise,
    for which estimators have `noise_variance`. There are no random features of such
    networks.

    References
    ----------
    Schoenholz, Gilmer, Ganguli and Sohl-Dickstein, "Deep information propagation",
    2017, section 4 (the variance is divided by the share that is kept).
    Novak et al., "Neural tangents: fast and easy infinite neural networks in Python",
    2020.

    Examples
    --------
    >>> from skconvgp import gram_matrix
    >>> from skconvgp.kernels import Dense, Dropout, Erf, Flatten, Sequential
    >>> X = [[1.0, 0.0], [0.8, 0.6]]
    >>> for rate in (0.0, 0.5):
    ...     hidden = Dense(8.0), Erf(), Dropout(rate), Dense(8.0), Erf()
    ...     network = Sequential(Flatten(), *hidden, Dense())
    ...     print(gram_matrix(network, X, dtype="float64").round(2))
    [[0.74 0.46]
     [0.46 0.74]]
    [[0.32 0.22]
     [0.22 0.32]]
    """

    rate: float = 0.5

    map_strides: ClassVar[tuple[int, int]] = (1, 1)
    is_noisy: ClassVar[bool] = True
    masking: ClassVar[str] = "masks"

    @property
    def is_spatial(self) -> bool:
        """Whether the layer distinguishes positions: never."""
        return False

    def out_shape(self, shape: MapShape) -> MapShape:
        """Return the size of the map, which does not change."""
        if not 0.0 <= as_float(self.rate) < 1.0:
            raise ValueError(
                "`rate` is the probability that a value is set to 0 and must be a "
                f"number from 0 to below 1, got {shown(self.rate)}."
            )
        return shape

    def image_pass(self, var: Tensor) -> tuple[Tensor, Prepared]:
        """Pass variance maps (h, w, n) of a single pass."""
        return var / (1.0 - self.rate), None

    def pair_pass(self, maps: Maps, one: Prepared, two: Prepared) -> Maps:
        """Pass covariance maps of two passes, which stay; drop a tangent kernel."""
        return maps.with_nngp(maps.nngp)
