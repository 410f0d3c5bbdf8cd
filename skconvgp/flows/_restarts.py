"""A search from several starts."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import numpy as np
from torch import Generator

from skconvgp._protocols import Optimizer, OptimizerResult
from skconvgp._tensors import uniforms
from skconvgp._typing import FloatArray
from skconvgp.flows._landscape import BatchLandscape
from skconvgp.flows._search import Best


def minimize_from_many(
    optimizer: Optimizer,
    n_restarts: int,
    landscape: BatchLandscape,
    generator: Generator,
    noise_start: float | None = None,
) -> OptimizerResult:
    """Return the best result of a search from the start and of random restarts.

    The starts of the further searches are drawn uniformly within the bounds, which are
    logarithms; the optimiser draws from the generator as well. The result is never
    worse than the start of the landscape. It says why the search that found it stopped.

    `noise_start` is a noise variance with which the first search begins, instead of
    that of the landscape's start. The landscape's start then has a better value, and a
    search begins there only if the first one ends at a worse value.
    """
    best, origin = Best.at_start(landscape), landscape.start
    if noise_start is not None:
        landscape.start = np.append(origin[:-1], np.log(noise_start))
    result = optimizer.minimize(landscape, generator)
    value = landscape.value(result.theta, landscape.fixed)
    is_worse = noise_start is not None and not best.is_beaten_by(value)
    best.offer(result.theta, value)
    n_restarts_in_all = result.n_restarts
    others = _random_starts(landscape.bounds, n_restarts, generator)
    for start in chain([origin] if is_worse else [], others):
        landscape.start = start
        other = optimizer.minimize(landscape, generator)
        n_restarts_in_all += 1 + other.n_restarts
        value = landscape.value(other.theta, landscape.fixed)
        if best.is_beaten_by(value):
            result = other
            best.offer(other.theta, value)
    return replace(result, theta=best.theta, n_restarts=n_restarts_in_all)


def _random_starts(
    bounds: FloatArray, count: int, generator: Generator
) -> Iterator[FloatArray]:
    """Yield random theta within bounds, each drawn on demand."""
    lows, highs = bounds.T
    for _ in range(count):
        shares = uniforms((len(lows),), generator)
        yield lows + np.array(shares.tolist()) * (highs - lows)
