"""Add samples to a process of labels by columns of features."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator

from skconvgp._protocols import lift
from skconvgp.engine import freeze, rows_to_tensor, thaw, to_numpy, to_tensor
from skconvgp.processes._coded_labels import of_outputs
from skconvgp.processes._expansion import ExpansionPrior
from skconvgp.processes._feature_label_fit import (
    fit_candidate,
    left_out_rows,
    require_columns,
    sum_by_class,
)
from skconvgp.processes._feature_labels import FeatureLabelProcess
from skconvgp.processes._feature_samples import FeatureRows, FeatureSites, Reservoir
from skconvgp.processes._features import SMALLEST_NOISE
from skconvgp.processes._fitting import jitter_facts, require_finite_noise
from skconvgp.processes._label_functions import (
    Candidate,
    fit_functions,
    kept_state,
    model_of_classes,
    sums_with,
)
from skconvgp.processes._label_models import NoisyModel
from skconvgp.processes._labels import LabelProcess
from skconvgp.processes._problem import Problem, Record
from skconvgp.processes._run import Run, clock

__all__ = ["by_columns", "extend_feature_labels"]


def by_columns(
    process: LabelProcess, codes: NDArray[np.intp], generator: Generator, run: Run
) -> FeatureLabelProcess:
    """Return the process of sums of features, so that samples can be added.

    Parameters
    ----------
    process : LabelProcess
        Fitted to the product of the features of its samples, by labels that are
        followed.
    codes : ndarray of shape (n,)
        Class codes of these.
    generator : torch.Generator
        Draws the samples that are kept.
    run : Run
        How to compute.
    """
    model, n_classes = process.model, len(process.offset)
    assert isinstance(process.prior, ExpansionPrior)
    state = thaw(process.state, run.config.device)
    features = state.features
    # Equal samples have equal features.
    problem = Problem(
        to_numpy(features), model.targets, model.weights, model.scale, codes
    )
    weights = rows_to_tensor(model.weights)
    targets = process.likelihood.targets(rows_to_tensor(codes), n_classes, weights)
    targets = replace(targets, offset=rows_to_tensor(process.offset))
    labels = NoisyModel(process.likelihood, targets, weights, problem.inputs)
    require_columns("partial_fit", [labels], problem)
    noise = max(model.noise, SMALLEST_NOISE[features.dtype])
    own = model_of_classes(labels, problem)
    found = fit_candidate(
        Candidate.of(own, process.amplitude, noise, features.device),
        problem,
        process.prior,
        model.mean_diag,
        noise,
        FeatureRows(features, torch.zeros_like(features[:, 0])),
        sum_by_class(problem, features, n_classes),
        state.lift_map,
        "sor",
        generator,
    )
    return replace(found, model=replace(model, noise=noise), loo=process.loo)


def extend_feature_labels(
    process: FeatureLabelProcess,
    problem: Problem,
    rows: FeatureRows,
    generator: Generator,
    run: Run,
) -> tuple[FeatureLabelProcess, Record]:
    """Return the process of these and further samples.

    Features, noise, units, likelihood, prior means and amplitude stay.

    Parameters
    ----------
    process : FeatureLabelProcess
        Fitted with a reservoir.
    problem : Problem
        The further samples.
    rows : FeatureRows
        Their features.
    generator : torch.Generator
        Draws the reservoir.
    run : Run
        How to compute.
    """
    device, model, n_classes = run.config.device, process.model, len(process.offset)
    start, code = clock(device), thaw(process.code, device)
    require_finite_noise(1.0 / run.tensor(problem.weights))
    more = sum_by_class(problem, rows.features, n_classes)
    residual_diag = rows.residual_diag
    if process.variance == "sor":
        residual_diag = torch.zeros_like(residual_diag)
    data = FeatureSites.of(rows.features, residual_diag, problem, code)
    assert process.reservoir is not None
    drawn = Reservoir.of(data, len(process.codes), generator)
    reservoir = thaw(process.reservoir, device) + drawn
    state = thaw(process.state, device)
    each = sums_with(
        more,
        code,
        process.class_weights().to(device),
        state.factors,
        to_tensor(process.coefficients, device),
        process.jitters,
    )
    # Features of earlier samples are kept for the reservoir only, so that only its
    # values are brought up to date.
    known = data.join(reservoir.data)
    amplitude, factors = float(model.amplitude[0]), more.factors(code)
    functions = fit_functions(each, amplitude, known.features, factors)
    means, variances = left_out_rows(known, functions, amplitude, n_classes)
    n, indices = len(data.features), to_numpy(reservoir.indices)
    mean = np.vstack([process.loo[0], means[:n]])
    var = np.vstack([process.loo[1], variances[:n]])
    mean[indices], var[indices] = means[n:], variances[n:]
    coefficients = functions.coefficients
    assert problem.codes is not None
    process = replace(
        process,
        model=model.extended(
            problem, amplitude=model.amplitude, evidence=functions.evidence
        ),
        state=kept_state(factors, n_classes, state.lift_map),
        dual=of_outputs(lift(state.lift_map.to(coefficients), coefficients), n_classes),
        codes=np.concatenate([process.codes, problem.codes]),
        jitters=functions.jitters,
        loo=(mean, var),
        coefficients=to_numpy(coefficients),
        reservoir=freeze(reservoir),
        loo_subset=(indices, means[n:], variances[n:]),
    )
    facts = jitter_facts(process.jitter, process.least_noise, process.prior, run)
    report = {"jitter": process.jitter}
    return process, Record(0, 0.0, clock(device) - start, report, facts)
