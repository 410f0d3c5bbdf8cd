"""Add samples to a process of features, by adding to its sums."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Generator

from skconvgp._protocols import lift
from skconvgp.engine import Placement, compute_at, freeze, thaw, to_numpy
from skconvgp.inference import feature_evidence, feature_posterior
from skconvgp.processes._feature_samples import (
    FeatureSamples,
    Reservoir,
    jitter_of,
    left_out_values,
    sums_of,
)
from skconvgp.processes._features import FeatureProcess, FeatureState
from skconvgp.processes._fitting import fixed_amplitude, jitter_facts
from skconvgp.processes._problem import Problem, Record
from skconvgp.processes._run import Resources, Run, clock

__all__ = ["extend_features"]


def extend_features(
    process: FeatureProcess,
    problem: Problem,
    amplitude: float | str | None,
    generator: Generator,
    resources: Resources,
) -> tuple[FeatureProcess, Record]:
    """Return the process of these and further samples, with the same anchors and noise.

    Parameters
    ----------
    process : FeatureProcess
        Fitted with sums and a reservoir.
    problem : Problem
        The further samples.
    amplitude : float, str or None
        The setting of the amplitude.
    generator : torch.Generator
        Draws the reservoir.
    resources : Resources
        Devices and memory that may be used.
    """
    assert process.sums is not None
    moment = process.sums.moment
    needed = moment.nbytes + len(problem.rows) * len(moment) * moment.itemsize
    extend_at = partial(_extend_at, process, problem, amplitude, generator, resources)
    return compute_at(resources.placement(needed), extend_at)


def _extend_at(
    process: FeatureProcess,
    problem: Problem,
    amplitude: float | str | None,
    generator: Generator,
    resources: Resources,
    placement: Placement,
) -> tuple[FeatureProcess, Record]:
    device, model = placement.device, process.model
    start = clock(device)
    assert process.sums is not None
    assert isinstance(process.reservoir, Reservoir)
    state, sums = thaw(process.state, device), thaw(process.sums, device)
    reservoir = thaw(process.reservoir, device)
    run = resources.run(placement)
    data = _samples_of(process, state, problem, run)
    gram_seconds = clock(device) - start

    start = clock(device)
    sums = sums + sums_of(data, model.noise, process.variance)
    posterior = feature_posterior(sums)
    fixed = fixed_amplitude(amplitude, model.mean_diag, data.targets, problem.scale)
    evidence, new_amplitude = feature_evidence(sums, posterior, fixed)
    n_before = len(model.targets)
    reservoir = reservoir + Reservoir.of(data, n_before, generator)
    loo, reservoir_loo = (
        left_out_values(part, posterior, model.noise, process.variance)
        for part in (data, reservoir.data)
    )
    mean = np.vstack([process.loo[0], loo[0]])
    var = np.concatenate([process.loo[1], loo[1]])
    # Features of earlier samples are kept for the reservoir only, so that only its
    # values are brought up to date.
    indices = to_numpy(reservoir.indices)
    mean[indices], var[indices] = reservoir_loo
    jitter = jitter_of(posterior, model.noise)
    extended = replace(
        process,
        model=model.extended(
            problem, amplitude=to_numpy(new_amplitude), evidence=float(evidence.sum())
        ),
        state=freeze(replace(state, factor=posterior.factor, jitter=posterior.jitter)),
        dual=to_numpy(lift(state.lift_map, posterior.mean)) * problem.scale,
        loo=(mean, var),
        sums=freeze(sums),
        reservoir=freeze(reservoir),
        loo_subset=(indices, *reservoir_loo),
    )
    n_compared = len(process.dual) + 1 if state.lift_map.ndim else 0
    n_pairs = len(problem.rows) * n_compared
    facts = jitter_facts(jitter, model.noise, process.prior, run)
    seconds, report = clock(device) - start, {"jitter": jitter}
    return extended, Record(n_pairs, gram_seconds, seconds, report, facts)


def _samples_of(
    process: FeatureProcess,
    state: FeatureState,
    problem: Problem,
    run: Run,
) -> FeatureSamples:
    """Return further samples, given by their features."""
    no_diag, unit = np.zeros(len(problem.rows)), process.model.mean_diag
    lifted, residual_diags = [], []
    for cross, prior in process.stream(problem.rows, no_diag, run, needs_diag=True):
        features = lift(cross, state.lift_map)
        explained = torch.einsum("ij,ij->i", features, features)
        residual_diag = (prior / unit - explained).clamp(min=0.0)
        lifted.append(features)
        if not process.prior.knows_variances:  # the diagonal above is all zeros
            residual_diag = torch.full_like(residual_diag, torch.nan)
        residual_diags.append(residual_diag)
    return FeatureSamples.of(torch.cat(lifted), problem, torch.cat(residual_diags))
