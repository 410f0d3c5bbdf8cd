"""Leave-one-out predictions from the diagonal of the inverse, by a solver."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from skconvgp._protocols import IterativeSolver
from skconvgp._tensors import int_range, permutation
from skconvgp._typing import FloatArray
from skconvgp.engine import to_tensor
from skconvgp.inference import (
    Blocks,
    EqualInputs,
    LeaveOneOut,
    images_out,
    leave_one_out,
    leave_one_unit_out,
)
from skconvgp.processes._model import Model

BLOCK = 256  # columns that are solved for at once
# Samples on which bounds of deviations are compared with exact deviations; and the
# least latent variance, as a share of the variance of an observation: a smaller one
# cannot be told from rounding.
COMPARED, LEAST_LATENT = 16, 1e-4


def inverse_diag_by_input(
    solver: Any, state: Any, inputs: EqualInputs, indices: Tensor | None = None
) -> Tensor:
    """Return, for each sample, the sum of M^-1 over all samples with the same input.

    All samples of an input are left out together: their block of M^-1 stands for the
    entry of the diagonal that is needed of a sample with a distinct input. The sums are
    of the samples at `indices` (m,), by default of all.
    """
    if indices is None:
        sums: Tensor = solver.inverse_diag(state)
        indices = int_range(len(sums), sums.device)
    else:
        sums = solver.inverse_diag_of(state, indices)
    inputs = inputs.to(sums.device)
    input_of = inputs.of[indices]
    repeated = torch.unique(input_of[inputs.counts()[indices] > 1])
    for start in range(0, len(repeated), BLOCK):
        part = repeated[start : start + BLOCK]
        members = (inputs.of[:, None] == part).to(sums)
        whole = (members * solver.solve(state, members).value).sum(0)
        position = torch.searchsorted(part, input_of).clamp(max=len(part) - 1)
        sums = torch.where(part[position] == input_of, whole[position], sums)
    return sums


def left_out_of(
    model: Model,
    dual: FloatArray,
    inputs: EqualInputs,
    inverse_diag: Tensor,
    indices: Tensor,
) -> LeaveOneOut:
    """Return leave-one-out predictions: of samples from those with other inputs.

    Means are covariances times `dual` (n, k). `inverse_diag` (m,) is as
    `inverse_diag_by_input` returns it, for the samples at `indices` (m,).
    """
    y, alpha, weights, shares = _of_rows(
        model, dual, inverse_diag.device, inverse_diag.dtype
    )
    merged = inputs.merge(y, weights if shares is None else weights / shares)
    indices = indices.to(inverse_diag.device)
    input_of = inputs.of[indices]
    mean, totals = merged.targets[input_of], merged.weights[input_of]
    alpha = inputs.sum(alpha)[input_of]
    loo = leave_one_out(mean, alpha, inverse_diag, model.noise, totals)
    staying = inputs.staying(weights, shares)[indices]
    loo = leave_one_unit_out(loo, y[indices], mean, model.noise, totals, staying)
    return with_own_noise(loo, model, totals - staying, indices)


def with_own_noise(
    loo: LeaveOneOut, model: Model, removed: Tensor, indices: Tensor
) -> LeaveOneOut:
    """Return predictions (m,) with the noise of each sample in place of the mean one.

    `removed` (m,) are the precisions that were left out with the samples at `indices`
    (m,), in observations of the mean noise.
    """
    if model.noise_shares is None:
        return loo
    own = to_tensor(model.left_out_noise, loo.var.device, loo.var.dtype)
    mean_noise = model.noise / removed.clamp(max=1.0)
    return LeaveOneOut(loo.mean, loo.var - mean_noise + own[indices])


def left_out_in_blocks(
    model: Model,
    dual: FloatArray,
    inputs: EqualInputs,
    solver: Any,
    state: Any,
    indices: Tensor,
    dtype: torch.dtype,
) -> LeaveOneOut:
    """Return leave-one-out predictions of images, all versions or groups left out.

    Arguments are as in `left_out_of`, and `dtype` is the precision of the solves.
    """
    y, alpha, weights, shares = _of_rows(model, dual, indices.device, dtype)
    weights = weights if shares is None else weights / shares
    merged = inputs.merge(y, weights).targets
    dual_sums, noise = inputs.sum(alpha), model.noise
    blocks = inverse_blocks(inputs, solver, state, indices, dtype)
    loo = images_out(merged, dual_sums, weights, inputs, blocks, noise)
    loo = LeaveOneOut(loo.mean[indices], loo.var[indices])
    return with_own_noise(loo, model, inputs.removed(weights)[indices], indices)


def inverse_blocks(
    inputs: EqualInputs, solver: Any, state: Any, indices: Tensor, dtype: torch.dtype
) -> Iterator[Blocks]:
    """Yield blocks of M^-1 of what is left out with images (m,), in a precision."""
    is_wanted = torch.zeros_like(inputs.of[: inputs.n_images], dtype=torch.bool)
    is_wanted[indices] = True
    for same_size in inputs.blocks():
        size = same_size.members.shape[1]
        for left in same_size.of_images(is_wanted).split(max(1, BLOCK // size)):
            columns = (inputs.of[:, None] == left.members.flatten()).to(dtype)
            # A block is E^T M^-1 E, with the columns of E, (n, size).
            one = columns
            if isinstance(solver, IterativeSolver):
                other = solver.solve(state, columns).value
            else:
                one = other = solver.half_solve(state, columns)
            one, other = (
                half.reshape(-1, len(left.members), size).movedim(1, 0)
                for half in (one, other)
            )
            yield left, one.mT @ other


def _of_rows(
    model: Model, dual: FloatArray, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Return targets, dual coefficients in units of the prior, weights and shares."""
    arrays = model.targets, dual * model.mean_diag, model.weights
    y, alpha, weights = (to_tensor(array, device, dtype) for array in arrays)
    shares = model.noise_shares
    return (
        y,
        alpha,
        weights,
        None if shares is None else to_tensor(shares, device, dtype),
    )


def deviation_excess(solver: Any, state: Any, is_converged: bool) -> float:
    """Return the largest relative excess of the deviations of left-out samples.

    It is 0 for a direct solver, and NaN for one that has not converged.
    """
    if not is_converged:
        return math.nan
    if not isinstance(solver, IterativeSolver):
        return 0.0
    noise = state.noise
    # A separate seed, so that later draws do not depend on whether this is reported.
    shuffled = permutation(len(noise), torch.Generator().manual_seed(0))
    indices = shuffled[:COMPARED].sort().values.to(noise.device)
    bounds = solver.left_out_variances(state, indices)
    if bounds is None:
        return 0.0
    exact = solver.inverse_diag_of(state, indices).reciprocal()
    noise = noise[indices]
    latent = torch.maximum(exact - noise, LEAST_LATENT * exact)
    ratios = ((bounds - noise) / latent).clamp(min=1.0)
    return float(ratios.max().sqrt()) - 1.0
