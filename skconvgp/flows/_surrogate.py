"""Expected improvement on a Gaussian process: replaces a missing scikit-optimize."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Generator, Tensor

from skconvgp._tensors import normals, reals, uniforms
from skconvgp._threads import small_on_one_thread
from skconvgp._typing import FloatArray
from skconvgp.kernels import matern
from skconvgp.linalg import (
    cholesky_inverse,
    cholesky_logdet,
    cholesky_solve,
    factor_with_jitter_,
    half_solve,
)

LENGTHSCALES = (0.05, 20.0)  # bounds, in a unit cube
NOISES = (1e-10, 0.1)  # bounds, relative to the amplitude
STARTS = (0.2, 0.5, 1.5)  # lengthscales from which the evidence is maximised
START_NOISE = 1e-4
N_CANDIDATES = 2000
SHRINKAGES = (0.1, 0.03, 0.01, 0.003)  # spread of candidates about the best one


def expected_improvement(mean: Tensor, std: Tensor, best: float) -> Tensor:
    """Return the expected amounts (n,) by which values fall below the best one so far.

    The formula: docs/maths.rst, "Expected improvement". `mean` and `std` (n,) are of
    the predictions; if the deviation is zero, the amount is certain.
    """
    gain = best - mean
    z = gain / std.clamp(min=1e-300)
    density = torch.exp(-0.5 * z.square()) / math.sqrt(2.0 * math.pi)
    improvement = gain * torch.special.ndtr(z) + std * density
    return torch.where(std > 0.0, improvement, gain.clamp(min=0.0))


@dataclass(frozen=True)
class _Fit:
    """A Gaussian process with Matern-5/2 covariance and the best amplitude."""

    points: Tensor
    lengthscales: Tensor
    factor: Tensor
    dual: Tensor
    amplitude: Tensor
    evidence: float

    def predict(self, new: Tensor) -> tuple[Tensor, Tensor]:
        """Return means and standard deviations (n1,) at new points (n1, p)."""
        cross = _covariance(self.lengthscales, new, self.points)
        explained = half_solve(self.factor, cross.mT).square().sum(0)
        # The covariance has variance 1; rounding may explain a little more than that.
        var = self.amplitude * (1.0 - explained).clamp(min=0.0)
        return (cross @ self.dual)[:, 0], var.sqrt()


@dataclass
class NativeSurrogate:
    """Proposes points of a unit cube, as ``skopt.Optimizer`` does.

    Noise and lengthscales, one for each dimension, have the largest evidence. The point
    of largest expected improvement is looked for among random points, then ever nearer
    to the best of them.
    """

    n_dimensions: int  # of the cube
    generator: Generator
    _points: list[Sequence[float]] = field(default_factory=list)
    _values: list[float] = field(default_factory=list)

    def tell(self, point: Sequence[float], value: float) -> None:
        """Add a finite value."""
        self._points.append(point)
        self._values.append(value)

    def ask(self) -> list[float]:
        """Return the point with the largest expected improvement."""
        points = reals(self._points)
        values = reals(self._values)
        spread = float(values.std(correction=0)) or 1.0
        scaled = (values - values.mean()) / spread
        fit = _best_fit(points, scaled)
        best = float(scaled.min())
        winner = self._winner(fit, best, self._uniform())
        for shrinkage in SHRINKAGES:
            shifts = shrinkage * normals(
                (N_CANDIDATES // 4, self.n_dimensions), self.generator
            )
            near = torch.cat([winner, (winner + shifts).clamp(0.0, 1.0)])
            winner = self._winner(fit, best, near)
        point: list[float] = winner[0].tolist()
        return point

    def _uniform(self) -> Tensor:
        return uniforms((N_CANDIDATES, self.n_dimensions), self.generator)

    def _winner(self, fit: _Fit, best: float, candidates: Tensor) -> Tensor:
        """Return the candidate (1, p) with the largest expected improvement."""
        improvement = expected_improvement(*fit.predict(candidates), best)
        return candidates[improvement.argmax()][None]


def _best_fit(points: Tensor, values: Tensor) -> _Fit:
    """Return the fit with the largest evidence from several starts."""
    p = points.shape[1]
    bounds = np.log([LENGTHSCALES] * p + [NOISES])

    def neg_evidence(theta: FloatArray) -> tuple[float, FloatArray]:
        free = reals(theta).requires_grad_()
        matrix = _system(points, free)
        fit = _fit(points, values, free.detach(), matrix.detach())
        weights = fit.dual @ fit.dual.mT / fit.amplitude
        weights = (weights - cholesky_inverse(fit.factor)) / 2.0
        (by_theta,) = torch.autograd.grad(matrix, free, weights)
        return -fit.evidence, -np.array(by_theta.tolist())

    def fit_from(length: float) -> _Fit:
        start = np.log([length] * p + [START_NOISE])
        with small_on_one_thread():
            result = minimize(
                neg_evidence, start, jac=True, method="L-BFGS-B", bounds=bounds
            )
        theta = torch.from_numpy(result.x)
        return _fit(points, values, theta, _system(points, theta))

    return max(map(fit_from, STARTS), key=lambda fit: fit.evidence)


def _system(points: Tensor, theta: Tensor) -> Tensor:
    """Return covariances with noise (n, n), from logs of lengthscales and noise."""
    matrix = _covariance(theta[:-1].exp(), points, points)
    return matrix + theta[-1].exp() * torch.eye(
        len(points), dtype=torch.float64, device="cpu"
    )


def _fit(points: Tensor, values: Tensor, theta: Tensor, matrix: Tensor) -> _Fit:
    factor = factor_with_jitter_(matrix, 1.0)
    dual = cholesky_solve(factor, values[:, None])
    # Bounded from below, because equal values would have an amplitude of 0.
    amplitude = ((values @ dual[:, 0]) / len(values)).clamp(min=1e-12)
    evidence = -0.5 * (len(values) * amplitude.log() + cholesky_logdet(factor))
    return _Fit(points, theta[:-1].exp(), factor, dual, amplitude, float(evidence))


def _covariance(lengthscales: Tensor, one: Tensor, two: Tensor) -> Tensor:
    """Return the covariances (n1, n2) of points (n1, p) and (n2, p)."""
    kernel = matern(1.0, nu=2.5)
    scaled = [(points / lengthscales)[:, :, None, None] for points in (one, two)]
    return kernel.cross(*map(kernel.prepare, scaled))
