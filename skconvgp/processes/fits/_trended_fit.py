"""Fit around a linear mean with a flat prior, given a fit without it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from skconvgp._typing import FloatArray
from skconvgp.engine import freeze, rows_to_tensor, to_numpy
from skconvgp.inference import UNINFORMED, EqualInputs, FlatTrend, informative
from skconvgp.processes._linear_trend import LinearTrend
from skconvgp.processes._model import Model
from skconvgp.processes._plan import Fit, Fitted, Plan
from skconvgp.processes._problem import Problem, Settings
from skconvgp.processes._process import Process
from skconvgp.processes._run import Run
from skconvgp.processes.posterior._left_out import inverse_diag_by_input
from skconvgp.processes.posterior._trended import LinearMean, TrendedLeftOut


def with_linear_trend(plan: Plan, settings: Settings) -> Plan:
    """Return the plan of a fit around the linear mean of its problem."""
    is_profiled = settings.amplitude == "profile" and not settings.is_known
    return replace(plan, fit_at=partial(_fit, plan.fit_at, is_profiled))


def _fit(
    fit_at: Fit, is_profiled: bool, problem: Problem, basis: Any, run: Run
) -> Fitted:
    """Fit without the mean, and add it."""
    fitted, used = fit_at(problem, basis, run), problem
    if len(fitted.used) < len(problem.rows):
        used = problem.take(fitted.used, is_precomputed=False)
    process: Any = fitted.process
    trended = _trended(process, used, used.trend, run, is_profiled=is_profiled)
    return replace(fitted, process=trended)


def _trended(
    process: Process,
    problem: Problem,
    trend: Any,
    run: Run,
    *,
    is_profiled: bool,
) -> Process:
    """Return a process by solves, of a problem, with a mean."""
    model, values = process.model, trend.values(problem.rows)
    posterior: Any = process.posterior
    on_device: Any = posterior.at(process.basis, run)
    solver, state = on_device.solver, on_device.state
    solved = to_numpy(solver.solve(state, run.tensor(values)).value)
    basis_dual = solved.astype(np.float64) / model.mean_diag
    dual, of_basis = (
        rows_to_tensor(one * model.mean_diag) for one in (process.dual, basis_dual)
    )
    flat = FlatTrend.of(rows_to_tensor(values), dual, of_basis)
    amplitude, evidence = _evidence(model, trend, flat, dual, is_profiled=is_profiled)
    before: Any = process.left_out
    own = replace(
        model,
        targets=model.targets + trend.fitted(problem.rows),
        amplitude=to_numpy(amplitude),
        log_evidence=evidence,
    )
    left_out = TrendedLeftOut(
        replace(before, kept=None), np.column_stack([model.targets, values])
    )
    coefficients = process.dual - basis_dual @ to_numpy(flat.coefficients)
    trended = replace(
        process,
        model=own,
        posterior=replace(posterior, dual=coefficients),
        left_out=left_out,
        folded=None,
        around=LinearMean(trend, freeze(flat), basis_dual),
    )
    if before.kept is None:
        return trended
    var = before.kept[1]
    without = _kept(left_out.inner(trended), var, problem.inputs, on_device, run)
    return replace(trended, left_out=replace(left_out, without_mean=without))


def _evidence(
    model: Model,
    trend: LinearTrend,
    flat: FlatTrend,
    dual: Tensor,
    *,
    is_profiled: bool,
) -> tuple[Tensor, float]:
    """Return amplitudes (k,), and the log evidence with the mean.

    The evidence of the model is without the mean, whose amplitude may change.
    """
    log_evidence: Any = model.log_evidence
    targets, before = rows_to_tensor(model.targets), rows_to_tensor(model.amplitude)
    quadratic, total = (targets * dual).sum(0), float(model.weights.sum())
    amplitude = before
    if is_profiled:
        informs = informative(targets)
        left = (quadratic - flat.explained())[informs].mean()
        tiny = torch.finfo(left.dtype).tiny
        shared = (left / (total - trend.n_functions)).clamp(min=tiny)
        amplitude = shared.where(informs, UNINFORMED)
    log_ratio = total * (amplitude / before).log()
    change = quadratic / amplitude - quadratic / before + log_ratio
    more = flat.evidence_change(amplitude) - 0.5 * change
    # Coefficients are of features, in units of the targets.
    units = trend.n_functions * np.log(model.scale) - trend.log_det
    return amplitude, log_evidence + float(more.sum()) + float(units.sum())


def _kept(
    inner: Process, var: FloatArray, inputs: EqualInputs, posterior: Any, run: Run
) -> Any:
    """Return left-out predictions of all columns, given their variances (n,)."""
    left_out: Any = inner.left_out
    model, inputs = inner.model, inputs.to(run.config.device)
    weights, precisions = run.tensor(model.weights), run.tensor(model.precisions)
    totals = inputs.sum(precisions)[inputs.of]
    shares = None if model.noise_shares is None else run.tensor(model.noise_shares)
    if bool(inputs.staying(weights, shares).any()):
        state = posterior.state
        inverse_diag = inverse_diag_by_input(posterior.solver, state, inputs)
    else:
        latent = run.tensor(var - model.left_out_noise)
        inverse_diag = (latent + model.noise / totals).reciprocal()
    targets = run.tensor(model.targets)
    return left_out.keep(inner, posterior.state, inverse_diag, targets)
