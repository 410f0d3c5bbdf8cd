"""IterativeEvidence: the evidence of many samples, whose matrix is never held."""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from skconvgp._protocols import FactoredScore, Score
from skconvgp._settings import FIXED
from skconvgp._typing import Bounds
from skconvgp.engine import KernelGram
from skconvgp.flows._objectives import Rho

__all__ = ["IterativeEvidence"]


@dataclass(frozen=True)
class IterativeEvidence:
    """Negative log evidence for each target, the amplitude profiled out, by products.

    It is "evidence" of `Rho`, with the determinant and its derivatives estimated: the
    probes are those of the solver, the same wherever it looks.

    Parameters
    ----------
    solver : object
        An iterative solver with `inverse_factors`.
    noise_variance : float
        Relative noise variance.
    noise_variance_bounds : tuple of float or "fixed"
        Its bounds where it is learned with the kernel.

    References
    ----------
    Gardner et al., 2018, section 4; Wang et al., 2019.
    """

    solver: Any
    noise_variance: float
    noise_variance_bounds: Bounds = FIXED

    def score_products(
        self, gram: KernelGram, targets: Tensor, noise_variance: float | None = None
    ) -> FactoredScore:
        """Return the value and its derivatives from products with the matrix.

        Parameters
        ----------
        gram : KernelGram
            The matrix K, not scaled.
        targets : Tensor of shape (n, k)
            Targets.
        noise_variance : float, default=None
            Relative noise variance in the place of the own one.

        Returns
        -------
        score : FactoredScore
            The value, an estimate, and its derivatives by the entries of K.
        """
        noise = self.noise_variance if noise_variance is None else noise_variance
        n = gram.n_samples
        diag = gram.diag()
        scale = float(diag.mean())
        scaled = replace(gram, scale=scale)
        state = self.solver.init(scaled, torch.full_like(diag, noise))
        targets = targets.to(diag)
        dual = self.solver.solve(state, targets).value
        norm = float((targets * dual).sum())
        if not norm > 0.0:  # as for constant targets
            norm = math.nan
        value = 0.5 * (math.log(2.0 * math.pi * norm / targets.numel()) + 1.0)
        value += float(self.solver.logdet(state)) / (2.0 * n)
        left, right, diag = self.solver.inverse_factors(state)
        trace = float((left * right).sum() + diag.sum())  # of the inverse
        squares = float(dual.square().sum())
        by_noise = 0.5 * noise * (trace / n - squares / norm)
        # Less noise and a larger K are the same, and K is divided by its mean diagonal.
        return FactoredScore(
            value,
            torch.cat([left / (2.0 * n), dual * (-0.5 / norm)], dim=1) / scale,
            torch.cat([right, dual], dim=1),
            (diag / 2.0 + by_noise) / (n * scale),
            by_noise,
        )

    def score(
        self, gram: Tensor, targets: Tensor, noise_variance: float | None = None
    ) -> Score:
        """Return the value and its derivatives from a matrix that is held."""
        return self._exact.score(gram, targets, noise_variance)

    def count(self, n: int) -> int:
        """Return the size of the sample in a batch of n, which has no meaning here."""
        return self._exact.count(n)

    @property
    def _exact(self) -> Rho:
        return Rho("evidence", noise_variance=self.noise_variance)
