"""Averages of a kernel over the orbits of the images under maps.

The formulas: docs/maths.rst, "Flips and other orbits".
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from skconvgp._typing import ImageShape, Prepared
from skconvgp.kernels._activations import Identity
from skconvgp.kernels._base import Kernel, require_kernels, split
from skconvgp.kernels._capabilities import is_mirrored, is_turn_invariant
from skconvgp.kernels._keys import by_settings
from skconvgp.kernels._orbit_maps import (
    FLIPS,
    TURNS,
    n_versions,
    require_maps,
    versions_of,
)
from skconvgp.kernels._patch_maps import PatchWhitening
from skconvgp.kernels._patches import PatchKernel
from skconvgp.kernels._prepared import take

__all__ = [
    "Average",
    "OrbitAverage",
    "Terms",
    "mean_cross",
    "of_versions",
    "same_maps",
    "terms_in",
]


class Average(Kernel):
    """Average of a kernel over the orbits of both images under some maps."""

    kernel: Kernel
    maps: Any

    @property
    def is_spatial(self) -> bool:
        """Whether the value depends on the layout of the pixels: always."""
        return True

    def settings_from(self, images: Tensor) -> dict[str, object]:
        """Return the kernel, if settings of it follow from images (n, c, h, w)."""
        words = {} if self.maps != FLIPS else dict(_whitenings(self.kernel, images))
        kernel = self.kernel.replace(**words) if words else self.kernel
        resolved = kernel.resolve(images)
        return {} if resolved is self.kernel else {"kernel": resolved}

    def is_one_sum(self, image_shape: ImageShape) -> bool:
        """Whether it is enough to map one of both images.

        This is so if the maps are a group, and no map of both images changes `kernel`.
        """
        if not isinstance(self.maps, str):
            return False
        return _is_invariant(self.kernel, self.maps, image_shape)

    def n_terms(self, image_shape: ImageShape) -> int:
        """Return how many evaluations of the kernel a pair takes."""
        count = n_versions(self.maps, image_shape)
        return count if self.is_one_sum(image_shape) else count**2

    def n_positions(self, image_shape: ImageShape) -> int:
        """Return the positions of the map of one pair of the averaged kernel."""
        return self.kernel.n_positions(image_shape)

    def n_position_pairs(self, image_shape: ImageShape) -> int:
        """Return the pairs of positions that all evaluations of a pair need."""
        n_pairs = self.kernel.n_position_pairs(image_shape)
        return self.n_terms(image_shape) * n_pairs

    def prepare(self, images: Tensor) -> Prepared:
        """Prepare images (n, c, h, w) and what the maps make of them."""
        return of_versions(self, self.kernel.prepare, images)

    def cross(self, one: Prepared, two: Prepared) -> Tensor:
        """Return the covariance (n1, n2) of two prepared sets of images."""
        return mean_cross(self.kernel.cross, one, two)

    def diag(self, one: Prepared) -> Tensor:
        """Return the prior variance (n,) of each prepared image."""
        terms = terms_in(one)
        values = reduce(add, map(self.kernel.diag, terms.own))
        crossed = [
            reduce(
                add,
                (self.kernel.cross(take(a, i), take(b, i)) for a, b in terms.pairs),
            ).reshape(1)
            for i in (slice(i, i + 1) for i in range(len(values)))
        ]
        return terms.mean(values, torch.cat([values[:0], *crossed]))


@dataclass(repr=False, eq=False)
class OrbitAverage(Average):
    r"""Average of a kernel over the orbits of both images under some maps.

    .. math:: k_G(x, x') = \frac1{|G|^2} \sum_{g, g' \in G} k(g x, g' x')

    where G are the maps and the identity. It is the covariance of functions
    :math:`\frac1{|G|} \sum_g f(g x)`. If G is a group, such a function has the same
    value for all images of an orbit: what is learned of one holds for all. If G is not,
    as with shifts, the values of an image and of its versions are similar.

    Parameters
    ----------
    kernel : Kernel
        Kernel that is averaged: a whole kernel, not a layer of a network.
    maps : str, object or list, default="symmetries"
        - "flips": left and right are exchanged.
        - "quarter_turns": the four turns of square images.
        - "symmetries": the eight turns and flips of square images.
        - An object of :mod:`skconvgp.augmentation` such as ``Shift(1)``, or one of
          yours with its two methods.
        - A list of functions of images (n, c, h, w), tensors, or of permutations of
          pixels: i-th numbers are the positions, in h, w order or c, h, w order, of the
          pixels that come to the i-th position. The identity is always added.

    Raises
    ------
    ValueError
        Before any work, if images are not square and `maps` turns them, if images have
        a single column, as vectors have, or if a map does not keep the shape of images.

    See Also
    --------
    FlipAverage : The case "flips", for kernels that take two evaluations alone.

    Notes
    -----
    The time for a pair is :math:`|G|` times that of `kernel` if G is one of the named
    groups and no map of both images changes `kernel`,
    :math:`k(g x, g x') = k(x, x')`: the average over the maps of one image is then
    enough. This holds for networks whose windows lie symmetrically, and for kernels of
    distances and inner products. For other kernels and maps it is :math:`|G|^2` times,
    up to 64. The compiled code computes it wherever it computes `kernel`.

    References
    ----------
    van der Wilk, Rasmussen and Hensman, "Convolutional Gaussian processes", 2017,
    section 3 (sums over transformed inputs).
    Haasdonk, Vossen and Burkhardt, "Invariance in kernel methods by Haar-integration
    kernels", 2005 (averages over groups of transformations).

    Examples
    --------
    >>> import numpy as np
    >>> from skconvgp import gram_matrix
    >>> from skconvgp.kernels import OrbitAverage, rbf
    >>> X = np.array([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]])
    >>> gram_matrix(rbf(lengthscale=2.0), X).round(2)
    array([[1.  , 0.78],
           [0.78, 1.  ]])
    >>> gram_matrix(OrbitAverage(rbf(lengthscale=2.0), "quarter_turns"), X).round(2)
    array([[0.83, 0.83],
           [0.83, 0.83]])
    """

    kernel: Kernel
    maps: Any = "symmetries"

    def check(self, image_shape: ImageShape) -> None:
        """Raise a ValueError that says why images of this shape cannot be used."""
        require_kernels(self, (self.kernel,))
        require_maps(self.maps, image_shape)
        self.kernel.check(image_shape)

    def check_flips(self, shape: ImageShape) -> None:
        """Raise a ValueError unless flips are known to change nothing."""
        if not self._is_of_flips and not self.is_turn_invariant(shape):
            raise ValueError(
                f"whether flips change the covariances of {self!r} is not known."
            )

    def is_turn_invariant(self, shape: ImageShape) -> bool:
        """Whether turns and flips of both images are known to change nothing."""
        if not isinstance(self.maps, str) or self.maps not in TURNS:
            return False
        return self._is_of_flips or is_turn_invariant(self.kernel, shape)

    @property
    def _is_of_flips(self) -> bool:
        """Whether an orbit has the flip of each of its images."""
        return isinstance(self.maps, str) and self.maps != "quarter_turns"


def same_maps(one: Any, two: Any) -> bool:
    """Return whether orbits are those of the same maps."""
    return OrbitAverage(Identity(), one) == OrbitAverage(Identity(), two)


class Terms(NamedTuple):
    """Sums that make the average of a diagonal tile."""

    own: tuple[Prepared, ...]  # versions, each of which is compared with itself
    pairs: list[tuple[Prepared, Prepared]]  # of different versions
    times: int  # how often each pair counts
    n_terms: int

    def mean(self, own: Tensor, crossed: Tensor) -> Tensor:
        """Return the average, given the sums over both."""
        if self.times > 1:
            crossed = crossed * self.times
        return (own + crossed) / self.n_terms


def of_versions(
    average: Average, prepare: Callable[[Tensor], Prepared], images: Tensor
) -> Prepared:
    """Return prepared versions of images: the first one apart if one sum is enough."""
    trees = tuple(map(prepare, versions_of(images, average.maps)))
    shape = cast(ImageShape, tuple(images.shape[1:]))
    return (trees[0], trees[1:]) if average.is_one_sum(shape) else (None, trees)


def mean_cross(
    cross: Callable[[Prepared, Prepared], Tensor], one: Prepared, two: Prepared
) -> Tensor:
    """Return the average of covariances of versions of two sets of images."""
    (first, others), (_, versions) = _parts(one), _parts(two)
    firsts = others if first is None else (first,)
    seconds = versions if first is None else (split(two)[0], *versions)
    total = reduce(add, (cross(a, b) for a in firsts for b in seconds))
    return total / (len(firsts) * len(seconds))


def terms_in(prepared: Prepared) -> Terms:
    """Return the sums that make the variances of prepared versions of images."""
    first, others = _parts(prepared)
    if first is not None:
        return Terms((first,), [(first, one) for one in others], 1, 1 + len(others))
    n = len(others)
    pairs = [(others[i], others[j]) for i in range(n) for j in range(i + 1, n)]
    return Terms(others, pairs, 2, n**2)


def _parts(prepared: Prepared) -> tuple[Prepared, tuple[Prepared, ...]]:
    first, others = split(prepared)
    return first, split(others)


@by_settings
def _is_invariant(kernel: Kernel, maps: str, shape: ImageShape) -> bool:
    """Return whether no map of a group, applied to both images, changes a kernel."""
    return (is_turn_invariant if maps in TURNS else is_mirrored)(kernel, shape)


def _whitenings(kernel: Kernel, images: Tensor) -> Iterator[tuple[str, PatchWhitening]]:
    """Yield settings that "auto" stands for, so that patches and flips are alike."""
    if images.ndim != 4:
        return
    shape = cast(ImageShape, tuple(images.shape[1:]))
    parts = {"": kernel, **{f"{k}__": v for k, v in kernel.get_params().items()}}
    for prefix, part in parts.items():
        if isinstance(part, PatchKernel) and part.is_usually_whitened(shape):
            yield f"{prefix}normalization", PatchWhitening(flips=True)
