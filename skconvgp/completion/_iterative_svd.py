"""Iterative singular value decomposition."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from skconvgp.completion._masked import (
    Fit,
    Limits,
    MaskedCompletion,
    fill_,
    one_of,
    ranks_up_to,
    require,
)
from skconvgp.completion._patterns import Entries
from skconvgp.completion._regression import RowRegression
from skconvgp.linalg import (
    leading_eigenpairs,
    leading_right_vectors,
    symmetrize_,
    widened,
)

__all__ = ["IterativeSVD"]

RULES = ("truncation", "row_regression")
RIDGE = 1e-12  # rows with fewer entries than the rank have some solution too


@dataclass(repr=False)
class IterativeSVD(MaskedCompletion):
    r"""Fill missing entries from the leading eigenpairs, again and again.

    Missing entries start at the mean of the observed ones of their row. Each round
    replaces them by those of a low-rank matrix made from the whole one:

    - ``rule="truncation"`` (hard impute): :math:`U_r D_r U_r^\top` of the r largest
      eigenvalues, positive semi-definite; the rank is raised 1, 2, 4, ... to r;
    - ``rule="row_regression"`` (Troyanskaya et al.): each row is regressed on the r
      top right singular vectors, over its observed entries only. What comes out is
      not symmetric: at the end the r largest eigenvalues of the symmetric part make
      the factor.

    Parameters
    ----------
    rank : int or "auto", default="auto"
        Rank r. "auto" raises it 1, 2, 4, ... up to 50, half of the observed entries
        of a row, or `n_anchors`, until the error on the held-out entries twice in a
        row does not fall by 1 %, and keeps the best.
    pattern : {"blocks", "landmarks", "random"}, default="blocks"
        Which entries are evaluated: tiles between random groups of samples, all
        entries of random samples, or single entries. Every sample is compared with
        some others.
    max_iter : int, default=200
        Rounds at most, at the last rank.
    rtol : float, default=1e-5
        Rounds end when the missing entries change less, as a share of their norm.
    check_fraction : float, default=0.05
        Share of the evaluated entries that is held out to measure the error, then put
        back for the final fit: the error is that of the fit without them.
    n_anchors : int, optional
        Samples with which new ones are compared; by default all.
    rule : {"truncation", "row_regression"}, default="truncation"
        How missing entries are replaced.

    References
    ----------
    Troyanskaya et al., "Missing value estimation methods for DNA microarrays", 2001
    (SVDimpute); Mazumder, Hastie and Tibshirani, "Spectral regularization algorithms
    for learning large incomplete matrices", 2010 (hard impute); Meinel, "Scaling up
    Gaussian processes with convolutional kernels by matrix completion", 2020,
    section 3.3.1.

    Examples
    --------
    >>> from skconvgp.completion import IterativeSVD
    >>> IterativeSVD(rank=20, rule="row_regression").get_params()["rank"]
    20
    """

    rule: str = "truncation"

    def _path(
        self, entries: Entries, generator: Generator
    ) -> tuple[Sequence[float], bool]:
        largest, is_auto = self._largest_rank(entries), self.rank == "auto"
        if self.rule == "row_regression" and not is_auto:
            return [largest], False
        return ranks_up_to(largest), is_auto

    def _fit(
        self,
        entries: Entries,
        step: float,
        start: Tensor | None,
        limits: Limits,
        generator: Generator,
    ) -> Fit:
        rank = int(step)
        is_symmetric = self.rule == "truncation"
        if start is None:
            left, right = _row_means(entries, is_symmetric)
        else:
            left = right = start
        fill_(entries.values, entries.mask, left, right)
        fit = _truncate if is_symmetric else _regress
        return fit(entries, widened(right, rank, generator), limits)

    def _check_own(self) -> None:
        require(self, "rule", self.rule in RULES, one_of(RULES))

    def _stats(self, step: float) -> dict[str, float]:
        return {}


def _row_means(entries: Entries, is_symmetric: bool) -> tuple[Tensor, Tensor]:
    """Return U, V with (U V^T)_ij the mean of row i, or of the means of i and j."""
    observed = entries.values.masked_fill(~entries.mask, 0.0)
    means = observed.sum(1, keepdim=True) / entries.mask.sum(1, keepdim=True)
    ones = torch.ones_like(means)
    if not is_symmetric:
        return means, ones
    return torch.cat([means / 2, ones], dim=1), torch.cat([ones, means / 2], dim=1)


def _truncate(entries: Entries, vectors: Tensor, limits: Limits) -> Fit:
    factor, n_iter, converged = vectors, 0, False
    while n_iter < limits.max_iter and not converged:
        n_iter += 1
        values, vectors = leading_eigenpairs(entries.values, vectors)
        factor = vectors * values.clamp(min=0.0).sqrt()
        change, size = fill_(entries.values, entries.mask, factor, factor)
        converged = change <= limits.rtol**2 * size
    return Fit(factor, n_iter, converged)


def _regress(entries: Entries, vectors: Tensor, limits: Limits) -> Fit:
    """Fill rows by regression; the factor is that of the symmetric part at the end."""
    regression, n_iter, converged = RowRegression.of(entries), 0, False
    while n_iter < limits.max_iter and not converged:
        n_iter += 1
        vectors = leading_right_vectors(entries.values, vectors)
        coefs = regression.solve(vectors, RIDGE)
        change, size = fill_(entries.values, entries.mask, coefs, vectors)
        converged = change <= limits.rtol**2 * size
    symmetrize_(entries.values)
    values, vectors = leading_eigenpairs(entries.values, vectors, max_rounds=8)
    return Fit(vectors * values.clamp(min=0.0).sqrt(), n_iter, converged)
