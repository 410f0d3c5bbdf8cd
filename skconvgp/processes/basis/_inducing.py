"""Inducing patches and places: features of images, linear in their number.

The formulas: docs/maths.rst, "Patches".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Protocol, Self, cast

import numpy as np
import torch
from torch import Tensor

from skconvgp._resident import once
from skconvgp._typing import FloatArray, ImageShape, Scalar
from skconvgp.backends import Responses, ResponsesChoice, choose_responses
from skconvgp.engine import held, slices, to_numpy, to_tensor
from skconvgp.kernels import OrbitAverage, PatchKernel
from skconvgp.kernels._checks import plain_value
from skconvgp.kernels._orbit_maps import has_inverse, n_versions, versions_of
from skconvgp.linalg import triangular_root
from skconvgp.processes.basis._patch_features import (
    Root,
    Whitening,
    mean_pooled,
    patches_of,
    place_grid,
    usual_root,
    whitening,
)

SPACING = 1.4  # of places, in location lengthscales
FEWEST_PLACES, MOST_PLACES = 3, 7  # along a side
STRIPS = 4  # of features, for which products with zeros are left out


class Inducing(Protocol):
    """Inducing variables of a kernel, which give features of images."""

    @property
    def terms(self) -> tuple[InducingSet, ...]:
        """Inducing patches of each term of the kernel."""
        ...

    @property
    def n_features(self) -> int:
        """Number r of features of an image."""
        ...

    @property
    def n_numbers(self) -> tuple[int, int]:
        """How many numbers are held at once: for each image, and for all of them."""
        ...

    def choice(
        self, backend: str, device: torch.device, dtype: torch.dtype
    ) -> ResponsesChoice:
        """Return the backend; raise if it was asked for and cannot compute."""
        ...

    def in_units(self, unit: float) -> Self:
        """Return the same with features for a mean prior variance `unit`."""
        ...

    def features(self, *versions: Tensor, backend: str, dtype: torch.dtype) -> Tensor:
        """Return features (n, r) of images (n, c, h, w), whitened in a precision.

        Those of several versions of the images are averaged.
        """
        ...

    def variances(self, images: Tensor, backend: str) -> Tensor:
        """Return prior variances (n,) of images (n, c, h, w), for a unit of 1."""
        ...


@dataclass(frozen=True)
class InducingSet:
    """Inducing patches at places, each pair of which is an inducing variable.

    Covariances between the inducing variables are a Kronecker product of those of
    patches, K_g(Z, Z), and those of places along the two sides, so that features are
    whitened by one small matrix for each.
    """

    kernel: PatchKernel  # without settings that follow from data
    image_shape: ImageShape
    patches: FloatArray  # (m, c', ph, pw), Z, as the base kernel sees them
    # (l, 2), places: rows and columns of the first pixel of a patch.
    locations: FloatArray
    # (a, h'), whitened location kernels along the height, with the factor 1 / sqrt(P).
    rows: FloatArray
    columns: FloatArray  # (b, w'), along the width
    # (m, q), takes covariances with Z to features of unit covariance. What stands above
    # its diagonal is 0.
    lift: FloatArray
    factor: float = 1.0  # the kernel is multiplied by it
    unit: float = 1.0  # features are divided by its square root
    maps: Any = None  # of the images, over which the kernel is averaged; None for none

    @classmethod
    def of(
        cls,
        kernel: PatchKernel,
        image_shape: ImageShape,
        patches: Tensor,
        n_locations: tuple[int, int],
        factor: float = 1.0,
        *,
        maps: Any = None,
        root: Root = usual_root,
    ) -> Self:
        """Return the set of patches (m, c', ph, pw) at a grid of places."""
        exact = patches.to("cpu", torch.float64)  # matrices are small
        factors = whitening(kernel, image_shape, exact, n_locations, root)
        places = place_grid(kernel.grid(image_shape), n_locations)
        return cls(
            kernel,
            image_shape,
            to_numpy(exact),
            to_numpy(torch.cartesian_prod(*places)),
            to_numpy(factors.rows),
            to_numpy(factors.columns),
            to_numpy(triangular_root(factors.lift)),
            factor,
            maps=maps,
        )

    @property
    def terms(self) -> tuple[InducingSet, ...]:
        """Inducing patches of each term of the kernel: these."""
        return (self,)

    @property
    def n_features(self) -> int:
        """Number r of features of an image."""
        n_groups = self.kernel.grid(self.image_shape).n_groups
        places = len(self.rows) * len(self.columns)
        return int(n_groups * places * self.lift.shape[1])

    @property
    def n_positions(self) -> int:
        """Number of positions of patches in a group."""
        return math.prod(self.kernel.grid(self.image_shape).shape)

    @property
    def has_places(self) -> bool:
        """Whether means are sums over several positions, which pixels belong to."""
        return self.n_positions > 1 and has_inverse(self.maps)

    @property
    def n_numbers(self) -> tuple[int, int]:
        """How many numbers are held at once: for each image, and for all of them."""
        grid = self.kernel.grid(self.image_shape)
        views = n_versions(self.maps, self.image_shape)
        of_patches = grid.n_patches * math.prod(self.patches.shape[1:])
        return views * of_patches, grid.n_positions**2

    def choice(
        self, backend: str, device: torch.device, dtype: torch.dtype
    ) -> ResponsesChoice:
        """Return the backend of responses; raise if it was asked for and cannot."""
        return choose_responses(self.kernel.base_kernel, backend, device, dtype)

    def in_units(self, unit: float) -> Self:
        """Return the set with features for a mean prior variance `unit`."""
        return replace(self, unit=unit)

    def features(self, *versions: Tensor, backend: str, dtype: torch.dtype) -> Tensor:
        """Return features (n, r) of images (n, c, h, w), whitened in a precision.

        Those of several versions of the images are averaged. Products of matrices in
        single precision depend on how many images there are.
        """
        lift = self.lift_at(versions[0].device, dtype)
        pooled = self.pooled(*versions, backend=backend, like=lift)
        if pooled.requires_grad:
            return (pooled @ lift).flatten(1)
        return lifted(pooled, lift)

    @property
    def scaled_lift(self) -> FloatArray:
        """Map (m, q) of covariances with Z to features, in their unit."""
        return self.lift * math.sqrt(self.factor / self.unit)

    def lift_at(self, device: torch.device, dtype: torch.dtype) -> Tensor:
        """Return the scaled lift on a device."""
        key = "lift", device, dtype
        return once(self, key, lambda: to_tensor(self.scaled_lift, device, dtype))

    def pooled(self, *versions: Tensor, backend: str, like: Tensor) -> Tensor:
        """Return means (n, g, a, b, m) over versions of images of sums of responses.

        The sums are over patches, at whitened places, in the precision of `like`.
        """
        images = versions[0]
        device = images.device
        factors = Whitening(
            held(self.rows, device, images.dtype),
            held(self.columns, device, images.dtype),
            like,
        )
        inducing = held(self.patches, device, images.dtype)
        responses = Responses(self.kernel.base_kernel, inducing, backend)
        of_each = (versions_of(images, self.maps) for images in versions)
        return mean_pooled(self.kernel, responses, factors, *chain(*of_each))

    def shares_responses(self, other: InducingSet) -> bool:
        """Return whether another set has the same patches and the same base kernel."""
        one, two = (
            OrbitAverage(each.kernel.replace(location_lengthscale=None), each.maps)
            for each in (self, other)
        )
        is_same_shape = self.image_shape == other.image_shape
        same = is_same_shape and np.array_equal(self.patches, other.patches)
        return same and one == two

    def variances(self, images: Tensor, backend: str) -> Tensor:
        """Return prior variances (n,) of images (n, c, h, w), for a unit of 1."""
        versions = versions_of(images, self.maps)
        patches = [patches_of(self.kernel, one)[0] for one in versions]
        average = OrbitAverage(self.kernel, self.maps)
        n_first = 1 if average.is_one_sum(self.image_shape) else len(versions)
        terms = [
            self._covariances(images, one, two, backend)
            for one in patches[:n_first]
            for two in patches
        ]
        return torch.stack(terms).mean(0)

    def _covariances(
        self, images: Tensor, patches: Tensor, others: Tensor, backend: str
    ) -> Tensor:
        """Return covariances (n,) of images with others, each with one, by patches."""
        factors = self.kernel.factors(self.image_shape, images) * self.factor
        if factors.numel() == 1 and patches is others:  # images that are no patches
            base = self.kernel.base_kernel
            whole = patches.reshape(-1, *self.patches.shape[1:])
            return base.diag(base.prepare(whole)).to(images) * factors.squeeze()
        shape = factors.shape[1:]
        variances = images.new_zeros(len(images))
        for i, groups in enumerate(zip(patches, others, strict=True)):
            for one, two, pairs in zip(*groups, factors, strict=True):
                own = one.reshape(-1, *self.patches.shape[1:])
                with_own = Responses(self.kernel.base_kernel, own, backend)
                values = with_own.full(two[None]).reshape(shape)
                variances[i] += (values * pairs).sum()
        return variances


def lifted(pooled: Tensor, lift: Tensor) -> Tensor:
    """Return the product (n, r) of sums (n, g, a, b, m) with a lower triangle (m, q).

    Products with zeros are left out, strip by strip of features.
    """
    rows, q = pooled.reshape(-1, len(lift)), lift.shape[1]
    features = rows.new_empty(len(rows), q)
    for strip in slices(q, -(-q // STRIPS)):
        own = lift[strip.start :, strip].contiguous()
        torch.mm(rows[:, strip.start :], own, out=features[:, strip])
    return features.reshape(len(pooled), -1)


def pooled_together(
    sets: tuple[InducingSet, ...], *versions: Tensor, backend: str, like: Tensor
) -> list[Tensor]:
    """Return what `pooled` of each set does, of sets that share responses.

    Responses are computed once, and added up for all pairs of rows and columns.
    """
    joint = once(sets[0], tuple(map(id, sets)), lambda: _joint(sets))
    pooled = joint.pooled(*versions, backend=backend, like=like)
    row, column, found = 0, 0, []
    for one in sets:
        own = pooled.narrow(2, row, len(one.rows))
        found.append(own.narrow(3, column, len(one.columns)))
        row, column = row + len(one.rows), column + len(one.columns)
    return found


def _joint(sets: tuple[InducingSet, ...]) -> InducingSet:
    """Return the set with the rows and the columns of all."""
    rows = np.concatenate([one.rows for one in sets])
    columns = np.concatenate([one.columns for one in sets])
    return replace(sets[0], rows=rows, columns=columns)


def place_locations(
    kernel: PatchKernel, image_shape: ImageShape, wanted: Any
) -> tuple[int, int]:
    """Return the number of places along the height and the width."""
    length, shape = kernel.location_lengthscale, kernel.grid(image_shape).shape
    if length is None:
        return 1, 1
    if not isinstance(wanted, str):
        return min(shape[0], wanted[0]), min(shape[1], wanted[1])
    spacing = SPACING * plain_value(cast(Scalar, length))
    spans = (kernel.stride * size / spacing for size in shape)
    rows, columns = (
        min(size, max(FEWEST_PLACES, min(MOST_PLACES, round(span))))
        for size, span in zip(shape, spans, strict=True)
    )
    return rows, columns
