"""Non-parametric Kernel Flows: points move so that a kernel predicts well."""

import math
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from skconvgp._protocols import Batch, Objective
from skconvgp._tensors import reals
from skconvgp._typing import OnStep
from skconvgp.exceptions import NotPSDError
from skconvgp.flows._batches import Batches
from skconvgp.flows._field import (
    PointKernel,
    WarpStep,
    fit_field,
    integration_times,
    travel,
)


@dataclass(frozen=True)
class Flow:
    """Settings of the motion of points."""

    objective: Objective  # judges the Gram matrix of a batch
    n_steps: int
    batch_size: int  # points in a batch
    step_size: float  # length of a step, by the rule `step`
    step: str  # "spread" or "original"
    solver: str  # "euler" or "rk45": how a step follows its field
    field_noise: float  # ridge of the field, relative to the sum of its prior variances
    # Whether the points of a batch follow the field, too; if not, they move straight
    # down the slope of the objective.
    is_complete: bool

    def learn(
        self,
        points: Tensor,
        targets: Tensor,
        batches: Batches,
        kernel: PointKernel,
        field_kernel: PointKernel,
        on_step: OnStep,
    ) -> "Warp":
        """Move points (n, d), one batch after the other; return them and their steps.

        The targets (n, k) have mean 0. The objective judges covariances by `kernel`;
        the field has the covariance `field_kernel`. `on_step` is called with
        (steps done, steps in all).
        """
        steps, values = [], []
        for index in range(self.n_steps):
            batch = batches.draw(self.batch_size)
            value, down = steepest(
                points[batch.indices],
                targets[batch.indices],
                self.objective,
                kernel,
            )
            moved = self._step(index, points, batch, down, field_kernel)
            if moved is not None:
                steps.append(moved[0])
                points = moved[1]
            values.append(value)
            on_step(index + 1, self.n_steps)
        return Warp(points, tuple(steps), tuple(values))

    def _step(
        self,
        index: int,
        points: Tensor,
        batch: Batch,
        down: Tensor,
        kernel: PointKernel,
    ) -> tuple[WarpStep, Tensor] | None:
        """Return a step and all points after it; None if no point moves."""
        anchors = points[batch.indices]
        coef = fit_field(anchors, down, self.field_noise, kernel)
        ends, is_euler = reals([0.0, 0.0]), self.solver == "euler"
        step = WarpStep(anchors, coef, ends, is_euler)  # its length follows below
        velocities = step.field(points, kernel)
        if not self.is_complete:
            velocities[batch.indices] = down
        length = self._length(index, points, velocities)
        if not length > 0.0:
            return None
        step = replace(step, times=reals([0.0, length]))
        if is_euler:
            return step, points + length * velocities
        step = replace(step, times=integration_times(points, step, kernel))
        return step, travel(points, [step], kernel)

    def _length(self, index: int, points: Tensor, velocities: Tensor) -> float:
        """Return the time for which the field is followed; 0 or NaN if none moves."""
        speeds = velocities.norm(dim=1)
        # The fastest point moves by a falling share of the spread of the points.
        if self.step == "spread":
            falling = self.step_size * (1.0 - index / self.n_steps)
            spread = math.sqrt(float(points.var(dim=0, correction=0).sum()))
            fastest = float(speeds.max())
            return falling * spread / fastest if fastest > 0.0 else 0.0
        # No point moves by more than a share of its distance from the origin.
        distances = points.norm(dim=1)
        ratios = distances[distances > 0.0] / speeds[distances > 0.0]
        ratios = ratios[ratios.isfinite()]
        return self.step_size * float(ratios.min()) if len(ratios) else 0.0


@dataclass(frozen=True)
class Warp:
    """Result of a flow."""

    points: Tensor  # the moved points (n, d)
    # Steps that moved them; new points are moved by the same steps.
    steps: tuple[WarpStep, ...] = field(default=())
    # The objective on each batch, before its step; NaN if it is undefined.
    values: tuple[float, ...] = field(default=())


def steepest(
    points: Tensor, targets: Tensor, objective: Objective, kernel: PointKernel
) -> tuple[float, Tensor]:
    r"""Return the objective of a batch, and its direction (b, d) of steepest descent.

    The direction is :math:`-\partial \rho / \partial x_i`. If the objective is
    undefined, it is NaN and the direction zero. The sample comes first among the points
    (b, d) and the targets (b, k) of the batch.
    """
    try:
        score = objective.score(kernel.gram(points), targets)
    except NotPSDError:
        return math.nan, torch.zeros_like(points)
    if not (math.isfinite(score.value) and bool(score.by_gram.isfinite().all())):
        return math.nan, torch.zeros_like(points)
    return score.value, -kernel.by_points(points, score.by_gram)


def keeps_order(before: Tensor, after: Tensor) -> bool | None:
    """Say whether points (n, 1) are still in order; None in other dimensions."""
    if before.shape[1] != 1:
        return None
    ranked, order = before[:, 0].sort(stable=True)
    is_apart = ranked.diff() > 0.0
    return bool((after[order, 0].diff()[is_apart] > 0.0).all())
