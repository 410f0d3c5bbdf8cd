"""Inducing variables of sums of kernels, term by term.

The formulas: docs/maths.rst, "Patches".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple, Self

import torch
from torch import Generator, Tensor

from skconvgp._typing import ImageShape, Scalar
from skconvgp.backends import ResponsesChoice
from skconvgp.engine import free_memory, gibibytes, require_memory
from skconvgp.kernels import (
    FlipAverage,
    Kernel,
    OrbitAverage,
    PatchKernel,
    Scale,
    Sum,
)
from skconvgp.kernels._checks import plain_value
from skconvgp.kernels._orbits import same_maps
from skconvgp.kernels._patches import COLOR_CHANNELS
from skconvgp.processes.basis._chosen_patches import (
    DRAWN,
    GRAM_COPIES,
    KMEANS,
    LEARNED,
    choose_patches,
    flops_of_choice,
)
from skconvgp.processes.basis._inducing import (
    Inducing,
    InducingSet,
    place_locations,
)
from skconvgp.processes.basis._patch_features import Root, usual_root

# Inducing patches of at least so many images, and of so many with three channels.
USUAL_PATCHES = {0: 128, 5000: 256}
COLOR_PATCHES = USUAL_PATCHES | {20_000: 400}
FEWER_PATCHES = (256, 128, 64, 32)  # if memory does not allow these
HOST = torch.device("cpu")


class Term(NamedTuple):
    """A term of a sum: a kernel, and its factor.

    Parameters
    ----------
    factor : float or Tensor
        The factor; a tensor if it is differentiated.
    kernel : Kernel
        Neither a sum, nor scaled, nor an average over orbits.
    maps : str, object, list or None
        Maps of the images over which it is averaged; None for none.
    """

    factor: Scalar
    kernel: Kernel
    maps: Any

    def of_patches(self, image_shape: ImageShape) -> PatchKernel:
        """Return the kernel; a kernel of whole images sees them as their only patch."""
        if isinstance(self.kernel, PatchKernel):
            return self.kernel
        size = image_shape[1:]
        return PatchKernel(
            self.kernel, patch_size=size, normalization=None, location_lengthscale=None
        )


class TermChoice(NamedTuple):
    """How the inducing variables of a term are chosen.

    Parameters
    ----------
    inducing : str or ndarray of shape (m, c', ph, pw)
        How patches are chosen, or patches.
    n_inducing : int or None
        Number of patches; None follows the number of images and channels.
    n_locations : "auto" or tuple of int
        Number of places along each side.
    """

    inducing: Any
    n_inducing: int | None
    n_locations: Any

    @property
    def learns_patches(self) -> bool:
        """Whether the patches are learned."""
        return isinstance(self.inducing, str) and self.inducing == LEARNED

    def outline(self, n_images: int, channels: int) -> Self:
        """Return the choice of as many patches from few images, in no time."""
        if not self.is_searched:
            return self
        n_wanted = self.n_wanted(n_images, channels)
        return self._replace(inducing="uniform", n_inducing=n_wanted)

    @property
    def is_searched(self) -> bool:
        """Whether the patches are centres, which take time to find."""
        return isinstance(self.inducing, str) and self.inducing in (KMEANS, LEARNED)

    def n_wanted(self, n_images: int, channels: int) -> int:
        """Return how many patches are drawn from so many images; 0 if none are."""
        if not (isinstance(self.inducing, str) and self.inducing in DRAWN):
            return 0
        return self.n_inducing or usual_patches(n_images, channels)


@dataclass(frozen=True)
class InducingSum:
    """Inducing variables of a sum of kernels, whose functions are independent."""

    terms: tuple[InducingSet, ...]

    @property
    def n_features(self) -> int:
        """Number r of features of an image."""
        return sum(term.n_features for term in self.terms)

    @property
    def n_numbers(self) -> tuple[int, int]:
        """How many numbers are held at once: for each image, and for all of them."""
        of_images, shared = zip(*(term.n_numbers for term in self.terms), strict=True)
        return max(of_images), max(shared)

    def choice(
        self, backend: str, device: torch.device, dtype: torch.dtype
    ) -> ResponsesChoice:
        """Return the backend of the slowest term; raise if a term has none."""
        choices = [term.choice(backend, device, dtype) for term in self.terms]
        return max(choices, key=lambda one: one.name == "torch")

    def in_units(self, unit: float) -> Self:
        """Return the same with features for a mean prior variance `unit`."""
        return replace(self, terms=tuple(term.in_units(unit) for term in self.terms))

    def features(self, *versions: Tensor, backend: str, dtype: torch.dtype) -> Tensor:
        """Return the features (n, r) of images (n, c, h, w), term by term."""
        of_terms = [
            term.features(*versions, backend=backend, dtype=dtype)
            for term in self.terms
        ]
        return torch.cat(of_terms, 1)

    def variances(self, images: Tensor, backend: str) -> Tensor:
        """Return prior variances (n,) of images (n, c, h, w), for a unit of 1."""
        return torch.stack(
            [term.variances(images, backend) for term in self.terms]
        ).sum(0)


def terms_of(
    kernel: Kernel, factor: Scalar = 1.0, *, maps: Any = None
) -> tuple[Term, ...]:
    """Return the terms of a kernel, also of nested sums."""
    if isinstance(kernel, FlipAverage | OrbitAverage):
        if maps is not None and not same_maps(maps, kernel.maps):
            raise ValueError(
                f"{kernel!r} stands within another average: the estimators of patches "
                "take one over all maps."
            )
        return terms_of(kernel.kernel, factor, maps=kernel.maps)
    if isinstance(kernel, Scale):
        factor = factor * kernel.factor
        return terms_of(kernel.kernel, factor, maps=maps)
    if isinstance(kernel, Sum):
        terms = (terms_of(p, factor, maps=maps) for p in kernel.parts)
        return tuple(chain.from_iterable(terms))
    return (Term(factor, kernel, maps),)


def usual_patches(n_images: int, channels: int) -> int:
    """Return the number of inducing patches that "auto" stands for."""
    numbers = COLOR_PATCHES if channels == COLOR_CHANNELS else USUAL_PATCHES
    return max(many for least, many in numbers.items() if n_images >= least)


def choices_with_room(
    terms: tuple[Term, ...],
    choices: tuple[TermChoice, ...],
    image_shape: ImageShape,
    n_images: int,
    bytes_of: Callable[[int], int],
) -> tuple[tuple[TermChoice, ...], str]:
    """Return choices whose numbers of patches "auto" are lowered to the free memory.

    Parameters
    ----------
    terms, choices : tuple
        The terms of a kernel, and how to choose for each.
    image_shape : (c, h, w)
        Shape of the images.
    n_images : int
        Number of training images.
    bytes_of : callable
        Returns the bytes that a fit with so many features holds.

    Returns
    -------
    choices : tuple of TermChoice
        The choices.
    reason : str
        Why a number was lowered; empty if none was.
    """
    usual, free = usual_patches(n_images, image_shape[0]), free_memory(HOST)
    is_free = [one.n_inducing is None and bool(one.n_wanted(1, 1)) for one in choices]
    if not any(is_free):
        return choices, ""

    def bytes_with(n_patches: int) -> int:
        n_features = 0
        for term, choice, is_open in zip(terms, choices, is_free, strict=True):
            kernel = term.of_patches(image_shape)
            places = math.prod(place_locations(kernel, image_shape, choice.n_locations))
            m = n_patches if is_open else choice.n_wanted(n_images, image_shape[0])
            n_features += kernel.grid(image_shape).n_groups * places * m
        return bytes_of(n_features)

    fewer = (m for m in FEWER_PATCHES if m < usual and bytes_with(m) <= free)
    needed = bytes_with(usual)
    if needed <= free or (chosen := next(fewer, None)) is None:
        return choices, ""
    reason = f"{usual} need {gibibytes(needed)} and {gibibytes(free)} are free"
    return tuple(
        choice._replace(n_inducing=chosen) if is_open else choice
        for choice, is_open in zip(choices, is_free, strict=True)
    ), reason


def missing_patches(
    inducing: Inducing, choices: tuple[TermChoice, ...], n_images: int
) -> str:
    """Return why there are fewer inducing patches than are wanted; empty if not."""
    pairs = [
        (len(term.patches), choice.n_wanted(n_images, term.image_shape[0]))
        for term, choice in zip(inducing.terms, choices, strict=True)
    ]
    fewer = [f"{m} of {wanted}" for m, wanted in pairs if m < wanted]
    return f"only {' and '.join(fewer)} differ" if fewer else ""


def choosing_flops(
    inducing: Inducing, choices: tuple[TermChoice, ...], n_images: int
) -> float:
    """Return about how many operations the choice of patches takes."""
    return sum(
        flops_of_choice(n_images, len(term.patches), math.prod(term.patches.shape[1:]))
        for term, choice in zip(inducing.terms, choices, strict=True)
        if choice.is_searched
    )


def choose_inducing(
    terms: tuple[Term, ...],
    choices: tuple[TermChoice, ...],
    images: Tensor,
    generator: Generator,
    root: Root = usual_root,
) -> Inducing:
    """Choose inducing patches and places of each term.

    Parameters
    ----------
    terms : tuple of Term
        The terms of a kernel, without settings that follow from data.
    choices : tuple of TermChoice
        How to choose, for each term.
    images : Tensor of shape (n, c, h, w)
        Different training images.
    generator : torch.Generator
        Source of randomness.
    root : callable, default=usual_root
        Whitens features.
    """
    n, channels, height, width = images.shape
    shape = channels, height, width
    sets = []
    for term, choice in zip(terms, choices, strict=True):
        kernel, wanted = term.of_patches(shape), choice.n_wanted(n, channels)
        patches = choose_patches(
            kernel,
            images,
            choice.inducing,
            wanted,
            generator,
            maps=term.maps,
        )
        needed = GRAM_COPIES * len(patches) ** 2 * torch.float64.itemsize
        what = f"A matrix of {len(patches)} inducing patches"
        require_memory(needed, HOST, what, "lower `n_inducing`.")
        places = place_locations(kernel, shape, choice.n_locations)
        args = kernel, shape, patches, places, plain_value(term.factor)
        sets.append(InducingSet.of(*args, maps=term.maps, root=root))
    return sets[0] if len(sets) == 1 else InducingSum(tuple(sets))
