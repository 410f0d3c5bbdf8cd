"""Division of covariances by a scale.

The formulas: docs/maths.rst, "Scales of layers".
"""

import copy
import math
from dataclasses import KW_ONLY, dataclass
from typing import cast

import torch
from torch import Tensor

from skconvgp._parts import Part
from skconvgp._typing import ImageShape, MapShape, Prepared, Value
from skconvgp.kernels._base import (
    Kernel,
    Wrapped,
    require_kernels,
    split,
)
from skconvgp.kernels._capabilities import capability
from skconvgp.kernels._checks import require_positive
from skconvgp.kernels._combinators import Sequential
from skconvgp.kernels._expectations import reciprocal_sqrt
from skconvgp.kernels._linear import Conv2d, Dense
from skconvgp.kernels._map_layer import NNGP, Maps, map_layer
from skconvgp.kernels._segments import first_pool

__all__ = [
    "CORRELATION",
    "FIXED",
    "MaxNormalization",
    "inverse_deviations",
    "literal_max_normalization",
    "unit_variances",
]

FIXED, EXACT, CORRELATION = MODES = ("fixed", "exact", "correlation")


@dataclass(repr=False)
class MaxNormalization(Wrapped):
    r"""A kernel or a layer whose covariances are divided by a scale.

    No mode divides by a value that depends on the tile, so that each one is a
    covariance function. The procedure as published, :func:`literal_max_normalization`,
    is not one.

    Parameters
    ----------
    kernel : Kernel
        Kernel that is normalized: with "correlation" any finished kernel, with "exact"
        a finished network, with "fixed" either of these or a layer of a network.
    mode : {"correlation", "fixed", "exact"}, default="correlation"
        - "correlation": :math:`K_{ij} / \sqrt{K_{ii} K_{jj}}`, another kernel, whose
          variances are 1. An image without variance correlates with none.
        - "fixed": :math:`K / \kappa` with the constant `scale`. After a layer it is the
          same as dividing both variances of that layer, so another kernel unless all
          that follows is affine without bias.
        - "exact": the kernel itself, but for rounding. Its maps are computed divided by
          `scale`, which is multiplied back at the end, so that float32 holds maps that
          are `scale` times as large. Only for networks of piecewise linear activations;
          the fused backend scales maps by itself.
    scale : float, default=1.0
        The constant of "fixed" and "exact", shared by all images and never learned. A
        power of 4 adds no rounding error. Not used with "correlation".

    Notes
    -----
    The source divides by the largest values of each tile after every convolution, and
    states that this cancels in the prediction. It does not cancel; see the user guide.

    References
    ----------
    Meinel, MSc thesis, 2020, section 3.3.5.

    Examples
    --------
    >>> from skconvgp import gram_matrix
    >>> from skconvgp.kernels import MaxNormalization, dense
    >>> X = [[1.0, 2.0], [3.0, -1.0]]
    >>> gram_matrix(MaxNormalization(dense()), X, dtype="float64").round(2)
    array([[1.  , 0.65],
           [0.65, 1.  ]])
    """

    kernel: Kernel
    _: KW_ONLY
    mode: str = CORRELATION
    scale: float = 1.0

    def check(self, image_shape: ImageShape) -> None:
        """Raise a ValueError that says why images of this shape cannot be used."""
        self._check_settings()
        self.kernel.check(image_shape)

    @property
    def is_homogeneous(self) -> bool:
        """Whether the value scales as the input and the variances of biases do."""
        return self.mode != CORRELATION

    def prepare(self, images: Tensor) -> Prepared:
        """Prepare the images; for correlations, add their inverse deviations."""
        if self.mode == EXACT:
            images = images / math.sqrt(self.scale)
        kernel = self._computed()
        tree = kernel.prepare(images)
        inverse = None
        if self.mode == CORRELATION:
            inverse = inverse_deviations(kernel.diag(tree))
        return tree, inverse

    def cross(self, one: Prepared, two: Prepared) -> Tensor:
        """Return the normalized covariance (n1, n2)."""
        (tree1, inverse1), (tree2, inverse2) = split(one), split(two)
        value = self._computed().cross(tree1, tree2)
        if self.mode == CORRELATION:
            assert isinstance(inverse1, Tensor)
            assert isinstance(inverse2, Tensor)
            return value * inverse1[:, None] * inverse2
        return self._scaled(value)

    def diag(self, one: Prepared) -> Tensor:
        """Return the normalized prior variances (n,)."""
        tree, inverse = split(one)
        if self.mode == CORRELATION:
            assert isinstance(inverse, Tensor)
            return unit_variances(inverse)
        return self._scaled(self._computed().diag(tree))

    def out_shape(self, shape: MapShape) -> MapShape:
        """Return the size of the map after the layer that is divided."""
        self._check_settings()
        if self.mode != FIXED:
            raise ValueError(
                f"{self!r} normalizes a finished kernel and cannot be a layer of a "
                "network; mode='fixed' can."
            )
        return map_layer(self.kernel).out_shape(shape)

    def image_pass(self, var: Tensor) -> tuple[Tensor, Prepared]:
        """Pass variance maps (h, w, n) through the layer and divide them."""
        out, trace = map_layer(self.kernel).image_pass(var)
        return out / self.scale, trace

    def pair_pass(self, maps: Maps, one: Prepared, two: Prepared) -> Maps:
        """Pass covariance maps through the layer and divide them."""
        out = map_layer(self.kernel).pair_pass(maps, one, two)
        return out.linear(lambda maps: maps / self.scale)

    def _computed(self) -> Kernel:
        """Return the kernel that is computed instead of the given one."""
        if self.mode == EXACT:
            return cast(Kernel, _with_biases_divided(self.kernel, self.scale))
        return self.kernel

    def _scaled(self, value: Tensor) -> Tensor:
        """Divide by the fixed scale, or multiply the exact one back."""
        if self.mode == FIXED:
            return value / self.scale
        return value.to(torch.float64) * self.scale

    def _check_settings(self) -> None:
        require_kernels(self, (self.kernel,))
        require_positive("scale", self.scale)
        if self.mode not in MODES:
            raise ValueError(f"`mode` must be one of {MODES!r}, got {self.mode!r}.")
        if self.mode == EXACT:
            _require_homogeneous(self.kernel)


