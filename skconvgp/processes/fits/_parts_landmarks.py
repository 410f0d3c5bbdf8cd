"""How a sum of parts is fitted to many images: by landmarks among them.

The formulas: docs/maths.rst, "Sums of parts".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._tensors import permutation
from skconvgp._typing import FloatArray
from skconvgp.engine import Size, rows_to_tensor, to_numpy
from skconvgp.processes._plan import LANDMARKS, Fitted, Plan
from skconvgp.processes._problem import Problem, entries
from skconvgp.processes._run import (
    FACTOR,
    FEATURES,
    FLOPS,
    MILLISECONDS,
    NOISE,
    SOLVING,
    Resources,
    Run,
    Stage,
    clock,
)
from skconvgp.processes.basis._landmark_parts import MANY_IMAGES, lift_map_of, single
from skconvgp.processes.basis._parts import Part
from skconvgp.processes.basis._parts_basis import PartsBasis
from skconvgp.processes.basis._sight import shared_key
from skconvgp.processes.fits._image_rows import KEPT_IMAGES
from skconvgp.processes.fits._label_models import spread_over_classes
from skconvgp.processes.fits._part_choice import part_stages, summed, tell_parts
from skconvgp.processes.fits._parts_fit import JUDGED_IMAGES, PartsFit
from skconvgp.processes.fits._patches import NOISES_TRIED, SUMS
from skconvgp.processes.fits._sums import fit_images
from skconvgp.solvers import Cholesky

# Matrices of landmarks that are held at once: while a part of mirror images is
# computed, or while sums become a posterior.
LANDMARK_COPIES = 6
KEPT_COPIES = 2  # of features of images that are kept
VARIANCE = "dtc"  # what landmarks do not explain is added to variances


@dataclass(frozen=True)
class LandmarkFit:
    """How a sum of parts is fitted by landmarks.

    Parts are built of the landmarks alone. All images are then read once, block by
    block.
    """

    whole: PartsFit  # chooses weights and mirror images
    n_landmarks: int  # at most as many as there are different images

    @property
    def size(self) -> Size:
        """Numbers that a fit holds at once: matrices, views and features of landmarks.

        Features of parts are in single precision, and count half.
        """
        n, m = self.whole.images.n_samples, self.n_landmarks
        shape = self.whole.images.map_shape
        versions = 2 if any(self.whole.mirrors) else 1
        choices = self.whole.choices
        shown = versions * m * max(one.n_shown(shape) for one in choices) // 2
        kept = m * sum(choice.n_kept for choice in choices) // 2
        matrices = LANDMARK_COPIES * m**2 + KEPT_COPIES * m * min(n, KEPT_IMAGES)
        judged = self._judging.size
        return Size(
            max(judged.held, matrices + shown + kept),
            max(judged.on_gpu, matrices + shown),
            max(judged.beside_gpu, 2 * m**2 + shown + kept),
        )

    @property
    def _judging(self) -> PartsFit:
        """The fit to the images that choose weights and mirror images, as to memory."""
        images = self.whole.images
        some = np.arange(min(images.n_samples, JUDGED_IMAGES))
        return replace(self.whole, images=images.take(some))

    def plan(self, resources: Resources) -> Plan:
        """Return the plan of the fit."""
        n, m = self.whole.images.n_samples, self.n_landmarks
        return Plan(
            n,
            self.size,
            partial(self._fit, resources),
            solver=Cholesky(),
            remedy="lower `n_landmarks`.",
            user=f"A fit by {self.n_landmarks} landmarks",
            dtype=torch.float64,
            way=LANDMARKS,
            stages=tuple(self._stages(n)),
            known={"n_landmarks": m, "n_pairs": entries(m) + (n - m) * m},
        )

    def _fit(
        self,
        resources: Resources,
        problem: Problem,
        _: None,  # the parts have covariances
        run: Run,
    ) -> Fitted:
        start, n = clock(run.config.device), len(problem.rows)
        run.progress.expect(*self._stages(n))
        chosen = self.whole.chosen(problem, resources, run)
        chosen = replace(chosen, built=None)
        weights, is_mirrored = chosen.shares, chosen.is_mirrored
        choices = self.whole.choices
        report = tell_parts(choices, weights, run, is_mirrored=is_mirrored)
        marks = draw_landmarks(problem, self.n_landmarks, resources)
        parts, gram = self._built(problem, marks, weights, is_mirrored, resources, run)
        source = parts.streamed(lift_map_of(gram, parts.precision(run.config)))
        del gram
        seconds = clock(run.config.device) - start
        process, record = fit_images(
            problem,
            source,
            run,
            models=(),
            settings=self.whole.settings,
            variance=VARIANCE,
            generator=resources.generator(),
            landmarks=marks,
        )
        n_inputs, m = problem.inputs.n_inputs, len(marks)
        n_pairs = entries(m) + (n_inputs - m) * m
        report |= {
            "n_landmarks": m,
            "observed_fraction": n_pairs / entries(n_inputs),
        }
        record = replace(
            record,
            n_pairs=n_pairs,
            gram_seconds=seconds + record.gram_seconds,
            report=record.report | report,
        )
        process = replace(process, model=chosen.told(process.model))
        return Fitted(process, record, np.arange(n), parts.kept_indices)

    def _built(
        self,
        problem: Problem,
        marks: NDArray[np.intp],
        weights: FloatArray,
        is_mirrored: bool,
        resources: Resources,
        run: Run,
    ) -> tuple[PartsBasis, Tensor]:
        """Return the parts of weight, of landmarks, and their matrix (m, m)."""
        chosen = to_numpy(problem.inputs.first())[marks]
        basis = self.whole.images.take(chosen)
        images = self.whole.images.images(problem.rows[chosen])
        of_inputs = problem.inputs.sum(rows_to_tensor(problem.weights))
        of_marks = run.tensor(to_numpy(of_inputs)[marks])
        is_many = len(marks) >= MANY_IMAGES

        def run_of(part: Part) -> Run:
            is_single = part.kernel_basis.tile_dtype == torch.float32
            return single(run) if is_many and is_single else run

        parts, factors, total = summed(
            self.whole.choices,
            weights,
            images,
            of_marks.to(torch.float64),
            is_mirrored=is_mirrored,
            resources=resources,
            run=run,
            run_of=run_of,
        )
        return PartsBasis(basis, parts, factors), total

    def _stages(self, n: int) -> list[Stage]:
        """Return the stages of a fit to n images."""
        m, kept, mirror = self.n_landmarks, min(n, KEPT_IMAGES), self.whole.mirrors[-1]
        choices, n_versions = self.whole.choices, 1 + mirror
        every = range(len(choices))
        source = self.whole.images
        shared = {shared_key(one.fit_view): one.shared_cost for one in choices}
        own = sum(one.own_cost for one in choices) + sum(shared.values())
        compared = [
            one.compared(source, n, m, is_mirrored=mirror)._replace(
                name=FEATURES, is_told=False
            )
            for one in choices
        ]
        of_parts = [
            *part_stages(
                choices, every, source, m, is_mirrored=mirror, held=self.size.held
            ),
            Stage(FEATURES, n * n_versions * own, MILLISECONDS),
            *compared,
        ]
        judging = self._judging._stages(min(n, JUDGED_IMAGES))
        algebra = FACTOR * m**3 + kept * m**2
        n_noises = NOISES_TRIED * isinstance(self.whole.settings.noise, str)
        return [
            *(one for one in judging if one.name not in (NOISE, SOLVING)),
            *self.whole.kept_of(of_parts),
            Stage(SUMS, FACTOR * m**3 + 2.0 * n * m**2, FLOPS, is_told=False),
            Stage(NOISE, n_noises * algebra, FLOPS),
            Stage(SOLVING, algebra, FLOPS),
        ]


def draw_landmarks(
    problem: Problem, n_landmarks: int, resources: Resources
) -> NDArray[np.intp]:
    """Return numbers of different images, in increasing order, drawn at random.

    Classes have shares of them as they have of the images.
    """
    inputs = problem.inputs
    order = to_numpy(permutation(inputs.n_inputs, resources.generator()))
    if problem.codes is not None:
        codes = np.asarray(problem.codes)[to_numpy(inputs.first())][order]
        order = order[to_numpy(spread_over_classes(codes, n_landmarks))]
    return np.sort(order[:n_landmarks])
