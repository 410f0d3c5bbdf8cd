"""IterativeEvidence: the evidence of many samples, by products with the Gram matrix."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from skconvgp._protocols import GramOperator, IterativeSolver
from skconvgp._settings import FIXED
from skconvgp._typing import Bounds
from skconvgp.exceptions import NotPSDError


@dataclass(frozen=True)
class FactoredScore:
    """Value of an objective, and its derivatives by the matrix, as A B^T + diag(d)."""

    value: float  # smaller is better
    by_parameter: float  # by the logarithm of the relative noise variance
    left: Tensor  # A (n, r); empty if derivatives were not asked for
    right: Tensor  # B (n, r); empty if derivatives were not asked for
    diag: Tensor  # d (n,)


@dataclass(frozen=True)
class IterativeEvidence:
    """Negative log evidence for each target, with the amplitude profiled out.

    It is "evidence" of `Rho`, computed by products with the matrix. The determinant and
    its derivatives are estimated with the probes of the solver. These are the same for
    all hyperparameters, so that the estimate is a smooth function of them.

    References
    ----------
    Gardner et al., "GPyTorch: blackbox matrix-matrix Gaussian process inference with
    GPU acceleration", 2018, section 4; Wang et al., "Exact Gaussian processes on a
    million data points", 2019.
    """

    solver: IterativeSolver[Any]
    # Whether the matrix is stored; if not, each product evaluates its entries anew.
    is_held: bool
    noise_variance: float  # relative to the mean of the diagonal
    noise_variance_bounds: Bounds = FIXED  # its bounds if it is learned with the kernel

    def score(
        self,
        gram: GramOperator,
        targets: Tensor,
        noise_variance: float | None = None,
        *,
        has_slopes: bool = True,
    ) -> FactoredScore | None:
        """Return an estimate of the value for targets (n, k), and of its derivatives.

        The result is None if the value is undefined, or if the solver does not
        converge. The matrix has mean diagonal 1. The noise variance, relative to it, is
        by default the objective's. Without `has_slopes` no derivatives are computed,
        which need solutions for the probes.
        """
        noise = self.noise_variance if noise_variance is None else noise_variance
        try:
            return self._score(gram, targets, noise, has_slopes=has_slopes)
        except NotPSDError:
            return None

    def _score(
        self, gram: GramOperator, targets: Tensor, noise: float, *, has_slopes: bool
    ) -> FactoredScore | None:
        n, diag = gram.n_samples, gram.diag()
        if not bool((diag.isfinite() & (diag >= 0.0)).all()):
            return None
        state = self.solver.init(gram, torch.full_like(diag, noise))
        solution = self.solver.solve(state, targets)
        dual = solution.value
        norm = float((targets * dual).sum())
        if not (solution.converged and 0.0 < norm < math.inf):
            return None
        value = 0.5 * (math.log(2.0 * math.pi * norm / targets.numel()) + 1.0)
        value += float(self.solver.logdet(state)) / (2.0 * n)
        if not math.isfinite(value):
            return None
        if not has_slopes:
            return FactoredScore(value, math.nan, dual[:, :0], dual[:, :0], diag)
        left, right, inverse_diag = self.solver.inverse_factors(state)
        trace = float((left * right).sum() + inverse_diag.sum())  # of the inverse
        squares = float(dual.square().sum())
        by_noise = 0.5 * noise * (trace / n - squares / norm)
        left = torch.cat([left.div_(2.0 * n), dual * (-0.5 / norm)], dim=1)
        right = torch.cat([right, dual], dim=1)
        if not (math.isfinite(by_noise) and bool(left.isfinite().all())):
            return None
        # The value depends on K / noise only, and K is divided by its mean diagonal.
        # That division adds `by_noise` / n to the derivatives by each diagonal entry.
        by_diag = (inverse_diag / 2.0 + by_noise) / n
        return FactoredScore(value, by_noise, left, right, by_diag)
