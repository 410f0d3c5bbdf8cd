"""Velocity fields on points, and the motion of points along them.

The formulas: docs/maths.rst, "Flows of points".
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from scipy.integrate import RK45, solve_ivp
from torch import Tensor

from skconvgp._config import ComputeConfig
from skconvgp._protocols import TileRunner, run_serially
from skconvgp._tensors import reals
from skconvgp._typing import FloatArray
from skconvgp.backends import BackendChoice, choose_pullback
from skconvgp.engine import KernelOracle, pull_back
from skconvgp.linalg import cholesky_solve, shifted_cholesky_

HOST = torch.device("cpu")
# Tolerated errors of one adaptive step: relative to the coordinates, and relative to
# the longest distance that a point moves.
RTOL, ATOL = 1e-6, 1e-4


@dataclass(frozen=True)
class PointKernel:
    """Covariances of points that move, in float64 on the host."""

    # Backend of the tiles; it knows the shape of a point as an image.
    choice: BackendChoice
    config: ComputeConfig
    runner: TileRunner = run_serially

    def gram(self, points: Tensor) -> Tensor:
        """Return the covariances (n, n) of points (n, d)."""
        return self._oracle(points).gram().to(HOST)

    def cross(self, points: Tensor, anchors: Tensor) -> Tensor:
        """Return the covariances (n, b) of points (n, d) with anchors (b, d)."""
        return self._oracle(anchors).cross(self._images(points)).to(HOST)

    def by_points(self, points: Tensor, weights: Tensor) -> Tensor:
        """Return the derivatives (n, d) of sum(weights * gram(points))."""
        pullback = choose_pullback(self.choice, has_inputs=True)
        images = self._images(points)
        _, by_images = pull_back(
            pullback, images, None, weights, self.config, self.runner
        )
        assert by_images is not None
        return by_images.flatten(1)

    def _oracle(self, points: Tensor) -> KernelOracle:
        images = self._images(points)
        return KernelOracle(self.choice.tiles(), images, self.config, self.runner)

    def _images(self, points: Tensor) -> Tensor:
        return points.reshape(-1, *self.choice.image_shape)


@dataclass(frozen=True)
class WarpStep:
    """One step of a flow: points travel along a field that is constant in time.

    The field is :math:`G(x) = K_1(x, X_f) C`.
    """

    anchors: Tensor  # X_f (b, d), the points of the batch at the beginning of the step
    coef: Tensor  # C (b, d)
    # Times (m + 1,) from 0 to the length of the step that bound its m stages: one of
    # Euler's method, or any number of the Runge-Kutta method of order five.
    times: Tensor
    is_euler: bool  # whether the method is Euler's

    def field(self, points: Tensor, kernel: PointKernel) -> Tensor:
        """Return the velocities (n, d) of points (n, d)."""
        return kernel.cross(points, self.anchors) @ self.coef


def fit_field(
    points: Tensor, velocities: Tensor, noise: float, kernel: PointKernel
) -> Tensor:
    """Return coefficients (b, d) of the field that fits velocities at points (b, d).

    The noise is a ridge, relative to the sum of the prior variances of the field.
    """
    gram = kernel.gram(points)
    ridge = noise * gram.diagonal().sum()
    factor, _ = shifted_cholesky_(gram, ridge.expand(len(gram)))
    return cholesky_solve(factor, velocities)


def travel(points: Tensor, steps: Sequence[WarpStep], kernel: PointKernel) -> Tensor:
    """Return the moved points (n, d); each moves independently of the others."""
    for step in steps:
        lengths = step.times.diff().tolist()
        for length in lengths:
            points = points + length * _velocity(points, length, step, kernel)
    return points


def integration_times(points: Tensor, step: WarpStep, kernel: PointKernel) -> Tensor:
    """Return the times (m + 1,) between which an adaptive solver takes its stages.

    They begin at 0 and end at the length of the step. The errors of the solver are
    measured on the points (n, d). Raises a `RuntimeError` if the solver cannot meet its
    tolerance.
    """
    length = float(step.times[-1])

    def velocity(_: float, flat: FloatArray) -> Tensor:
        at = torch.from_numpy(flat).reshape(points.shape)
        return step.field(at, kernel).flatten()

    distance = length * float(step.field(points, kernel).norm(dim=1).max())
    solved = solve_ivp(
        velocity,
        (0.0, length),
        points.flatten(),
        method="RK45",
        first_step=length,
        rtol=RTOL,
        atol=ATOL * distance,
    )
    if not solved.success:
        raise RuntimeError(
            f"The points cannot be moved along the field: {solved.message} Lower "
            "`step_size` or raise `field_noise`."
        )
    return torch.from_numpy(solved.t)


def _velocity(
    points: Tensor, length: float, step: WarpStep, kernel: PointKernel
) -> Tensor:
    """Return the mean velocity over a stage of the given length."""
    if step.is_euler:
        return step.field(points, kernel)
    slopes = [step.field(points, kernel)]
    for row in RK45.A[1:]:
        ahead = sum(a * slope for a, slope in zip(row, slopes, strict=False))
        slopes.append(step.field(points + length * ahead, kernel))
    return sum((b * s for b, s in zip(RK45.B, slopes, strict=True)), reals(0.0))
