"""BaseGP: what a fitted process says beside its predictions."""

import copy
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from skconvgp._typing import FloatArray
from skconvgp.engine import KernelOracle, MatrixOracle, SummedOracle, wait_for
from skconvgp.estimators._inputs import Size, Work
from skconvgp.estimators._label_models import LabelModel
from skconvgp.estimators._noise import can_choose_noise, usual_noise
from skconvgp.estimators._place import Place, compute_at
from skconvgp.estimators._posterior import BasePosterior
from skconvgp.estimators._problem import Problem
from skconvgp.estimators._report import FitReport, peak_memory
from skconvgp.estimators._resolve import (
    AUTO,
    PRECOMPUTED,
    resolve_amplitude,
    resolve_noise,
)
from skconvgp.estimators._validation import (
    frozen_bytes,
    rows_to_tensor,
    to_numpy,
    to_tensor,
)
from skconvgp.inference import (
    LeaveOneOut,
    mean_variance,
    sample_gaussian,
)
from skconvgp.kernels import Kernel

__all__ = [
    "GRAM_COPIES",
    "BaseGP",
    "Problem",
    "Settings",
    "Timing",
    "clock",
    "make_generator",
    "scaled_gram",
]

# Matrices of the size of the Gram matrix that `fit` holds at once.
GRAM_COPIES = 2  # it and its factor


@dataclass(frozen=True)
class Settings:
    """Settings of the model, checked.

    Parameters
    ----------
    noise : float or str
        Relative noise variance, or the word for how to choose it.
    prior : float, str or None
        Amplitude, "profile", or None for that of the kernel.
    """

    noise: float | str
    prior: float | str | None


@dataclass(frozen=True)
class Timing:
    """Entries of the Gram matrix that were evaluated, and seconds.

    Parameters
    ----------
    n_pairs : int
        Distinct entries.
    gram_seconds, solve_seconds : float
        Time for the entries, and for all the rest.
    """

    n_pairs: int
    gram_seconds: float
    solve_seconds: float


