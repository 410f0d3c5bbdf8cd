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
from skconvgp.processes._problem import equal_inputs
from skconvgp.processes._process import run_beside
from skconvgp.processes._run import Resources, Run
from skconvgp.processes.basis._basis import NewRows
from skconvgp.processes.posterior._coefficients import coefficients_of
from skconvgp.processes.posterior._left_out_images import source_of
from skconvgp.processes.posterior._one_more import Scored, scored_inputs
from skconvgp.processes.posterior._one_more_features import kept_features

NUMBERS = 2**21  # of a block of covariances
# Rounding of covariances, in units of the last digit of 1.
ROUNDING = 32
# Pairs of images whose covariances are computed at once, with those between pairs.
PAIRS = 4
NO_COVARIANCES = (
    "it keeps no covariances of its training samples: use an estimator without a "
    "completion, or NystromCompletedGP or its regressor with one noise of all samples"
)
NO_VARIANCES = (
    "it keeps no prior variances of its training samples: fit with completion=None or "
    "variance='dtc'"
)

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
    left_out = process.left_out
    if left_out is None:
        return NO_COVARIANCES
    basis, rows = process.basis, process.basis.kept_rows
    if not basis.gives_features:
        is_whole = rows is not None and len(rows) == len(process.model.targets)
        is_known = left_out.has_gram(process) or (is_whole and basis.knows_variances)
        if is_known:
            return ""
    if _has_features(process):
        text: str = left_out.why_no_more(process, other_noise=False)
        return text or _why_no_variances(process)
    return NO_COVARIANCES


def alike_samples(
    process: Any, kinds: NDArray[np.intp], near: float, resources: Resources
) -> AlikeSamples:
    """Return similar samples of all that can be compared, which have `kinds` (n,).

    A factor gives the covariances back. Without one the kernel is evaluated again, and
    features of samples are compared instead of these. Where images are kept, too, pairs
    that could be below the share `near` of the usual distance are compared by the
    kernel. Samples of one group, which are versions of each other, are not similar in
    this sense.
    """
    model, has_features = process.model, _has_features(process)
    images = None
    if has_features:
        images = process.growth.reservoir.rows.images
        process = process.left_out.ready(process, resources)
        scored = process.left_out.scored(process)
        n, of = len(scored.samples), kept_features(process).inputs
    elif process.left_out.knows_units:
        scored = process.left_out.scored(process)
        n, of = model.n_samples, scored.of
    else:
        n = model.n_samples
        inputs = equal_inputs(process.basis.kept_rows[:n])
        scored = scored_inputs(inputs)
        of = scored.of
    samples, of, units = scored.samples[:n], of[:n], scored.units[:n]
    needed = frozen_bytes(process.state)

    def compare(placement: Placement) -> AlikeSamples:
        run, beyond = run_beside(resources, placement, needed), None
        rounding = _rounding(process, n, run)
        if has_features:
            features, residual = _features(process, images, scored, run)
            blocks = _of_features(features, residual)
            beyond = None if images is None else residual.sqrt()
        elif process.left_out.has_gram(process):
            blocks = _of_factor(process, run)
        else:
            blocks = _of_kernel(process, run)
        given = kinds[samples], of, *((units,) if model.n_groups else ())
        on_device = (rows_to_tensor(one).to(placement.device) for one in given)
        found = most_alike(blocks, *on_device, rounding=rounding, beyond=beyond)
        distance, which = to_numpy(found.distance), to_numpy(found.which)
        if images is not None:
            # Of others the least possible distance is told.
            at = np.nonzero((distance > 0.0) & (distance < near * found.usual))
            pairs = np.stack([at[0], which[at]], 1)
            rows = images.rows[scored.of[pairs]]
            distance[at] = np.maximum(_by_kernel(process, rows, run), rounding)
        return AlikeSamples(samples, distance, samples[which], found.usual)

    return compute_at(resources.placement(needed), compare)


def _has_features(process: Any) -> bool:
    """Return whether features of samples are kept."""
    return process.growth is not None and process.left_out.keeps_features


def _of_factor(process: Any, run: Run) -> Blocks:
    """Yield blocks from a factor of the Gram matrix."""
    model, posterior = process.model, process.posterior.at(process.basis, run)
    solver, state = posterior.solver, posterior.state
    noise = run.tensor(model.row_noise) + state.jitter
    for rows in slices(model.n_samples, max(1, NUMBERS // model.n_samples)):
        block = solver.rows(state, rows)
        yield block, block[:, rows].diagonal() - noise[rows]


def _features(
    process: Any, images: Any, scored: Scored, run: Run
) -> tuple[Tensor, Tensor]:
    """Return features (n, r) of samples, and variances (n,) beside them."""
    rows = thaw(kept_features(process), run.config.device)
    features, residual = rows.features, rows.residual_diag
    if images is not None and coefficients_of(process).variance == "sor":
        prior = source_of(process).variances(images.rows, run).to(features)
        explained = features.square().sum(1)
        residual = (prior / process.model.mean_diag - explained).clamp(min=0.0)
    of = torch.from_numpy(scored.of).to(features.device)
    return features[of], residual[of]


def _of_features(features: Tensor, residual: Tensor) -> Blocks:
    """Yield blocks of products of features (n, r), with the variances of samples."""
    for rows in slices(len(features), max(1, NUMBERS // len(features))):
        own = features[rows]
        yield own @ features[: rows.stop].mT, own.square().sum(1) + residual[rows]


def _by_kernel(process: Any, pairs: NDArray[Any], run: Run) -> FloatArray:
    """Return distances (p,) of pairs (p, 2, d) of images."""
    found = [np.zeros(0)]
    for part in slices(len(pairs), PAIRS):
        rows = pairs[part].reshape(-1, pairs.shape[-1])
        cov = to_numpy(process.basis.covariance(rows, run, 1.0)).astype(np.float64)
        var, first = cov.diagonal(), np.arange(0, len(rows), 2)
        std = np.sqrt(var[first] * var[first + 1])
        none = np.zeros_like(std)
        shares = np.divide(cov[first, first + 1], std, out=none, where=std > 0.0)
        found.append(1.0 - shares)
    return np.concatenate(found)


def _rounding(process: Any, n_samples: int, run: Run) -> float:
    """Return a distance below which pairs differ by rounding alone."""
    config, basis = run.config, process.basis
    # Of a given matrix nothing is left that has its precision.
    is_given = basis.kernel_basis is None
    dtype = config.solve_dtype if is_given else basis.precision(config)
    own = ROUNDING * torch.finfo(dtype).eps
    return float(max(own, n_samples * torch.finfo(config.solve_dtype).eps))


def _why_no_variances(process: Any) -> str:
    """Return why variances beside those of features are unknown; empty if they are."""
    if process.basis.gives_features:  # random features are all of the prior
        return ""
    rows, variance = process.growth.reservoir.rows, coefficients_of(process).variance
    return "" if rows.knows_variances(variance) else NO_VARIANCES


def _of_kernel(process: Any, run: Run) -> Blocks:
    """Yield blocks that the kernel gives."""
    n, stop = process.model.n_samples, 0
    for cross, prior in process.basis.stream(NewRows(process.basis.kept_rows[:n]), run):
        stop += len(cross)
        yield cross[:, :stop], prior
