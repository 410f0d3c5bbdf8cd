"""ScatteredView: scattering coefficients with whitened channels."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor

from skconvgp._typing import ImageShape
from skconvgp.image_maps._blocks import ImageBlocks
from skconvgp.image_maps._channels import ChannelSpectrum, ChannelZCA
from skconvgp.image_maps._pixels import PixelMap
from skconvgp.image_maps._scattering import Scattering
from skconvgp.kernels._from_data import smallest_digests

__all__ = ["ScatteredFit", "ScatteredView", "Scatterer"]

AT_ONCE = 64  # images
# Coefficients as a share of the largest, and lengths of whitened ones, that rounding of
# single numbers may cause.
FAINT, SHORT = 1e-6, 1e-5
# Positions whose coefficients are whitened, and of which every so many-th one along a
# side tells which images these are of.
MOST_POSITIONS, DIGESTED = 2**17, 3


@dataclass(frozen=True)
class Scatterer:
    """Scattering coefficients of images, behind a first map."""

    scattering: Scattering
    first: PixelMap | None  # map that images pass through before they are scattered

    def n_values(self, image_shape: ImageShape) -> int:
        """Return how many coefficients an image has, at most."""
        return math.prod(self.scattering.shape(image_shape))

    def __call__(self, images: Tensor) -> Tensor:
        """Return the coefficients (n, c', h', w') of images (n, c, h, w)."""
        return self.scattering(images if self.first is None else self.first(images))


@dataclass(frozen=True)
class ScatteredView:
    """Logarithms of scattering coefficients, with whitened channels."""

    source: Scatterer  # of the coefficients, which several views may share
    # Scale and logarithm of the channels of the coefficients, and then the principal
    # components of whitened ones.
    components: ChannelZCA = field(repr=False)
    # Whether the values of each position are divided by their length.
    has_unit_length: bool

    @property
    def cell(self) -> int:
        """Side of the pixels that a position stands for; 0 if pixels were moved."""
        first = self.source.first
        if first is not None and first.moves_pixels:
            return 0
        return int(2**self.source.scattering.n_scales)

    def __call__(self, images: Tensor) -> Tensor:
        """Return images (n, k, h', w') as the view shows images (n, c, h, w)."""
        return self.project(self.source(images))

    def for_prediction(self) -> Self:
        """Return the view with a matrix in single precision."""
        return replace(self, components=self.components.for_prediction())

    def project(self, coefficients: Tensor) -> Tensor:
        """Return the components (n, k, h', w') of coefficients (n, c', h', w')."""
        shown = self.components(coefficients)
        if not self.has_unit_length:
            return shown
        # Derivatives of the length at 0 are not finite.
        squares = shown.square().sum(1, keepdim=True)
        return shown * torch.where(squares > SHORT**2, squares, 1.0).rsqrt()


@dataclass(frozen=True)
class ScatteredFit:
    """Fits a view of scattering coefficients."""

    scattering: Scattering
    # Added to coefficients, in units of their root mean squares, before logarithms are
    # taken.
    offset: float = 0.1
    # Added to eigenvalues of the channels' covariance, as a share of their mean.
    eps: float = 1.0
    # Share of the variance of whitened channels that components keep. Networks see
    # products of channels, which a rotation does not change, and take time for each.
    share: float = 0.99
    # Fits a map that images pass through before they are scattered. The modulus is not
    # linear: coefficients of red, green and blue, which are much alike, hold less about
    # colours than those of their principal components.
    fit_first: Callable[[ImageBlocks], PixelMap] | None = None
    # Whether the values of each position are divided by their length.
    has_unit_length: bool = False

    def n_values(self, image_shape: ImageShape) -> int:
        """Return how many numbers of each image a fit holds at once, at most.

        These are the coefficients, and what the view shows twice, as it is joined.
        """
        return 3 * math.prod(self.scattering.shape(image_shape))

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for fits of views of the same coefficients."""
        return self.scattering, self.fit_first, self.offset

    def __call__(self, images: Tensor) -> tuple[ScatteredView, Tensor]:
        """Return the view fitted to images (n, c, h, w), and these through it."""
        return self.fit_on(*self.fit_source(images))

    def fit_source(self, images: Tensor) -> tuple[Scatterer, Tensor, ChannelSpectrum]:
        """Return coefficients fitted to images (n, c, h, w), and those of these.

        The spectrum of their channels whitens them for all views.
        """
        single = images.to(torch.float32)
        given = ImageBlocks(single, single.device, AT_ONCE)
        first = None if self.fit_first is None else self.fit_first(given)
        source = Scatterer(self.scattering, first)
        raw = torch.cat([source(single[part]) for part in given.parts])
        some = replace(given, images=_whitened(raw))
        return source, raw, ChannelSpectrum.fit(some, self.offset, FAINT)

    def fit_on(
        self, source: Scatterer, raw: Tensor, spectrum: ChannelSpectrum
    ) -> tuple[ScatteredView, Tensor]:
        """Return the view of coefficients (n, c', h', w'), and these through it."""
        components = spectrum.components(self.eps, self.share)
        view = ScatteredView(source, components, self.has_unit_length)
        blocks = ImageBlocks(raw, raw.device, AT_ONCE)
        shown = [view.project(raw[part]) for part in blocks.parts]
        return view, torch.cat(shown)


def _whitened(raw: Tensor) -> Tensor:
    """Return coefficients (m, c', h', w') of those images that whiten the channels.

    Which ones does not depend on the order, in which classes may alternate.
    """
    n_wanted = max(1, MOST_POSITIONS // math.prod(raw.shape[2:]))
    if len(raw) <= n_wanted:
        return raw
    told = raw[:, :, ::DIGESTED, ::DIGESTED].flatten(1)
    return raw[smallest_digests(told, n_wanted)]
