"""Left-out predictions of latent functions whose noise follows from the labels."""

from __future__ import annotations

import torch
from torch import Tensor

from skconvgp._typing import FloatArray
from skconvgp.engine import to_numpy
from skconvgp.inference import Sites


def left_out_outputs(
    sites: Sites,
    mean: Tensor,
    var: Tensor,
    residual_diag: Tensor,
    amplitude: float,
    n_outputs: int,
) -> tuple[FloatArray, FloatArray]:
    """Return leave-one-out means and variances (n, n_outputs) of samples.

    Parameters
    ----------
    sites : Sites
        Parts of the posterior that leave with each sample.
    mean, var : Tensor of shape (n, k)
        Posterior of the latent functions; variances are those that features explain,
        for amplitude 1.
    residual_diag : Tensor of shape (n,)
        Variances that features do not explain, where they are added.
    amplitude : float
        Mean prior variance.
    n_outputs : int
        Number of outputs: there may be one function for two.
    """
    mean, var = sites.leave_out(mean, var)
    var = amplitude * (var + residual_diag[:, None])
    return of_outputs(mean, n_outputs), to_numpy(var.expand(-1, n_outputs))


def of_outputs(mean: Tensor, n_outputs: int) -> FloatArray:
    """Return means (n, k) of latent functions for all outputs."""
    if mean.shape[1] < n_outputs:  # of the second of two classes
        mean = torch.cat([-mean, mean], dim=1)
    return to_numpy(mean)
