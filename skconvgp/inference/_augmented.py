r"""Left-out quantities of the samples of a fit and of one more, without a refit.

The formulas: docs/maths.rst, "One more sample".

Inputs that are left out together are a unit G. If the posterior without G is known, a
new sample adds one observation to it: a Kalman step with the variance and the residual
that the new sample has without G.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self, TypeAlias

import torch
from torch import Tensor

from skconvgp.linalg import back_solve, half_solve, shifted_choleskys

__all__ = ["Addition", "Augmented", "LeftOutInputs", "NewVersions"]

# Inputs (b, s) of units of equally many, and a square (b, s, s) for each unit.
Units: TypeAlias = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class LeftOutInputs:
    """What a posterior says of m inputs, each left out with its unit."""

    mean: Tensor  # (m, k), latent means, given the inputs of all other units
    error: Tensor  # (m, k), mean targets of the inputs less these means
    var: Tensor  # (m,), variances of the mean targets, noise included, for amplitude 1
    noise: Tensor  # (m,), the noise in these variances, jitter included
    single: float | Tensor  # noise of a single observation, one for all or (m,)
    # Covariances of the targets of units of several inputs, given all other units. If
    # there are none each input is a unit.
    units: tuple[Units, ...] = ()
    # (m,), prior variances that features leave out; None for none.
    unexplained: Tensor | None = None

    @classmethod
    def alone(
        cls,
        targets: Tensor,
        dual: Tensor,
        inverse_diag: Tensor,
        noise: Tensor,
        single: float | Tensor,
    ) -> Self:
        """Return inputs that are left out one by one, by the diagonal (m,) of M^-1.

        Targets and dual coefficients are (m, k); the noise (m,) is part of M.
        """
        error = dual / inverse_diag[:, None]
        return cls(targets - error, error, 1.0 / inverse_diag, noise, single)

    @classmethod
    def together(
        cls,
        targets: Tensor,
        dual: Tensor,
        blocks: Iterable[Units],
        noise: Tensor,
        single: float | Tensor,
    ) -> Self:
        """Return inputs that are left out in units, by their blocks of M^-1.

        Each input has one block.
        """
        error, var, units = torch.empty_like(targets), torch.empty_like(noise), []
        for members, block in blocks:
            factors, _ = shifted_choleskys(block, torch.zeros_like(block[:, 0]))
            half = half_solve(factors, torch.diag_embed(torch.ones_like(block[:, 0])))
            cov = half.mT @ half
            error[members] = cov @ dual[members]
            var[members] = cov.diagonal(dim1=1, dim2=2)
            units.append((members, cov))
        return cls(targets - error, error, var, noise, single, tuple(units))


@dataclass(frozen=True)
class NewVersions:
    """Versions of new images, all of which are added with an image: itself, others."""

    solved: Tensor  # (m, b, v), M^-1 times covariances with the versions
    mean: Tensor  # (b, v, k), latent means
    covariance: Tensor  # (b, v, v), their covariances, for amplitude 1

    def take(self, part: slice) -> Self:
        """Return the versions of some of the images."""
        return type(self)(self.solved[:, part], self.mean[part], self.covariance[part])


@dataclass(frozen=True)
class Addition:
    """New samples, b in number, each of which is added to those of a fit by itself."""

    inputs: LeftOutInputs
    solved: Tensor  # (m, b), M^-1 times covariances with the new samples
    mean: Tensor  # (b, k), latent means at the new samples
    latent_var: Tensor  # (b,), their variances, for amplitude 1
    noise: float | Tensor  # of a single observation, one for all or (b,)
    jitter: float  # that the diagonal of M has, too
    unexplained: Tensor | None = None  # (b,), as in `LeftOutInputs`
    # With each image, and an equal share of its weight; None for samples alone.
    versions: NewVersions | None = None

    def observed(self, weight: float = 1.0) -> Augmented:
        """Return the left-out quantities if a new sample is so many observations."""
        if self.versions is not None:
            return self._with_versions(self.versions, weight)
        inputs, solved = self.inputs, self.solved
        var = self.latent_var + self.noise / weight + self.jitter
        # A copy of an input that has no noise has no variance at all.
        var = var.clamp(min=torch.finfo(var.dtype).eps)
        # Covariances with the new sample, given all units but that of the input, are
        # minus `own`.
        own = solved * inputs.var[:, None]
        reduced = own * solved
        residual = solved.mT[:, :, None] * inputs.error  # (b, m, k)
        for members, cov in inputs.units:
            at_members = solved[members]  # (u, s, b)
            own[members] = of_unit = cov @ at_members
            total = (of_unit * at_members).sum(1, keepdim=True)
            reduced[members] = total.expand_as(at_members)
            summed = at_members.mT @ inputs.error[members]  # (u, b, k)
            residual[:, members] = summed.movedim(1, 0)[:, :, None].expand(
                -1, -1, members.shape[1], -1
            )
        gain = own / (var + reduced)
        return Augmented(
            self.mean,
            var,
            inputs.mean + gain.mT[:, :, None] * residual,
            gain.mT,
            inputs.var - (gain * own).mT,
        )

    def _with_versions(self, new: NewVersions, weight: float) -> Augmented:
        """Return what `observed` does: all versions are observed, with one target."""
        inputs, (_, b, v) = self.inputs, new.solved.shape
        noise = v * self.noise / weight + self.jitter
        own = new.covariance.clone()
        own.diagonal(dim1=1, dim2=2).add_(noise)
        size = b, len(inputs.mean)
        start = inputs.mean.expand(b, -1, -1).clone()
        var, gain = inputs.var.expand(size).clone(), torch.zeros_like(inputs.var)
        gain = gain.expand(size).clone()
        behind = new.mean - self.mean[:, None]  # of the image itself
        for members, cov in inputs.units:
            u, s = members.shape
            at_members = new.solved[members].movedim(2, 1)  # (u, b, s, v)
            of_unit = cov[:, None] @ at_members
            total = own + at_members.mT @ of_unit
            no_shift = torch.zeros_like(total[..., 0]).reshape(-1, v)
            factors, _ = shifted_choleskys(total.reshape(-1, v, v), no_shift)
            half = half_solve(factors, of_unit.mT.reshape(-1, v, s))
            gains = back_solve(factors, half).reshape(u, b, v, s).mT
            error = inputs.error[members][:, None]  # (u, 1, s, k)
            residual = at_members.mT @ error - behind
            start[:, members] += (gains @ residual).movedim(1, 0)
            gain[:, members] = gains.sum(3).movedim(1, 0)
            reduced = half.square().sum(1).reshape(u, b, s)
            var[:, members] -= reduced.movedim(1, 0)
        new_var = self.latent_var + self.noise / weight + self.jitter
        return Augmented(self.mean, new_var, start, gain, var)


@dataclass(frozen=True)
class Augmented:
    """Left-out quantities of b sets: the samples of a fit, and one new sample each.

    The new sample is left out of its set with the posterior of the fit.
    """

    new_mean: Tensor  # (b, k), latent means at the new samples
    new_var: Tensor  # (b,), variances of their observations, for amplitude 1
    start: Tensor  # (b, m, k), left-out means if a new target is its mean
    gain: Tensor  # (b, m), how far they move with the target of the new sample
    var: Tensor  # (b, m), variances of the mean targets of the inputs

    def means(self, targets: Tensor) -> Tensor:
        """Return left-out means (b, m, k) for new targets (k,) or (b, k)."""
        residual = targets - self.new_mean
        return torch.addcmul(self.start, self.gain[:, :, None], residual[:, None])
