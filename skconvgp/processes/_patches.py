"""How a process of inducing patches is fitted: one pass over the images."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Generator

from skconvgp.engine import (
    Placement,
    compute_at,
    require_memory,
    to_numpy,
)
from skconvgp.inference import feature_evidence, feature_posterior
from skconvgp.processes._coefficients import CoefficientPosterior, shared_state
from skconvgp.processes._facts import Fact, TooFewPatches
from skconvgp.processes._feature_samples import jitter_of
from skconvgp.processes._fits import Fitted
from skconvgp.processes._fitting import fixed_amplitude, jitter_facts
from skconvgp.processes._inducing_sum import (
    TermChoice,
    choices_with_room,
    choose_inducing,
    missing_patches,
    terms_of,
)
from skconvgp.processes._label_functions import model_of_classes
from skconvgp.processes._label_models import NoisyModel
from skconvgp.processes._patch_label_fit import (
    fit_patch_labels,
    require_two_levels,
    values_of_labels,
)
from skconvgp.processes._patch_labels import PatchLeftOut
from skconvgp.processes._patch_noise import (
    LEAST_NOISE,
    at_noise,
    in_few_coordinates,
    search_noise,
)
from skconvgp.processes._patch_prior import PatchPrior
from skconvgp.processes._patch_reading import Reading, sum_images, unit_of
from skconvgp.processes._prior import KernelPrior
from skconvgp.processes._problem import Model, Problem, Record, Settings, first_of_each
from skconvgp.processes._process import Growth, Process
from skconvgp.processes._run import Resources, Run, clock
from skconvgp.processes._variational_fit import Variational

LEAST_EXPLAINED = 0.5  # of the prior variance; defaults explain .8 and more
# Images whose features are kept, and whose leave-one-out predictions judge the noise
# and calibrate. Those of all would take as long as the fit, mostly for variances.
RESERVOIR = 2000
SQUARE_COPIES = 4  # of the precision, while it is summed and factorised


@dataclass(frozen=True)
class PatchPlan:
    """How a process of inducing patches will be fitted.

    Parameters
    ----------
    prior : PatchPrior
        Inducing patches and places.
    needed : int
        Bytes that a fit holds at once, beside tiles.
    variance : {"dtc", "sor"}
        What becomes of the variance that the features leave out.
    settings : Settings
        Noise and amplitude.
    variational : Variational or None
        Variational inference, from that process on.
    models : tuple of NoisyModel
        Candidates, if labels determine their noise.
    report : dict
        What the report of a fit says of the inducing patches.
    """

    prior: PatchPrior
    needed: int
    variance: str
    settings: Settings
    variational: Variational | None
    models: tuple[NoisyModel, ...]
    report: dict[str, Any]

    def fit(self, problem: Problem, resources: Resources) -> tuple[Fitted, Run]:
        """Return the fitted process, and how it was computed."""
        models = [model_of_classes(model, problem) for model in self.models]
        for model in models:
            require_two_levels(model)

        def fit_at(placement: Placement) -> tuple[Fitted, Run]:
            n_matrices = f"{len(problem.scale)} matrices" if models else "matrix"
            what = f"The {n_matrices} of {self.prior.n_samples} features"
            remedy = "lower `n_inducing` or `n_locations`."
            require_memory(self.needed, placement.device, what, remedy)
            run = resources.run(placement, self.needed)
            prior = resources.with_precision(self.prior, run)
            prior.choice(run)  # this and the next line raise before any work
            prior.images_at_once(run.config)
            generator = resources.generator()
            options: Any = {
                "settings": self.settings,
                "variance": self.variance,
                "generator": generator,
            }
            if models:
                process, record = fit_patch_labels(
                    problem, prior, run, models=models, n_kept=RESERVOIR, **options
                )
            else:
                process, record = fit_patches(problem, prior, run, **options)
                if self.variational is not None:
                    process, record = self.variational.fit(
                        problem, process, record, run, generator
                    )
            record = replace(record, report=record.report | self.report)
            return Fitted(process, record, np.arange(len(problem.rows))), run

        return compute_at(resources.placement(self.needed), fit_at)


def plan_patches(
    prior: KernelPrior,
    settings: Settings,
    variance: str,
    choices: tuple[TermChoice, ...],
    generator: Generator,
    variational: Variational | None = None,
    models: tuple[NoisyModel, ...] = (),
) -> PatchPlan:
    """Choose inducing patches and places.

    Parameters
    ----------
    prior : KernelPrior
        The kernel with the training images.
    settings : Settings
        Noise and amplitude.
    variance : {"dtc", "sor"}
        What becomes of the variance that the features leave out.
    choices : tuple of TermChoice
        How inducing patches and places are chosen, for each term of the kernel.
    generator : torch.Generator
        Source of randomness.
    variational : Variational, optional
        Variational inference, if it follows.
    models : tuple of NoisyModel, default=()
        Candidates, if labels determine their noise.
    """
    terms, n = terms_of(prior.kernel), prior.n_samples
    # Different ones, so that weights stand for repetitions
    images = prior.images(prior.rows[first_of_each(prior.rows)])
    n_images = len(images)

    def bytes_of(r: int) -> int:
        n_values = SQUARE_COPIES * r**2 + min(n, RESERVOIR) * r
        if models:
            n_values += values_of_labels(models, r, n)
        if variational is not None:
            n_values = max(n_values, variational.n_values(r))
        return n_values * torch.float64.itemsize

    choices, reason = choices_with_room(
        terms, choices, prior.image_shape, n_images, bytes_of
    )
    inducing = choose_inducing(terms, choices, images, generator)
    needed = bytes_of(inducing.n_features)
    empty = prior.take(np.arange(0))
    patch_prior = PatchPrior(inducing, empty)
    report = {
        "n_inducing": tuple(len(term.patches) for term in inducing.terms),
        "inducing_reason": missing_patches(inducing, choices, n_images) or reason,
    }
    return PatchPlan(
        patch_prior, needed, variance, settings, variational, models, report
    )


def fit_patches(
    problem: Problem,
    prior: PatchPrior,
    run: Run,
    *,
    settings: Settings,
    variance: str,
    generator: Generator,
) -> tuple[Process, Record]:
    """Fit to sums over images, of whose features only a few are kept.

    Parameters
    ----------
    problem, prior, run : object
        What to fit, and how.
    settings : Settings
        Noise and amplitude.
    variance : {"dtc", "sor"}
        What becomes of the variance that the features leave out.
    generator : torch.Generator
        Draws the images whose features are kept.
    """
    device = run.config.device
    start, n = clock(device), len(problem.rows)
    reading = Reading.of(problem, 0, RESERVOIR, generator, device)
    prior, mean_diag, explained = unit_of(reading, prior, run)
    sums, features = sum_images(reading, prior, run)
    known = reading.known(features, prior, mean_diag, variance, run)
    subset = reading.subset
    gram_seconds = clock(device) - start

    start = clock(device)
    amplitude = settings.amplitude
    fixed = fixed_amplitude(amplitude, mean_diag, reading.data.targets)
    noise = settings.noise
    if isinstance(noise, str):
        judged = sums, known
        if reading.keeps_all:
            judged = in_few_coordinates(*judged)
        noise = search_noise(*judged, noise, fixed)
    noise = max(noise, LEAST_NOISE)
    posterior = feature_posterior(at_noise(sums, noise))
    evidence, profiled = feature_evidence(at_noise(sums, noise), posterior, fixed)
    model = Model.of(
        problem,
        mean_diag=mean_diag,
        noise=noise,
        amplitude=to_numpy(profiled),
        evidence=float(evidence.sum()),
    )
    loo = known.left_out(posterior, noise)
    mean, var = subset.values_of_samples(loo, known.residual_diag, model)
    nothing = np.empty((0, len(problem.scale))), np.empty(0)
    images, dtype = reading.images, prior.tile_dtype
    left_out = PatchLeftOut(*nothing, has_noise=True)
    left_out = left_out.followed_by(n, subset.samples, (mean, var))
    others = None if reading.keeps_all else images.in_precision(dtype)
    dual, state = to_numpy(posterior.mean), shared_state(posterior, None)
    process = Process(
        model,
        prior,
        CoefficientPosterior(dual, state, variance),
        replace(left_out, images=others),
        growth=Growth(reading.reservoir(0, known.residual_diag, dtype)),
        unexplained=1.0 - explained,
    )
    jitter = jitter_of(posterior, noise)
    report = {"jitter": jitter, "explained_variance": explained}
    facts = jitter_facts(jitter, noise, prior, run)
    facts += _patch_facts(explained, variance)
    n_pairs = len(images.rows) * prior.n_samples
    seconds = clock(device) - start
    return process, Record(n_pairs, gram_seconds, seconds, report, facts)


def _patch_facts(explained: float, variance: str) -> list[Fact]:
    """Return a fact if much of the prior variance is ignored."""
    is_ignored = variance == "sor" and explained < LEAST_EXPLAINED
    return [TooFewPatches(explained)] if is_ignored else []
