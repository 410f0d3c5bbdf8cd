"""Fit of labels that determine their noise, by the features of patches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from skconvgp._tensors import int_range
from skconvgp._typing import FloatArray
from skconvgp.engine import freeze, rows_to_tensor, to_numpy
from skconvgp.inference import (
    ClassSums,
    EqualInputs,
    LabelCode,
)
from skconvgp.linalg import row_factor
from skconvgp.processes._coded_labels import of_outputs
from skconvgp.processes._coefficients import CoefficientPosterior
from skconvgp.processes._feature_label_fit import label_jitter
from skconvgp.processes._fitting import jitter_facts
from skconvgp.processes._label_choice import CHOOSING, amplitude_of_model
from skconvgp.processes._label_functions import (
    Candidate,
    Functions,
    fit_functions,
    kept_state,
)
from skconvgp.processes._label_models import (
    NoisyModel,
    left_out_loss,
    spread_over_classes,
)
from skconvgp.processes._patch_images import unexplained_of
from skconvgp.processes._patch_labels import LabelledImages, PatchLeftOut
from skconvgp.processes._patch_noise import LEAST_NOISE
from skconvgp.processes._patch_prior import PatchPrior
from skconvgp.processes._patch_reading import Reading, sum_classes, unit_of
from skconvgp.processes._problem import Model, Problem, Record, Settings
from skconvgp.processes._process import CodedLabels, Growth, Process
from skconvgp.processes._run import Run, clock


def require_two_levels(model: NoisyModel) -> None:
    """Raise if the noise of a latent function has more than two values.

    Parameters
    ----------
    model : NoisyModel
        Model of a sample of each class.
    """
    if not LabelCode.of(model.targets, 1.0, 0.0).has_two_levels:
        raise ValueError(
            f"{model.likelihood!r} gives a latent function more than two noise "
            "variances. Patches need one for the class of the function, and one for "
            "all other classes: fit ConvNetGPClassifier, or use "
            "likelihood='dirichlet'."
        )


def values_of_labels(
    models: Sequence[NoisyModel], n_features: int, n_samples: int
) -> int:
    """Return the number of values that a fit holds beside one matrix."""
    # A moment for each class, and samples on which an amplitude is chosen.
    n_classes, copies = len(models[0].offset), models[0].n_copies()
    return n_classes * n_features**2 + copies * min(n_samples, CHOOSING) ** 2


@dataclass(frozen=True)
class _Kept:
    """Images whose features are kept.

    Parameters
    ----------
    reading : Reading
        Knows the images and their samples.
    features : Tensor of shape (q, r)
        Their features.
    residual_diag : Tensor of shape (q,)
        Variances that features do not explain, where they are added.
    """

    reading: Reading
    features: Tensor
    residual_diag: Tensor

    @property
    def codes(self) -> NDArray[np.intp]:
        """Class codes of all samples."""
        return self.reading.problem.class_codes

    def candidate(
        self, model: NoisyModel, settings: Settings, mean_diag: float
    ) -> Candidate:
        """Return a model with its amplitude, chosen on the images with each label."""
        subset, noise = self.reading.subset, settings.added_noise
        weights = self.reading.class_weights(len(model.offset))[self.reading.kept]
        images, codes = map(torch.as_tensor, np.nonzero(to_numpy(weights)))
        chosen = spread_over_classes(to_numpy(codes), CHOOSING)
        images, codes = images[chosen], codes[chosen]
        features = self.features[images]
        of_images = replace(
            model.take(codes),
            weights=weights[images, codes],
            inputs=EqualInputs(int_range(len(subset.rows))).take(images),
        )
        gram, of_labels = features @ features.mT, to_numpy(codes)
        amplitude = amplitude_of_model(
            of_images, gram, mean_diag, of_labels, settings.amplitude, noise
        )
        return Candidate.of(model, amplitude, noise, self.features.device)

    def in_few_coordinates(self, n_classes: int) -> tuple[ClassSums, Tensor]:
        """Return sums and features of all images, as many features as images.

        Predictions of the images depend on their features by products alone.
        """
        features = row_factor(self.features)
        weights = self.reading.class_weights(n_classes)
        moments = torch.stack([features.mT * w @ features for w in weights.mT])
        return ClassSums(moments, features.mT @ weights, weights.sum(0)), features

    def left_out(
        self, candidate: Candidate, functions: Functions
    ) -> tuple[FloatArray, FloatArray]:
        """Return leave-one-out means and variances (s, n_outputs) of the samples."""
        labelled = LabelledImages(
            self.reading.subset,
            self.codes,
            self.reading.problem.weights,
            candidate.code,
        )
        marginals = functions.mean, functions.var
        return labelled.leave_out(*marginals, self.residual_diag, candidate.amplitude)

    def loss(self, candidate: Candidate, functions: Functions) -> float:
        """Return the mean log loss of leave-one-out probabilities."""
        samples = self.reading.subset.samples
        mean, var = map(rows_to_tensor, self.left_out(candidate, functions))
        codes = rows_to_tensor(self.codes[samples])
        weights = rows_to_tensor(self.reading.problem.weights[samples])
        return left_out_loss(candidate.model, mean, var, codes, weights, True)


def fit_patch_labels(
    problem: Problem,
    prior: PatchPrior,
    run: Run,
    *,
    models: Sequence[NoisyModel],
    settings: Settings,
    variance: str,
    n_kept: int,
    generator: Generator,
) -> tuple[Process, Record]:
    """Fit every model of the labels; keep the lowest leave-one-out log loss.

    Parameters
    ----------
    problem, prior, run : object
        What to fit, and how.
    models : sequence of NoisyModel
        Candidates, of a sample of each class.
    settings : Settings
        Amplitude, and noise that is added to that of the labels.
    variance : {"dtc", "sor"}
        What becomes of the variance that the features leave out.
    n_kept : int
        Largest number of images whose features are kept.
    generator : torch.Generator
        Draws these images.
    """
    device = run.config.device
    start, n, n_classes = clock(device), len(problem.rows), len(problem.scale)
    reading = Reading.of(problem, 0, n_kept, generator, device)
    prior, mean_diag, explained = unit_of(reading, prior, run)
    sums, features = sum_classes(reading, n_classes, prior, run)
    rows = reading.subset.rows
    residual_diag = unexplained_of(features, rows, prior, mean_diag, variance, run)
    kept = _Kept(reading, features, residual_diag)
    gram_seconds = clock(device) - start

    start = clock(device)
    noise = max(settings.added_noise, LEAST_NOISE)
    settings = replace(settings, noise=noise)
    whole = sums.moments.sum(0)
    best = _best(sums, whole, kept, models, settings, mean_diag)
    factors = sums.factors(best.code)
    functions = fit_functions(best.sums(sums, whole), best.amplitude, features, factors)
    mean, var = kept.left_out(best, functions)
    subset, nothing, dtype = reading.subset, np.empty((0, n_classes)), prior.tile_dtype
    has_one, offset = best.model.has_one_latent, to_numpy(best.model.offset)
    model = Model.of(
        problem,
        mean_diag=mean_diag,
        noise=noise,
        amplitude=np.full(n_classes, best.amplitude),
        evidence=functions.evidence,
    )
    dual = of_outputs(functions.coefficients, n_classes)
    state = kept_state(factors, functions.jitters, n_classes)
    left_out = PatchLeftOut(nothing, nothing, has_noise=False)
    left_out = left_out.followed_by(n, subset.samples, (mean, var))
    images = None if reading.keeps_all else reading.images.in_precision(dtype)
    process = Process(
        model,
        prior,
        CoefficientPosterior(dual, state, variance, has_one),
        replace(left_out, images=images),
        CodedLabels(best.model.likelihood, offset, freeze(best.code), kept.codes),
        Growth(reading.reservoir(0, residual_diag, dtype)),
        unexplained=1.0 - explained,
        has_one_latent=has_one,
    )
    jitter, least_noise = label_jitter(process)
    report = {"jitter": jitter, "explained_variance": explained}
    facts = jitter_facts(jitter, least_noise, prior, run)
    n_pairs, seconds = len(reading.images.rows) * prior.n_samples, clock(device) - start
    return process, Record(n_pairs, gram_seconds, seconds, report, facts)


def _best(
    sums: ClassSums,
    whole: Tensor,
    kept: _Kept,
    models: Sequence[NoisyModel],
    settings: Settings,
    mean_diag: float,
) -> Candidate:
    """Return the candidate with the least leave-one-out log loss."""
    candidates = [kept.candidate(model, settings, mean_diag) for model in models]
    if len(candidates) == 1:
        return candidates[0]
    features = kept.features
    if kept.reading.keeps_all and len(features) < features.shape[1]:
        sums, features = kept.in_few_coordinates(len(sums.weights))
        whole = sums.moments.sum(0)

    def loss(candidate: Candidate) -> float:
        each, amplitude = candidate.sums(sums, whole), candidate.amplitude
        return kept.loss(candidate, fit_functions(each, amplitude, features))

    return min(candidates, key=loss)
