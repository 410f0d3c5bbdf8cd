"""Objectives of a batch as functions of its Gram matrix, with their derivatives.

All use K with mean diagonal 1 and M = K + noise I. Below, y is M^-1 Y, and z is the
solution of the sample's system, with zeros for the other samples of the batch. The
formulas: docs/maths.rst, "Evidence and leave-one-out" and "Kernel Flows".
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from skconvgp.exceptions import NotPSDError
from skconvgp.linalg import (
    back_solve,
    cholesky_inverse,
    cholesky_logdet,
    cholesky_solve,
    half_solve,
    plain_cholesky,
)


@dataclass(frozen=True)
class Derived:
    """A value and its derivatives."""

    value: Tensor  # ()
    by_system: Tensor  # (n, n), derivatives by the entries of M
    # Further derivatives (n, n) by the entries of K, if it occurs without noise.
    by_gram: Tensor | None = None
    by_scale: float = 0.0  # derivative by the logarithm of the divisor of K


@dataclass(frozen=True)
class System:
    """Linear systems of a batch and of its sample, solved by one factorisation."""

    gram: Tensor  # K (n, n), with mean diagonal 1; the sample comes first
    targets: Tensor  # Y (n, k)
    noise: float  # number that is added to the diagonal
    n_sample: int  # size of the sample
    scale: float  # divisor of K, its mean diagonal before

    @cached_property
    def factor(self) -> Tensor:
        """Return L (n, n) with L L^T = M; its first block is the sample's factor."""
        return self._factor_of(len(self.gram))

    @cached_property
    def half(self) -> Tensor:
        """Return w = L^-1 Y (n, k); sums of its squares are norms of all prefixes."""
        return half_solve(self.factor, self.targets)

    @cached_property
    def norm(self) -> Tensor:
        """Return <Y, M^-1 Y>."""
        norm: Tensor = self.half.square().sum()
        return norm

    @cached_property
    def dual(self) -> Tensor:
        """Return M^-1 Y (n, k)."""
        return back_solve(self.factor, self.half)

    @cached_property
    def sample_factor(self) -> Tensor:
        """Return the factor of the sample's block, from the factor of M if known."""
        if "factor" in vars(self):
            return self.factor[: self.n_sample, : self.n_sample]
        return self._factor_of(self.n_sample)

    @cached_property
    def sample_dual(self) -> Tensor:
        """Return the solution of the sample's system (n, k); 0 for other samples."""
        return self.solve_sample(self.targets)

    @cached_property
    def prediction(self) -> Tensor:
        """Return the prediction of the batch from the sample (n, k)."""
        return self.gram[:, : self.n_sample] @ self.sample_dual[: self.n_sample]

    @cached_property
    def inverse(self) -> Tensor:
        """Return M^-1 (n, n)."""
        return cholesky_inverse(self.factor)

    def solve_sample(self, rhs: Tensor) -> Tensor:
        """Solve the sample's system for rows of the sample (n, k); 0 elsewhere."""
        solution = torch.zeros_like(rhs)
        part = rhs[: self.n_sample]
        solution[: self.n_sample] = cholesky_solve(self.sample_factor, part)
        return solution

    def _factor_of(self, n: int) -> Tensor:
        """Return the factor of the block of the first n samples."""
        shifted = self.gram[:n, :n].clone()
        shifted.diagonal().add_(self.noise)
        factor = plain_cholesky(shifted)
        if factor is None:
            raise NotPSDError(
                f"The Gram matrix of a batch of {n} samples is not positive definite "
                f"with noise_variance={self.noise:g}: raise it, or use "
                "dtype='float64'."
            )
        return factor


def rho_by_size(system: System) -> Tensor:
    """Return the ratio of norms for the first 1 to n - 1 samples."""
    squares = system.half.square().sum(1)
    tails = squares.flip(0).cumsum(0).flip(0)
    return tails[1:] / tails[0]


def _ratio(system: System) -> Derived:
    """Share of the squared RKHS norm that the sample does not explain."""
    squares = system.half.square().sum(1)
    tail = squares[system.n_sample :].sum()
    # A sum of squares over a sum with more of them is in [0, 1] in floating point, too.
    value = tail / (squares[: system.n_sample].sum() + tail)
    y, z = system.dual, system.sample_dual
    return Derived(value, (z @ z.mT - (1.0 - value) * (y @ y.mT)) / system.norm)


