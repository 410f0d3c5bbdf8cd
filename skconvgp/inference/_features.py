"""Posterior of a process whose covariance is a product of features.

The formulas: docs/maths.rst, "Columns of landmarks".

The model of one output is y ~ N(0, a (F F^T + D)), where F has r columns and D is
diagonal: the noise of a sample divided by its weight. With FITC the noise includes the
part of the prior variance that the features leave out. The posterior is then a Gaussian
over r coefficients, and depends on the samples only by sums over them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from skconvgp._threads import threads_for
from skconvgp.inference._evidence import (
    LeaveOneOut,
    informative,
    leave_one_out,
    profiled_amplitude,
)
from skconvgp.linalg import (
    cholesky_logdet,
    cholesky_product,
    cholesky_solve,
    half_solve,
    shifted_cholesky_,
    symmetric_eigen,
)

__all__ = [
    "FeaturePosterior",
    "FeatureSums",
    "feature_evidence",
    "feature_inverse_blocks",
    "feature_inverse_diag",
    "feature_leave_one_out",
    "feature_posterior",
    "sum_features",
]

ROWS = 4096  # summed at a time


@dataclass(frozen=True)
class FeatureSums:
    """Sums over samples that determine the posterior; sums over parts add up."""

    moment: Tensor  # (r, r), F^T D^-1 F
    response: Tensor  # (r, k), F^T D^-1 Y
    energy: Tensor  # (k,), diagonal of Y^T D^-1 Y
    log_noise: Tensor  # (), weighted sum of log noise variances of single observations
    weight: Tensor  # (), sum of the weights

    def __add__(self, other: FeatureSums) -> FeatureSums:
        """Return the sums over the samples of both."""
        return FeatureSums(
            self.moment + other.moment,
            self.response + other.response,
            self.energy + other.energy,
            self.log_noise + other.log_noise,
            self.weight + other.weight,
        )


@dataclass(frozen=True)
class FeaturePosterior:
    """Posterior of the coefficients, for amplitude 1."""

    factor: Tensor  # (r, r), lower Cholesky factor of the precision, I + F^T D^-1 F
    mean: Tensor  # (r, k)
    # Number that had to be added to the diagonal of the precision; 0 if none.
    jitter: float = 0.0

    def half(self, features: Tensor) -> Tensor:
        """Return R (r, n1): R^T R is the posterior covariance at features (n1, r)."""
        return half_solve(self.factor, features.mT)

    def sums(self) -> tuple[Tensor, Tensor]:
        """Return F^T D^-1 F (r, r) and F^T D^-1 Y (r, k), from which it followed.

        The error is that of one more factorisation.
        """
        moment = cholesky_product(self.factor)
        response = moment @ self.mean
        moment.diagonal().sub_(1.0 + self.jitter)
        return moment, response


def sum_features(
    features: Tensor, targets: Tensor, noise: Tensor, weights: Tensor
) -> FeatureSums:
    """Return the sums over samples that the posterior depends on.

    Features are (n, r), targets (n, k) and weights (n,). The noise (n,) is the variance
    of a single observation, > 0.
    """
    precision = weights / noise
    moment = features.new_zeros(features.shape[1], features.shape[1])
    for start in range(0, len(features), ROWS):
        rows = slice(start, start + ROWS)
        scaled = features[rows] * precision[rows, None].sqrt()
        with threads_for(moment.shape[0] * scaled.numel()):
            moment.addmm_(scaled.mT, scaled)
    weighted = targets * precision[:, None]
    return FeatureSums(
        moment,
        features.mT @ weighted,
        (targets * weighted).sum(0),
        (weights * noise.log()).sum(),
        weights.sum(),
    )


def feature_posterior(sums: FeatureSums) -> FeaturePosterior:
    """Return the posterior of the coefficients."""
    ones = torch.ones_like(sums.moment.diagonal())
    factor, jitter = shifted_cholesky_(sums.moment, ones)
    return FeaturePosterior(factor, cholesky_solve(factor, sums.response), jitter)


def feature_quadratic(sums: FeatureSums, posterior: FeaturePosterior) -> Tensor:
    """Return <y, M^-1 y> (k,) of each output, M = F F^T + D."""
    half = half_solve(posterior.factor, sums.response)
    return sums.energy - (half * half).sum(0)


def feature_evidence(
    sums: FeatureSums, posterior: FeaturePosterior, amplitude: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the log evidence (k,) of each output, and the amplitudes (k,) used.

    A sample of weight w counts as w observations. If the amplitude is None, the one
    that maximises the evidence is used.
    """
    quadratic = feature_quadratic(sums, posterior)
    if amplitude is None:
        informs = informative(sums.energy)
        amplitude = profiled_amplitude(quadratic, sums.weight, informs)
    logdet = sums.log_noise + cholesky_logdet(posterior.factor)
    total = sums.weight * (amplitude.log() + math.log(2.0 * math.pi))
    return -0.5 * (quadratic / amplitude + logdet + total), amplitude


