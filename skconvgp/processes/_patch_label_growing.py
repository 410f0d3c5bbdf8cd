"""Add images to a process of labels on patches, by adding to its sums."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from torch import Generator

from skconvgp.engine import thaw, to_tensor
from skconvgp.processes._coded_labels import of_outputs
from skconvgp.processes._fitting import jitter_facts
from skconvgp.processes._label_functions import (
    fit_functions,
    kept_state,
    sums_with,
)
from skconvgp.processes._patch_images import followed_by, unexplained_of
from skconvgp.processes._patch_labels import PatchLabelProcess
from skconvgp.processes._patch_reading import Reading, sum_classes
from skconvgp.processes._problem import Problem, Record
from skconvgp.processes._run import Run, clock

__all__ = ["extend_patch_labels"]


def extend_patch_labels(
    process: PatchLabelProcess,
    problem: Problem,
    generator: Generator,
    run: Run,
    n_kept: int,
) -> tuple[PatchLabelProcess, Record]:
    """Return the process of these and further images.

    Inducing patches, noise, units, likelihood, prior means and amplitude stay.

    Parameters
    ----------
    process : PatchLabelProcess
        Process of labels.
    problem : Problem
        The further images.
    generator : torch.Generator
        Draws the images that are kept.
    run : Run
        How to compute.
    n_kept : int
        Largest number of images that are kept.
    """
    device, model, prior = run.config.device, process.model, process.prior
    start, n_before, n_classes = clock(device), len(process.codes), len(process.offset)
    reading = Reading.of(problem, n_before, n_kept, generator, device)
    more, features = sum_classes(reading, n_classes, prior, run)
    rows, unit = reading.subset.rows, model.mean_diag
    residual = unexplained_of(features, rows, prior, unit, process.variance, run)
    drawn = reading.reservoir(n_before, residual, prior.tile_dtype)
    reservoir = process.reservoir.join(drawn, n_kept)
    gram_seconds = clock(device) - start

    start = clock(device)
    code = thaw(process.code, device)
    amplitude, earlier = float(model.amplitude[0]), thaw(process.state, device).factors
    coefficients = to_tensor(process.dual, device)[:, code.label_of(0) :]
    weights = process.class_weights().to(device)
    each = sums_with(more, code, weights, earlier, coefficients, process.jitters)
    factors = more.factors(code)
    functions = fit_functions(each, amplitude, features[:0], factors)
    assert problem.codes is not None
    process = replace(
        process,
        model=model.extended(
            problem, amplitude=model.amplitude, evidence=functions.evidence
        ),
        state=kept_state(factors, n_classes),
        dual=of_outputs(functions.coefficients, n_classes),
        codes=np.concatenate([process.codes, problem.codes]),
        jitters=functions.jitters,
        reservoir=reservoir,
        images=None,
    )
    samples, known = reservoir.images.samples, reservoir.residual_diag
    loo = process.leave_images_out(reservoir.images, run, known)
    process = replace(
        process,
        loo=followed_by(process.loo, len(problem.rows), samples, loo),
        loo_subset=(samples, *loo),
    )
    facts = jitter_facts(process.jitter, process.least_noise, prior, run)
    n_pairs, seconds = len(problem.rows) * prior.n_samples, clock(device) - start
    report = {"jitter": process.jitter}
    return process, Record(n_pairs, gram_seconds, seconds, report, facts)
