"""The posterior at new samples, a block of rows at a time."""

from __future__ import annotations

from typing import Any, Protocol

import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._typing import FloatArray
from skconvgp.engine import Placement, compute_at, frozen_bytes, to_numpy, to_tensor
from skconvgp.inference import Halves, join_halves, posterior_mean
from skconvgp.processes._facts import Fact
from skconvgp.processes._prior import Prior
from skconvgp.processes._problem import Latent, Model
from skconvgp.processes._run import Resources, Run

__all__ = ["CLIP_TOLERANCE", "ByHalves", "latent_by_halves", "run_beside"]

CLIP_TOLERANCE = 1e-6  # of the prior variance (docs/maths.rst, "Posterior")


class ByHalves(Protocol):
    """A process whose covariance is a prior one, less and plus products of halves."""

    @property
    def model(self) -> Model:
        """Its numbers."""
        ...

    @property
    def prior(self) -> Prior:
        """Its prior."""
        ...

    @property
    def dual(self) -> FloatArray:
        """Means are covariances times these (n, k)."""
        ...

    @property
    def state(self) -> Any:
        """What it keeps for uncertainty."""
        ...

    @property
    def fact_of_clipping(self) -> Any:
        """What it means that a variance was below zero, given how far."""
        ...

    def state_at(self, placement: Placement, run: Run) -> Any:
        """Return the state at a place."""
        ...

    def halves(self, state: Any, cross: Tensor) -> Halves:
        """Return what data change, from covariances (b, n) of new samples."""
        ...


def latent_by_halves(
    process: ByHalves,
    rows: NDArray[Any],
    diag: FloatArray,
    resources: Resources,
    *,
    needs_var: bool,
    needs_cov: bool,
) -> Latent:
    """Return the posterior of a process at new samples.

    Parameters
    ----------
    process : ByHalves
        The process.
    rows : ndarray of shape (n, d)
        New samples.
    diag : ndarray of shape (n,)
        Their prior variances, which only a given matrix reads.
    resources : Resources
        What may be used.
    needs_var, needs_cov : bool
        Whether variances, or covariances, are wanted.
    """
    has_state, unit = needs_var or needs_cov, process.model.mean_diag
    needed = frozen_bytes(process.state) if has_state else 0

    def latent_at(placement: Placement) -> Latent:
        run = run_beside(resources, placement, needed)
        config = run.config
        dual = to_tensor(process.dual, config.device, config.solve_dtype)
        state = process.state_at(placement, run) if has_state else None
        means, variances = [], []
        halves: list[Halves] = []
        clipped = 0.0
        for cross, prior in process.prior.stream(rows, diag, run):
            means.append(posterior_mean(cross, dual))
            if state is None:
                continue
            half = process.halves(state, cross)
            var, worst = half.variance(prior / unit)
            clipped = max(clipped, worst)
            if needs_var:
                variances.append(var)
            if needs_cov:
                halves.append(half)
        cov, cov_scale = torch.empty(0), 0.0
        if needs_cov:
            prior = process.prior.covariance(rows, run, unit)
            cov_scale = float(prior.diagonal().mean())
            cov = join_halves(halves).covariance(prior)[:, :, None]
        var = torch.cat(variances)[:, None] if variances else torch.empty(0, 1)
        facts: list[Fact] = []
        if clipped > CLIP_TOLERANCE:
            facts.append(process.fact_of_clipping(clipped))
        mean = to_numpy(torch.cat(means))
        return Latent(mean, to_numpy(var), to_numpy(cov), cov_scale, facts=facts)

    return compute_at(resources.placement(needed), latent_at)


def run_beside(resources: Resources, placement: Placement, needed: int) -> Run:
    """Return how to predict beside a state of so many bytes."""
    # On the CPU the state is used where it is kept.
    return resources.run(placement, 0 if placement.device.type == "cpu" else needed)