def literal_max_normalization(
    network: Sequential, images1: Tensor, images2: Tensor
) -> Tensor:
    """Normalize one tile as published; for reproduction only, as it is no kernel.

    After every convolution and dense layer, the covariance maps and the variance maps
    of both sides are each divided by their largest value in the tile. If the two sides
    differ, so do these values: correlations exceed 1 and are cut off, a matrix
    assembled from tiles has negative eigenvalues, and its entries depend on the other
    images of their tile. Use :class:`MaxNormalization`, except for a comparison with
    the source.

    Parameters
    ----------
    network : Sequential
        Layers; a named network has them as its attribute ``layers``.
    images1, images2 : Tensor of shape (n1, c, h, w) and (n2, c, h, w)
        The images of the rows and of the columns of the tile.

    Returns
    -------
    tile : Tensor of shape (n1, n2)
        The normalized covariances.

    References
    ----------
    Meinel, MSc thesis, 2020, section 3.3.5.

    Examples
    --------
    >>> import torch
    >>> from skconvgp.kernels import convnet, literal_max_normalization
    >>> images = torch.arange(32.0).reshape(2, 1, 4, 4)
    >>> tile = literal_max_normalization(convnet(depth=1).layers, images, images)
    >>> float(tile.max())
    1.0
    """
    network.check(cast(ImageShape, tuple(images1.shape[1:])))
    if network.kind != NNGP:
        raise ValueError(
            "the procedure divides covariances, and has none of `kind`="
            f"{network.kind!r}: take kind='nngp'."
        )
    if network.weighing is not None:
        raise ValueError(
            "the procedure has one weight variance for each layer: take a number as "
            "`weight_variance` of the first one."
        )
    pool = first_pool(network, cast(MapShape, tuple(images1.shape[2:])))
    if pool is not None:
        raise ValueError(
            f"the procedure divides maps of all positions by their largest value, and "
            f"in front of {pool!r} there is no such map at any time: take a network "
            "without pools, or `MaxNormalization`."
        )
    pixels1, pixels2 = (images.permute(2, 3, 1, 0) for images in (images1, images2))
    cov = pixels1.mT @ pixels2 / pixels1.shape[2]
    var1, var2 = (pixels.square().mean(2) for pixels in (pixels1, pixels2))
    for layer in network.layers:
        var1, trace1 = layer.image_pass(var1)
        var2, trace2 = layer.image_pass(var2)
        cov = layer.pair_pass(Maps(cov), trace1, trace2).nngp
        if isinstance(layer, Conv2d | Dense):
            cov, var1, var2 = (maps / maps.max() for maps in (cov, var1, var2))
    return cov[0, 0]


def inverse_deviations(var: Tensor) -> Tensor:
    """Return 1 / sqrt(var), 0 for a zero variance, NaN for an infinite one."""
    return reciprocal_sqrt(var) + 0.0 * var


def unit_variances(inverse: Tensor) -> Tensor:
    """Return 1 if 1 / sqrt(var) is a finite number, and 0 for a zero variance."""
    return (inverse > 0.0) + 0.0 * inverse


def _require_homogeneous(part: object) -> None:
    if not capability(part, "is_homogeneous"):
        raise ValueError(
            "mode='exact' needs a network of piecewise linear activations, which can "
            f"be divided and multiplied back, and {part!r} does not belong in one."
        )
    assert isinstance(part, Part)
    for value in part.get_params(deep=False).values():
        if isinstance(value, Part):
            _require_homogeneous(value)


def _with_biases_divided(part: Part, scale: float) -> Part:
    """Return a copy whose bias variances are divided by a number.

    Values may be tensors that are differentiated, which ``deepcopy`` refuses.
    """
    changed: dict[str, object] = {}
    for name, value in part.get_params(deep=False).items():
        if isinstance(value, Part):
            changed[name] = _with_biases_divided(value, scale)
        elif name == "bias_variance":
            changed[name] = _divided(cast(Value, value), scale)
    return copy.copy(part).set_params(**changed)


def _divided(value: Value, scale: float) -> Value:
    if isinstance(value, tuple):
        return tuple(item / scale for item in value)
    return value / scale
