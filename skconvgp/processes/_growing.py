"""Add samples to a process of features, by adding to its sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator

from skconvgp._protocols import lift
from skconvgp.engine import (
    Placement,
    compute_at,
    freeze,
    require_memory,
    thaw,
    to_numpy,
)
from skconvgp.inference import feature_evidence, feature_posterior
from skconvgp.processes._basis import NewRows
from skconvgp.processes._coefficients import coefficients_of, shared_state
from skconvgp.processes._feature_label_fit import SQUARE_COPIES
from skconvgp.processes._feature_label_growing import (
    by_columns,
    can_become_columns,
    extend_feature_labels,
)
from skconvgp.processes._feature_samples import (
    FeatureRows,
    FeatureSamples,
    Reservoir,
    jitter_of,
    left_out_values,
    sums_of,
)
from skconvgp.processes._features import FEATURE_COPIES, FEWER_FEATURES
from skconvgp.processes._fits import FittedProcess
from skconvgp.processes._fitting import fixed_amplitude, jitter_facts
from skconvgp.processes._grown import growth_of, kept_before
from skconvgp.processes._problem import Problem, Record
from skconvgp.processes._process import Growth, KeptLeftOut, Process
from skconvgp.processes._run import Resources, Run, clock

USER = "The sums of features, to which samples are added,"


def can_grow(process: FittedProcess) -> bool:
    """Return whether samples can be added to a process."""
    return process.growth is not None or can_become_columns(process)


def extend_features(
    process: Process,
    problem: Problem,
    amplitude: float | str | None,
    generator: Generator,
    resources: Resources,
    codes: NDArray[np.intp] | None = None,
) -> tuple[Process, Record]:
    """Return the process of these and further samples, with the same anchors and noise.

    It is one for which `can_grow` holds. `amplitude` is the setting, the generator
    draws the reservoir, and `codes` (n,) are those of the classes of the samples so
    far.
    """
    needed = _bytes_held(process, problem)
    begin = generator.get_state()

    def extend_at(placement: Placement) -> tuple[Process, Record]:
        generator.set_state(begin)  # for the same draws if a GPU has no room
        require_memory(needed, placement.device, USER, FEWER_FEATURES)
        device, run = placement.device, resources.run(placement, needed)
        start = clock(device)
        grown = process
        if grown.growth is None:
            assert codes is not None
            grown = by_columns(grown, codes, generator, run)
            generator.set_state(begin)
        rows = _rows_of(grown, problem, run)
        gram_seconds = clock(device) - start
        if grown.labels is not None:
            extended, record = extend_feature_labels(
                grown, problem, rows, generator, run
            )
        else:
            extended, record = _extend(grown, problem, rows, amplitude, generator, run)
        has_anchors = np.ndim(process.state.lift_map) > 0
        n_compared = len(process.dual) + 1 if has_anchors else 0
        n_pairs = len(problem.rows) * n_compared
        return extended, replace(record, n_pairs=n_pairs, gram_seconds=gram_seconds)

    return compute_at(resources.placement(needed), extend_at)


def _bytes_held(process: Process, problem: Problem) -> int:
    """Return the bytes that adding samples takes."""
    n_squares, growth = SQUARE_COPIES, process.growth
    if process.labels is None:
        assert growth is not None
        assert growth.sums is not None
        r = len(growth.sums.moment)
    else:
        r = process.prior.n_samples
        # The factors so far, moments of the classes, and factors of both.
        n_squares += 3 * len(process.labels.offset)
    n_rows = len(problem.rows)
    if growth is None:  # features so far, which become sums
        n_rows += FEATURE_COPIES * len(process.model.targets)
    held = r * (n_squares * r + n_rows)
    return int(held * torch.float64.itemsize)


def _extend(
    process: Process,
    problem: Problem,
    rows: FeatureRows,
    amplitude: float | str | None,
    generator: Generator,
    run: Run,
) -> tuple[Process, Record]:
    device, model, growth = run.config.device, process.model, growth_of(process)
    start, before = clock(device), kept_before(process)
    own = coefficients_of(process)
    sums, reservoir = thaw(growth.sums, device), thaw(growth.reservoir, device)
    assert sums is not None
    lift_map = thaw(own.state, device).lift_map
    data = FeatureSamples.of(rows.features, problem, rows.residual_diag)
    sums = sums + sums_of(data, model.noise, own.variance)
    posterior = feature_posterior(sums)
    fixed = fixed_amplitude(amplitude, model.mean_diag, data.targets)
    evidence, new_amplitude = feature_evidence(sums, posterior, fixed)
    n_before = len(model.targets)
    reservoir = reservoir + Reservoir.of(data, n_before, generator)
    loo, reservoir_loo = (
        left_out_values(part, posterior, model.noise, own.variance)
        for part in (data, reservoir.data)
    )
    mean = np.vstack([before.mean, loo[0]])
    var = np.concatenate([before.var, loo[1]])
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
        posterior=replace(
            own,
            dual=to_numpy(lift(lift_map, posterior.mean)),
            state=shared_state(posterior, lift_map),
        ),
        left_out=KeptLeftOut(mean, var, True, (indices, *reservoir_loo)),
        growth=Growth(freeze(reservoir), freeze(sums)),
    )
    facts = jitter_facts(jitter, model.noise, process.prior, run)
    seconds, report = clock(device) - start, {"jitter": jitter}
    return extended, Record(0, 0.0, seconds, report, facts)


def _rows_of(process: Process, problem: Problem, run: Run) -> FeatureRows:
    """Return further samples, given by their features."""
    new, unit = NewRows(problem.rows), process.model.mean_diag
    lift_map = thaw(process.state, run.config.device).lift_map
    lifted, residual_diags = [], []
    reads = process.posterior.reads_variances(process.prior, needs_var=True)
    for cross, prior in process.prior.stream(new, run, needs_diag=reads):
        features = lift(cross, lift_map)
        explained = torch.einsum("ij,ij->i", features, features)
        residual_diag = (prior / unit - explained).clamp(min=0.0)
        lifted.append(features)
        if not process.prior.knows_variances:  # the diagonal above is all zeros
            residual_diag = torch.full_like(residual_diag, torch.nan)
        residual_diags.append(residual_diag)
    return FeatureRows(torch.cat(lifted), torch.cat(residual_diags))
