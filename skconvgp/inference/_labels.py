r"""Latent functions of classes if the noise of the targets differs between classes.

The formulas: docs/maths.rst, "Labels as counts".

Class c is :math:`y_c \sim N(0, K + N_c)` with N_c diagonal. With B = K + N, N the
largest noise of each sample over the classes, :math:`K + N_c = B - E_c D_c E_c^T`,
where E_c picks the samples with less noise, the members. So one factorisation of B
serves all classes, with a small matrix for the members of each:

.. math:: G_c = D_c^{-1} - (B^{-1})_{cc}, \qquad
          (K + N_c)^{-1} = B^{-1} + B^{-1} E_c G_c^{-1} E_c^T B^{-1}.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from skconvgp._tensors import integers
from skconvgp.inference._equal import EqualInputs
from skconvgp.inference._evidence import log_marginal_likelihood
from skconvgp.linalg import (
    back_solve,
    cholesky_inverse,
    cholesky_logdet,
    cholesky_solve,
    half_solve,
    shifted_cholesky_,
)

__all__ = [
    "LABEL_COPIES",
    "LabelFit",
    "LabelState",
    "Sites",
    "fit_labels",
]

# Matrices of the size of the Gram matrix that are held at once: it, its factor, and
# the inverse; of the members of a class, which may be almost all samples, columns of
# the inverse, a square of them and its factor.
LABEL_COPIES = 6
BLOCK = 256  # samples that are solved for at once


@dataclass(frozen=True)
class LabelState:
    """Factors from which the posterior covariances of all classes are computed."""

    factor: Tensor  # (n, n), lower Cholesky factor of B
    members: Tensor  # indices (m,) of the members, one class after the other
    counts: Tensor  # (k,), number of members of each class
    # Lower Cholesky factors of the matrices G_c, flattened to (q,), one after the
    # other.
    corrections: Tensor
    noise: Tensor  # (n, k), of the samples with their weights
    jitter: float  # largest that had to be added to a diagonal; 0 if none

    def covariance(self, cross: Tensor, prior: Tensor) -> Tensor:
        """Return posterior variances (b, k) of the latent functions of new samples.

        `cross` (n, b) holds the prior covariances of the training samples with the new
        ones, `prior` (b,) the prior variances of the new ones.
        """
        half = half_solve(self.factor, cross)
        common = prior - (half * half).sum(0)
        var = [common - part.square().sum(0) for part in self._class_halves(half)]
        return torch.stack(var, dim=1)

    def joint_covariance(self, cross: Tensor, prior: Tensor) -> Tensor:
        """Return posterior covariances (b, b, k) of new samples.

        `cross` (n, b) holds the prior covariances of the training samples with the new
        ones, `prior` (b, b) those of the new ones.
        """
        return torch.stack(list(self.joint_covariances(cross, prior)), dim=2)

    def joint_covariances(self, cross: Tensor, prior: Tensor) -> Iterator[Tensor]:
        """Yield the posterior covariances (b, b) of each latent function."""
        half = half_solve(self.factor, cross)
        common = prior - half.mT @ half
        for part in self._class_halves(half):
            yield common - part.mT @ part

    def solve(self, columns: Tensor) -> Tensor:
        """Return (K + N_c)^-1 times the columns (n, k, s) of each class c."""
        solved = [
            self._solve_class(columns[:, c], members, square)
            for c, (members, square) in enumerate(self._classes())
        ]
        return torch.stack(solved, dim=1)

    def _solve_class(self, columns: Tensor, members: Tensor, square: Tensor) -> Tensor:
        common = cholesky_solve(self.factor, columns)
        if not len(members):
            return common
        # B^-1 plus its columns of the class times G_c^-1 times these columns again
        inner = torch.zeros_like(columns)
        inner[members] = cholesky_solve(square, common[members])
        return common + cholesky_solve(self.factor, inner)

    def _class_halves(self, half: Tensor) -> Iterator[Tensor]:
        """Yield R for each class: R^T R is the reduction of variance by G_c^-1."""
        whole = back_solve(self.factor, half)
        for members, square in self._classes():
            yield half_solve(square, whole[members])

    def _classes(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the members of each class, and the factor of its matrix G_c."""
        first = start = 0
        for count in self.counts.tolist():
            factor = self.corrections[start : start + count * count]
            square = factor.reshape(count, count)
            yield self.members[first : first + count], square
            first, start = first + count, start + count * count


