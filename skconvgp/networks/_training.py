"""Training of all draws at once, by Adam with a rate that falls as a cosine."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Generator, Tensor

from skconvgp._tensors import normals, nothing, permutation
from skconvgp._threads import threads_for
from skconvgp.networks._batched import BatchedNetwork, FlatParameters, Parameters
from skconvgp.networks._potentials import DataTerm

__all__ = [
    "Epoch",
    "Schedule",
    "Trained",
    "TrainingLoss",
    "Validation",
    "ValidationLoss",
    "are_sound",
    "finite_mean",
    "flat_gradient",
    "initial_parameters",
    "train",
]

# Settings of Adam, as its authors recommend.
MEAN_DECAY, SQUARE_DECAY, SMALLEST_SCALE = 0.9, 0.999, 1e-8
ADAM_BLOCK = 2**17  # numbers of a step that are changed together on a processor
# A potential that is as many times larger than that of the start and the number of
# parameters together has diverged: see `are_sound`.
LARGEST_GROWTH = 10.0


@dataclass(frozen=True)
class Schedule:
    """How to train."""

    max_iter: int  # most epochs
    learning_rate: float  # of the first step
    batch_size: int | None = None  # samples of a step; None is all of them
    look_every: int = 10  # epochs from one look at validation samples to the next
    patience: int = 10  # looks without a better one after which training stops

    def batches(self, n_rows: int, generator: Generator) -> Iterator[Tensor | None]:
        """Yield the indices of the inputs of each step of an epoch; None is all.

        Batches have at most `batch_size` inputs and differ by one input at most: the
        inputs of a small rest would count much more than the others.
        """
        if self.batch_size is None or self.batch_size >= n_rows:
            yield None
        else:
            order = permutation(n_rows, generator)
            yield from torch.tensor_split(order, -(-n_rows // self.batch_size))

    def rate(self, share: float) -> float:
        """Return the rate after a share of all epochs."""
        return 0.5 * self.learning_rate * (1.0 + math.cos(math.pi * share))


class TrainingLoss(Protocol):
    """Loss of a training: a number for each draw."""

    @property
    def n_rows(self) -> int:
        """Number of samples and other inputs, which batches are drawn from."""
        ...

    def __call__(self, parameters: Parameters, /) -> Tensor:
        """Return the values (k,) on all samples."""
        ...

    def on_batch(self, parameters: Parameters, rows: Tensor, /) -> Tensor:
        """Return estimates (k,) of these values from some of the samples."""
        ...


class ValidationLoss(Protocol):
    """Held-out loss for early stopping."""

    def losses(self, parameters: Parameters, /) -> Tensor:
        """Return the loss (k,) of each draw on samples that training does not see."""
        ...


@dataclass(frozen=True)
class Validation:
    """Held-out samples, whose loss stops a training early."""

    network: BatchedNetwork
    inputs: Tensor  # samples (n, ...)
    data: DataTerm  # their likelihood
    n_rows: int  # samples whose outputs are computed at once

    def losses(self, parameters: Parameters) -> Tensor:
        """Return the loss (k,) of each draw."""
        starts = range(0, len(self.inputs), self.n_rows)
        parts = [slice(start, start + self.n_rows) for start in starts]
        losses = [
            self.data(self.network.outputs(parameters, self.inputs[part]), part)
            for part in parts
        ]
        return torch.stack(losses).sum(0)


@dataclass(frozen=True)
class Epoch:
    """State of a training after an epoch."""

    index: int
    total: int  # the most epochs that there may be
    loss: float  # mean potential of the draws that have not diverged


@dataclass(frozen=True)
class Trained:
    """Result of a training."""

    parameters: Parameters  # of all draws, those that diverged included
    # Mean potential in each epoch of the draws that had not diverged.
    losses: list[float]
    is_finite: Tensor  # (k,), whether a draw has not diverged
    is_stopped: bool  # whether training ended before the last epoch
    # Outputs (n_chains, n_traced, m, n_outputs) of Markov chains at some inputs, as
    # they went.
    trace: Tensor | None = None


class _Adam:
    """Adam (Kingma and Ba 2015, algorithm 1), which changes values in place.

    That of torch loads a compiler, which takes seconds. Blocks of the numbers are
    changed one after the other, so that they stay in the cache of a processor.
    """

    def __init__(self, values: Tensor) -> None:
        size = ADAM_BLOCK if values.device.type == "cpu" else values.numel()
        zeros = torch.zeros_like(values), torch.zeros_like(values)
        blocks = [torch.split(one.view(-1), size) for one in (values, *zeros)]
        self._blocks = list(zip(*blocks, strict=True))
        self._size, self._n_steps = size, 0

    def step_(self, gradient: Tensor, rate: float) -> None:
        """Make a step."""
        self._n_steps += 1
        mean_share = 1.0 - MEAN_DECAY**self._n_steps
        square_share = 1.0 - SQUARE_DECAY**self._n_steps
        length = min(rate / mean_share, torch.finfo(gradient.dtype).max)
        parts = torch.split(gradient.reshape(-1), self._size)
        for (values, mean, square), part in zip(self._blocks, parts, strict=True):
            mean.lerp_(part, 1.0 - MEAN_DECAY)
            square.lerp_(part.square(), 1.0 - SQUARE_DECAY)
            scale = (square / square_share).sqrt_().add_(SMALLEST_SCALE)
            values.addcdiv_(mean, scale, value=-length)


class _Best:
    """Keeps the parameters of each draw for which the validation loss was lowest."""

    def __init__(self, validation: ValidationLoss, patience: int) -> None:
        self._validation, self._patience = validation, patience
        self.parameters: Parameters = {}
        self._lowest = nothing(0)
        self._n_idle = 0

    def look(self, parameters: Parameters) -> bool:
        """Keep better parameters; return whether none was better for long."""
        with torch.no_grad():
            losses = self._validation.losses(parameters)
            if not self.parameters:
                self._lowest = torch.full_like(losses, math.inf)
                self.parameters = {
                    name: values.clone() for name, values in parameters.items()
                }
            is_better = losses < self._lowest
            self._lowest = torch.where(is_better, losses, self._lowest)
            for name, kept in self.parameters.items():
                kept[is_better] = parameters[name][is_better]
        self._n_idle = 0 if bool(is_better.any()) else self._n_idle + 1
        return self._n_idle >= self._patience


def initial_parameters(
    network: BatchedNetwork, n_draws: int, generator: Generator, like: Tensor
) -> Parameters:
    """Return draws of the prior, with the device and precision of `like`."""
    return {
        name: normals((n_draws, *shape), generator).to(like)
        for name, shape in network.shapes.items()
    }


def train(
    potential: TrainingLoss,
    start: Parameters,
    schedule: Schedule,
    generator: Generator,
    watch: Callable[[Epoch], bool],
    validation: ValidationLoss | None = None,
    renew: Callable[[Parameters], None] | None = None,
) -> Trained:
    """Minimise the potential of each draw.

    Draws do not influence each other: neither by the sum of their potentials nor by
    Adam, which scales each number by itself. A draw that diverges is therefore left as
    it is, and reported.

    The start has the parameters of each draw, and is not changed. The generator draws
    the batches. `watch` is called after each epoch, and returns whether to stop. With a
    validation each draw keeps the parameters that were best on its samples, and
    training stops when no draw becomes better. `renew` is called with the parameters
    before each epoch, for a potential that changes.
    """
    flat = FlatParameters(start)
    parameters, descent = flat.split(flat.values), _Adam(flat.values)
    best = None if validation is None else _Best(validation, schedule.patience)
    losses: list[float] = []
    is_stopped, values = False, flat.values.new_zeros(len(flat.values))
    first = values
    for index in range(schedule.max_iter):
        rate = schedule.rate(index / schedule.max_iter)
        if renew is not None:
            renew(parameters)
        sums = [
            _step(potential, flat, descent, rate, rows)
            for rows in schedule.batches(potential.n_rows, generator)
        ]
        values = torch.stack(sums).mean(0)
        first = sums[0] if index == 0 else first
        losses.append(finite_mean(values))
        is_stopped = watch(Epoch(index, schedule.max_iter, losses[-1]))
        if best is not None and index % schedule.look_every == 0:
            is_stopped = best.look(parameters) or is_stopped
        if is_stopped or not math.isfinite(losses[-1]):
            break
    if best is not None:
        best.look(parameters)
        parameters = best.parameters
    # The best parameters of a draw may be those from before it diverged.
    is_finite = values.isfinite() & flat.values.isfinite().all(1)
    last = _values(potential, parameters, schedule)
    is_finite &= are_sound(torch.stack([first, last]), flat.values.shape[1])
    return Trained(parameters, losses, is_finite, is_stopped)


def are_sound(levels: Tensor, n_parameters: int) -> Tensor:
    """Return which draws (k,) have potentials that draws can have.

    A potential of a posterior has its minimum plus about half the number of parameters,
    and the minimum is below that of the start. Far above both, a chain or a training
    has left the posterior, and is on its way to infinity.

    The potentials (1 + n, k), at the start and later, are >= 0. A draw has
    `n_parameters`.
    """
    largest = LARGEST_GROWTH * (levels[0] + n_parameters)
    return (levels[1:] <= largest).all(0)


def _values(
    potential: TrainingLoss, parameters: Parameters, schedule: Schedule
) -> Tensor:
    """Return the potentials (k,), in as much memory as a step takes."""
    any_like = next(iter(parameters.values()))
    batches = schedule.batches(potential.n_rows, torch.Generator())
    with torch.no_grad():
        values = [
            potential(parameters)
            if rows is None
            else potential.on_batch(parameters, rows.to(any_like.device))
            for rows in batches
        ]
    return torch.stack(values).mean(0)


def _step(
    potential: TrainingLoss,
    flat: FlatParameters,
    descent: _Adam,
    rate: float,
    rows: Tensor | None,
) -> Tensor:
    """Make a step of all draws; return their potentials (k,) before it."""
    values, gradient = flat_gradient(potential, flat, rows)
    descent.step_(gradient, rate)
    return values


def flat_gradient(
    potential: TrainingLoss, flat: FlatParameters, rows: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the potentials (k,) of all draws, and their gradients (k, p).

    `rows` holds the indices of the samples that estimate them; None is all.
    """
    leaf = flat.values.detach().requires_grad_()
    parameters = flat.split(leaf)
    n_rows = potential.n_rows if rows is None else len(rows)
    with threads_for(3.0 * leaf.numel() * n_rows):  # forward, and twice backward
        if rows is None:
            values = potential(parameters)
        else:
            values = potential.on_batch(parameters, rows.to(leaf.device))
        (gradient,) = torch.autograd.grad(values.sum(), leaf)
    return values.detach(), gradient


def finite_mean(values: Tensor) -> float:
    """Return the mean of the finite values; NaN if there are none."""
    return float(values[values.isfinite()].mean())
