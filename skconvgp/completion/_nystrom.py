"""Nystrom and EnsembleNystrom: completion from the columns of landmarks."""

import math
from dataclasses import dataclass
from numbers import Real
from typing import Literal

import torch
from torch import Generator, Tensor

from skconvgp._parts import Part
from skconvgp._protocols import CompletedGram, GramOracle
from skconvgp._settings import is_int, reject
from skconvgp._tensors import int_range, permutation
from skconvgp.completion._budget import (
    column_entries,
    columns_within,
    count_landmarks,
    entry_budget,
)
from skconvgp.completion._finite import check_finite
from skconvgp.completion._landmarks import (
    LANDMARKS,
    Landmarks,
    check_capability,
    choose_landmarks,
    relative_cut,
    row_blocks,
)
from skconvgp.linalg import symmetric_eigen

__all__ = ["EnsembleNystrom", "Nystrom"]

COPIES = 2  # of the columns of the landmarks: the columns and their products
CHECK_SIDE = 32  # rows and columns of the held-out block, at most


@dataclass(repr=False)
class Nystrom(Part):
    r"""Low-rank completion from the columns of landmarks.

    With the columns :math:`C = K_{:,S}` of landmarks :math:`S` and the
    eigendecomposition :math:`K_{SS} = U \Lambda U^\top`, the completed matrix is
    :math:`F F^\top`, :math:`F = C U_k \Lambda_k^{-1/2}`. Eigenvalues so small that they
    may be rounding errors are cut off. This is the only completion of the rank of
    :math:`K_{SS}` that agrees with the columns, and it is exact if :math:`K` has this
    rank.

    Parameters
    ----------
    n_landmarks : int, default=None
        Number of landmarks; None for as many as `observed_fraction` allows.
    landmarks : str, default="uniform"
        How landmarks are chosen: "uniform"; "stratified", equally many of each class;
        "kmeans", samples near the centres of clusters by correlation; "greedy_pivoted"
        and "random_pivoted", pivots of a Cholesky factorisation; "leverage", one half
        at random, the other half by leverage scores computed from the first. The last
        three use the correlations of the kernel.
    rank : int or "auto", default=None
        Number of eigenvalues used; None uses all that are not cut off. "auto" is the
        number with the smallest error on held-out entries. If fewer than two samples
        are not landmarks, no entries can be held out, and "auto" uses all.
    check_fraction : float, default=0.05
        Held-out entries that measure the error, as a share of the evaluated entries; at
        most 1024 entries. They are part of `observed_fraction`, even if that is 1. With
        0 the error is not measured.

    Raises
    ------
    CompletionError
        In `complete`, if `observed_fraction` is too small for one landmark, if the
        choice of landmarks needs labels or points that the oracle does not have, or if
        entries are not finite.

    See Also
    --------
    EnsembleNystrom : The mean of several such completions.

    Notes
    -----
    Estimators complete the matrix of the different inputs: landmarks are drawn among
    these, shares count their entries, and a weight of 2 is the same as two equal
    samples. They warn of classes without a landmark. Meinel's equation 3.16 inverts all
    eigenvalues; here those below a relative cut are left out.

    References
    ----------
    Williams and Seeger, "Using the Nyström method to speed up kernel machines",
    2001; Meinel, 2020, equation 3.16. Landmarks: Zhang, Tsang and Kwok, "Improved
    Nyström low-rank approximation and error analysis", 2008 ("kmeans"); Chen,
    Epperly, Tropp and Webber, "Randomly pivoted Cholesky", 2022; Musco and Musco,
    "Recursive sampling for the Nyström method", 2017 ("leverage").

    Examples
    --------
    >>> from skconvgp import ConvNetGPClassifier
    >>> from skconvgp.completion import Nystrom
    >>> from skconvgp.datasets import load_digits_images
    >>> from skconvgp.kernels import rbf
    >>> X, y = load_digits_images(return_X_y=True)
    >>> part = Nystrom(n_landmarks=50, landmarks="kmeans")
    >>> gp = ConvNetGPClassifier(rbf(2.0), completion=part, random_state=0)
    >>> gp.fit(X[:200], y[:200]).fit_report_.relative_rmse < 0.1
    True
    """

    n_landmarks: int | None = None
    landmarks: str = "uniform"
    rank: int | Literal["auto"] | None = None
    check_fraction: float = 0.05

    def complete(
        self, oracle: GramOracle, observed_fraction: float, generator: Generator
    ) -> CompletedGram:
        """Evaluate the columns of landmarks, and complete the matrix from them.

        Parameters
        ----------
        oracle : GramOracle
            Evaluates entries.
        observed_fraction : float
            Share of the n (n + 1) / 2 distinct entries that may be evaluated; used if
            `n_landmarks` is None.
        generator : torch.Generator
            Chooses landmarks and held-out entries.

        Returns
        -------
        completed : CompletedGram
            The matrix; `stats` has "rank" and "n_landmarks".
        """
        plan = _plan(self, oracle, observed_fraction)
        _check_rank(self, plan)
        landmarks = choose_landmarks(self.landmarks, oracle, plan.m, generator)
        check = _hold_out(oracle, landmarks, plan, generator)
        all_indices = int_range(len(landmarks.indices))
        limit = None if self.rank == "auto" else self.rank
        member = _Member(
            all_indices, _lift_map(oracle, landmarks, all_indices)[:, :limit]
        )
        factor, lift_map = _lift_(landmarks.columns, [member])
        if self.rank == "auto":
            best = _best_rank(check, factor)
            factor, lift_map = factor[:, :best], lift_map[:, :best]
        return _completed(factor, landmarks.indices, lift_map, check)

    def n_values(self, n: int, observed_fraction: float) -> int:
        """Return how many numbers `complete` holds at once for n samples."""
        _check_settings(self)
        return COPIES * n * count_landmarks(self.n_landmarks, observed_fraction, n)


