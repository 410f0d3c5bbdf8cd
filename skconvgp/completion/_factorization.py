"""MatrixFactorization: completion by a product of two thin matrices."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Generator, Tensor

from skconvgp._settings import is_int, is_number, one_of, require
from skconvgp._tensors import normals
from skconvgp.completion._masked import (
    LOOSE,
    Fit,
    Limits,
    MaskedCompletion,
    observed_change,
    ranks_up_to,
)
from skconvgp.completion._observed import Observed
from skconvgp.completion._patterns import Entries
from skconvgp.completion._regression import alternate, solve_rows, sweep_rows

__all__ = ["MatrixFactorization"]

ALGORITHMS = ("als", "elementwise")
# Relative to the level of the start: docs/maths.rst, "Completion from entries"
START_NOISE = 0.01


@dataclass(repr=False)
class MatrixFactorization(MaskedCompletion):
    r"""Fit the observed entries by a product of two thin matrices.

    The objective :math:`\lVert P_\Omega(K - U V^\top) \rVert^2 + \gamma (\lVert U
    \rVert^2 + \lVert V \rVert^2)` is lowered by U and V in turn, from U = V:

    - ``algorithm="als"``: each row is set to its optimum,
      :math:`u_i = (V_i^\top V_i + \gamma I)^{-1} V_i^\top k_i`, where :math:`V_i` has
      the rows of V that belong to the observed entries :math:`k_i` of row i;
    - ``algorithm="elementwise"``: the coordinates of each row are set to their optimum,
      one after the other.

    The rank is raised 1, 2, 4, ..., and new columns start as noise. The completed
    matrix F F^T is the nearest to the symmetric part of the final :math:`U V^\top`.

    Parameters
    ----------
    rank : int or "auto", default="auto"
        Number of columns of U and V. "auto" raises it 1, 2, 4, ... up to 50, half of
        the observed entries of a row, or `n_anchors`. It stops if the error on the
        held-out entries twice in a row does not fall by 1 %, and keeps the best rank.
    pattern : {"blocks", "landmarks", "random"}, default="blocks"
        Pattern of the evaluated entries: tiles between random groups of samples, all
        entries of random samples, or single entries. Every sample is compared with
        others.
    max_iter : int, default=200
        Largest number of rounds at the last rank.
    rtol : float, default=1e-5
        Rounds end when :math:`U V^\top` changes less, as a share of its norm.
    check_fraction : float, default=0.05
        Share of the evaluated entries that is held out to measure the error. The final
        fit uses them, but the error is measured before, on a fit without them. With
        pattern="landmarks" the final fit does not use them.
    n_anchors : int, optional
        Number of samples that new samples are compared with; by default all.
    algorithm : {"als", "elementwise"}, default="als"
        How U and V are updated.
    ridge : float, default=1e-4
        :math:`\gamma` as a share of the mean prior variance.
    n_restarts : int, default=1
        Number of random starts; the result that is nearest to the observed entries is
        kept. With ``rank="auto"`` they are starts of rank 1 only.

    References
    ----------
    Meinel, "Scaling up Gaussian processes with convolutional kernels by matrix
    completion", 2020, section 3.3.3, with equations 3.11 and 3.13 corrected; Hastie,
    Mazumder, Lee and Zadeh, "Matrix completion and low-rank SVD via fast alternating
    least squares", 2015; the rounds are accelerated as in Walker and Ni, "Anderson
    acceleration for fixed-point iterations", 2011.

    Examples
    --------
    >>> from skconvgp import ConvNetGPClassifier
    >>> from skconvgp.completion import MatrixFactorization
    >>> from skconvgp.datasets import load_digits_images
    >>> from skconvgp.kernels import rbf
    >>> X, y = load_digits_images(return_X_y=True)
    >>> gp = ConvNetGPClassifier(
    ...     rbf(2.0),
    ...     completion=MatrixFactorization(rank=10, rtol=1e-3),
    ...     observed_fraction=0.4,
    ...     random_state=0,
    ... ).fit(X[:200], y[:200])
    >>> gp.fit_report_.relative_rmse < 0.12
    True
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
        # A low rank that fits the columns of landmarks cannot fit the other prior
        # variances as well.
        has_lone_diag = entries.landmarks() is None
        rank, observed = int(step), Observed.of(entries, has_lone_diag=has_lone_diag)
        if start is not None:
            return self._widen(entries, observed, start, rank, limits, generator)
        fits = [
            self._fit_from_random(entries, observed, rank, limits, generator)
            for _ in range(self.n_restarts)
        ]
        return min(fits, key=lambda fit: observed_change(entries, fit.factor))

    def _fit_from_random(
        self,
        entries: Entries,
        observed: Observed,
        rank: int,
        limits: Limits,
        generator: Generator,
    ) -> Fit:
        """Fit ranks 1, 2, 4, ... from a random start."""
        factor, n_iter = entries.values.new_zeros(len(entries.values), 0), 0
        for wider in ranks_up_to(rank):
            bounds = limits if wider == rank else LOOSE
            fit = self._widen(entries, observed, factor, wider, bounds, generator)
            factor, n_iter = fit.factor, n_iter + fit.n_iter
        return replace(fit, n_iter=n_iter)

    def _widen(
        self,
        entries: Entries,
        observed: Observed,
        start: Tensor,
        rank: int,
        limits: Limits,
        generator: Generator,
    ) -> Fit:
        """Fit a rank from a factor of lower rank; further columns start as noise."""
        added = _noise(entries, rank - start.shape[1], generator)
        if start.shape[1] == 0:
            added = added + _level(entries)
        ridge = self.ridge * float(entries.values.diagonal().mean())
        return alternate(
            partial(self._update, observed, ridge),
            torch.cat([start, added], dim=1),
            limits,
            observed,
            ridge,
            entries.landmarks(),
        )

    def _update(
        self, observed: Observed, ridge: float, columns: Tensor, rows: Tensor
    ) -> Tensor:
        """Return U (n, r) that lowers |P(K - U V^T)|^2 + ridge |U|^2 for V (n, r)."""
        if self.algorithm == "als":
            return solve_rows(observed, columns, ridge)
        return sweep_rows(observed, columns, rows, ridge)

    def _check_further(self) -> None:
        require(self, "algorithm", self.algorithm in ALGORITHMS, one_of(ALGORITHMS))
        require(self, "ridge", is_number(self.ridge), "a number > 0")
        require(self, "n_restarts", is_int(self.n_restarts), "an int >= 1")

    def _stats(self, step: float) -> dict[str, float]:
        return {}


def _level(entries: Entries) -> float:
    """Return u for which a constant U = u (n, 1) has U U^T equal to the mean entry."""
    return math.sqrt(max(float(entries.values.sum()) / int(entries.mask.sum()), 0.0))


def _noise(entries: Entries, rank: int, generator: Generator) -> Tensor:
    """Return random U (n, r) with U U^T small compared to the prior variances."""
    variances = entries.values.diagonal()
    shape = (len(variances), rank)
    noise = normals(shape, generator, variances.dtype)
    scale = START_NOISE * math.sqrt(float(variances.mean()) / max(rank, 1))
    return scale * noise.to(variances.device)
