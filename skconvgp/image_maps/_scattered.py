"""ScatteredView: scattering coefficients with whitened channels."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from skconvgp._typing import FloatArray
from skconvgp.engine import rows_to_tensor, slices, to_numpy, to_tensor
from skconvgp.image_maps._channels import ChannelComponents, ChannelZCA
from skconvgp.image_maps._scattering import Scattering
from skconvgp.linalg import symmetric_eigen

__all__ = ["ScatteredFit", "ScatteredView"]

AT_ONCE = 64  # images


@dataclass(frozen=True)
class ScatteredView:
    """Logarithms of scattering coefficients, with whitened channels.

    Parameters
    ----------
    scattering : Scattering
        The coefficients.
    whitening : ChannelZCA
        Scale, logarithm and whitening of their channels.
    components : ndarray of shape (k, c')
        Principal components of the whitened channels, as rows.
    colors : ChannelComponents or None
        The components of the channels that are scattered; None scatters the channels.
    has_unit_length : bool
        Whether the values of each position are divided by their length.
    """

    scattering: Scattering
    whitening: ChannelZCA = field(repr=False)
    components: FloatArray = field(repr=False)
    colors: ChannelComponents | None = field(repr=False)
    has_unit_length: bool

    def __call__(self, images: Tensor) -> Tensor:
        """Return images (n, k, h', w') as the view shows images (n, c, h, w)."""
        return self.project(_coefficients(self.scattering, self.colors, images))

    def project(self, coefficients: Tensor) -> Tensor:
        """Return the components (n, k, h', w') of coefficients (n, c', h', w')."""
        white = self.whitening(coefficients)
        components = to_tensor(self.components, white.device, white.dtype)
        shown = torch.einsum("kc,nchw->nkhw", components, white)
        if not self.has_unit_length:
            return shown
        # Derivatives of the length at 0 are not finite.
        squares = shown.square().sum(1, keepdim=True)
        return shown * torch.where(squares > 0.0, squares, 1.0).rsqrt()


@dataclass(frozen=True)
class ScatteredFit:
    """Fits a view of scattering coefficients.

    Parameters
    ----------
    scattering : Scattering
        The coefficients.
    offset : float
        Added to coefficients, in units of their root mean squares, before logarithms
        are taken.
    eps : float
        Added to eigenvalues of the channels' covariance, as a share of their mean.
    share : float
        Share of the variance of whitened channels that components keep. Networks see
        products of channels, which a rotation does not change, and take time for each.
    mixes_colors : bool
        Whether principal components of the channels are scattered instead of these. The
        modulus is not linear: coefficients of red, green and blue, which are much
        alike, hold less about colours than those of brightness and of contrasts.
    has_unit_length : bool
        Whether the values of each position are divided by their length.
    """

    scattering: Scattering
    offset: float = 0.1
    eps: float = 1.0
    share: float = 0.99
    mixes_colors: bool = False
    has_unit_length: bool = False

    def __call__(self, images: Tensor) -> tuple[ScatteredView, Tensor]:
        """Return the view that is fitted to images (n, c, h, w), and what it shows."""
        single = images.to(torch.float32)
        colors = ChannelComponents.fit(single) if self.mixes_colors else None
        blocks = list(slices(len(images), AT_ONCE))
        raw = torch.cat(
            [_coefficients(self.scattering, colors, single[part]) for part in blocks]
        )
        whitening = ChannelZCA.fit(raw, self.offset, self.eps)
        components = self._components(whitening)
        view = ScatteredView(
            self.scattering, whitening, components, colors, self.has_unit_length
        )
        return view, torch.cat([view.project(raw[part]).to("cpu") for part in blocks])

    def _components(self, whitening: ChannelZCA) -> FloatArray:
        """Return the components (k, c) that keep the share of the variance.

        The factors of whitening are (l + m)^(-1/2) for eigenvalues l of the covariance
        and the added number m; variances after it are l / (l + m).
        """
        matrix = rows_to_tensor(whitening.whitening)
        factors, vectors = symmetric_eigen(matrix)  # the largest variances first
        eigenvalues = factors.pow(-2)
        # The mean of l + m is that of l, times 1 + eps.
        added = eigenvalues.mean() * self.eps / (1.0 + self.eps)
        variances = ((eigenvalues - added) / eigenvalues).clamp(min=0.0)
        explained = variances.cumsum(0) / variances.sum()
        n_kept = int((explained < self.share).sum()) + 1
        return to_numpy(vectors[:, :n_kept].mT.contiguous())


def _coefficients(
    scattering: Scattering, colors: ChannelComponents | None, images: Tensor
) -> Tensor:
    """Return the coefficients (n, c', h', w') of images or of their components."""
    return scattering(images if colors is None else colors(images))
