"""Stochastic gradient Hamiltonian Monte Carlo, all chains at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from skconvgp._tensors import normals
from skconvgp.networks._batched import FlatParameters, Parameters
from skconvgp.networks._potentials import Potential
from skconvgp.networks._training import (
    Epoch,
    Schedule,
    Trained,
    are_sound,
    finite_mean,
    flat_gradient,
)

__all__ = ["Sampling", "sample_chains"]

# Traces for the comparison of chains: inputs that are traced, and how often between two
# draws that are kept.
MOST_TRACED, TRACED_BETWEEN = 50, 20
SMALLEST_MASS = 1e-8


@dataclass(frozen=True)
class Sampling:
    """Settings of the chains."""

    n_chains: int
    n_kept: int  # number of draws that are kept of each chain
    burn_in: int  # steps before the first draw, in which masses adapt
    thin: int  # steps from one kept draw to the next
    step_size: float
    batch_size: int | None = None  # samples of a step; None is all
    friction: float = 0.05  # share of the momentum that a step loses

    @property
    def n_steps(self) -> int:
        """Number of steps of each chain."""
        return self.burn_in + self.n_kept * self.thin


class _Masses:
    """Moments of gradients, with a memory that follows from them.

    Springenberg, Klein, Falkner and Hutter, "Bayesian optimization with robust Bayesian
    neural networks", 2016, section 4.2.
    """

    def __init__(self, like: Tensor) -> None:
        self._memory, self._mean = torch.ones_like(like), torch.zeros_like(like)
        self._square = torch.ones_like(like)
        self.inverse = torch.ones_like(like)

    def adapt(self, gradient: Tensor) -> None:
        """Take account of a gradient."""
        share = 1.0 / (self._memory + 1.0)
        ratio = self._mean.square() / self._square
        self._memory = 1.0 + self._memory * (1.0 - ratio)
        self._mean.lerp_(gradient, share)
        self._square.lerp_(gradient.square(), share)
        self.inverse = (self._square.sqrt() + SMALLEST_MASS).reciprocal()


def sample_chains(
    potential: Potential,
    start: Parameters,
    sampling: Sampling,
    generator: Generator,
    watch: Callable[[Epoch], bool],
) -> Trained:
    r"""Draw from the density :math:`e^{-U}` of each chain.

    With step :math:`\eta`, friction :math:`\mu` and mass :math:`M`, a step is
    :math:`v \leftarrow (1 - \mu) v - \eta^2 M^{-1} \nabla U + \xi`,
    :math:`w \leftarrow w + v`, where :math:`\xi` has the variance
    :math:`\eta^2 \mu (2 - \mu) M^{-1}`, with which a momentum without force is
    stationary. Nothing is subtracted for the noise of gradients from batches: batches
    of an epoch are disjoint and equally large, so that their errors cancel.

    The start has the parameters of each chain, and is not changed. `watch` is called
    after each step, and returns whether to stop. The result has the kept draws, one
    chain after the other, and traces of outputs. A chain has diverged if a number is
    not finite, or if its potential is far above that of its start.
    """
    flat = FlatParameters(start)
    momentum, masses = torch.zeros_like(flat.values), _Masses(flat.values)
    schedule = Schedule(1, sampling.step_size, sampling.batch_size)
    batches = _endless(schedule, potential.n_rows, generator)
    n_at_once = sampling.batch_size or potential.n_rows
    losses: list[float] = []
    kept: list[Tensor] = []
    levels: list[Tensor] = []  # potentials at the start, and when a draw is kept
    trace: list[Tensor] = []
    traced_every = max(1, sampling.thin // TRACED_BETWEEN)
    is_stopped = False
    for index in range(sampling.n_steps):
        rows, is_first = next(batches)
        if is_first:  # a Gibbs step between those of an epoch
            potential.renew(flat.split(flat.values), n_at_once, generator)
        values, gradient = flat_gradient(potential, flat, rows)
        losses.append(finite_mean(values))
        if index == 0:
            levels.append(values)
        if index < sampling.burn_in:
            masses.adapt(gradient)
        _move_(flat.values, momentum, gradient, masses.inverse, sampling, generator)
        since = index + 1 - sampling.burn_in
        if since > 0 and since % sampling.thin == 0:
            kept.append(flat.values.clone())
            levels.append(values)
        if since > 0 and since % traced_every == 0:
            trace.append(_outputs(potential, flat))
        is_stopped = watch(Epoch(index, sampling.n_steps, losses[-1]))
        if is_stopped:
            break
    if not kept:
        kept, trace = [flat.values.clone()], [_outputs(potential, flat)]
    draws = torch.stack(kept, dim=1)  # (n_chains, n_kept, p)
    is_finite = draws.isfinite().all(2).all(1) & are_sound(
        torch.stack([*levels, values]), draws.shape[2]
    )
    return Trained(
        flat.split(draws.flatten(0, 1)),
        losses,
        is_finite.repeat_interleave(draws.shape[1]),
        is_stopped,
        torch.stack(trace, dim=1)[is_finite],
    )


def _endless(
    schedule: Schedule, n_rows: int, generator: Generator
) -> Iterator[tuple[Tensor | None, bool]]:
    """Yield the inputs of one step after another, and whether an epoch begins."""
    while True:
        for i, rows in enumerate(schedule.batches(n_rows, generator)):
            yield rows, i == 0


def _move_(
    values: Tensor,
    momentum: Tensor,
    gradient: Tensor,
    inverse_mass: Tensor,
    sampling: Sampling,
    generator: Generator,
) -> None:
    """Make a step in place."""
    friction, square = sampling.friction, sampling.step_size**2
    variance = square * friction * (2.0 - friction) * inverse_mass
    normal = normals(values.shape, generator, values.dtype)
    noise = normal.to(values.device) * variance.sqrt()
    momentum.mul_(1.0 - friction).sub_(square * inverse_mass * gradient).add_(noise)
    values.add_(momentum)


def _outputs(potential: Potential, flat: FlatParameters) -> Tensor:
    """Return the outputs (n_chains, m, n_outputs) at the inputs that are traced."""
    with torch.no_grad():
        inputs = potential.inputs[: min(MOST_TRACED, potential.n_samples)]
        return potential.network.outputs(flat.split(flat.values), inputs)
