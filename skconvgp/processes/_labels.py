"""LabelProcess: latent functions whose noise, if any, follows from the labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._protocols import lift
from skconvgp._tensors import nothing
from skconvgp._typing import FloatArray
from skconvgp.engine import (
    Placement,
    compute_at,
    freeze,
    frozen_bytes,
    thaw,
    to_numpy,
)
from skconvgp.inference import left_out_covariance, posterior_mean
from skconvgp.processes._completed import Completed
from skconvgp.processes._expansion import ExpansionPrior
from skconvgp.processes._facts import Clipped, Exceeded, Fact
from skconvgp.processes._fitting import jitter_facts, require_finite_noise
from skconvgp.processes._label_choice import best_model
from skconvgp.processes._label_models import (
    LabelModel,
    with_variances,
)
from skconvgp.processes._latents import CLIP_TOLERANCE, run_beside
from skconvgp.processes._prior import Prior, SummedPrior
from skconvgp.processes._problem import (
    Latent,
    Model,
    Problem,
    Record,
    Settings,
    entries,
)
from skconvgp.processes._run import Resources, Run, clock

__all__ = ["KEPT_COPIES", "LabelProcess", "LabelState", "fit_labelled"]

# Matrices of the size of the Gram matrix that are kept of the best likelihood so far
# while the next one is fitted.
KEPT_COPIES = 2


@dataclass(frozen=True)
class LabelState:
    """State of a process of labels, for the uncertainty of predictions.

    Parameters
    ----------
    posterior : object
        Has ``covariance`` and ``joint_covariance`` of new samples.
    features : ndarray of shape (n, r)
        Features of the training samples; (0, 0) without a completion.
    lift_map : ndarray of shape (m, r) or ()
        Takes covariances with the anchors to features, a number if there are no
        anchors; (0, 0) without a completion.
    jitter : float
        Largest jitter that had to be added to a diagonal; 0 if none.
    """

    posterior: Any
    features: Any
    lift_map: Any
    jitter: float

    def explained(self, cross: Tensor, prior: Tensor) -> tuple[Tensor, Tensor]:
        """Return the explained part of prior variances, and the unexplained part."""
        if not self.features.numel():
            return prior, torch.zeros_like(prior)
        lifted = lift(cross, self.lift_map)
        explained = (lifted * lifted).sum(1)
        return explained, prior - explained

    def with_training(self, cross: Tensor, mean_diag: float) -> Tensor:
        """Return prior covariances (b, n) with training samples, of mean variance 1."""
        if not self.features.numel():
            return cross / mean_diag
        lifted: Tensor = lift(cross, self.lift_map) @ self.features.mT
        return lifted


@dataclass(frozen=True)
class LabelProcess:
    """A process of labels, whose latent functions share no common noise.

    Parameters
    ----------
    model : Model
        Targets, noise added to that of the labels, amplitude, evidence.
    prior : Prior
        Covariances with the training samples, or with the anchors.
    state : LabelState
        Factors for predictive variances, as arrays.
    dual : ndarray of shape (n, k)
        Dual coefficients: means are covariances times these.
    likelihood : object
        The likelihood that was chosen.
    offset : ndarray of shape (k,)
        Prior means of the latent functions.
    has_one_latent : bool
        Whether the function of the first of two classes is the negative of the other's.
    loo : tuple of ndarray
        Leave-one-out means (n, k) without the offset, and variances (n, k) or
        covariances (n, k, k) without noise.
    """

    model: Model
    prior: Prior | ExpansionPrior
    state: LabelState
    dual: FloatArray
    likelihood: Any
    offset: FloatArray
    has_one_latent: bool
    loo: tuple[FloatArray, FloatArray] = field(repr=False)

    has_left_out: ClassVar[bool] = True  # factors solve exactly

    def latent(
        self,
        rows: NDArray[Any],
        diag: FloatArray,
        resources: Resources,
        *,
        needs_var: bool = False,
        needs_cov: bool = False,
    ) -> Latent:
        """Return the posterior at new samples, a block of rows at a time."""
        has_state = needs_var or needs_cov
        needed = frozen_bytes(self.state) if has_state else 0

        def latent_at(placement: Placement) -> Latent:
            run = run_beside(resources, placement, needed)
            dual = run.tensor(self.dual)
            state = thaw(self.state, placement.device) if has_state else None
            means, covariances, crosses = [], [], []
            excess = 0.0
            # Features give covariances with all training samples, not only anchors.
            width = len(self.model.targets)
            stream = self.prior.stream(rows, diag, run, width, needs_diag=has_state)
            for cross, prior in stream:
                means.append(posterior_mean(cross, dual))
                if state is None:
                    continue
                parts = state.explained(cross, prior / self.model.mean_diag)
                excess = max(excess, float(-parts[1].min()))
                if needs_var:
                    covariances.append(self._covariance(state, cross, *parts))
                if needs_cov:
                    crosses.append(cross)
            cov, cov_scale = nothing(0), 0.0
            if needs_cov:
                prior = self.prior.covariance(rows, run, self.model.mean_diag)
                cov_scale = float(prior.diagonal().mean())
                assert state is not None
                cov = self._joint_covariance(state, torch.cat(crosses), prior)
            facts: list[Fact] = []
            if excess > CLIP_TOLERANCE:
                facts.append(Exceeded(excess))
            var, between = (
                nothing(0, 1),
                nothing(0),
            )
            if covariances:
                var, between, clipped = _variances(torch.cat(covariances))
                if clipped > CLIP_TOLERANCE:
                    facts.append(Clipped(clipped))
            return Latent(
                to_numpy(torch.cat(means)),
                to_numpy(var),
                to_numpy(cov),
                cov_scale,
                to_numpy(between),
                facts,
            )

        return compute_at(resources.placement(needed), latent_at)

    def _covariance(
        self, state: LabelState, cross: Tensor, explained: Tensor, residual: Tensor
    ) -> Tensor:
        """Return variances (b, k), or covariances (b, k, k), in units of the prior."""
        amplitude = self.amplitude
        training = state.with_training(cross, self.model.mean_diag)
        cov: Tensor = state.posterior.covariance(
            amplitude * training.mT, amplitude * explained
        )
        return with_variances(cov / amplitude, residual.clamp(min=0.0))

    def _joint_covariance(
        self, state: LabelState, cross: Tensor, prior: Tensor
    ) -> Tensor:
        """Return covariances (n1, n1, k) between samples, in units of the prior."""
        amplitude = self.amplitude
        explained, residual = prior, torch.zeros_like(prior)
        if state.features.numel():
            lifted = lift(cross, state.lift_map)
            explained = lifted @ lifted.mT
            residual = left_out_covariance(prior - explained)
        training = state.with_training(cross, self.model.mean_diag)
        cov: Tensor = state.posterior.joint_covariance(
            amplitude * training.mT, amplitude * explained
        )
        joint: Tensor = cov / amplitude + residual[:, :, None]
        return joint

    @property
    def amplitude(self) -> float:
        """Prior variance of the latent functions."""
        return float(np.max(self.model.amplitude))


@dataclass(frozen=True)
class _Covariances:
    """Prior covariances of the training samples, of mean variance 1.

    Parameters
    ----------
    gram : Tensor of shape (n, n)
        The covariances.
    mean_diag : float
        Divisor of the covariances.
    n_pairs : int
        Entries that were evaluated.
    features, lift_map : Tensor
        As in `LabelState`.
    anchors : Tensor of shape (m,) or None
        Samples whose covariances with new ones are computed; None for all.
    residual_diag : Tensor of shape (n,)
        Prior variances minus the diagonal of the matrix.
    """

    gram: Tensor
    mean_diag: float
    n_pairs: int
    features: Tensor
    lift_map: Tensor
    anchors: Tensor | None
    residual_diag: Tensor


def fit_labelled(
    problem: Problem,
    prior: Prior | ExpansionPrior,
    run: Run,
    *,
    models_of: Callable[[Problem], list[LabelModel]],
    settings: Settings,
    completed: Completed | None = None,
    gram_seconds: float = 0.0,
    least_noise: float = 0.0,
) -> tuple[LabelProcess, Record]:
    """Fit every model of the labels; keep the lowest leave-one-out log loss.

    Parameters
    ----------
    problem, prior, run : object
        Problem to fit, and how to compute.
    models_of : callable
        Returns the candidates.
    settings : Settings
        Amplitude, and noise added to that of the labels.
    completed : Completed, optional
        Replaces the Gram matrix; its factor is overwritten.
    gram_seconds : float, default=0.0
        Time that was spent on covariances before.
    least_noise : float, default=0.0
        Lower bound of the added noise.
    """
    device = run.config.device
    start = clock(device)
    covariances = _covariances(problem, prior, run, completed)
    gram_seconds += clock(device) - start + (completed.seconds if completed else 0.0)

    start = clock(device)
    assert not isinstance(settings.noise, str)
    noise = max(float(settings.noise), least_noise)
    model, amplitude, posterior, facts = best_model(
        models_of(problem),
        covariances.gram,
        covariances.mean_diag,
        problem,
        settings.amplitude,
        noise,
        prior.knows_variances,
    )
    facts += jitter_facts(posterior.jitter, posterior.least_noise, prior, run)
    offset = to_numpy(model.offset)
    residual_diag = amplitude * covariances.residual_diag.to(posterior.loo_cov)
    loo_cov = with_variances(posterior.loo_cov, residual_diag)
    unit = covariances.gram.new_ones(len(offset))
    dual = posterior.dual * amplitude
    if covariances.anchors is None:
        dual_coef = to_numpy(dual) / covariances.mean_diag
    else:
        by_feature = covariances.features.mT @ dual
        dual_coef = to_numpy(lift(covariances.lift_map, by_feature))
        assert not isinstance(prior, SummedPrior)
        prior = prior.take(to_numpy(covariances.anchors))
    state = LabelState(
        posterior.state, covariances.features, covariances.lift_map, posterior.jitter
    )
    process = LabelProcess(
        Model.of(
            problem,
            mean_diag=covariances.mean_diag,
            noise=noise,
            amplitude=to_numpy(amplitude * unit),
            evidence=posterior.evidence,
        ),
        prior,
        freeze(state),
        dual_coef,
        model.likelihood,
        offset,
        model.has_one_latent,
        (to_numpy(posterior.loo_mean), to_numpy(loo_cov)),
    )
    report = {"jitter": posterior.jitter, "solver": "Cholesky"}
    seconds = clock(device) - start
    return process, Record(covariances.n_pairs, gram_seconds, seconds, report, facts)


def _covariances(
    problem: Problem,
    prior: Prior | ExpansionPrior,
    run: Run,
    completed: Completed | None,
) -> _Covariances:
    """Return the prior covariances of the samples, of mean variance 1."""
    require_finite_noise(1.0 / run.tensor(problem.weights))
    if completed is not None:
        mean_diag, features, residual_diag, lift_map = completed.in_units_(problem)
        return _Covariances(
            features @ features.mT,
            mean_diag,
            completed.gram.n_evaluated,
            features,
            lift_map,
            completed.gram.anchors,
            residual_diag,
        )
    assert not isinstance(prior, ExpansionPrior)
    oracle = prior.cached_oracle(run)
    diag, gram = oracle.diag(), oracle.gram()
    mean_diag = problem.mean_variance(diag)
    gram /= mean_diag
    empty, n = diag.new_empty(0, 0), len(diag)
    residual_diag = (diag.to(gram) / mean_diag - gram.diagonal()).clamp(min=0.0)
    return _Covariances(gram, mean_diag, entries(n), empty, empty, None, residual_diag)


def _variances(cov: Tensor) -> tuple[Tensor, Tensor, float]:
    """Return variances (n, k), covariances between outputs, and the largest excess.

    The excess is how far below zero rounding had taken a variance.
    """
    var, between = cov, nothing(0)
    if cov.ndim == 3:
        between, var = cov, cov.diagonal(dim1=1, dim2=2)
        between = between if var.shape[1] > 1 else nothing(0)
    clipped = float((-var).clamp(min=0.0).max())
    return var.clamp(min=0.0), between, clipped
