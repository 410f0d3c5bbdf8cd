"""Add images to a process of labels on patches, by adding to its sums."""

from __future__ import annotations

from dataclasses import replace

from torch import Generator

from skconvgp.engine import thaw, to_tensor
from skconvgp.processes._coded_labels import of_outputs
from skconvgp.processes._coefficients import coefficients_of
from skconvgp.processes._feature_label_fit import label_jitter
from skconvgp.processes._fitting import jitter_facts
from skconvgp.processes._grown import coded_labels, growth_of
from skconvgp.processes._label_functions import (
    fit_functions,
    kept_state,
    sums_with,
)
from skconvgp.processes._patch_images import unexplained_of
from skconvgp.processes._patch_labels import PatchLeftOut, leave_labelled_images_out
from skconvgp.processes._patch_prior import PatchPrior
from skconvgp.processes._patch_reading import Reading, sum_classes
from skconvgp.processes._problem import Problem, Record
from skconvgp.processes._process import Growth, Process
from skconvgp.processes._run import Run, clock


def extend_patch_labels(
    process: Process,
    problem: Problem,
    generator: Generator,
    run: Run,
    n_kept: int,
) -> tuple[Process, Record]:
    """Return the process of these and further images.

    Inducing patches, noise, units, likelihood, prior means and amplitude stay. The
    generator draws the at most `n_kept` images that are kept.
    """
    device, model, prior = run.config.device, process.model, process.prior
    own, labels = coefficients_of(process), coded_labels(process)
    growth, before = growth_of(process), process.left_out
    assert isinstance(before, PatchLeftOut)
    assert isinstance(prior, PatchPrior)
    start, n_before, n_classes = clock(device), len(labels.codes), len(labels.offset)
    reading = Reading.of(problem, n_before, n_kept, generator, device)
    more, features = sum_classes(reading, n_classes, prior, run)
    rows, unit = reading.subset.rows, model.mean_diag
    residual = unexplained_of(features, rows, prior, unit, own.variance, run)
    drawn = reading.reservoir(n_before, residual, prior.tile_dtype)
    reservoir = growth.reservoir.join(drawn, n_kept)
    gram_seconds = clock(device) - start

    start = clock(device)
    code = thaw(labels.code, device)
    amplitude, earlier = float(model.amplitude[0]), thaw(own.state, device).factors
    coefficients = to_tensor(process.dual, device)[:, code.label_of(0) :]
    weights = labels.class_weights(model.weights).to(device)
    each = sums_with(more, code, weights, earlier, coefficients, own.state.jitters)
    factors = more.factors(code)
    functions = fit_functions(each, amplitude, features[:0], factors)
    process = replace(
        process,
        model=model.extended(
            problem, amplitude=model.amplitude, evidence=functions.evidence
        ),
        posterior=replace(
            own,
            dual=of_outputs(functions.coefficients, n_classes),
            state=kept_state(factors, functions.jitters, n_classes),
        ),
        labels=labels.with_more(problem.class_codes),
        growth=Growth(reservoir),
    )
    samples, known = reservoir.images.samples, reservoir.residual_diag
    loo = leave_labelled_images_out(process, reservoir.images, run, known)
    left_out = before.followed_by(len(problem.rows), samples, loo)
    process = replace(process, left_out=left_out)
    jitter, least_noise = label_jitter(process)
    facts = jitter_facts(jitter, least_noise, prior, run)
    n_pairs, seconds = len(problem.rows) * prior.n_samples, clock(device) - start
    report = {"jitter": jitter}
    return process, Record(n_pairs, gram_seconds, seconds, report, facts)
