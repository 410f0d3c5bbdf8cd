"""PatchKernel: the covariance of sums of responses to the patches of images.

The formulas: docs/maths.rst, "Patches".
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, cast

import torch
from torch import Tensor

from skconvgp._resident import once
from skconvgp._typing import Bounds, ImageShape, Prepared, Scalar
from skconvgp.kernels._base import Kernel, require_kernels
from skconvgp.kernels._capabilities import (
    is_mirrored,
    is_turn_invariant,
    require_mirrored,
)
from skconvgp.kernels._checks import (
    require_positive,
    require_resolved,
)
from skconvgp.kernels._from_data import (
    median_distance,
    settings_from_data,
    smallest_digests,
)
from skconvgp.kernels._hyperparameters import DEFAULT_BOUNDS
from skconvgp.kernels._patch_grid import AUTO, COLORS, PatchGrid, as_numbers, patch_grid
from skconvgp.kernels._patch_maps import (
    PatchContrast,
    PatchMap,
    PatchWhitening,
    center,
    cut_patches,
    require_mirrored_map,
    take_patches,
)
from skconvgp.kernels._prepared import each, rows_of, shape_and_type
from skconvgp.kernels._stationary import rbf

__all__ = ["PatchKernel"]

LEARNED = "learned"
SHARE_OF_MEDIAN = 0.5  # lengthscale of the usual base kernel
SHARE_OF_SIDE = 1 / 8  # location lengthscale, of the longer side of an image
COLOR_CHANNELS = 3
GRAY = 3  # dimensions of images without channels
# Images and patches from which settings that follow from data are computed.
MOST_IMAGES, LEAST_IMAGES, MOST_PATCHES = 200, 10, 50_000


@dataclass(repr=False, eq=False)
class PatchKernel(Kernel):
    r"""Sum of the responses of a Gaussian process to the patches of an image.

    .. math:: k(x, x') = \frac1P \sum_{p, q} w_p w_q \,
              e^{-\|t_p - t_q\|^2 / 2 s^2} \, k_g(x_p, x'_q)

    over the P patches of each image: :math:`x_p` at the position :math:`t_p` with the
    weight :math:`w_p`. A function of this process is the sum of what one function of
    patches, drawn from the base kernel :math:`k_g`, responds to each patch. The
    location lengthscale s lets the response change with the position.

    Parameters
    ----------
    base : Kernel or None, default=None
        Covariance of patches, which it sees as images (c, ph, pw): a kernel for
        vectors, or a network. None is :class:`rbf`, with half the median distance of
        training patches as its lengthscale.
    patch_size : "auto", int or tuple of int, default="auto"
        Height and width of a patch in pixels. "auto" is 5, or the size of the image if
        that is smaller.
    stride : int, default=1
        Distance between neighbouring patches in pixels.
    location_lengthscale : "auto", None or float, default="auto"
        Distance in pixels over which the response to a patch changes. "auto" is an
        eighth of the longer side of an image. None: it is the same everywhere, and the
        kernel does not see where a patch is. Below 0.1, responses at different
        positions are independent.
    weights : None, "learned" or array-like of shape (P,), default=None
        Weight of each position, of any sign, row by row; None is 1 for each. With
        "channels" and "stacked" there may be one for each channel and position, channel
        by channel.
    color : {"patches", "channels", "additive", "stacked"}, default="patches"
        How channels are treated. "patches": a patch has all channels. "channels": each
        channel has patches and an independent response function of its own.
        "additive": the same with equal weights in all channels, which is a sum of the
        base kernel over the channels of a patch. "stacked": one response function sees
        the patches of all channels.
    normalization : "auto", None, "center", "contrast" or part, default="auto"
        What is done to a patch before the base kernel sees it: nothing, its mean is
        subtracted, or :class:`PatchContrast` or :class:`PatchWhitening`, whose
        constants are learned from training patches in `fit`. "contrast" is
        ``PatchContrast()``. "auto" is ``PatchWhitening()`` for images with three
        channels, and None for all others.
    location_lengthscale_bounds : tuple of float or "fixed", default=(1e-4, 1e4)
        Bounds of `location_lengthscale` when it is learned.

    Notes
    -----
    One covariance takes P^2 evaluations of the base kernel: 331 776 for patches of 5x5
    pixels in 28x28. As an ordinary kernel it is for hundreds of images;
    :class:`~skconvgp.PatchGPClassifier` and :class:`~skconvgp.PatchGPRegressor` fit
    many thousands. The scale is the mean response times the square root of P, so that
    unrelated patches have the variance of the base kernel.

    Settings that follow from training samples are set by estimators in `fit`; without
    an estimator, ``kernel.resolve(X_train)`` has them.

    References
    ----------
    van der Wilk, Rasmussen and Hensman, "Convolutional Gaussian processes", 2017,
    equations 14 to 25, there without 1/P. Dutordoir, van der Wilk, Artemev and Hensman,
    "Bayesian image classification with deep convolutional Gaussian processes", 2020
    (the location kernel).

    Examples
    --------
    >>> import numpy as np
    >>> import skconvgp
    >>> from skconvgp.kernels import PatchKernel, rbf
    >>> X = np.eye(4)[None] * [[[1.0]], [[0.5]]]
    >>> kernel = PatchKernel(rbf(1.0), patch_size=3, location_lengthscale=None)
    >>> skconvgp.gram_matrix(kernel, X).round(2)
    array([[1.73, 1.65],
           [1.65, 2.87]])
    """

    base: Kernel | None = None
    _: KW_ONLY
    patch_size: Any = AUTO
    stride: int = 1
    location_lengthscale: Scalar | str | None = AUTO
    weights: Any = None
    color: str = COLORS[0]
    normalization: Any = AUTO
    location_lengthscale_bounds: Bounds = DEFAULT_BOUNDS

    parts_from_data: ClassVar[tuple[str, ...]] = ("base",)

    @property
    def is_spatial(self) -> bool:
        """Whether the value depends on the layout of the pixels: always."""
        return True

    def check(self, image_shape: ImageShape) -> None:
        """Raise a ValueError that says which setting cannot be used."""
        grid = self.grid(image_shape)
        length = self.location_lengthscale
        if length is not None and not _is_auto(length):
            try:
                require_positive("location_lengthscale", cast(Scalar, length))
            except ValueError as error:
                message = (
                    f"{error} None means that the response is the same everywhere."
                )
                raise ValueError(message) from None
        if not self.learns_weights:
            self.weight_maps(grid)
        self.patch_map(image_shape)
        base = self.base_kernel
        require_kernels(self, (base,))
        base.check(self._seen_shape(grid))

    def check_flips(self, shape: ImageShape) -> None:
        """Raise a ValueError that says why flips change the sums over patches."""
        grid, width = self.grid(shape), shape[2]
        if (width - grid.size[1]) % grid.stride:
            raise ValueError(
                f"{self!r}: patches of width {grid.size[1]} at a stride of "
                f"{grid.stride} leave out columns at the right of images of width "
                f"{width}."
            )
        if not self.learns_weights:  # those are learned in pairs
            maps = self.weight_maps(grid).reshape(-1, *grid.shape)
            if not torch.equal(maps, maps.flip(-1)):
                raise ValueError(
                    f"{self!r}: its `weights` are not the same at the left and at the "
                    "right."
                )
        patch_map = self.patch_map(shape)
        if isinstance(patch_map, PatchMap) and not self.is_usually_whitened(shape):
            require_mirrored_map(self, patch_map)
        require_mirrored(self.base_kernel, (grid.channels, *grid.size))

    def is_turn_invariant(self, shape: ImageShape) -> bool:
        """Whether turns and flips of both images are known to change nothing."""
        grid, patch_map = self.grid(shape), self.patch_map(shape)
        if self.weights is not None or isinstance(patch_map, PatchWhitening):
            return False
        base = self.base_kernel, (grid.channels, *grid.size)
        is_square = grid.size[0] == grid.size[1]
        return is_square and is_mirrored(self, shape) and is_turn_invariant(*base)

    def is_usually_whitened(self, image_shape: ImageShape) -> bool:
        """Whether patches are whitened because `normalization` is "auto"."""
        is_usual = _is_auto(self.normalization)
        return is_usual and isinstance(self.patch_map(image_shape), PatchWhitening)

    def grid(self, image_shape: ImageShape) -> PatchGrid:
        """Return the layout of patches; raise if a patch is larger than the image."""
        return patch_grid(image_shape, self.patch_size, self.stride, self.color)

    def settings_from(self, images: Tensor) -> dict[str, object]:
        """Return the settings that follow from images (n, c, h, w) or (n, h, w)."""
        if images.ndim == GRAY:
            images = images[:, None]
        if images.ndim != GRAY + 1:
            raise ValueError(
                f"{self!r} takes its settings from images of shape (n, h, w) or "
                f"(n, c, h, w), got an array of shape {tuple(images.shape)!r}: reshape "
                "rows to images."
            )
        if not images.is_floating_point():  # whole numbers have no mean
            images = images.to(torch.float64)
        shape = cast(ImageShape, tuple(images.shape[1:]))
        require_kernels(self, (self.base_kernel,))
        values: dict[str, object] = {}
        if _is_auto(self.location_lengthscale):
            values["location_lengthscale"] = SHARE_OF_SIDE * max(shape[1:])
        patch_map = self.patch_map(shape)
        is_fixed = not isinstance(patch_map, PatchMap) or patch_map.is_fitted
        seen = self._seen_shape(self.grid(shape))
        if is_fixed and not _follows_data(self.base_kernel, seen):
            return values
        patches = self._sample(images)
        if isinstance(patch_map, PatchMap) and not patch_map.is_fitted:
            values["normalization"] = patch_map = patch_map.fit(patches)
        patches = _mapped(patch_map, patches)
        if self.base is None:
            base: Kernel = rbf(SHARE_OF_MEDIAN * median_distance(patches.flatten(1)))
        else:
            base = self.base.resolve(patches)
        return values if base is self.base else values | {"base": base}

    def normalized_patches(self, images: Tensor) -> Tensor:
        """Return the patches of images (n, c, h, w) as the base kernel sees them.

        Returns
        -------
        patches : Tensor of shape (n, g, m, c', ph, pw)
            The m patches, row by row, of each of g response functions.
        """
        shape = cast(ImageShape, tuple(images.shape[1:]))
        grid = self.grid(shape)
        cut = self._cut(images)
        patches = self.normalize(cut.reshape(-1, *self._seen_shape(grid)), shape)
        return patches.reshape(
            len(images), grid.n_groups, grid.n_positions, *self._seen_shape(grid)
        )

    def drawn_patches(self, images: Tensor, spots: Tensor) -> Tensor:
        """Return some patches of images (n, c, h, w) as the base kernel sees them.

        Returns
        -------
        patches : Tensor of shape (n, k, c', ph, pw)
            Those at the indices `spots` (n, k) among all g m patches of each image.
        """
        chosen = take_patches(self._cut(images), spots)
        shape = cast(ImageShape, tuple(images.shape[1:]))
        found = self.normalize(chosen.flatten(0, 1), shape)
        return found.reshape(*chosen.shape[:2], *found.shape[1:])

    def _cut(self, images: Tensor) -> Tensor:
        """Return patches (n, ..., c', ph, pw) of images, by response and position."""
        grid = self.grid(cast(ImageShape, tuple(images.shape[1:])))
        cut = cut_patches(images, grid.size, self.stride)
        if self.color != "patches":
            cut = cut.permute(0, 3, 1, 2, 4, 5)[:, :, :, :, None]
        return cut

    def normalize(self, patches: Tensor, image_shape: ImageShape) -> Tensor:
        """Return patches (m, c', ph, pw) of images of a shape as the base sees them."""
        patch_map = self.patch_map(image_shape)
        if isinstance(patch_map, PatchMap) and not patch_map.is_fitted:
            require_resolved(self, "normalization", repr(patch_map))
        return _mapped(patch_map, patches)

    def prepare(self, images: Tensor) -> Prepared:
        """Cut and prepare all patches of images (n, c, h, w)."""
        shape = cast(ImageShape, tuple(images.shape[1:]))
        grid = self.grid(shape)
        patches = self.normalized_patches(images).movedim(0, 2)  # images last
        prepared = self.base_kernel.prepare(
            patches.reshape(-1, *self._seen_shape(grid))
        )
        sizes = (grid.n_groups, grid.n_positions, len(images))
        return (
            each(prepared, lambda one: one.reshape(*one.shape[:-1], *sizes)),
            images.permute(1, 2, 3, 0),  # their shape says which factors pairs have
        )

    def cross(self, one: Prepared, two: Prepared) -> Tensor:
        """Return the covariance (n1, n2) of two prepared sets of images."""
        factors = self.factors(*shape_and_type(one))
        return torch.stack([self.row(*pair, factors) for pair in rows_of(one, two)])

    def diag(self, one: Prepared) -> Tensor:
        """Return the prior variance (n,) of each prepared image."""
        factors = self.factors(*shape_and_type(one))
        return torch.cat([self.row(*pair, factors) for pair in rows_of(one)])

    def n_positions(self, image_shape: ImageShape) -> int:
        """Return the number of pairs of patches of a pair of images."""
        grid = self.grid(image_shape)
        return int(grid.n_groups * grid.n_positions**2)

    def factors(self, image_shape: ImageShape, like: Tensor) -> Tensor:
        """Return the factors (g, m, m) of the base kernel in the sum over patches."""
        grid = self.grid(image_shape)
        weights = self.weights_like(grid, like).flatten(1)
        factors = weights[:, :, None] * weights[:, None, :] / grid.n_patches
        length = self.location_lengthscale
        if length is None:
            return factors
        require_resolved(self, "location_lengthscale", length)
        key = grid, like.device, like.dtype
        steps = once(self, key, lambda: grid.steps(like))
        along = [torch.exp(-(one / cast(Scalar, length)).square() / 2) for one in steps]
        return factors * torch.kron(*along)

    def squared_distances(self, image_shape: ImageShape, like: Tensor) -> Tensor:
        """Return the squared distances (m, m) in pixels of the patches of a group."""
        rows, cols = (one.square() for one in self.grid(image_shape).steps(like))
        both = rows[:, None, :, None] + cols[None, :, None, :]
        return both.reshape(len(rows) * len(cols), -1)

    def row(self, image: Prepared, others: Prepared, factors: Tensor) -> Tensor:
        """Return covariances of one image with others, group by group.

        Parameters
        ----------
        image, others : Prepared
            As `rows_of` yields them.
        factors : Tensor of shape (..., g, m, m)
            Those of `factors`; there may be several of a pair of patches.

        Returns
        -------
        row : Tensor of shape (..., n)
            The covariances, once for each of the factors of a pair.
        """
        total: Tensor | None = None
        for group, pairs in enumerate(factors.unbind(-3)):
            mine = each(image, lambda one, g=group: one[..., g, :])
            theirs = each(others, lambda one, g=group: one[..., g, :, :].flatten(-2))
            values = self.base_kernel.cross(mine, theirs)
            # Networks give covariances in a higher precision than their maps.
            flat = pairs.flatten(-2).to(values)
            value = flat @ values.reshape(flat.shape[-1], -1)
            total = value if total is None else total + value
        assert total is not None
        return total

    @property
    def base_kernel(self) -> Kernel:
        """Covariance of patches; `rbf` until `fit` has replaced None."""
        return rbf() if self.base is None else self.base

    def _seen_shape(self, grid: PatchGrid) -> ImageShape:
        return (grid.channels, *grid.size)

    def patch_map(self, image_shape: ImageShape) -> PatchMap | str | None:
        """Return the map that is applied to patches: a part, "center" or None."""
        value = self.normalization
        if _is_auto(value):
            is_color = image_shape[0] == COLOR_CHANNELS and max(image_shape[1:]) > 1
            return PatchWhitening() if is_color else None
        if isinstance(value, str) and value == "contrast":
            return PatchContrast()
        if isinstance(value, PatchMap):
            value.check()
            return value
        if value is None or (isinstance(value, str) and value == "center"):
            return value
        raise ValueError(
            "`normalization` must be 'auto', None, 'center', 'contrast', "
            f"PatchContrast() or PatchWhitening(), got {value!r}."
        )

    @property
    def learns_weights(self) -> bool:
        """Whether weights are learned in `fit`."""
        return isinstance(self.weights, str) and self.weights == LEARNED

    def n_weights(self, image_shape: ImageShape) -> int:
        """Return how many weights can differ for images of a shape."""
        grid = self.grid(image_shape)
        is_shared = self.color == "additive"
        return math.prod(grid.shape) if is_shared else grid.n_patches

    def weight_maps(self, grid: PatchGrid) -> Tensor:
        """Return the weights (g, m) of the patches of each response function."""
        shape = (grid.n_groups, grid.n_stacked, math.prod(grid.shape))
        if self.weights is None:
            return torch.ones(shape, dtype=torch.float64, device="cpu").flatten(1)
        if self.learns_weights:
            raise ValueError(
                "weights='learned' is for PatchGPClassifier and PatchGPRegressor: give "
                "numbers here, or `kernel_` of one that is fitted."
            )
        weights = as_numbers(self.weights)
        n_channels = grid.n_groups * grid.n_stacked
        is_each = self.color != "additive" and len(weights) == math.prod(shape)
        if not is_each and len(weights) != shape[-1]:
            per_channel = f", or {math.prod(shape)}" if n_channels > 1 else ""
            raise ValueError(
                f"`weights` must have one number for each of the P = {shape[-1]} = "
                f"{grid.shape[0]} x {grid.shape[1]} positions of a patch{per_channel}, "
                f"got {len(weights)}."
            )
        if not bool(weights.isfinite().all()) or not bool(weights.any()):
            raise ValueError(
                f"`weights` must be finite, and not all 0: one for each of the P = "
                f"{grid.shape[0]} x {grid.shape[1]} positions of a patch."
            )
        maps = weights.reshape(shape) if is_each else weights.expand(shape)
        return maps.flatten(1)

    def weights_like(self, grid: PatchGrid, like: Tensor) -> Tensor:
        """Return `weight_maps` with the device and the precision of a tensor."""
        if isinstance(self.weights, Tensor):  # while they are learned
            return self.weight_maps(grid).to(like)
        key = id(self.weights), grid, like.device, like.dtype
        return once(self, key, lambda: self.weight_maps(grid).to(like))

    def _sample(self, images: Tensor) -> Tensor:
        """Return patches (m, c', ph, pw), not normalized, of different images.

        Which ones does not depend on the order of the images, nor on how often each
        of them comes.
        """
        shape = cast(ImageShape, tuple(images.shape[1:]))
        n_images = MOST_PATCHES // self.grid(shape).n_patches
        n_images = min(max(n_images, LEAST_IMAGES), MOST_IMAGES)
        chosen = images[smallest_digests(images.flatten(1), n_images)]
        raw = self.replace(normalization=None)
        patches = raw.normalized_patches(chosen).flatten(0, 2)
        return patches[:: -(-len(patches) // MOST_PATCHES)]


def _follows_data(kernel: Kernel, shape: ImageShape) -> bool:
    """Return whether settings of a kernel follow from samples of a shape."""
    images = torch.zeros(1, *shape, dtype=torch.float32, device="cpu")
    return any(settings_from_data(kernel, images))


def _is_auto(value: object) -> bool:
    return isinstance(value, str) and value == AUTO


def _mapped(patch_map: PatchMap | str | None, patches: Tensor) -> Tensor:
    if patch_map is None:
        return patches
    return center(patches) if isinstance(patch_map, str) else patch_map.apply(patches)