@dataclass(repr=False)
class EnsembleNystrom(Part):
    r"""Mean of several Nyström completions, each from a part of the landmarks.

    Landmarks are distributed among the members at random; the completed matrix is the
    mean :math:`\frac1e \sum_i F_i F_i^\top`. Its eigendecompositions are smaller than
    the one of :class:`Nystrom` with the same landmarks, but its error is not: each
    member explains no more than all landmarks together.

    Parameters
    ----------
    n_members : int, default=4
        Number of completions.
    n_landmarks : int, default=None
        Number of landmarks of all members together; None for as many as
        `observed_fraction` allows.
    landmarks : str, default="uniform"
        How landmarks are chosen, as in :class:`Nystrom`.
    check_fraction : float, default=0.05
        Held-out entries that measure the error, as a share of the evaluated entries; at
        most 1024 entries. With 0 the error is not measured.

    Raises
    ------
    CompletionError
        In `complete`, if `observed_fraction` is too small for one landmark of each
        member, if the choice of landmarks needs labels or points that the oracle does
        not have, or if entries are not finite.

    See Also
    --------
    Nystrom : One completion from all landmarks.

    References
    ----------
    Kumar, Mohri and Talwalkar, "Sampling methods for the Nyström method", 2012,
    with uniform weights.

    Examples
    --------
    >>> from skconvgp import ConvNetGPClassifier
    >>> from skconvgp.completion import EnsembleNystrom
    >>> from skconvgp.datasets import load_digits_images
    >>> from skconvgp.kernels import rbf
    >>> X, y = load_digits_images(return_X_y=True)
    >>> part = EnsembleNystrom(n_landmarks=50)
    >>> gp = ConvNetGPClassifier(rbf(2.0), completion=part, random_state=0)
    >>> gp.fit(X[:200], y[:200]).score(X[200:], y[200:]) > 0.7
    True
    """

    n_members: int = 4
    n_landmarks: int | None = None
    landmarks: str = "uniform"
    check_fraction: float = 0.05

    def complete(
        self, oracle: GramOracle, observed_fraction: float, generator: Generator
    ) -> CompletedGram:
        """Evaluate the columns of landmarks, and complete the matrix from them.

        Parameters
        ----------
        oracle : GramOracle
            Evaluates entries.
        observed_fraction : float
            Share of the n (n + 1) / 2 distinct entries that may be evaluated; used if
            `n_landmarks` is None.
        generator : torch.Generator
            Chooses landmarks, members and held-out entries.

        Returns
        -------
        completed : CompletedGram
            The matrix; `stats` has "rank", "n_landmarks" and "n_members".
        """
        plan = _plan(self, oracle, observed_fraction, self._least())
        landmarks = choose_landmarks(self.landmarks, oracle, plan.m, generator)
        check = _hold_out(oracle, landmarks, plan, generator)
        m = len(landmarks.indices)
        n_members = max(1, min(self.n_members, m))
        shuffled = permutation(m, generator)
        shares = [shuffled[first::n_members] for first in range(n_members)]
        members = [
            _Member(share, _lift_map(oracle, landmarks, share) / math.sqrt(n_members))
            for share in shares
        ]
        factor, lift_map = _lift_(landmarks.columns, members)
        return _completed(
            factor, landmarks.indices, lift_map, check, n_members=n_members
        )

    def n_values(self, n: int, observed_fraction: float) -> int:
        """Return how many numbers `complete` holds at once for n samples."""
        least = self._least()
        _check_settings(self, least)
        m = count_landmarks(self.n_landmarks, observed_fraction, n, min(least, n))
        return COPIES * n * m

    def _least(self) -> int:
        """Return the least number of landmarks, which is one for each member."""
        if not is_int(self.n_members, 1):
            reject(self, "n_members", "an int >= 1", self.n_members)
        return self.n_members


