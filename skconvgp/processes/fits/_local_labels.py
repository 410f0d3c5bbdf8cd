"""Fit of labels that each give targets and noise, by nearest neighbours."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from skconvgp._protocols import Localization
from skconvgp.engine import rows_to_tensor, to_numpy
from skconvgp.processes._facts import jitter_facts
from skconvgp.processes._model import Model
from skconvgp.processes._plan import Fitted
from skconvgp.processes._problem import (
    Problem,
    Record,
    Settings,
    entries,
    require_finite_noise,
)
from skconvgp.processes._run import Resources, Run, clock
from skconvgp.processes.basis._plain import PlainBasis
from skconvgp.processes.fits._label_choice import CHOOSING, amplitude_of_model
from skconvgp.processes.fits._label_models import (
    LabelModel,
    left_out_loss,
    spread_over_classes,
)
from skconvgp.processes.posterior._neighbor_labels import LocalLabels
from skconvgp.processes.posterior._neighbor_solver import NeighborSolver
from skconvgp.processes.posterior._neighbors import (
    NeighborProcess,
    left_out_indices,
)


def fit_local_labels(
    localization: Localization,
    models_of: Callable[[Problem], list[LabelModel]],
    settings: Settings,
    resources: Resources,
    problem: Problem,
    basis: PlainBasis,
    run: Run,
) -> Fitted:
    """Fit every model of the labels; keep the lowest left-out log loss.

    The amplitude is that of largest evidence for the whole Gram matrix of at most
    `CHOOSING` samples.
    """
    device = run.config.device
    start = clock(device)
    if basis.kernel_basis is None:  # predictions read it; users may change theirs
        basis = replace(basis, rows=problem.rows.copy())
    oracle = basis.oracle(run, "fit")
    mean_diag = problem.mean_variance(oracle.diag())
    codes = rows_to_tensor(problem.class_codes)
    weights = rows_to_tensor(problem.weights)
    require_finite_noise(1.0 / weights)
    some = spread_over_classes(problem.class_codes, CHOOSING)
    is_searched = isinstance(settings.amplitude, str)
    gram = oracle.block(some, some) / mean_diag if is_searched else None
    indices = left_out_indices(len(codes), resources.generator())
    best: tuple[float, NeighborProcess] | None = None
    n_pairs, jitter, least_noise = entries(len(some)) * is_searched, 0.0, math.inf
    for model in models_of(problem):
        noisy: Any = model
        amplitude = amplitude_of_model(
            model.take(some),
            gram if gram is not None else weights.new_empty(0, 0),
            mean_diag,
            problem.class_codes[to_numpy(some)],
            settings.amplitude,
            settings.added_noise,
        )
        noise = noisy.noise + settings.added_noise * amplitude
        labels = LocalLabels(
            model.likelihood,
            to_numpy(model.offset),
            to_numpy(noise).astype(np.float64),
            1 if model.has_one_latent else noise.shape[1],
        )
        values = to_numpy(noisy.targets.values - model.offset)
        solver = NeighborSolver(
            basis,
            localization,
            values,
            problem.weights,
            mean_diag / amplitude,
            problem.inputs,
            run,
        )
        found, mean, var = labels.left_out(solver, indices)
        fitted = Model.of(
            problem,
            mean_diag=mean_diag,
            noise=settings.added_noise,
            amplitude=np.full(noise.shape[1], amplitude),
            evidence=None,
        )
        kept = to_numpy(indices), to_numpy(mean), to_numpy(var)
        process = NeighborProcess(
            replace(fitted, targets=values),
            basis,
            localization,
            to_numpy(problem.inputs.of),
            kept,
            labels,
        )
        of_some = codes[indices], weights[indices], basis.knows_variances
        loss = left_out_loss(model, mean, var, *of_some)
        if best is None or loss < best[0]:
            best = loss, process
            jitter, least_noise = found.jitter, float((noise.T / weights).min())
        m, k = len(indices), solver.n_neighbors
        n_pairs += m * (k * (k + 1) // 2)
    chosen: Any = best
    facts = jitter_facts(jitter, least_noise, basis, run)
    n = len(codes)
    share = min(1.0, (n + n_pairs) / entries(n))
    report = {"jitter": jitter, "observed_fraction": share}
    record = Record(n + n_pairs, clock(device) - start, 0.0, report, facts)
    return Fitted(chosen[1], record, np.arange(n))
