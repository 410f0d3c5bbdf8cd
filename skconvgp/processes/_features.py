"""Fit of targets with one noise, if covariances are products of features.

A completed Gram matrix is F F^T, so that the posterior of n samples follows from sums
over the r columns of F: r^3 + n r^2 operations in place of n^3.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Generator, Tensor

from skconvgp._protocols import lift
from skconvgp.engine import freeze, to_numpy
from skconvgp.inference import (
    EqualInputs,
    feature_evidence,
    feature_posterior,
    select_feature_noise,
    select_fitc_noise,
)
from skconvgp.processes._coefficients import CoefficientPosterior, shared_state
from skconvgp.processes._completed import Completed
from skconvgp.processes._expansion import ExpansionPrior
from skconvgp.processes._feature_samples import (
    FeatureSamples,
    Reservoir,
    jitter_of,
    left_out_values,
    sums_of,
)
from skconvgp.processes._fitting import fixed_amplitude, jitter_facts
from skconvgp.processes._prior import PlainPrior
from skconvgp.processes._problem import Model, Problem, Record, Settings
from skconvgp.processes._process import Growth, KeptLeftOut, Process
from skconvgp.processes._run import Run, clock

# Below this noise, rounding hides the identity in I + F^T F / noise:
# docs/maths.rst, "Columns of landmarks".
SMALLEST_NOISE = {torch.float64: 1e-10, torch.float32: 1e-6}
FEATURE_COPIES = 2  # of features, and of their products
FEWER_FEATURES = (
    "fit with fewer features or landmarks, or fewer samples at once, or, if classes "
    "have a noise each, with likelihood='gaussian'."
)


def fit_features(
    problem: Problem,
    prior: PlainPrior | ExpansionPrior,
    run: Run,
    *,
    completed: Completed,
    settings: Settings,
    variance: str,
    least_noise: float = 0.0,
    reservoir_generator: Generator | None = None,
) -> tuple[Process, Record]:
    """Fit to a completed matrix, on the host.

    Parameters
    ----------
    problem, prior, run : object
        Problem to fit, and how the entries were computed.
    completed : Completed
        The matrix; its factor is overwritten.
    settings : Settings
        Noise and amplitude.
    variance : {"dtc", "sor", "fitc"}
        How the variance that the features do not explain is treated.
    least_noise : float, default=0.0
        Lower bound of the noise variance.
    reservoir_generator : torch.Generator, optional
        Draws the reservoir; without it, no sample can be added later.
    """
    gram, diag = completed.gram, completed.diag
    start = clock(diag.device)
    mean_diag, features, residual_diag, lift_map = completed.in_units_(problem)
    data = FeatureSamples.of(features, problem, residual_diag)
    amplitude = fixed_amplitude(settings.amplitude, mean_diag, data.targets)
    noise = settings.noise
    if isinstance(noise, str):
        precision = prior.precision(run.config)
        inputs = problem.inputs.to(diag.device)
        noise = _chosen_noise(data, noise, amplitude, variance, precision, inputs)
    noise = max(noise, least_noise, SMALLEST_NOISE[data.targets.dtype])
    sums = sums_of(data, noise, variance)
    posterior = feature_posterior(sums)
    evidence, amplitude = feature_evidence(sums, posterior, amplitude)
    loo = left_out_values(data, posterior, noise, variance)
    model = Model.of(
        problem,
        mean_diag=mean_diag,
        noise=noise,
        amplitude=to_numpy(amplitude),
        evidence=float(evidence.sum()),
    )
    growth = None
    if reservoir_generator is not None:
        reservoir = Reservoir.of(data, 0, reservoir_generator)
        growth = Growth(freeze(reservoir), freeze(sums))
    dual = to_numpy(lift(lift_map, posterior.mean))
    process = Process(
        model,
        prior.take(to_numpy(gram.anchors)),
        CoefficientPosterior(dual, shared_state(posterior, lift_map), variance),
        KeptLeftOut(*loo, has_noise=True),
        growth=growth,
    )
    jitter = jitter_of(posterior, noise)
    seconds, report = clock(diag.device) - start, {"jitter": jitter}
    facts = jitter_facts(jitter, noise, prior, run)
    record = Record(gram.n_evaluated, completed.seconds, seconds, report, facts)
    return process, record


def _chosen_noise(
    data: FeatureSamples,
    criterion: str,
    amplitude: Tensor | None,
    variance: str,
    precision: torch.dtype,
    inputs: EqualInputs,
) -> float:
    select = partial(select_feature_noise, data.features)
    if variance == "fitc":
        select = partial(select_fitc_noise, data.features, data.residual_diag)
    return select(
        data.targets,
        data.weights,
        criterion=criterion,
        amplitude=amplitude,
        precision=precision,
        inputs=inputs,
    )
