"""BaseExactGP: the posterior by solutions with the whole training matrix."""

import math
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from skconvgp._protocols import GramOperator, Solution
from skconvgp.estimators._base import (
    Problem,
    Settings,
    Timing,
    clock,
)
from skconvgp.estimators._inputs import Work
from skconvgp.estimators._jitter import warn_of_jitter
from skconvgp.estimators._noise import require_finite_noise
from skconvgp.estimators._place import Place
from skconvgp.estimators._solving import SOLVED, BaseSolvingGP
from skconvgp.estimators._validation import to_numpy, to_tensor
from skconvgp.estimators._warn import warn_caller
from skconvgp.inference import (
    log_marginal_likelihood,
    missing_quadratic,
    moment_amplitude,
    profiled_amplitude,
    select_noise,
)
from skconvgp.kernels import Kernel

__all__ = ["BaseExactGP"]


class BaseExactGP(BaseSolvingGP):
    """A process whose training matrix is solved with as a whole."""

    def _fit_exact(
        self,
        problem: Problem,
        settings: Settings,
        work: Work,
        place: Place,
        gram_seconds: float = 0.0,
        least_noise: float = 0.0,
        **facts: Any,
    ) -> None:
        """Fit latent functions to all samples of a problem."""
        device, rows, noise = place.device, problem.rows, settings.noise
        start = clock(device)
        w = to_tensor(problem.weights, device, work.config.solve_dtype)
        y = to_tensor(problem.targets, device, work.config.solve_dtype)
        gram, self._mean_diag = self._gram_operator(rows, work, w)
        gram_seconds += clock(device) - start

        start = clock(device)
        amplitude = self._fixed_amplitude(settings.prior, y, problem.scale)
        noise = self._chosen_noise(problem, noise, gram, y, w, amplitude, work)
        noise = max(noise, least_noise)
        state, solution = self._solve(gram, y, noise / w, work)
        dual = solution.value
        quadratic, missing = self._quadratic(y, noise / w, state, solution)
        is_known = bool((missing <= SOLVED * quadratic).all())
        if amplitude is None:
            profiled = (
                profiled_amplitude(quadratic + missing, w)
                if is_known
                else moment_amplitude(y, noise, w)
            )
            amplitude = torch.full_like(y[0], profiled)
        evidence = log_marginal_likelihood(
            quadratic, self.solver_.logdet(state), amplitude, noise, w
        )
        evidence_error = self._logdet_error(state) * len(amplitude) + float(
            (missing / amplitude).sum()
        )
        if not is_known:
            evidence, evidence_error = torch.full_like(evidence, math.nan), math.inf
        told = self._solver_facts(state, solution)
        inverse_diag = None
        if self._needs_left_out and not hasattr(self.solver_, "inverse_diag_of"):
            del gram  # its place is for columns of the inverse
            inverse_diag = self._whole_inverse(state, problem.inputs)
        solve_seconds = clock(device) - start

        self._features, self._loo, self._columns = None, None, self._kept
        self._inputs = to_numpy(problem.inputs.of)
        self.noise_variance_ = float(noise)
        self.dual_coef_ = to_numpy(dual) * problem.scale / self._mean_diag
        self.solver_state_ = self._kept_state(state)
        self.X_train_ = rows if isinstance(self.kernel_, Kernel) else None
        n_pairs = len(rows) * (len(rows) + 1) // 2
        timing = Timing(n_pairs, gram_seconds, solve_seconds)
        self._set_fit(
            problem,
            work,
            place,
            timing,
            amplitude,
            evidence,
            jitter=state.jitter,
            evidence_error=evidence_error / 2.0,
            **told,
            **facts,
        )
        if inverse_diag is not None:
            loo = self._closed_form_loo(inverse_diag, np.arange(len(rows)))
            self._loo = to_numpy(loo.mean), to_numpy(loo.var)

    def _chosen_noise(
        self,
        problem: Problem,
        noise: float | str,
        gram: GramOperator,
        y: Tensor,
        w: Tensor,
        amplitude: Tensor | None,
        work: Work,
    ) -> float:
        """Return the noise variance, by the criterion that a word names."""
        if not isinstance(noise, str):
            return float(noise)
        return select_noise(
            gram.dense(),
            y,
            w,
            criterion=noise,
            amplitude=amplitude,
            precision=self._gram_precision(problem.rows, work),
            inputs=problem.inputs.to(y.device),
        )

    def _solve(
        self, gram: GramOperator, y: Tensor, noise: Tensor, work: Work
    ) -> tuple[Any, Solution]:
        """Return the state of the solver and its solution for the targets."""
        require_finite_noise(noise)
        state = self.solver_.init(gram, noise)
        warn_of_jitter(state.jitter, float(noise.min()), work)
        solution = self.solver_.solve(state, y)
        # A direct solver that was stopped early still has its factor for all else.
        is_iterative = hasattr(self.solver_, "inverse_diag_of")
        self._is_converged = solution.converged or not is_iterative
        if not solution.converged:
            told = ", ".join(f"{k} {v:.3g}" for k, v in solution.stats.items())
            most = getattr(self.solver_, "max_iter", None)
            if most is None or solution.stats.get("iterations", 0.0) >= most:
                remedy = "allow more iterations"
            elif y.dtype != torch.float64:
                remedy = "take solve_dtype='float64'"
            else:
                remedy = (
                    "take a larger tolerance: rounding errors ended it, or a Gram "
                    "matrix that is not positive semi-definite"
                )
            warn_caller(
                f"{self.solver_!r} did not converge, {told}: the result is its best "
                f"iterate. Raise `noise_variance` or {remedy}.",
                ConvergenceWarning,
            )
        return state, solution

    def _quadratic(
        self, y: Tensor, noise: Tensor, state: Any, solution: Solution
    ) -> tuple[Tensor, Tensor]:
        """Return <y, M^-1 y> (k,) of the targets, and what it may lack (k,)."""
        quadratic = (y * solution.value).sum(0)
        nothing = torch.zeros_like(quadratic)
        if solution.converged:
            return quadratic, nothing
        if not self._is_converged:
            residual = solution.stats.get("residual", math.inf)
            return quadratic, missing_quadratic(y, residual, noise)
        return self.solver_.half_solve(state, y).square().sum(0), nothing

    def _logdet_error(self, state: Any) -> float:
        if not hasattr(self.solver_, "logdet_estimate"):
            return 0.0
        return float(self.solver_.logdet_estimate(state)[1])

    def _solver_facts(self, state: Any, solution: Solution) -> dict[str, Any]:
        """Return what a report says of the solver."""
        return {
            "solver": type(self.solver_).__name__,
            "solver_reason": self._solver_reason,
            "is_gram_held": self._is_held,
            "iterations": int(solution.stats.get("iterations", 0)),
            "residual": solution.stats.get("residual", math.nan),
            "deviation_excess": self._deviation_excess(state),
        }
