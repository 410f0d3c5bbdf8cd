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
from skconvgp.inference import LabelState, feature_evidence, feature_posterior
from skconvgp.processes._expansion import ExpansionPrior
from skconvgp.processes._feature_label_fit import SQUARE_COPIES
from skconvgp.processes._feature_label_growing import by_columns, extend_feature_labels
from skconvgp.processes._feature_labels import FeatureLabelProcess
from skconvgp.processes._feature_samples import (
    FeatureRows,
    FeatureSamples,
    Reservoir,
    jitter_of,
    left_out_values,
    sums_of,
)
from skconvgp.processes._features import (
    FEATURE_COPIES,
    FEWER_FEATURES,
    FeatureProcess,
)
from skconvgp.processes._fitting import fixed_amplitude, jitter_facts
from skconvgp.processes._labels import LabelProcess
from skconvgp.processes._problem import Problem, Record
from skconvgp.processes._run import Resources, Run, clock

__all__ = ["can_grow", "extend_features"]

USER = "The sums of features, to which samples are added,"


def can_grow(process: object) -> bool:
    """Return whether samples can be added to a process."""
    match process:
        case FeatureProcess():
            return process.sums is not None
        case FeatureLabelProcess():
            return process.reservoir is not None
        case LabelProcess():
            has_features = isinstance(process.prior, ExpansionPrior)
            return has_features and isinstance(process.state.posterior, LabelState)
    return False


def extend_features(
    process: FeatureProcess | FeatureLabelProcess | LabelProcess,
    problem: Problem,
    amplitude: float | str | None,
    generator: Generator,
    resources: Resources,
    codes: NDArray[np.intp] | None = None,
) -> tuple[FeatureProcess | FeatureLabelProcess, Record]:
    """Return the process of these and further samples, with the same anchors and noise.

    Parameters
    ----------
    process : FeatureProcess, FeatureLabelProcess or LabelProcess
        One for which `can_grow` holds.
    problem : Problem
        The further samples.
    amplitude : float, str or None
        The setting of the amplitude.
    generator : torch.Generator
        Draws the reservoir.
    resources : Resources
        Devices and memory that may be used.
    codes : ndarray of shape (n,), optional
        Class codes of the samples so far.
    """
    needed = _bytes_held(process, problem)
    begin = generator.get_state()

    def extend_at(
        placement: Placement,
    ) -> tuple[FeatureProcess | FeatureLabelProcess, Record]:
        generator.set_state(begin)  # for the same draws if a GPU has no room
        require_memory(needed, placement.device, USER, FEWER_FEATURES)
        device, run = placement.device, resources.run(placement, needed)
        start = clock(device)
        grown = process
        if isinstance(grown, LabelProcess):
            assert codes is not None
            grown = by_columns(grown, codes, generator, run)
            generator.set_state(begin)
        rows = _rows_of(grown, problem, run)
        gram_seconds = clock(device) - start
        extended: FeatureProcess | FeatureLabelProcess
        if isinstance(grown, FeatureLabelProcess):
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


def _bytes_held(
    process: FeatureProcess | FeatureLabelProcess | LabelProcess, problem: Problem
) -> int:
    """Return the bytes that adding samples takes."""
    n_squares = SQUARE_COPIES
    if isinstance(process, FeatureProcess):
        assert process.sums is not None
        r = len(process.sums.moment)
    else:
        r = process.prior.n_samples
        # The factors so far, moments of the classes, and factors of both.
        n_squares += 3 * len(process.offset)
    n_rows = len(problem.rows)
    if isinstance(process, LabelProcess):  # features so far, which become sums
        n_rows += FEATURE_COPIES * len(process.model.targets)
    held = r * (n_squares * r + n_rows)
    return int(held * torch.float64.itemsize)


def _extend(
    process: FeatureProcess,
    problem: Problem,
    rows: FeatureRows,
    amplitude: float | str | None,
    generator: Generator,
    run: Run,
) -> tuple[FeatureProcess, Record]:
    device, model = run.config.device, process.model
    start = clock(device)
    assert process.sums is not None
    assert isinstance(process.reservoir, Reservoir)
    state, sums = thaw(process.state, device), thaw(process.sums, device)
    reservoir = thaw(process.reservoir, device)
    data = FeatureSamples.of(rows.features, problem, rows.residual_diag)
    sums = sums + sums_of(data, model.noise, process.variance)
    posterior = feature_posterior(sums)
    fixed = fixed_amplitude(amplitude, model.mean_diag, data.targets)
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
        dual=to_numpy(lift(state.lift_map, posterior.mean)),
        loo=(mean, var),
        sums=freeze(sums),
        reservoir=freeze(reservoir),
        loo_subset=(indices, *reservoir_loo),
    )
    facts = jitter_facts(jitter, model.noise, process.prior, run)
    seconds, report = clock(device) - start, {"jitter": jitter}
    return extended, Record(0, 0.0, seconds, report, facts)


def _rows_of(
    process: FeatureProcess | FeatureLabelProcess, problem: Problem, run: Run
) -> FeatureRows:
    """Return further samples, given by their features."""
    no_diag, unit = np.zeros(len(problem.rows)), process.model.mean_diag
    lift_map = thaw(process.state, run.config.device).lift_map
    lifted, residual_diags = [], []
    for cross, prior in process.stream(problem.rows, no_diag, run, needs_diag=True):
        features = lift(cross, lift_map)
        explained = torch.einsum("ij,ij->i", features, features)
        residual_diag = (prior / unit - explained).clamp(min=0.0)
        lifted.append(features)
        if not process.prior.knows_variances:  # the diagonal above is all zeros
            residual_diag = torch.full_like(residual_diag, torch.nan)
        residual_diags.append(residual_diag)
    return FeatureRows(torch.cat(lifted), torch.cat(residual_diags))
