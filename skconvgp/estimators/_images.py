"""How an estimator of images is fitted: its parts, exactly or by landmarks."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skconvgp._typing import FloatArray
from skconvgp.estimators._fitting import FitData, PlannedFit
from skconvgp.estimators._image_landmarks import (
    MOST_SUMMED,
    Landmarks,
    as_landmarks,
    landmarks_of,
)
from skconvgp.estimators._image_parts import (
    PATCHES,
    are_patches,
    as_mirrors,
    as_shares,
    for_vectors,
    preferred_shares,
    read_parts,
    warn_of_kind,
    with_flips,
)
from skconvgp.estimators._report import FitReport
from skconvgp.estimators._views import TransformedView
from skconvgp.estimators._warn import warn_caller
from skconvgp.estimators.compute._resources import EstimatorResources
from skconvgp.estimators.settings._checks import Given, is_auto
from skconvgp.estimators.settings._gp import can_choose_noise
from skconvgp.kernels import Kernel
from skconvgp.processes import (
    FEATURES,
    IMAGES,
    NOISE,
    NOT_KEPT,
    SOLVING,
    FoldedBasis,
    KernelBasis,
    LandmarkFit,
    PartsBasis,
    PartsFit,
    Plan,
    Problem,
    Stage,
    judged_images,
    missing_memory,
    plan_patches,
    require_common_noise,
)
from skconvgp.solvers import Cholesky

# Images are seen with at most so many pixels as a square of this side has, and with no
# longer side; above the last one they are reduced with a warning.
SEEN_SIDE, LONGEST, LARGEST_SIDE = 96, 192, 224
MIRRORS = "mirror images"  # a stage
JUDGING = 3  # images for each one that judges: as it is, and with its mirror image


def plan_image_fit(
    data: FitData,
    *,
    keeps_left_out: bool = False,
    is_first: bool = False,
    is_outline: bool = False,
) -> PlannedFit:
    """Plan a fit of the sum of parts, exactly or by landmarks, or of patches alone.

    Models of labels that determine their own noise are refused. `keeps_left_out` says
    whether leave-one-out values are used after the fit, and `is_first` whether further
    images may be added. An outline is not carried out: it takes no time.
    """
    settings, problem, samples = data.settings, data.problem, data.samples
    require_common_noise(settings.owner, data.models)
    resources, basis = EstimatorResources(settings), _reduced(samples.basis)
    shape = basis.map_shape
    choices = read_parts(settings, shape, problem.inputs.n_inputs)
    warn_of_kind(settings, shape, choices)
    can_judge = can_choose_noise(problem)
    names = [choice.name for choice in choices]
    shares = settings.read("part_weights", as_shares, names=names)
    if not can_judge:
        shares = preferred_shares(shares, choices)
    mirrors = settings.read("flips", as_mirrors, shape=shape, can_judge=can_judge)
    used, reason = settings.for_problem(problem, samples.training, has_labels=False)
    has_labels = problem.codes is not None
    whole = PartsFit(
        basis, choices, used, shares, mirrors, keeps_left_out, has_labels=has_labels
    )
    report: dict[str, Any] = {"kernel_reason": ""}
    marks = _landmarks(settings, whole, problem, resources, is_first=is_first)
    if marks.count is None:
        plan, of_parts = _plan_patches_alone(
            whole, problem, resources, is_outline=is_outline
        )
        report |= of_parts
    elif marks.count:
        plan = LandmarkFit(whole, marks.count).plan(resources)
    else:
        plan = whole.plan(resources)
    reasons = _why_vectors(settings, shape), marks.reason
    report["parts_reason"] = "; ".join(one for one in reasons if one)
    return PlannedFit(data, plan, resources, reason, report=report)


def has_sums(estimator: Any) -> bool:
    """Return whether there are sums over images, to which others can be added.

    Raises
    ------
    AttributeError
        If there are none, with the remedy: `partial_fit` is then no method.
    """
    process = getattr(estimator, "_process", None)
    if process is not None and process.growth is not None:
        return True
    if process is None and (
        are_patches(estimator.parts) or not is_auto(estimator.n_landmarks)
    ):
        return True
    if process is not None and process.basis.gives_means:
        raise AttributeError(NOT_KEPT.format("the sums to which images are added"))
    raise AttributeError(
        "`partial_fit` adds to sums over images, which patches and landmarks have: use "
        f"parts={PATCHES!r} or a number as `n_landmarks`, or fit to more than "
        f"{MOST_SUMMED} images first. An exact sum of parts needs all images at once."
    )


def parts_used(basis: Any) -> list[tuple[Any, Kernel]]:
    """Return the view of the images, or None, and the kernel of each part."""
    if not isinstance(basis, PartsBasis | FoldedBasis):
        return [(None, basis.kernel_basis.kernel)]
    return [
        (
            part.view.transformer
            if isinstance(part.view, TransformedView)
            else part.view,
            part.kernel_basis.kernel,
        )
        for part in basis.parts
    ]


def weights_used(report: FitReport) -> FloatArray:
    """Return the weights of the parts that are not 0."""
    weights = np.array(report.part_weights)
    return weights[weights > 0.0]


def _reduced(basis: Any) -> KernelBasis:
    """Return the images, reduced if they have many pixels; warn of very large ones."""
    reduced: KernelBasis = basis
    height, width = reduced.image_shape[1:]
    pool = max(math.sqrt(height * width) / SEEN_SIDE, max(height, width) / LONGEST)
    if pool <= 1.0:
        return reduced
    if pool == int(pool) and (height % pool or width % pool):
        pool = math.nextafter(pool, math.inf)  # so that all areas are equal
    found = replace(reduced, pool=pool)
    if max(height, width) > LARGEST_SIDE:
        _, *seen = found.map_shape
        warn_caller(
            f"Images of shape {reduced.image_shape!r} are reduced to {seen[0]} x "
            f"{seen[1]} pixels by averages over areas. That saves no memory for what "
            f"X holds: read images of at most {LARGEST_SIDE} pixels a side.",
            UserWarning,
        )
    return found


def _why_vectors(given: Given, shape: tuple[int, int, int]) -> str:
    if max(shape[1:]) > 1 or not is_auto(given["parts"]):
        return ""
    return (
        "rows were read as vectors, so that the only part is rbf(), as in "
        f"{for_vectors(given)}"
    )


def _landmarks(
    settings: Given,
    whole: PartsFit,
    problem: Problem,
    resources: EstimatorResources,
    *,
    is_first: bool,
) -> Landmarks:
    """Return how many landmarks a sum has; None for patches alone."""
    parts = settings["parts"]
    wanted = settings.read("n_landmarks", as_landmarks)
    if are_patches(parts):
        if wanted is not None:
            settings.reject("n_landmarks", f"'auto' with parts={PATCHES!r}")
        return Landmarks(None, f"patches alone, by parts={PATCHES!r}")
    found = landmarks_of(whole, problem, wanted, resources, is_first=is_first)
    if found.count is not None:
        return found
    may_be_alone = len(whole.choices) > 1 and whole.shares[0] != 0.0
    if is_auto(parts) and may_be_alone:
        return Landmarks(None, f"patches alone: {found.reason}")
    return Landmarks(0)


def _plan_patches_alone(
    whole: PartsFit,
    problem: Problem,
    resources: EstimatorResources,
    *,
    is_outline: bool,
) -> tuple[Plan, dict[str, Any]]:
    """Return the plan of patches in place of all parts, and a report of the parts."""
    judging = tuple[Stage, ...]()
    if is_outline and len(whole.mirrors) > 1:
        is_mirrored, few = True, judged_images(problem, resources)
        judging = _judging_patches(whole, few).plan(resources).stages
    else:
        is_mirrored = _mirrors_patches(whole, problem, resources)
    patches, *others = whole.choices
    kernel = with_flips(patches.kernel) if is_mirrored else patches.kernel
    basis = replace(whole.images, kernel=kernel).resolved()
    choice = patches.inducing._replace(n_inducing=None)
    plan = plan_patches(
        basis, whole.settings, "dtc", (choice,), resources, is_outline=is_outline
    )
    report = {
        "part_weights": (1.0, *(0.0 for _ in others)),
        "part_names": tuple(choice.name for choice in whole.choices),
        "part_costs": tuple(choice.cost for choice in whole.choices),
        "is_mirrored": is_mirrored,
    }
    stages = (*judging, *plan.stages)
    return replace(plan, solver=Cholesky(), stages=stages), report


def _judging_patches(whole: PartsFit, indices: NDArray[np.intp]) -> PartsFit:
    """Return the fit of patches to the images that judge, at these indices."""
    return replace(
        whole,
        images=whole.images.take(indices),
        choices=whole.choices[:1],
        shares=np.ones(1),
        keeps_left_out=False,
    )


def _mirrors_patches(
    whole: PartsFit, problem: Problem, resources: EstimatorResources
) -> bool:
    """Return whether patches alone are averaged over mirror images.

    A fit to the images that judge decides, if there is room for it.
    """
    if len(whole.mirrors) == 1:
        return whole.mirrors[0]
    n = whole.images.n_samples
    indices = judged_images(problem, resources)
    judging = _judging_patches(whole, indices)
    if missing_memory(judging.size, resources):
        return False
    few = problem.take(indices, is_precomputed=False)
    resources.progress.expect(
        Stage(MIRRORS, JUDGING * len(indices), IMAGES),
        Stage(FEATURES, n, IMAGES),
        Stage(NOISE),
        Stage(SOLVING),
    )
    with resources.progress.inside(MIRRORS):
        fitted, _ = judging.plan(resources).fit(few, resources)
    return bool(fitted.record.report["is_mirrored"])
