"""Leave-one-out values by a solver, from entries of the inverse."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from skconvgp._protocols import IterativeSolver
from skconvgp._typing import FloatArray
from skconvgp.engine import rows_to_tensor, to_tensor
from skconvgp.inference import (
    EqualInputs,
    LeaveOneOut,
    leave_one_out,
    leave_one_unit_out,
)
from skconvgp.processes._facts import Fact
from skconvgp.processes._problem import Model

__all__ = ["deviation_excess", "kept_values", "left_out_of", "whole_inverse"]

BLOCK = 256  # columns that are solved for at once
# Samples that tell how much too large deviations are; and the least latent variance, as
# a share of that of the observation: less cannot be distinguished from rounding.
COMPARED, LEAST_LATENT = 16, 1e-4


def kept_values(mean: FloatArray, var: FloatArray) -> tuple[LeaveOneOut, list[Fact]]:
    """Return predictions that a fit has kept, of which nothing is to be said."""
    return LeaveOneOut(rows_to_tensor(mean), rows_to_tensor(var)), []


def whole_inverse(
    solver: Any, state: Any, inputs: EqualInputs, some: Tensor | None = None
) -> Tensor:
    """Return sums of entries of M^-1 over all samples with the input of each sample.

    Parameters
    ----------
    solver, state : object
        The solver and its state.
    inputs : EqualInputs
        Which samples have equal inputs.
    some : Tensor of shape (m,), optional
        Indices of samples, by default of all.

    Returns
    -------
    sums : Tensor of shape (m,)
        The entry of the diagonal for a sample whose input no other has.
    """
    if some is None:
        sums: Tensor = solver.inverse_diag(state)
        some = torch.arange(len(sums), device=sums.device)
    else:
        sums = solver.inverse_diag_of(state, some)
    inputs = inputs.to(sums.device)
    own = inputs.of[some]
    repeated = torch.unique(own[inputs.counts()[some] > 1])
    for start in range(0, len(repeated), BLOCK):
        part = repeated[start : start + BLOCK]
        members = (inputs.of[:, None] == part).to(sums)
        whole = (members * solver.solve(state, members).value).sum(0)
        position = torch.searchsorted(part, own).clamp(max=len(part) - 1)
        sums = torch.where(part[position] == own, whole[position], sums)
    return sums


def left_out_of(
    model: Model,
    dual: FloatArray,
    inputs: EqualInputs,
    inverse_diag: Tensor,
    some: Tensor,
) -> LeaveOneOut:
    """Return predictions of samples from those with other inputs.

    Parameters
    ----------
    model : Model
        Targets, weights, noise.
    dual : ndarray of shape (n, k)
        Means are covariances times these.
    inputs : EqualInputs
        Which samples have equal inputs.
    inverse_diag : Tensor of shape (m,)
        Sums of the entries of M^-1 over all samples with the input of each.
    some : Tensor of shape (m,)
        Indices of the samples.
    """
    own_dual = dual * model.mean_diag / model.scale
    y, alpha, weights = (
        to_tensor(array, inverse_diag.device, inverse_diag.dtype)
        for array in (model.targets, own_dual, model.weights)
    )
    whole, indices = inputs.merge(y, weights), some.to(inverse_diag.device)
    own = inputs.of[indices]
    mean, totals = whole.targets[own], whole.weights[own]
    loo = leave_one_out(mean, inputs.sum(alpha)[own], inverse_diag, model.noise, totals)
    staying = inputs.staying(weights)[indices]
    return leave_one_unit_out(loo, y[indices], mean, model.noise, totals, staying)


def deviation_excess(solver: Any, state: Any, is_converged: bool) -> float:
    """Return how much too large deviations of left-out samples are, at most."""
    if not is_converged:
        return math.nan
    if not isinstance(solver, IterativeSolver):
        return 0.0
    noise = state.noise
    # A separate seed, so that later draws do not depend on whether this is reported.
    shuffled = torch.randperm(len(noise), generator=torch.Generator().manual_seed(0))
    indices = shuffled[:COMPARED].sort().values.to(noise.device)
    bounds = solver.left_out_variances(state, indices)
    if bounds is None:
        return 0.0
    exact = solver.inverse_diag_of(state, indices).reciprocal()
    noise = noise[indices]
    latent = torch.maximum(exact - noise, LEAST_LATENT * exact)
    ratios = ((bounds - noise) / latent).clamp(min=1.0)
    return float(ratios.max().sqrt()) - 1.0
