"""Fit by linear solves with the whole Gram matrix."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from skconvgp._protocols import GramOperator, RefiningSolver, Solution, Solver
from skconvgp.engine import (
    KernelGram,
    KernelOracle,
    MatrixOracle,
    SummedOracle,
    freeze,
    to_numpy,
)
from skconvgp.exceptions import NotPSDError
from skconvgp.inference import (
    informative,
    log_marginal_likelihood,
    mean_variance,
    missing_quadratic,
    moment_amplitude,
    profiled_amplitude,
    select_noise,
)
from skconvgp.linalg import DenseGram, SingleGram
from skconvgp.processes._facts import Unsolved, jitter_facts
from skconvgp.processes._model import Model
from skconvgp.processes._plan import EXACT, GRAM_COPIES, SELECTION_COPIES, TRIES, Route
from skconvgp.processes._problem import (
    Problem,
    Record,
    Settings,
    entries,
    fixed_amplitude,
    require_finite_noise,
)
from skconvgp.processes._process import Process
from skconvgp.processes._run import (
    COVARIANCES,
    EIGEN,
    FACTOR,
    FLOPS,
    INVERSE,
    NOISE,
    SOLVING,
    Run,
    Stage,
    clock,
)
from skconvgp.processes.basis._parts_basis import PartsBasis
from skconvgp.processes.basis._summed import GramBasis
from skconvgp.processes.fits._known_noise import profiled_by, shares_of
from skconvgp.processes.posterior._left_out import (
    deviation_excess,
    inverse_diag_by_input,
)
from skconvgp.processes.posterior._solved import SOLVED, Solved, SolvedLeftOut

PASSES = 20  # over a matrix that is not held, about


def fit_exact(
    problem: Problem,
    basis: GramBasis | PartsBasis,
    run: Run,
    *,
    settings: Settings,
    route: Route,
    keeps_left_out: bool,
    gram_seconds: float = 0.0,
    least_noise: float = 0.0,
    single: Tensor | None = None,
) -> tuple[Process, Record]:
    """Fit to all samples of a problem.

    Parameters
    ----------
    problem, basis, run : object
        Problem to fit, and how to compute.
    settings : Settings
        Noise and amplitude.
    route : Route
        How to solve.
    keeps_left_out : bool
        Whether leave-one-out values are computed while the factor is at hand.
    gram_seconds : float, default=0.0
        Time that was spent on covariances before.
    least_noise : float, default=0.0
        Lower bound of the noise variance.
    single : Tensor of shape (n, n), optional
        The Gram matrix in single precision, if it is known; it is overwritten.

    Returns
    -------
    process : Process
        The fitted process.
    record : Record
        Record of the fit.
    """
    device = run.config.device
    run.progress.expect(
        *exact_stages(len(problem.rows), settings, route, keeps=keeps_left_out)
    )
    start = clock(device)
    y, w = run.tensor(problem.targets), run.tensor(problem.weights)
    gram, mean_diag = _gram_operator(basis, route, run, w, single)
    gram_seconds += clock(device) - start

    start = clock(device)
    problem, noise, amplitude = _noise_and_amplitude(
        problem, settings, gram, mean_diag, basis, route, run, least_noise
    )
    shares = shares_of(problem, w)
    unit = noise if shares is None else noise * shares
    require_finite_noise(unit / w)
    if route.is_held:  # otherwise products are covariances
        run.progress.enter(SOLVING)
    route, solver, state = _init(route, gram, unit / w)
    solution = solver.solve(state, y)
    # A direct solver whose solution was stopped early still has an exact factor.
    is_iterative = isinstance(solver, RefiningSolver)
    is_converged = solution.converged or not is_iterative
    facts = jitter_facts(state.jitter, float((unit / w).min()), basis, run)
    if not solution.converged:
        facts.append(Unsolved(solver, solution.stats, y.dtype))

    amplitude, evidence, evidence_error = _evidence(
        y, w, unit, amplitude, solver, state, solution, is_converged
    )
    report = {
        "jitter": state.jitter,
        "evidence_error": evidence_error / 2.0,
        "solver": type(solver).__name__,
        "solver_reason": route.reason,
        "is_gram_held": route.is_held,
        "iterations": int(solution.stats.get("iterations", 0)),
        "residual": solution.stats.get("residual", math.nan),
        "deviation_excess": deviation_excess(solver, state, is_converged),
    }
    keeps_left_out = keeps_left_out and not is_iterative
    inverse_diag = None
    if keeps_left_out and not problem.inputs.has_blocks:
        del gram  # its memory is reused for columns of the inverse
        inverse_diag = inverse_diag_by_input(solver, state, problem.inputs)
    solve_seconds = clock(device) - start

    model = Model.of(
        problem,
        mean_diag=mean_diag,
        noise=float(noise),
        amplitude=to_numpy(amplitude),
        evidence=float(evidence.sum()),
    )
    posterior = Solved(
        to_numpy(solution.value).astype(np.float64) / mean_diag,
        freeze(state if route.is_held else replace(state, gram=None)),
        solver,
        mean_diag,
        is_converged,
        report["residual"],
    )
    left_out = SolvedLeftOut(
        to_numpy(problem.inputs.of),
        None if problem.inputs.groups is None else to_numpy(problem.inputs.groups),
        has_labels=problem.codes is not None,
    )
    process = Process(model, basis.after_fit(), posterior, left_out)
    if keeps_left_out:
        left_out = left_out.keep(process, state, inverse_diag, y)
        process = replace(process, left_out=left_out)
    n_pairs = entries(len(problem.rows))
    return process, Record(n_pairs, gram_seconds, solve_seconds, report, facts)


def _noise_and_amplitude(
    problem: Problem,
    settings: Settings,
    gram: GramOperator,
    mean_diag: float,
    basis: GramBasis | PartsBasis,
    route: Route,
    run: Run,
    least_noise: float,
) -> tuple[Problem, float, Tensor | None]:
    """Return the relative noise variance, and the amplitude (k,) if it is fixed by it.

    The noise is at least `least_noise`; known variances of the problem are raised.
    """
    y, w = run.tensor(problem.targets), run.tensor(problem.weights)
    amplitude = fixed_amplitude(settings.amplitude, mean_diag, y)
    noise = settings.noise
    if problem.noise_variances is not None:
        if amplitude is None:
            variances = run.tensor(problem.noise_variances)
            amplitude = profiled_by(route.solver, gram, y, w, variances)
        size = float(amplitude[0])
        problem = problem.raised(least_noise * size)
        return problem, problem.mean_noise / size, amplitude
    if isinstance(noise, str):
        run.progress.enter(NOISE)
        noise = select_noise(
            gram.dense(),
            y,
            w,
            criterion=noise,
            amplitude=amplitude,
            precision=basis.precision(run.config),
            inputs=problem.inputs.to(run.config.device),
        )
    return problem, max(float(noise), least_noise), amplitude


def exact_stages(
    n: int, settings: Settings, route: Route, *, keeps: bool
) -> tuple[Stage, ...]:
    """Return the stages of a fit to n samples, which may keep left-out values."""
    covariances = Stage(COVARIANCES, entries(n), held=n**2)
    if not route.is_held:
        return (
            covariances._replace(held=n),
            Stage(SOLVING, PASSES * entries(n), held=route.size.held),
        )
    if route.is_single:  # in half of the time, and of the memory of a number
        factor = FACTOR * n**3 / 2.0
        return (
            covariances._replace(held=n**2 // 2),
            Stage(SOLVING, factor, FLOPS, route.size.held),
        )
    noise = [Stage(NOISE, EIGEN * n**3, FLOPS, SELECTION_COPIES * n**2)]
    is_searched = settings.is_known and settings.amplitude == "profile"
    solving = ((1 + TRIES * is_searched) * FACTOR + INVERSE * keeps) * n**3
    held = GRAM_COPIES * n**2 if route.way == EXACT else route.size.held
    return (
        covariances,
        *(noise if isinstance(settings.noise, str) else []),
        Stage(SOLVING, solving, FLOPS, held),
    )


def _gram_operator(
    basis: GramBasis | PartsBasis,
    route: Route,
    run: Run,
    weights: Tensor,
    single: Tensor | None,
) -> tuple[GramOperator, float]:
    """Return the Gram matrix with mean diagonal 1, and its divisor."""
    if single is not None:
        mean_diag = mean_variance(single.diagonal().to(weights), weights)
        return SingleGram(single.div_(mean_diag)), mean_diag
    oracle: Any = basis.cached_oracle(run)
    if route.is_single:
        n = oracle.n_samples
        single = torch.empty(n, n, dtype=torch.float32, device=run.config.device)
        mean_diag = mean_variance(oracle.diag(), weights)
        return SingleGram(oracle.gram(out=single).div_(mean_diag)), mean_diag
    if route.is_held:
        gram, mean_diag = scaled_gram(oracle, weights)
        return DenseGram(gram), mean_diag
    mean_diag = mean_variance(oracle.diag(), weights)
    return KernelGram(oracle, mean_diag), mean_diag


def _init(
    route: Route, gram: GramOperator, noise: Tensor
) -> tuple[Route, Solver[Any], Any]:
    """Return the solver with its route and its state; the fallback without a factor."""
    try:
        return route, route.solver, route.solver.init(gram, noise)
    except NotPSDError:
        if route.fallback is None:
            raise
    reason = f"{route.reason}, but it has no factor in that precision"
    route = replace(route, solver=route.fallback, reason=reason)
    return route, route.solver, route.solver.init(gram, noise)


def _evidence(
    y: Tensor,
    w: Tensor,
    noise: float | Tensor,
    amplitude: Tensor | None,
    solver: Solver[Any],
    state: Any,
    solution: Solution,
    is_converged: bool,
) -> tuple[Tensor, Tensor, float]:
    """Return the amplitude (k,), the log evidence (k,), and twice its error.

    The amplitude is profiled out if it is not given.
    """
    quadratic, missing = _quadratic(
        y, noise / w, partial(solver.half_solve, state), solution, is_converged
    )
    is_known = bool((missing <= SOLVED * quadratic).all())
    if amplitude is None:
        informs = informative(y)
        amplitude = (
            profiled_amplitude(quadratic + missing, w, informs)
            if is_known
            else moment_amplitude(y, noise, w, informs)
        )
    # The matrix has no less on its diagonal.
    added = (noise + torch.zeros_like(w)).clamp(min=state.jitter)
    evidence = log_marginal_likelihood(
        quadratic, solver.logdet(state), amplitude, added, w
    )
    if not is_known:
        return amplitude, torch.full_like(evidence, math.nan), math.inf
    of_solution = float((missing / amplitude).sum())
    error = _logdet_error(solver, state) * len(amplitude) + of_solution
    return amplitude, evidence, error


def _quadratic(
    y: Tensor, noise: Tensor, half: Any, solution: Solution, is_converged: bool
) -> tuple[Tensor, Tensor]:
    """Return <y, M^-1 y> (k,) for the targets, and a bound (k,) on its error."""
    quadratic = (y * solution.value).sum(0)
    zero = torch.zeros_like(quadratic)
    if solution.converged:
        return quadratic, zero
    if not is_converged:
        residual = solution.stats.get("residual", math.inf)
        return quadratic, missing_quadratic(y, residual, noise)
    return half(y).square().sum(0), zero


def _logdet_error(solver: Any, state: Any) -> float:
    if not isinstance(solver, RefiningSolver):
        return 0.0
    return float(solver.logdet_estimate(state)[1])


def scaled_gram(
    oracle: KernelOracle | MatrixOracle | SummedOracle, weights: Tensor
) -> tuple[Tensor, float]:
    """Return the Gram matrix with mean diagonal 1, and its divisor."""
    mean_diag = mean_variance(oracle.diag(), weights)
    gram = oracle.gram()
    gram /= mean_diag
    return gram, mean_diag
