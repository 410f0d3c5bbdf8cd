"""Gaussian approximations of the posterior of latent functions at the training samples.

With the prior covariance K of each function and the precision W of the labels, the
posterior covariance of new samples is K_** - K_* (K + W^-1)^-1 K_*^T. For softmax W is
not diagonal, and (K + W^-1)^-1 = E - E R S^-1 R^T E, where E is block diagonal, R adds
up over the classes and S = R^T E R (Rasmussen and Williams, section 3.5).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from skconvgp._threads import threads_for
from skconvgp.linalg import (
    cholesky_inverse,
    cholesky_logdet,
    cholesky_solve,
    factor_with_jitter_,
    half_solve,
    shifted_cholesky_,
)

__all__ = ["LaplaceState", "OneLatentState", "SoftmaxState", "factor_sites_"]

VALUES = 1 << 22  # numbers in a table of samples, new samples and classes: 32 MiB


@dataclass(frozen=True)
class OneLatentState:
    """Posterior of one latent function."""

    factor: Tensor  # (n, n), lower Cholesky factor of I + W^1/2 K W^1/2
    root: Tensor  # (n, 1), W^1/2
    logdet: Tensor  # (), log |I + K W|
    jitter: float  # that had to be added to the diagonal of that matrix; 0 if none

    def solve(self, rhs: Tensor) -> Tensor:
        """Return (K + W^-1)^-1 times the right-hand side (n, 1)."""
        return self.root * cholesky_solve(self.factor, self.root * rhs)

    def inverse_sum(self) -> Tensor:
        """Return (K + W^-1)^-1, (n, n)."""
        return cholesky_inverse(self.factor).mul_(self.root).mul_(self.root.mT)

    def covariance(self, cross: Tensor, prior: Tensor) -> Tensor:
        """Return the variances (b, 1, 1) of new samples.

        `cross` (n, b) holds the prior covariances of training and new samples, `prior`
        (b,) the prior variances of the new ones.
        """
        var = prior.clone()
        for columns in _blocks(cross.shape[1], len(cross)):
            half = half_solve(self.factor, self.root * cross[:, columns])
            var[columns] -= half.square().sum(0)
        return var.clamp(min=0.0)[:, None, None]

    def joint_covariance(self, cross: Tensor, prior: Tensor) -> Tensor:
        """Return the covariance (b, b, 1) of new samples, given the prior one."""
        half = half_solve(self.factor, self.root * cross)
        return (prior - half.mT @ half)[:, :, None]


@dataclass(frozen=True)
class SoftmaxState:
    """Posterior of one latent function for each class."""

    # Blocks (k, n, n) of E: (K + diag(1 / p))^-1, where p are the probabilities of a
    # class.
    inverses: Tensor
    factor: Tensor  # (n, n), lower Cholesky factor of S, the sum of the blocks
    logdet: Tensor  # (), log |I + K W|
    # Largest jitter that had to be added to the diagonal of I + D^1/2 K D^1/2 of a
    # class, D = diag(p); 0 if none.
    jitter: float

    def solve(self, rhs: Tensor) -> Tensor:
        """Return (K + W^-1)^-1 times the right-hand side (n, k)."""
        weighted = self._weigh(rhs)
        shared = cholesky_solve(self.factor, weighted.sum(1, keepdim=True))
        return weighted - self._weigh(shared.expand_as(rhs))

    def inverse_sum(self) -> Tensor:
        """Return the sum (n, n) of the blocks of (K + W^-1)^-1 on its diagonal."""
        total = self.inverses.sum(0)
        for inverse in self.inverses:
            half = half_solve(self.factor, inverse)
            with threads_for(len(half) * half.numel()):
                total.addmm_(half.mT, half, alpha=-1.0)
            del half  # before the next one is made
        return total

    def covariance(self, cross: Tensor, prior: Tensor) -> Tensor:
        """Return covariances (b, k, k) of the latent functions at new samples.

        `cross` (n, b) holds the prior covariances of training and new samples, `prior`
        (b,) the prior variances of the new ones.
        """
        n_classes, n, _ = self.inverses.shape
        cov = torch.diag_embed(prior[:, None].expand(-1, n_classes))
        for columns in _blocks(len(prior), n * n_classes):
            block = cross[:, columns]
            weighted = self._weigh_all(block)  # R&W algorithm 3.4
            reduction = torch.einsum("knb,nb->bk", weighted, block)
            # One solve for all classes: a batched solve would copy the factor for each.
            flat = weighted.transpose(0, 1).reshape(n, -1)
            half = half_solve(self.factor, flat).reshape(n, n_classes, -1)
            cov[columns] += torch.einsum("nkb,nlb->bkl", half, half)
            cov[columns] -= torch.diag_embed(reduction)
        cov.diagonal(dim1=1, dim2=2).clamp_(min=0.0)
        return cov

    def joint_covariance(self, cross: Tensor, prior: Tensor) -> Tensor:
        """Return covariances (b, b, k) of new samples, one matrix for each class."""
        covariances = []
        for inverse in self.inverses:
            weighted = inverse @ cross
            half = half_solve(self.factor, weighted)
            covariances.append(prior - cross.mT @ weighted + half.mT @ half)
        return torch.stack(covariances, dim=2)

    def _weigh(self, rhs: Tensor) -> Tensor:
        """Return E times the right-hand side (n, k)."""
        pairs = zip(self.inverses, rhs.unbind(1), strict=True)
        return torch.stack([inverse @ column for inverse, column in pairs], dim=1)

    def _weigh_all(self, cross: Tensor) -> Tensor:
        """Return each block of E times the same columns, (k, n, b)."""
        n_classes, n, _ = self.inverses.shape
        stacked = self.inverses.reshape(n_classes * n, n)
        return (stacked @ cross).reshape(n_classes, n, -1)


LaplaceState: TypeAlias = OneLatentState | SoftmaxState


def factor_sites_(gram: Tensor, curvature: Tensor, buffer: Tensor) -> LaplaceState:
    """Factor the prior covariance (n, n) together with the curvature (n, k) of `Sites`.

    The buffer (k, n, n) is overwritten; the state of several latent functions keeps it.
    """
    root = curvature.sqrt()
    if curvature.shape[1] == 1:
        factor, jitter = _scaled_factor_(gram, root, buffer[0])
        return OneLatentState(factor, root, cholesky_logdet(factor), jitter)
    total = torch.zeros_like(gram)
    logdet, jitter = gram.new_zeros(()), 0.0
    for block, column in zip(buffer, root.mT[:, :, None], strict=True):
        factor, more = _scaled_factor_(gram, column, block)
        jitter = max(jitter, more)
        logdet += cholesky_logdet(factor)
        total += cholesky_inverse(factor, block).mul_(column).mul_(column.mT)
        del factor  # before the next one is made
    factor = factor_with_jitter_(total, float(total.diagonal().mean()))
    return SoftmaxState(buffer, factor, logdet + cholesky_logdet(factor), jitter)


def _scaled_factor_(gram: Tensor, root: Tensor, out: Tensor) -> tuple[Tensor, float]:
    """Return the factor of I + D K D, D = diag(root), and its jitter."""
    torch.mul(gram, root, out=out).mul_(root.mT)
    return shifted_cholesky_(out, torch.ones_like(root[:, 0]))


def _blocks(n_columns: int, n_rows: int) -> Iterator[slice]:
    """Yield slices of the columns of a table, so that each is small."""
    size = max(1, VALUES // n_rows)
    for start in range(0, n_columns, size):
        yield slice(start, min(start + size, n_columns))
