"""CoefficientProcess: each latent function has a precision of its coefficients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._typing import FloatArray
from skconvgp.engine import Placement, compute_at, frozen_bytes, thaw, to_numpy
from skconvgp.inference import CovarianceUpdate, join_updates, posterior_mean
from skconvgp.linalg import half_solve
from skconvgp.processes._latents import run_beside
from skconvgp.processes._patch_prior import PatchPrior
from skconvgp.processes._problem import Latent, Model
from skconvgp.processes._run import Resources, Run

__all__ = ["CoefficientProcess", "CoefficientState"]


@dataclass(frozen=True)
class CoefficientState:
    """State of a process of coefficients, for the uncertainty of predictions.

    Parameters
    ----------
    factors : ndarray of shape (k, r, r)
        Lower Cholesky factors of the precisions of the coefficients, one for each
        latent function.
    """

    factors: Any


@dataclass(frozen=True)
class CoefficientProcess:
    """A process of features whose latent functions differ in their posterior variance.

    Parameters
    ----------
    model : Model
        Targets, noise, amplitude, log evidence.
    prior : PatchPrior
        Features of new samples.
    state : CoefficientState
        Factors for predictive variances, as arrays.
    dual : ndarray of shape (r, n_outputs)
        Means are features times these.
    variance : {"dtc", "sor"}
        How the variance that the features do not explain is treated.
    has_one_latent : bool
        Whether the function of the first of two classes is the negative of the other's.
    """

    model: Model
    prior: PatchPrior
    state: CoefficientState
    dual: FloatArray
    variance: str
    has_one_latent: bool

    has_left_out: ClassVar[bool] = True  # factors solve exactly

    def latent(
        self,
        rows: NDArray[Any],
        diag: FloatArray,  # noqa: ARG002  (which only a given matrix reads)
        resources: Resources,
        *,
        needs_var: bool = False,
        needs_cov: bool = False,
    ) -> Latent:
        """Return the posterior at new samples, a block of rows at a time."""
        has_state, unit = needs_var or needs_cov, self.model.mean_diag
        needed = frozen_bytes(self.state) if has_state else 0
        needs_diag = needs_var and self.variance != "sor"

        def latent_at(placement: Placement) -> Latent:
            run = run_beside(resources, placement, needed)
            dual = run.tensor(self.dual)
            state = self._state_at(run) if has_state else None
            means, variances = [], []
            halves: list[list[CovarianceUpdate]] = []
            for features, prior in self.prior.stream(rows, run, needs_diag=needs_diag):
                means.append(posterior_mean(features, dual))
                if state is None:
                    continue
                if needs_var:
                    updates = self._updates(state, features)  # one is held at once
                    each = [one.variance(prior / unit)[0] for one in updates]
                    variances.append(torch.stack(each))
                if needs_cov:
                    halves.append(list(self._updates(state, features)))
            cov, cov_scale = torch.empty(0), 0.0
            if needs_cov:
                prior = self.prior.covariance(rows, run, unit)
                cov_scale = float(prior.diagonal().mean())
                joined = map(join_updates, map(list, zip(*halves, strict=True)))
                cov = torch.stack([one.covariance(prior) for one in joined], dim=2)
            var = torch.cat(variances, 1).mT if variances else torch.empty(0, 1)
            return Latent(
                to_numpy(torch.cat(means)),
                to_numpy(self._of_outputs(var)),
                to_numpy(self._of_outputs(cov)),
                cov_scale,
            )

        return compute_at(resources.placement(needed), latent_at)

    def _state_at(self, run: Run) -> CoefficientState:
        state = thaw(self.state, run.config.device)
        return replace(state, factors=state.factors.to(run.config.solve_dtype))

    def _updates(
        self, state: CoefficientState, features: Tensor
    ) -> Iterator[CovarianceUpdate]:
        """Yield the update of each latent function, given features (b, r)."""
        minus = None if self.variance == "sor" else features.mT
        for factor in state.factors:
            yield CovarianceUpdate(minus, half_solve(factor, features.mT))

    def _of_outputs(self, values: Tensor) -> Tensor:
        """Return values (..., k) of latent functions for all outputs."""
        if not (self.has_one_latent and values.numel()):
            return values
        return values.expand(*values.shape[:-1], 2)
