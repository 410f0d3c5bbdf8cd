"""Plan of a fit by inducing patches: one pass over the images."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from skconvgp.engine import Size
from skconvgp.processes._plan import PATCHES, Fitted, Plan
from skconvgp.processes._problem import Problem, Settings, first_of_each
from skconvgp.processes._run import (
    FEATURES,
    FLOPS,
    IMAGES,
    NOISE,
    SOLVING,
    VARIANCES,
    Resources,
    Run,
    Stage,
)
from skconvgp.processes.basis._inducing_sum import (
    TermChoice,
    choices_with_room,
    choose_inducing,
    choosing_flops,
    missing_patches,
    terms_of,
)
from skconvgp.processes.basis._patch_basis import PatchBasis
from skconvgp.processes.basis._patch_features import Root, usual_root
from skconvgp.processes.basis._plain import KernelBasis
from skconvgp.processes.fits._coded_choice import (
    SQUARE_COPIES,
    values_of_labels,
)
from skconvgp.processes.fits._image_rows import KEPT_IMAGES, VARIANCE_IMAGES
from skconvgp.processes.fits._label_models import NoisyModel
from skconvgp.processes.fits._sums import fit_images
from skconvgp.processes.fits._variational_fit import Variational

CHOOSING = "choice of patches"  # a stage, before the others
SUMS = "sums of products"  # a stage
DTC = "dtc"  # the treatment that needs variances of images that are kept
FEW = 64  # images from which patches are drawn for an outline
NOISES_TRIED = 5  # by a search for the noise, about


def plan_patches(
    basis: KernelBasis,
    settings: Settings,
    variance: str,
    choices: tuple[TermChoice, ...],
    resources: Resources,
    variational: Variational | None = None,
    models: tuple[NoisyModel, ...] = (),
    *,
    root: Root = usual_root,
    is_outline: bool = False,
) -> Plan:
    """Choose inducing patches and places.

    Parameters
    ----------
    basis : KernelBasis
        The kernel with the training images.
    settings : Settings
        Noise and amplitude.
    variance : {"dtc", "sor"}
        Treatment of the variance that the features leave out.
    choices : tuple of TermChoice
        How inducing patches and places are chosen, for each term of the kernel.
    resources : Resources
        Source of randomness.
    variational : Variational, optional
        Variational inference, if it follows.
    models : tuple of NoisyModel, default=()
        Candidates, if labels determine their noise.
    root : callable, default=usual_root
        Whitens features.
    is_outline : bool, default=False
        Whether patches are only drawn, in no time, for a plan that is not carried out.
    """
    terms, n = terms_of(basis.kernel), basis.n_samples
    # Different ones, so that weights stand for repetitions
    first = first_of_each(basis.rows)
    n_images = len(first)

    def n_values(r: int) -> int:
        held = SQUARE_COPIES * r**2 + min(n, KEPT_IMAGES) * r
        if models:
            held += values_of_labels(models, r, n)
        if variational is not None:
            held = max(held, variational.n_values(r))
        return held

    choices, reason = choices_with_room(
        terms,
        choices,
        basis.image_shape,
        n_images,
        lambda r: n_values(r) * torch.float64.itemsize,
    )
    drawn, channels = choices, basis.image_shape[0]
    if is_outline:
        first, drawn = (
            first[:FEW],
            tuple(one.outline(n_images, channels) for one in choices),
        )
    images = basis.images(basis.rows[first])
    inducing = choose_inducing(terms, drawn, images, resources.generator(), root)
    r, n_matrices = inducing.n_features, "matrix"
    held = n_values(r)
    patch_basis = PatchBasis(inducing, basis.take(np.arange(0)))
    report = {
        "n_inducing": tuple(len(term.patches) for term in inducing.terms),
        "inducing_reason": missing_patches(inducing, choices, n_images) or reason,
    }
    flops = choosing_flops(inducing, choices, n_images)
    stages = _stages(n, patch_basis, settings, variance, models, variational)
    if models:
        n_matrices = f"{len(models[0].offset)} matrices"
    return Plan(
        n,
        Size(held, held, 0),
        partial(_fit, settings, variance, resources, variational, models, report),
        patch_basis,
        remedy="lower `n_inducing` or `n_locations`.",
        user=f"The {n_matrices} of {r} features",
        dtype=torch.float64,
        way=PATCHES,
        stages=(Stage(CHOOSING, flops, FLOPS), *stages),
        known=report,
    )


def _fit(
    settings: Settings,
    variance: str,
    resources: Resources,
    variational: Variational | None,
    models: tuple[NoisyModel, ...],
    report: dict[str, Any],
    problem: Problem,
    basis: PatchBasis,
    run: Run,
) -> Fitted:
    """Fit a process of patches, and perhaps a variational one from it on."""
    basis.choice(run)  # this and the next line raise before any work
    basis.images_at_once(run.config)
    n = len(problem.rows)
    run.progress.expect(*_stages(n, basis, settings, variance, models, variational))
    generator = resources.generator()
    process, record = fit_images(
        problem,
        basis,
        run,
        models=models,
        settings=settings,
        variance=variance,
        generator=generator,
    )
    if variational is not None:
        process, record = variational.fit(problem, process, record, run, generator)
    record = replace(record, report=record.report | report)
    return Fitted(process, record, np.arange(len(problem.rows)))


def _stages(
    n: int,
    basis: PatchBasis,
    settings: Settings,
    variance: str,
    models: tuple[NoisyModel, ...],
    variational: Variational | None,
) -> list[Stage]:
    """Return the stages of a fit: each function has a matrix if labels have models."""
    r = basis.n_samples
    n_kept = min(n, KEPT_IMAGES)

    n_sums = 2.0 * max(1, len(models) and len(models[0].offset))
    n_variances = min(n, VARIANCE_IMAGES) + (variance == DTC) * n_kept

    def algebra(r: int) -> float:  # a posterior, and predictions of what is left out
        return float(r**3 + n_kept * r**2)

    solving, noise = algebra(r), 0.0
    if models:
        solving *= 2.0 * len(models) * len(models[0].offset)
    elif isinstance(settings.noise, str):
        noise = NOISES_TRIED * algebra(min(r, n) if n_kept == n else r)
    return [
        Stage(FEATURES, n, IMAGES, of=basis),
        Stage(VARIANCES, n_variances, VARIANCES, of=basis, is_told=False),
        Stage(SUMS, n_sums * n * r**2, FLOPS, is_told=False),
        *([Stage(NOISE, noise, FLOPS)] if noise else []),
        Stage(SOLVING, solving, FLOPS),
        *([] if variational is None else [variational.stage(n)]),
    ]