@dataclass(frozen=True)
class LabelFit:
    """Posterior of the latent functions of all classes."""

    # Dual coefficients (n, k): posterior means are prior covariances times these.
    dual: Tensor
    evidence: Tensor  # (k,), log evidence of the targets of each class
    loo_mean: Tensor  # (n, k), of each latent function at each sample
    loo_var: Tensor  # (n, k)
    state: LabelState  # factors for posterior covariances


def fit_labels(
    gram: Tensor,
    targets: Tensor,
    noise: Tensor,
    weights: Tensor,
    inputs: EqualInputs | None = None,
) -> LabelFit:
    """Fit the latent functions of all classes by one factorisation.

    The diagonal of `gram` (n, n), the prior covariances of each latent function, is
    overwritten meanwhile and restored at the end. Targets (n, k) have mean 0. The noise
    (n, k) is the variance of a single observation, > 0; the weights are (n,). Samples
    with equal inputs are left out together; by default none are equal. Raises a
    `NotPSDError` if a matrix is not positive definite even with jitter.
    """
    each = noise / weights[:, None]
    largest = each.amax(1)
    less = largest[:, None] - each
    factor, jitter = shifted_cholesky_(gram, largest)
    inverse = cholesky_inverse(factor)
    common_logdet = cholesky_logdet(factor)
    dual = cholesky_solve(factor, targets)
    diag = inverse.diagonal()[:, None].repeat(1, targets.shape[1])
    members, corrections, evidence = [], [], []
    for c in range(targets.shape[1]):
        # Samples whose noise in this column is below their largest: the class itself.
        of_class = (less[:, c] > 0.0).nonzero()[:, 0]
        column, logdet = slice(c, c + 1), common_logdet
        if len(of_class):
            # G_c = D_c^-1 - (B^-1)_cc, and its update of coefficients and diagonal
            columns, excess = inverse[:, of_class], 1.0 / less[of_class, c]
            square, more = shifted_cholesky_(columns[of_class].neg_(), excess)
            jitter = max(jitter, more)
            dual[:, column] += columns @ cholesky_solve(square, dual[of_class, column])
            for start in range(0, len(diag), BLOCK):
                rows = slice(start, start + BLOCK)
                half = half_solve(square, columns[rows].mT)
                diag[rows, c] += half.square_().sum(0)
            # |K + N_c| = |B| |G_c| |D_c|
            logdet = logdet + cholesky_logdet(square) + less[of_class, c].log().sum()
            corrections.append(square.flatten())
        evidence.append(
            log_marginal_likelihood(
                (targets[:, column] * dual[:, column]).sum(0),
                logdet,
                torch.ones_like(targets[0, column]),
                noise[:, c],
                weights,
            )
        )
        members.append(of_class)
    del inverse  # before corrections are copied
    inputs = inputs or EqualInputs.none_of(targets)
    # Posterior means and variances at the samples.
    mean = targets - each * dual
    var = (each - diag * each.square()).clamp(min=0.0)
    sites = Sites.of(targets, each, weights, inputs)
    loo_mean, loo_var = sites.leave_out(mean, var)
    state = LabelState(
        factor,
        torch.cat(members),
        integers([len(of_class) for of_class in members]),
        torch.cat([factor.new_empty(0), *corrections]),
        each,
        jitter,
    )
    return LabelFit(dual, torch.cat(evidence), loo_mean, loo_var, state)


@dataclass(frozen=True)
class Sites:
    """Gaussian likelihoods that leave the posterior when each sample is left out."""

    precision: Tensor  # (n, k)
    shift: Tensor  # (n, k), precisions times targets

    @classmethod
    def of(
        cls, targets: Tensor, noise: Tensor, weights: Tensor, inputs: EqualInputs
    ) -> Self:
        """Return the likelihoods of all samples with the input of each.

        If there are few distinct inputs, only one unit of the sample's weight leaves.
        The noise (n, k) is the variance of a single observation, divided by the weight.
        """
        precision = inputs.leaving(1.0 / noise, weights)
        return cls(precision, inputs.leaving(targets / noise, weights))

    def leave_out(self, mean: Tensor, var: Tensor) -> tuple[Tensor, Tensor]:
        """Return leave-one-out means and variances (n, k), given the posterior's."""
        # By rounding the share that is kept may not be positive.
        kept = (1.0 - self.precision * var).clamp(min=torch.finfo(var.dtype).eps)
        return (mean - var * self.shift) / kept, var / kept
