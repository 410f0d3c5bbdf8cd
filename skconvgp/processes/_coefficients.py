"""CoefficientProcess: each latent function has a precision of its coefficients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._protocols import lift
from skconvgp._tensors import nothing
from skconvgp._typing import FloatArray
from skconvgp.engine import Placement, compute_at, frozen_bytes, thaw, to_numpy
from skconvgp.inference import CovarianceUpdate, join_updates, posterior_mean
from skconvgp.linalg import half_solve
from skconvgp.processes._expansion import ExpansionPrior
from skconvgp.processes._latents import excess_facts, run_beside
from skconvgp.processes._patch_prior import PatchPrior
from skconvgp.processes._prior import PlainPrior, Stream
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
    lift_map : ndarray of shape (m, r) or (), or None, default=None
        As in `FeatureState`.
    mean_factor : ndarray of shape (1, r, r) or None, default=None
        Lower Cholesky factor of the inverse of the mean of the k posterior covariances:
        it gives the mean of the k variances in the time of one. None if `factors` do.
    """

    factors: Any
    lift_map: Any = None
    mean_factor: Any = None


@dataclass(frozen=True)
class CoefficientProcess:
    """A process of features whose latent functions differ in their posterior variance.

    Parameters
    ----------
    model : Model
        Targets, noise, amplitude, log evidence.
    prior : PatchPrior, ExpansionPrior, KernelPrior or MatrixPrior
        Features of new samples, or their covariances with the m anchors.
    state : CoefficientState
        Factors for predictive variances, as arrays.
    dual : ndarray of shape (m, n_outputs)
        Means are what the prior gives of new samples times these.
    variance : {"dtc", "sor"}
        How the variance that the features do not explain is treated.
    has_one_latent : bool
        Whether the function of the first of two classes is the negative of the other's.
    """

    model: Model
    prior: PlainPrior | ExpansionPrior | PatchPrior
    state: CoefficientState
    dual: FloatArray
    variance: str
    has_one_latent: bool

    has_left_out: ClassVar[bool] = True  # factors solve exactly

    def latent(
        self,
        rows: NDArray[Any],
        diag: FloatArray,
        resources: Resources,
        *,
        needs_var: bool = False,
        needs_cov: bool = False,
    ) -> Latent:
        """Return the posterior at new samples, a block of rows at a time."""
        has_state, unit = needs_var or needs_cov, self.model.mean_diag
        needed = frozen_bytes(self.state) if has_state else 0

        def latent_at(placement: Placement) -> Latent:
            run = run_beside(resources, placement, needed)
            dual = run.tensor(self.dual)
            state = self.state_at(run) if has_state else None
            means, variances = [], []
            halves: list[list[CovarianceUpdate]] = []
            excess = 0.0
            for cross, prior in self.stream(rows, diag, run, needs_diag=needs_var):
                means.append(posterior_mean(cross, dual))
                if state is None:
                    continue
                if needs_var:
                    updates = self.updates(state, cross)  # one is held at once
                    each, clipped = zip(
                        *(one.variance(prior / unit) for one in updates), strict=True
                    )
                    variances.append(torch.stack(each))
                    excess = max(excess, *clipped)
                if needs_cov:
                    halves.append(list(self.updates(state, cross)))
            cov, cov_scale = nothing(0), 0.0
            if needs_cov:
                prior = self.prior.covariance(rows, run, unit)
                cov_scale = float(prior.diagonal().mean())
                joined = map(join_updates, map(list, zip(*halves, strict=True)))
                cov = torch.stack([one.covariance(prior) for one in joined], dim=2)
            var = torch.cat(variances, 1).mT if variances else nothing(0, 1)
            return Latent(
                to_numpy(torch.cat(means)),
                to_numpy(self._of_outputs(var)),
                to_numpy(self._of_outputs(cov)),
                cov_scale,
                facts=excess_facts(self.prior, excess),
            )

        return compute_at(resources.placement(needed), latent_at)

    def state_at(self, run: Run) -> CoefficientState:
        """Return the state on the device of a run, in the precision of solves."""
        state, dtype = thaw(self.state, run.config.device), run.config.solve_dtype
        return replace(state, factors=state.factors.to(dtype))

    def stream(
        self, rows: NDArray[Any], diag: FloatArray, run: Run, *, needs_diag: bool
    ) -> Stream:
        """Yield covariances or features, and prior variances of new samples."""
        needs_diag = needs_diag and self.variance != "sor"
        return self.prior.stream(rows, diag, run, needs_diag=needs_diag)

    def updates(
        self, state: CoefficientState, cross: Tensor
    ) -> Iterator[CovarianceUpdate]:
        """Yield the update of each latent function, given what the prior streams."""
        features = cross if state.lift_map is None else lift(cross, state.lift_map)
        minus = None if self.variance == "sor" else features.mT
        for factor in state.factors:
            yield CovarianceUpdate(minus, half_solve(factor, features.mT))

    def _of_outputs(self, values: Tensor) -> Tensor:
        """Return values (..., k) of latent functions for all outputs."""
        if not (self.has_one_latent and values.numel()):
            return values
        return values.expand(*values.shape[:-1], 2)
