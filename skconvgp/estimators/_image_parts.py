"""Parts of the sum that an estimator of images fits."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from skconvgp._settings import as_float
from skconvgp._typing import FloatArray, ImageShape
from skconvgp.engine import kernel_shape
from skconvgp.estimators._dictionary import Dictionary
from skconvgp.estimators._image_part import ImagePart
from skconvgp.estimators._validation import warn_of_idle
from skconvgp.estimators._views import TransformerFit
from skconvgp.estimators._warn import warn_once
from skconvgp.estimators.settings._checks import (
    Given,
    UnfitError,
    is_auto,
    is_kernel,
)
from skconvgp.exceptions import ImageShapeWarning
from skconvgp.kernels import FlipAverage, Kernel, PatchKernel, PatchWhitening
from skconvgp.processes import PartChoice

ROUNDING = 1e-9  # of a sum of shares
PATCHES = "patches"  # of the pixels, and no other parts
COUPLE = 2  # a transformer and a kernel
WITH_OPACITY = 4  # channels
ONLY_RBF = "the only part is rbf()"
PARTS = (  # that are expected
    "'auto', 'patches' or a list of 'auto', of kernels, of pairs (transformer or None, "
    "kernel) and of ImagePart(name, transformer or None, kernel, cost), of "
    "skconvgp.transforms and skconvgp.kernels, with different names"
)


def are_patches(parts: object) -> bool:
    """Return whether the setting asks for patches of the pixels, and nothing else."""
    return isinstance(parts, str) and parts == PATCHES


def read_parts(
    given: Given, shape: ImageShape, n_images: int
) -> tuple[PartChoice, ...]:
    """Return the parts of a sum for so many images of a shape (c, h, w)."""
    parts, made = given["parts"], Dictionary(shape, n_images)
    if is_auto(parts):
        return _usual_parts(made)
    if are_patches(parts):
        return (_patches_alone(given, made),)
    choices = given.read("parts", _as_parts, made=made)
    for choice in choices:
        warn_of_idle(choice.kernel)
        if choice.fit_view is None:  # others are checked once their view is fitted
            _require_kernel(given, choice.kernel, shape)
    return choices


def as_shares(given: Any, names: Sequence[str]) -> FloatArray:
    """Return the weights (p,) of parts with names; NaN for those that are chosen.

    Weights of a list are scaled to the sum 1.
    """
    n_parts = len(names)
    if is_auto(given):
        return np.full(n_parts, np.nan)
    if isinstance(given, Mapping):
        return _named_shares(given, names)
    unfit = UnfitError(
        f"'auto', {n_parts} finite numbers >= 0 that are not all 0, or a dict of names "
        "of parts and their shares"
    )
    try:
        weights: FloatArray = np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise unfit from None
    is_usable = weights.shape == (n_parts,) and np.isfinite(weights).all()
    if not is_usable or weights.min() < 0.0 or not weights.any():
        raise unfit
    shares: FloatArray = weights / weights.sum()
    return shares


def _named_shares(given: Mapping[Any, Any], names: Sequence[str]) -> FloatArray:
    """Return the weights (p,) of parts; NaN for those that are not named."""
    shares = np.full(len(names), np.nan)
    known = ", ".join(map(repr, names))
    for name, share in given.items():
        if name not in names:
            raise UnfitError(f"a dict with names of parts, which are {known}")
        if list(names).count(name) > 1:
            raise UnfitError(
                f"a dict with names of single parts, and several are called {name!r}: "
                "name each of them by ImagePart"
            )
        number = as_float(share)
        if not 0.0 <= number <= 1.0:
            raise UnfitError("a dict with shares from 0 to 1")
        shares[names.index(name)] = number
    total, is_free = float(np.nansum(shares)), np.isnan(shares)
    if total > 1.0 + ROUNDING:
        raise UnfitError("a dict with shares whose sum is at most 1")
    if is_free.any() and total > 1.0 - ROUNDING:
        raise UnfitError("a dict with shares of a sum below 1, as others are chosen")
    if not is_free.any():
        if not total:
            raise UnfitError("a dict that does not forbid every part")
        shares /= total
    return shares


def preferred_shares(shares: FloatArray, choices: Sequence[PartChoice]) -> FloatArray:
    """Return weights (p,) of parts, if those that are NaN cannot be chosen."""
    is_free, found = np.isnan(shares), np.array(shares)
    wanted = np.array([choice.preference for choice in choices])[is_free]
    found[is_free] = (1.0 - np.nansum(shares)) * wanted / wanted.sum()
    return found


def as_mirrors(
    flips: object, shape: ImageShape, *, can_judge: bool
) -> tuple[bool, ...]:
    """Return whether mirror images are averaged over; both values if it is chosen."""
    if not isinstance(flips, bool | np.bool_) and not is_auto(flips):
        raise UnfitError("'auto', True or False")
    if shape[2] == 1:  # each is its own mirror image
        return (False,)
    if is_auto(flips):
        return (False, True) if can_judge else (False,)
    return (bool(flips),)


def with_flips(kernel: Kernel) -> FlipAverage:
    """Return the average of the usual kernel of patches over mirror images."""
    if isinstance(kernel, PatchKernel):
        whitening = kernel.normalization
        if isinstance(whitening, PatchWhitening):
            kernel = replace(kernel, normalization=replace(whitening, flips=True))
    return FlipAverage(kernel)


def warn_of_kind(
    given: Given, shape: ImageShape, choices: Sequence[PartChoice]
) -> None:
    """Warn of vectors, and of images with a channel that is no colour."""
    channels, *size = shape
    if max(size) == 1:
        spatial = [one.kernel for one in choices if _reads_positions(one)]
        is_asked_for = given["image_shape"] is None
        if spatial or (is_auto(given["parts"]) and not is_asked_for):
            seen = f"{spatial[0]!r} sees a single pixel" if spatial else ONLY_RBF
            warn_once(
                f"Rows of X were read as vectors: {seen}. Pass images or set "
                f"`image_shape`, or take {for_vectors(given)}, which is for "
                "vectors.",
                ImageShapeWarning,
            )
    elif channels == WITH_OPACITY and is_auto(given["parts"]):
        warn_once(
            f"Images of shape {shape!r} (c, h, w) have the parts of grey images, as "
            "those of colours are for three channels. If the last channel is the "
            "opacity (alpha), drop it: X[:, :3] of images (n, 4, h, w). If it is not, "
            "name `parts`.",
            ImageShapeWarning,
        )


def _reads_positions(choice: PartChoice) -> bool:
    """Return whether a part compares positions of images that no view shows it."""
    return choice.fit_view is None and choice.kernel.is_spatial


def _usual_parts(made: Dictionary) -> tuple[PartChoice, ...]:
    """Return the parts of a sum; a kernel for vectors if images are vectors."""
    return (made.vectors(),) if max(made.shape[1:]) == 1 else made.parts()


def _patches_alone(given: Given, made: Dictionary) -> PartChoice:
    """Return patches of pixels; raise a ValueError for vectors."""
    if max(made.shape[1:]) == 1:
        raise ValueError(
            f"parts={PATCHES!r} needs images, and each row of X was read as a vector: "
            f"pass images or set `image_shape`, or take {for_vectors(given)}."
        )
    return made.pixels()


def _as_parts(parts: object, made: Dictionary) -> tuple[PartChoice, ...]:
    """Return the parts that a setting lists."""
    if not isinstance(parts, tuple | list) or not parts:
        raise UnfitError(PARTS)
    choices: list[PartChoice] = []
    for one in parts:
        choices += _usual_parts(made) if is_auto(one) else [_as_part(one)]
    names = Counter(choice.name for choice in choices)
    is_named_twice = any(
        isinstance(one, ImagePart) and names[one.name] > 1 for one in parts
    )
    if is_named_twice or sum(map(is_auto, parts)) > 1:
        raise UnfitError(PARTS)
    return tuple(choices)


def _as_part(given: Any) -> PartChoice:
    """Return a part: one with a name, a kernel, or a transformer and a kernel."""
    if isinstance(given, ImagePart):
        return replace(
            _as_part((given.view, given.kernel)),
            name=_as_name(given.name),
            cost=_as_cost(given.cost),
        )
    pair = given if isinstance(given, tuple | list) else (None, given)
    if len(pair) != COUPLE:
        raise UnfitError(PARTS)
    transformer, kernel = pair
    is_transformer = transformer is None or (
        hasattr(transformer, "transform") and not isinstance(transformer, type)
    )
    if not is_kernel(kernel) or not is_transformer:
        raise UnfitError(PARTS)
    name = type(kernel).__name__
    if transformer is None:
        return PartChoice(kernel, name=name)
    name = f"{name} on {type(transformer).__name__}"
    return PartChoice(kernel, TransformerFit(transformer), name=name)


def _as_name(name: object) -> str:
    if not isinstance(name, str) or not name:
        raise UnfitError("ImagePart with a text as `name`")
    return name


def _as_cost(cost: object) -> float:
    number = as_float(cost)
    if not 0.0 <= number < math.inf:
        raise UnfitError("ImagePart with a finite number >= 0 as `cost`")
    return number


def _require_kernel(given: Given, kernel: Kernel, shape: ImageShape) -> None:
    """Raise a ValueError if a kernel cannot be used on images of a shape."""
    try:
        kernel.check(kernel_shape(kernel, shape))
    except ValueError as error:
        if max(shape[1:]) > 1:
            raise
        raise ValueError(
            f"{error} Each row of X was read as a vector: pass images or set "
            f"`image_shape`, or take {for_vectors(given)} for vectors."
        ) from error


def for_vectors(given: Given) -> str:
    """Return the estimator that vectors want in place of one of images."""
    kind = "Classifier" if "likelihood" in given.values else "Regressor"
    return f"ConvNetGP{kind}(rbf())"
