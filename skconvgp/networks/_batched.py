"""Networks of which many draws are computed at once.

Parameters are standard normal under the prior, and are scaled where they are used: a
weight by the square root of ``weight_variance / fan_in``, a bias by that of
``bias_variance``. In the limit of wide layers the outputs are then draws of the
Gaussian process of the same layers in :mod:`skconvgp.kernels`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, TypeAlias

import torch
from torch import Tensor, nn

__all__ = [
    "ACTIVATIONS",
    "BatchedNetwork",
    "FlatParameters",
    "LayeredNetwork",
    "ModuleNetwork",
    "Parameters",
    "module_network",
]

# By name, the standardised parameters of all draws, each of shape (k, ...).
Parameters: TypeAlias = dict[str, Tensor]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "erf": torch.erf,
}
# Copies of the outputs in the terms of a potential, and of the largest maps of a
# module, which derivatives hold.
TERMS, COPIES = 8, 3


class FlatParameters:
    """Parameters of all draws in one tensor (k, p), of which the named ones are views.

    The given parameters are copied.
    """

    def __init__(self, parameters: Parameters) -> None:
        self._shapes = {name: one.shape[1:] for name, one in parameters.items()}
        self.values = torch.cat(
            [one.reshape(len(one), -1) for one in parameters.values()], dim=1
        )

    def split(self, values: Tensor) -> Parameters:
        """Return the views of values (k, p)."""
        sizes = [shape.numel() for shape in self._shapes.values()]
        parts = torch.split(values, sizes, dim=1)
        return {
            name: part.reshape(len(values), *shape)
            for (name, shape), part in zip(self._shapes.items(), parts, strict=True)
        }


class BatchedNetwork(Protocol):
    """A network whose parameters have a leading dimension of draws."""

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the parameters of one draw, by name."""
        ...

    @property
    def width(self) -> int:
        """Roughly the largest count of numbers held for a sample and a draw."""
        ...

    @property
    def n_held(self) -> int:
        """Count of numbers that derivatives hold for a sample and a draw, at most."""
        ...

    def outputs(self, parameters: Parameters, inputs: Tensor) -> Tensor:
        """Return the outputs (k, n, n_outputs) of all draws at inputs (n, ...)."""
        ...


@dataclass(frozen=True)
class LayeredNetwork:
    """Fully connected layers with an activation between them."""

    # Numbers of features, of units of each hidden layer, and of outputs.
    sizes: tuple[int, ...]
    activation: str  # a key of `ACTIVATIONS`
    # For each layer the prior variances of its weights, before the division by the
    # fan-in, and of its biases.
    variances: tuple[tuple[float, float], ...]

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the parameters of one draw, by name."""
        shapes: dict[str, tuple[int, ...]] = {}
        for i, (fan_in, fan_out) in enumerate(pairwise(self.sizes)):
            shapes[f"weight{i}"] = (fan_in, fan_out)
            shapes[f"bias{i}"] = (1, fan_out)
        return shapes

    @property
    def width(self) -> int:
        """The largest count of numbers held for a sample and a draw."""
        return max(self.sizes)

    @property
    def n_held(self) -> int:
        """Count of numbers that derivatives hold for a sample and a draw, at most."""
        # Each layer before and after its activation, and derivatives of the widest.
        return 2 * sum(self.sizes[1:-1]) + 3 * self.width + TERMS * self.sizes[-1]

    def outputs(self, parameters: Parameters, inputs: Tensor) -> Tensor:
        """Return the outputs (k, n, n_outputs) of all draws at inputs (n, d)."""
        activation = ACTIVATIONS[self.activation]
        n_draws = len(parameters["bias0"])
        maps = inputs.expand(n_draws, *inputs.shape)
        for i, (of_weights, of_biases) in enumerate(self.variances):
            alpha, beta = math.sqrt(of_weights / self.sizes[i]), math.sqrt(of_biases)
            weight, bias = parameters[f"weight{i}"], parameters[f"bias{i}"]
            maps = activation(maps) if i else maps
            maps = torch.baddbmm(bias, maps, weight, beta=beta, alpha=alpha)
        return maps


@dataclass(frozen=True)
class ModuleNetwork:
    """A module of torch, evaluated for all draws by :func:`torch.func.vmap`.

    A parameter of one dimension is a bias, and the fan-in of any other one is the
    product of its dimensions but the first, as torch's layers have it.
    """

    module: nn.Module  # its parameters are replaced by those of a draw
    # Prior variance of weights, before the division by the fan-in.
    weight_variance: float
    bias_variance: float  # prior variance of biases
    # The largest count of numbers that derivatives keep of a layer, for a sample and a
    # draw.
    width: int
    n_held: int  # about how many numbers derivatives hold for a sample and a draw

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the parameters of one draw, by name."""
        return {
            name: tuple(values.shape) for name, values in self.module.named_parameters()
        }

    def outputs(self, parameters: Parameters, inputs: Tensor) -> Tensor:
        """Return the outputs (k, n, n_outputs) of all draws at inputs (n, ...)."""
        scaled = {
            name: values * self._scale(tuple(values.shape[1:]))
            for name, values in parameters.items()
        }

        def one(values: Parameters) -> Tensor:
            outputs: Tensor = torch.func.functional_call(self.module, values, (inputs,))
            return outputs

        stacked: Tensor = torch.func.vmap(one)(scaled)
        return stacked

    def _scale(self, shape: tuple[int, ...]) -> float:
        if len(shape) < 2:
            return math.sqrt(self.bias_variance)
        return math.sqrt(self.weight_variance / math.prod(shape[1:]))


def module_network(
    module: nn.Module, sample: Tensor, weight_variance: float, bias_variance: float
) -> ModuleNetwork:
    """Return a module as a network, with the numbers that its derivatives hold.

    They are counted where the module is evaluated at the sample (1, ...).
    """
    parameters = {one.data_ptr() for one in module.parameters()}
    counts: list[int] = []

    def keep(kept: Tensor) -> Tensor:
        if kept.data_ptr() not in parameters:
            counts.append(kept.numel())
        return kept

    with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(keep, _same):
        n_outputs = module(sample).numel()
    width = max([*counts, sample.numel(), n_outputs])
    n_held = sum(counts) + COPIES * width + TERMS * n_outputs
    return ModuleNetwork(module, weight_variance, bias_variance, width, n_held)


def _same(kept: Tensor) -> Tensor:
    return kept
