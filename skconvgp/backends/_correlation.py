"""Tiles of correlations, computed from the tiles of another backend."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from skconvgp._protocols import TileBackend, TileCosts
from skconvgp._typing import Prepared
from skconvgp.kernels._normalizations import inverse_deviations, unit_variances

__all__ = ["CorrelationBackend"]

LIVE_RESULTS = 3  # of a pair: the covariance, the scaled and the corrected result


@dataclass(frozen=True)
class CorrelationBackend:
    r"""Tiles of :math:`R_{ij} = K_{ij} / \sqrt{K_{ii} K_{jj}}`.

    With tangents a value is followed by its derivatives, by the quotient rule

    .. math:: dR_{ij} = \frac{dK_{ij}}{\sqrt{K_{ii} K_{jj}}} - R_{ij}
              \left(\frac{dK_{ii}}{2 K_{ii}} + \frac{dK_{jj}}{2 K_{jj}}\right).
    """

    backend: TileBackend  # computes K, with tangents or without

    def measure(self, image: Tensor) -> TileCosts:
        """Return the bytes that images like this one (1, c, h, w) need."""
        costs = self.backend.measure(image)
        return replace(
            costs,
            image_bytes=costs.image_bytes + costs.value_bytes,
            pair_bytes=costs.pair_bytes + LIVE_RESULTS * costs.value_bytes,
        )

    def prepare(self, images: Tensor) -> Prepared:
        """Prepare images (n, c, h, w), with 1 / sqrt(K) and dK / 2 K of each (q, n)."""
        tree = self.backend.prepare(images)
        diag = self.backend.diag(tree).reshape(len(images), -1).mT
        inverse = inverse_deviations(diag[:1])
        slopes = diag[1:] * (inverse * inverse / 2.0)
        return tree, torch.cat([inverse, slopes])

    def cross(self, one: Prepared, two: Prepared) -> Tensor:
        """Return the correlations (n1, n2) of a tile, or (n1, n2, q) with tangents."""
        tree1, scales1 = _sides(one)
        tree2, scales2 = _sides(two)
        return _correlations(self.backend.cross(tree1, tree2), scales1, scales2)

    def gram(self, one: Prepared) -> Tensor:
        """Return the correlations of a diagonal tile; those below are undefined."""
        tree, scales = _sides(one)
        return _correlations(self.backend.gram(tree), scales, scales)

    def diag(self, one: Prepared) -> Tensor:
        """Return 1 for each image (n,), or (n, q) with tangents of 0."""
        tree, scales = _sides(one)
        diag = torch.zeros_like(self.backend.diag(tree))
        diag.reshape(len(diag), -1)[:, 0] = unit_variances(scales[0])
        return diag


def _sides(prepared: Prepared) -> tuple[Prepared, Tensor]:
    assert isinstance(prepared, tuple)
    tree, scales = prepared
    assert isinstance(scales, Tensor)
    return tree, scales


def _correlations(values: Tensor, scales1: Tensor, scales2: Tensor) -> Tensor:
    """Turn covariances, with tangents or without, into correlations."""
    scaled = values.reshape(*values.shape[:2], -1) * (
        scales1[0, :, None, None] * scales2[0, None, :, None]
    )
    slopes1, slopes2 = scales1[1:].mT[:, None], scales2[1:].mT[None]
    scaled[..., 1:] -= scaled[..., :1] * (slopes1 + slopes2)
    return scaled.reshape(values.shape)