@dataclass(frozen=True)
class _Plan:
    """Evaluated entries of n samples: m columns, and a block of side^2 entries."""

    n: int
    m: int
    side: int


@dataclass(frozen=True)
class _Member:
    """Landmarks (s,) of a member, by index among all, and their map (s, r)."""

    indices: Tensor
    lift_map: Tensor


@dataclass(frozen=True)
class _Check:
    """Held-out entries (a, a) between samples that are not landmarks."""

    n_evaluated: int  # with the landmark columns and the diagonal
    rows: Tensor
    cols: Tensor
    values: Tensor


def _plan(
    part: Nystrom | EnsembleNystrom,
    oracle: GramOracle,
    observed_fraction: float,
    least: int = 1,
) -> _Plan:
    """Check the settings; divide the budget into columns and held-out entries."""
    _check_settings(part, least)
    check_capability(type(part).__name__, part.landmarks, oracle)
    n = oracle.n_samples
    least = min(least, n)
    m = count_landmarks(part.n_landmarks, observed_fraction, n, least)
    if part.n_landmarks is None:
        budget = entry_budget(observed_fraction, n)
        held_out = min(int(part.check_fraction * budget), CHECK_SIDE**2)
        # Columns make room for held-out entries, as long as enough columns remain.
        fewer = columns_within(budget - held_out, n)
        m = fewer if fewer >= least else m
        held_out = budget - column_entries(m, n)
    else:
        held_out = max(1, int(part.check_fraction * column_entries(m, n)))
    side = min(CHECK_SIDE, math.isqrt(held_out), (n - m) // 2)
    return _Plan(n, m, side if part.check_fraction > 0.0 else 0)


def _check_settings(part: Nystrom | EnsembleNystrom, least: int = 1) -> None:
    if part.landmarks not in list(LANDMARKS):
        reject(part, "landmarks", f"one of {list(LANDMARKS)!r}", part.landmarks)
    if part.n_landmarks is not None and not is_int(part.n_landmarks, least):
        reject(part, "n_landmarks", f"None or an int >= {least}", part.n_landmarks)
    share = part.check_fraction
    if isinstance(share, bool) or not (isinstance(share, Real) and 0.0 <= share < 1.0):
        reject(part, "check_fraction", "a number >= 0 and < 1", share)


def _check_rank(part: Nystrom, plan: _Plan) -> None:
    if part.rank == "auto" and part.check_fraction == 0.0:
        reject(part, "check_fraction", "> 0 with rank='auto'", part.check_fraction)
    if part.rank is None or part.rank == "auto":
        return
    if not is_int(part.rank, 1) or part.rank > plan.m:
        expected = f"None, 'auto' or an int from 1 to the {plan.m} landmarks"
        reject(part, "rank", expected, part.rank)


def _hold_out(
    oracle: GramOracle, landmarks: Landmarks, plan: _Plan, generator: Generator
) -> _Check:
    """Evaluate a block of entries outside the columns of the landmarks."""
    others = permutation(plan.n, generator)
    others = others[~torch.isin(others, landmarks.indices)]
    rows, cols = others[: plan.side], others[plan.side : 2 * plan.side]
    values = landmarks.columns.new_empty(0, 0)
    if plan.side:
        values = check_finite(oracle.block(rows, cols))
    m = len(landmarks.indices)
    n_evaluated = column_entries(m, plan.n) + plan.n - m + values.numel()
    return _Check(n_evaluated, rows, cols, values)


def _lift_map(oracle: GramOracle, landmarks: Landmarks, indices: Tensor) -> Tensor:
    """Return the map (s, r) of the landmarks with these indices (s,).

    Columns are in order of decreasing eigenvalues.
    """
    square = landmarks.columns[landmarks.indices[indices]][:, indices]
    values, vectors = symmetric_eigen(square)
    kept = values > relative_cut(oracle, len(indices)) * values[-1:]
    return (vectors[:, kept] / values[kept].sqrt()).flip(1)


def _lift_(columns: Tensor, members: list[_Member]) -> tuple[Tensor, Tensor]:
    """Overwrite the columns (n, m) with the factor (n, r); return it and the map.

    Columns of the factor are ordered by member.
    """
    rank = sum(member.lift_map.shape[1] for member in members)
    lift_map = columns.new_zeros(columns.shape[1], rank)
    start = 0
    for member in members:
        stop = start + member.lift_map.shape[1]
        lift_map[member.indices, start:stop] = member.lift_map
        start = stop
    # In blocks of rows, so that no second matrix of this size is held.
    for rows in row_blocks(columns.shape[0]):
        parts = [columns[rows, member.indices] @ member.lift_map for member in members]
        columns[rows, :rank] = torch.cat(parts, 1)
    return columns[:, :rank], lift_map


def _best_rank(check: _Check, factor: Tensor) -> int:
    """Return the rank with the smallest error on the held-out entries."""
    residual, best = check.values.clone(), (math.inf, factor.shape[1])
    pairs = zip(factor[check.rows].mT, factor[check.cols].mT, strict=True)
    for rank, (row, col) in enumerate(pairs, 1):
        residual -= torch.outer(row, col)
        if residual.numel():
            best = min(best, (float(residual.square().mean()), rank))
    return best[1]


def _completed(
    factor: Tensor, indices: Tensor, lift_map: Tensor, check: _Check, **stats: int
) -> CompletedGram:
    """Measure the error on the held-out entries."""
    error = relative = math.nan
    if check.values.numel():
        residual = check.values - factor[check.rows] @ factor[check.cols].mT
        error = float(residual.square().mean().sqrt())
        spread = float(check.values.max() - check.values.min())
        relative = error / spread if spread > 0.0 else math.nan
    return CompletedGram(
        factor=factor.contiguous(),
        anchors=indices,
        lift_map=lift_map.contiguous(),
        n_evaluated=check.n_evaluated,
        error=error,
        relative_rmse=relative,
        stats={"rank": factor.shape[1], "n_landmarks": len(indices), **stats},
    )
