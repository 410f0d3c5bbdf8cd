"""Evidence and leave-one-out in closed form (maths.md 4.2).

The model of one output is y ~ N(0, a M), M = K + noise diag(1 / w), where K has mean
diagonal 1 and w are the sample weights; a weight of two is two equal observations.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = [
    "LeaveOneOut",
    "leave_one_out",
    "log_marginal_likelihood",
    "mean_variance",
    "profiled_amplitude",
]


@dataclass(frozen=True)
class LeaveOneOut:
    """Predictions of each training target from all the others.

    Parameters
    ----------
    mean : Tensor of shape (n, k)
        Means.
    var : Tensor of shape (n,)
        Variances of the left-out target, its noise included, for amplitude 1.
    """

    mean: Tensor
    var: Tensor


def profiled_amplitude(targets: Tensor, dual: Tensor, weights: Tensor) -> float:
    """Return the amplitude that maximises the evidence, shared by all outputs.

    Parameters
    ----------
    targets, dual : Tensor of shape (n, k)
        Y and M^-1 Y.
    weights : Tensor of shape (n,)
        Sample weights.
    """
    n_values = targets.shape[1] * float(weights.sum())
    tiny = torch.finfo(targets.dtype).tiny  # targets that are all zero
    return max(float((targets * dual).sum()) / n_values, tiny)


def log_marginal_likelihood(
    quadratic: Tensor,
    logdet: Tensor,
    amplitude: Tensor,
    noise: float | Tensor,
    weights: Tensor,
) -> Tensor:
    r"""Return the log evidence (k,) of each output.

    .. math:: -\tfrac12 \langle y, (aM)^{-1} y\rangle - \tfrac12 \log|aM|
              - \tfrac12 W \log 2\pi, \quad W = \sum_i w_i

    where :math:`\log|aM|` is that of W single observations.

    Parameters
    ----------
    quadratic : Tensor of shape (k,)
        <y, M^-1 y> of each output.
    logdet : Tensor of shape ()
        Logarithm of the determinant of M.
    amplitude : Tensor of shape (k,)
        The factor a of each output.
    noise : float or Tensor of shape (n,)
        Noise variance of a single observation.
    weights : Tensor of shape (n,)
        Sample weights.
    """
    total = weights.sum()
    repeats = torch.xlogy(weights - 1.0, noise).sum()
    logdet_all = logdet + repeats + weights.log().sum() + total * amplitude.log()
    return -0.5 * (quadratic / amplitude + logdet_all + total * math.log(2.0 * math.pi))


def mean_variance(diag: Tensor, weights: Tensor) -> float:
    """Return the weighted mean prior variance; raise unless it is positive."""
    mean = float((weights.to(diag) * diag).sum() / weights.sum())
    if not mean > 0.0:
        raise ValueError(
            f"The mean prior variance is {mean!r} and must be > 0: the kernel is zero "
            "on this data, or a precomputed Gram matrix is not positive semi-definite."
        )
    return mean


def leave_one_out(
    targets: Tensor,
    dual: Tensor,
    inverse_diag: Tensor,
    noise: float | Tensor,
    weights: Tensor,
) -> LeaveOneOut:
    r"""Return the prediction of each target when one unit of its weight is left out.

    .. math:: \mu_{-i} = y_i - \alpha_i / A_{ii}, \quad \sigma^2_{-i} = 1 / A_{ii}

    with A = M^-1; for a weight above one the other units stay.

    Parameters
    ----------
    targets, dual : Tensor of shape (n, k)
        Y and M^-1 Y.
    inverse_diag : Tensor of shape (n,)
        Diagonal of M^-1.
    noise : float or Tensor of shape (n,)
        Noise variance of a single observation.
    weights : Tensor of shape (n,)
        Sample weights.
    """
    units = weights.clamp(min=1.0)
    rest = torch.where(units > 1.0, (1.0 - 1.0 / units) / noise, 0.0)
    precision = inverse_diag / units**2 + rest
    mean = targets - (dual / units[:, None]) / precision[:, None]
    return LeaveOneOut(mean, 1.0 / precision)
