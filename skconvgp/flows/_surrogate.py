"""Expected improvement on a Gaussian process, where scikit-optimize is missing."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Generator, Tensor

from skconvgp.kernels import matern
from skconvgp.linalg import (
    cholesky_logdet,
    cholesky_solve,
    factor_with_jitter_,
    half_solve,
)

__all__ = ["NativeSurrogate", "expected_improvement"]

LENGTHSCALES = (0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2.0)  # of a unit cube
NOISES = (1e-8, 1e-4, 1e-2)  # as a share of the variance of the values
N_CANDIDATES = 2000
SHRINKAGES = (0.1, 0.03, 0.01, 0.003)  # spread of candidates about the best one


def expected_improvement(mean: Tensor, std: Tensor, best: float) -> Tensor:
    """Return by how much values are expected to fall below the best (maths.md 8.3).

    Parameters
    ----------
    mean, std : Tensor of shape (n,)
        Prediction.
    best : float
        Smallest value so far.

    Returns
    -------
    improvement : Tensor of shape (n,)
        Of zero deviation, what is certain.
    """
    gain = best - mean
    z = gain / std.clamp(min=1e-300)
    density = torch.exp(-0.5 * z.square()) / math.sqrt(2.0 * math.pi)
    improvement = gain * torch.special.ndtr(z) + std * density
    return torch.where(std > 0.0, improvement, gain.clamp(min=0.0))


@dataclass(frozen=True)
class _Fit:
    """A Gaussian process with Matern-5/2 covariance; its evidence at best amplitude."""

    points: Tensor
    kernel: matern
    factor: Tensor
    dual: Tensor
    amplitude: Tensor
    evidence: float

    def predict(self, new: Tensor) -> tuple[Tensor, Tensor]:
        """Return means and standard deviations (n1,) at new points (n1, p)."""
        cross = _covariance(self.kernel, new, self.points)
        explained = half_solve(self.factor, cross.mT).square().sum(0)
        var = self.amplitude * (1.0 - explained).clamp(min=0.0)
        return (cross @ self.dual)[:, 0], var.sqrt()


@dataclass
class NativeSurrogate:
    """Proposes points of a unit cube, as ``skopt.Optimizer`` does.

    The lengthscale, one for all directions, and the noise are those of largest
    evidence on a grid. Expected improvement is searched for among random points, then
    ever nearer to the best of them.

    Parameters
    ----------
    n_dimensions : int
        Of the cube.
    generator : torch.Generator
        Where randomness comes from.
    """

    n_dimensions: int
    generator: Generator
    _points: list[Sequence[float]] = field(default_factory=list)
    _values: list[float] = field(default_factory=list)

    def tell(self, point: Sequence[float], value: float) -> None:
        """Add a finite value."""
        self._points.append(point)
        self._values.append(value)

    def ask(self) -> list[float]:
        """Return the point with the largest expected improvement."""
        points = torch.tensor(self._points, dtype=torch.float64)
        values = torch.tensor(self._values, dtype=torch.float64)
        spread = float(values.std(correction=0)) or 1.0
        scaled = (values - values.mean()) / spread
        fit = _best_fit(points, scaled)
        best = float(scaled.min())
        winner = self._winner(fit, best, self._uniform())
        for shrinkage in SHRINKAGES:
            shifts = shrinkage * torch.randn(
                N_CANDIDATES // 4,
                self.n_dimensions,
                dtype=torch.float64,
                generator=self.generator,
            )
            near = torch.cat([winner, (winner + shifts).clamp(0.0, 1.0)])
            winner = self._winner(fit, best, near)
        found: list[float] = winner[0].tolist()
        return found

    def _uniform(self) -> Tensor:
        return torch.rand(
            N_CANDIDATES,
            self.n_dimensions,
            dtype=torch.float64,
            generator=self.generator,
        )

    def _winner(self, fit: _Fit, best: float, candidates: Tensor) -> Tensor:
        """Return the candidate (1, p) with the largest expected improvement."""
        improvement = expected_improvement(*fit.predict(candidates), best)
        return candidates[improvement.argmax()][None]


def _best_fit(points: Tensor, values: Tensor) -> _Fit:
    fits = [
        _fit(points, values, lengthscale, noise)
        for lengthscale in LENGTHSCALES
        for noise in NOISES
    ]
    return max(fits, key=lambda fit: fit.evidence)


def _fit(points: Tensor, values: Tensor, lengthscale: float, noise: float) -> _Fit:
    kernel = matern(lengthscale, nu=2.5)
    matrix = _covariance(kernel, points, points)
    matrix.diagonal().add_(noise)
    factor = factor_with_jitter_(matrix, 1.0)
    dual = cholesky_solve(factor, values[:, None])
    # A floor: equal values leave no amplitude at all.
    amplitude = ((values @ dual[:, 0]) / len(values)).clamp(min=1e-12)
    evidence = -0.5 * (len(values) * amplitude.log() + cholesky_logdet(factor))
    return _Fit(points, kernel, factor, dual, amplitude, float(evidence))


def _covariance(kernel: matern, one: Tensor, two: Tensor) -> Tensor:
    """Return the covariances (n1, n2) of points (n1, p) and (n2, p)."""
    prepared = [kernel.prepare(points[:, :, None, None]) for points in (one, two)]
    return kernel.cross(*prepared)
