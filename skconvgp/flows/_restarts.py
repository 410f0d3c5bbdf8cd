"""A search from several starts."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import numpy as np
import torch
from torch import Generator

from skconvgp._protocols import Found, Optimizer
from skconvgp._typing import FloatArray
from skconvgp.flows._landscape import BatchLandscape
from skconvgp.flows._search import Best

__all__ = ["minimize_from_many"]


def minimize_from_many(
    optimizer: Optimizer,
    n_restarts: int,
    landscape: BatchLandscape,
    generator: Generator,
    own_start: float | None = None,
) -> Found:
    """Return the best result of a search from the start and of random restarts.

    It is never worse than the start of the landscape.

    Parameters
    ----------
    optimizer : Optimizer
        Searches.
    n_restarts : int
        Searches beside the one from the start; theirs are drawn uniformly within the
        bounds, which are logarithms.
    landscape : BatchLandscape
        The function that is minimised.
    generator : torch.Generator
        Draws the starts, and what the optimiser draws.
    own_start : float, default=None
        Where the first search begins with what the objective learns itself. The start
        of the landscape then has a better value, and a search begins there only if
        the first one ends at something worse.

    Returns
    -------
    found : Found
        The best place over all searches, and why the search that found it stopped.
    """
    best, origin = Best.at_start(landscape), landscape.start
    if own_start is not None:
        landscape.start = np.append(origin[:-1], np.log(own_start))
    found = optimizer.minimize(landscape, generator)
    value = landscape.value(found.theta, landscape.fixed)
    is_worse = own_start is not None and not best.is_beaten_by(value)
    best.offer(found.theta, value)
    n_begun = found.n_restarts
    others = _elsewhere(landscape.bounds, n_restarts, generator)
    for start in chain([origin] if is_worse else [], others):
        landscape.start = start
        other = optimizer.minimize(landscape, generator)
        n_begun += 1 + other.n_restarts
        value = landscape.value(other.theta, landscape.fixed)
        if best.is_beaten_by(value):
            found = other
            best.offer(other.theta, value)
    return replace(found, theta=best.theta, n_restarts=n_begun)


def _elsewhere(
    bounds: FloatArray, count: int, generator: Generator
) -> Iterator[FloatArray]:
    """Yield random theta within bounds, each drawn on demand."""
    lows, highs = bounds.T
    for _ in range(count):
        shares = torch.rand(len(lows), dtype=torch.float64, generator=generator)
        yield lows + np.array(shares.tolist()) * (highs - lows)
