"""Factorisation into two thin matrices."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from skconvgp.completion._masked import (
    LOOSE,
    Fit,
    Limits,
    MaskedCompletion,
    is_int,
    is_number,
    observed_change,
    one_of,
    ranks_up_to,
    require,
)
from skconvgp.completion._patterns import Entries
from skconvgp.completion._regression import RowRegression
from skconvgp.linalg import product_change, psd_factor

__all__ = ["MatrixFactorization"]

ALGORITHMS = ("als", "elementwise")
START_NOISE = 0.01  # of the level of the start, maths.md 6.5


@dataclass(repr=False)
class MatrixFactorization(MaskedCompletion):
    r"""Fit the observed entries by a product of two thin matrices.

    The objective :math:`\lVert P_\Omega(K - U V^\top) \rVert^2 + \gamma (\lVert U
    \rVert^2 + \lVert V \rVert^2)` is lowered by U and V in turn, from U = V:

    - ``algorithm="als"``: each row at its best,
      :math:`u_i = (V_i^\top V_i + \gamma I)^{-1} V_i^\top k_i` with the rows of V
      where row i is observed;
    - ``algorithm="elementwise"``: the coordinates of each row at their best, one
      after the other.

    The rank is raised 1, 2, 4, ...: noise in the new columns. At the end U and V are
    tied: F F^T is nearest to the symmetric part of :math:`U V^\top`.

    Parameters
    ----------
    rank : int or "auto", default="auto"
        Columns of U and V. "auto" raises them 1, 2, 4, ... up to 50, half of the
        observed entries of a row, or `n_anchors`, until the error on the held-out
        entries twice in a row does not fall by 1 %, and keeps the best.
    pattern : {"blocks", "landmarks", "random"}, default="blocks"
        Which entries are evaluated: tiles between random groups of samples, all
        entries of random samples, or single entries. Every sample is compared with
        some others.
    max_iter : int, default=200
        Rounds at most, at the last rank.
    rtol : float, default=1e-5
        Rounds end when :math:`U V^\top` changes less, as a share of its norm.
    check_fraction : float, default=0.05
        Share of the evaluated entries that is held out to measure the error, then put
        back for the final fit: the error is that of the fit without them.
    n_anchors : int, optional
        Samples with which new ones are compared; by default all.
    algorithm : {"als", "elementwise"}, default="als"
        How U and V are updated.
    ridge : float, default=1e-4
        :math:`\gamma` as a share of the mean prior variance.
    n_restarts : int, default=1
        Random starts; the result is kept that is nearest to the observed entries.
        With ``rank="auto"`` they are starts of rank 1 only.

    References
    ----------
    Meinel, "Scaling up Gaussian processes with convolutional kernels by matrix
    completion", 2020, section 3.3.3, with equations 3.11 and 3.13 corrected; Hastie,
    Mazumder, Lee and Zadeh, "Matrix completion and low-rank SVD via fast alternating
    least squares", 2015.

    Examples
    --------
    >>> from skconvgp.completion import MatrixFactorization
    >>> MatrixFactorization(rank=20, algorithm="elementwise")
    MatrixFactorization(rank=20, algorithm='elementwise')
    """

    algorithm: str = "als"
    ridge: float = 1e-4
    n_restarts: int = 1

    def _path(
        self, entries: Entries, generator: Generator
    ) -> tuple[Sequence[float], bool]:
        largest, is_auto = self._largest_rank(entries), self.rank == "auto"
        return (ranks_up_to(largest) if is_auto else [largest]), is_auto

    def _fit(
        self,
        entries: Entries,
        step: float,
        start: Tensor | None,
        limits: Limits,
        generator: Generator,
    ) -> Fit:
        rank, regression = int(step), RowRegression.of(entries)
        if start is not None:
            return self._widen(regression, start, rank, limits, generator)
        fits = [
            self._climb(regression, rank, limits, generator)
            for _ in range(self.n_restarts)
        ]
        return min(fits, key=lambda fit: observed_change(entries, fit.factor))

    def _climb(
        self, regression: RowRegression, rank: int, limits: Limits, generator: Generator
    ) -> Fit:
        """Fit ranks 1, 2, 4, ... from a random start."""
        entries = regression.entries
        start = _level(entries) + _noise(entries, 1, generator)
        fit = self._alternate(regression, start, LOOSE if rank > 1 else limits)
        n_iter = fit.n_iter
        for wider in ranks_up_to(rank)[1:]:
            bounds = limits if wider == rank else LOOSE
            fit = self._widen(regression, fit.factor, wider, bounds, generator)
            n_iter += fit.n_iter
        return replace(fit, n_iter=n_iter)

    def _widen(
        self,
        regression: RowRegression,
        start: Tensor,
        rank: int,
        limits: Limits,
        generator: Generator,
    ) -> Fit:
        """Fit from a factor (n, r), with noise in the columns that it lacks."""
        added = _noise(regression.entries, rank - start.shape[1], generator)
        return self._alternate(regression, torch.cat([start, added], dim=1), limits)

    def _alternate(
        self, regression: RowRegression, right: Tensor, limits: Limits
    ) -> Fit:
        """Update U and V in turn from U = V (n, r)."""
        ridge = self.ridge * float(regression.entries.values.diagonal().mean())
        left, n_iter, converged = right, 0, False
        while n_iter < limits.max_iter and not converged:
            last, n_iter = (left, right), n_iter + 1
            left = self._update(regression, right, left, ridge)
            right = self._update(regression, left, right, ridge)
            change, size = product_change(left, right, *last)
            converged = change <= limits.rtol**2 * size
        return Fit(psd_factor(left, right, right.shape[1]), n_iter, converged)

    def _update(
        self, regression: RowRegression, columns: Tensor, rows: Tensor, ridge: float
    ) -> Tensor:
        """Return U (n, r) that lowers |P(K - U V^T)|^2 + ridge |U|^2 for V (n, r)."""
        if self.algorithm == "als":
            return regression.solve(columns, ridge)
        return regression.sweep(columns, rows, ridge)

    def _check_own(self) -> None:
        require(self, "algorithm", self.algorithm in ALGORITHMS, one_of(ALGORITHMS))
        require(self, "ridge", is_number(self.ridge), "a number > 0")
        require(self, "n_restarts", is_int(self.n_restarts), "an int >= 1")

    def _stats(self, step: float) -> dict[str, float]:
        return {}


def _level(entries: Entries) -> float:
    """Return what all entries of U (n, 1) are where U U^T is the mean entry."""
    known = entries.values.masked_fill(~entries.mask, 0.0)
    return math.sqrt(max(float(known.sum()) / int(entries.mask.sum()), 0.0))


def _noise(entries: Entries, rank: int, generator: Generator) -> Tensor:
    """Return U (n, r) with U U^T small beside the prior variances."""
    variances = entries.values.diagonal()
    shape = (len(variances), rank)
    noise = torch.randn(shape, generator=generator, dtype=variances.dtype)
    scale = START_NOISE * math.sqrt(float(variances.mean()) / max(rank, 1))
    return scale * noise.to(variances.device)
