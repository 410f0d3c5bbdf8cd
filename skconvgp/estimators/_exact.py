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
    require_finite_noise,
)
from skconvgp.estimators._inputs import Work
from skconvgp.estimators._place import Place
from skconvgp.estimators._solving import BaseSolvingGP
from skconvgp.estimators._validation import to_numpy, to_tensor
from skconvgp.estimators._warn import warn_caller
from skconvgp.inference import (
    log_marginal_likelihood,
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
        **facts: Any,
    ) -> None:
        """Fit latent functions to all samples of a problem."""
        device, rows, noise = place.device, problem.rows, settings.noise
        start = clock(device)
        w = to_tensor(problem.weights, device, work.config.solve_dtype)
        y = to_tensor(problem.targets, device, work.config.solve_dtype)
        gram, self._mean_diag = self._gram_operator(rows, work, w)
        gram_seconds = clock(device) - start

        start = clock(device)
        amplitude = self._fixed_amplitude(settings.prior, y, problem.scale)
        if isinstance(noise, str):
            noise = select_noise(
                gram.dense(),
                y,
                w,
                criterion=noise,
                amplitude=amplitude,
                precision=self._gram_precision(rows, work),
            )
        state, solution = self._solve(gram, y, noise / w)
        dual = solution.value
        if amplitude is None:
            amplitude = torch.full_like(y[0], profiled_amplitude(y, dual, w))
        evidence = log_marginal_likelihood(
            (y * dual).sum(0), self.solver_.logdet(state), amplitude, noise, w
        )
        inverse_diag = None
        if self._needs_left_out and not hasattr(self.solver_, "inverse_diag_of"):
            del gram  # its place is for columns of the inverse
            inverse_diag = self.solver_.inverse_diag(state)
        solve_seconds = clock(device) - start

        self._features, self._loo = None, None
        self._columns = self._kept
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
            **self._solver_facts(state, solution),
            **facts,
        )
        if inverse_diag is not None:
            loo = self._closed_form_loo(inverse_diag, np.arange(len(rows)))
            self._loo = to_numpy(loo.mean), to_numpy(loo.var)

    def _solve(
        self, gram: GramOperator, y: Tensor, noise: Tensor
    ) -> tuple[Any, Solution]:
        """Return the state of the solver and its solution for the targets."""
        require_finite_noise(noise)
        state = self.solver_.init(gram, noise)
        solution = self.solver_.solve(state, y)
        # A direct solver that was stopped early still has its factor for all else.
        is_iterative = hasattr(self.solver_, "inverse_diag_of")
        self._is_converged = solution.converged or not is_iterative
        if not solution.converged:
            warn_caller(
                f"{self.solver_!r} did not converge, {solution.stats!r}: the result is "
                "its last iterate. Allow more iterations or raise `noise_variance`.",
                ConvergenceWarning,
            )
        return state, solution

    def _solver_facts(self, state: Any, solution: Solution) -> dict[str, Any]:
        """Return what a report says of the solver."""
        facts: dict[str, Any] = {
            "solver": type(self.solver_).__name__,
            "solver_reason": self._solver_reason,
            "is_gram_held": self._is_held,
            "iterations": int(solution.stats.get("iterations", 0)),
            "residual": solution.stats.get("residual", math.nan),
        }
        if hasattr(self.solver_, "logdet_estimate"):
            error = float(self.solver_.logdet_estimate(state)[1])
            facts["evidence_error"] = error / 2 * solution.value.shape[1]
        return facts
