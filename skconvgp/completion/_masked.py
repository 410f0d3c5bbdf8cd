"""MaskedCompletion: the base of completions from any observed entries."""

import abc
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from skconvgp._parts import Part
from skconvgp._protocols import CompletedGram, GramOracle
from skconvgp._settings import (
    is_int,
    is_number,
    one_of,
    reject,
    require,
)
from skconvgp._tensors import int_range
from skconvgp.completion._patterns import (
    PATTERNS,
    Entries,
    Pattern,
    draw_pattern,
    evaluate,
)
from skconvgp.exceptions import CompletionError
from skconvgp.linalg import pseudo_inverse_map, spread_rows

__all__ = [
    "EIGENVALUE_CUT",
    "LOOSE",
    "Fit",
    "Limits",
    "MaskedCompletion",
    "fill_",
    "observed_change",
    "ranks_up_to",
    "row_slices",
]

EIGENVALUE_CUT = 1e-6  # docs/maths.rst, "Completion from entries"
LARGEST_AUTO_RANK = 50  # docs/maths.rst, "Completion from entries"
BLOCK_ROWS = 128  # rows of a matrix that are processed while they are in the cache

# The choice along a path of ranks or penalties:
LEAST_GAIN = 0.01  # relative fall of the error with which a step counts as better
PATIENCE = 2  # number of steps in a row without gain after which the path ends

COPIES = 3  # the matrix, its observed entries in blocks, and the misfit of these


@dataclass(frozen=True)
class Limits:
    """Stopping rules of a fit."""

    # The fit ends when a round changes the matrix by less, relative to its norm.
    rtol: float
    max_iter: int  # largest number of rounds


LOOSE = Limits(rtol=1e-3, max_iter=20)  # for fits that only start the next one


@dataclass(frozen=True)
class Fit:
    """A low-rank matrix fitted to the observed entries."""

    factor: Tensor  # F (n, r): the completed matrix is F F^T
    n_iter: int  # number of rounds
    converged: bool  # whether the last round changed less than the tolerance