class BaseGP(BasePosterior, ABC):
    """A fitted process: evidence, leave-one-out, samples."""

    _left: FloatArray  # weight that is left out with each sample
    _learned_noise: float | None = None  # noise that was learned with the kernel
    _log_evidence: float | None  # None where it is computed when asked for
    # Leave-one-out means (n, k) and variances (n,) where they are kept.
    _loo: tuple[FloatArray, FloatArray] | None = None
    # The same of latent functions of labels: means (n, k), and variances (n, k) or
    # covariances (n, k, k), without noise.
    _label_loo: tuple[FloatArray, FloatArray] | None = None
    # Whether the latent function of the first of two classes is the negative of the
    # other's.
    _has_one_latent: bool = False
    # Numbers (m,) of samples and their leave-one-out means, where not all are known.
    _sampled: tuple[NDArray[np.intp], FloatArray, FloatArray] | None = None
    # Leave-one-out values from the state of a solver, where there is one.
    _leave_one_out_at: Callable[[Place], LeaveOneOut]

    @property
    def _needs_left_out(self) -> bool:
        """Whether leave-one-out values are computed while the factor is at hand."""
        return False

    @property
    def _has_left_out(self) -> bool:
        """Whether leave-one-out values tell something."""
        return True

    def _knows_left_out(self) -> bool:
        """Return whether leave-one-out values tell something; warn if they do not."""
        return True

    def log_marginal_likelihood(self) -> float:
        """Return the log evidence of the training targets.

        Returns
        -------
        log_marginal_likelihood : float
            Natural logarithm of the density of the targets under the model, summed
            over outputs. A sample of weight w counts as w observations; without noise
            and with other weights than 1 it is infinite. NaN if an iterative solver
            ended too far from a solution, of which `fit` warns.

        Examples
        --------
        >>> from skconvgp import ConvNetGPRegressor
        >>> from skconvgp.kernels import rbf
        >>> gp = ConvNetGPRegressor(rbf(1.0)).fit([[0.0], [1.0]], [0.0, 1.0])
        >>> round(gp.log_marginal_likelihood(), 2)
        -2.15
        """
        check_is_fitted(self)
        if self._log_evidence is not None:
            return float(self._log_evidence)
        place = self._place(is_fitting=False, needed=0)
        evidence = compute_at(place, self._local_evidence_at)
        return self._in_own_units(evidence)

    def _fit_problem(self, problem: Problem) -> None:
        """Fit to a problem: the latent functions and what follows from them."""
        self._fit_latent(problem)

    @abstractmethod
    def _fit_latent(self, problem: Problem) -> NDArray[np.intp]:
        """Fit latent functions; return the numbers of the samples that are used."""

    def _label_models(self, _: Problem) -> list[LabelModel]:
        """Return what may be fitted to labels that have a noise of their own, if so."""
        return []

    def _require_common_noise(self, name: str, models: list[LabelModel]) -> None:
        """Raise where targets have a noise of their own."""
        if models:
            raise ValueError(
                f"{name} needs a likelihood whose targets share one noise, such as "
                f"'gaussian', got {models[0].likelihood!r}: fit "
                "ConvNetGPClassifier exactly, or with completion=Nystrom()."
            )

    def _settings(self, problem: Problem) -> Settings:
        return Settings(self._noise(problem), resolve_amplitude(self, self.amplitude))

    def _noise(self, problem: Problem) -> float | str:
        noise = resolve_noise(self, self.noise_variance)
        return self._auto_noise(problem) if noise == AUTO else noise

    def _auto_noise(self, problem: Problem) -> float | str:
        """Return what "auto" is: "loo", where that is affordable."""
        if not self._label_models(problem):
            is_told = can_choose_noise(problem.inputs.n_inputs, problem.targets)
            if is_told and self._affords_choice(problem):
                return "loo"
            if self._learned_noise is not None:
                return self._learned_noise
        return usual_noise(has_classes=problem.codes is not None)

    @abstractmethod
    def _affords_choice(self, problem: Problem) -> bool:
        """Return whether to choose the noise costs no more than the rest of a fit."""

    def _set_fit(
        self,
        problem: Problem,
        work: Work,
        place: Place,
        timing: Timing,
        amplitude: Tensor,
        evidence: Tensor | None,
        **facts: Any,
    ) -> None:
        """Set what every fit sets; `facts` go to its report."""
        self._set_model(problem, amplitude, evidence)
        self._left = problem.left
        self.backend_ = work.choice.name if work.choice else PRECOMPUTED
        self.dtype_ = str(work.config.dtype).removeprefix("torch.")
        self.device_ = str(place.device)
        self.fit_report_ = FitReport(
            n_samples=len(problem.rows),
            n_pairs=timing.n_pairs,
            n_pairs_read=min(
                timing.n_pairs, sum(cache.n_pairs_read for cache in work.caches)
            ),
            gram_seconds=timing.gram_seconds,
            solve_seconds=timing.solve_seconds,
            backend=self.backend_,
            backend_reason=work.choice.reason if work.choice else "",
            device_reason=place.reason,
            dtype_reason=work.dtype_reason,
            kernel_reason=self._kernel_reason(),
            instruction_set=work.choice.instruction_set if work.choice else "",
            device=self.device_,
            dtype=self.dtype_,
            peak_memory=peak_memory(),
            **facts,
        )

    def _set_model(
        self, problem: Problem, amplitude: Tensor, evidence: Tensor | None
    ) -> None:
        """Set what is known of targets: theirs and the evidence, in their own units."""
        self._targets, self._weights = problem.targets, problem.weights
        self._scale = problem.scale
        self.amplitude_ = _plain(to_numpy(amplitude) * self._scale**2)
        self._log_evidence = None if evidence is None else self._in_own_units(evidence)

    def _in_own_units(self, evidence: Tensor) -> float:
        """Return the log density of the targets themselves, not of the scaled ones."""
        shift = self._weights.sum() * np.log(self._scale).sum()
        return float(evidence.sum()) - float(shift)

    def _local_evidence_at(self, place: Place) -> Tensor:
        work = self._work(place, is_fitting=False)
        amplitude = to_tensor(self._amplitudes() / self._scale**2, place.device)
        return self._local_evidence(self.noise_variance_, amplitude, work)

    def _gram_precision(self, rows: NDArray[Any], work: Work) -> torch.dtype:
        """Return the coarsest precision that the Gram matrix has gone through."""
        made = rows_to_tensor(rows[:1]).dtype
        if isinstance(self.kernel_, Kernel):
            made = work.config.dtype
        is_coarse = torch.float32 in (made, work.config.solve_dtype)
        return torch.float32 if is_coarse else torch.float64

    def _fixed_amplitude(
        self, prior: float | str | None, y: Tensor, scale: FloatArray
    ) -> Tensor | None:
        """Return the amplitude of each scaled target, None to profile it out."""
        if prior == "profile":
            return None
        value = self._mean_diag if prior is None else float(prior)
        return to_tensor(value / scale**2, y.device, y.dtype)

    def _leave_one_out(self) -> LeaveOneOut:
        """Return the closed-form leave-one-out predictions of the scaled targets."""
        check_is_fitted(self)
        if not self._has_left_out:
            raise ValueError(
                "Left-out predictions need a solution, and the one that "
                f"{self.solver_!r} ended with in `fit` has a residual of "
                f"{self.fit_report_.residual:.1e}: raise `noise_variance`, or let it "
                "iterate for longer."
            )
        if self._loo is not None:
            mean, var = (rows_to_tensor(values) for values in self._loo)
            return LeaveOneOut(mean, var)
        if self._localization is not None:
            place = self._place(is_fitting=False, needed=0)
            return compute_at(place, self._local_leave_one_out_at)
        needed = frozen_bytes(self.solver_state_)
        place = self._place(is_fitting=False, needed=needed)
        return compute_at(place, self._leave_one_out_at)

    def _local_leave_one_out_at(self, place: Place) -> LeaveOneOut:
        work = self._work(place, is_fitting=False)
        return self._local_leave_one_out(self.noise_variance_, work)

    def _sampled_loo(self) -> tuple[NDArray[np.intp], LeaveOneOut]:
        """Return numbers of samples and their leave-one-out values, to calibrate on."""
        if self._sampled is not None:
            numbers, mean, var = self._sampled
            return numbers, LeaveOneOut(rows_to_tensor(mean), rows_to_tensor(var))
        return np.arange(len(self._weights)), self._leave_one_out()

    def _sample_latent(self, X: Any, n_samples: int, random_state: Any) -> FloatArray:
        """Draw latent functions (n, k, n_samples); from the prior before `fit`."""
        if random_state is None:
            random_state = self.random_state
        if not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"`n_samples` must be an int >= 1, got {n_samples!r}.")
        generator = make_generator(random_state)
        if hasattr(self, "fit_report_"):
            latent = self._latent(X, None, needs_cov=True)
            mean, covariance, size = latent.mean, latent.cov, latent.cov_scale
            scale = np.sqrt(self._amplitudes())
        else:
            covariance, scale = self._unfitted_prior(X)
            mean, size = np.zeros((len(covariance), 1)), 1.0
        n_outputs = mean.shape[1] // covariance.shape[2]  # of each covariance
        draws = [
            sample_gaussian(
                torch.zeros(len(mean), n_outputs, dtype=torch.float64),
                rows_to_tensor(one).to(torch.float64),
                n_samples,
                generator,
                scale=size,
            )
            for one in np.moveaxis(covariance, 2, 0)
        ]
        joined = to_numpy(torch.cat(draws, dim=1))
        samples: FloatArray = mean[:, :, None] + joined * scale[:, None]
        return samples

    def _unfitted_prior(self, X: Any) -> tuple[FloatArray, FloatArray]:
        prior = copy.deepcopy(self)
        rows, _ = prior._validate_fit(X, np.zeros(len(X)))
        prior.kernel_ = prior._resolved(prior.kernel_, rows)
        amplitude = resolve_amplitude(self, self.amplitude)
        n, size = len(rows), len(rows) ** 2
        held = GRAM_COPIES * size
        place, needed = prior._place_of_fit(n, Size(held, held, size))

        def evaluate(place: Place) -> tuple[FloatArray, float]:
            work = prior._work(place, is_fitting=True, rows=rows, reserved=needed)
            oracle = prior._training_oracle(rows, work)
            gram, mean_diag = scaled_gram(oracle, torch.ones(len(rows)))
            return to_numpy(gram), mean_diag

        gram, mean_diag = compute_at(place, evaluate)
        scale = mean_diag if amplitude is None else amplitude
        scale = 1.0 if isinstance(scale, str) else scale
        return gram[:, :, None], np.array([np.sqrt(scale)])


def clock(device: torch.device) -> float:
    """Return the time in seconds at which a device is done with what it was given."""
    wait_for(device)
    return time.perf_counter()


def make_generator(random_state: Any) -> torch.Generator:
    """Return a source of randomness from scikit-learn's `random_state`."""
    seed = check_random_state(random_state).randint(2**31 - 1)
    return torch.Generator().manual_seed(int(seed))


def scaled_gram(
    oracle: KernelOracle | MatrixOracle | SummedOracle, weights: Tensor
) -> tuple[Tensor, float]:
    """Return the Gram matrix with mean diagonal 1, and what it was divided by."""
    mean_diag = mean_variance(oracle.diag(), weights)
    gram = oracle.gram()
    gram /= mean_diag
    return gram, mean_diag


def _plain(values: FloatArray) -> float | FloatArray:
    return float(values[0]) if (values == values[0]).all() else values
