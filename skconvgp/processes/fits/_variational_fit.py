"""Fit of a variational process: natural gradients, from the collapsed solution on."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from skconvgp._protocols import ExpectedSites, VariationalLikelihood
from skconvgp._tensors import int_range, permutation
from skconvgp.engine import freeze, to_numpy, to_tensor
from skconvgp.inference import Coefficients, NaturalPosterior
from skconvgp.processes._facts import BoundMoving, Fact
from skconvgp.processes._model import Model
from skconvgp.processes._problem import Problem, Record
from skconvgp.processes._process import KeptLeftOut, Process
from skconvgp.processes._run import IMAGES, Run, Stage, clock
from skconvgp.processes.basis._patch_basis import PatchBasis
from skconvgp.processes.fits._observations import (
    Observations,
    Start,
    observe_labels,
    observe_targets,
)
from skconvgp.processes.posterior._coefficients import (
    CoefficientPosterior,
    CoefficientState,
    coefficients_of,
)

# First rates with many batches, and with one. A curvature is of one latent function
# while others stay; if they move, too, a whole step goes up to twice too far.
SLOWEST, ALONE = 0.1, 0.5
# Epochs in a row that hardly change the bound. One may be chance: bounds of batches are
# noisy, and a lower rate, which follows the first one, often finds more.
CALM_EPOCHS = 2
STEPPING = "variational steps"  # a stage
SQUARE_COPIES = 3  # r x r, beside a precision for each latent function


@dataclass(frozen=True)
class Steps:
    """How many steps are taken, and how long they are."""

    batch_size: int  # largest number of samples in a batch
    max_iter: int  # largest number of epochs
    # Rate of the first epoch; None follows the number of batches. It is halved after
    # each epoch that does not raise the bound by more than the tolerance.
    learning_rate: float | None
    tol: float  # change of the bound, for each unit of weight, that counts as none

    def n_batches(self, n_samples: int) -> int:
        """Return the number of batches of an epoch."""
        return -(-n_samples // self.batch_size)

    def first_rate(self, n_samples: int) -> float:
        """Return the rate of the first epoch."""
        if self.learning_rate is not None:
            return self.learning_rate
        return max(SLOWEST, ALONE / self.n_batches(n_samples))


@dataclass(frozen=True)
class LearnedPosterior:
    """A posterior that a search for the kernel has learned, and its scale."""

    amplitude: Tensor  # (k,), prior variances of latent functions where the kernel is 1
    posterior: NaturalPosterior


@dataclass(frozen=True)
class Variational:
    """Variational inference, which follows the fit of a collapsed process."""

    # Likelihood of labels; None for targets with Gaussian noise.
    likelihood: VariationalLikelihood | None
    steps: Steps
    n_latents: int
    is_profiled: bool  # whether the amplitude follows from the collapsed process
    learned: LearnedPosterior | None = None  # where steps begin, if it is known

    def stage(self, n_samples: int) -> Stage:
        """Return the stage of a fit, of which an epoch reads each image once."""
        return Stage(STEPPING, self.steps.max_iter * n_samples, IMAGES)

    def n_values(self, n_features: int) -> int:
        """Return the number of values that a fit holds at once, beside a batch."""
        return (self.n_latents + SQUARE_COPIES) * n_features**2

    def observed(self, problem: Problem, collapsed: Process) -> Observations:
        """Return what is observed, and where a fit starts by the collapsed process."""
        if self.likelihood is None:
            return observe_targets(problem, collapsed)
        return observe_labels(
            self.likelihood, problem, collapsed, is_profiled=self.is_profiled
        )

    def fit(
        self,
        problem: Problem,
        collapsed: Process,
        record: Record,
        run: Run,
        generator: Generator,
    ) -> tuple[Process, Record]:
        """Fit from a collapsed process on.

        Parameters
        ----------
        problem, collapsed, record : object
            What to fit, and the process that was fitted to label regression.
        run : Run
            How to compute.
        generator : torch.Generator
            Draws the batches.
        """
        start, device = clock(run.config.device), run.config.device
        observed, learned = self.observed(problem, collapsed), self.learned
        if learned is None:
            posterior = start_posterior(collapsed, observed.start, device)
        else:
            unit = collapsed.model.mean_diag
            amplitude = learned.amplitude * unit
            observed = observed.at(amplitude, observed.start.noise)
            posterior = learned.posterior.copied_to(device)
        ascent = _Ascent.of(problem, collapsed, observed, posterior, run)
        n_epochs, facts = ascent.climb(self.steps, generator, run)
        process = ascent.finished(collapsed, self.steps, run)
        seconds = record.solve_seconds + clock(run.config.device) - start
        report = record.report | {"iterations": n_epochs}
        facts = [*record.facts, *facts]
        return process, Record(
            record.n_pairs, record.gram_seconds, seconds, report, facts
        )


def start_posterior(
    collapsed: Process, start: Start, device: torch.device, scale: float = 1.0
) -> NaturalPosterior:
    """Return the posterior by a collapsed process, where steps begin.

    The amplitude is that of the start, times `scale`, and the latent means stay.
    """
    factor = to_tensor(
        coefficients_of(collapsed).state.factors[0], device, torch.float64
    )
    moment = factor @ factor.mT
    moment.diagonal().sub_(1.0)
    moment *= collapsed.model.noise * start.curvature * scale
    coefficients = start.coefficients.to(moment) / math.sqrt(scale)
    return NaturalPosterior.near(moment, coefficients)


@dataclass(frozen=True)
class _Latents:
    """A batch: its features, latent functions, and expected sites.

    Means and variances are of F u, whose prior variances are explained ones; sites are
    of the latent functions.
    """

    features: Tensor
    mean: Tensor
    var: Tensor
    explained: Tensor
    rest: Tensor
    sites: ExpectedSites
    divergence: Tensor | None


@dataclass(frozen=True)
class _Ascent:
    """Maximises the bound."""

    problem: Problem
    basis: PatchBasis
    observed: Observations
    # (n,), prior variances, in units of their mean; zeros if the variance that features
    # leave out is ignored.
    diag: Tensor
    weights: Tensor  # (n,), of the samples
    root: Tensor  # (n,), prior deviations
    posterior: NaturalPosterior  # is overwritten

    @classmethod
    def of(
        cls,
        problem: Problem,
        collapsed: Process,
        observed: Observations,
        posterior: NaturalPosterior,
        run: Run,
    ) -> _Ascent:
        """Return the ascent from a posterior with the features of a process."""
        device = run.config.device
        basis: Any = collapsed.basis
        unit = collapsed.model.mean_diag
        diag = torch.zeros(len(problem.rows), dtype=torch.float64, device=device)
        own = coefficients_of(collapsed)
        if own.variance != "sor":
            diag = basis.variances(problem.rows, run).to(diag) / unit
        weights = to_tensor(problem.weights, device, torch.float64)
        root = observed.start.amplitude.to(weights).sqrt()
        return cls(problem, basis, observed, diag, weights, root, posterior)

    def climb(
        self, steps: Steps, generator: Generator, run: Run
    ) -> tuple[int, list[Fact]]:
        """Take steps; return the number of epochs, and whether the bound moves."""
        n, total_weight = len(self.weights), float(self.weights.sum())
        previous, gain, n_calm = -math.inf, math.inf, 0
        n_batches, rate = steps.n_batches(n), steps.first_rate(n)
        show = run.progress(STEPPING, unit="steps")
        n_steps = steps.max_iter * n_batches
        for epoch in range(steps.max_iter):
            order = permutation(n, generator)
            total = 0.0
            for i, batch in enumerate(order.tensor_split(n_batches)):
                is_last = i == n_batches - 1
                coefficients = self.posterior.coefficients()
                latents = self._latents(batch, coefficients, run, is_judged=is_last)
                total += self._step_(latents, batch, rate)
                show(epoch * n_batches + i + 1, n_steps)
            assert latents.divergence is not None
            bound = total / n_batches - float(latents.divergence)
            gain, previous = (bound - previous) / total_weight, bound
            n_calm = n_calm + 1 if abs(gain) <= steps.tol else 0
            if n_calm == CALM_EPOCHS:
                show(n_steps, n_steps)
                return epoch + 1, []
            if gain <= steps.tol:  # steps were too long, or follow the noise of batches
                rate /= 2.0
        return steps.max_iter, [BoundMoving(abs(gain), steps.max_iter)]

    def _latents(
        self,
        batch: Tensor,
        coefficients: Iterable[Coefficients],
        run: Run,
        *,
        is_judged: bool,
    ) -> _Latents:
        """Return the latent functions of a batch, given its indices (b,)."""
        features = self.basis.features(self.problem.rows[to_numpy(batch)], run)
        features = features.to(self.diag)
        explained = features.square().sum(1)[:, None]
        rest = self.diag[batch.to(features.device), None] - explained
        rest = rest.clamp(min=0.0)
        marginals, divergences = [], []
        for one in coefficients:
            marginals.append(one.marginals(features))
            if is_judged:
                divergences.append(one.divergence())
        mean, var = (torch.stack(parts, 1) for parts in zip(*marginals, strict=True))
        latent_var = self.root.square() * (var + rest)
        sites = self.observed.sites(self.root * mean, latent_var, batch)
        divergence = torch.stack(divergences).sum() if divergences else None
        return _Latents(features, mean, var, explained, rest, sites, divergence)

    def _step_(self, latents: _Latents, batch: Tensor, rate: float) -> float:
        """Take a step; return the expected log likelihood before, of all samples."""
        weights = self.weights[batch.to(self.weights.device)]
        weights = weights * (len(self.weights) / len(batch))
        sites = latents.sites
        self.posterior.step_(
            latents.features,
            latents.mean,
            self.root * sites.gradient * weights[:, None],
            self.root.square() * sites.curvature * weights[:, None],
            rate=rate,
        )
        return float(sites.log_prob @ weights)

    def finished(self, collapsed: Process, steps: Steps, run: Run) -> Process:
        """Return the process of the posterior, whose precisions are overwritten."""
        n, problem, start = len(self.weights), self.problem, self.observed.start
        coefficients = self.posterior.factored_()
        bound = -float(torch.stack([one.divergence() for one in coefficients]).sum())
        parts = []
        for batch in int_range(n).tensor_split(steps.n_batches(n)):
            latents = self._latents(batch, coefficients, run, is_judged=False)
            sites = latents.sites
            bound += float(sites.log_prob @ self.weights[batch.to(self.weights.device)])
            parts.append(
                (
                    latents.mean,
                    latents.var,
                    latents.explained,
                    latents.rest,
                    self.root * sites.gradient,
                    self.root.square() * sites.curvature,
                )
            )
        loo_mean, loo_var = self._left_out(*map(torch.cat, zip(*parts, strict=True)))
        n_outputs = len(problem.scale)
        has_one_latent = len(self.root) < problem.targets.shape[1]
        signs = [[-1.0, 1.0]] if has_one_latent else [[1.0] * n_outputs]
        outputs = self.root.new_tensor(signs)
        dual = self.root * torch.stack([one.mean for one in coefficients], 1)
        amplitude = self.root.square().expand(n_outputs)
        factors = self.posterior.precision.to(run.config.solve_dtype)
        model = Model.of(
            problem,
            mean_diag=collapsed.model.mean_diag,
            noise=start.noise,
            amplitude=to_numpy(amplitude),
            evidence=bound,
        )
        own = coefficients_of(collapsed)
        state = freeze(CoefficientState(factors, None, np.zeros(len(factors))))
        loo = to_numpy(loo_mean * outputs), to_numpy(loo_var * outputs.square())
        return Process(
            model,
            self.basis,
            CoefficientPosterior(
                to_numpy(dual * outputs),
                state,
                own.variance,
                has_one_latent,
                draws_coefficients=False,
            ),
            KeptLeftOut(*loo, has_noise=False),
            has_one_latent=has_one_latent,
        )

    def _left_out(
        self,
        mean: Tensor,
        var: Tensor,
        explained: Tensor,
        rest: Tensor,
        gradient: Tensor,
        curvature: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Return latent means and variances (n, k) without the site of a sample.

        Equal inputs are left out together, unless there are few. Without data, the
        variance would be the explained one; sites of a posterior that has not converged
        may ask for more.
        """
        inputs, weights = self.problem.inputs.to(mean.device), self.weights

        def leaving(values: Tensor) -> Tensor:
            return inputs.leaving(values * weights[:, None], weights)

        tiny = torch.finfo(var.dtype).tiny
        staying = (1.0 - leaving(curvature) * var).clamp(min=tiny)
        var = (var / staying).minimum(explained)
        mean = mean - var * leaving(gradient)
        return self.root * mean, self.root.square() * (var + rest)
