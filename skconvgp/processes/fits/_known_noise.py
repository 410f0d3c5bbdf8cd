"""Amplitude of latent functions if the noise variances of targets are known."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from skconvgp._protocols import GramOperator, Solver
from skconvgp.engine import to_tensor
from skconvgp.exceptions import NotPSDError
from skconvgp.inference import (
    choose_amplitude,
    informative,
    log_marginal_likelihood,
)
from skconvgp.processes._problem import Problem

TOLERANCE = 1e-3  # of the logarithm of an amplitude


def shares_of(problem: Problem, like: Tensor) -> Tensor | None:
    """Return shares (n,) of samples in their mean noise; None for one noise of all."""
    shares = problem.noise_shares
    return None if shares is None else to_tensor(shares, like.device, like.dtype)


def profiled(
    targets: Tensor, weights: Tensor, evidence: Callable[[float], Tensor]
) -> Tensor:
    """Return the amplitudes (k,) with the largest evidence, the same for all outputs.

    The function returns the log evidence (k,) of an amplitude. Scaled targets are
    (n, k), sample weights (n,).
    """
    informs = informative(targets)
    squares = (weights @ targets.square())[informs].mean()
    size = float(squares / weights.sum())

    def total(share: float) -> float:
        try:
            return float(evidence(size * share)[informs].sum())
        except NotPSDError:  # there is less noise than rounding
            return -math.inf

    found = size * choose_amplitude(total, TOLERANCE)
    return torch.full_like(targets[0], found, dtype=torch.float64)


def profiled_by(
    solver: Solver[Any],
    gram: GramOperator,
    targets: Tensor,
    weights: Tensor,
    variances: Tensor,
) -> Tensor:
    """Return the amplitudes as `profiled`, by solutions with the whole matrix.

    The known noise variances are (n,).
    """

    def evidence(amplitude: float) -> Tensor:
        noise = variances / amplitude
        state = solver.init(gram, noise / weights)
        solved = solver.solve(state, targets).value
        quadratic = (targets * solved).sum(0)
        logdet = solver.logdet(state)
        every = torch.full_like(quadratic, amplitude)
        return log_marginal_likelihood(quadratic, logdet, every, noise, weights)

    return profiled(targets, weights, evidence)
