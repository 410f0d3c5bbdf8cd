"""How a process of inducing patches is fitted: one pass over the images."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor

from skconvgp.engine import (
    Placement,
    compute_at,
    freeze,
    require_memory,
    to_numpy,
    to_tensor,
)
from skconvgp.inference import (
    FeatureSums,
    feature_evidence,
    feature_leave_one_out,
    feature_posterior,
    mean_variance,
)
from skconvgp.kernels import PatchKernel
from skconvgp.linalg import Moments
from skconvgp.processes._feature_samples import (
    FeatureSamples,
    jitter_of,
    left_out_values,
)
from skconvgp.processes._features import FeatureProcess, FeatureState
from skconvgp.processes._fits import Fitted
from skconvgp.processes._fitting import fixed_amplitude, jitter_facts
from skconvgp.processes._inducing import InducingSet, choose_patches, place_locations
from skconvgp.processes._patch_prior import PatchPrior
from skconvgp.processes._prior import KernelPrior
from skconvgp.processes._problem import Model, Problem, Record, Settings
from skconvgp.processes._run import Resources, Run, clock
from skconvgp.processes._variational import VariationalProcess
from skconvgp.processes._variational_fit import Variational

__all__ = ["PatchPlan", "plan_patches"]

VARIANCE_IMAGES = 256  # whose mean prior variance is the unit
# Samples whose features are kept, for leave-one-out predictions.
RESERVOIR = 2000
# Relative noise variances that are tried, the first one first.
FIRST_NOISE, NOISE_FACTOR = 1e-3, math.sqrt(10.0)
LEAST_NOISE, LARGEST_NOISE = 1e-6, 1e1
SQUARE_COPIES = 4  # of the precision, while it is summed and factorised
MANY_IMAGES, FEW_PATCHES, MANY_PATCHES = 5000, 128, 256


@dataclass(frozen=True)
class PatchPlan:
    """How a process of inducing patches will be fitted.

    Parameters
    ----------
    prior : PatchPrior
        Inducing patches and places.
    needed : int
        Bytes that a fit holds at once, beside tiles.
    variance : {"dtc", "sor"}
        What becomes of the variance that the features leave out.
    settings : Settings
        Noise and amplitude.
    variational : Variational or None, default=None
        Variational inference, from that process on.
    """

    prior: PatchPrior
    needed: int
    variance: str
    settings: Settings
    variational: Variational | None = None

    def fit(self, problem: Problem, resources: Resources) -> tuple[Fitted, Run]:
        """Return the fitted process, and how it was computed."""

        def fit_at(placement: Placement) -> tuple[Fitted, Run]:
            what = f"The matrix of {self.prior.n_samples} features"
            remedy = "lower `n_inducing` or `n_locations`."
            require_memory(self.needed, placement.device, what, remedy)
            run = resources.run(placement, self.needed)
            prior = resources.with_precision(self.prior, run)
            prior.choice(run)  # this and the next line raise before any work
            prior.images_at_once(run.config)
            generator = resources.generator()
            process: FeatureProcess | VariationalProcess
            process, record = collapsed, _ = fit_patches(
                problem,
                prior,
                run,
                settings=self.settings,
                variance=self.variance,
                generator=generator,
            )
            if self.variational is not None:
                process, record = self.variational.fit(
                    problem, collapsed, record, run, generator
                )
            return Fitted(process, record, np.arange(len(problem.rows))), run

        return compute_at(resources.placement(self.needed), fit_at)


def plan_patches(
    kernel: PatchKernel,
    prior: KernelPrior,
    settings: Settings,
    variance: str,
    *,
    inducing: Any,
    n_inducing: int | None,
    n_locations: Any,
    generator: Generator,
    variational: Variational | None = None,
) -> PatchPlan:
    """Choose inducing patches and places.

    Parameters
    ----------
    kernel : PatchKernel
        The kernel.
    prior : KernelPrior
        The same with the training images.
    settings : Settings
        Noise and amplitude.
    variance : {"dtc", "sor"}
        What becomes of the variance that the features leave out.
    inducing : str or ndarray of shape (m, c', ph, pw)
        How patches are chosen, or patches.
    n_inducing : int or None
        Number of patches; None follows the number of images.
    n_locations : "auto" or tuple of int
        Number of places along each side.
    generator : torch.Generator
        Source of randomness.
    variational : Variational, optional
        Variational inference, if it follows.
    """
    n = prior.n_samples
    wanted = n_inducing or (MANY_PATCHES if n >= MANY_IMAGES else FEW_PATCHES)
    images, shape = prior.images(), prior.image_shape
    patches = choose_patches(kernel, images, inducing, wanted, generator)
    places = place_locations(kernel, shape, n_locations)
    inducing_set = InducingSet.of(kernel, shape, patches, places)
    r = inducing_set.n_features
    n_values = SQUARE_COPIES * r**2 + min(n, RESERVOIR) * r
    if variational is not None:
        n_values = max(n_values, variational.n_values(r))
    needed = n_values * torch.float64.itemsize
    empty = prior.take(np.arange(0))
    patch_prior = PatchPrior(inducing_set, empty)
    return PatchPlan(patch_prior, needed, variance, settings, variational)


def fit_patches(
    problem: Problem,
    prior: PatchPrior,
    run: Run,
    *,
    settings: Settings,
    variance: str,
    generator: Generator,
) -> tuple[FeatureProcess, Record]:
    """Fit to sums over images, of whose features only a few are kept.

    Parameters
    ----------
    problem, prior, run : object
        What to fit, and how.
    settings : Settings
        Noise and amplitude.
    variance : {"dtc", "sor"}
        What becomes of the variance that the features leave out.
    generator : torch.Generator
        Draws the samples whose features are kept.
    """
    device = run.config.device
    start = clock(device)
    n, inputs = len(problem.rows), problem.inputs
    # Of equal images the first is drawn for all, so that weights stand for repetitions.
    order = inputs.first()[torch.randperm(inputs.n_inputs, generator=generator)]
    drawn = order[:VARIANCE_IMAGES].sort().values
    totals = inputs.sum(torch.as_tensor(problem.weights))[inputs.of[drawn]]
    prior_variances = prior.variances(problem.rows[to_numpy(drawn)], run)
    mean_diag = mean_variance(prior_variances, totals.to(prior_variances))
    prior = prior.in_units(mean_diag)

    kept = torch.arange(n) if n <= RESERVOIR else order[:RESERVOIR].sort().values
    sums, features = _sum(problem, prior, kept, run)
    prior_variances = prior.variances(problem.rows[to_numpy(kept)], run)
    rests = prior_variances.to(features) / mean_diag
    rests = (rests - features.square().sum(1)).clamp(min=0.0)
    data = FeatureSamples.of(features, problem, rests, kept)
    gram_seconds = clock(device) - start

    start = clock(device)
    scale = problem.scale
    amplitude = fixed_amplitude(settings.amplitude, mean_diag, data.targets, scale)
    noise = settings.noise
    if isinstance(noise, str):
        noise = _search_noise(sums, data, noise, amplitude)
    noise = max(noise, LEAST_NOISE)
    posterior = feature_posterior(at_noise(sums, noise))
    evidence, amplitude = feature_evidence(at_noise(sums, noise), posterior, amplitude)
    mean, var = left_out_values(data, posterior, noise, variance)
    indices = to_numpy(kept)
    all_means = np.full(problem.targets.shape, np.nan)
    all_vars = np.full(n, np.nan)
    all_means[indices], all_vars[indices] = mean, var
    factor = posterior.factor.to(run.config.solve_dtype)
    process = FeatureProcess(
        Model.of(
            problem,
            mean_diag=mean_diag,
            noise=noise,
            amplitude=to_numpy(amplitude),
            evidence=float(evidence.sum()),
        ),
        prior,
        state=freeze(FeatureState(factor, None, posterior.jitter)),
        dual=to_numpy(posterior.mean) * scale,
        variance=variance,
        loo=(all_means, all_vars),
        loo_subset=(indices, mean, var),
        unexplained=float(data.weights @ data.residual_diag / data.weights.sum()),
    )
    jitter = jitter_of(posterior, noise)
    report = {"jitter": jitter}
    facts = jitter_facts(jitter, noise, prior, run)
    seconds = clock(device) - start
    return process, Record(n * prior.n_samples, gram_seconds, seconds, report, facts)


def at_noise(sums: FeatureSums, noise: float) -> FeatureSums:
    """Return sums for a noise, from those for a noise of 1."""
    return replace(
        sums,
        moment=sums.moment / noise,
        response=sums.response / noise,
        energy=sums.energy / noise,
        log_noise=sums.weight * math.log(noise),
    )


def _sum(
    problem: Problem, prior: PatchPrior, kept: Tensor, run: Run
) -> tuple[FeatureSums, Tensor]:
    """Return sums for a noise of 1, and features (m, r) of samples that are kept."""
    targets, weights = (
        to_tensor(one, run.config.device, torch.float64)
        for one in (problem.targets, problem.weights)
    )
    moments: Moments | None = None
    shape = len(kept), prior.n_samples
    features = torch.empty(shape, dtype=torch.float64, device=targets.device)
    for part, block in prior.blocks(problem.rows, run, "fit"):
        if moments is None:
            dtype = torch.float32 if len(targets) >= MANY_IMAGES else torch.float64
            moments = Moments.around(block.mean(0), targets.shape[1], dtype)
        moments.add(block, targets[part], weights[part])
        first, last = torch.searchsorted(kept, torch.tensor([part.start, part.stop]))
        features[first:last] = block[kept[first:last] - part.start].to(features)
    assert moments is not None
    moment, response = moments.finish()
    energy = (targets.square() * weights[:, None]).sum(0)
    zero = torch.zeros_like(moments.weight)
    return FeatureSums(moment, response, energy, zero, moments.weight), features


def _search_noise(
    sums: FeatureSums, data: FeatureSamples, criterion: str, amplitude: Tensor | None
) -> float:
    """Return a noise variance: downhill from the first one, in half decades."""
    scores: dict[int, float] = {}

    def score(step: int) -> float:
        if step not in scores:
            noise = FIRST_NOISE * NOISE_FACTOR**step
            scores[step] = _score(sums, data, noise, criterion, amplitude)
        return scores[step]

    least = round(math.log(LEAST_NOISE / FIRST_NOISE, NOISE_FACTOR))
    largest = round(math.log(LARGEST_NOISE / FIRST_NOISE, NOISE_FACTOR))
    step = 0
    direction = 1 if score(1) > score(0) else -1
    while least <= step + direction <= largest and (
        score(step + direction) > score(step)
    ):
        step += direction
    return FIRST_NOISE * NOISE_FACTOR**step


def _score(
    sums: FeatureSums,
    data: FeatureSamples,
    noise: float,
    criterion: str,
    amplitude: Tensor | None,
) -> float:
    at = at_noise(sums, noise)
    posterior = feature_posterior(at)
    evidence, amplitude = feature_evidence(at, posterior, amplitude)
    if criterion == "evidence":
        return float(evidence.sum())
    unit = torch.full_like(data.residual_diag, noise)
    loo = feature_leave_one_out(
        data.features, data.whole_targets, unit, data.totals, posterior
    )
    var = loo.var[:, None] * amplitude
    density = (data.targets - loo.mean).square() / var + var.log()
    return -float((density * data.weights[:, None]).sum())
