"""FeatureProcess: the posterior of a completed Gram matrix, through its factor."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from skconvgp._protocols import CompletedGram, Completion
from skconvgp._typing import FloatArray
from skconvgp.engine import (
    KernelOracle,
    MatrixOracle,
    Placement,
    SampleOracle,
    freeze,
    rows_to_tensor,
    thaw,
    to_numpy,
    to_tensor,
)
from skconvgp.exceptions import CompletionError
from skconvgp.inference import (
    EqualInputs,
    FeatureSums,
    Halves,
    LeaveOneOut,
    feature_evidence,
    feature_posterior,
    mean_variance,
    select_feature_noise,
    select_fitc_noise,
)
from skconvgp.linalg import half_solve
from skconvgp.processes._facts import Exceeded, Fact, Unexplained, Unfinished
from skconvgp.processes._featured import (
    Featured,
    Reservoir,
    add_up,
    jitter_of,
    left_out,
)
from skconvgp.processes._fitting import fixed_amplitude, jitter_facts
from skconvgp.processes._latents import latent_by_halves
from skconvgp.processes._prior import PlainPrior
from skconvgp.processes._problem import (
    Latent,
    Model,
    Problem,
    Record,
    Settings,
    entries,
)
from skconvgp.processes._run import Resources, Run, clock

__all__ = [
    "FeatureProcess",
    "FeatureState",
    "complete",
    "fit_features",
    "sample_oracle",
]

# Below this noise the precision of the coefficients is not resolved:
# docs/maths.rst, "Columns of landmarks"
SMALLEST_NOISE = {torch.float64: 1e-10, torch.float32: 1e-6}
# Share of the variance of held-out entries below which a user is warned.
LEAST_EXPLAINED = 0.5


@dataclass(frozen=True)
class FeatureState:
    """What a process of features keeps for the uncertainty of predictions.

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
class FeatureProcess:
    """A process whose covariance is a product of features.

    Parameters
    ----------
    model : Model
        Targets, noise, amplitude, evidence.
    prior : KernelPrior or MatrixPrior
        Covariances with the anchors.
    variance : {"dtc", "sor", "fitc"}
        What becomes of the variance that the features leave out.
    state : FeatureState
        Gives features and their uncertainty, as arrays.
    dual : ndarray of shape (m, k)
        Means are covariances with the anchors times these.
    loo : tuple of ndarray
        Leave-one-out means (n, k) and variances (n,) of the samples, each from when it
        came.
    sums : FeatureSums or None, default=None
        Sums to which those of more samples are added; None if there will be none.
    reservoir : Reservoir or None, default=None
        Some of the samples so far, if more may come.
    some : tuple of ndarray or None, default=None
        Indices of these samples with their leave-one-out means and variances, given all
        samples so far; None if those of all are.
    """

    model: Model
    prior: PlainPrior
    variance: str
    state: FeatureState
    dual: FloatArray
    loo: tuple[FloatArray, FloatArray] = field(repr=False)
    sums: FeatureSums | None = field(default=None, repr=False)
    reservoir: Reservoir | None = field(default=None, repr=False)
    some: tuple[NDArray[np.intp], FloatArray, FloatArray] | None = field(
        default=None, repr=False
    )

    @property
    def has_left_out(self) -> bool:
        """Whether leave-one-out values say something."""
        return True

    @property
    def fact_of_clipping(self) -> type[Exceeded]:
        """What it means that a variance was below zero."""
        return Exceeded

    def latent(
        self,
        rows: NDArray[Any],
        diag: FloatArray,
        resources: Resources,
        *,
        needs_var: bool = False,
        needs_cov: bool = False,
    ) -> Latent:
        """Return the posterior at new samples."""
        return latent_by_halves(
            self, rows, diag, resources, needs_var=needs_var, needs_cov=needs_cov
        )

    def state_at(self, placement: Placement, run: Run) -> Any:  # noqa: ARG002  (other processes need it)
        """Return the state at a place."""
        return thaw(self.state, placement.device)

    def halves(self, state: Any, cross: Tensor) -> Halves:
        """Return what data change, from covariances (b, m) of new samples."""
        lifted = cross @ state.lift_map
        coefficients = half_solve(state.factor, lifted.mT)
        if self.variance == "sor":
            return Halves(None, coefficients)
        return Halves(lifted.mT, coefficients)

    def leave_one_out(self, resources: Resources) -> tuple[LeaveOneOut, list[Fact]]:  # noqa: ARG002  (other processes need it)
        """Return predictions of the scaled targets without their samples."""
        return LeaveOneOut(*map(rows_to_tensor, self.loo)), []

    def some_left_out(
        self, resources: Resources
    ) -> tuple[NDArray[np.intp], LeaveOneOut, list[Fact]]:
        """Return samples to calibrate on, by index, and predictions without them."""
        if self.some is None:
            return np.arange(len(self.model.targets)), *self.leave_one_out(resources)
        indices, mean, var = self.some
        return indices, LeaveOneOut(rows_to_tensor(mean), rows_to_tensor(var)), []


