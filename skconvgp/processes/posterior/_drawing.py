"""Draws of functions: common steps, and messages where there are none."""

from __future__ import annotations

import torch
from torch import Tensor

from skconvgp._protocols import FeatureMap
from skconvgp.engine import slices, stream_rows
from skconvgp.kernels._feature_maps import shared_values
from skconvgp.processes._run import Run

NO_PATHWISE = (
    "method='pathwise' draws functions of processes of features, and of exact ones "
    "with a kernel object: fit with completion=None, a kernel of skconvgp.kernels and, "
    "for classes, a likelihood that turns labels into targets, like Gaussian() or "
    "Dirichlet(), or use method='joint'."
)
NO_BOOTSTRAP = (
    "method='bootstrap' draws coefficients of features: fit with "
    "completion=RandomFeatures() or Nystrom(), and for classes with a likelihood that "
    "turns labels into targets, like Gaussian() or Dirichlet(). For exact processes "
    "method='pathwise' is the same: it perturbs targets and draws a function from the "
    "prior."
)


def prior_values(
    features: FeatureMap, images: Tensor, weights: Tensor, run: Run
) -> Tensor:
    """Return features (n, r) of images times weights (r, s), some rows at a time."""
    itemsize = weights.itemsize
    budget = run.config.memory_budget - shared_values(features) * itemsize
    n_rows = stream_rows(max(1, features.n_values), itemsize, budget)
    return torch.cat(
        [
            features(images[part]).to(weights) @ weights
            for part in slices(len(images), n_rows)
        ]
    )
