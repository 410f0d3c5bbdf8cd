"""Rows that are added to the training samples: further versions of their images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from skconvgp._protocols import Augmentation
from skconvgp._typing import ImageShape
from skconvgp.completion import CoarseKernel
from skconvgp.engine import rows_to_images, to_numpy
from skconvgp.estimators._doors import Samples
from skconvgp.estimators.settings._checks import Given, UnfitError
from skconvgp.processes import KernelBasis, Parts, Problem


def augmented(
    given: Given, problem: Problem, samples: Samples, parts: Parts
) -> tuple[Problem, Samples]:
    """Return a problem with further versions of its images as rows.

    The samples come first, and then versions of all of them, in the same order. Each
    row of an image has an equal share of its weight.
    """
    chosen = given.read("augment", _as_augmentations)
    if not chosen:
        return problem, samples
    basis = _require_able(given, problem, samples, parts)
    for one in chosen:
        one.check(basis.image_shape)
    rows = _versions(chosen, problem.rows, basis.image_shape)
    count = len(rows) // len(problem.rows)
    basis = replace(basis, rows=rows, indices=np.tile(basis.indices, count))
    own = problem.noise_variances
    problem = replace(
        problem,
        rows=rows,
        targets=np.tile(problem.targets, (count, 1)),
        weights=np.tile(problem.weights / count, count),
        codes=None if problem.codes is None else np.tile(problem.codes, count),
        n_versions=count,
        noise_variances=None if own is None else np.tile(own, count),
    )
    return problem, replace(samples, basis=basis)


def versions_of(
    given: Given, rows: NDArray[Any], image_shape: ImageShape, count: int
) -> NDArray[Any]:
    """Return rows (n, d) of new images, and then versions of all of them.

    They are `count` versions with the images themselves, as in the fit.
    """
    found = _versions(given.read("augment", _as_augmentations), rows, image_shape)
    if len(found) != count * len(rows):
        raise ValueError(
            f"augment={given['augment']!r} is not that of `fit`, with which an image "
            f"had {count} versions: set it back, or fit again."
        )
    return found


def _versions(
    chosen: Sequence[Augmentation], rows: NDArray[Any], image_shape: ImageShape
) -> NDArray[Any]:
    """Return rows (n, d), followed by versions of all of them."""
    versions = [rows_to_images(rows, image_shape)]
    for one in chosen:
        versions += [new for old in versions for new in one.versions(old)]
    return to_numpy(torch.cat(versions)).reshape(-1, rows.shape[1])


def _as_augmentations(augment: object) -> Sequence[Augmentation]:
    """Return the augmentations that a setting names."""
    if augment is None:
        return ()
    chosen: Sequence[Any] = augment if isinstance(augment, list | tuple) else [augment]
    for one in chosen:
        if isinstance(one, type) or not isinstance(one, Augmentation):
            raise UnfitError(
                "None, a part of skconvgp.augmentation such as Flip(), or a list"
            )
    if not chosen or any(one in chosen[:i] for i, one in enumerate(chosen)):
        raise UnfitError("None for no versions, or a list of different parts")
    return chosen


def _require_able(
    given: Given, problem: Problem, samples: Samples, parts: Parts
) -> KernelBasis:
    """Return the basis; raise for settings that know no versions of images."""
    name = f"augment={given['augment']!r}"
    models = parts.models_of(problem)
    basis: KernelBasis | None = samples.basis.kernel_basis
    if basis is None:
        raise ValueError(
            f"{name} changes images, and kernel='precomputed' has none: pass a kernel "
            "object, or the Gram matrix of all versions with augment=None."
        )
    if basis.image_shape[1:] == (1, 1):
        raise ValueError(
            f"{name} changes images, and samples of X are read as vectors of "
            f"{basis.image_shape[0]} values: pass images (n, h, w) or (n, c, h, w), or "
            "set `image_shape`."
        )
    if given["optimizer"] is not None:
        raise ValueError(
            f"{name} needs optimizer=None, got {given['optimizer']!r}: learn the "
            "kernel with augment=None, and fit again with that `kernel_`."
        )
    if not isinstance(parts.completion, CoarseKernel | None):
        raise ValueError(  # noqa: TRY004  (a wrong combination, not a wrong type)
            f"{name} needs the whole Gram matrix, got completion={parts.completion!r}, "
            "which would take versions of one image for different samples: use "
            "completion=None, or FlipAverage(kernel) as the kernel."
        )
    if models:
        raise ValueError(
            f"{name} needs a likelihood whose targets share one noise variance, such "
            f"as 'gaussian', got {models[0].likelihood!r}."
        )
    return basis