def sample_oracle(
    problem: Problem, prior: PlainPrior, run: Run, n_allowed: int
) -> SampleOracle:
    """Return what completions ask for entries."""
    codes = None if problem.codes is None else torch.as_tensor(problem.codes)
    oracle = prior.cached_oracle(run)
    assert isinstance(oracle, KernelOracle | MatrixOracle)
    return SampleOracle(
        oracle, prior.precision(run.config), run.progress("fit"), n_allowed, codes
    )


def complete(
    completion: Completion, oracle: SampleOracle, fraction: float, generator: Generator
) -> tuple[CompletedGram, list[Fact]]:
    """Return the matrix that a strategy makes of a share of the entries."""
    completed = completion.complete(oracle, fraction, generator)
    for name in ("factor", "lift_map"):
        if not bool(getattr(completed, name).sum().isfinite()):
            raise CompletionError(
                f"The `{name}` that {completion!r} returned is not finite, though "
                "all covariances are: change its settings, or report it to its "
                "authors."
            )
    facts: list[Fact] = []
    explained = completed.stats.get("explained", math.nan)
    if explained < LEAST_EXPLAINED:
        facts.append(Unexplained(completion, explained))
    if not completed.converged:
        facts.append(Unfinished(completion, completed.stats))
    return completed, facts


def fit_features(
    completed: CompletedGram,
    diag: Tensor,
    problem: Problem,
    prior: PlainPrior,
    settings: Settings,
    run: Run,
    *,
    variance: str,
    least_noise: float = 0.0,
    gram_seconds: float = 0.0,
    grows_with: Generator | None = None,
) -> tuple[FeatureProcess, Record]:
    """Fit to a completed matrix, on the host.

    Parameters
    ----------
    completed : CompletedGram
        The matrix; its factor is overwritten.
    diag : Tensor of shape (n,)
        Prior variances.
    problem, prior, settings, run : object
        What to fit, and how the entries were computed.
    variance : {"dtc", "sor", "fitc"}
        What becomes of the variance that the features leave out.
    least_noise : float, default=0.0
        Noise is not below.
    gram_seconds : float, default=0.0
        Time that the completion took.
    grows_with : torch.Generator, optional
        Draws the samples that are kept, if more may come.
    """
    start = clock(diag.device)
    weights = to_tensor(problem.weights, diag.device, diag.dtype)
    mean_diag = mean_variance(diag, weights)
    features = completed.factor.div_(math.sqrt(mean_diag))
    explained = torch.einsum("ij,ij->i", features, features)
    rest = (diag / mean_diag - explained).clamp(min=0.0)
    data = Featured.of(features, problem, rest)
    amplitude = fixed_amplitude(
        settings.amplitude, mean_diag, data.targets, problem.scale
    )
    noise = settings.noise
    if isinstance(noise, str):
        precision = prior.precision(run.config)
        inputs = problem.inputs.to(diag.device)
        noise = _chosen_noise(data, noise, amplitude, variance, precision, inputs)
    noise = max(noise, least_noise, SMALLEST_NOISE[data.targets.dtype])
    sums = add_up(data, noise, variance)
    posterior = feature_posterior(sums)
    evidence, amplitude = feature_evidence(sums, posterior, amplitude)
    loo = left_out(data, posterior, noise, variance)
    lift_map = completed.lift_map / math.sqrt(mean_diag)
    process = FeatureProcess(
        Model.of(
            problem,
            mean_diag=mean_diag,
            noise=noise,
            amplitude=to_numpy(amplitude),
            evidence=float(evidence.sum()),
        ),
        prior.take(to_numpy(completed.anchors)),
        variance,
        freeze(FeatureState(posterior.factor, lift_map, posterior.jitter)),
        to_numpy(lift_map @ posterior.mean) * problem.scale,
        loo,
    )
    if grows_with is not None:
        reservoir = Reservoir.of(data, 0, grows_with)
        process = replace(process, sums=freeze(sums), reservoir=freeze(reservoir))
    jitter = jitter_of(posterior, noise)
    report = {
        "jitter": jitter,
        "relative_rmse": completed.relative_rmse,
        "observed_fraction": completed.n_evaluated / entries(len(problem.rows)),
    }
    seconds = clock(diag.device) - start
    facts = jitter_facts(jitter, noise, prior, run)
    return process, Record(completed.n_evaluated, gram_seconds, seconds, report, facts)


def _chosen_noise(
    data: Featured,
    criterion: str,
    amplitude: Tensor | None,
    variance: str,
    precision: torch.dtype,
    inputs: EqualInputs,
) -> float:
    select = partial(select_feature_noise, data.features)
    if variance == "fitc":
        select = partial(select_fitc_noise, data.features, data.rest)
    return select(
        data.targets,
        data.weights,
        criterion=criterion,
        amplitude=amplitude,
        precision=precision,
        inputs=inputs,
    )
