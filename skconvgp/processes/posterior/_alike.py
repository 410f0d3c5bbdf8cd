"""Training samples that are alike, by their covariances in a fitted process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._typing import FloatArray
from skconvgp.engine import (
    Placement,
    compute_at,
    frozen_bytes,
    rows_to_tensor,
    slices,
    thaw,
    to_numpy,
)
from skconvgp.inference import most_alike
from skconvgp.processes._process import run_beside
from skconvgp.processes._run import Resources, Run
from skconvgp.processes.basis._basis import NewRows
from skconvgp.processes.posterior._one_more import Scored

NUMBERS = 2**21  # of a block of covariances
NO_COVARIANCES = "it keeps no covariances of its training samples"

# Covariances (b, m) of a block of samples with all up to its end, and variances (b,).
Blocks = Iterator[tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class AlikeSamples:
    """Pairs of training samples, each sample with similar ones before it."""

    samples: NDArray[np.intp]  # (n,), those that were compared
    distance: FloatArray  # (n, 2), as in `Alike`
    which: NDArray[np.intp]  # (n, 2), the others
    usual: float  # median of distances


def why_not_alike(process: Any) -> str:
    """Return why samples cannot be compared; empty if they can."""
    left_out = getattr(process, "left_out", None)
    if left_out is None:
        return NO_COVARIANCES
    basis, rows = process.basis, process.basis.kept_rows
    if not basis.gives_features:
        is_whole = rows is not None and len(rows) == len(process.model.targets)
        is_known = _has_factor(process) or (is_whole and basis.knows_variances)
        if is_known:
            return ""
    why = getattr(left_out, "why_no_more", None)
    if _has_features(process) and why is not None:
        text: str = why(process, other_noise=False)
        return text
    return NO_COVARIANCES


def alike_samples(
    process: Any, kinds: NDArray[np.intp], resources: Resources
) -> AlikeSamples:
    """Return similar samples of all that can be compared, which have `kinds` (n,).

    A factor gives the covariances back. Without one the kernel is evaluated again, and
    features of samples are compared instead of these. Samples of one group, which are
    versions of each other, are not similar in this sense.
    """
    model, has_features = process.model, _has_features(process)
    if has_features:
        process = process.left_out.ready(process, resources)
    every = np.arange(model.n_samples)
    scored = Scored(every, every, every, len(every))
    if has_features or hasattr(process.posterior, "solver"):
        scored = process.left_out.scored(process)
    n = len(scored.samples) if has_features else model.n_samples
    samples, of, units = scored.samples[:n], scored.of[:n], scored.units[:n]
    needed = frozen_bytes(process.state)

    def compare(placement: Placement) -> AlikeSamples:
        run = run_beside(resources, placement, needed)
        if has_features:
            blocks = _of_features(process, scored, run)
        elif _has_factor(process):
            blocks = _of_factor(process, run)
        else:
            blocks = _of_kernel(process, run)
        given = (
            (kinds[samples], of, units) if model.n_groups else (kinds[samples], units)
        )
        on_device = (rows_to_tensor(one).to(placement.device) for one in given)
        found = most_alike(blocks, *on_device)
        return AlikeSamples(
            samples,
            to_numpy(found.distance),
            samples[to_numpy(found.which)],
            found.usual,
        )

    return compute_at(resources.placement(needed), compare)


def _has_features(process: Any) -> bool:
    """Return whether features of samples are kept."""
    return process.growth is not None and hasattr(process.left_out, "ready")


def _has_factor(process: Any) -> bool:
    """Return whether the Gram matrix follows from a factor."""
    is_complete = process.basis.left_out_diag is None
    return is_complete and hasattr(getattr(process.posterior, "solver", None), "rows")


def _of_factor(process: Any, run: Run) -> Blocks:
    """Yield blocks from a factor of the Gram matrix."""
    model, posterior = process.model, process.posterior.at(process.basis, run)
    solver, state = posterior.solver, posterior.state
    noise = model.noise / run.tensor(model.weights) + state.jitter
    for rows in slices(model.n_samples, max(1, NUMBERS // model.n_samples)):
        block = solver.rows(state, rows)
        yield block, block[:, rows].diagonal() - noise[rows]


def _of_features(process: Any, scored: Scored, run: Run) -> Blocks:
    """Yield blocks of products of features."""
    kept = thaw(process.growth.reservoir.rows, run.config.device).features
    features = kept[torch.from_numpy(scored.of).to(kept.device)]
    for rows in slices(len(features), max(1, NUMBERS // len(features))):
        own = features[rows]
        yield own @ features[: rows.stop].mT, own.square().sum(1)


def _of_kernel(process: Any, run: Run) -> Blocks:
    """Yield blocks that the kernel gives."""
    n, stop = process.model.n_samples, 0
    for cross, prior in process.basis.stream(NewRows(process.basis.kept_rows[:n]), run):
        stop += len(cross)
        yield cross[:, :stop], prior
