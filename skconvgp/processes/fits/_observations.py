"""Observations of latent functions, for variational inference."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, Self

import torch
from torch import Tensor

from skconvgp._protocols import ExpectedSites, VariationalLikelihood
from skconvgp.engine import rows_to_tensor
from skconvgp.inference import gaussian_sites
from skconvgp.likelihoods import Gaussian
from skconvgp.processes._grown import kept_before
from skconvgp.processes._problem import Problem
from skconvgp.processes._process import Process

LEAST_CURVATURE = 1e-3  # of a softmax, if label regression is sure of all labels


@dataclass(frozen=True)
class Start:
    """Where a fit starts, by the collapsed process."""

    amplitude: Tensor  # (k,), prior variances of the latent functions, which stay
    coefficients: Tensor  # (r, k), means of the coefficients of whitened features
    curvature: float  # of a sample, for latent functions of prior variance 1
    # Noise variance of the latent functions, as a share of the prior variance.
    noise: float


class Observations(Protocol):
    """Observations of the latent functions of the training samples."""

    @property
    def start(self) -> Start:
        """Where a fit starts."""
        ...

    def at(self, amplitude: Tensor, noise: float) -> Self:
        """Return the same with prior variances (k,), and a noise as a share of them."""
        ...

    def sites(self, mean: Tensor, var: Tensor, indices: Tensor) -> ExpectedSites:
        """Return the expected sites of samples at these indices."""
        ...


@dataclass(frozen=True)
class TargetObservations:
    """Targets (n, k) with Gaussian noise."""

    start: Start
    targets: Tensor

    def at(self, amplitude: Tensor, noise: float) -> Self:
        """Return the same with prior variances (k,), and a noise as a share of them."""
        start = replace(self.start, amplitude=amplitude, noise=noise)
        return replace(self, start=start)

    def sites(self, mean: Tensor, var: Tensor, indices: Tensor) -> ExpectedSites:
        """Return the expected log densities of targets, and their derivatives."""
        noise = self.start.noise * self.start.amplitude
        targets = self.targets[indices].to(mean)
        return gaussian_sites(mean, var, targets, noise.to(mean))


@dataclass(frozen=True)
class LabelObservations:
    """Class codes (n,)."""

    start: Start
    likelihood: VariationalLikelihood
    codes: Tensor

    def at(self, amplitude: Tensor, noise: float) -> Self:  # noqa: ARG002  (of labels)
        """Return the same with prior variances (k,); labels have no noise."""
        return replace(self, start=replace(self.start, amplitude=amplitude))

    def sites(self, mean: Tensor, var: Tensor, indices: Tensor) -> ExpectedSites:
        """Return the expected log likelihoods of labels, and their derivatives."""
        codes = self.codes[indices].to(mean.device)
        return self.likelihood.expected_sites(mean, var, codes)


def observe_targets(problem: Problem, collapsed: Process) -> TargetObservations:
    """Return targets with the noise of the collapsed process, whose posterior is it."""
    amplitude = rows_to_tensor(collapsed.model.amplitude)
    coefficients = rows_to_tensor(collapsed.dual) / amplitude.sqrt()
    noise = collapsed.model.noise
    start = Start(amplitude, coefficients, 1.0 / noise, noise)
    return TargetObservations(start, rows_to_tensor(problem.targets))


def observe_labels(
    likelihood: VariationalLikelihood,
    problem: Problem,
    collapsed: Process,
    *,
    is_profiled: bool,
) -> LabelObservations:
    """Return labels; the start is label regression on the scale of a softmax.

    Parameters
    ----------
    likelihood : VariationalLikelihood
        Likelihood of the labels.
    problem : Problem
        Has the labels.
    collapsed : Process
        Label regression.
    is_profiled : bool
        Whether the amplitude follows from label regression, too.
    """
    subset = kept_before(collapsed).subset
    assert subset is not None
    codes = rows_to_tensor(problem.class_codes)
    indices, mean, _ = subset
    of_some = codes[torch.from_numpy(indices)]
    weights = rows_to_tensor(problem.weights[indices])
    scores = rows_to_tensor(mean).to(torch.float64)
    temperature = Gaussian().calibrate(scores, None, of_some, weights).temperature
    amplitude = rows_to_tensor(collapsed.model.amplitude)
    dual = rows_to_tensor(collapsed.dual).to(torch.float64) / temperature
    if is_profiled:
        amplitude = amplitude / temperature**2
    n_classes = dual.shape[1]
    if likelihood.n_latents(n_classes) < n_classes:  # one function, a difference
        dual, amplitude = dual[:, 1:] - dual[:, :1], amplitude[1:]
        amplitude = 4.0 * amplitude if is_profiled else amplitude
    probs = torch.softmax(scores / temperature, dim=1)
    curvatures = (probs * (1.0 - probs)).mean(1)
    curvature = float(weights.to(curvatures) @ curvatures / weights.sum())
    curvature = max(curvature, LEAST_CURVATURE) * float(amplitude[0])
    start = Start(amplitude, dual / amplitude.sqrt(), curvature, 0.0)
    return LabelObservations(start, likelihood, codes)