def feature_leave_one_out(
    features: Tensor,
    targets: Tensor,
    noise: Tensor,
    weights: Tensor,
    posterior: FeaturePosterior,
    groups: Tensor | None = None,
) -> LeaveOneOut:
    """Return the prediction of each target when its whole sample is left out.

    The samples, given as in `sum_features`, may be any subset of the samples of the
    posterior. Samples with equal inputs are left out together if each is given their
    total weight and mean target. All samples of a group (n,) are left out together;
    then those of a group must all be given, and no two have equal inputs.
    """
    if groups is not None:
        return _feature_groups_out(features, targets, noise, weights, posterior, groups)
    precision = weights / noise
    dual = (targets - features @ posterior.mean) * precision[:, None]
    inverse_diag = feature_inverse_diag(features, precision, posterior)
    return leave_one_out(targets, dual, inverse_diag, noise, weights)


def feature_inverse_diag(
    features: Tensor, precision: Tensor, posterior: FeaturePosterior
) -> Tensor:
    """Return entries (n,) of the diagonal of M^-1 of samples with precisions (n,)."""
    leverage = torch.cat(
        [
            posterior.half(features[start : start + ROWS]).square().sum(0)
            for start in range(0, len(features), ROWS)
        ]
    )
    # M^-1 = D^-1 - D^-1 F (I + F^T D^-1 F)^-1 F^T D^-1, whose diagonal is positive; by
    # rounding the share may reach 1.
    share = (precision * leverage).clamp(max=1.0 - torch.finfo(precision.dtype).eps)
    return precision * (1.0 - share)


def _feature_groups_out(
    features: Tensor,
    targets: Tensor,
    noise: Tensor,
    weights: Tensor,
    posterior: FeaturePosterior,
    groups: Tensor,
) -> LeaveOneOut:
    r"""Return predictions of samples without their groups; see `feature_leave_one_out`.

    The block of M^-1 of a group is :math:`D^{-1/2} (I - H) D^{-1/2}` with
    :math:`H = D^{-1/2} F P F^T D^{-1/2}` and the posterior covariance P of the
    coefficients.
    """
    root = (weights / noise).sqrt()
    errors = (targets - features @ posterior.mean) * root[:, None]
    mean, var = torch.empty_like(targets), torch.empty_like(root)
    for rows, kept, vectors in _blocks_of_groups(features, root, posterior, groups):
        inverse = (vectors / kept[:, None]) @ vectors.mT
        mean[rows] = targets[rows] - inverse @ errors[rows] / root[rows, None]
        var[rows] = inverse.diagonal(dim1=1, dim2=2) / root[rows].square()
    single = noise / weights.clamp(max=1.0) - noise / weights
    return LeaveOneOut(mean, var + single)


def feature_inverse_blocks(
    features: Tensor, precision: Tensor, posterior: FeaturePosterior, groups: Tensor
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield samples (g, s) of groups (n,) of equal size, and their blocks of M^-1.

    The samples have precisions (n,). All of a group must be given, and no two of them
    have equal inputs.
    """
    root = precision.sqrt()
    for rows, kept, vectors in _blocks_of_groups(features, root, posterior, groups):
        block = (vectors * kept[:, None]) @ vectors.mT
        yield rows, block * root[rows][:, :, None] * root[rows][:, None]


def _blocks_of_groups(
    features: Tensor, root: Tensor, posterior: FeaturePosterior, groups: Tensor
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield samples (g, s) of groups, and eigenvalues and vectors of I - H.

    `root` (n,) are the roots of the precisions.
    """
    own: Tensor = torch.unique(groups, return_inverse=True)[1]
    sizes = own.bincount()
    order = own.argsort(stable=True)
    for size in sorted(set(sizes.tolist())):
        blocks = order[sizes[own[order]] == size].reshape(-1, size)
        for rows in torch.split(blocks, max(1, ROWS // size)):
            scaled = features[rows.flatten()] * root[rows.flatten(), None]
            half = posterior.half(scaled).reshape(-1, *rows.shape).movedim(1, 0)
            shares, vectors = symmetric_eigen(half.mT @ half)
            # By rounding a share may reach 1.
            yield (
                rows,
                1.0 - shares.clamp(max=1.0 - torch.finfo(shares.dtype).eps),
                vectors,
            )
