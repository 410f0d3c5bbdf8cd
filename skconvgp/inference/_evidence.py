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
    """Predictions of each training target from all the others."""

    mean: Tensor  # (n, k)
    var: Tensor  # (n,), of the left-out target, its noise included, for amplitude 1


def informative(targets: Tensor) -> Tensor:
    """Return which outputs (k,) determine an amplitude: those with targets, or all.

    `targets` holds targets (n, k), or their sums of squares (k,). An output whose
    targets are all zero says nothing, unless there is no other.
    """
    has_any = (targets != 0.0).reshape(-1, targets.shape[-1]).any(0)
    return has_any if bool(has_any.any()) else torch.ones_like(has_any)


def profiled_amplitude(quadratic: Tensor, weights: Tensor, informs: Tensor) -> Tensor:
    """Return the amplitudes (k,) that maximise the evidence, the same for all outputs.

    `quadratic` (k,) is <y, M^-1 y> of each output; the weights (n,) are those of
    samples. `informs` (k,) says which outputs determine an amplitude, as found by
    `informative`: one that determines none has the amplitude `UNINFORMED`.
    """
    return profiled_amplitudes(quadratic[informs], weights).where(informs, UNINFORMED)


def profiled_amplitudes(quadratic: Tensor, weights: Tensor) -> Tensor:
    """Return the amplitude shared by all outputs, for each of several matrices M.

    `quadratic` (..., k) is <y, M^-1 y> of each output; the weights (n,) are those of
    samples.
    """
    n_values = quadratic.shape[-1] * float(weights.sum())
    tiny = torch.finfo(quadratic.dtype).tiny  # targets that are all zero
    return (quadratic.sum(-1) / n_values).clamp(min=tiny)


def moment_amplitude(
    targets: Tensor, noise: float | Tensor, weights: Tensor, informs: Tensor
) -> Tensor:
    """Return the amplitudes (k,) for which the model expects squares like the targets'.

    It needs no linear solve: the expected weighted squares are the weights plus noise.
    Targets are (n, k) and weights (n,). The noise is the variance of a single
    observation, a number or (n,). `informs` is as in `profiled_amplitude`.
    """
    squares = (weights @ targets.square())[informs].mean()
    tiny = torch.finfo(targets.dtype).tiny
    shared = (squares / (weights + noise).sum()).clamp(min=tiny)
    return shared.where(informs, UNINFORMED)


def missing_quadratic(targets: Tensor, residual: float, noise: Tensor) -> Tensor:
    """Return a bound (k,) of <y, M^-1 y> - <y, x> for an iterate x near M^-1 y.

    If the residual r = y - M x is orthogonal to x, as in conjugate gradients, the
    difference is <r, M^-1 r>. It is at most |r|^2 divided by the smallest noise, as no
    eigenvalue of M is below the noise (n,) on its diagonal. `residual` is the largest
    norm of a residual, divided by the norm of its target y, a column of `targets`
    (n, k).
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

    `quadratic` (k,) is <y, M^-1 y> of each output, `logdet` () is log |M|, and
    `amplitude` (k,) holds the factors a. The noise is the variance of a single
    observation, a number or (n,). For b matrices M, `quadratic` and `amplitude` are
    (b, k), `logdet` and the noise (b, 1).
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

    `targets` and `dual` (n, k) are Y and M^-1 Y, `inverse_diag` (n,) is the diagonal of
    M^-1. The noise is the variance of a single observation, a number or (n,). For b
    matrices M these are (b, n, k), (b, n) and (b, 1).
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

    `loo` has the predictions without any sample with the input. `whole_targets` (n, k)
    are mean targets of all samples with the input of a sample. Of their weight `totals`
    (n,) the part `staying` stays. The noise is the variance of a single observation, a
    number or (n,).
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
