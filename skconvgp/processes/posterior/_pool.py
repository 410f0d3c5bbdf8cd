"""Posterior covariances of samples without labels, for choices among them.

The formulas: docs/maths.rst, "Which samples to label next".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._tensors import nothing
from skconvgp.engine import Placement, compute_at, frozen_bytes, to_numpy, to_tensor
from skconvgp.inference import CovarianceUpdate, Pool, posterior_mean
from skconvgp.processes._facts import Fact
from skconvgp.processes._problem import Latent
from skconvgp.processes._process import Process, rounding_facts
from skconvgp.processes._run import Resources, Run, run_of_fit
from skconvgp.processes.basis._basis import NewRows
from skconvgp.processes.posterior._shared import unit_noise

REMEDY = "choose from fewer images."

NO_MATRIX = (
    "its matrix tells no covariances of new samples with each other: fit with a kernel "
    "object"
)


@dataclass(frozen=True)
class Choice:
    """How candidates are chosen."""

    # Returns which candidates are chosen, given their covariances and the posterior.
    choose: Callable[[Pool, Latent], Tensor]
    needs_var: bool  # whether variances of the posterior are read


def why_no_matrix(process: Process) -> str:
    """Return why new samples have no covariances; empty if they do."""
    return "" if process.basis.is_joined else NO_MATRIX


def choose_solved(
    process: Process,
    rows: NDArray[Any],
    candidates: NDArray[Any],
    resources: Resources,
    choice: Choice,
) -> NDArray[Any]:
    """Return which of the candidates are chosen, by a posterior by solves.

    `candidates` (c,) are indices of rows (r, d).
    """
    r, c, n = len(rows), len(candidates), process.basis.n_samples
    numbers = r * c + n * (2 * r + c) + (n + c) ** 2
    model, others = process.model, np.setdiff1d(np.arange(r), candidates)
    needs_var = choice.needs_var

    def pool_at(run: Run, at: Tensor) -> tuple[Pool, Latent]:
        posterior: Any = process.posterior.at(process.basis, run)
        # What an image takes to be compared is computed once for all its covariances.
        basis, own = process.basis.joined(rows[candidates], run)
        covariance = own.new_empty((r, c))
        half, prior = own.new_empty((n, r)), own.new_empty(r)
        dual = run.tensor(process.dual)
        mean = own.new_empty((r, dual.shape[1]))

        def put(members: Tensor, values: Tensor, variances: Tensor) -> None:
            covariance[members] = values[:, n:] / posterior.unit
            update, _ = posterior.part(values[:, :n], variances)
            half[:, members] = update.minus
            mean[members] = posterior_mean(values[:, :n], dual)
            prior[members] = variances / posterior.unit

        put(at, own, own[:, n:].diagonal())
        del own
        start, further = 0, to_tensor(others, at.device)
        new = NewRows(rows[others])
        for values, variances in basis.stream(new, run, needs_diag=needs_var):
            put(further[start : start + len(values)], values, variances)
            start += len(values)
        var, clipped = None, 0.0
        if needs_var:
            var, below = CovarianceUpdate(half).variance(prior)
            clipped = float(below)
        latent = _latent(
            mean,
            var,
            prior if needs_var else None,
            rounding_facts(process.basis, 0.0, clipped),
        )
        covariance.addmm_(half.mT, half[:, at], alpha=-1.0)
        noise = torch.full_like(covariance[0], model.noise)
        return Pool(covariance, at, noise + float(posterior.state.jitter)), latent

    return _choose(process, numbers, candidates, resources, pool_at, choice)


def choose_by_features(
    process: Process,
    rows: NDArray[Any],
    candidates: NDArray[Any],
    resources: Resources,
    choice: Choice,
) -> NDArray[Any]:
    """Return which of the candidates are chosen, by a posterior of features.

    What features leave out of the prior variance stays as it is, whatever is observed.
    """
    r, c = len(rows), len(candidates)
    posterior: Any = process.posterior
    numbers = len(posterior.state.factors[0]) * (2 * r + c) + r * c
    model, variance = process.model, posterior.variance

    def pool_at(run: Run, at: Tensor) -> tuple[Pool, Latent]:
        own, dual = posterior.at(process.basis, run), run.tensor(process.dual)
        has_own_noise = variance == "fitc"
        needs_diag = has_own_noise or (choice.needs_var and variance != "sor")
        halves, beyond, means, priors, spreads = [], [], [], [], []
        new, excess = NewRows(rows), 0.0
        stream = process.basis.stream(new, run, own.width, needs_diag=needs_diag)
        for values, variances in stream:
            prior = variances / model.mean_diag
            (update,), _ = own.part(values, prior)
            halves.append(update.plus)
            means.append(posterior_mean(values, dual))
            unexplained = torch.zeros_like(update.plus[0])
            if has_own_noise:
                explained = update.minus.square().sum(0)
                unexplained = (prior - explained).clamp(min=0.0)
            beyond.append(unexplained)
            if choice.needs_var:
                var, of_block = update.variance(prior)
                spreads.append(var)
                priors.append(prior)
                excess = max(excess, of_block)
        half = torch.cat(halves, dim=1)
        noise = unit_noise(torch.cat(beyond), model.noise, variance)
        latent = _latent(
            torch.cat(means),
            torch.cat(spreads) if spreads else None,
            torch.cat(priors) if priors and variance != "sor" else None,
            rounding_facts(process.basis, excess, 0.0),
        )
        return Pool(half.mT @ half[:, at], at, noise[at]), latent

    return _choose(process, numbers, candidates, resources, pool_at, choice)


def _latent(
    mean: Tensor, var: Tensor | None, prior: Tensor | None, facts: list[Fact]
) -> Latent:
    """Return the posterior at samples, given means (r, k) and what is known (r,)."""
    none = nothing(0)
    return Latent(
        to_numpy(mean),
        to_numpy(nothing(0, 1) if var is None else var[:, None]),
        to_numpy(none),
        prior=to_numpy(none if prior is None else prior),
        facts=facts,
    )


def _choose(
    process: Process,
    numbers: int,
    candidates: NDArray[Any],
    resources: Resources,
    pool_at: Callable[[Run, Tensor], tuple[Pool, Latent]],
    choice: Choice,
) -> NDArray[Any]:
    """Return which of the candidates are chosen, where so many numbers are held."""
    needed = numbers * resources.solve_dtype.itemsize

    def chosen_at(placement: Placement) -> NDArray[Any]:
        user = f"A choice among {len(candidates)} images"
        run = run_of_fit(0, needed, placement, resources, REMEDY, user)
        return to_numpy(
            choice.choose(*pool_at(run, to_tensor(candidates, placement.device)))
        )

    placement = resources.placement(needed + frozen_bytes(process.state))
    return compute_at(placement, chosen_at)
