"""Add images to a process of labels on patches, by adding to its sums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from torch import Generator

from skconvgp.engine import freeze, thaw, to_tensor
from skconvgp.inference import ClassSums, FeaturePosterior, FeatureSums, LabelCode
from skconvgp.processes._coefficients import CoefficientState
from skconvgp.processes._fitting import jitter_facts
from skconvgp.processes._patch_images import followed_by, unexplained_of
from skconvgp.processes._patch_label_fit import fit_functions
from skconvgp.processes._patch_labels import PatchLabelProcess, of_outputs
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
    each, amplitude = _sums(process, more, code), float(model.amplitude[0])
    factors = more.moments[code.label_of(0) :]  # each is read before it is written
    functions = fit_functions(each, amplitude, features[:0], factors)
    if len(factors) < n_classes:  # free the moments of the first class
        factors = factors.clone()
    assert problem.codes is not None
    process = replace(
        process,
        model=model.extended(
            problem, amplitude=model.amplitude, evidence=functions.evidence
        ),
        state=freeze(CoefficientState(factors)),
        dual=of_outputs(functions.coefficients, n_classes),
        codes=np.concatenate([process.codes, problem.codes]),
        jitters=np.array(functions.jitters),
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


def _sums(
    process: PatchLabelProcess, more: ClassSums, code: LabelCode
) -> Iterator[FeatureSums]:
    """Yield the sums of each latent function over earlier and further samples."""
    device, first = more.totals.device, code.label_of(0)
    factors = thaw(process.state, device).factors
    means = to_tensor(process.dual, device)[:, first:]
    weights = process.class_weights().to(device)
    energy, log_noise = code.energy(weights), code.log_noise(weights)
    whole = more.moments.sum(0)
    for i, jitter in enumerate(process.jitters):
        mean = means[:, i : i + 1]
        moment, response = FeaturePosterior(factors[i], mean, float(jitter)).sums()
        before = FeatureSums(
            moment, response, energy[i : i + 1], log_noise[i], weights.sum()
        )
        yield before + more.of_function(i, code, whole)
