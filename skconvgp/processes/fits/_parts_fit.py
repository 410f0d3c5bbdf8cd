"""How a sum of parts is fitted: weights, and whether mirror images are averaged over.

The formulas: docs/maths.rst, "Sums of parts".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from skconvgp._tensors import permutation
from skconvgp._typing import FloatArray, ImageShape
from skconvgp.engine import (
    Size,
    kernel_shape,
    require_memory,
    to_numpy,
)
from skconvgp.inference import mean_variance, noise_grid, score_noise
from skconvgp.kernels import Kernel, PatchKernel
from skconvgp.kernels._flips import flip
from skconvgp.processes._plan import (
    GPU_SELECTION_COPIES,
    SELECTION_COPIES,
    Fitted,
    Plan,
    Route,
)
from skconvgp.processes._problem import (
    Problem,
    Settings,
    first_of_each,
    fixed_amplitude,
)
from skconvgp.processes._run import (
    EIGEN,
    FACTOR,
    FLOPS,
    INVERSE,
    NOISE,
    SOLVING,
    Resources,
    Run,
    Stage,
    clock,
)
from skconvgp.processes.basis._inducing_sum import TermChoice, choose_inducing, terms_of
from skconvgp.processes.basis._parts import KernelPart, MirroredPart, Part, PatchPart
from skconvgp.processes.basis._parts_basis import PartsBasis, unit_of
from skconvgp.processes.basis._patch_basis import PatchBasis
from skconvgp.processes.basis._plain import KernelBasis
from skconvgp.processes.basis._views import FitView, SizedFitView, View, see
from skconvgp.processes.fits._exact import fit_exact
from skconvgp.processes.fits._part_weights import equal_weights, search_weights
from skconvgp.solvers import Cholesky

KMEANS = TermChoice("kmeans", None, "auto")
FEW = 32  # images that show which precision a kernel needs
JUDGED_IMAGES = 1000  # images that choose weights, at most
WEIGHTS = "weights"  # a stage


@dataclass(frozen=True)
class PartChoice:
    """A part before it is fitted.

    Parameters
    ----------
    kernel : Kernel
        The kernel; a `PatchKernel` is evaluated through inducing patches.
    fit_view : callable, optional
        Fits the view through which it sees images.
    inducing : TermChoice
        How inducing patches and places of a `PatchKernel` are chosen.
    name : str
        What a report calls it.
    """

    kernel: Kernel
    fit_view: FitView | None = None
    inducing: TermChoice = KMEANS
    name: str = ""

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

    def part(
        self, images: Tensor, *, is_mirrored: bool, resources: Resources, run: Run
    ) -> Part:
        """Return the part fitted to training images (n, c, h, w)."""
        both = torch.cat([images, flip(images)]) if is_mirrored else images
        view, seen = self._view(both, run.config.device)
        terms = terms_of(self.kernel)
        if not any(isinstance(term.kernel, PatchKernel) for term in terms):
            # Drawn, as with the same seed each time: images may come in some order.
            order = permutation(len(both), Generator().manual_seed(0))
            few = see(view, both[order[:FEW]], run.config.device, torch.float64)
            dtype = resources.with_precision(self._basis(few), run).tile_dtype
            seen = _in_precision(view, both, seen, dtype, run)
            name = str(dtype).removeprefix("torch.")
            basis = replace(self._basis(seen), dtype=name)
            if is_mirrored:
                return MirroredPart.of(view, basis, run)
            return KernelPart(view, basis)
        basis = self._basis(seen)
        choices = (self.inducing,) * len(terms)
        given = basis.images(basis.rows[first_of_each(basis.rows)])
        inducing = choose_inducing(
            terms_of(basis.kernel), choices, given, resources.generator()
        )
        used = inducing.n_features * len(images) * torch.float64.itemsize
        what = f"{inducing.n_features} features of {len(images)} images"
        remedy = "use fewer inducing patches or places."
        require_memory(used, torch.device("cpu"), what, remedy)
        features = resources.with_precision(
            PatchBasis(inducing, basis.take(np.arange(0))), run
        )
        seen = _in_precision(view, both, seen, features.tile_dtype, run)
        return PatchPart.of(view, features, seen, is_averaged=is_mirrored, run=run)

    def _view(self, images: Tensor, device: torch.device) -> tuple[View | None, Tensor]:
        """Return the view, fitted to different images, and all images through it."""
        if self.fit_view is None:
            return None, images
        first = first_of_each(to_numpy(images.flatten(1)))
        if len(first) == len(images):
            return self.fit_view(images.to(device))
        view, _ = self.fit_view(images[first].to(device))
        return view, see(view, images, device, images.dtype)

    def _basis(self, seen: Tensor) -> KernelBasis:
        """Return the kernel with images (n, c, h, w) as a view shows them."""
        channels, height, width = seen.shape[1:]
        rows, shape = to_numpy(seen.flatten(1)), (channels, height, width)
        self.kernel.check(kernel_shape(self.kernel, shape))
        return KernelBasis(self.kernel, rows, np.arange(len(rows)), shape).resolved()


@dataclass(frozen=True)
class _Built:
    """Parts of training images, with their Gram matrices (p, n, n) in their units."""

    parts: list[Part]
    grams: list[Tensor]
    units: FloatArray
    is_mirrored: bool

    def mixed(self, weights: FloatArray) -> Tensor:
        """Return the weighted sum (n, n) of the matrices."""
        total = torch.zeros_like(self.grams[0])
        for gram, weight in zip(self.grams, weights.tolist(), strict=True):
            total.add_(gram, alpha=weight)
        return total


@dataclass(frozen=True)
class PartsFit:
    """How a sum of parts is fitted.

    Parameters
    ----------
    images : KernelBasis
        The training images; its kernel is not evaluated.
    choices : tuple of PartChoice
        The parts.
    settings : Settings
        Noise and amplitude.
    weights : ndarray of shape (p,) or None
        Weights of the parts; None chooses them by the criterion of the noise.
    mirrors : tuple of bool
        Whether mirror images are averaged over; of two values the one with the better
        criterion at equal weights.
    keeps_left_out : bool
        Whether leave-one-out values are used after the fit.
    """

    images: KernelBasis
    choices: tuple[PartChoice, ...]
    settings: Settings
    weights: FloatArray | None
    mirrors: tuple[bool, ...]
    keeps_left_out: bool

    @property
    def size(self) -> Size:
        """Numbers that a fit holds at once: matrices, views and features of all images.

        Views and features are in single precision, and count half.
        """
        n, shape = self.images.n_samples, self.images.image_shape
        n_built = len(self.mirrors) if n <= JUDGED_IMAGES else 1
        built = len(self.choices) * n_built * n**2
        versions = 2 if any(self.mirrors) else 1
        shown = (
            max(choice.n_shown(shape) for choice in self.choices) * versions * n // 2
        )
        kept = sum(choice.n_kept for choice in self.choices) * n_built * n // 2
        on_gpu = GPU_SELECTION_COPIES * n**2 + built + shown
        held = SELECTION_COPIES * n**2 + built + shown + kept
        return Size(held, on_gpu, n**2 + shown + kept)

    def plan(self, resources: Resources) -> Plan:
        """Return the plan of the fit."""
        route = Route(Cholesky(), self.size, is_held=True, reason="")
        fit_at = partial(self._fit, route, resources)
        return Plan(self.images.n_samples, self.size, fit_at, solver=route.solver)

    def _fit(
        self,
        route: Route,
        resources: Resources,
        problem: Problem,
        basis: None,  # noqa: ARG002  (the parts have covariances)
        run: Run,
    ) -> Fitted:
        start, n = clock(run.config.device), len(problem.rows)
        run.progress.expect(*self._stages(n))
        built, weights = self._chosen(problem, resources, run)
        used = np.flatnonzero(weights)
        if len(built.grams[0]) < n:
            all_images = np.arange(n)
            built = self._built(
                used.tolist(), problem, all_images, built.is_mirrored, resources, run
            )
        else:
            built = _only(built, used)
        parts = PartsBasis(self.images, tuple(built.parts), weights[used] / built.units)
        process, record = fit_exact(
            problem,
            parts.with_gram(built.mixed(weights[used])),
            run,
            settings=self.settings,
            route=route,
            keeps_left_out=self.keeps_left_out,
            gram_seconds=clock(run.config.device) - start,
        )
        report = {
            "part_weights": tuple(weights.tolist()),
            "part_names": tuple(choice.name for choice in self.choices),
            "is_mirrored": built.is_mirrored,
        }
        record = replace(record, report=record.report | report)
        return Fitted(replace(process, basis=parts), record, np.arange(n))

    def _stages(self, n: int) -> list[Stage]:
        """Return the stages of a fit to n images."""
        m, every = min(n, JUDGED_IMAGES), range(len(self.choices))
        built = [(i, m, is_mirrored) for is_mirrored in self.mirrors for i in every]
        whole = [(i, n, self.mirrors[-1]) for i in every] if n > m else []
        n_scores = len(self.mirrors) - 1
        n_scores += 2 * len(every) ** 2 if self.weights is None else 0
        n_noises = isinstance(self.settings.noise, str)
        solving = FACTOR + INVERSE * self.keeps_left_out
        return [
            *map(self._stage, built),
            Stage(WEIGHTS, n_scores * EIGEN * m**3, FLOPS),
            *map(self._stage, whole),
            Stage(NOISE, n_noises * EIGEN * n**3, FLOPS),
            Stage(SOLVING, solving * n**3, FLOPS),
        ]

    def _stage(self, one: tuple[int, int, bool]) -> Stage:
        """Return the stage of a part, of so many images, with mirror images or not."""
        i, n, is_mirrored = one
        name = f"part {i + 1} of {len(self.choices)}: {self.choices[i].name}"
        if is_mirrored and len(self.mirrors) > 1:
            name += ", mirrored"
        if self.images.n_samples > JUDGED_IMAGES:
            name += f", {n} images"
        return Stage(name, n**2 * (1.0 + is_mirrored), "pairs of images")

    def _chosen(
        self, problem: Problem, resources: Resources, run: Run
    ) -> tuple[_Built, FloatArray]:
        """Return parts of some images that judge, and the weights of all parts."""
        n = len(problem.rows)
        drawn = permutation(n, resources.generator())[:JUDGED_IMAGES]
        indices = to_numpy(drawn.sort().values)
        judged = problem.take(indices, is_precomputed=False)
        equal, every = equal_weights(len(self.choices)), range(len(self.choices))
        weights = equal if self.weights is None else self.weights
        candidates = [
            self._built(every, problem, indices, is_mirrored, resources, run)
            for is_mirrored in self.mirrors
        ]
        built = candidates[0]
        if len(candidates) > 1 or self.weights is None:
            run.progress.enter(WEIGHTS)
        if len(candidates) > 1:
            scores = [self._score(one, weights, judged, run) for one in candidates]
            built = candidates[int(np.argmax(scores))]
        if self.weights is None:
            weights = search_weights(
                lambda tried: self._score(built, tried, judged, run), len(equal)
            )
        return built, weights

    def _built(
        self,
        used: Sequence[int],
        problem: Problem,
        indices: NDArray[np.intp],
        is_mirrored: bool,
        resources: Resources,
        run: Run,
    ) -> _Built:
        """Return the used parts, of the images at these indices."""
        images = self.images.images(problem.rows[indices])
        weights = run.tensor(problem.weights[indices])
        built = _Built([], [], np.ones(len(used)), is_mirrored)
        for i, index in enumerate(used):
            stage = self._stage((index, len(images), is_mirrored))
            with run.progress.inside(stage.name):
                part = self.choices[index].part(
                    images, is_mirrored=is_mirrored, resources=resources, run=run
                )
                gram = part.gram(run)
            built.units[i] = unit_of(gram, weights)
            built.parts.append(part)
            built.grams.append(gram / built.units[i])
        return built

    def _score(
        self, built: _Built, weights: FloatArray, problem: Problem, run: Run
    ) -> float:
        """Return the criterion of weights, at the best noise."""
        y, w = run.tensor(problem.targets), run.tensor(problem.weights)
        gram, noise = built.mixed(weights), self.settings.noise
        unit = mean_variance(gram.diagonal(), w)
        precision = PartsBasis(self.images, tuple(built.parts), built.units).precision(
            run.config
        )
        grid, criterion = noise_grid(precision), "loo"
        if isinstance(noise, str):
            criterion = noise
        else:
            grid = [max(noise, grid[-1])]
        return score_noise(
            gram / unit,
            y,
            w,
            criterion=criterion,
            amplitude=fixed_amplitude(self.settings.amplitude, unit, y),
            grid=grid,
            inputs=problem.inputs.to(y.device),
        )[1]


def _only(built: _Built, used: NDArray[np.intp]) -> _Built:
    """Return some of the parts."""
    indices = used.tolist()
    return _Built(
        [built.parts[i] for i in indices],
        [built.grams[i] for i in indices],
        built.units[used],
        built.is_mirrored,
    )


def _in_precision(
    view: View | None, images: Tensor, seen: Tensor, dtype: torch.dtype, run: Run
) -> Tensor:
    """Return images as a view shows them, again if they are needed more precisely."""
    if view is None or seen.dtype == dtype:
        return seen
    return see(view, images, run.config.device, dtype)
