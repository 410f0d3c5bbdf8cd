"""Parts of a sum before they are fitted, and after."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from skconvgp._tensors import permutation, uniforms
from skconvgp._typing import FloatArray, ImageShape
from skconvgp.engine import kernel_shape, place, require_memory, to_numpy
from skconvgp.kernels import Kernel, PatchKernel
from skconvgp.kernels._flips import flip
from skconvgp.processes._problem import first_of_each
from skconvgp.processes._run import MILLISECONDS, PAIRS, Resources, Run, Stage
from skconvgp.processes.basis._inducing_sum import TermChoice, choose_inducing, terms_of
from skconvgp.processes.basis._parts import KernelPart, MirroredPart, Part
from skconvgp.processes.basis._parts_basis import unit_of
from skconvgp.processes.basis._patch_basis import PatchBasis
from skconvgp.processes.basis._patch_part import PatchPart
from skconvgp.processes.basis._plain import KernelBasis
from skconvgp.processes.basis._sight import Sight, shared_key
from skconvgp.processes.basis._views import FitView, SizedFitView, View

KMEANS = TermChoice("kmeans", None, "auto")
FEW = 32  # images that show which precision a kernel needs
# Matrices of images that are held at once while they are summed: four of a part of
# pairs with mirror images, its mean, and the sum.
SUMMED_COPIES = 6
# Features of an image in double precision, while they are made of so many.
MAKING_COPIES, MOST_ROWS = 3, 2048
COMPARING = "comparing"  # a stage
FEWEST, MADE_UP = 4, 256  # images that show what a view does, and that time a kernel
UNKNOWN_COST = 1.0  # milliseconds, of a part that does not tell


@dataclass(frozen=True)
class PartChoice:
    """A part before it is fitted."""

    kernel: Kernel  # a `PatchKernel` is evaluated through inducing patches
    fit_view: FitView | None = None  # fits the view through which it sees images
    # How inducing patches and places of a `PatchKernel` are chosen.
    inducing: TermChoice = KMEANS
    name: str = ""  # what a report calls it
    # Milliseconds of a core for a new image, about, beside those of a shared source.
    cost: float = UNKNOWN_COST
    shared_cost: float = 0.0  # of the source, once for all parts that share it
    # Of the cost, what one image takes that a new one is compared with, and with how
    # many it is.
    compared_cost: float = 0.0
    n_compared: int = 0
    choice_cost: float = 0.0  # of the choice of inducing patches, about
    choice_values: int = 0  # numbers that are held meanwhile
    # Equal for parts of equal views that compare the same inducing patches.
    patches_key: Hashable = None
    preference: float = 1.0  # its share of the sum before anything is known, in a ratio

    def n_shown(self, image_shape: ImageShape) -> int:
        """Return how many numbers of an image its view holds in a fit; 0 if unknown."""
        if not isinstance(self.fit_view, SizedFitView):
            return 0
        return self.fit_view.n_values(image_shape)

    @property
    def n_kept(self) -> int:
        """How many features of an image are kept; 0 if that is not known before."""
        terms = [term.kernel for term in terms_of(self.kernel)]
        places, n_patches = self.inducing.n_locations, self.inducing.n_inducing
        if not any(isinstance(one, PatchKernel) for one in terms):
            return 0
        if n_patches is None or not isinstance(places, tuple):
            return 0
        return len(terms) * n_patches * int(math.prod(places))

    @property
    def own_cost(self) -> float:
        """Milliseconds of a core for a new image, before it is compared with others."""
        return max(0.0, self.cost - self.compared_cost * self.n_compared)

    def compared(
        self, images: KernelBasis, n: int, m: int, *, is_mirrored: bool
    ) -> Stage:
        """Return the stage of comparing n images, seen through the view, with m."""
        if self.n_kept:  # features of mirror images are averaged first
            cost = self.compared_cost * n * m
            return Stage(COMPARING, cost, MILLISECONDS)
        n_pairs = n * m * (1 + is_mirrored)
        return Stage(COMPARING, n_pairs, of=partial(self.made_up, images))

    def made_up(self, images: KernelBasis) -> KernelBasis:
        """Return the kernel with images of noise, of the shape that the view shows."""
        is_sized = isinstance(self.fit_view, SizedFitView)
        few = images.images(images.rows[: FEWEST if is_sized else FEW])
        if self.fit_view is not None:
            with suppress(ValueError):  # transformers of users may need more images
                _, few = self.fit_view(few)
        noise = uniforms((MADE_UP, *few.shape[1:]), Generator().manual_seed(0))
        return self._basis(noise)

    def part(
        self,
        sight: Sight,
        *,
        is_mirrored: bool,
        needs_plain: bool,
        resources: Resources,
        run: Run,
    ) -> Part:
        """Return the part fitted to training images.

        The sight is of these images and then, if the part is averaged over mirror
        images, of their mirror images. Then its features without these may be needed.
        """
        both, device = sight.images, run.config.device
        view, seen = None, both
        if self.fit_view is not None:
            view, seen = sight.fit(self.fit_view, device)

        def in_precision(dtype: torch.dtype) -> Tensor:
            """Return the images again if they are needed more precisely."""
            if view is None or seen.dtype == dtype:
                return seen
            return Sight(both).through(view, device, dtype)

        terms = terms_of(self.kernel)
        if not any(isinstance(term.kernel, PatchKernel) for term in terms):
            return self._kernel_part(
                view, seen, in_precision, resources, run, is_mirrored=is_mirrored
            )
        n = len(both) // (2 if is_mirrored else 1)
        basis = self._basis(seen)
        known = sight.patches.get(self.patches_key)
        choice = self.inducing
        if known is not None:
            choice = choice._replace(inducing=known)
        choices = (choice,) * len(terms)
        given = seen[first_of_each(basis.rows)]
        inducing = choose_inducing(
            terms_of(basis.kernel), choices, given, resources.generator()
        )
        if self.patches_key is not None:
            (own,) = inducing.terms
            sight.patches[self.patches_key] = torch.from_numpy(own.patches)
        used = inducing.n_features * n * torch.float64.itemsize
        what = f"{inducing.n_features} features of {n} images"
        remedy = "use fewer inducing patches or places."
        require_memory(used, torch.device("cpu"), what, remedy)
        features = resources.with_precision(
            PatchBasis(inducing, basis.take(np.arange(0))), run
        )
        seen = in_precision(features.tile_dtype)
        return PatchPart.of(
            view,
            features,
            seen,
            is_averaged=is_mirrored,
            needs_plain=needs_plain,
            run=run,
        )

    def _kernel_part(
        self,
        view: View | None,
        seen: Tensor,
        in_precision: Any,
        resources: Resources,
        run: Run,
        *,
        is_mirrored: bool,
    ) -> Part:
        """Return the part of a kernel that is evaluated exactly."""
        # Drawn, as with the same seed each time: images may come in some order.
        order = permutation(len(seen), Generator().manual_seed(0))
        few = seen[order[:FEW]].to(torch.float64)
        dtype = resources.with_precision(self._basis(few), run).tile_dtype
        name = str(dtype).removeprefix("torch.")
        basis = replace(self._basis(in_precision(dtype)), dtype=name)
        if is_mirrored:
            return MirroredPart.of(view, basis, run)
        return KernelPart(view, basis)

    def _basis(self, seen: Tensor) -> KernelBasis:
        """Return the kernel with images (n, c, h, w) as a view shows them."""
        channels, height, width = seen.shape[1:]
        rows, shape = to_numpy(seen.flatten(1)), (channels, height, width)
        self.kernel.check(kernel_shape(self.kernel, shape))
        return KernelBasis(self.kernel, rows, np.arange(len(rows)), shape).resolved()


@dataclass(frozen=True)
class Built:
    """Parts of training images, with their Gram matrices (p, n, n) in their units."""

    parts: list[Part]
    grams: list[Tensor]
    units: FloatArray
    is_mirrored: bool

    def take(self, used: NDArray[np.intp]) -> Self:
        """Return some of the parts."""
        indices = used.tolist()
        return type(self)(
            [self.parts[i] for i in indices],
            [self.grams[i] for i in indices],
            self.units[used],
            self.is_mirrored,
        )


class BuiltParts:
    """Collects parts, and their Gram matrices in their units."""

    def __init__(self, is_mirrored: bool, weights: Tensor) -> None:
        self.is_mirrored = is_mirrored
        self.weights = weights  # (n,), of the images
        self.found: dict[int, tuple[Part, Tensor, float]] = {}

    def add(self, index: int, part: Part, run: Run) -> None:
        """Compute the matrix of a part."""
        gram = part.gram(run)
        unit = unit_of(gram, self.weights)
        self.found[index] = part, gram.div_(unit), unit

    def finish(self, used: Sequence[int]) -> Built:
        """Return the parts in an order."""
        parts, grams, units = zip(*(self.found[i] for i in used), strict=True)
        return Built(list(parts), list(grams), np.array(units), self.is_mirrored)


def summed(
    choices: Sequence[PartChoice],
    weights: FloatArray,
    images: Tensor,
    of_images: Tensor,
    *,
    is_mirrored: bool,
    resources: Resources,
    run: Run,
    run_of: Callable[[Part], Run],
    dtype: torch.dtype | None = None,
) -> tuple[tuple[Part, ...], FloatArray, Tensor]:
    """Return the parts of weight, their factors, and the sum (n, n) of their matrices.

    One matrix is held beside the sum. `of_images` (n,) are weights of the images, and
    `run_of` returns how to compute the matrix of a part. Matrices have a precision, by
    default that of the weights.
    """
    images = place(images, run.config.device)
    sight = Sight(torch.cat([images, flip(images)]) if is_mirrored else images)
    used: list[int] = np.flatnonzero(weights).tolist()
    total = of_images.new_zeros((len(images),) * 2, dtype=dtype)
    found = {}
    for index in in_turn(choices, used):
        with run.progress.inside(stage_name(choices, index, len(images))):
            part = choices[index].part(
                sight,
                is_mirrored=is_mirrored,
                needs_plain=False,
                resources=resources,
                run=run,
            )
            gram = part.gram(run_of(part), dtype)
        factor = float(weights[index]) / unit_of(gram, of_images.to(gram))
        total.add_(gram, alpha=factor)
        found[index] = part, factor
        del gram
    parts, factors = zip(*(found[index] for index in used), strict=True)
    return parts, np.array(factors), total


def part_stages(
    choices: Sequence[PartChoice],
    used: Sequence[int],
    images: KernelBasis,
    n: int,
    *,
    is_mirrored: bool,
    held: int,
) -> list[Stage]:
    """Return the stages of the used parts of n images, and of their matrices.

    While features are made, some are held in double precision beside what is `held`,
    and what a view shows once more.
    """
    n_versions, known, stages = 1 + is_mirrored, set[Hashable]([None]), []
    for i in in_turn(choices, used):
        one, key = choices[i], shared_key(choices[i].fit_view)
        each = one.own_cost + one.shared_cost * (key not in known)
        choosing = one.choice_cost * (one.patches_key not in known)
        known |= {key, one.patches_key}
        cost = choosing + n * n_versions * each
        compared = one.compared(images, n, n, is_mirrored=is_mirrored)
        if compared.unit == PAIRS:  # of covariances, one triangle
            compared = compared._replace(amount=compared.amount / 2.0)
        name = stage_name(choices, i, n)
        making = one.n_kept * max(n // 2, MAKING_COPIES * min(n, MOST_ROWS))
        making = max(making, one.choice_values)
        making += one.n_shown(images.map_shape) * n * n_versions // 2
        has_features = bool(one.n_kept)
        seen = Stage(name, cost, MILLISECONDS, held + making, is_told=has_features)
        compared = compared._replace(name=name, held=held, is_told=not has_features)
        stages += [seen, compared]
    return stages


def stage_name(choices: Sequence[PartChoice], index: int, n: int) -> str:
    """Return the name of the stage of a part, of n images."""
    return f"part {index + 1} of {len(choices)}: {choices[index].name}, {n} images"


def in_turn(choices: Sequence[PartChoice], used: Sequence[int]) -> list[int]:
    """Return parts in an order in which those that share something follow each other.

    That is a source, or a view.
    """
    keys = [shared_key(one.fit_view) for one in choices]
    views = [one.fit_view for one in choices]
    return sorted(used, key=lambda i: (keys.index(keys[i]), views.index(views[i]), i))


def tell_parts(
    choices: Sequence[PartChoice], weights: FloatArray, run: Run, *, is_mirrored: bool
) -> dict[str, Any]:
    """Show which parts are used, and return the fields of a report on them."""
    used = sorted(np.flatnonzero(weights).tolist(), key=lambda i: -weights[i])
    shares = "; ".join(
        f"{weights[i]:.2f} {choices[i].name} ({choices[i].cost:.2g} ms)" for i in used
    )
    over = "averaged over" if is_mirrored else "without"
    if len(choices) > 1:
        run.progress.tell(f"parts, {over} mirror images: {shares}")
    return {
        "part_weights": tuple(weights.tolist()),
        "part_names": tuple(choice.name for choice in choices),
        "part_costs": tuple(choice.cost for choice in choices),
        "is_mirrored": is_mirrored,
    }


def cost_of(choices: Sequence[PartChoice], used: Sequence[int]) -> float:
    """Return about how many milliseconds of a core a new image takes."""
    shared = {shared_key(choices[i].fit_view): choices[i].shared_cost for i in used}
    return sum(choices[i].cost for i in used) + sum(shared.values())
