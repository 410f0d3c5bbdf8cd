"""ExactProcess: the posterior, by linear solves with the whole Gram matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._protocols import GramOperator, IterativeSolver, Solution, Solver
from skconvgp._tensors import int_range, permutation
from skconvgp._typing import FloatArray
from skconvgp.engine import (
    KernelGram,
    KernelOracle,
    Placement,
    compute_at,
    freeze,
    frozen_bytes,
    rows_to_tensor,
    thaw,
    to_numpy,
    to_tensor,
)
from skconvgp.inference import (
    CovarianceUpdate,
    EqualInputs,
    LeaveOneOut,
    informative,
    log_marginal_likelihood,
    mean_variance,
    missing_quadratic,
    moment_amplitude,
    profiled_amplitude,
    select_noise,
)
from skconvgp.linalg import DenseGram
from skconvgp.processes._facts import Clipped, Fact, Inexact, Unsolved
from skconvgp.processes._fitting import (
    fixed_amplitude,
    jitter_facts,
    require_finite_noise,
    scaled_gram,
)
from skconvgp.processes._latents import CLIP_TOLERANCE, CovarianceUpdateProcess
from skconvgp.processes._left_out import (
    deviation_excess,
    inverse_diag_by_input,
    kept_values,
    left_out_of,
    left_out_with_versions,
)
from skconvgp.processes._parts_prior import PartsPrior
from skconvgp.processes._prior import (
    MatrixPrior,
    Prior,
    Stream,
    SummedPrior,
)
from skconvgp.processes._problem import (
    Model,
    Problem,
    Record,
    Settings,
    entries,
)
from skconvgp.processes._routes import Route
from skconvgp.processes._run import Resources, Run, clock

__all__ = ["ExactProcess", "fit_exact"]

# Largest relative residual at which leave-one-out predictions are used, and largest
# relative error of <y, M^-1 y> at which the evidence is computed.
SOLVED = 1e-2
# Samples to calibrate probabilities on if each leave-one-out value costs a solve:
# the standard error of an accuracy of 97 % is then below a percent.
LEFT_OUT = 500


@dataclass(frozen=True)
class ExactProcess(CovarianceUpdateProcess):
    """A process fitted by linear solves with its Gram matrix, M = K + noise.

    Parameters
    ----------
    model, prior, state, dual : object
        As in `CovarianceUpdateProcess`; the state is the state of the solver.
    solver : Solver
        The solver.
    inputs : ndarray of shape (n,)
        Index of the distinct input of each sample; equal inputs have the same index.
    is_converged : bool
        Whether the solver met its tolerance, or has a factor.
    residual : float
        Relative residual of its solution; NaN for a direct solver.
    loo : tuple of ndarray, or None
        Leave-one-out means (n, k) and variances (n,), if they were computed by `fit`.
    """

    prior: Prior | PartsPrior
    solver: Solver[Any]
    inputs: NDArray[np.intp]
    is_converged: bool = True
    residual: float = math.nan
    loo: tuple[FloatArray, FloatArray] | None = field(default=None, repr=False)

    @property
    def has_left_out(self) -> bool:
        """Whether leave-one-out values are exact enough to be used."""
        return self.is_converged or self.residual <= SOLVED

    def state_at(self, placement: Placement, run: Run) -> Any:
        """Return the state of the solver, with an operator if it holds no matrix."""
        state = thaw(self.state, placement.device)
        if getattr(state, "gram", state) is not None:
            return state
        assert not isinstance(self.prior, PartsPrior)
        oracle = self.prior.oracle(run, "predict")
        assert isinstance(oracle, KernelOracle)
        return replace(state, gram=KernelGram(oracle, self.model.mean_diag))

    def stream(
        self,
        rows: NDArray[Any],
        diag: FloatArray,
        run: Run,
        *,
        needs_diag: bool,
    ) -> Stream:
        """Yield covariances (b, n) and prior variances (b,) of new samples."""
        if isinstance(self.prior, PartsPrior):
            return self.prior.stream(rows, run, needs_diag=needs_diag)
        return self.prior.stream(rows, diag, run, needs_diag=needs_diag)

    def covariance_update(self, state: Any, cross: Tensor) -> CovarianceUpdate:
        """Return the update by the data, given covariances (b, n) of new samples."""
        scaled = cross.mT / self.model.mean_diag
        return CovarianceUpdate(self.solver.half_solve(state, scaled))

    def facts_of(self, clipped: float, *, needs_var: bool) -> list[Fact]:
        """Return facts about clipped variances; covariances are not clipped."""
        is_clipped = needs_var and clipped > CLIP_TOLERANCE
        return [*self._inexact(), *([Clipped(clipped)] if is_clipped else [])]

    def leave_one_out(self, resources: Resources) -> tuple[LeaveOneOut, list[Fact]]:
        """Return predictions of the scaled targets without their samples, on the host.

        The facts name their defects.
        """
        if self.loo is not None:
            return kept_values(*self.loo)
        all_indices = int_range(self.model.n_samples)
        return self._left_out(all_indices, resources, is_whole=True)

    def leave_one_out_subset(
        self, resources: Resources
    ) -> tuple[NDArray[np.intp], LeaveOneOut, list[Fact]]:
        """Return indices of samples to calibrate on, and predictions without each.

        If each value costs a solve, only a random subset is computed.
        """
        n = self.model.n_samples
        if n <= LEFT_OUT or not isinstance(self.solver, IterativeSolver):
            return np.arange(n), *self.leave_one_out(resources)
        generator = resources.generator()
        indices = permutation(n, generator)[:LEFT_OUT].sort().values
        return to_numpy(indices), *self._left_out(indices, resources, is_whole=False)

    def _left_out(
        self, indices: Tensor, resources: Resources, *, is_whole: bool
    ) -> tuple[LeaveOneOut, list[Fact]]:
        """Return predictions without samples, with variances as for new samples.

        Where a solver bounds variances of new samples from above, it bounds those of
        left-out samples in the same way, so that a calibration fits both.

        Parameters
        ----------
        indices : Tensor of shape (m,)
            Indices of the samples.
        resources : Resources
            Devices and memory that may be used.
        is_whole : bool
            Whether these are all samples; the diagonal is then computed as a whole.
        """

        def left_out_at(placement: Placement) -> LeaveOneOut:
            run = resources.run(placement)
            state = self.state_at(placement, run)
            on_device = indices.to(placement.device)
            inputs = self._equal_inputs(placement.device)
            if inputs.n_versions > 1:
                dtype = run.config.solve_dtype
                return self.with_versions(state, on_device, dtype)
            one_by_one = None if is_whole else on_device
            inverse_diag = inverse_diag_by_input(self.solver, state, inputs, one_by_one)
            loo = self.closed_form(inverse_diag, indices)
            bounds = None
            if isinstance(self.solver, IterativeSolver):
                bounds = self.solver.left_out_variances(state, on_device)
            if bounds is None:
                return loo
            bounded = self.closed_form(1.0 / bounds, indices)
            is_repeated = inputs.counts()[on_device] > 1
            return LeaveOneOut(loo.mean, torch.where(is_repeated, loo.var, bounded.var))

        placement = resources.placement(frozen_bytes(self.state))
        return compute_at(placement, left_out_at), self._inexact()

    def closed_form(self, inverse_diag: Tensor, indices: Tensor) -> LeaveOneOut:
        """Return leave-one-out predictions: of samples from those with other inputs.

        Parameters
        ----------
        inverse_diag : Tensor of shape (m,)
            As `inverse_diag_by_input` returns it.
        indices : Tensor of shape (m,)
            Indices of the samples.
        """
        inputs = self._equal_inputs(inverse_diag.device)
        loo = left_out_of(self.model, self.dual, inputs, inverse_diag, indices)
        return self._as_new(loo, indices)

    def with_versions(
        self, state: Any, indices: Tensor, dtype: torch.dtype
    ) -> LeaveOneOut:
        """Return leave-one-out predictions of images, all their versions left out.

        Parameters
        ----------
        state : object
            State of the solver.
        indices : Tensor of shape (m,)
            Indices of the images, on the device of the state.
        dtype : torch.dtype
            Precision of solves.
        """
        inputs = self._equal_inputs(indices.device)
        loo = left_out_with_versions(
            self.model, self.dual, inputs, self.solver, state, indices, dtype
        )
        return self._as_new(loo, indices)

    def _as_new(self, loo: LeaveOneOut, indices: Tensor) -> LeaveOneOut:
        """Add the variance that only new samples have."""
        if not isinstance(self.prior, SummedPrior):
            return loo
        # The Gram matrix lacks the variance that features leave out, which new samples
        # have.
        residual_diag = self.prior.residual_diag[to_numpy(indices)]
        added = to_tensor(residual_diag, loo.var.device, loo.var.dtype)
        return LeaveOneOut(loo.mean, loo.var + added / self.model.mean_diag)

    def _equal_inputs(self, device: torch.device) -> EqualInputs:
        of = rows_to_tensor(self.inputs)
        return EqualInputs(of, self.model.n_versions).to(device)

    def _inexact(self) -> list[Fact]:
        return [] if self.is_converged else [Inexact(self.solver)]


def fit_exact(
    problem: Problem,
    prior: Prior | PartsPrior,
    run: Run,
    *,
    settings: Settings,
    route: Route,
    keeps_left_out: bool,
    gram_seconds: float = 0.0,
    least_noise: float = 0.0,
) -> tuple[ExactProcess, Record]:
    """Fit to all samples of a problem.

    Parameters
    ----------
    problem, prior, run : object
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

    Returns
    -------
    process : ExactProcess
        The fitted process.
    record : Record
        Record of the fit.
    """
    device, solver = run.config.device, route.solver
    start = clock(device)
    y, w = run.tensor(problem.targets), run.tensor(problem.weights)
    gram, mean_diag = _gram_operator(prior, route, run, w)
    gram_seconds += clock(device) - start

    start = clock(device)
    amplitude = fixed_amplitude(settings.amplitude, mean_diag, y)
    noise = settings.noise
    if isinstance(noise, str):
        noise = select_noise(
            gram.dense(),
            y,
            w,
            criterion=noise,
            amplitude=amplitude,
            precision=prior.precision(run.config),
            inputs=problem.inputs.to(device),
        )
    noise = max(float(noise), least_noise)
    require_finite_noise(noise / w)
    state = solver.init(gram, noise / w)
    solution = solver.solve(state, y)
    # A direct solver whose solution was stopped early still has an exact factor.
    is_iterative = isinstance(solver, IterativeSolver)
    is_converged = solution.converged or not is_iterative
    facts = jitter_facts(state.jitter, float((noise / w).min()), prior, run)
    if not solution.converged:
        facts.append(Unsolved(solver, solution.stats, y.dtype))

    amplitude, evidence, evidence_error = _evidence(
        y, w, noise, amplitude, solver, state, solution, is_converged
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
    if keeps_left_out and problem.n_versions == 1:
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
    process = ExactProcess(
        model,
        # Predictions do not read a given matrix: without it, a pickle is small.
        replace(prior, rows=None) if isinstance(prior, MatrixPrior) else prior,
        freeze(state if route.is_held else replace(state, gram=None)),
        to_numpy(solution.value).astype(np.float64) / mean_diag,
        solver,
        to_numpy(problem.inputs.of),
        is_converged,
        report["residual"],
    )
    if keeps_left_out:
        every = int_range(problem.n_samples, device)
        if inverse_diag is None:
            loo = process.with_versions(state, every, y.dtype)
        else:
            loo = process.closed_form(inverse_diag, every)
        process = replace(process, loo=(to_numpy(loo.mean), to_numpy(loo.var)))
    n_pairs = entries(len(problem.rows))
    return process, Record(n_pairs, gram_seconds, solve_seconds, report, facts)


def _gram_operator(
    prior: Prior | PartsPrior, route: Route, run: Run, weights: Tensor
) -> tuple[GramOperator, float]:
    """Return the Gram matrix with mean diagonal 1, and its divisor."""
    oracle = prior.cached_oracle(run)
    if route.is_held:
        gram, mean_diag = scaled_gram(oracle, weights)
        return DenseGram(gram), mean_diag
    assert isinstance(oracle, KernelOracle)
    mean_diag = mean_variance(oracle.diag(), weights)
    return KernelGram(oracle, mean_diag), mean_diag


def _evidence(
    y: Tensor,
    w: Tensor,
    noise: float,
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
    added = max(noise, state.jitter)  # the matrix has no less on its diagonal
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
    if not isinstance(solver, IterativeSolver):
        return 0.0
    return float(solver.logdet_estimate(state)[1])
