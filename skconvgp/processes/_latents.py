"""CovarianceUpdateProcess: the posterior at new samples, a block of rows at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._tensors import nothing
from skconvgp._typing import FloatArray
from skconvgp.engine import Placement, compute_at, frozen_bytes, to_numpy
from skconvgp.inference import CovarianceUpdate, join_updates, posterior_mean
from skconvgp.processes._facts import Exceeded, Fact
from skconvgp.processes._patch_prior import PatchPrior
from skconvgp.processes._prior import AnyPrior, Stream
from skconvgp.processes._problem import Latent, Model
from skconvgp.processes._run import Resources, Run

__all__ = ["CLIP_TOLERANCE", "CovarianceUpdateProcess", "excess_facts", "run_beside"]

CLIP_TOLERANCE = 1e-6  # of the prior variance (docs/maths.rst, "Posterior")


@dataclass(frozen=True)
class CovarianceUpdateProcess(ABC):
    """A process whose posterior covariance is a `CovarianceUpdate` of the prior's.

    All outputs share the update: their posterior variances differ by their amplitudes
    only. Subclasses say which covariances of new samples are needed, and the update
    that follows from them.

    Parameters
    ----------
    model : Model
        Targets, noise, amplitude, evidence.
    prior : Prior or PatchPrior
        Covariances with the samples that new ones are compared with.
    state : object
        Factors for predictive variances, as arrays.
    dual : ndarray of shape (m, k)
        Dual coefficients: means are covariances times these.
    """

    model: Model
    prior: AnyPrior
    state: Any
    dual: FloatArray

    @abstractmethod
    def state_at(self, placement: Placement, run: Run) -> Any:
        """Return the state on the device of a placement."""

    @abstractmethod
    def covariance_update(self, state: Any, cross: Tensor) -> CovarianceUpdate:
        """Return the update by the data, given covariances (b, m) of new samples."""

    @abstractmethod
    def stream(
        self, rows: NDArray[Any], diag: FloatArray, run: Run, *, needs_diag: bool
    ) -> Stream:
        """Yield covariances (b, m) and prior variances (b,) of new samples.

        The variances may be zeros if they are not needed.
        """

    @abstractmethod
    def facts_of(self, clipped: float, *, needs_var: bool) -> list[Fact]:
        """Return facts about variances or covariances that users should know.

        Parameters
        ----------
        clipped : float
            How far below zero rounding had taken a variance, as a share of the prior
            variance.
        needs_var : bool
            Whether variances are asked for, and not only covariances.
        """

    def latent(
        self,
        rows: NDArray[Any],
        diag: FloatArray,
        resources: Resources,
        *,
        needs_var: bool = False,
        needs_cov: bool = False,
    ) -> Latent:
        """Return the posterior at new samples.

        Parameters
        ----------
        rows : ndarray of shape (n, d)
            New samples.
        diag : ndarray of shape (n,)
            Their prior variances, which only a given matrix reads.
        resources : Resources
            Devices and memory that may be used.
        needs_var, needs_cov : bool
            Whether variances, or covariances, are wanted.
        """
        has_state, unit = needs_var or needs_cov, self.model.mean_diag
        needed = frozen_bytes(self.state) if has_state else 0

        def latent_at(placement: Placement) -> Latent:
            run = run_beside(resources, placement, needed)
            dual = run.tensor(self.dual)
            state = self.state_at(placement, run) if has_state else None
            means, variances = [], []
            updates: list[CovarianceUpdate] = []
            clipped = 0.0
            for cross, prior in self.stream(rows, diag, run, needs_diag=has_state):
                means.append(posterior_mean(cross, dual))
                if state is None:
                    continue
                update = self.covariance_update(state, cross)
                var, worst = update.variance(prior / unit)
                clipped = max(clipped, worst)
                if needs_var:
                    variances.append(var)
                if needs_cov:
                    updates.append(update)
            cov, cov_scale = nothing(0), 0.0
            if needs_cov:
                prior = self.prior.covariance(rows, run, unit)
                cov_scale = float(prior.diagonal().mean())
                cov = join_updates(updates).covariance(prior)[:, :, None]
            var = torch.cat(variances)[:, None] if variances else nothing(0, 1)
            facts = self.facts_of(clipped, needs_var=needs_var) if has_state else []
            mean = to_numpy(torch.cat(means))
            return Latent(mean, to_numpy(var), to_numpy(cov), cov_scale, facts=facts)

        return compute_at(resources.placement(needed), latent_at)


def run_beside(resources: Resources, placement: Placement, needed: int) -> Run:
    """Return how to predict while a state of `needed` bytes is held."""
    # On the CPU the arrays of the state are used without a copy.
    return resources.run(placement, 0 if placement.device.type == "cpu" else needed)


def excess_facts(prior: AnyPrior, excess: float) -> list[Fact]:
    """Return a fact if features explain more than the variance of a sample.

    Parameters
    ----------
    prior : object
        Prior of the features.
    excess : float
        What they explain beyond it, as a share of the mean prior variance.
    """
    # Features of patches are a projection of the kernel: in exact arithmetic they
    # never exceed the variance.
    is_rounding = isinstance(prior, PatchPrior) or excess <= CLIP_TOLERANCE
    return [] if is_rounding else [Exceeded(excess)]
