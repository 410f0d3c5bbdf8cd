"""Add images to a process of patches, by adding to its sums."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Generator, Tensor

from skconvgp.engine import (
    Placement,
    compute_at,
    require_memory,
    to_numpy,
    to_tensor,
)
from skconvgp.inference import (
    FeatureSums,
    feature_evidence,
    feature_posterior,
)
from skconvgp.processes._coefficients import coefficients_of, shared_state
from skconvgp.processes._feature_samples import jitter_of
from skconvgp.processes._fitting import fixed_amplitude, jitter_facts
from skconvgp.processes._grown import growth_of
from skconvgp.processes._patch_images import (
    PatchReservoir,
    left_out_images,
)
from skconvgp.processes._patch_label_growing import extend_patch_labels
from skconvgp.processes._patch_labels import PatchLeftOut, shared_posterior
from skconvgp.processes._patch_noise import at_noise
from skconvgp.processes._patch_prior import PatchPrior
from skconvgp.processes._patch_reading import Reading, sum_images
from skconvgp.processes._patches import RESERVOIR, SQUARE_COPIES
from skconvgp.processes._problem import Problem, Record
from skconvgp.processes._process import Growth, Process
from skconvgp.processes._run import Resources, Run, clock


def extend_patches(
    process: Process,
    problem: Problem,
    amplitude: float | str | None,
    generator: Generator,
    resources: Resources,
) -> tuple[Process, Record]:
    """Return the process of these and further images.

    Inducing patches, noise and units stay; if labels determine their noise, all other
    settings do, too. `amplitude` is the setting, the generator draws the reservoir.
    """
    r, n_kept = process.prior.n_samples, min(len(problem.rows), RESERVOIR)
    n_squares = SQUARE_COPIES
    if process.labels is not None:
        n_squares += len(process.labels.offset)
    needed = (n_squares * r**2 + n_kept * r) * torch.float64.itemsize

    def extend_at(placement: Placement) -> tuple[Process, Record]:
        remedy = "fit with fewer features, by `n_inducing` or `n_locations`."
        require_memory(needed, placement.device, f"The sums of {r} features", remedy)
        run = resources.run(placement, needed)
        if process.labels is not None:
            return extend_patch_labels(process, problem, generator, run, RESERVOIR)
        return _extend(process, problem, amplitude, generator, run)

    return compute_at(resources.placement(needed), extend_at)


def _extend(
    process: Process,
    problem: Problem,
    amplitude: float | str | None,
    generator: Generator,
    run: Run,
) -> tuple[Process, Record]:
    device, model, prior = run.config.device, process.model, process.prior
    own, growth, before = coefficients_of(process), growth_of(process), process.left_out
    assert isinstance(before, PatchLeftOut)
    assert isinstance(prior, PatchPrior)
    start = clock(device)
    sums, drawn = _read(process, problem, generator, run)
    reservoir = growth.reservoir.join(drawn, RESERVOIR)
    gram_seconds = clock(device) - start

    start = clock(device)
    sums = _sums_of(process, device) + at_noise(sums, model.noise)
    posterior = feature_posterior(sums)
    targets = to_tensor(problem.targets, device)
    fixed = fixed_amplitude(amplitude, model.mean_diag, targets)
    evidence, new_amplitude = feature_evidence(sums, posterior, fixed)
    extended = model.extended(
        problem, amplitude=to_numpy(new_amplitude), evidence=float(evidence.sum())
    )
    loo = left_out_images(
        reservoir.images,
        extended,
        prior,
        posterior,
        own.variance,
        run,
        reservoir.residual_diag,
    )
    samples = reservoir.images.samples
    jitter = jitter_of(posterior, model.noise)
    process = replace(
        process,
        model=extended,
        posterior=replace(
            own, dual=to_numpy(posterior.mean), state=shared_state(posterior, None)
        ),
        left_out=before.followed_by(len(problem.rows), samples, loo),
        growth=Growth(reservoir),
    )
    n_pairs = len(problem.rows) * prior.n_samples
    facts = jitter_facts(jitter, model.noise, prior, run)
    seconds, report = clock(device) - start, {"jitter": jitter}
    return process, Record(n_pairs, gram_seconds, seconds, report, facts)


def _read(
    process: Process, problem: Problem, generator: Generator, run: Run
) -> tuple[FeatureSums, PatchReservoir]:
    """Return sums over further images for a noise of 1, and a reservoir of these."""
    device, model, prior = run.config.device, process.model, process.prior
    assert isinstance(prior, PatchPrior)
    variance, n_before = coefficients_of(process).variance, len(model.targets)
    reading = Reading.of(problem, n_before, RESERVOIR, generator, device)
    sums, features = sum_images(reading, prior, run)
    known = reading.known(features, prior, model.mean_diag, variance, run)
    dtype = prior.tile_dtype
    return sums, reading.reservoir(n_before, known.residual_diag, dtype)


def _sums_of(process: Process, device: torch.device) -> FeatureSums:
    """Return the sums over all images of a process.

    They are recovered from the factor of the precision, and not kept beside it: they
    would double the size of a model.
    """
    model = process.model
    moment, response = shared_posterior(coefficients_of(process), device).sums()
    targets, weights = (to_tensor(v, device) for v in (model.targets, model.weights))
    energy = (targets.square() * weights[:, None]).sum(0) / model.noise
    total: Tensor = weights.sum()
    return FeatureSums(moment, response, energy, total * math.log(model.noise), total)
