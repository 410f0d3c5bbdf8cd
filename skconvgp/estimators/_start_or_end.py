"""Whether a learned kernel predicts left-out samples better than that at the start."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from skconvgp.completion import SubsetOfData
from skconvgp.flows import FlowResult
from skconvgp.flows._landscape import NOISE_LABEL
from skconvgp.processes import Parts
from skconvgp.solvers import Cholesky

# Samples that are left out, one at a time. Two fits to so many take less time than a
# search of usual length on batches of usual size.
MOST_LEFT_OUT = 2000
KEPT = "the start is kept, which predicts left-out samples better"


def judging_parts(parts: Parts, n: int) -> Parts:
    """Return the parts of the processes that are compared, given n samples.

    A random subset stands for more than `MOST_LEFT_OUT` of them.
    """
    parts = replace(parts, keeps_left_out=True)
    is_whole = n <= MOST_LEFT_OUT
    if is_whole and parts.completion is not None:
        return parts
    completion = None if is_whole else SubsetOfData(MOST_LEFT_OUT)
    return replace(
        parts, solver=Cholesky(), solver_setting="auto", completion=completion
    )


def is_start_better(start: float, end: float) -> bool:
    """Say whether the start has the larger density; NaN is less than any."""
    return start > end or (math.isnan(end) and not math.isnan(start))


def at_start(result: FlowResult, noise: float) -> FlowResult:
    """Return the result of a search whose start is kept, with the noise of its process.

    The objective is that of the start and its first noise.
    """
    theta = result.start_theta.copy()
    if NOISE_LABEL in result.labels:
        theta[result.labels.index(NOISE_LABEL)] = np.log(noise)
    message = f"{result.message}; {KEPT}"
    return replace(result, theta=theta, rho=result.start_rho, message=message)
