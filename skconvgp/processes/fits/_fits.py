"""Fits of each kind of process, which a plan calls.

Their first arguments are fixed by the plan; problem, basis and run come last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from skconvgp._protocols import Completion, Localization
from skconvgp.completion import CoarseKernel, SubsetOfData
from skconvgp.engine import to_numpy
from skconvgp.processes._plan import Fitted
from skconvgp.processes._problem import Problem, Record, Settings, entries
from skconvgp.processes._process import Process
from skconvgp.processes._run import Resources, Run, clock
from skconvgp.processes.basis._completed import complete, sample_oracle
from skconvgp.processes.basis._expansion import ExpansionBasis, expanded
from skconvgp.processes.basis._plain import (
    KernelBasis,
    PlainBasis,
)
from skconvgp.processes.basis._summed import SummedBasis
from skconvgp.processes.posterior._neighbors import fit_neighbors

# Fits a process by a Gram matrix, whole or completed, that its arguments give.
MatrixFit: TypeAlias = Callable[..., tuple[Process, Record]]


def fit_selected(
    selection: SubsetOfData,
    n_wanted: int,
    fit: MatrixFit,
    fraction: float,
    resources: Resources,
    problem: Problem,
    basis: PlainBasis,
    run: Run,
) -> Fitted:
    """Fit to the different inputs that a selection keeps, with all their copies."""
    n = problem.inputs.n_inputs
    oracle = sample_oracle(problem, basis, run, n_wanted * n)
    selected_indices = selection.select(oracle, fraction, resources.generator())
    of, kept = to_numpy(problem.inputs.of), to_numpy(selected_indices)
    chosen = np.flatnonzero(np.isin(of, kept))
    subproblem = problem.take(chosen, is_precomputed=basis.kernel_basis is None)
    selected = basis.select(chosen)
    process, record = fit(subproblem, selected, run)
    share = {"observed_fraction": entries(len(kept)) / entries(n)}
    record = replace(record, report=record.report | share)
    return Fitted(process, record, chosen, selected.indices)


def fit_completed(
    completion: Completion,
    fit: MatrixFit,
    fraction: float,
    resources: Resources,
    problem: Problem,
    basis: PlainBasis,
    run: Run,
) -> Fitted:
    """Fit through the factor of a completed matrix."""
    generator = resources.generator()
    completed = complete(completion, fraction, generator, problem, basis, run)
    error = np.nan_to_num(completed.gram.error)
    process, record = fit(
        problem,
        basis,
        run,
        completed=completed,
        least_noise=error / problem.mean_variance(completed.diag),
    )
    all_indices, landmarks = np.arange(len(problem.rows)), process.basis.kept_indices
    return Fitted(process, completed.reported(record), all_indices, landmarks)


def fit_expanded(
    basis: ExpansionBasis,
    fit: MatrixFit,
    problem: Problem,
    samples: KernelBasis,
    run: Run,
) -> Fitted:
    """Fit through features of the samples."""
    exact = replace(basis.exact, dtype=samples.dtype)
    basis = replace(basis, exact=exact)
    completed = expanded(basis, problem.rows, run)
    process, record = fit(problem, basis, run, completed=completed)
    return Fitted(process, completed.reported(record), np.arange(len(problem.rows)))


def fit_local(
    localization: Localization,
    settings: Settings,
    resources: Resources,
    problem: Problem,
    basis: PlainBasis,
    run: Run,
) -> Fitted:
    """Fit a process that predicts each sample from its neighbours."""
    if basis.kernel_basis is None:  # predictions read it; users may change theirs
        basis = replace(basis, rows=problem.rows.copy())
    process, record = fit_neighbors(
        localization, problem, basis, settings, run, resources.generator
    )
    return Fitted(process, record, np.arange(len(problem.rows)))


def fit_sum(
    coarsening: CoarseKernel,
    exact: KernelBasis,
    fit: MatrixFit,
    fraction: float,
    resources: Resources,
    problem: Problem,
    coarse: KernelBasis,
    run: Run,
) -> Fitted:
    """Fit with the sum of the coarse kernel and of one that is completed."""
    start = clock(run.config.device)
    exact = resources.with_precision(exact, run)
    generator, strategy = resources.generator(), coarsening.exact
    completed = complete(strategy, fraction, generator, problem, exact, run)
    fine = problem.mean_variance(completed.diag)
    rough = problem.mean_variance(coarse.oracle(run, "fit").diag())
    share = coarsening.exact_weight
    basis = SummedBasis.of(
        coarse,
        exact,
        completed.gram,
        completed.diag,
        scale=share,
        coarse_scale=(1.0 - share) * fine / rough,
    )
    process, record = fit(
        problem,
        basis,
        run,
        gram_seconds=clock(run.config.device) - start,
        least_noise=share * np.nan_to_num(completed.gram.error) / fine,
    )
    n_pairs = record.n_pairs + completed.gram.n_evaluated
    record = completed.reported(replace(record, n_pairs=n_pairs))
    all_indices = np.arange(problem.n_samples)
    return Fitted(process, record, all_indices, basis.exact.indices)


def fit_landmarks(
    strategy: Any,
    fit: MatrixFit,
    resources: Resources,
    problem: Problem,
    basis: PlainBasis,
    run: Run,
) -> Fitted:
    """Fit by the columns of landmarks, so that samples can be added."""
    n, generator = problem.inputs.n_inputs, resources.generator()
    n_allowed = n * min(n, strategy.n_landmarks or n)
    completed = complete(strategy, 1.0, generator, problem, basis, run, n_allowed)
    generator = resources.generator()
    process, record = fit(
        problem, basis, run, completed=completed, reservoir_generator=generator
    )
    record = completed.reported(record)
    all_indices = np.arange(len(problem.rows))
    return Fitted(process, record, all_indices, process.basis.kept_indices)