def _held_out(system: System) -> Derived:
    """Squared error of predicting the other samples, relative to their |Y|^2."""
    first = system.n_sample
    error = system.targets - system.prediction
    error[:first] = 0.0
    return _squared(system, error, system.targets[first:])


def _l2(system: System) -> Derived:
    """Squared error of predicting the batch from the sample, relative to |Y|^2."""
    return _squared(system, system.targets - system.prediction, system.targets)


def _squared(system: System, error: Tensor, targets: Tensor) -> Derived:
    """Return |error|^2 / |targets|^2 for errors of the sample's prediction."""
    size = targets.square().sum()
    z = system.sample_dual
    back = system.solve_sample(system.gram @ error)
    return Derived(
        error.square().sum() / size,
        2.0 * (back @ z.mT) / size,
        -2.0 * (error @ z.mT) / size,
    )


def _algorithm4(system: System) -> Derived:
    """1 - |prediction|^2 / <Y, M^-1 Y>: a Euclidean norm divided by an RKHS norm."""
    value = system.prediction.square().sum() / system.norm
    z, y = system.sample_dual, system.dual
    back = system.solve_sample(system.gram @ system.prediction)
    by_m = value * (y @ y.mT) / system.norm - 2.0 * (back @ z.mT) / system.norm
    by_k = -2.0 * (system.prediction @ z.mT) / system.norm
    # Before K was divided by `scale`, the RKHS norm was smaller by this factor.
    share = system.scale * value
    return Derived(
        1.0 - share, -system.scale * by_m, system.scale * by_k, -float(share)
    )


def _loo(system: System) -> Derived:
    """Mean of the ratio over the n samples that leave out one member of the batch."""
    inverse, y = system.inverse, system.dual
    diag = inverse.diagonal()
    squares = y.square().sum(1)
    n = len(diag)
    value = (squares / diag).sum() / n / system.norm
    left = inverse @ (y / diag[:, None])
    by_top = (inverse * (squares / diag.square())) @ inverse - 2.0 * left @ y.mT
    return Derived(value, (by_top / n + value * (y @ y.mT)) / system.norm)


def _evidence(system: System) -> Derived:
    """Negative log evidence for each target, with the amplitude profiled out."""
    n, y = system.targets.numel(), system.dual
    rows = len(system.gram)
    value = 0.5 * (torch.log(2.0 * math.pi * system.norm / n) + 1.0)
    value = value + cholesky_logdet(system.factor) / (2.0 * rows)
    by_m = system.inverse / (2.0 * rows)
    by_m.addmm_(y, y.mT, alpha=float(-0.5 / system.norm))
    return Derived(value, by_m)


def _loo_nlpd(system: System) -> Derived:
    """Negative leave-one-out log predictive density, with its amplitude profiled."""
    inverse, y = system.inverse, system.dual
    diag = inverse.diagonal()
    n = len(diag)
    squares = y.square().sum(1)
    spread = (squares / diag).sum()
    value = 0.5 * (torch.log(2.0 * math.pi * spread / system.targets.numel()) + 1.0)
    value = value - diag.log().sum() / (2.0 * n)
    left = inverse @ (y / diag[:, None])
    by_diag = squares / diag.square() / (2.0 * spread) + 1.0 / (2.0 * n * diag)
    by_m = (inverse * by_diag) @ inverse
    by_m.addmm_(left, y.mT, alpha=float(-1.0 / spread))
    return Derived(value, by_m)


def _polarised(system: System) -> Derived:
    """Squared RKHS norm of the difference of both interpolants, relative to one."""
    y, z, gram = system.dual, system.sample_dual, system.gram
    change = y - z
    ky, kd = gram @ y, gram @ change
    size = (y * ky).sum()
    value = (change * kd).sum() / size
    by_y = cholesky_solve(system.factor, kd - value * ky)
    by_z = system.solve_sample(kd)
    by_m = 2.0 * (by_z @ z.mT - by_y @ y.mT) / size
    by_k = (change @ change.mT - value * (y @ y.mT)) / size
    return Derived(value, by_m, by_k)


KINDS: dict[str, Callable[[System], Derived]] = {
    "held_out": _held_out,
    "l2": _l2,
    "ratio": _ratio,
    "loo": _loo,
    "evidence": _evidence,
    "loo_nlpd": _loo_nlpd,
    "polarised": _polarised,
    "algorithm4": _algorithm4,
}
