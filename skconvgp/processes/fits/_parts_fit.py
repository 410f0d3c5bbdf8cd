"""How a sum of parts is fitted: weights, and whether mirror images are averaged over.

The formulas: docs/maths.rst, "Sums of parts".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from skconvgp._tensors import permutation
from skconvgp._typing import FloatArray
from skconvgp.engine import Size, place, to_numpy
from skconvgp.inference import (
    WeightedSum,
    choose_mixture,
    error_factor,
    mixed,
    noise_grid,
)
from skconvgp.kernels._flips import flip
from skconvgp.processes._model import Model
from skconvgp.processes._plan import (
    GPU_SELECTION_COPIES,
    SELECTION_COPIES,
    Fitted,
    Plan,
    Route,
    missing_memory,
    route_in_place,
)
from skconvgp.processes._problem import Problem, Settings, entries
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
from skconvgp.processes.basis._parts_basis import PartsBasis
from skconvgp.processes.basis._patch_part import PRODUCTS
from skconvgp.processes.basis._plain import KernelBasis
from skconvgp.processes.basis._sight import Sight
from skconvgp.processes.fits._exact import fit_exact
from skconvgp.processes.fits._label_models import spread_over_classes
from skconvgp.processes.fits._part_choice import (
    SUMMED_COPIES,
    Built,
    BuiltParts,
    PartChoice,
    in_turn,
    part_stages,
    stage_name,
    summed,
    tell_parts,
)
from skconvgp.processes.fits._part_weights import left_out_samples, without_idle
from skconvgp.solvers import Cholesky

JUDGED_IMAGES = 1000  # images that choose weights, at most
WEIGHTS = "weights"  # a stage
HELD = "matrices, views and features of all images"
PAIR_COPIES = 2  # the sum, and the matrix of a part without mirror images
PRODUCT_COPIES = 2  # of some rows of the matrix of a part, in double precision
# Matrices that are held beside those of the parts while weights are chosen.
MIXING_COPIES = 8
KEPT_SHARE = 0.4  # of the parts whose weights are chosen, about
TRIALS = 100  # sums whose matrices are factored while weights are chosen, about
# Mirror images are averaged over unless that is worse by as much as so many images.
FOR_MIRRORS = 1.0


@dataclass(frozen=True)
class ChosenParts:
    """What is chosen before a sum is fitted."""

    # Those in use, of all images, if all images have chosen them; otherwise None.
    built: Built | None
    shares: FloatArray  # (p,), weights of all parts
    is_mirrored: bool  # whether mirror images are averaged over
    settings: Settings
    error_factor: float = 1.0  # as in `Model`

    def told(self, model: Model) -> Model:
        """Return a model that knows how the choice lets errors seem too small."""
        return replace(model, error_factor=self.error_factor)


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
    shares : ndarray of shape (p,)
        Weights of the parts, of sum 1; NaN for those that left-out images choose.
    mirrors : tuple of bool
        Whether mirror images are averaged over; of two values the one with the better
        criterion.
    keeps_left_out : bool
        Whether leave-one-out values are used after the fit.
    has_labels : bool
        Whether targets are those of labels, whose deviations are not told.
    """

    images: KernelBasis
    choices: tuple[PartChoice, ...]
    settings: Settings
    shares: FloatArray
    mirrors: tuple[bool, ...]
    keeps_left_out: bool
    has_labels: bool = True

    @property
    def size(self) -> Size:
        """Numbers that a fit holds at once: matrices, views and features of all images.

        Views and features are in single precision, and count half.
        """
        n = self.images.n_samples
        shown, kept, judged = self._seen
        is_judged = n <= JUDGED_IMAGES  # all images choose
        at_once = max(SELECTION_COPIES, SUMMED_COPIES)
        on_gpu = max(judged, GPU_SELECTION_COPIES * n**2 + judged * is_judged) + shown
        held = max(judged, at_once * n**2 + judged * is_judged) + shown + kept
        return Size(held, on_gpu, n**2 + shown + kept)

    @property
    def _seen(self) -> tuple[int, int, int]:
        """Numbers of views and of features, and those that choose weights."""
        n, shape = self.images.n_samples, self.images.map_shape
        choices = [self.choices[i] for i in np.flatnonzero(self.shares != 0.0)]
        # With one way to see mirror images, errors of new samples need as much again.
        n_ways = len(self.mirrors) if self.has_labels else 2
        n_judged = len(choices) * n_ways + MIXING_COPIES
        judged = n_judged * min(n, JUDGED_IMAGES) ** 2 * self._is_choosing
        versions = 2 if any(self.mirrors) else 1
        shown = max(choice.n_shown(shape) for choice in choices) * versions * n // 2
        each = [choice.n_kept for choice in choices]
        # Those without mirror images are held while the matrix of a part is computed.
        kept = (sum(each) + max(each) * (len(self.mirrors) - 1)) * n // 2
        return shown, kept, judged

    def route(self, resources: Resources) -> Route:
        """Return how to solve: with one matrix in single precision if memory is short.

        The noise is a number then, and not all images choose weights.
        """
        direct = Route(Cholesky(), self.size, is_held=True, reason="")
        n, noise = self.images.n_samples, self.settings.noise
        missing = missing_memory(self.size, resources, HELD)
        is_judged = self._is_choosing and n <= JUDGED_IMAGES
        if not missing or isinstance(noise, str) or is_judged:
            return direct
        route = route_in_place(direct, n, resources, missing, noise)
        if route is None:
            return direct
        shown, kept, judged = self._seen
        of_kernels = any(not choice.n_kept for choice in self.choices)
        copies = SUMMED_COPIES if any(self.mirrors) and of_kernels else PAIR_COPIES
        summing = copies * n**2 // 2 + PRODUCT_COPIES * n * min(n, PRODUCTS)
        held = max(judged, summing, route.size.held) + shown + kept
        if held >= direct.size.held:  # of few images, the solver needs more beside
            return direct
        return replace(route, size=Size(held, held, held))

    def plan(self, resources: Resources) -> Plan:
        """Return the plan of the fit."""
        route, n = self.route(resources), self.images.n_samples
        return Plan(
            n,
            route.size,
            partial(self._fit, route, resources),
            solver=route.solver,
            stages=tuple(self._stages(n, route)),
            known=route.known | {"n_pairs": entries(n)},
        )

    def _fit(
        self,
        route: Route,
        resources: Resources,
        problem: Problem,
        _: None,  # the parts have covariances
        run: Run,
    ) -> Fitted:
        start, n = clock(run.config.device), len(problem.rows)
        run.progress.expect(*self._stages(n, route))
        chosen = self.chosen(problem, resources, run)
        built, weights, mirror = chosen.built, chosen.shares, chosen.is_mirrored
        report = tell_parts(self.choices, weights, run, is_mirrored=mirror)
        if built is None:
            run.progress.expect(*self._stages_of(weights, n, route, mirror=mirror))
            parts, factors, gram = summed(
                self.choices,
                weights,
                self.images.images(problem.rows),
                run.tensor(problem.weights),
                is_mirrored=mirror,
                resources=resources,
                run=run,
                run_of=lambda _: run,
                dtype=torch.float32 if route.is_single else None,
            )
        else:
            used = weights[weights > 0.0]
            parts, factors = tuple(built.parts), used / built.units
            gram = mixed(built.grams, used)
            chosen = replace(chosen, built=None)
            del built
        basis = PartsBasis(self.images, parts, factors)
        single = gram if route.is_single else None
        process, record = fit_exact(
            problem,
            basis if route.is_single else basis.with_gram(gram),
            run,
            settings=chosen.settings,
            route=route,
            keeps_left_out=self.keeps_left_out,
            gram_seconds=clock(run.config.device) - start,
            single=single,
        )
        record = replace(record, report=record.report | report)
        process = replace(process, basis=basis, model=chosen.told(process.model))
        return Fitted(process, record, np.arange(n))

    def _stages(self, n: int, route: Route | None = None) -> list[Stage]:
        """Return the stages of a fit to n images."""
        m, mirror = min(n, JUDGED_IMAGES), self.mirrors[-1]
        used = np.where(self.shares != 0.0, 1.0, 0.0)
        whole = self._stages_of(used, n, route, mirror=mirror)
        if not self._is_choosing:
            return whole
        n_scores = TRIALS * len(self.mirrors)
        return [
            *self._stages_of(used, m, route, mirror=mirror)[:-2],
            Stage(WEIGHTS, n_scores * (FACTOR + INVERSE) * m**3, FLOPS),
            *(self.kept_of(whole) if n > m else whole[-2:]),
        ]

    def kept_of(self, stages: list[Stage]) -> list[Stage]:
        """Return stages of all parts for those that will be kept, if that is chosen."""
        share = KEPT_SHARE if np.isnan(self.shares).sum() > 1 else 1.0
        return [
            one if one.unit == FLOPS else one._replace(amount=share * one.amount)
            for one in stages
        ]

    def _stages_of(
        self, weights: FloatArray, n: int, route: Route | None, *, mirror: bool
    ) -> list[Stage]:
        """Return the stages of a fit to n images whose parts are known."""
        n_noises = isinstance(self.settings.noise, str)
        solving = FACTOR + INVERSE * self.keeps_left_out
        if route is not None and route.is_single:  # in half of the time
            solving = FACTOR / 2.0
        used: list[int] = np.flatnonzero(weights).tolist()
        return [
            *part_stages(
                self.choices,
                used,
                self.images,
                n,
                is_mirrored=mirror,
                held=(self.size if route is None else route.size).held,
            ),
            Stage(NOISE, n_noises * EIGEN * n**3, FLOPS),
            Stage(SOLVING, solving * n**3, FLOPS),
        ]

    @property
    def _is_choosing(self) -> bool:
        """Whether weights or mirror images are chosen."""
        return len(self.mirrors) > 1 or bool(np.isnan(self.shares).any())

    def chosen(self, problem: Problem, resources: Resources, run: Run) -> ChosenParts:
        """Return which parts a sum has, with which weights, and its settings.

        The noise is chosen with the weights if classes have groups: the density of
        targets alone lacks what a group takes away of its class.
        """
        if not self._is_choosing:
            return ChosenParts(None, self.shares, self.mirrors[0], self.settings)
        indices = judged_images(problem, resources)
        # Parts of a given share of 0 are not built.
        used = np.flatnonzero(self.shares != 0.0)
        choices = [self.choices[i] for i in used]
        candidates = self._built(used, problem, indices, self.mirrors, resources, run)
        run.progress.enter(WEIGHTS)
        judged = problem.take(indices, is_precomputed=False)
        samples, first = left_out_samples(judged, run), judged.inputs.first()
        sums = [self._sum(one, used, to_numpy(first), run) for one in candidates]
        found = [choose_mixture(one, samples) for one in sums]
        values = [
            one.value - FOR_MIRRORS / len(first) * built.is_mirrored
            for one, built in zip(found, candidates, strict=True)
        ]
        best = int(np.argmin(values))
        n, total, own = len(problem.rows), sums[best], candidates[best]
        del sums, candidates
        mixture = without_idle(total, samples, found[best], choices, n)
        chosen, settings = mixture.shares, self.settings
        if settings.noise == "loo" and samples.class_factors is not None:
            settings = replace(settings, noise=mixture.noise)
        factor = 1.0
        if not self.has_labels:
            factor = error_factor(total, samples, found[best])
        weights, mirror = np.zeros(len(self.choices)), own.is_mirrored
        weights[used] = chosen
        # Views and patches are of mirror images, too: without these all is built anew.
        is_whole = len(indices) == n and mirror == self.mirrors[-1]
        built = own.take(np.flatnonzero(chosen)) if is_whole else None
        return ChosenParts(built, weights, mirror, settings, factor)

    def _sum(
        self, built: Built, used: NDArray[np.intp], first: NDArray[np.intp], run: Run
    ) -> WeightedSum:
        """Return the sum of the parts of different images, whose weights are chosen."""
        noise = self.settings.noise
        parts = PartsBasis(self.images, tuple(built.parts), built.units)
        least = noise_grid(parts.precision(run.config))[-1]
        grams = [gram.to(torch.float64) for gram in built.grams]
        if len(first) < len(grams[0]):
            grams = [gram[first[:, None], first] for gram in grams]
        preferred = np.array([self.choices[i].preference for i in used])
        fixed = None if isinstance(noise, str) else max(float(noise), least)
        return WeightedSum(grams, self.shares[used], preferred, fixed, least)

    def _built(
        self,
        used: NDArray[np.intp],
        problem: Problem,
        indices: NDArray[np.intp],
        mirrors: tuple[bool, ...],
        resources: Resources,
        run: Run,
    ) -> list[Built]:
        """Return the used parts of the images at these indices.

        Of two ways to see mirror images, the parts that are averaged over them give the
        matrices of the others: then features are computed once.
        """
        images = self.images.images(problem.rows[indices])
        images = place(images, run.config.device)
        n, weights = len(images), run.tensor(problem.weights[indices])
        is_mirrored, needs_plain = any(mirrors), len(mirrors) > 1
        sight = Sight(torch.cat([images, flip(images)]) if is_mirrored else images)
        built = [BuiltParts(mirror, weights) for mirror in mirrors]
        for index in in_turn(self.choices, used.tolist()):
            with run.progress.inside(stage_name(self.choices, index, n)):
                part: Any = self.choices[index].part(
                    sight,
                    is_mirrored=is_mirrored,
                    needs_plain=needs_plain,
                    resources=resources,
                    run=run,
                )
                for one in built:
                    own = part.plain if needs_plain and not one.is_mirrored else part
                    one.add(index, own.without_plain(), run)
        return [one.finish(used.tolist()) for one in built]


def judged_images(problem: Problem, resources: Resources) -> NDArray[np.intp]:
    """Return images (m,) that choose weights, in increasing order, drawn at random.

    Classes have shares of them as they have of the images.
    """
    order = to_numpy(permutation(len(problem.rows), resources.generator()))
    if problem.codes is not None:
        spread = spread_over_classes(problem.class_codes[order], JUDGED_IMAGES)
        order = order[to_numpy(spread)]
    return np.sort(order[:JUDGED_IMAGES])
