"""Choice of a likelihood whose labels give targets and noise, by sums of classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from skconvgp._protocols import Targets
from skconvgp._tensors import int_range
from skconvgp.engine import rows_to_tensor
from skconvgp.inference import ClassSums, Coefficients, EqualInputs, LabelCode
from skconvgp.processes._problem import Problem, Settings
from skconvgp.processes.fits._feature_rows import taken
from skconvgp.processes.fits._label_choice import CHOOSING
from skconvgp.processes.fits._label_models import LabelModel, NoisyModel, left_out_loss
from skconvgp.processes.fits._reading import Reading
from skconvgp.processes.posterior._coded import (
    Coded,
    CodedTargets,
    marginals,
    posteriors,
)

SQUARE_COPIES = 4  # of the precision of a function, while it is summed and factorised
COLUMN_COPIES = 8  # of a value for each sample and class: targets, sites, predictions
MATRICES = 2  # of all samples, which a fit without columns takes


def model_of_classes(model: NoisyModel, problem: Problem) -> NoisyModel:
    """Return the model of a sample of each class, given the model of all samples."""
    n_classes = len(model.offset)
    every = int_range(n_classes)
    codes = torch.cat([rows_to_tensor(problem.class_codes), every])
    # Classes are added with weights of zero, so that none is missing.
    weights = torch.cat([model.weights, model.weights.new_zeros(n_classes)])
    targets: Any = model.likelihood.targets(codes, n_classes, weights)
    own = Targets(targets.values[-n_classes:], model.offset, targets.noise[-n_classes:])
    return NoisyModel(
        model.likelihood,
        own,
        torch.ones(n_classes, dtype=torch.float64, device="cpu"),
        EqualInputs(every),
    )


def follow_labels(models: Sequence[LabelModel], problem: Problem) -> bool:
    """Return whether targets and noise of a sample follow from its label alone."""
    codes = rows_to_tensor(problem.class_codes)
    for model in models:
        if not isinstance(model, NoisyModel):
            return False
        own = model_of_classes(model, problem)
        is_same = torch.equal(own.targets.values[codes], model.targets.values)
        if not (is_same and torch.equal(own.noise[codes], model.noise)):
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


def values_of_classes(models: Sequence[Any], problem: Problem, n_features: int) -> int:
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
        targets = model_of_classes(model, problem).targets
        if not LabelCode.of(targets, 1.0, 0.0).has_two_levels:
            n_squares = 2  # factors do not overwrite the moments of classes
    held = (SQUARE_COPIES + n_squares * n_classes) * n_features**2
    return held + COLUMN_COPIES * n * n_classes + 2 * min(n, CHOOSING) ** 2


def require_two_levels(models: Sequence[NoisyModel], problem: Problem) -> None:
    """Raise if the noise of a latent function has more than two values."""
    for model in models:
        own = model_of_classes(model, problem).targets
        if not LabelCode.of(own, 1.0, 0.0).has_two_levels:
            raise ValueError(
                f"{model.likelihood!r} gives a latent function more than two noise "
                "variances. Patches need one for the class of the function, and one "
                "for all other classes: fit ConvNetGPClassifier, or use "
                "likelihood='dirichlet'."
            )


def values_of_labels(
    models: Sequence[NoisyModel], n_features: int, n_samples: int
) -> int:
    """Return the number of values that a fit holds beside one matrix."""
    # A moment for each class, and samples on which an amplitude is chosen.
    n_classes, copies = len(models[0].offset), models[0].n_copies()
    return n_classes * n_features**2 + copies * min(n_samples, CHOOSING) ** 2


def solve_labels(
    reading: Reading, models: Sequence[Any], settings: Settings, least_noise: float
) -> Coded:
    """Return the posterior by the model with the lowest leave-one-out log loss.

    Parameters
    ----------
    reading : Reading
        The samples.
    models : sequence of LabelModel
        Candidates, for which `follow_labels` holds.
    settings : Settings
        Amplitude, and noise that is added to that of the labels.
    least_noise : float
        Lower bound of that noise.
    """
    noise = max(float(settings.added_noise), least_noise, reading.least_noise)
    sums = reading.class_sums()
    whole, labelled = sums.moments.sum(0), reading.labelled()
    candidates = []
    for model in models:
        own = model_of_classes(model, reading.problem)
        value = labelled.amplitude(own, reading.mean_diag, settings.amplitude, noise)
        candidates.append(CodedTargets.of(own, value, noise, sums.moments.device))
    best = candidates[0]
    if len(candidates) > 1:
        best = _best(reading, candidates, sums, whole)
    return Coded.fitted(best, noise, best.each(sums, whole), sums)


def _best(
    reading: Reading, candidates: list[CodedTargets], sums: ClassSums, whole: Tensor
) -> CodedTargets:
    """Return the candidate with the least leave-one-out log loss."""
    judged, rows, chosen = reading.judged(sums)
    if judged is not sums:
        whole = judged.moments.sum(0)
    observed = reading.observed(sums.moments.dtype)
    codes = observed.codes[chosen].to("cpu")
    weights = observed.weights[chosen].to("cpu")

    def loss(one: CodedTargets) -> float:
        each = (
            Coefficients(own.factor, own.mean[:, 0])
            for own, _ in posteriors(one.each(judged, whole), one.amplitude)
        )
        found, leaving = marginals(each, rows.features), one.leaving(observed)
        left_out = one.left_out(
            found, rows.residual_diag, taken(leaving, chosen), observed.of
        )
        mean, var = map(rows_to_tensor, left_out)
        return left_out_loss(
            one, mean, var, codes, weights, reading.basis.knows_variances
        )

    return min(candidates, key=loss)
