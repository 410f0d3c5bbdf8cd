"""Laplace approximation of the posterior given labels, or other observations.

Newton's method as in Rasmussen and Williams, algorithms 3.1 and 3.3, in the dual
coefficients: latents are f = K a, and a = d log p(y | f) / df at the mode. A factor of
the Hessian is reused until steps no longer become shorter fast enough.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from skconvgp._protocols import SiteFunction, Sites
from skconvgp.inference._laplace_states import LaplaceState, factor_sites_
from skconvgp.linalg import symmetric_eigen

__all__ = [
    "LaplaceFit",
    "fit_laplace",
    "laplace_matrices",
    "leave_one_out_laplace",
]

PACE = 0.7  # a factor is reused if a step is shorter than this share of the last one
GOAL = 1e-3  # steps with an old factor end at this share of the tolerance
SLACK = 8.0  # rounding errors of the objective, in units of its last digit
HALVINGS = 40  # of a step that does not raise the objective
MULTIPLES = [2.0**i for i in range(-20, 3)]  # factors that are tried on a start
ROUNDING = 16  # smallest eigenvalue of I - R^T W R, in units of the last digit


@dataclass(frozen=True)
class LaplaceFit:
    """Mode of the posterior, and a Gaussian there."""

    dual: Tensor  # dual coefficients (n, k) of the k latents: the mode is K times these
    evidence: float  # approximate log marginal likelihood of the observations
    converged: bool  # whether the last Newton step was short enough
    n_iter: int  # number of factorisations
    sites: Sites  # log likelihoods at the mode, with derivatives
    state: LaplaceState  # factors for posterior covariances


def laplace_matrices(n_latents: int) -> int:
    """Return the largest number of (n, n) matrices that `fit_laplace` holds.

    The Gram matrix does not count. The state of a fit holds one matrix less.
    """
    return 2 + (n_latents if n_latents > 1 else 0)


def fit_laplace(
    gram: Tensor,
    observations: Tensor,
    n_latents: int,
    sites: SiteFunction,
    *,
    start: Tensor | None = None,
    tolerance: float = 1e-6,
    max_iter: int = 100,
) -> LaplaceFit:
    """Find the mode of the latents, and the Gaussian with the same curvature.

    `gram` (n, n) is the prior covariance of each of `n_latents` functions, its
    amplitude included. `sites` takes latents (n, k) and the observations (n,), such as
    class codes or counts, and returns `Sites`. A curvature other than minus the second
    derivatives changes the Gaussian and the path to the mode, but not the mode.

    `start` (n, k) holds dual coefficients near a multiple of the mode's, for example
    the mode's for another amplitude. The tolerance is the largest length of the last
    Newton step, in posterior standard deviations. If rounding errors of the objective
    hide so short a step, a step of their size suffices. `max_iter` is the largest
    number of factorisations; the mode is returned converged or not.
    """
    problem = _Problem(gram, observations, sites)
    point = problem.first(n_latents, start)
    buffer = gram.new_empty(n_latents, *gram.shape)
    n_iter, last, length = 1, -math.inf, math.inf
    while (
        n_iter < max_iter
        and length > max(GOAL * tolerance, point.resolution)
        and point.objective > last
    ):
        last = point.objective
        point, length = problem.approach(buffer, point, GOAL * tolerance)
        n_iter += 1
    state = factor_sites_(gram, point.sites.curvature, buffer)
    point, length = problem.step(state, point)
    converged = length <= max(tolerance, point.resolution)
    evidence = point.objective - 0.5 * float(state.logdet)
    return LaplaceFit(point.dual, evidence, converged, n_iter, point.sites, state)


def leave_one_out_laplace(gram: Tensor, fit: LaplaceFit) -> tuple[Tensor, Tensor]:
    r"""Return leave-one-out means (n, k) and covariances (n, k, k) of the latents.

    .. math:: V_i = S_i (I - W_i S_i)^{-1}, \quad m_i = f_i - V_i g_i

    with the posterior covariance S_i, precision W_i and gradient g_i of a sample. The
    Gaussian sites of the other samples are not refitted (Vehtari et al., "Bayesian
    leave-one-out cross-validation approximations for Gaussian latent variable models",
    2016).

    `gram` is the matrix that `fit_laplace` received.
    """
    values, vectors = symmetric_eigen(fit.state.covariance(gram, gram.diagonal()))
    root = vectors * values.sqrt()[:, None, :]  # S = R R^T, V = R (I - R^T W R)^-1 R^T
    shrunk = -(root.mT @ fit.sites.precision() @ root)
    shrunk.diagonal(dim1=1, dim2=2).add_(1.0)
    values, vectors = symmetric_eigen(shrunk)
    smallest = ROUNDING * torch.finfo(gram.dtype).eps
    half = root @ (vectors * values.clamp(min=smallest).rsqrt()[:, None, :])
    cov = half @ half.mT
    shift = cov @ fit.sites.gradient[:, :, None]
    return gram @ fit.dual - shift[:, :, 0], cov


@dataclass(frozen=True)
class _Point:
    """Dual coefficients and latents (n, k), their sites, and the log posterior."""

    dual: Tensor
    latents: Tensor
    sites: Sites
    objective: float

    @property
    def rounding(self) -> float:
        """Rounding errors of the objective."""
        return SLACK * torch.finfo(self.dual.dtype).eps * abs(self.objective)

    @property
    def resolution(self) -> float:
        """Length of the shortest step whose gain is more than rounding errors."""
        return math.sqrt(self.rounding)


@dataclass(frozen=True)
class _Problem:
    """Prior covariance (n, n), observations (n,), and their log likelihood."""

    gram: Tensor
    observations: Tensor
    site_function: SiteFunction

    def first(self, n_latents: int, start: Tensor | None) -> _Point:
        """Return the prior mean, or a multiple of the start that is more probable."""
        zero = self.gram.new_zeros(len(self.gram), n_latents)
        points = [self._point(zero, zero)]
        if start is not None:
            latents = self.gram @ start
            points += [self._point(c * start, c * latents) for c in MULTIPLES]
        return max(points, key=lambda point: point.objective)

    def step(self, state: LaplaceState, point: _Point) -> tuple[_Point, float]:
        """Take a Newton step, halved until it climbs; return its full length, too."""
        residual = point.sites.gradient - point.dual
        change = residual - state.solve(self.gram @ residual)
        rise = self.gram @ change
        # The square of the step in the posterior metric: negative only by rounding.
        length = math.sqrt(abs(float((residual * rise).sum())))
        for halvings in range(HALVINGS):
            share = 0.5**halvings
            moved = self._point(
                point.dual + share * change, point.latents + share * rise
            )
            if moved.objective >= point.objective - point.rounding:
                return moved, length
        return point, length

    def approach(
        self, buffer: Tensor, point: _Point, goal: float
    ) -> tuple[_Point, float]:
        """Step with one factor while steps become shorter; return the last length."""
        state = factor_sites_(self.gram, point.sites.curvature, buffer)
        last = math.inf
        point, length = self.step(state, point)
        while goal < length < PACE * last:
            last = length
            point, length = self.step(state, point)
        return point, length

    def _point(self, dual: Tensor, latents: Tensor) -> _Point:
        sites = self.site_function(latents, self.observations)
        prior = float((dual * latents).sum())
        return _Point(dual, latents, sites, float(sites.log_prob.sum()) - 0.5 * prior)
