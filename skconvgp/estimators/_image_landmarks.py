"""How many images of a sum of parts are landmarks, and why."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from skconvgp.estimators._warn import warn_caller
from skconvgp.estimators.compute._resources import EstimatorResources
from skconvgp.estimators.settings._checks import as_count, is_auto
from skconvgp.processes import (
    HELD,
    LandmarkFit,
    PartsFit,
    Problem,
    missing_memory,
)

MOST_SUMMED = 8000  # images whose matrix is factorised
# Landmarks of more images: as many, so that accuracy does not fall where the number of
# images passes the limit. They take about as long as features of all images.
LANDMARKS, LEAST_LANDMARKS = MOST_SUMMED, 500
FEWER = 0.8  # times as many landmarks are tried next, if memory is missing
OF_LANDMARKS = "those of {} landmarks"


@dataclass(frozen=True)
class Landmarks:
    """How many landmarks a sum has; 0 if it is exact, None if there is no room."""

    count: int | None
    reason: str = ""


def as_landmarks(given: object) -> int | None:
    """Return a number of landmarks; None if it is chosen."""
    if is_auto(given):
        return None
    return as_count(given, "'auto' or ")


def landmarks_of(
    whole: PartsFit,
    problem: Problem,
    wanted: int | None,
    resources: EstimatorResources,
    *,
    is_first: bool,
) -> Landmarks:
    """Return how many different images are landmarks of a sum.

    `wanted` is the setting, None for "auto". Further images may follow the first ones.
    """
    n_inputs = problem.inputs.n_inputs
    if wanted is not None:
        if is_first and n_inputs < wanted:
            warn_of_first_images(n_inputs, wanted)
        if n_inputs <= wanted and not is_first:
            return Landmarks(0)
        count = min(n_inputs, wanted)
        return Landmarks(count, f"{count} landmarks, by n_landmarks={wanted}")
    n = whole.images.n_samples
    if n > MOST_SUMMED:
        why = f"an exact sum is for at most {MOST_SUMMED} images"
    elif missing := missing_memory(whole.route(resources).size, resources, HELD):
        why = missing
    else:
        return Landmarks(0)
    count = min(LANDMARKS, n_inputs)
    least = min(count, LEAST_LANDMARKS)
    short = ""
    while missing := missing_memory(
        LandmarkFit(whole, count).size,
        resources,
        OF_LANDMARKS.format(count),
        torch.float64,
    ):
        if count == least:
            return Landmarks(None, f"{why}; {missing}")
        count, short = max(least, int(FEWER * count)), f"; {missing}"
    return Landmarks(count, f"{count} landmarks: {why}{short}")


def warn_of_first_images(n_first: int, wanted: int) -> None:
    """Warn that a first batch has too few images for the landmarks of all."""
    warn_caller(
        "Landmarks are images of the first call of `partial_fit`, which has "
        f"{n_first} different ones, fewer than n_landmarks={wanted}: begin with a "
        "larger batch.",
        UserWarning,
    )
