"""BaseLabelGP: latent functions whose noise, if they have any, the labels fix."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from skconvgp._protocols import CompletedGram
from skconvgp._typing import FloatArray
from skconvgp.estimators._base import (
    BaseGP,
    Problem,
    Settings,
    Timing,
    clock,
)
from skconvgp.estimators._inputs import Size, Work
from skconvgp.estimators._jitter import warn_of_jitter
from skconvgp.estimators._label_models import (
    LabelModel,
    LabelPosterior,
    left_out_loss,
    spread_over_classes,
    with_variances,
)
from skconvgp.estimators._noise import require_finite_noise
from skconvgp.estimators._place import Place
from skconvgp.estimators._posterior import Latent
from skconvgp.estimators._resolve import is_direct
from skconvgp.estimators._validation import (
    freeze,
    rows_to_tensor,
    to_numpy,
    to_tensor,
)
from skconvgp.estimators._warn import warn_caller
from skconvgp.inference import (
    choose_amplitude,
    left_out_covariance,
    mean_variance,
    posterior_mean,
)
from skconvgp.kernels import Kernel

__all__ = ["BaseLabelGP", "LabelState"]

# Samples that the amplitude is chosen on, spread over the classes: it is one number.
CHOOSING = 1000
# Matrices of the size of the Gram matrix that the best of several likelihoods keeps
# while another one is fitted.
KEPT_COPIES = 2


@dataclass(frozen=True)
class LabelState:
    """What a model of labels keeps for the uncertainty of predictions.

    Parameters
    ----------
    posterior : object
        Has ``covariance`` and ``joint_covariance`` of new samples.
    features : ndarray of shape (n, r)
        Those of the training samples; (0, 0) without a completion.
    lift_map : ndarray of shape (m, r)
        Takes covariances with the anchors to features; (0, 0) without a completion.
    jitter : float
        What had to be added to a diagonal; 0 if nothing.
    """

    posterior: Any
    features: Any
    lift_map: Any
    jitter: float


@dataclass(frozen=True)
class _Prior:
    """Prior covariances of the training samples, of mean variance 1.

    Parameters
    ----------
    gram : Tensor of shape (n, n)
        The covariances.
    n_pairs : int
        Entries that were evaluated.
    features, lift_map : Tensor
        As in `LabelState`.
    anchors : Tensor of shape (m,) or None
        Samples that new ones are compared with, if those are not all.
    rest : Tensor of shape (n,)
        What the matrix leaves out of the prior variances.
    """

    gram: Tensor
    n_pairs: int
    features: Tensor
    lift_map: Tensor
    anchors: Tensor | None
    rest: Tensor


class BaseLabelGP(BaseGP):
    """A process of labels with latent functions that share no common noise."""

    likelihood_: Any
    latent_offset_: FloatArray
    landmark_indices_: NDArray[np.intp]

    def _label_size(self, models: list[LabelModel], n: int, extra: int) -> Size:
        """Return how many numbers a fit to n samples holds, beside `extra`."""
        copies = max(model.n_copies() for model in models)
        copies += KEPT_COPIES if len(models) > 1 else 0
        held = copies * n**2 + extra
        return Size(held, held, held)

    def _require_labels(self, settings: Settings) -> None:
        """Raise for settings that belong to a noise that all targets share."""
        name = repr(self.likelihood_)
        if not is_direct(self.solver):
            raise ValueError(
                f"{name} is fitted by Cholesky factors: use solver='auto', got "
                f"{self.solver!r}."
            )
        if isinstance(settings.noise, str):
            raise ValueError(  # noqa: TRY004  (a wrong combination, not a wrong type)
                f"{name} has the noise that the labels fix, and `noise_variance` is "
                f"more of it that is not chosen: use a number, got {settings.noise!r}."
            )

    def _fit_label_models(
        self,
        models: list[LabelModel],
        problem: Problem,
        settings: Settings,
        work: Work,
        place: Place,
        completed: CompletedGram | None = None,
        gram_seconds: float = 0.0,
        least_noise: float = 0.0,
        **facts: Any,
    ) -> None:
        """Fit the model of labels that foretells them best; keep what it needs."""
        start = clock(place.device)
        prior = self._label_prior(problem, work, place.device, completed)
        gram_seconds += clock(place.device) - start

        start = clock(place.device)
        assert not isinstance(settings.noise, str)
        self.noise_variance_ = max(float(settings.noise), least_noise)
        model, amplitude, found = self._best_model(
            models, prior.gram, problem, settings.prior
        )
        warn_of_jitter(found.jitter, found.least_noise, work)
        self.likelihood_ = model.likelihood
        self.latent_offset_ = to_numpy(model.offset)
        self._is_label_model, self._features = True, None
        self._has_one_latent = model.has_one_latent
        rest = amplitude * prior.rest.to(found.loo_cov)
        loo_cov = with_variances(found.loo_cov, rest)
        self._label_loo = to_numpy(found.loo_mean), to_numpy(loo_cov)
        self._keep_label_prior(prior, found, problem, amplitude)
        timing = Timing(prior.n_pairs, gram_seconds, clock(place.device) - start)
        unit = prior.gram.new_ones(len(self.latent_offset_))
        self._set_fit(
            problem,
            work,
            place,
            timing,
            amplitude * unit,
            unit.new_tensor(found.evidence),
            jitter=found.jitter,
            solver=type(self.solver_).__name__,
            **facts,
        )

    def _label_prior(
        self,
        problem: Problem,
        work: Work,
        device: torch.device,
        completed: CompletedGram | None,
    ) -> _Prior:
        """Return the prior covariances of the samples, of mean variance 1."""
        weights = to_tensor(problem.weights, device, work.config.solve_dtype)
        oracle = self._training_oracle(problem.rows, work)
        diag = oracle.diag()
        self._mean_diag = mean_variance(diag, weights)
        require_finite_noise(1.0 / weights)
        if completed is None:
            gram, n = oracle.gram(), len(diag)
            gram /= self._mean_diag
            empty = diag.new_empty(0, 0)
            rest = self._left_out_of(gram, diag)
            return _Prior(gram, n * (n + 1) // 2, empty, empty, None, rest)
        features = completed.factor.div_(math.sqrt(self._mean_diag))
        gram = features @ features.mT
        return _Prior(
            gram,
            completed.n_evaluated,
            features,
            completed.lift_map / math.sqrt(self._mean_diag),
            completed.anchors,
            self._left_out_of(gram, diag),
        )

    def _left_out_of(self, gram: Tensor, diag: Tensor) -> Tensor:
        """Return what a matrix leaves out of the prior variances, of mean 1."""
        own = diag.to(gram) / self._mean_diag
        return (own - gram.diagonal()).clamp(min=0.0)

    def _keep_label_prior(
        self,
        prior: _Prior,
        found: LabelPosterior,
        problem: Problem,
        amplitude: float,
    ) -> None:
        """Set what predictions need of the prior."""
        dual, rows = found.dual * amplitude, problem.rows
        self._columns = self._kept
        if prior.anchors is None:
            self.dual_coef_ = to_numpy(dual) / self._mean_diag
        else:
            anchors = to_numpy(prior.anchors)
            self.dual_coef_ = to_numpy(prior.lift_map @ (prior.features.mT @ dual))
            self._columns, rows = self._kept[anchors], rows[anchors]
            self.landmark_indices_ = self._columns
        self.X_train_ = rows if isinstance(self.kernel_, Kernel) else None
        state = LabelState(found.state, prior.features, prior.lift_map, found.jitter)
        self.solver_state_ = freeze(state)

    def _best_model(
        self,
        models: list[LabelModel],
        gram: Tensor,
        problem: Problem,
        prior: float | str | None,
    ) -> tuple[LabelModel, float, LabelPosterior]:
        """Return the model with the least leave-one-out log loss, fitted."""
        best: tuple[LabelModel, float, LabelPosterior] | None = None
        least = math.inf
        for model in models:
            amplitude = self._amplitude_of(model, gram, problem, prior)
            found = model.fit(gram * amplitude, self.noise_variance_ * amplitude)
            if not found.converged:
                warn_caller(
                    f"Newton's method for {model.likelihood!r} did not converge: the "
                    "result is its last iterate. Scale the kernel, or set "
                    "`amplitude`.",
                    ConvergenceWarning,
                )
            if len(models) == 1:
                return model, amplitude, found
            assert problem.codes is not None
            codes, weights = torch.as_tensor(problem.codes), problem.weights
            is_known = isinstance(self.kernel_, Kernel)
            loss = left_out_loss(model, found, codes, rows_to_tensor(weights), is_known)
            if best is None or loss < least:
                best, least = (model, amplitude, found), loss
            del found  # before the next one is made
        assert best is not None
        return best

    def _amplitude_of(
        self,
        model: LabelModel,
        gram: Tensor,
        problem: Problem,
        prior: float | str | None,
    ) -> float:
        if prior is None:
            return self._mean_diag
        if not isinstance(prior, str):
            return prior
        assert problem.codes is not None
        noise = self.noise_variance_
        some = spread_over_classes(problem.codes, CHOOSING).to(gram.device)
        if len(some) < len(gram):
            model, gram = model.take(some), gram[some][:, some]
        return choose_amplitude(lambda a: model.evidence(gram * a, noise * a))

    def _latent_at(
        self,
        rows: NDArray[Any],
        diag: Any,
        needed: int,
        place: Place,
        *,
        needs_var: bool,
        needs_cov: bool,
    ) -> Latent:
        """Return the posterior at new samples, a block of rows at a time."""
        if not self._is_label_model:
            return super()._latent_at(
                rows, diag, needed, place, needs_var=needs_var, needs_cov=needs_cov
            )
        work, dual = self._ready(place, needed)
        state = self._state_at(place) if needs_var or needs_cov else None
        means, covariances, crosses = [], [], []
        excess = 0.0
        for cross, prior in self._stream(rows, diag, work, needs_var=needs_var):
            means.append(posterior_mean(cross, dual))
            if state is None:
                continue
            parts = self._explained(state, cross, prior / self._mean_diag)
            excess = max(excess, float(-parts[1].min()))
            if needs_var:
                covariances.append(self._label_covariance(state, cross, *parts))
            if needs_cov:
                crosses.append(cross)
        cov, cov_scale = torch.empty(0), 0.0
        if needs_cov:
            prior = self._prior_covariance(rows, work)
            cov_scale = float(prior.diagonal().mean())
            assert state is not None
            cov = self._label_joint(state, torch.cat(crosses), prior)
        var, between = torch.empty(0, 1), torch.empty(0)
        self._warn_of_excess(excess)
        if covariances:
            var = torch.cat(covariances)
            if var.ndim == 3:
                between, var = var, var.diagonal(dim1=1, dim2=2)
                between = between if var.shape[1] > 1 else torch.empty(0)
            self._warn_of_clipping(float((-var).clamp(min=0.0).max()))
            var = var.clamp(min=0.0)
        return Latent(
            to_numpy(torch.cat(means)),
            to_numpy(var),
            to_numpy(cov),
            cov_scale,
            to_numpy(between),
        )

    def _label_covariance(
        self, state: LabelState, cross: Tensor, explained: Tensor, rest: Tensor
    ) -> Tensor:
        """Return variances (b, k), or covariances (b, k, k), in units of the prior."""
        amplitude = self._label_amplitude
        cov: Tensor = state.posterior.covariance(
            amplitude * self._with_training(state, cross).mT, amplitude * explained
        )
        return with_variances(cov / amplitude, rest.clamp(min=0.0))

    def _label_joint(self, state: LabelState, cross: Tensor, prior: Tensor) -> Tensor:
        """Return covariances (n1, n1, k) between samples, in units of the prior."""
        amplitude = self._label_amplitude
        explained, rest = prior, torch.zeros_like(prior)
        if state.features.numel():
            lifted = cross @ state.lift_map
            explained = lifted @ lifted.mT
            rest = left_out_covariance(prior - explained)
        cov: Tensor = state.posterior.joint_covariance(
            amplitude * self._with_training(state, cross).mT, amplitude * explained
        )
        joint: Tensor = cov / amplitude + rest[:, :, None]
        return joint

    def _explained(
        self, state: LabelState, cross: Tensor, prior: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the part of prior variances that features explain, and the rest."""
        if not state.features.numel():
            return prior, torch.zeros_like(prior)
        lifted = cross @ state.lift_map
        explained = (lifted * lifted).sum(1)
        return explained, prior - explained

    def _with_training(self, state: LabelState, cross: Tensor) -> Tensor:
        """Return prior covariances (b, n) with the training samples, of mean 1."""
        if not state.features.numel():
            return cross / self._mean_diag
        lifted: Tensor = (cross @ state.lift_map) @ state.features.mT
        return lifted

    @property
    def _label_amplitude(self) -> float:
        return float(np.max(self.amplitude_))
