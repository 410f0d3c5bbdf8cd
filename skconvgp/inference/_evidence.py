"""Evidence and leave-one-out in closed form.

The formulas: docs/maths.rst, "Evidence and leave-one-out".

The model of one output is y ~ N(0, a M), M = K + noise diag(1 / w), where K has mean
diagonal 1 and w are the sample weights; a weight of two is two equal observations.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = [
    "UNINFORMED",
    "LeaveOneOut",
    "informative",
    "leave_one_out",
    "leave_one_unit_out",
    "log_marginal_likelihood",
    "mean_variance",
    "missing_quadratic",
    "moment_amplitude",
    "profiled_amplitude",
    "profiled_amplitudes",
]

# Amplitude of an output whose targets are all zero, which determine none.
UNINFORMED = 1.0


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


def informative(targets: Tensor) -> Tensor:
    """Return which outputs (k,) determine an amplitude: those with targets, or all.

    Parameters
    ----------
    targets : Tensor of shape (..., k)
        Targets (n, k), or their sums of squares (k,). An output whose targets are all
        zero says nothing, unless there is no other.
    """
    has_any = (targets != 0.0).reshape(-1, targets.shape[-1]).any(0)
    return has_any if bool(has_any.any()) else torch.ones_like(has_any)


def profiled_amplitude(quadratic: Tensor, weights: Tensor, informs: Tensor) -> Tensor:
    """Return the amplitudes (k,) that maximise the evidence, the same for all outputs.

    An output that determines none has the amplitude `UNINFORMED`.

    Parameters
    ----------
    quadratic : Tensor of shape (k,)
        <y, M^-1 y> of each output.
    weights : Tensor of shape (n,)
        Sample weights.
    informs : Tensor of shape (k,)
        Which outputs determine an amplitude, as of `informative`.
    """
    return profiled_amplitudes(quadratic[informs], weights).where(informs, UNINFORMED)


def profiled_amplitudes(quadratic: Tensor, weights: Tensor) -> Tensor:
    """Return the amplitude shared by all outputs, for each of several matrices M.

    Parameters
    ----------
    quadratic : Tensor of shape (..., k)
        <y, M^-1 y> of each output.
    weights : Tensor of shape (n,)
        Sample weights.
    """
    n_values = quadratic.shape[-1] * float(weights.sum())
    tiny = torch.finfo(quadratic.dtype).tiny  # targets that are all zero
    return (quadratic.sum(-1) / n_values).clamp(min=tiny)


def moment_amplitude(
    targets: Tensor, noise: float | Tensor, weights: Tensor, informs: Tensor
) -> Tensor:
    """Return the amplitudes (k,) for which the model expects squares like the targets'.

    It needs no linear solve: the expected weighted squares are the weights plus noise.

    Parameters
    ----------
    targets : Tensor of shape (n, k)
        Y.
    noise : float or Tensor of shape (n,)
        Noise variance of a single observation.
    weights : Tensor of shape (n,)
        Sample weights.
    informs : Tensor of shape (k,)
        Which outputs determine an amplitude, as of `informative`.
    """
    squares = (weights @ targets.square())[informs].mean()
    tiny = torch.finfo(targets.dtype).tiny
    shared = (squares / (weights + noise).sum()).clamp(min=tiny)
    return shared.where(informs, UNINFORMED)


def missing_quadratic(targets: Tensor, residual: float, noise: Tensor) -> Tensor:
    """Return a bound (k,) of <y, M^-1 y> - <y, x> for an iterate x near M^-1 y.

    If the residual r = y - M x is orthogonal to x, as in conjugate gradients, the
    difference is <r, M^-1 r>. It is at most |r|^2 divided by the smallest noise, as no
    eigenvalue of M is below the noise.

    Parameters
    ----------
    targets : Tensor of shape (n, k)
        Y.
    residual : float
        Largest norm of a residual, divided by the norm of its target.
    noise : Tensor of shape (n,)
        Noise variances on the diagonal of M.
    """
    return residual**2 * targets.square().sum(0) / noise.min()


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
        <y, M^-1 y> of each output; (b, k) for several matrices M, as is `amplitude`.
    logdet : Tensor of shape () or (b, 1)
        Logarithm of the determinant of M.
    amplitude : Tensor of shape (k,)
        The factor a of each output.
    noise : float or Tensor of shape (n,) or (b, 1)
        Noise variance of a single observation.
    weights : Tensor of shape (n,)
        Sample weights.
    """
    total = weights.sum()
    # A sample of weight w and noise v is w observations. Their determinant has w - 1
    # more factors v, and a factor w, as the mean of w observations has the noise v / w.
    repeats = torch.xlogy(weights - 1.0, noise).sum(-1, keepdim=True)
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
    r"""Return the prediction of each target when its whole sample is left out.

    .. math:: \mu_{-i} = y_i - \alpha_i / A_{ii}, \quad
              \sigma^2_{-i} = 1 / A_{ii} - \lambda / w_i + \lambda / \min(w_i, 1)

    with A = M^-1. The sample is left out with its whole weight. If the weight exceeds
    one, the variance is that of a single observation. No two samples may have equal
    inputs.

    Parameters
    ----------
    targets, dual : Tensor of shape (n, k)
        Y and M^-1 Y, (b, n, k) for several matrices M.
    inverse_diag : Tensor of shape (n,) or (b, n)
        Diagonal of M^-1.
    noise : float or Tensor of shape (n,) or (b, 1)
        Noise variance of a single observation.
    weights : Tensor of shape (n,)
        Sample weights.
    """
    mean = targets - dual / inverse_diag[..., None]
    single = noise / weights.clamp(max=1.0) - noise / weights
    return LeaveOneOut(mean, 1.0 / inverse_diag + single)


def leave_one_unit_out(
    loo: LeaveOneOut,
    targets: Tensor,
    whole_targets: Tensor,
    noise: float | Tensor,
    totals: Tensor,
    staying: Tensor,
) -> LeaveOneOut:
    """Return leave-one-out predictions if a part of the weight at an input stays.

    Parameters
    ----------
    loo : LeaveOneOut
        Predictions without any sample with the input.
    targets, whole_targets : Tensor of shape (n, k)
        Target of each sample, and the mean target of all samples with its input.
    noise : float or Tensor of shape (n,)
        Noise variance of a single observation.
    totals, staying : Tensor of shape (n,)
        Weight of all samples with the same input, and the part of it that stays.
    """
    if not bool(staying.any()):
        return loo
    tiny = torch.finfo(staying.dtype).tiny
    removed = totals - staying
    # The mean target of the weight that stays: its observations update the prediction
    # as in a Kalman filter.
    staying_sums = totals[:, None] * whole_targets - removed[:, None] * targets
    staying_mean = staying_sums / staying.clamp(min=tiny)[:, None]
    latent = (loo.var - noise / totals.clamp(max=1.0)).clamp(min=0.0)
    gain = latent * staying / (noise + latent * staying).clamp(min=tiny)
    updated = torch.lerp(loo.mean, staying_mean, gain[:, None])
    mean = torch.where(staying[:, None] > 0.0, updated, loo.mean)
    return LeaveOneOut(mean, latent * (1.0 - gain) + noise / removed.clamp(max=1.0))
