"""The parts among which left-out images choose: views and kernels of images.

What was chosen by hand, and on which images: docs/adr/image-classifier.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from skconvgp._typing import ImageShape
from skconvgp.image_maps import (
    ChannelComponents,
    ImageBlocks,
    PixelMap,
    ScatteredFit,
    Scattering,
    Upright,
)
from skconvgp.kernels import Kernel, PatchKernel, PatchWhitening, convnet, rbf
from skconvgp.processes import PartChoice, TermChoice, flops_of_choice, values_of_choice

COLORS = 3
# Patches, their location lengthscale as a share of the longer side, their number, and
# places along a side.
COLOR_PATCHES, GREY_PATCHES = (3, 6 / 32, 1024, 4), (5, 3.5 / 28, 256, 5)
# Those of scattering coefficients, the length of which is 1; the lengthscale between
# them; and what is added to eigenvalues when they are whitened.
SCATTERED_PATCHES, UNIT_LENGTHSCALE, SCATTERED_EPS = (1, 1 / 8, 512, 6), 0.7, 3.0
# Angles and largest number of scales of scattering, and fewest positions along a side
# that remain.
N_ANGLES, MOST_SCALES, FEWEST_POSITIONS = 8, 4, 4
NETWORK_SIDE = 32  # pixels, of the largest images whose pixels a network sees
# How much a part counts before anything is known: those that were best on photographs
# and digits, and others.
USUAL, OTHER = 4.0, 1.0
# Milliseconds of a core: operations of products, covariances of a pair of positions of
# a network and more for each channel, scattering of a value by the number of scales, by
# the compiled extension.
FLOPS_OF_A_MS, OF_A_POSITION, OF_A_CHANNEL = 4e7, 7e-7, 3.5e-8
OF_SCATTERING = (0.0, 1.1e-5, 4.2e-5, 8e-5, 1.5e-4)

PIXELS = "pixels"
FitFirst = Callable[[ImageBlocks], PixelMap]


@dataclass(frozen=True)
class Dictionary:
    """Makes parts for images of a shape (c, h, w)."""

    shape: ImageShape
    n_images: int  # different ones, with which a new image is compared

    def vectors(self) -> PartChoice:
        """Return the part of vectors."""
        return PartChoice(rbf(), name="rbf()")

    def pixels(self, *, is_placed: bool = True) -> PartChoice:
        """Return patches of the pixels, which know their place or do not."""
        is_color = self.shape[0] == COLORS
        settings = COLOR_PATCHES if is_color else GREY_PATCHES
        whitening = PatchWhitening(0.03) if is_color else None
        part = self._patches(self.shape, settings, whitening, is_placed=is_placed)
        name = "patches of pixels" if is_placed else "patches of pixels anywhere"
        preference = USUAL if is_placed else OTHER
        return replace(part, name=name, preference=preference, patches_key=PIXELS)

    def parts(self) -> tuple[PartChoice, ...]:
        """Return all parts."""
        channels, *size = self.shape
        found = [self.pixels(), self.pixels(is_placed=False)]
        if max(size) <= NETWORK_SIDE:
            found.append(replace(self._network(self.shape), name="network on pixels"))
        of_shape = self._of_colors if channels == COLORS else self._of_grey
        for n_scales in range(1, self.most_scales + 1):
            found += of_shape(n_scales)
        return tuple(found)

    @property
    def most_scales(self) -> int:
        """The largest number of scales; 0 if images are too small to be scattered."""
        positions = max(1, min(self.shape[1:]) // FEWEST_POSITIONS)
        return min(MOST_SCALES, positions.bit_length() - 1)

    def _of_colors(self, n_scales: int) -> Iterator[PartChoice]:
        """Yield parts of the scattering of images with three channels."""
        components = ChannelComponents.fit
        if n_scales % 2:
            yield self._positions(n_scales, components, USUAL)
            yield self._positions(n_scales, None, is_placed=False)
        else:
            yield self._positions(n_scales, None, USUAL)
            yield self._positions(n_scales, None, is_placed=False)
            yield self._scattered_network(n_scales, None)

    def _of_grey(self, n_scales: int) -> Iterator[PartChoice]:
        """Yield parts of the scattering of images with other channels."""
        usual = min(2, self.most_scales)
        yield self._positions(n_scales, None, is_placed=False)
        if n_scales <= usual:
            yield self._positions(n_scales, Upright.fit)
        if n_scales == usual:
            yield self._scattered_network(n_scales, None, USUAL)
            yield self._scattered_network(n_scales, Upright.fit, USUAL)
        if n_scales >= usual:
            yield self._positions(n_scales, None)

    def _positions(
        self,
        n_scales: int,
        fit_first: FitFirst | None,
        preference: float = OTHER,
        *,
        is_placed: bool = True,
    ) -> PartChoice:
        """Return patches of a single position of scattering coefficients."""
        view = self._view(n_scales, fit_first)
        view = replace(view, eps=SCATTERED_EPS, has_unit_length=True)
        shape = view.scattering.shape(self.shape)
        base = rbf(UNIT_LENGTHSCALE)
        part = self._patches(shape, SCATTERED_PATCHES, None, base, is_placed=is_placed)
        kind = "scattering" if is_placed else "scattering anywhere"
        seen = self._seen(part, view, kind, preference)
        return replace(seen, patches_key=view)

    def _scattered_network(
        self, n_scales: int, fit_first: FitFirst | None, preference: float = OTHER
    ) -> PartChoice:
        """Return a network on scattering coefficients."""
        view = self._view(n_scales, fit_first)
        part = self._network(view.scattering.shape(self.shape))
        return self._seen(part, view, "network on scattering", preference)

    def _view(self, n_scales: int, fit_first: FitFirst | None) -> ScatteredFit:
        """Return a view of scattering coefficients."""
        scattering = Scattering(n_scales, N_ANGLES, order=2)
        return ScatteredFit(scattering, fit_first=fit_first)

    def _seen(
        self, part: PartChoice, view: ScatteredFit, kind: str, preference: float
    ) -> PartChoice:
        """Return a part that sees images through a view."""
        n_scales = view.scattering.n_scales
        of = " of components of colours" if view.fit_first else ""
        if view.fit_first == Upright.fit:
            of = " of upright images"
        return replace(
            part,
            fit_view=view,
            name=f"{kind}{of}, J={n_scales}",
            shared_cost=OF_SCATTERING[n_scales] * math.prod(self.shape),
            preference=preference,
        )

    def _network(self, shape: ImageShape) -> PartChoice:
        """Return a network on images of a shape (c, h, w)."""
        each = (OF_A_POSITION + OF_A_CHANNEL * shape[0]) * math.prod(shape[1:])
        return PartChoice(
            convnet(depth=2, kernel_size=3),
            cost=each * self.n_images,
            compared_cost=each,
            n_compared=self.n_images,
        )

    def _patches(
        self,
        shape: ImageShape,
        settings: tuple[int, float, int, int],
        normalization: Any,
        base: Kernel | None = None,
        *,
        is_placed: bool = True,
    ) -> PartChoice:
        """Return patches of images of a shape (c, h, w)."""
        side, share, n_patches, places = settings
        channels, *size = shape
        patch_size = tuple(min(side, length) for length in size)
        n_places = tuple(
            min(places, length - patch + 1) if is_placed else 1
            for length, patch in zip(size, patch_size, strict=True)
        )
        kernel = PatchKernel(
            base,
            patch_size=patch_size,
            location_lengthscale=share * max(size) if is_placed else None,
            normalization=normalization,
        )
        n_features = math.prod(n_places) * n_patches
        flops = (
            math.prod(size) * n_patches * channels * math.prod(patch_size)
            + n_features * n_patches
            + n_features * self.n_images
        )
        choice = TermChoice("kmeans", n_patches, n_places)
        n_values = channels * math.prod(patch_size)
        choosing = flops_of_choice(self.n_images, n_patches, n_values)
        n_positions = 2 * self.n_images * math.prod(size)  # of mirror images, too
        return PartChoice(
            kernel,
            None,
            choice,
            cost=2.0 * flops / FLOPS_OF_A_MS,
            compared_cost=2.0 * n_features / FLOPS_OF_A_MS,
            n_compared=self.n_images,
            choice_cost=choosing / FLOPS_OF_A_MS,
            choice_values=values_of_choice(n_positions, n_patches, n_values),
        )
