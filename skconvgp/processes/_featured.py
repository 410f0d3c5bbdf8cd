"""Samples given by features, sums over them, and random subsets of them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Self

import torch
from torch import Generator, Tensor

from skconvgp._typing import FloatArray
from skconvgp.engine import to_numpy, to_tensor
from skconvgp.inference import (
    FeaturePosterior,
    FeatureSums,
    feature_leave_one_out,
    leave_one_unit_out,
    sum_features,
)
from skconvgp.processes._problem import Problem

__all__ = ["Featured", "Reservoir", "add_up", "jitter_of", "left_out"]

# Samples whose features are kept, for leave-one-out values after more have come.
RESERVOIR = 500


@dataclass(frozen=True)
class Featured:
    """Samples as a process of features sees them.

    Parameters
    ----------
    features : Tensor of shape (n, r)
        F, for a mean prior variance of 1.
    targets : Tensor of shape (n, k)
        Scaled targets.
    weights : Tensor of shape (n,)
        Sample weights.
    whole_targets : Tensor of shape (n, k)
        Mean target of all samples with the input of each.
    totals, staying : Tensor of shape (n,)
        Total weight of these samples, and the part of it that stays without the sample.
    rest : Tensor of shape (n,)
        Prior variances minus the diagonal of F F^T.
    """

    features: Tensor
    targets: Tensor
    weights: Tensor
    whole_targets: Tensor
    totals: Tensor
    staying: Tensor
    rest: Tensor

    @classmethod
    def of(
        cls,
        features: Tensor,
        problem: Problem,
        rest: Tensor,
        indices: Tensor | None = None,
    ) -> Self:
        """Return samples of a problem by their features (m, r) and rests (m,).

        Parameters
        ----------
        features : Tensor of shape (m, r)
            F, for a mean prior variance of 1.
        problem : Problem
            The problem.
        rest : Tensor of shape (m,)
            Prior variances minus the diagonal of F F^T.
        indices : Tensor of shape (m,), optional
            Which samples; by default all.
        """
        targets = to_tensor(problem.targets, rest.device, rest.dtype)
        weights = to_tensor(problem.weights, rest.device, rest.dtype)
        inputs = problem.inputs.to(rest.device)
        whole = inputs.merge(targets, weights)
        which = slice(None) if indices is None else indices
        return cls(
            features,
            targets[which],
            weights[which],
            whole.targets[inputs.of][which],
            whole.weights[inputs.of][which],
            inputs.staying(weights)[which],
            rest,
        )

    def take(self, some: Any) -> Self:
        """Return the samples at these indices."""
        return type(self)(*(getattr(self, one.name)[some] for one in fields(self)))

    def join(self, other: Self) -> Self:
        """Return the samples of both."""
        names = [one.name for one in fields(self)]
        pairs = ([getattr(self, name), getattr(other, name)] for name in names)
        return type(self)(*map(torch.cat, pairs))


@dataclass(frozen=True)
class Reservoir:
    """Some of all samples so far, drawn at random.

    Parameters
    ----------
    indices : Tensor of shape (r,)
        Their indices, in increasing order.
    keys : Tensor of shape (r,)
        Random keys of the samples, the smallest of all.
    data : Featured
        The samples.
    """

    indices: Tensor
    keys: Tensor
    data: Featured

    @classmethod
    def of(cls, data: Featured, n_before: int, generator: Generator) -> Self:
        """Return some of the samples that came after so many."""
        n, device = n_before + len(data.targets), data.targets.device
        keys = torch.rand(n, generator=generator)[n_before:]
        indices = torch.arange(n_before, n)
        return cls(indices.to(device), keys.to(device), data)._smallest()

    def __add__(self, other: Self) -> Self:
        """Return those of the smallest keys in both."""
        both = replace(
            self,
            indices=torch.cat([self.indices, other.indices]),
            keys=torch.cat([self.keys, other.keys]),
            data=self.data.join(other.data),
        )
        return both._smallest()

    def _smallest(self) -> Self:
        kept = self.keys.argsort()[:RESERVOIR].sort().values
        return replace(
            self,
            indices=self.indices[kept],
            keys=self.keys[kept],
            data=self.data.take(kept),
        )


def _unit_noise(data: Featured, noise: float, variance: str) -> Tensor:
    """Return the noise variance (n,) of a single observation of each sample."""
    counted = data.rest if variance == "fitc" else torch.zeros_like(data.rest)
    return counted + noise


def add_up(data: Featured, noise: float, variance: str) -> FeatureSums:
    unit = _unit_noise(data, noise, variance)
    return sum_features(data.features, data.targets, unit, data.weights)


def left_out(
    data: Featured, posterior: FeaturePosterior, noise: float, variance: str
) -> tuple[FloatArray, FloatArray]:
    """Return leave-one-out means (n, k) and variances (n,) of the samples."""
    unit = _unit_noise(data, noise, variance)
    whole, totals = data.whole_targets, data.totals
    loo = feature_leave_one_out(data.features, whole, unit, totals, posterior)
    loo = leave_one_unit_out(loo, data.targets, whole, unit, totals, data.staying)
    rest = data.rest if variance == "dtc" else 0.0
    return to_numpy(loo.mean), to_numpy(loo.var + rest)


def jitter_of(posterior: FeaturePosterior, noise: float) -> float:
    """Return the noise that jitter of the precision amounts to.

    A precision of 1 + j of each coefficient, in the place of 1, makes of the noise
    1 + j times as much.
    """
    return posterior.jitter * noise
