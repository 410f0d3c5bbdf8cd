"""FlipAverage: the average of a kernel over left-right flips of the images.

The formulas: docs/maths.rst, "Flips".
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from skconvgp._tensors import reals
from skconvgp._typing import ImageShape, Prepared
from skconvgp.kernels._architectures import (
    Network,
    convnet,
    dense,
    residual_convnet,
    resnet32,
    three_layer_convnet,
)
from skconvgp.kernels._base import (
    Kernel,
    Product,
    Scale,
    Sum,
    require_kernels,
    split,
)
from skconvgp.kernels._checks import SEQUENCES
from skconvgp.kernels._combinators import Residual, Sequential
from skconvgp.kernels._linear import Conv2d
from skconvgp.kernels._map_layer import MapLayer
from skconvgp.kernels._normalizations import MaxNormalization
from skconvgp.kernels._optical import optical
from skconvgp.kernels._patch_grid import AUTO
from skconvgp.kernels._patch_maps import PatchContrast, PatchMap, PatchWhitening
from skconvgp.kernels._patches import PatchKernel
from skconvgp.kernels._pooled_architectures import convnet_gap, myrtle
from skconvgp.kernels._pooling import AvgPool2d, GlobalAvgPool2d
from skconvgp.kernels._prepared import take
from skconvgp.kernels._stationary import matern, rbf
from skconvgp.kernels._vectors import arcsine, dot_product, polynomial

__all__ = ["FlipAverage", "flip"]

PATCH_MAPS = (PatchContrast, PatchWhitening)


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
            _require_mirrored(self.kernel, image_shape)
        except ValueError as error:
            raise ValueError(
                f"FlipAverage needs a kernel that does not change if both images are "
                f"flipped: {error}"
            ) from error

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
        if isinstance(part, PatchKernel) and _is_usual_whitening(part, shape):
            yield f"{prefix}normalization", PatchWhitening(flips=True)


def _is_usual_whitening(kernel: PatchKernel, shape: ImageShape) -> bool:
    word = kernel.normalization
    is_usual = isinstance(word, str) and word == AUTO
    return is_usual and isinstance(kernel.patch_map(shape), PatchWhitening)


def flip(images: Tensor) -> Tensor:
    """Return images (n, c, h, w) with left and right exchanged."""
    return images.flip(-1)


def _require_mirrored(kernel: object, shape: ImageShape) -> None:
    """Raise a ValueError that names the part whose covariances flips change.

    The shape is the images' or, for a layer, its map's.
    """
    # Exact types only: a class derived from one of ours may compute something else.
    rule = _RULES.get(type(kernel))
    if rule is not None:
        rule(kernel, shape)
    elif not isinstance(kernel, MapLayer) or kernel.is_spatial:
        raise ValueError(
            f"whether flips change the covariances of {kernel!r} is not known."
        )


def _chain(chain: Sequential | Residual, shape: ImageShape) -> None:
    for i, layer in enumerate(chain.layers):
        try:
            _require_mirrored(layer, shape)
        except ValueError as error:
            name = f"layer{i} of a {type(chain).__name__}"
            raise ValueError(f"{name}, {error}") from error
        shape = (shape[0], *layer.out_shape(shape[1:]))


def _named_network(network: Network, shape: ImageShape) -> None:
    _chain(network.built, shape)


def _parts(kernel: Sum | Product, shape: ImageShape) -> None:
    for part in kernel.parts:
        _require_mirrored(part, shape)


def _inner(kernel: Scale | MaxNormalization, shape: ImageShape) -> None:
    _require_mirrored(kernel.kernel, shape)


def _unchanged(kernel: object, shape: ImageShape) -> None:
    """Accept a kernel that flips never change."""


def _windows(layer: Conv2d | AvgPool2d, shape: ImageShape) -> None:
    axis = layer.axes(shape[1:])[1]
    windows = axis.matrix(torch.zeros((), dtype=torch.float32, device="cpu"))
    if torch.equal(windows, windows.flip(0, 1)):
        return
    n_dropped = int((windows.sum(0) == 0).sum())
    dropped = f" and leave out {n_dropped} of its columns" if n_dropped else ""
    remedy = (
        "Take a width at which the last window ends with the map, and an odd window "
        "for padding='same'."
        if isinstance(layer, AvgPool2d)
        else "Even windows need padding='valid', and strides a width at which the last "
        "window ends where the first one begins, such as an odd width for a stride of "
        "2."
    )
    raise ValueError(
        f"{layer!r}: its {axis.n_outputs} windows do not lie symmetrically on a map of "
        f"width {axis.size}{dropped}. {remedy}"
    )


def _stationary(kernel: rbf | matern, shape: ImageShape) -> None:
    lengthscale = kernel.lengthscale
    if not isinstance(lengthscale, SEQUENCES):
        return
    lengths = reals([float(one) for one in lengthscale]).reshape(shape)
    if not torch.equal(lengths, lengths.flip(-1)):
        raise ValueError(
            f"the lengthscales of {type(kernel).__name__}, one for each pixel, are not "
            f"the same at the left and at the right of images of width {shape[2]}."
        )


def _patches(kernel: PatchKernel, shape: ImageShape) -> None:
    grid, width = kernel.grid(shape), shape[2]
    if (width - grid.size[1]) % grid.stride:
        raise ValueError(
            f"{kernel!r}: patches of width {grid.size[1]} at a stride of {grid.stride} "
            f"leave out columns at the right of images of width {width}."
        )
    if not kernel.learns_weights:  # those are learned in pairs
        maps = kernel.weight_maps(grid).reshape(-1, *grid.shape)
        if not torch.equal(maps, maps.flip(-1)):
            raise ValueError(
                f"{kernel!r}: its `weights` are not the same at the left and at the "
                "right."
            )
    normalization = kernel.patch_map(shape)
    if isinstance(normalization, PatchWhitening) and not (
        normalization.flips or _is_usual_whitening(kernel, shape)
    ):
        raise ValueError(
            f"{normalization!r} of {kernel!r} is learned from patches, whose flips it "
            "treats in another way: take normalization=PatchWhitening(flips=True), "
            "'contrast', 'center' or None."
        )
    if isinstance(normalization, PatchMap) and type(normalization) not in PATCH_MAPS:
        raise ValueError(
            f"whether flips change the patches that {normalization!r} maps is not "
            "known."
        )
    _require_mirrored(kernel.base_kernel, (grid.channels, *grid.size))


_RULES: dict[type, Callable[[Any, ImageShape], None]] = {
    AvgPool2d: _windows,
    Conv2d: _windows,
    FlipAverage: _unchanged,
    GlobalAvgPool2d: _unchanged,
    MaxNormalization: _inner,
    PatchKernel: _patches,
    Product: _parts,
    Residual: _chain,
    Scale: _inner,
    Sequential: _chain,
    Sum: _parts,
    arcsine: _unchanged,
    convnet: _named_network,
    convnet_gap: _named_network,
    dense: _named_network,
    dot_product: _unchanged,
    matern: _stationary,
    myrtle: _named_network,
    optical: _unchanged,
    polynomial: _unchanged,
    rbf: _stationary,
    residual_convnet: _named_network,
    resnet32: _named_network,
    three_layer_convnet: _named_network,
}
