"""IterativeSVD: completion by repeated low-rank approximation."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from skconvgp._settings import one_of, require
from skconvgp.completion._masked import (
    EIGENVALUE_CUT,
    Fit,
    Limits,
    MaskedCompletion,
    fill_,
    ranks_up_to,
)
from skconvgp.completion._observed import Filled, Observed
from skconvgp.completion._patterns import Entries
from skconvgp.completion._regression import alternate, solve_rows
from skconvgp.linalg import (
    column_factor,
    leading_eigenpairs,
    leading_right_vectors,
    product_change,
    symmetrize_,
    widened,
)

__all__ = ["IterativeSVD"]

RULES = ("truncation", "row_regression")
SMALLEST = 1e-200  # of a sum of prior variances, so that the ridge is above 0
RIDGE = 1e-12  # rows with fewer entries than the rank then have a solution, too


@dataclass(repr=False)
class IterativeSVD(MaskedCompletion):
    r"""Fill missing entries from the leading eigenpairs, again and again.

    Missing entries start at the mean of the observed ones of their row. Each round
    replaces them by entries of a low-rank matrix, which is made from the filled one:

    - ``rule="truncation"`` (hard impute): :math:`U_r D_r U_r^\top` of the r largest
      eigenvalues, positive semi-definite; the rank is raised 1, 2, 4, ... to r. The
      rounds start from the result of alternating least squares. The matrix of rank r
      that is nearest to the observed entries is a fixed point of a round, and rounds
      alone would need many times as long to get there;
    - ``rule="row_regression"`` (Troyanskaya et al.): each row is regressed on the r
      top right singular vectors, over its observed entries only. The result is not
      symmetric; the factor is made of the r largest eigenvalues of its symmetric part.

    Parameters
    ----------
    rank : int or "auto", default="auto"
        Rank r. "auto" raises it 1, 2, 4, ... up to 50, half of the observed entries of
        a row, or `n_anchors`. It stops if the error on the held-out entries twice in a
        row does not fall by 1 %, and keeps the best rank.
    pattern : {"blocks", "landmarks", "random"}, default="blocks"
        Pattern of the evaluated entries: tiles between random groups of samples, all
        entries of random samples, or single entries. Every sample is compared with
        others.
    max_iter : int, default=200
        Largest number of rounds at the last rank.
    rtol : float, default=1e-5
        Rounds end when the low-rank matrix changes less, as a share of its norm; with
        ``rule="row_regression"``, when the missing entries do.
    check_fraction : float, default=0.05
        Share of the evaluated entries that is held out to measure the error. The final
        fit uses them, but the error is measured before, on a fit without them. With
        pattern="landmarks" the final fit does not use them.
    n_anchors : int, optional
        Number of samples that new samples are compared with; by default all.
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
    >>> from skconvgp import ConvNetGPClassifier
    >>> from skconvgp.completion import IterativeSVD
    >>> from skconvgp.datasets import load_digits_images
    >>> from skconvgp.kernels import rbf
    >>> X, y = load_digits_images(return_X_y=True)
    >>> gp = ConvNetGPClassifier(
    ...     rbf(2.0),
    ...     completion=IterativeSVD(rank=10, rtol=1e-3),
    ...     observed_fraction=0.4,
    ...     random_state=0,
    ... ).fit(X[:200], y[:200])
    >>> gp.fit_report_.relative_rmse < 0.12
    True
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
        # A low rank that fits the columns of landmarks cannot fit the other prior
        # variances as well.
        landmarks = entries.landmarks()
        observed = Observed.of(entries, has_lone_diag=landmarks is None)
        rank = int(step)
        left, right = _row_means(entries) if start is None else (start, start)
        vectors = widened(right, rank, generator)
        if self.rule == "row_regression":
            return _regress(entries, observed, left @ right.mT, vectors, limits)
        if start is None:
            left, right = symmetric_part(left, right)
        factor, _ = _nearest(Filled.of(observed, left, right), vectors)
        ridge = RIDGE * max(float(entries.values.diagonal().abs().sum()), SMALLEST)
        sweeps = alternate(
            lambda columns, _: solve_rows(observed, columns, ridge),
            factor,
            limits,
            observed,
            ridge,
            landmarks,
        )
        filled = Filled.of(observed, sweeps.factor, sweeps.factor)
        vectors = widened(sweeps.factor, rank, generator)
        rounds = truncate(observed, filled, vectors, limits)
        return replace(rounds, n_iter=sweeps.n_iter + rounds.n_iter)

    def _check_further(self) -> None:
        require(self, "rule", self.rule in RULES, one_of(RULES))

    def _stats(self, step: float) -> dict[str, float]:
        return {}


def _row_means(entries: Entries) -> tuple[Tensor, Tensor]:
    """Return U, V (n, 1) with (U V^T)_ij the mean of the observed entries of row i."""
    sums = entries.values.sum(1, keepdim=True)
    means = sums / entries.mask.sum(1, keepdim=True)
    return means, torch.ones_like(means)


def symmetric_part(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Return U, V (n, 2 r) with the symmetric part of the product of U and V (n, r)."""
    return torch.cat([left / 2, right], dim=1), torch.cat([right, left / 2], dim=1)


def truncate(
    observed: Observed, filled: Filled, vectors: Tensor, limits: Limits
) -> Fit:
    """Replace missing entries by entries of the nearest low-rank matrix, in rounds."""
    last, n_iter, converged = (filled.left, filled.right), 0, False
    while n_iter < limits.max_iter and not converged:
        n_iter += 1
        factor, vectors = _nearest(filled, vectors)
        filled = Filled.of(observed, factor, factor)
        change, size = product_change(factor, factor, *last)
        converged = change <= limits.rtol * limits.rtol * size
        last = factor, factor
    return Fit(factor, n_iter, converged)


def _nearest(matrix: Filled, vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Return F and its directions (n, r), with F F^T the nearest matrix of rank r."""
    values, vectors = leading_eigenpairs(matrix, vectors)
    return vectors * values.clamp(min=0.0).sqrt(), vectors


def _regress(
    entries: Entries,
    observed: Observed,
    filled: Tensor,
    vectors: Tensor,
    limits: Limits,
) -> Fit:
    """Fill rows by regression, in rounds; the factor is of the final symmetric part."""
    n_iter, converged = 0, False
    torch.where(entries.mask, entries.values, filled, out=filled)
    while n_iter < limits.max_iter and not converged:
        n_iter += 1
        vectors = leading_right_vectors(filled, vectors)
        coefs = solve_rows(observed, vectors, RIDGE)
        change, size = fill_(filled, entries.mask, coefs, vectors)
        converged = change <= limits.rtol * limits.rtol * size
    landmarks = entries.landmarks()
    if landmarks is not None:
        rank = vectors.shape[1]
        factor = column_factor(filled[:, landmarks], landmarks, rank, EIGENVALUE_CUT)
        return Fit(factor, n_iter, converged)
    symmetrize_(filled)
    values, vectors = leading_eigenpairs(filled, vectors, max_rounds=8)
    return Fit(vectors * values.clamp(min=0.0).sqrt(), n_iter, converged)
