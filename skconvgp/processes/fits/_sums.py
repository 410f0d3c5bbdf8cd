"""Fits by sums over the features of samples.

The posterior follows from sums over the r features of n samples, by r^3 + n r^2
operations in place of n^3. Sums add: a fit begins with none, and an extension with the
sums of the fit. Features of samples are held (`HeldReading`) or read block by block
(`ImageReading`). Targets share one noise (`Shared`), or labels give each function a
noise of its own (`Coded`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from skconvgp._protocols import lift
from skconvgp.engine import rows_to_tensor
from skconvgp.inference import FeatureSums, feature_evidence, feature_posterior
from skconvgp.processes._facts import jitter_facts
from skconvgp.processes._model import Model
from skconvgp.processes._problem import Problem, Record, Settings, fixed_amplitude
from skconvgp.processes._process import Process
from skconvgp.processes._run import (
    EIGEN,
    FEATURES,
    FLOPS,
    IMAGES,
    NOISE,
    SOLVING,
    Run,
    Stage,
    clock,
)
from skconvgp.processes.basis._basis import Basis
from skconvgp.processes.basis._completed import Completed
from skconvgp.processes.fits._coded_choice import solve_labels
from skconvgp.processes.fits._held_rows import HeldReading
from skconvgp.processes.fits._image_rows import ImageReading
from skconvgp.processes.fits._known_noise import profiled
from skconvgp.processes.fits._label_models import LabelModel
from skconvgp.processes.fits._reading import Reading
from skconvgp.processes.posterior._coefficients import (
    CoefficientPosterior,
    coefficients_of,
)
from skconvgp.processes.posterior._left_out_images import ImageSource
from skconvgp.processes.posterior._shared import Shared
from skconvgp.processes.posterior._solutions import FeatureSolution


def feature_stages(
    n: int, r: int, settings: Settings, basis: Basis
) -> tuple[Stage, ...]:
    """Return the stages of a fit by r features of n samples that are all held."""
    products = 2.0 * n * r**2
    noise = [Stage(NOISE, EIGEN * min(n, r) ** 3 + 2.0 * products, FLOPS)]
    return (
        Stage(FEATURES, n, IMAGES, of=basis),
        *(noise if isinstance(settings.noise, str) else []),
        Stage(SOLVING, r**3 + 2.0 * products, FLOPS),
    )


def fit_features(
    problem: Problem,
    basis: Basis,
    run: Run,
    *,
    completed: Completed,
    settings: Settings,
    variance: str,
    models_of: Callable[[Problem], list[LabelModel]] | None = None,
    least_noise: float = 0.0,
    reservoir_generator: Generator | None = None,
) -> tuple[Process, Record]:
    """Fit to a completed matrix, on the host.

    Parameters
    ----------
    problem, basis, run : object
        Problem to fit, and how the entries were computed.
    completed : Completed
        The matrix; its factor is overwritten.
    settings : Settings
        Noise and amplitude.
    variance : {"dtc", "sor", "fitc"}
        How the variance that the features do not explain is treated; labels that
        determine their noise have no "fitc".
    models_of : callable, optional
        Returns candidates for which `follow_labels` holds; by default all targets share
        one noise.
    least_noise : float, default=0.0
        Lower bound of the noise variance.
    reservoir_generator : torch.Generator, optional
        Draws the reservoir; without it, no sample can be added later.
    """
    start = clock(completed.diag.device)
    reading = HeldReading.of_completed(problem, basis, completed, variance, run)
    models = [] if models_of is None else models_of(problem)
    process, record = _fit(
        reading, models, settings, least_noise, run, reservoir_generator, start
    )
    own = {"solver": "Cholesky"} if models else {}
    return process, replace(record, report=record.report | own)


def fit_images(
    problem: Problem,
    source: ImageSource,
    run: Run,
    *,
    models: Sequence[LabelModel],
    settings: Settings,
    variance: str,
    generator: Generator,
    landmarks: NDArray[np.intp] | None = None,
) -> tuple[Process, Record]:
    """Fit to sums over images, of whose features only a few are kept.

    Parameters
    ----------
    problem, source, run : object
        What to fit, by which features, and how.
    models : sequence of NoisyModel
        Candidates, if labels determine their noise.
    settings : Settings
        Noise and amplitude.
    variance : {"dtc", "sor"}
        Treatment of the variance that the features leave out.
    generator : torch.Generator
        Draws the images whose features are kept.
    landmarks : ndarray of shape (m,), optional
        Numbers of landmarks among the different images; others are kept first.
    """
    reading = ImageReading.of(
        problem,
        source,
        run,
        variance,
        generator,
        has_labels=bool(models),
        landmarks=landmarks,
    )
    start = clock(run.config.device)
    process, record = _fit(reading, models, settings, 0.0, run, generator, start)
    explained = {"explained_variance": reading.explained}
    facts = [*record.facts, *reading.facts]
    return process, replace(record, report=record.report | explained, facts=facts)


def _fit(
    reading: Reading,
    models: Sequence[LabelModel],
    settings: Settings,
    least_noise: float,
    run: Run,
    generator: Generator | None,
    start: float,
) -> tuple[Process, Record]:
    """Return the process of the samples that were read."""
    solution: FeatureSolution
    if models:
        run.progress.enter(SOLVING)
        solution = solve_labels(reading, models, settings, least_noise)
    elif reading.problem.noise_variances is not None:
        run.progress.enter(SOLVING)
        generator = None  # the noise of further samples is not known
        reading, solution = _solve_known(reading, settings, least_noise)
    else:
        solution = _solve(reading, settings, least_noise, run)
    process = process_of(reading, solution, generator)
    return process, record_of(reading, solution, run, start)


def _solve(
    reading: Reading, settings: Settings, least_noise: float, run: Run
) -> Shared:
    """Return the posterior of targets that share one noise, which may be chosen."""
    noise = settings.noise
    if isinstance(noise, str):
        run.progress.enter(NOISE)
        fixed = _fixed_amplitude(reading, settings.amplitude)
        noise = reading.choose_noise(noise, fixed)
    noise = max(noise, least_noise, reading.least_noise)
    run.progress.enter(SOLVING)
    return shared(reading, reading.sums(noise), noise, settings.amplitude)


def _solve_known(
    reading: Any, settings: Settings, least_noise: float
) -> tuple[Reading, Shared]:
    """Return the posterior of targets of known noise, and the reading with this noise.

    It is no less than what rounding and the error of a completion allow.
    """
    problem, own = reading.problem, reading.observed(torch.float64)
    amplitude = _fixed_amplitude(reading, settings.amplitude)

    def evidence(amplitude: float) -> Tensor:
        sums = reading.sums(problem.mean_noise / amplitude)
        every = torch.full_like(sums.energy, amplitude)
        return feature_evidence(sums, feature_posterior(sums), every)[0]

    if amplitude is None:
        amplitude = profiled(own.targets, own.weights, evidence)
    size = float(amplitude[0])
    least = max(least_noise, reading.least_noise) * size
    reading = replace(reading, problem=problem.raised(least))
    noise = reading.problem.mean_noise / size
    found = Shared.of(reading.sums(noise), noise, reading.variance, amplitude)
    return reading, found


def _fixed_amplitude(reading: Reading, setting: float | str | None) -> Tensor | None:
    """Return the amplitude (k,) of a setting; None to profile it out."""
    targets = rows_to_tensor(reading.problem.targets[:0]).to(reading.device)
    return fixed_amplitude(setting, reading.mean_diag, targets)


def shared(
    reading: Reading, sums: FeatureSums, noise: float, amplitude: float | str | None
) -> Shared:
    """Return the posterior that follows from sums, with the setting of an amplitude."""
    fixed = _fixed_amplitude(reading, amplitude)
    found = Shared.of(sums, noise, reading.variance, fixed)
    return found if reading.keeps_sums else replace(found, sums=None)


def process_of(
    reading: Reading,
    solution: FeatureSolution,
    generator: Generator | None,
    before: Process | None = None,
) -> Process:
    """Return the process of the samples that were read, and of those before."""
    problem, lift_map = reading.problem, reading.lift_map
    found: dict[str, Any] = {
        "amplitude": solution.amplitudes,
        "evidence": solution.evidence,
    }
    if before is None:
        found |= {"mean_diag": reading.mean_diag, "noise": solution.noise}
        model = Model.of(problem, **found)
        labels = solution.labels(problem.codes, None)
    else:
        model = before.model.extended(problem, **found)
        labels = solution.labels(problem.codes, before.labels)
    coefficients = solution.coefficients
    if lift_map is not None:
        coefficients = lift(lift_map.to(coefficients), coefficients)
    dual, state = solution.of_outputs(coefficients), solution.state(lift_map)
    left_out, growth = reading.left_out(solution, model, labels, generator, before)
    if before is not None:
        posterior = replace(coefficients_of(before), dual=dual, state=state)
        return replace(
            before,
            model=model,
            posterior=posterior,
            left_out=left_out,
            labels=labels,
            growth=growth,
            folded=None,
        )
    has_one = solution.has_one_latent
    return Process(
        model,
        reading.basis,
        CoefficientPosterior(dual, state, reading.variance, has_one),
        left_out,
        labels,
        growth,
        unexplained=1.0 - reading.explained,
        has_one_latent=has_one,
    )


def record_of(
    reading: Reading, solution: FeatureSolution, run: Run, start: float
) -> Record:
    """Return the record of a fit or extension whose solution began at a time."""
    jitter, least_noise = solution.jitter
    facts = jitter_facts(jitter, least_noise, reading.basis, run)
    seconds, report = clock(reading.device) - start, {"jitter": jitter}
    return Record(reading.n_pairs, reading.gram_seconds, seconds, report, facts)
