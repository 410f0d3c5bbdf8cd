"""LayerNorm: division by the size of what a layer passes on.

The formulas: docs/maths.rst, "Normalization and dropout".
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from skconvgp._settings import one_of
from skconvgp._typing import MapShape, Prepared
from skconvgp.kernels._expectations import reciprocal_sqrt
from skconvgp.kernels._layer import Layer
from skconvgp.kernels._map_layer import Maps

__all__ = ["LayerNorm"]

OVER = CHANNELS, ALL = "channels", "all"


@dataclass(repr=False)
class LayerNorm(Layer):
    r"""Layer normalization: covariances become correlations.

    .. math:: c^{out}_\mu = c_\mu / \sqrt{a_\mu b_\mu}, \quad \text{or} \quad
              c^{out}_\mu = c_\mu / \sqrt{\bar a \, \bar b}

    with the means :math:`\bar a` and :math:`\bar b` of the variances over positions.
    The network divides the values of an image by the root of their mean square, over
    the channels of a position or over all channels and positions.

    Parameters
    ----------
    over : {"channels", "all"}, default="channels"
        What is normalized together: the channels of each position, or all channels and
        positions of an image. On a 1x1 map both are the same.

    Raises
    ------
    ValueError
        Before any work, for another `over`.

    Notes
    -----
    Layer normalization also subtracts the mean over the channels. Behind a `Conv2d` or
    `Dense` it is 0 in the limit of many channels, which are independent and have mean
    0: put the layer there, in front of the activation. Elsewhere the layer is the
    normalization by the root mean square. There are no learned gains. An image whose
    values are all 0 stays so.

    References
    ----------
    Ba, Kiros and Hinton, "Layer normalization", 2016.
    Lee et al., "Finite versus infinite neural networks: an empirical study", 2020, and
    the library neural-tangents (the limit of many channels).
    Zhang and Sennrich, "Root mean square layer normalization", 2019.

    Examples
    --------
    >>> from skconvgp import gram_matrix
    >>> from skconvgp.kernels import Dense, Flatten, LayerNorm, Sequential
    >>> network = Sequential(Flatten(), Dense(), LayerNorm())
    >>> gram_matrix(network, [[1.0, 0.0], [3.0, 4.0]], dtype="float64").round(2)
    array([[1. , 0.6],
           [0.6, 1. ]])
    """

    over: str = CHANNELS

    map_strides: ClassVar[tuple[int, int]] = (1, 1)
    masking: ClassVar[str] = "keeps"

    @property
    def is_spatial(self) -> bool:
        """Whether the layer distinguishes positions: never."""
        return False

    def function(self, maps: Tensor) -> Tensor:
        """Normalize maps (n, c, h, w) of a finite network by their mean square."""
        dims = (1,) if self.over == CHANNELS else (1, 2, 3)
        return maps * reciprocal_sqrt(maps.square().mean(dims, keepdim=True))

    def out_shape(self, shape: MapShape) -> MapShape:
        """Return the size of the map, which does not change."""
        if self.over not in OVER:
            raise ValueError(f"`over` must be {one_of(OVER)}, got {self.over!r}.")
        return shape

    def image_pass(self, var: Tensor) -> tuple[Tensor, Prepared]:
        """Pass variance maps (h, w, n); also return what they are divided by."""
        size = var if self.over == CHANNELS else var.mean((0, 1), keepdim=True)
        inverse = reciprocal_sqrt(size).expand(var.shape)
        return var * inverse * inverse, inverse

    def pair_pass(self, maps: Maps, one: Prepared, two: Prepared) -> Maps:
        """Pass covariance maps (h, w, n1, n2)."""
        assert isinstance(one, Tensor)
        assert isinstance(two, Tensor)
        first, second = maps.sides(one, two)
        return maps.linear(lambda values: values * first * second)
