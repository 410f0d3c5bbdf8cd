"""BaseFeatureGP: the posterior of a completed Gram matrix, through its factor."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from skconvgp._protocols import CompletedGram, Completion
from skconvgp._typing import FloatArray
from skconvgp.engine import SampleOracle, SummedOracle
from skconvgp.estimators._base import (
    BaseGP,
    Problem,
    Settings,
    Timing,
    clock,
    make_generator,
)
from skconvgp.estimators._inputs import Work
from skconvgp.estimators._jitter import warn_of_jitter
from skconvgp.estimators._place import Place
from skconvgp.estimators._progress import ProgressLine
from skconvgp.estimators._validation import freeze, to_numpy, to_tensor
from skconvgp.estimators._warn import warn_caller
from skconvgp.exceptions import CompletionError
from skconvgp.inference import (
    FeaturePosterior,
    FeatureSums,
    feature_evidence,
    feature_leave_one_out,
    feature_posterior,
    leave_one_unit_out,
    mean_variance,
    select_feature_noise,
    select_fitc_noise,
    sum_features,
)
from skconvgp.kernels import Kernel

__all__ = ["BaseFeatureGP", "FeatureState", "Featured", "entries"]

# Below this noise the precision of the coefficients is not resolved:
# docs/maths.rst, "Columns of landmarks"
SMALLEST_NOISE = {torch.float64: 1e-10, torch.float32: 1e-6}
# Share of the variance of held-out entries below which a user is warned.
LEAST_EXPLAINED = 0.5


@dataclass(frozen=True)
class FeatureState:
    """What a model of features keeps for the uncertainty of predictions.

    Parameters
    ----------
    factor : ndarray of shape (r, r)
        Lower Cholesky factor of the precision of the coefficients.
    lift_map : ndarray of shape (m, r)
        Takes covariances with the anchors to features.
    jitter : float
        What had to be added to the diagonal of the precision; 0 if nothing.
    """

    factor: Any
    lift_map: Any
    jitter: float


@dataclass(frozen=True)
class Featured:
    """Samples as a model of features sees them.

    Parameters
    ----------
    features : Tensor of shape (n, r)
        F, for a mean prior variance of 1.
    targets : Tensor of shape (n, k)
        Scaled targets.
    weights : Tensor of shape (n,)
        Sample weights.
    whole_targets : Tensor of shape (n, k)
        Mean target of all samples with the input of each.
    totals, staying : Tensor of shape (n,)
        Weight of these samples, and what of it stays without the sample.
    rest : Tensor of shape (n,)
        What F leaves out of the prior variances.
    """

    features: Tensor
    targets: Tensor
    weights: Tensor
    whole_targets: Tensor
    totals: Tensor
    staying: Tensor
    rest: Tensor

    @classmethod
    def of(cls, features: Tensor, problem: Problem, rest: Tensor) -> Self:
        """Return the samples of a problem by their features (n, r) and rests (n,)."""
        targets = to_tensor(problem.targets, rest.device, rest.dtype)
        weights = to_tensor(problem.weights, rest.device, rest.dtype)
        inputs = problem.inputs.to(rest.device)
        whole = inputs.merge(targets, weights)
        return cls(
            features,
            targets,
            weights,
            whole.targets[inputs.of],
            whole.weights[inputs.of],
            inputs.staying(weights),
            rest,
        )


class BaseFeatureGP(BaseGP):
    """A process whose covariance is a product of features.

    Kernels are evaluated where `device` says, features are fitted on the host.
    """

    def _sample_oracle(
        self, problem: Problem, work: Work, n_allowed: int
    ) -> SampleOracle:
        """Return what completions ask for entries."""
        codes = None if problem.codes is None else torch.as_tensor(problem.codes)
        oracle = self._training_oracle(problem.rows, work)
        assert not isinstance(oracle, SummedOracle)
        return SampleOracle(
            oracle,
            self._gram_precision(problem.rows, work),
            ProgressLine("fit", work.verbose),
            n_allowed,
            codes,
        )

    def _featured_(
        self, completed: CompletedGram, diag: Tensor, problem: Problem
    ) -> Featured:
        """Return samples by their features, the factor of a completion, scaled."""
        features = completed.factor.div_(math.sqrt(self._mean_diag))
        explained = torch.einsum("ij,ij->i", features, features)
        rest = (diag / self._mean_diag - explained).clamp(min=0.0)
        return Featured.of(features, problem, rest)

    def _fit_features(
        self,
        completed: CompletedGram,
        diag: Tensor,
        problem: Problem,
        settings: Settings,
        work: Work,
        place: Place,
        *,
        variance: str,
        least_noise: float,
        gram_seconds: float,
    ) -> tuple[Featured, FeatureSums]:
        """Fit latent functions; return samples, and sums that more may be added to.

        Parameters
        ----------
        completed : CompletedGram
            The matrix; its factor is overwritten.
        diag : Tensor of shape (n,)
            Prior variances.
        problem, settings, work, place : object
            What to fit, how and where.
        variance : {"dtc", "sor", "fitc"}
            What becomes of the variance that the features leave out.
        least_noise : float
            Noise is not below.
        gram_seconds : float
            Time that the completion took.
        """
        start = clock(diag.device)
        weights = to_tensor(problem.weights, diag.device, diag.dtype)
        self._mean_diag = mean_variance(diag, weights)
        data = self._featured_(completed, diag, problem)
        amplitude = self._fixed_amplitude(settings.prior, data.targets, problem.scale)
        noise = self._feature_noise(data, settings, amplitude, variance, problem, work)
        noise = max(noise, least_noise, SMALLEST_NOISE[data.targets.dtype])
        self.noise_variance_ = noise
        self._features = variance
        sums = self._add_up(data)
        posterior = feature_posterior(sums)
        evidence, amplitude = feature_evidence(sums, posterior, amplitude)
        self._loo = self._feature_loo(data, posterior)
        self._anchor(completed, problem, posterior)
        solve_seconds = clock(diag.device) - start
        timing = Timing(completed.n_evaluated, gram_seconds, solve_seconds)
        self._set_fit(
            problem,
            work,
            place,
            timing,
            amplitude,
            evidence,
            jitter=self._jitter_of(posterior, work),
            relative_rmse=completed.relative_rmse,
            observed_fraction=completed.n_evaluated / entries(len(problem.rows)),
        )
        return data, sums

    def _complete(
        self, completion: Completion, oracle: SampleOracle, fraction: float
    ) -> CompletedGram:
        """Return the matrix that a strategy makes of a share of the entries."""
        generator = make_generator(self.random_state)
        completed = completion.complete(oracle, fraction, generator)
        for name in ("factor", "lift_map"):
            if not bool(getattr(completed, name).sum().isfinite()):
                raise CompletionError(
                    f"The `{name}` that {completion!r} returned is not finite, though "
                    "all covariances are: change its settings, or report it to its "
                    "authors."
                )
        explained = completed.stats.get("explained", math.nan)
        if explained < LEAST_EXPLAINED:
            warn_caller(
                f"{completion!r} explains {max(explained, 0.0):.0%} of the variance of "
                "entries that were held out: evaluate more or in another `pattern`, "
                "and compare with SubsetOfData().",
                UserWarning,
            )
        if not completed.converged:
            warn_caller(
                f"{completion!r} did not converge, {completed.stats!r}: the matrix is "
                "its last iterate. Allow more iterations or a larger tolerance.",
                ConvergenceWarning,
            )
        return completed

    def _feature_noise(
        self,
        data: Featured,
        settings: Settings,
        amplitude: Tensor | None,
        variance: str,
        problem: Problem,
        work: Work,
    ) -> float:
        if not isinstance(settings.noise, str):
            return settings.noise
        select = partial(select_feature_noise, data.features)
        if variance == "fitc":
            select = partial(select_fitc_noise, data.features, data.rest)
        return select(
            data.targets,
            data.weights,
            criterion=settings.noise,
            amplitude=amplitude,
            precision=self._gram_precision(problem.rows, work),
            inputs=problem.inputs.to(data.targets.device),
        )

    def _unit_noise(self, data: Featured) -> Tensor:
        """Return the noise variance (n,) of a single observation of each sample."""
        counted = data.rest if self._features == "fitc" else torch.zeros_like(data.rest)
        return counted + self.noise_variance_

    def _jitter_of(self, posterior: FeaturePosterior, work: Work) -> float:
        """Return what jitter adds to the diagonal of the matrix; warn if it is much.

        A precision of 1 + j of each coefficient, in the place of 1, makes of the noise
        1 + j times as much.
        """
        jitter = posterior.jitter * self.noise_variance_
        warn_of_jitter(jitter, self.noise_variance_, work)
        return jitter

    def _add_up(self, data: Featured) -> FeatureSums:
        return sum_features(
            data.features, data.targets, self._unit_noise(data), data.weights
        )

    def _feature_loo(
        self, data: Featured, posterior: FeaturePosterior
    ) -> tuple[FloatArray, FloatArray]:
        """Return leave-one-out means (n, k) and variances (n,) of some samples."""
        noise, whole, totals = self._unit_noise(data), data.whole_targets, data.totals
        loo = feature_leave_one_out(data.features, whole, noise, totals, posterior)
        loo = leave_one_unit_out(loo, data.targets, whole, noise, totals, data.staying)
        left_out = data.rest if self._features == "dtc" else 0.0
        return to_numpy(loo.mean), to_numpy(loo.var + left_out)

    def _anchor(
        self, completed: CompletedGram, problem: Problem, posterior: FeaturePosterior
    ) -> None:
        """Set what predictions need: the anchors, and how they are used."""
        lift_map = completed.lift_map / math.sqrt(self._mean_diag)
        anchors = to_numpy(completed.anchors)
        self.dual_coef_ = to_numpy(lift_map @ posterior.mean) * problem.scale
        state = FeatureState(posterior.factor, lift_map, posterior.jitter)
        self.solver_state_ = freeze(state)
        self.landmark_indices_ = self._kept[anchors]
        self._columns = self._kept[anchors]
        is_kernel = isinstance(self.kernel_, Kernel)
        self.X_train_ = problem.rows[anchors] if is_kernel else None


def entries(n_samples: int) -> int:
    """Return the number of distinct entries of a symmetric matrix."""
    return n_samples * (n_samples + 1) // 2
