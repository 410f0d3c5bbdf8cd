"""Further samples of a process of features, which are added to its sums."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator

from skconvgp.engine import (
    Placement,
    compute_at,
    require_memory,
    rows_to_tensor,
    thaw,
    to_numpy,
)
from skconvgp.processes._problem import Problem, Record
from skconvgp.processes._process import Process
from skconvgp.processes._run import Resources, Run, clock
from skconvgp.processes.fits._coded_choice import (
    SQUARE_COPIES,
    model_of_classes,
    require_columns,
)
from skconvgp.processes.fits._feature_rows import FeatureRows
from skconvgp.processes.fits._held_rows import (
    FEATURE_COPIES,
    FEWER_FEATURES,
    SMALLEST_NOISE,
    HeldReading,
)
from skconvgp.processes.fits._image_rows import KEPT_IMAGES, ImageReading
from skconvgp.processes.fits._label_models import NoisyModel
from skconvgp.processes.fits._reading import Reading
from skconvgp.processes.fits._sums import process_of, record_of, shared
from skconvgp.processes.posterior._coded import Coded, CodedTargets
from skconvgp.processes.posterior._coefficients import coefficients_of
from skconvgp.processes.posterior._labelled import Labelled
from skconvgp.processes.posterior._left_out_images import source_of
from skconvgp.processes.posterior._solutions import (
    FeatureSolution,
    coded_sums,
    shared_sums,
)


def can_grow(process: Any) -> bool:
    """Return whether samples can be added to a process."""
    return process.growth is not None or can_become_columns(process)


def can_become_columns(process: Any) -> bool:
    """Return whether a process of labels follows from sums of features."""
    posterior = getattr(process, "posterior", None)
    is_labelled = isinstance(posterior, Labelled) and posterior.is_of_features
    return is_labelled and process.basis.gives_features


def extend_process(
    process: Process,
    problem: Problem,
    amplitude: float | str | None,
    generator: Generator,
    resources: Resources,
    codes: Any = None,
) -> tuple[Process, Record]:
    """Return the process of these and further samples, with the same basis and noise.

    It is one for which `can_grow` holds. `amplitude` is the setting, the generator
    draws the reservoir, and `codes` (n,) are those of the classes of the samples so
    far. If labels determine their noise, likelihood, prior means and amplitude stay.
    """
    needed, *user = _memory(process, problem)
    begin = generator.get_state()

    def extend_at(placement: Placement) -> tuple[Process, Record]:
        generator.set_state(begin)  # for the same draws if a GPU has no room
        require_memory(needed, placement.device, *user)
        run = resources.run(placement, needed)
        start, grown = clock(placement.device), process
        if grown.growth is None:
            grown = by_columns(grown, codes, generator, run)
            generator.set_state(begin)
        reading = _read(grown, problem, run, generator)
        seconds = clock(placement.device) - start
        reading = replace(reading, gram_seconds=seconds)
        start = clock(placement.device)
        solution = _added(reading, grown, amplitude)
        extended = process_of(reading, solution, generator, grown)
        return extended, record_of(reading, solution, run, start)

    return compute_at(resources.placement(needed), extend_at)


def _memory(process: Process, problem: Problem) -> tuple[int, str, str]:
    """Return the bytes that adding samples takes, what they are for, and a remedy."""
    basis, growth, n = process.basis, process.growth, len(problem.rows)
    n_classes = 0 if process.labels is None else len(process.labels.offset)
    if basis.is_streamed:
        # The factors so far, and moments, which factors of both overwrite.
        r, n_squares, n_held = basis.n_samples, 2 * n_classes, min(n, KEPT_IMAGES)
        what = f"The sums of {r} features"
        remedy = "fit with fewer features, by `n_inducing` or `n_locations`."
        if not basis.gives_features:
            remedy = "fit with fewer landmarks, by `n_landmarks`."
    else:
        # The factors so far, moments of the classes, and factors of both.
        r, n_squares, n_held = basis.n_samples, 3 * n_classes, n
        if growth is None:  # features so far, which become sums
            n_held += FEATURE_COPIES * len(process.model.targets)
        elif growth.sums is not None:  # `r` features of more anchors
            r = len(growth.sums.moment)
        what = "The sums of features, to which samples are added,"
        remedy = FEWER_FEATURES
    held = r * ((SQUARE_COPIES + n_squares) * r + n_held)
    return int(held * torch.float64.itemsize), what, remedy


def _read(
    process: Process, problem: Problem, run: Run, generator: Generator
) -> Reading:
    """Return further samples, read as the samples of a process were."""
    if not process.basis.is_streamed:
        return HeldReading.of_more(process, problem, run)
    variance, has_labels = coefficients_of(process).variance, process.labels is not None
    given = problem, source_of(process), run, variance, generator
    return ImageReading.of(*given, has_labels=has_labels, before=process)


def _added(
    reading: Reading, before: Process, amplitude: float | str | None
) -> FeatureSolution:
    """Return the posterior of the samples of a process and of those that were read."""
    if before.labels is None:
        sums, noise = shared_sums(before, reading.device), before.model.noise
        return shared(reading, sums + reading.sums(noise), noise, amplitude)
    own = Coded.of_process(before, reading.device)
    more = reading.class_sums()
    each = own.each(more, more.moments.sum(0))
    known = coded_sums(before, own)
    both = (sums + of_more for sums, of_more in zip(known, each, strict=True))
    return Coded.fitted(own, own.noise, both, more)


def by_columns(
    process: Any, codes: NDArray[np.intp], generator: Generator, run: Run
) -> Process:
    """Return the process of sums of features, so that samples can be added.

    It was fitted to the product of the features of its samples, by labels that are
    followed. `codes` (n,) are those of their classes; the generator draws the samples
    that are kept.
    """
    model, posterior = process.model, process.posterior
    before: Any = process.labels
    likelihood, state = before.likelihood, thaw(process.state, run.config.device)
    features = state.features
    # Equal samples have equal features.
    problem = Problem(
        to_numpy(features), model.targets, model.weights, model.scale, codes
    )
    weights = rows_to_tensor(model.weights)
    targets = likelihood.targets(rows_to_tensor(codes), len(before.offset), weights)
    targets = replace(targets, offset=rows_to_tensor(before.offset))
    labels = NoisyModel(likelihood, targets, weights, problem.inputs)
    require_columns("partial_fit", [labels], problem)
    noise = max(model.noise, SMALLEST_NOISE[features.dtype])
    own = model_of_classes(labels, problem)
    rows = FeatureRows(features, torch.zeros_like(features[:, 0]))
    given = process.basis, rows, state.lift_map, model.mean_diag, "sor"
    reading = HeldReading(problem, *given)
    code = CodedTargets.of(own, posterior.amplitude, noise, features.device)
    sums = reading.class_sums()
    solution = Coded.fitted(code, noise, code.each(sums, sums.moments.sum(0)), sums)
    found = process_of(reading, solution, generator)
    return replace(found, model=replace(model, noise=noise), left_out=process.left_out)
