"""VariationalProcess: a Gaussian posterior that maximises a bound of the evidence."""

from __future__ import annotations

from dataclasses import dataclass, field

from skconvgp._typing import FloatArray
from skconvgp.processes._coefficients import CoefficientProcess

__all__ = ["VariationalProcess"]


@dataclass(frozen=True)
class VariationalProcess(CoefficientProcess):
    """A process whose log evidence is a lower bound.

    Parameters
    ----------
    model, prior, state, dual, variance, has_one_latent : object
        As in `CoefficientProcess`.
    loo : tuple of ndarray
        Leave-one-out means and variances (n, n_outputs), without noise: those of the
        posterior without the approximate likelihood of a sample.
    """

    loo: tuple[FloatArray, FloatArray] = field(repr=False)

    @property
    def bound(self) -> float:
        """Lower bound of the log evidence."""
        assert self.model.log_evidence is not None
        return self.model.log_evidence
