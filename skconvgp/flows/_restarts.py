"""A search from several starts."""

from dataclasses import replace

import numpy as np
import torch
from torch import Generator

from skconvgp._protocols import Found, Optimizer
from skconvgp.flows._landscape import BatchLandscape
from skconvgp.flows._search import Best

__all__ = ["minimize_from_many"]


def minimize_from_many(
    optimizer: Optimizer,
    n_restarts: int,
    landscape: BatchLandscape,
    generator: Generator,
) -> Found:
    """Return the best of a search from the start and of others from random places.

    Parameters
    ----------
    optimizer : Optimizer
        Searches.
    n_restarts : int
        Searches beside the one from the start; theirs are drawn uniformly within the
        bounds, which are logarithms.
    landscape : BatchLandscape
        What is minimised.
    generator : torch.Generator
        Draws the starts, and what the optimiser draws.

    Returns
    -------
    found : Found
        The best place over all searches, and why the search that found it stopped.
    """
    best = Best.at_start(landscape)
    found = optimizer.minimize(landscape, generator)
    best.offer(found.theta, landscape.value(found.theta, landscape.fixed))
    n_begun = found.n_restarts
    lows, highs = landscape.bounds.T
    for _ in range(n_restarts):
        shares = torch.rand(len(lows), dtype=torch.float64, generator=generator)
        landscape.start = lows + np.array(shares.tolist()) * (highs - lows)
        other = optimizer.minimize(landscape, generator)
        n_begun += 1 + other.n_restarts
        value = landscape.value(other.theta, landscape.fixed)
        if best.is_beaten_by(value):
            found = other
            best.offer(other.theta, value)
    return replace(found, theta=best.theta, n_restarts=n_begun)
