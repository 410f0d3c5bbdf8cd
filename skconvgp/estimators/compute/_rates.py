"""How fast this machine is: products of matrices, pairs and features of a basis.

Each is measured once in a process, in a few tenths of a second.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from skconvgp._threads import LARGE, allowed_threads, threads_for
from skconvgp.engine import wait_for
from skconvgp.kernels._keys import NoKeyError, settings_key
from skconvgp.processes import (
    FLOPS,
    IMAGES,
    MILLISECONDS,
    PAIRS,
    VARIANCES,
    NewRows,
    Run,
    Stage,
    entries,
)

SIDE = 512  # of the matrices whose product tells the speed of algebra
HOST = torch.device("cpu")
ENOUGH = 0.1  # seconds after which a speed is that of the others
TINY = 1e-6
LATE = 3  # times as long is long enough
FIRST, MOST = 4, 1024  # samples that are tried
KEPT_SPEEDS = 256
# Seconds of a pair or an image, by what they depend on.
_SPEEDS: dict[Hashable, float] = {}


@cache
def speed_of_products(dtype: torch.dtype, device: torch.device) -> tuple[float, float]:
    """Return the operations of a product of matrices, and the seconds it takes."""
    one = torch.ones((SIDE, SIDE), dtype=dtype, device=device)
    seconds = []
    with threads_for(LARGE):
        for _ in range(3):  # the first one also starts threads
            start = _now(device)
            _ = one @ one
            seconds.append(_now(device) - start)
    return 2.0 * SIDE**3, min(seconds)


def seconds_of(stage: Stage, basis: Any, rows: Any, run: Run) -> float:
    """Return how long a stage will take, about.

    Pairs and images are those of a basis, which has samples; images of a basis of
    features are rows.
    """
    config = run.config
    match stage.unit:
        case _ if not stage.amount:
            return 0.0
        case str() if stage.unit == FLOPS:
            flops, seconds = speed_of_products(config.solve_dtype, config.device)
            return stage.amount * seconds / flops
        case str() if stage.unit == MILLISECONDS:
            return stage.amount / 1e3 / allowed_threads()
        case str() if stage.unit == PAIRS:
            return stage.amount * _of_a_pair(basis, run)
        case str() if stage.unit == IMAGES:
            return stage.amount * _of_an_image(basis, rows, run)
        case str() if stage.unit == VARIANCES:
            return stage.amount * _of_a_variance(basis, rows, run)
    return 0.0


def _of_a_pair(basis: Any, run: Run) -> float:
    """Return the seconds of a pair of samples."""

    def compute(m: int) -> int:
        few = basis.select(spread(basis.n_samples, m))
        few.oracle(run, "plan").gram()
        return entries(m)

    key = (PAIRS, *_key(basis, run))
    return _measured(key, compute, basis.n_samples, run.config.device)


def _of_an_image(basis: Any, rows: Any, run: Run) -> float:
    """Return the seconds of the features of an image."""

    def compute(m: int) -> int:
        new = NewRows(rows[spread(len(rows), m)])
        return sum(len(one) for one, _ in basis.stream(new, run, needs_diag=False))

    key = (IMAGES, basis.n_samples, *_key(basis, run))
    return _measured(key, compute, len(rows), run.config.device)


def _of_a_variance(basis: Any, rows: Any, run: Run) -> float:
    """Return the seconds of the prior variance of an image."""

    def compute(m: int) -> int:
        return len(basis.variances(rows[spread(len(rows), m)], run))

    key = (VARIANCES, *_key(basis, run))
    return _measured(key, compute, len(rows), run.config.device)


def _key(basis: Any, run: Run) -> tuple[Hashable, ...]:
    """Return what the speed of a basis depends on."""
    kernel, config = basis.kernel_basis, run.config
    if kernel is None:
        return (config.solve_dtype, config.device)
    try:
        own = settings_key(kernel.kernel)
    except NoKeyError:
        own = object()  # which nothing else is equal to
    return own, kernel.map_shape, basis.tile_dtype, run.backend, config.device


def _measured(
    key: Hashable, compute: Callable[[int], int], n: int, device: torch.device
) -> float:
    """Return the seconds of each of what a computation counts, of so many samples."""
    key = key, allowed_threads(), min(n, MOST)
    if key not in _SPEEDS:
        if len(_SPEEDS) >= KEPT_SPEEDS:
            _SPEEDS.clear()
        compute(1)  # which starts threads and compiles
        _SPEEDS[key] = _try(compute, n, device)
    return _SPEEDS[key]


def _try(compute: Callable[[int], int], n: int, device: torch.device) -> float:
    """Return the seconds of each, from as many samples as take long enough."""
    m = min(n, FIRST)
    while True:
        seconds, count = _timed(compute, m, device)
        if seconds >= ENOUGH or m >= min(n, MOST):
            if seconds < LATE * ENOUGH:  # busy cores may have been late
                seconds = min(seconds, _timed(compute, m, device)[0])
            return seconds / count
        m = min(n, MOST, max(2 * m, math.ceil(m * ENOUGH / max(seconds, TINY))))


def _timed(
    compute: Callable[[int], int], m: int, device: torch.device
) -> tuple[float, int]:
    """Return the seconds of a computation for so many samples, and what it counts."""
    start = _now(device)
    count = compute(m)
    return _now(device) - start, count


def _now(device: torch.device) -> float:
    """Return a time when all is done: the thread's, if nothing else computes."""
    wait_for(device)
    is_alone = device.type == "cpu" and allowed_threads() == 1
    return time.thread_time() if is_alone else time.perf_counter()


def spread(n: int, m: int) -> NDArray[np.intp]:
    """Return so many of n indices, at most all."""
    return np.linspace(0, n - 1, min(m, n)).astype(np.intp)
