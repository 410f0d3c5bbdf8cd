"""Weights of the parts of a sum, on a grid."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np

from skconvgp._typing import FloatArray

STEPS = 5  # weights are multiples of 1 / 5
Counts = tuple[int, ...]


def equal_weights(n_parts: int) -> FloatArray:
    """Return equal weights (p,) of sum 1."""
    return np.full(n_parts, 1.0 / n_parts)


def search_weights(score: Callable[[FloatArray], float], n_parts: int) -> FloatArray:
    """Return the weights (p,) of sum 1 with the largest score.

    All multiples of 1 / 5 are tried for two parts. For more parts the search starts
    from the best single part, and moves 1 / 5 from one part to another as long as the
    score rises.

    Parameters
    ----------
    score : callable
        Score of weights (p,).
    n_parts : int
        Number p of parts.
    """

    @cache
    def score_at(counts: Counts) -> float:
        return score(np.array(counts) / STEPS)

    every = range(n_parts)
    singles = [tuple(STEPS if i == j else 0 for j in every) for i in every]
    if n_parts == 2:
        singles = [(STEPS - i, i) for i in range(STEPS + 1)]
    best, previous = max(singles, key=score_at), None
    while best != previous:
        previous = best
        best = max([best, *_moves(best)], key=score_at)
    return np.array(best) / STEPS


def _moves(counts: Counts) -> Iterator[Counts]:
    """Yield counts with one of them moved from a part to another."""
    for source, count in enumerate(counts):
        for target in range(len(counts)):
            if count and target != source:
                moved = list(counts)
                moved[source] -= 1
                moved[target] += 1
                yield tuple(moved)