@dataclass(repr=False)
class MaskedCompletion(Part, abc.ABC):
    """Completion from any observed entries, along a path of ranks or penalties.

    Each step of the path starts from the result of the previous one. If a step is to be
    chosen, each is fitted to the tolerance, and the one with the smallest error on the
    held-out entries is kept. Otherwise only the last step is fitted to the tolerance.
    Then the error is measured, the held-out entries are put back, and the fit continues
    with them.
    """

    rank: int | str = "auto"
    pattern: str = "blocks"
    max_iter: int = 200
    rtol: float = 1e-5
    check_fraction: float = 0.05
    n_anchors: int | None = None

    def complete(
        self, oracle: GramOracle, observed_fraction: float, generator: Generator
    ) -> CompletedGram:
        """Evaluate a share of the entries of a Gram matrix and fill in the others.

        Parameters
        ----------
        oracle : GramOracle
            Evaluates entries.
        observed_fraction : float
            Share of the entries above the diagonal that may be evaluated, in (0, 1].
        generator : Generator
            Draws the pattern and the starts.

        Returns
        -------
        completed : CompletedGram
            The matrix as F F^T. Its errors are measured on a fit without the held-out
            entries. `stats` has the rank; the rounds of all fits; `observed_change`,
            the error on the observed entries relative to their norm; and `explained`,
            the share of the variance of the held-out entries that is explained.

        Raises
        ------
        ValueError
            If a setting is not allowed; before any entry is evaluated.
        CompletionError
            If the entries are too few to compare each sample with another or, with the
            pattern "landmarks", too few for the rank; or if one is not finite.
        """
        n = oracle.n_samples
        self._check(n, observed_fraction)
        pattern = draw_pattern(
            self.pattern, n, observed_fraction, self.check_fraction, generator
        )
        self._check_rank(pattern)
        entries = evaluate(oracle, pattern)
        limits = self._limits
        step, start, n_iter = self._choose_step(entries, generator)
        checked = self._fit(entries, step, start, limits, generator)
        error, spread = _held_out_error(entries, checked.factor)
        explained = _explained(entries, error)
        n_iter, final = n_iter + checked.n_iter, checked
        if entries.landmarks() is None:
            entries.put_back_()
            final = self._fit(entries, step, checked.factor, limits, generator)
            n_iter += final.n_iter
        factor, anchors = final.factor, self._anchors(final.factor)
        return CompletedGram(
            factor=factor,
            anchors=anchors,
            lift_map=pseudo_inverse_map(
                factor[anchors], EIGENVALUE_CUT, self._ridge(step) * len(anchors) / n
            ),
            n_evaluated=entries.n_evaluated,
            error=error,
            relative_rmse=error / spread if spread > 0.0 else math.nan,
            converged=final.converged,
            stats=self._stats(step)
            | {
                "rank": factor.shape[1],
                "n_iter": n_iter,
                "observed_change": observed_change(entries, factor),
                "explained": explained,
            },
        )

    def n_values(self, n: int, observed_fraction: float) -> int:
        """Return how many numbers `complete` holds at once for n samples."""
        return COPIES * n * n

    @abc.abstractmethod
    def _path(
        self, entries: Entries, generator: Generator
    ) -> tuple[Sequence[float], bool]:
        """Return ranks or penalties, from easy to hard, and whether to choose one."""

    @abc.abstractmethod
    def _fit(
        self,
        entries: Entries,
        step: float,
        start: Tensor | None,
        limits: Limits,
        generator: Generator,
    ) -> Fit:
        """Fit the observed entries with a rank or penalty, from a factor (n, r)."""

    @abc.abstractmethod
    def _check_further(self) -> None:
        """Raise unless the settings that only the subclass has are allowed."""

    @abc.abstractmethod
    def _stats(self, step: float) -> dict[str, float]:
        """Return entries of `stats` about the step that was kept."""

    def _ridge(self, step: float) -> float:
        """Return the ridge of the regression that maps rows (n,) to features."""
        return 0.0

    @property
    def _limits(self) -> Limits:
        return Limits(self.rtol, self.max_iter)

    def _choose_step(
        self, entries: Entries, generator: Generator
    ) -> tuple[float, Tensor | None, int]:
        """Return the step of the path to keep, its factor and the rounds so far."""
        steps, has_choice = self._path(entries, generator)
        limits = self._limits if has_choice else LOOSE
        factor: Tensor | None = None
        kept, best, n_iter, n_worse = (steps[-1], factor), math.inf, 0, 0
        for step in steps:
            fit = self._fit(entries, step, factor, limits, generator)
            factor, n_iter = fit.factor, n_iter + fit.n_iter
            error, _ = _held_out_error(entries, factor)
            if not has_choice or math.isnan(error):
                kept = step, factor
            elif error < (1.0 - LEAST_GAIN) * best:
                kept, best, n_worse = (step, factor), error, 0
            elif (n_worse := n_worse + 1) == PATIENCE:
                break
        return *kept, n_iter

    def _largest_rank(self, entries: Entries) -> int:
        """Return the rank, or with "auto" the largest one that is tried."""
        if not isinstance(self.rank, str):
            return int(self.rank)
        n_of_row = int(entries.mask.sum()) // len(entries.mask)
        bounds = [LARGEST_AUTO_RANK, n_of_row // 2]
        bounds += [] if self.n_anchors is None else [self.n_anchors]
        return max(min(bounds), 1)

    def _anchors(self, factor: Tensor) -> Tensor:
        if self.n_anchors is None:
            return int_range(len(factor), factor.device)
        return spread_rows(factor, self.n_anchors)

    def _check(self, n: int, observed_fraction: float) -> None:
        """Raise unless every setting is allowed for n samples."""
        is_rank = self.rank == "auto" or is_int(self.rank, most=n)
        require(self, "rank", is_rank, f"'auto' or an int from 1 to {n}")
        fewest = 1 if isinstance(self.rank, str) else self.rank
        is_many = self.n_anchors is None or is_int(self.n_anchors, fewest, n)
        require(self, "n_anchors", is_many, f"None or an int from {fewest} to {n}")
        require(self, "max_iter", is_int(self.max_iter), "an int >= 1")
        require(self, "rtol", is_number(self.rtol), "a number > 0")
        is_share = is_number(self.check_fraction) and self.check_fraction < 1.0
        require(self, "check_fraction", is_share, "a number in (0, 1)")
        is_pattern = isinstance(self.pattern, str) and self.pattern in PATTERNS
        require(self, "pattern", is_pattern, one_of(PATTERNS))
        if not (is_number(observed_fraction) and observed_fraction <= 1.0):
            reject(self, "observed_fraction", "a number in (0, 1]", observed_fraction)
        self._check_further()

    def _check_rank(self, pattern: Pattern) -> None:
        """Raise if the columns of landmarks are fewer than the rank."""
        n_landmarks = int(pattern.sizes[0])
        if self.pattern != "landmarks" or isinstance(self.rank, str):
            return
        if self.rank > n_landmarks:
            raise CompletionError(
                f"`rank`={self.rank} exceeds the {n_landmarks} landmarks whose columns "
                "may be evaluated: lower it, or raise `observed_fraction`."
            )


def ranks_up_to(largest: int) -> list[int]:
    """Return 1, 2, 4, ... and finally the largest rank."""
    ranks = [1]
    while ranks[-1] < largest:
        ranks.append(min(2 * ranks[-1], largest))
    return ranks


def row_slices(n: int) -> list[slice]:
    """Return slices of the rows of a matrix, each small enough for the cache."""
    return [slice(start, start + BLOCK_ROWS) for start in range(0, n, BLOCK_ROWS)]


def fill_(
    values: Tensor, mask: Tensor, left: Tensor, right: Tensor
) -> tuple[float, float]:
    """Write U V^T (n, n) into the entries that are missing from the mask.

    Returns the squared norms of their change, and of their new values. The observed
    entries of `values` stay. U and V are `left` and `right` (n, r).
    """
    change = size = 0.0
    for rows in row_slices(len(values)):
        new = left[rows] @ right.mT
        step = (new - values[rows]).masked_fill_(mask[rows], 0.0)
        new.masked_fill_(mask[rows], 0.0)
        values[rows] += step
        change += float(torch.dot(step.flatten(), step.flatten()))
        size += float(torch.dot(new.flatten(), new.flatten()))
    return change, size


def _held_out_error(entries: Entries, factor: Tensor) -> tuple[float, float]:
    """Return the root mean square error on held-out entries, and their range."""
    truth = entries.check_values
    if len(truth) == 0:
        return math.nan, math.nan
    one, two = factor[entries.check_rows], factor[entries.check_cols]
    error = ((one * two).sum(1) - truth).square().mean().sqrt()
    return float(error), float(truth.max() - truth.min())


def _explained(entries: Entries, error: float) -> float:
    """Return the share of the variance of held-out entries that an error explains."""
    truth = entries.check_values
    variance = float(truth.var(correction=0)) if len(truth) else 0.0
    return 1.0 - error**2 / variance if variance > 0.0 else math.nan


def observed_change(entries: Entries, factor: Tensor) -> float:
    """Return |P(F F^T - K)| / |P(K)| over the observed entries."""
    change = size = 0.0
    for rows in row_slices(len(factor)):
        known = entries.values[rows]
        fitted = (factor[rows] @ factor.mT).masked_fill_(~entries.mask[rows], 0.0)
        change += float((fitted - known).square().sum())
        size += float(known.square().sum())
    return math.sqrt(change / size) if size > 0.0 else math.nan
