"""BaseExactGP: the posterior by one factorisation of the training matrix."""

from typing import Any

import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from skconvgp.estimators._base import (
    GRAM_COPIES,
    BaseGP,
    Problem,
    Settings,
    Timing,
    clock,
    require_finite_noise,
    scaled_gram,
)
from skconvgp.estimators._inputs import Size, Work
from skconvgp.estimators._place import Place
from skconvgp.estimators._validation import freeze, to_numpy, to_tensor
from skconvgp.estimators._warn import warn_caller
from skconvgp.inference import (
    log_marginal_likelihood,
    profiled_amplitude,
    select_noise,
)
from skconvgp.kernels import Kernel
from skconvgp.linalg import DenseGram

__all__ = ["BaseExactGP"]

# While the noise is chosen: it, a scaled copy, vectors, and two of work space, which
# is what LAPACK's `syevd` asks for.
SELECTION_COPIES = 5


class BaseExactGP(BaseGP):
    """A process whose training matrix is held and factored as a whole."""

    def _exact_size(self, n_samples: int, settings: Settings) -> Size:
        """Return how many numbers a fit holds; the factor comes back from a GPU."""
        is_selecting = isinstance(settings.noise, str)
        copies = SELECTION_COPIES if is_selecting else GRAM_COPIES
        held = copies * n_samples**2
        return Size(held, held, n_samples**2)

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
        gram, self._mean_diag = scaled_gram(self._training_oracle(rows, work), w)
        gram_seconds = clock(device) - start

        start = clock(device)
        amplitude = self._fixed_amplitude(settings.prior, y, problem.scale)
        if isinstance(noise, str):
            noise = select_noise(
                gram,
                y,
                w,
                criterion=noise,
                amplitude=amplitude,
                precision=self._gram_precision(rows, work),
            )
        state, dual = self._solve(gram, y, noise / w)
        if amplitude is None:
            amplitude = torch.full_like(y[0], profiled_amplitude(y, dual, w))
        evidence = log_marginal_likelihood(
            (y * dual).sum(0), self.solver_.logdet(state), amplitude, noise, w
        )
        solve_seconds = clock(device) - start

        self._features, self._loo = None, None
        self._columns = self._kept
        self.noise_variance_ = float(noise)
        self.dual_coef_ = to_numpy(dual) * problem.scale / self._mean_diag
        self.solver_state_ = freeze(state)
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
            **facts,
        )

    def _solve(self, gram: Tensor, y: Tensor, noise: Tensor) -> tuple[Any, Tensor]:
        """Return the factored training matrix and its solution for the targets."""
        require_finite_noise(noise)
        state = self.solver_.init(DenseGram(gram), noise)
        solution = self.solver_.solve(state, y)
        if not solution.converged:
            warn_caller(
                f"{self.solver_!r} did not converge, {solution.stats!r}: the result is "
                "its last iterate. Allow more iterations or raise `noise_variance`.",
                ConvergenceWarning,
            )
        return state, solution.value
