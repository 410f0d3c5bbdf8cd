"""Add samples to a process of labels by columns of features."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator

from skconvgp._protocols import lift
from skconvgp.engine import freeze, rows_to_tensor, thaw, to_numpy, to_tensor
from skconvgp.processes._coded_labels import of_outputs
from skconvgp.processes._coefficients import coefficients_of
from skconvgp.processes._expansion import ExpansionPrior
from skconvgp.processes._feature_label_fit import (
    fit_candidate,
    label_jitter,
    left_out_rows,
    require_columns,
    sum_by_class,
)
from skconvgp.processes._feature_samples import FeatureRows, FeatureSites, Reservoir
from skconvgp.processes._features import SMALLEST_NOISE
from skconvgp.processes._fitting import jitter_facts, require_finite_noise
from skconvgp.processes._grown import coded_labels, growth_of, kept_before
from skconvgp.processes._label_functions import (
    Candidate,
    fit_functions,
    kept_state,
    model_of_classes,
    sums_with,
)
from skconvgp.processes._label_models import NoisyModel
from skconvgp.processes._labelled import Labelled
from skconvgp.processes._problem import Problem, Record
from skconvgp.processes._process import Growth, KeptLeftOut, Process
from skconvgp.processes._run import Run, clock


def can_become_columns(process: Any) -> bool:
    """Return whether a process of labels follows from sums of features."""
    posterior = getattr(process, "posterior", None)
    is_labelled = isinstance(posterior, Labelled) and posterior.is_of_features
    return is_labelled and isinstance(process.prior, ExpansionPrior)


def by_columns(
    process: Process, codes: NDArray[np.intp], generator: Generator, run: Run
) -> Process:
    """Return the process of sums of features, so that samples can be added.

    It was fitted to the product of the features of its samples, by labels that are
    followed. `codes` (n,) are those of their classes; the generator draws the samples
    that are kept.
    """
    model, before, posterior = process.model, process.labels, process.posterior
    assert isinstance(posterior, Labelled)
    assert isinstance(process.prior, ExpansionPrior)
    assert before is not None
    n_classes, likelihood = len(before.offset), before.likelihood
    state = thaw(process.state, run.config.device)
    features = state.features
    # Equal samples have equal features.
    problem = Problem(
        to_numpy(features), model.targets, model.weights, model.scale, codes
    )
    weights = rows_to_tensor(model.weights)
    targets = likelihood.targets(rows_to_tensor(codes), n_classes, weights)
    targets = replace(targets, offset=rows_to_tensor(before.offset))
    labels = NoisyModel(likelihood, targets, weights, problem.inputs)
    require_columns("partial_fit", [labels], problem)
    noise = max(model.noise, SMALLEST_NOISE[features.dtype])
    own = model_of_classes(labels, problem)
    found = fit_candidate(
        Candidate.of(own, posterior.amplitude, noise, features.device),
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
    model = replace(model, noise=noise)
    return replace(found, model=model, left_out=process.left_out)


def extend_feature_labels(
    process: Process,
    problem: Problem,
    rows: FeatureRows,
    generator: Generator,
    run: Run,
) -> tuple[Process, Record]:
    """Return the process of these and further samples, given by their features.

    Features, noise, units, likelihood, prior means and amplitude stay. The generator
    draws the reservoir.
    """
    device, model, labels = run.config.device, process.model, coded_labels(process)
    own, growth = coefficients_of(process), growth_of(process)
    before, n_classes = kept_before(process), len(labels.offset)
    assert growth.coefficients is not None
    start, code = clock(device), thaw(labels.code, device)
    require_finite_noise(1.0 / run.tensor(problem.weights))
    more = sum_by_class(problem, rows.features, n_classes)
    residual_diag = rows.residual_diag
    if own.variance == "sor":
        residual_diag = torch.zeros_like(residual_diag)
    data = FeatureSites.of(rows.features, residual_diag, problem, code)
    drawn = Reservoir.of(data, len(labels.codes), generator)
    reservoir = thaw(growth.reservoir, device) + drawn
    state = thaw(own.state, device)
    each = sums_with(
        more,
        code,
        labels.class_weights(model.weights).to(device),
        state.factors,
        to_tensor(growth.coefficients, device),
        own.state.jitters,
    )
    # Features of earlier samples are kept for the reservoir only, so that only its
    # values are brought up to date.
    known = data.join(reservoir.data)
    amplitude, factors = float(model.amplitude[0]), more.factors(code)
    functions = fit_functions(each, amplitude, known.features, factors)
    means, variances = left_out_rows(known, functions, amplitude, n_classes)
    n, indices = len(data.features), to_numpy(reservoir.indices)
    mean = np.vstack([before.mean, means[:n]])
    var = np.vstack([before.var, variances[:n]])
    mean[indices], var[indices] = means[n:], variances[n:]
    coefficients = functions.coefficients
    process = replace(
        process,
        model=model.extended(
            problem, amplitude=model.amplitude, evidence=functions.evidence
        ),
        posterior=replace(
            own,
            dual=of_outputs(
                lift(state.lift_map.to(coefficients), coefficients), n_classes
            ),
            state=kept_state(factors, functions.jitters, n_classes, state.lift_map),
        ),
        left_out=KeptLeftOut(mean, var, False, (indices, means[n:], variances[n:])),
        labels=labels.with_more(problem.class_codes),
        growth=Growth(freeze(reservoir), coefficients=to_numpy(coefficients)),
    )
    jitter, least_noise = label_jitter(process)
    facts = jitter_facts(jitter, least_noise, process.prior, run)
    report = {"jitter": jitter}
    return process, Record(0, 0.0, clock(device) - start, report, facts)
