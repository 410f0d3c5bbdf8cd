"""BoundLatents: latent functions of a batch, and slopes of the bound.

The formulas: docs/maths.rst, "Learning by the bound".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from skconvgp._protocols import ExpectedSites
from skconvgp._typing import FloatArray
from skconvgp.engine import to_numpy
from skconvgp.flows._patch_parameters import PatchParameters
from skconvgp.flows._patch_task import PatchPoint
from skconvgp.inference import Coefficients


@dataclass(frozen=True)
class BoundLatents:
    """A batch: its features, latent functions, and expected sites."""

    images: Tensor
    point: PatchPoint
    features: Tensor  # (b, r)
    coefficients: list[Coefficients]
    root: Tensor  # (k,), deviations of latent functions where the kernel is 1
    mean: Tensor  # (b, k), of the latent functions, divided by `root`
    var: Tensor  # (b, k), of the latent functions
    sites: ExpectedSites

    def slope(self, parameters: PatchParameters, *, of_targets: bool) -> FloatArray:
        """Return derivatives (p + 1,) of the expected log likelihood of the batch.

        The last one is by the logarithm of the amplitude, of which the noise of targets
        is a share.
        """
        sites, root = self.sites, self.root
        by_mean, by_var = root * sites.gradient, root.square() * sites.variance_slope
        by_prior = by_var.sum(1)
        by_features = -2.0 * by_prior[:, None] * self.features
        for c, one in enumerate(self.coefficients):
            by_features += one.pulled(self.features, by_mean[:, c], by_var[:, c])
        slope = self.point.slope(self.images, by_features)
        slope = slope + self.point.variance_slope(self.images, by_prior)
        by_scale = (by_mean * self.mean).sum() / 2.0
        by_scale += (sites.variance_slope * self.var).sum()
        total = np.append(to_numpy(slope), float(by_scale))
        if of_targets:
            spread = sites.gradient.square() / sites.curvature
            spread += self.var * sites.curvature
            by_noise = float((spread - 1.0).sum() / 2.0)
            total[-1] += by_noise
            if parameters.learns_noise:
                total[parameters.sizes[0]] += by_noise
        return total
