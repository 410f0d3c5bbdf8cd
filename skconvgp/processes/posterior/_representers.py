"""Representer values: what each training sample adds to a latent mean.

The formulas: docs/maths.rst, "What a score comes from".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._protocols import lift
from skconvgp._typing import FloatArray
from skconvgp.engine import (
    Placement,
    compute_at,
    frozen_bytes,
    thaw,
    to_numpy,
    to_tensor,
)
from skconvgp.processes._process import Process, run_beside
from skconvgp.processes._run import Resources, Run
from skconvgp.processes.basis._basis import NewRows
from skconvgp.processes.posterior._coefficients import coefficients_of
from skconvgp.processes.posterior._one_more_features import (
    double_posterior,
    kept_features,
)
from skconvgp.processes.posterior._shared import unit_noise

# Returns what is wanted of the values (b, n) of n samples for b new ones.
Pick: TypeAlias = Callable[[Tensor], Sequence[Tensor]]


def is_expansion(process: Any) -> bool:
    """Return whether latent means are sums of covariances with all samples."""
    dual, basis = getattr(process, "dual", None), process.basis
    if dual is None or basis.gives_features or process.posterior.draws_coefficients:
        return False
    return len(dual) == len(process.model.targets)


def representer_samples(process: Process) -> NDArray[np.intp]:
    """Return which samples of the fit (n,) have representer values."""
    if is_expansion(process):
        return np.arange(process.model.n_samples)
    return kept_features(process).samples


def representer_values(
    process: Process,
    new: NewRows,
    outputs: NDArray[np.intp],
    resources: Resources,
    pick: Pick,
) -> list[FloatArray]:
    """Return what is picked of representer values, a block of new samples at a time.

    They are those of one output (b,) of each new sample. The process has coefficients
    of all samples, or of features with those of samples that are kept.
    """
    needed, of_all = frozen_bytes(process.state), is_expansion(process)
    read = _of_samples if of_all else _of_features
    n_versions = process.model.n_versions if of_all else 1

    def values_at(placement: Placement) -> list[FloatArray]:
        run, found, done = run_beside(resources, placement, needed), [], 0
        chosen = to_tensor(outputs, placement.device)
        dual, blocks = read(process, new, run)
        for cross in blocks:
            own = chosen[done : done + len(cross)]
            values = cross.to(dual) * dual[:, own].mT
            values = values.reshape(len(cross), n_versions, -1).sum(1)
            found.append(pick(values))
            done += len(cross)
        return [to_numpy(torch.cat(one)) for one in zip(*found, strict=True)]

    return compute_at(resources.placement(needed), values_at)


def _of_samples(
    process: Process, new: NewRows, run: Run
) -> tuple[Tensor, Iterator[Tensor]]:
    """Return coefficients (n, k) of samples, and blocks of covariances (b, n)."""
    dual = to_tensor(process.dual, run.config.device, torch.float64)
    stream = process.basis.stream(new, run, needs_diag=False)
    return dual, (cross for cross, _ in stream)


def _of_features(
    process: Process, new: NewRows, run: Run
) -> tuple[Tensor, Iterator[Tensor]]:
    """Return coefficients (n, k) of kept samples, and blocks of products (b, n)."""
    model, device = process.model, run.config.device
    rows, posterior = (
        thaw(kept_features(process), device),
        double_posterior(process, device),
    )
    kept, of = kept_features(process).samples, rows.of
    given = model.sample_targets[kept], model.sample_weights[kept]
    targets, weights = (to_tensor(one, device, torch.float64) for one in given)
    variance = coefficients_of(process).variance
    noise = unit_noise(rows.residual_diag, model.noise, variance)[of]
    errors = targets - (rows.features @ posterior.mean)[of]
    # The precision of coefficients has the jitter, too.
    dual = errors * (weights / noise)[:, None] / (1.0 + posterior.jitter)
    lift_map = process.state.lift_map
    if lift_map is not None:
        lift_map = to_tensor(lift_map, device, torch.float64)

    def blocks() -> Iterator[Tensor]:
        for values, _ in process.basis.stream(new, run, needs_diag=False):
            features = values.to(posterior.factor)
            if lift_map is not None:
                features = lift(features, lift_map)
            yield (features @ rows.features.mT)[:, of]

    return dual, blocks()
