"""Fit of labels that determine their noise, by columns of features.

A label gives each latent function a target and a noise, so that all that the posterior
needs are the sums of features over the samples of each class: n r^2 operations, and
n r^2 + r^3 for each class, in place of n^3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Generator, Tensor

from skconvgp._protocols import lift
from skconvgp._tensors import int_range
from skconvgp._typing import FloatArray
from skconvgp.engine import freeze, rows_to_tensor, slices, to_numpy, to_tensor
from skconvgp.inference import ClassMoments, ClassSums, LabelCode
from skconvgp.processes._coded_labels import left_out_outputs, of_outputs
from skconvgp.processes._coefficients import CoefficientPosterior, coefficients_of
from skconvgp.processes._completed import Completed
from skconvgp.processes._expansion import ExpansionPrior
from skconvgp.processes._feature_samples import FeatureRows, FeatureSites, Reservoir
from skconvgp.processes._features import SMALLEST_NOISE
from skconvgp.processes._fitting import jitter_facts, require_finite_noise
from skconvgp.processes._grown import coded_labels
from skconvgp.processes._label_choice import CHOOSING, amplitude_of_model
from skconvgp.processes._label_functions import (
    Candidate,
    Functions,
    fit_functions,
    kept_state,
    model_of_classes,
)
from skconvgp.processes._label_models import (
    LabelModel,
    NoisyModel,
    left_out_loss,
    spread_over_classes,
)
from skconvgp.processes._prior import PlainPrior
from skconvgp.processes._problem import Model, Problem, Record, Settings
from skconvgp.processes._process import CodedLabels, Growth, KeptLeftOut, Process
from skconvgp.processes._run import Run, clock

# Samples whose left-out log loss chooses a likelihood.
JUDGED = 5000
SQUARE_COPIES = 4  # of the precision of a function, while it is summed and factorised
COLUMN_COPIES = 8  # of a value for each sample and class: targets, sites, predictions
MATRICES = 2  # of all samples, which a fit without columns takes
ROWS = 4096  # of features that are summed at a time


def follow_labels(models: Sequence[LabelModel], problem: Problem) -> bool:
    """Return whether targets and noise of a sample follow from its label alone."""
    codes = rows_to_tensor(problem.class_codes)
    for model in models:
        if not isinstance(model, NoisyModel):
            return False
        own = model_of_classes(model, problem).targets
        assert own.noise is not None
        assert model.targets.noise is not None
        is_same = torch.equal(own.values[codes], model.targets.values)
        if not (is_same and torch.equal(own.noise[codes], model.targets.noise)):
            return False
    return bool(models)


def require_columns(name: str, models: Sequence[LabelModel], problem: Problem) -> None:
    """Raise if labels need more than sums over the samples of each class."""
    if models and not follow_labels(models, problem):
        raise ValueError(
            f"{name} needs a likelihood that turns each label into targets, such as "
            f"'gaussian' or 'dirichlet', got {models[0].likelihood!r}: fit "
            "ConvNetGPClassifier exactly, or with completion=Nystrom()."
        )


def columns_pay(n_classes: int, n_features: int, n_samples: int) -> bool:
    """Return whether columns of features take less than the matrix of all samples.

    Each class has r^2 numbers, and r^2 operations for each sample; all classes share
    about two matrices of n^2.
    """
    return n_classes * n_features**2 <= MATRICES * n_samples**2


def values_of_classes(
    models: Sequence[LabelModel], problem: Problem, n_features: int
) -> int:
    """Return the number of values that a fit holds beside the features.

    Parameters
    ----------
    models : sequence of LabelModel
        Candidates, for which `follow_labels` holds.
    problem : Problem
        The samples.
    n_features : int
        Number of features.
    """
    n, n_classes, n_squares = len(problem.rows), len(problem.scale), 1
    for model in models:
        assert isinstance(model, NoisyModel)
        targets = model_of_classes(model, problem).targets
        if not LabelCode.of(targets, 1.0, 0.0).has_two_levels:
            n_squares = 2  # factors do not overwrite the moments of classes
    held = (SQUARE_COPIES + n_squares * n_classes) * n_features**2
    return held + COLUMN_COPIES * n * n_classes + 2 * min(n, CHOOSING) ** 2


def fit_feature_labels(
    problem: Problem,
    prior: PlainPrior | ExpansionPrior,
    run: Run,
    *,
    completed: Completed,
    models_of: Callable[[Problem], list[LabelModel]],
    settings: Settings,
    variance: str,
    least_noise: float = 0.0,
    reservoir_generator: Generator | None = None,
) -> tuple[Process, Record]:
    """Fit every model of the labels; keep the lowest leave-one-out log loss.

    Parameters
    ----------
    problem, prior, run, completed : object
        As for `fit_features`.
    models_of : callable
        Returns the candidates, for which `follow_labels` holds.
    settings : Settings
        Amplitude, and noise added to that of the labels.
    variance : {"dtc", "sor"}
        As for `fit_features`, without "fitc".
    least_noise, reservoir_generator : object
        As for `fit_features`.
    """
    gram, device = completed.gram, completed.diag.device
    start, n_classes = clock(device), len(problem.scale)
    require_finite_noise(1.0 / run.tensor(problem.weights))
    mean_diag, features, residual_diag, lift_map = completed.in_units_(problem)
    residual_diag = residual_diag if variance == "dtc" else 0.0 * residual_diag
    noise = max(
        float(settings.added_noise), least_noise, SMALLEST_NOISE[features.dtype]
    )
    rows = FeatureRows(features, residual_diag)
    sums = sum_by_class(problem, features, n_classes)
    settings = replace(settings, noise=noise)
    candidates = _candidates(models_of(problem), problem, features, mean_diag, settings)
    best = _best(candidates, problem, rows, sums, prior.knows_variances)
    process = fit_candidate(
        best,
        problem,
        prior.take(to_numpy(gram.anchors)),
        mean_diag,
        noise,
        rows,
        sums,
        lift_map,
        variance,
        reservoir_generator,
    )
    jitter, least_noise = label_jitter(process)
    facts = jitter_facts(jitter, least_noise, prior, run)
    report = {"jitter": jitter, "solver": "Cholesky"}
    seconds = completed.seconds, clock(device) - start
    return process, Record(gram.n_evaluated, *seconds, report, facts)


def fit_candidate(
    candidate: Candidate,
    problem: Problem,
    prior: PlainPrior | ExpansionPrior,
    mean_diag: float,
    noise: float,
    rows: FeatureRows,
    sums: ClassSums,
    lift_map: Tensor,
    variance: str,
    generator: Generator | None,
) -> Process:
    """Return the process of one likelihood and amplitude; overwrites the sums.

    Parameters
    ----------
    candidate : Candidate
        The likelihood.
    problem : Problem
        The samples.
    prior : object
        Gives features of new samples, or covariances with the landmarks.
    mean_diag, noise : float
        As in `Model`.
    rows : FeatureRows
        Features of the samples.
    sums : ClassSums
        Their sums.
    lift_map : Tensor
        As in `FeatureState`.
    variance : {"dtc", "sor"}
        How the variance that the features do not explain is treated.
    generator : torch.Generator or None
        Draws the samples that are kept, if others can be added.
    """
    n_classes, whole = len(candidate.model.offset), sums.moments.sum(0)
    each, factors = candidate.sums(sums, whole), sums.factors(candidate.code)
    functions = fit_functions(each, candidate.amplitude, rows.features, factors)
    data = FeatureSites.of(rows.features, rows.residual_diag, problem, candidate.code)
    coefficients, growth = functions.coefficients, None
    if generator is not None:
        reservoir = freeze(Reservoir.of(data, 0, generator))
        growth = Growth(reservoir, coefficients=to_numpy(coefficients))
    dual = of_outputs(lift(lift_map.to(coefficients), coefficients), n_classes)
    state = kept_state(factors, functions.jitters, n_classes, lift_map)
    has_one, offset = candidate.model.has_one_latent, candidate.model.offset
    model = Model.of(
        problem,
        mean_diag=mean_diag,
        noise=noise,
        amplitude=np.full(n_classes, candidate.amplitude),
        evidence=functions.evidence,
    )
    loo = left_out_rows(data, functions, candidate.amplitude, n_classes)
    return Process(
        model,
        prior,
        CoefficientPosterior(dual, state, variance, has_one),
        KeptLeftOut(*loo, has_noise=False),
        CodedLabels(
            candidate.model.likelihood,
            to_numpy(offset),
            freeze(candidate.code),
            np.asarray(problem.class_codes),
        ),
        growth,
        has_one_latent=has_one,
    )


def label_jitter(process: Process) -> tuple[float, float]:
    """Return the noise with the effect of the largest jitter, and the least noise."""
    least_noise = coded_labels(process).least_noise
    return coefficients_of(process).jitter * least_noise, least_noise


def sum_by_class(problem: Problem, features: Tensor, n_classes: int) -> ClassSums:
    """Return sums over the samples of each class, of features (n, r)."""
    n, r = features.shape
    moments = ClassMoments.empty(n_classes, r, torch.float64, features.device)
    weights = to_tensor(problem.weights, features.device)
    codes = to_tensor(np.asarray(problem.class_codes), features.device)
    labels = int_range(n_classes, features.device)
    for part in slices(n, ROWS):
        of_class = (codes[part, None] == labels) * weights[part, None]
        moments.add(features[part].to(torch.float64), of_class)
    return moments.finish()


def _candidates(
    models: list[LabelModel],
    problem: Problem,
    features: Tensor,
    mean_diag: float,
    settings: Settings,
) -> list[Candidate]:
    """Return models of the labels, each with an amplitude that few samples choose."""
    amplitude, noise = settings.amplitude, settings.added_noise
    chosen = spread_over_classes(problem.class_codes, CHOOSING)
    codes = problem.class_codes[to_numpy(chosen)]
    few = features[chosen.to(features.device)].to(torch.float64)
    gram, found = few @ few.mT, []
    for model in models:
        assert isinstance(model, NoisyModel)
        own = model.take(chosen)
        value = amplitude_of_model(own, gram, mean_diag, codes, amplitude, noise)
        of_classes = model_of_classes(model, problem)
        found.append(Candidate.of(of_classes, value, noise, features.device))
    return found


def _best(
    candidates: list[Candidate],
    problem: Problem,
    rows: FeatureRows,
    sums: ClassSums,
    knows_variances: bool,
) -> Candidate:
    """Return the candidate with the least leave-one-out log loss."""
    if len(candidates) == 1:
        return candidates[0]
    whole = sums.moments.sum(0)
    judged = spread_over_classes(problem.class_codes, JUDGED)
    codes = rows_to_tensor(problem.class_codes)[judged]
    weights = rows_to_tensor(problem.weights)[judged]

    def loss(one: Candidate) -> float:
        data = FeatureSites.of(rows.features, rows.residual_diag, problem, one.code)
        data = data.take(judged.to(rows.features.device))
        functions = fit_functions(one.sums(sums, whole), one.amplitude, data.features)
        found = left_out_rows(data, functions, one.amplitude, len(problem.scale))
        mean, var = map(torch.as_tensor, found)
        return left_out_loss(one.model, mean, var, codes, weights, knows_variances)

    return min(candidates, key=loss)


def left_out_rows(
    data: FeatureSites, functions: Functions, amplitude: float, n_outputs: int
) -> tuple[FloatArray, FloatArray]:
    """Return leave-one-out means and variances (n, n_outputs) of samples."""
    residual_diag = data.residual_diag.to(functions.var)
    marginals = functions.mean, functions.var
    return left_out_outputs(data.sites, *marginals, residual_diag, amplitude, n_outputs)
