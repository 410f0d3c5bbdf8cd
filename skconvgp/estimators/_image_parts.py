"""Parts of the sum that an estimator of images fits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from skconvgp._typing import FloatArray, ImageShape
from skconvgp.engine import kernel_shape
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
from skconvgp.image_maps import (
    ChannelComponents,
    ImageBlocks,
    ScatteredFit,
    Scattering,
    Upright,
)
from skconvgp.kernels import (
    FlipAverage,
    Kernel,
    PatchKernel,
    PatchWhitening,
    convnet,
    rbf,
)
from skconvgp.processes import PartChoice, TermChoice

PATCHES = "patches"  # of the pixels, and no other parts
COLORS = 3
# Patches, their location lengthscale as a share of the longer side, their number, and
# places along a side. Chosen on CIFAR-10 and MNIST (docs/adr/image-classifier.md).
COLOR_PATCHES, GREY_PATCHES = (3, 6 / 32, 1024, 4), (5, 3.5 / 28, 256, 5)
# Those of scattering coefficients of colour images, the length of which is 1; the
# lengthscale between them; and what is added to eigenvalues when they are whitened
# (same page).
SCATTERED_PATCHES, UNIT_LENGTHSCALE, SCATTERED_EPS = (1, 1 / 8, 512, 6), 0.7, 3.0
# Angles and largest number of scales of scattering, and fewest positions along a side
# that remain. Components of colours have one scale more.
N_ANGLES, MOST_SCALES, FEWEST_POSITIONS = 8, 2, 4
PAIR = 2
WITH_OPACITY = 4  # channels
ONLY_RBF = "the only part is rbf()"
PARTS = (  # that are expected
    "'auto', 'patches' or a list of kernels and of pairs (transformer or None, "
    "kernel), of skconvgp.transforms and skconvgp.kernels"
)


def are_patches(parts: object) -> bool:
    """Return whether the setting asks for patches of the pixels, and nothing else."""
    return isinstance(parts, str) and parts == PATCHES


def read_parts(given: Given, shape: ImageShape) -> tuple[PartChoice, ...]:
    """Return the parts of a sum for images of a shape (c, h, w)."""
    parts = given["parts"]
    if is_auto(parts):
        return _usual_parts(shape)
    if are_patches(parts):
        return (_patches_alone(given, shape),)
    choices = given.read("parts", _as_parts)
    for choice in choices:
        warn_of_idle(choice.kernel)
        if choice.fit_view is None:  # others are checked once their view is fitted
            _require_kernel(given, choice.kernel, shape)
    return choices


def as_weights(given: Any, n_parts: int) -> FloatArray | None:
    """Return the weights (p,) of the parts, of sum 1; None if they are chosen."""
    if is_auto(given):
        return None
    unfit = UnfitError(f"'auto' or {n_parts} finite numbers >= 0 that are not all 0")
    try:
        weights: FloatArray = np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise unfit from None
    is_usable = weights.shape == (n_parts,) and np.isfinite(weights).all()
    if not is_usable or weights.min() < 0.0 or not weights.any():
        raise unfit
    shares: FloatArray = weights / weights.sum()
    return shares


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


def _usual_parts(shape: ImageShape) -> tuple[PartChoice, ...]:
    """Return the parts of a sum; a kernel for vectors if images are vectors."""
    channels, *size = shape
    if max(size) == 1:
        return (PartChoice(rbf(), name="rbf()"),)
    n_scales, pixels = _scales_of(size), _pixels(shape)
    network, is_color = convnet(depth=2, kernel_size=3), channels == COLORS
    if not n_scales:
        return pixels, PartChoice(network, name="network on pixels")
    if not is_color:
        view = ScatteredFit(Scattering(n_scales, N_ANGLES, order=2))
        upright = replace(view, fit_first=Upright.fit)
        names = "network on scattering", "network on scattering of upright images"
        return (
            pixels,
            PartChoice(network, view, name=names[0]),
            PartChoice(network, upright, name=names[1]),
        )
    views = [
        (n_scales, None),
        (_scales_of(size, MOST_SCALES + 1), ChannelComponents.fit),
        (n_scales - 1, ChannelComponents.fit),
    ]
    return pixels, *(_scattered_patches(size, *view) for view in views if view[0])


def _patches_alone(given: Given, shape: ImageShape) -> PartChoice:
    """Return patches of pixels; raise a ValueError for vectors."""
    if max(shape[1:]) == 1:
        raise ValueError(
            f"parts={PATCHES!r} needs images, and each row of X was read as a vector: "
            f"pass images or set `image_shape`, or take {for_vectors(given)}."
        )
    return _pixels(shape)


def _pixels(shape: ImageShape) -> PartChoice:
    """Return patches of the pixels."""
    channels, *size = shape
    is_color = channels == COLORS
    settings = COLOR_PATCHES if is_color else GREY_PATCHES
    whitening = PatchWhitening(0.03) if is_color else None
    return replace(_patches(size, settings, whitening), name="patches of pixels")


def _scattered_patches(
    size: Sequence[int],
    n_scales: int,
    fit_first: Callable[[ImageBlocks], ChannelComponents] | None,
) -> PartChoice:
    """Return patches of a single position of scattering coefficients."""
    positions = [length // 2**n_scales for length in size]
    part = _patches(positions, SCATTERED_PATCHES, None, rbf(UNIT_LENGTHSCALE))
    view = ScatteredFit(
        Scattering(n_scales, N_ANGLES, order=2),
        eps=SCATTERED_EPS,
        fit_first=fit_first,
        has_unit_length=True,
    )
    of = "channels" if fit_first is None else "components of colours"
    name = f"scattering of {of}, J={n_scales}"
    return replace(part, fit_view=view, name=name)


def _patches(
    size: Sequence[int],
    settings: tuple[int, float, int, int],
    normalization: Any,
    base: Kernel | None = None,
) -> PartChoice:
    """Return patches of images (h, w)."""
    side, share, n_patches, places = settings
    patch_size = tuple(min(side, length) for length in size)
    n_places = tuple(
        min(places, length - patch + 1)
        for length, patch in zip(size, patch_size, strict=True)
    )
    kernel = PatchKernel(
        base,
        patch_size=patch_size,
        location_lengthscale=share * max(size),
        normalization=normalization,
    )
    return PartChoice(kernel, None, TermChoice("kmeans", n_patches, n_places))


def _scales_of(size: Sequence[int], most: int = MOST_SCALES) -> int:
    """Return the scales of scattering for images (h, w); 0 if they are too small."""
    positions = max(1, min(size) // FEWEST_POSITIONS)
    return min(most, positions.bit_length() - 1)


def _as_parts(parts: object) -> tuple[PartChoice, ...]:
    """Return the parts that a setting lists."""
    if not isinstance(parts, tuple | list) or not parts:
        raise UnfitError(PARTS)
    return tuple(map(_as_part, parts))


def _as_part(given: Any) -> PartChoice:
    """Return a part: a kernel, or a transformer and a kernel."""
    pair = given if isinstance(given, tuple | list) else (None, given)
    if len(pair) != PAIR:
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
