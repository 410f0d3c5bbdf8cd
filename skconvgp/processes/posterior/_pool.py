"""Posterior covariances of samples without labels, for choices among them.

The formulas: docs/maths.rst, "Which samples to label next".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp.engine import Placement, compute_at, frozen_bytes, to_numpy, to_tensor
from skconvgp.inference import Pool
from skconvgp.processes._process import Process
from skconvgp.processes._run import Resources, Run, run_of_fit
from skconvgp.processes.basis._basis import NewRows
from skconvgp.processes.posterior._shared import unit_noise

REMEDY = "choose from fewer images."

NO_MATRIX = (
    "its matrix tells no covariances of new samples with each other: fit with a kernel "
    "object"
)

# Returns which candidates are chosen.
Choice: TypeAlias = Callable[[Pool], Tensor]


def why_no_matrix(process: Process) -> str:
    """Return why new samples have no covariances; empty if they do."""
    return "" if process.basis.is_joined else NO_MATRIX


def choose_solved(
    process: Process,
    rows: NDArray[Any],
    candidates: NDArray[Any],
    resources: Resources,
    choose: Choice,
) -> NDArray[Any]:
    """Return which of the candidates are chosen, by a posterior by solves.

    `candidates` (c,) are indices of rows (r, d).
    """
    r, c, n = len(rows), len(candidates), process.basis.n_samples
    numbers = r * c + n * (2 * r + c) + (n + c) ** 2
    model, others = process.model, np.setdiff1d(np.arange(r), candidates)

    def pool_at(run: Run, at: Tensor) -> Pool:
        posterior: Any = process.posterior.at(process.basis, run)
        # What an image takes to be compared is computed once for all its covariances.
        basis, own = process.basis.joined(rows[candidates], run)
        covariance = own.new_empty((r, c))
        half = own.new_empty((n, r))

        def put(members: Tensor, values: Tensor) -> None:
            covariance[members] = values[:, n:] / posterior.unit
            half[:, members] = posterior.part(values[:, :n], values[:, 0])[0].minus

        put(at, own)
        del own
        start, further = 0, to_tensor(others, at.device)
        for values, _ in basis.stream(NewRows(rows[others]), run, needs_diag=False):
            put(further[start : start + len(values)], values)
            start += len(values)
        covariance.addmm_(half.mT, half[:, at], alpha=-1.0)
        noise = torch.full_like(covariance[0], model.noise)
        return Pool(covariance, at, noise + float(posterior.state.jitter))

    return _choose(process, numbers, candidates, resources, pool_at, choose)


def choose_by_features(
    process: Process,
    rows: NDArray[Any],
    candidates: NDArray[Any],
    resources: Resources,
    choose: Choice,
) -> NDArray[Any]:
    """Return which of the candidates are chosen, by a posterior of features.

    What features leave out of the prior variance stays as it is, whatever is observed.
    """
    r, c = len(rows), len(candidates)
    posterior: Any = process.posterior
    numbers = len(posterior.state.factors[0]) * (2 * r + c) + r * c
    model, variance = process.model, posterior.variance

    def pool_at(run: Run, at: Tensor) -> Pool:
        own, halves, beyond = posterior.at(process.basis, run), [], []
        has_own_noise = variance == "fitc"
        new = NewRows(rows)
        stream = process.basis.stream(new, run, own.width, needs_diag=has_own_noise)
        for values, prior in stream:
            (update,), _ = own.part(values, prior / model.mean_diag)
            halves.append(update.plus)
            unexplained = torch.zeros_like(update.plus[0])
            if has_own_noise:
                explained = update.minus.square().sum(0)
                unexplained = (prior / model.mean_diag - explained).clamp(min=0.0)
            beyond.append(unexplained)
        half = torch.cat(halves, dim=1)
        noise = unit_noise(torch.cat(beyond), model.noise, variance)
        return Pool(half.mT @ half[:, at], at, noise[at])

    return _choose(process, numbers, candidates, resources, pool_at, choose)


def _choose(
    process: Process,
    numbers: int,
    candidates: NDArray[Any],
    resources: Resources,
    pool_at: Callable[[Run, Tensor], Pool],
    choose: Choice,
) -> NDArray[Any]:
    """Return which of the candidates are chosen, where so many numbers are held."""
    needed = numbers * resources.solve_dtype.itemsize

    def chosen_at(placement: Placement) -> NDArray[Any]:
        user = f"A choice among {len(candidates)} images"
        run = run_of_fit(0, needed, placement, resources, REMEDY, user)
        pool = pool_at(run, to_tensor(candidates, placement.device))
        return to_numpy(choose(pool))

    placement = resources.placement(needed + frozen_bytes(process.state))
    return compute_at(placement, chosen_at)
