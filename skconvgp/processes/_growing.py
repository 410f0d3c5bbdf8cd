"""More samples for a process of features: sums to which theirs are added."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Generator

from skconvgp.engine import Placement, compute_at, freeze, thaw, to_numpy
from skconvgp.inference import feature_evidence, feature_posterior
from skconvgp.processes._featured import (
    Featured,
    Reservoir,
    add_up,
    jitter_of,
    left_out,
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
    """Take more samples in; anchors, noise and units stay.

    Parameters
    ----------
    process : FeatureProcess
        Has sums and a reservoir.
    problem : Problem
        The further samples.
    amplitude : float, str or None
        The setting.
    generator : torch.Generator
        Draws the samples that are kept.
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
    assert process.reservoir is not None
    state, sums = thaw(process.state, device), thaw(process.sums, device)
    reservoir = thaw(process.reservoir, device)
    run = resources.run(placement)
    data = _featured(process, state, problem, run)
    gram_seconds = clock(device) - start

    start = clock(device)
    sums = sums + add_up(data, model.noise, process.variance)
    posterior = feature_posterior(sums)
    fixed = fixed_amplitude(amplitude, model.mean_diag, data.targets, problem.scale)
    evidence, found = feature_evidence(sums, posterior, fixed)
    n_before = len(model.targets)
    reservoir = reservoir + Reservoir.of(data, n_before, generator)
    loo, some_loo = (
        left_out(part, posterior, model.noise, process.variance)
        for part in (data, reservoir.data)
    )
    mean, var = (
        np.vstack([process.loo[0], loo[0]]),
        np.concatenate([process.loo[1], loo[1]]),
    )
    indices = to_numpy(reservoir.indices)
    mean[indices], var[indices] = some_loo
    jitter = jitter_of(posterior, model.noise)
    extended = replace(
        process,
        model=model.extended(
            problem, amplitude=to_numpy(found), evidence=float(evidence.sum())
        ),
        state=freeze(replace(state, factor=posterior.factor, jitter=posterior.jitter)),
        dual=to_numpy(state.lift_map @ posterior.mean) * problem.scale,
        loo=(mean, var),
        sums=freeze(sums),
        reservoir=freeze(reservoir),
        some=(indices, *some_loo),
    )
    n_pairs = len(problem.rows) * (len(process.dual) + 1)
    facts = jitter_facts(jitter, model.noise, process.prior, run)
    seconds, report = clock(device) - start, {"jitter": jitter}
    return extended, Record(n_pairs, gram_seconds, seconds, report, facts)


def _featured(
    process: FeatureProcess,
    state: FeatureState,
    problem: Problem,
    run: Run,
) -> Featured:
    """Return further samples by their features."""
    no_diag, unit = np.zeros(len(problem.rows)), process.model.mean_diag
    lifted, rests = [], []
    for cross, prior in process.stream(problem.rows, no_diag, run, needs_diag=True):
        features = cross @ state.lift_map
        explained = torch.einsum("ij,ij->i", features, features)
        rest = (prior / unit - explained).clamp(min=0.0)
        lifted.append(features)
        is_known = process.prior.knows_variances
        rests.append(rest if is_known else torch.full_like(rest, torch.nan))
    return Featured.of(torch.cat(lifted), problem, torch.cat(rests))
