"""Samples given by their features, sums over them, and a reservoir of them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Generic, Self, TypeVar

import torch
from torch import Generator, Tensor

from skconvgp._tensors import uniforms
from skconvgp._typing import FloatArray
from skconvgp.engine import to_numpy, to_tensor
from skconvgp.inference import (
    FeaturePosterior,
    FeatureSums,
    LabelCode,
    Sites,
    feature_leave_one_out,
    leave_one_unit_out,
    sum_features,
)
from skconvgp.processes._problem import Problem

# Samples whose features are kept. Their leave-one-out predictions are computed anew
# after more samples have been added; those of all samples would need all features.
RESERVOIR = 500

Rows = TypeVar("Rows", bound="FeatureRows")


@dataclass(frozen=True)
class FeatureRows:
    """Samples given by features.

    Parameters
    ----------
    features : Tensor of shape (n, r)
        F, for a mean prior variance of 1.
    residual_diag : Tensor of shape (n,)
        Prior variances minus the diagonal of F F^T.
    """

    features: Tensor
    residual_diag: Tensor

    def take(self, indices: Any) -> Self:
        """Return the samples at these indices."""
        return type(self)(*(getattr(self, one.name)[indices] for one in fields(self)))

    def join(self, other: Self) -> Self:
        """Return the samples of both."""
        names = [one.name for one in fields(self)]
        pairs = ([getattr(self, name), getattr(other, name)] for name in names)
        return type(self)(*map(torch.cat, pairs))


@dataclass(frozen=True)
class FeatureSamples(FeatureRows):
    """Samples given by features, with all that sums and leave-one-out values need.

    Parameters
    ----------
    features, residual_diag : Tensor
        As in `FeatureRows`.
    targets : Tensor of shape (n, k)
        Scaled targets.
    weights : Tensor of shape (n,)
        Sample weights.
    whole_targets : Tensor of shape (n, k)
        Weighted mean target of all samples that have the same input.
    totals, staying : Tensor of shape (n,)
        Their total weight, and the part of it that stays if the sample is left out.
    """

    targets: Tensor
    weights: Tensor
    whole_targets: Tensor
    totals: Tensor
    staying: Tensor

    @classmethod
    def of(
        cls,
        features: Tensor,
        problem: Problem,
        residual_diag: Tensor,
        indices: Tensor | None = None,
    ) -> Self:
        """Return samples of a problem, given their features.

        Parameters
        ----------
        features : Tensor of shape (m, r)
            F, for a mean prior variance of 1.
        problem : Problem
            The problem.
        residual_diag : Tensor of shape (m,)
            Prior variances minus the diagonal of F F^T.
        indices : Tensor of shape (m,), optional
            Which samples; by default all.
        """
        targets = to_tensor(problem.targets, residual_diag.device, residual_diag.dtype)
        weights = to_tensor(problem.weights, residual_diag.device, residual_diag.dtype)
        inputs = problem.inputs.to(residual_diag.device)
        whole = inputs.merge(targets, weights)
        which = slice(None) if indices is None else indices
        return cls(
            features,
            residual_diag,
            targets[which],
            weights[which],
            whole.targets[inputs.of][which],
            whole.weights[inputs.of][which],
            inputs.staying(weights)[which],
        )


@dataclass(frozen=True)
class FeatureSites(FeatureRows):
    """Samples given by features, with the parts of the posterior that leave with each.

    Parameters
    ----------
    features, residual_diag : Tensor
        As in `FeatureRows`.
    precision, shift : Tensor of shape (n, k)
        As in `Sites`.
    """

    precision: Tensor
    shift: Tensor

    @classmethod
    def of(
        cls, features: Tensor, residual_diag: Tensor, problem: Problem, code: LabelCode
    ) -> Self:
        """Return samples of a problem, given their features and a code of labels."""
        device, dtype = code.noise.device, code.noise.dtype
        weights = to_tensor(problem.weights, device, dtype)
        codes, inputs = (
            to_tensor(problem.class_codes, device),
            problem.inputs.to(device),
        )
        noise = code.noise[codes] / weights[:, None]
        sites = Sites.of(code.values[codes], noise, weights, inputs)
        return cls(features, residual_diag, sites.precision, sites.shift)

    @property
    def sites(self) -> Sites:
        """Parts of the posterior that leave with each sample."""
        return Sites(self.precision, self.shift)


@dataclass(frozen=True)
class Reservoir(Generic[Rows]):
    """A random subset of all samples so far, of a bounded size.

    Each sample gets a random key, and those with the smallest keys are kept: then a
    subset of two parts follows from subsets of each.

    Parameters
    ----------
    indices : Tensor of shape (r,)
        Indices of the kept samples, in increasing order.
    keys : Tensor of shape (r,)
        Their keys.
    data : FeatureSamples or FeatureSites
        The kept samples.
    """

    indices: Tensor
    keys: Tensor
    data: Rows

    @classmethod
    def of(cls, data: Rows, n_before: int, generator: Generator) -> Self:
        """Draw a reservoir from samples that follow `n_before` earlier ones."""
        # The keys of earlier samples are drawn again: then a seed gives each sample the
        # same key, however samples are cut into batches.
        n, device = n_before + len(data.features), data.features.device
        keys = uniforms((n,), generator, torch.float32)[n_before:]
        indices = torch.arange(n_before, n, dtype=torch.int64, device="cpu")
        return cls(indices.to(device), keys.to(device), data)._smallest()

    def __add__(self, other: Self) -> Self:
        """Return the reservoir of the samples of both."""
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


def _unit_noise(data: FeatureSamples, noise: float, variance: str) -> Tensor:
    """Return the noise variance (n,) of a single observation of each sample."""
    # FITC counts the variance that features do not explain as noise.
    added = data.residual_diag
    return (added if variance == "fitc" else torch.zeros_like(added)) + noise


def sums_of(data: FeatureSamples, noise: float, variance: str) -> FeatureSums:
    """Return the sums of the samples over their features."""
    unit = _unit_noise(data, noise, variance)
    return sum_features(data.features, data.targets, unit, data.weights)


def left_out_values(
    data: FeatureSamples, posterior: FeaturePosterior, noise: float, variance: str
) -> tuple[FloatArray, FloatArray]:
    """Return leave-one-out means (n, k) and variances (n,) of the samples."""
    unit = _unit_noise(data, noise, variance)
    whole, totals = data.whole_targets, data.totals
    loo = feature_leave_one_out(data.features, whole, unit, totals, posterior)
    loo = leave_one_unit_out(loo, data.targets, whole, unit, totals, data.staying)
    residual_diag = data.residual_diag if variance == "dtc" else 0.0
    return to_numpy(loo.mean), to_numpy(loo.var + residual_diag)


def jitter_of(posterior: FeaturePosterior, noise: float) -> float:
    """Return the noise that has the effect of the jitter j of the precision.

    Coefficients then have a prior precision of 1 + j instead of 1, which multiplies the
    noise by 1 + j.
    """
    return posterior.jitter * noise
