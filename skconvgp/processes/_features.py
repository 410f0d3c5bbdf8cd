"""FeatureProcess: the posterior if covariances are products of features.

A completed Gram matrix is F F^T, so that the posterior of n samples follows from sums
over the r columns of F: r^3 + n r^2 operations in place of n^3.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from skconvgp._protocols import lift
from skconvgp._typing import FloatArray
from skconvgp.engine import (
    Placement,
    compute_at,
    freeze,
    frozen_bytes,
    thaw,
    to_numpy,
    to_tensor,
)
from skconvgp.inference import (
    CovarianceUpdate,
    EqualInputs,
    FeaturePosterior,
    FeatureSums,
    LeaveOneOut,
    feature_evidence,
    feature_posterior,
    select_feature_noise,
    select_fitc_noise,
)
from skconvgp.linalg import half_solve
from skconvgp.processes._completed import Completed
from skconvgp.processes._expansion import ExpansionPrior
from skconvgp.processes._facts import Fact
from skconvgp.processes._feature_samples import (
    FeatureSamples,
    Reservoir,
    jitter_of,
    left_out_values,
    sums_of,
)
from skconvgp.processes._fitting import fixed_amplitude, jitter_facts
from skconvgp.processes._latents import (
    CovarianceUpdateProcess,
    excess_facts,
    run_beside,
)
from skconvgp.processes._left_out import kept_values
from skconvgp.processes._patch_images import (
    PatchImages,
    PatchReservoir,
    left_out_images,
)
from skconvgp.processes._patch_prior import PatchPrior
from skconvgp.processes._prior import PlainPrior, Stream
from skconvgp.processes._problem import (
    Model,
    Problem,
    Record,
    Settings,
)
from skconvgp.processes._run import Resources, Run, clock

__all__ = [
    "FEATURE_COPIES",
    "FEWER_FEATURES",
    "FeatureProcess",
    "FeatureState",
    "fit_features",
]

# Below this noise, rounding hides the identity in I + F^T F / noise:
# docs/maths.rst, "Columns of landmarks".
SMALLEST_NOISE = {torch.float64: 1e-10, torch.float32: 1e-6}
FEATURE_COPIES = 2  # of features, and of their products
FEWER_FEATURES = (
    "fit with fewer features or landmarks, or fewer samples at once, or, if classes "
    "have a noise each, with likelihood='gaussian'."
)


@dataclass(frozen=True)
class FeatureState:
    """State of a process of features, for the uncertainty of predictions.

    Parameters
    ----------
    factor : ndarray of shape (r, r)
        Lower Cholesky factor of the precision of the coefficients.
    lift_map : ndarray of shape (m, r) or (), or None
        Takes covariances with the anchors to features. It is a number if the prior
        gives features, and None if it gives them in the unit of the process.
    jitter : float
        Jitter that had to be added to the diagonal of the precision; 0 if none.
    """

    factor: Any
    lift_map: Any
    jitter: float


@dataclass(frozen=True)
class FeatureProcess(CovarianceUpdateProcess):
    """A process whose covariance is a product of features.

    Parameters
    ----------
    model, prior, state, dual : object
        As in `CovarianceUpdateProcess`; the prior has the m anchors, whose covariances
        with a new sample give its features.
    variance : {"dtc", "sor", "fitc"}
        How the variance that the features do not explain is treated.
    loo : tuple of ndarray or None
        Leave-one-out means (n, k) and variances (n,) of the samples, given all samples
        that had been added with each or before it; NaN if they are not known.
    sums : FeatureSums or None, default=None
        Sums over all samples, to which further samples are added; None if none can be.
    reservoir : Reservoir, PatchReservoir or None, default=None
        Random samples of those added so far; None if no sample can be added.
    loo_subset : tuple of ndarray or None, default=None
        Indices of the samples whose leave-one-out predictions are up to date, with
        their means and variances given all samples so far; None if all are.
    unexplained : float, default=0.0
        Mean prior variance that the features of patches leave out, as a share of all,
        of the images whose variances are the unit.
    images : PatchImages or None, default=None
        Training images, if leave-one-out predictions are computed on demand.
    """

    prior: PlainPrior | ExpansionPrior | PatchPrior
    state: FeatureState
    variance: str
    loo: tuple[FloatArray, FloatArray] = field(repr=False)
    sums: FeatureSums | None = field(default=None, repr=False)
    reservoir: Reservoir[FeatureSamples] | PatchReservoir | None = field(
        default=None, repr=False
    )
    loo_subset: tuple[NDArray[np.intp], FloatArray, FloatArray] | None = field(
        default=None, repr=False
    )
    unexplained: float = 0.0
    images: PatchImages | None = field(default=None, repr=False)

    has_left_out: ClassVar[bool] = True  # factors solve exactly

    @property
    def bound(self) -> float:
        """Lower bound of the log evidence with all of the prior variance."""
        model = self.model
        assert model.log_evidence is not None
        left_out = self.unexplained * float(model.weights.sum())
        n_outputs = len(model.scale)
        return model.log_evidence - 0.5 * n_outputs * left_out / model.noise

    def facts_of(self, clipped: float, *, needs_var: bool) -> list[Fact]:  # noqa: ARG002  (clipped for covariances, too)
        """Return a fact if features explain more than the variance of a sample."""
        return excess_facts(self.prior, clipped)

    def state_at(self, placement: Placement, run: Run) -> Any:
        """Return the state on the device of a placement, in the precision of solves."""
        state, dtype = thaw(self.state, placement.device), run.config.solve_dtype
        return replace(state, factor=state.factor.to(dtype))

    def stream(
        self, rows: NDArray[Any], diag: FloatArray, run: Run, *, needs_diag: bool
    ) -> Stream:
        """Yield covariances or features, and prior variances of new samples."""
        needs_diag = needs_diag and self.variance != "sor"
        return self.prior.stream(rows, diag, run, needs_diag=needs_diag)

    def covariance_update(self, state: Any, cross: Tensor) -> CovarianceUpdate:
        """Return the update by the data, given covariances (b, m) of new samples."""
        lifted = cross if state.lift_map is None else lift(cross, state.lift_map)
        coefficients = half_solve(state.factor, lifted.mT)
        if self.variance == "sor":
            return CovarianceUpdate(None, coefficients)
        return CovarianceUpdate(lifted.mT, coefficients)

    def leave_one_out(self, resources: Resources) -> tuple[LeaveOneOut, list[Fact]]:
        """Return predictions of the scaled targets without their samples."""
        images, prior, needed = self.images, self.prior, frozen_bytes(self.state)
        if images is None or not isinstance(prior, PatchPrior):
            return kept_values(*self.loo)

        def leave_out_at(placement: Placement) -> tuple[FloatArray, FloatArray]:
            state = thaw(self.state, placement.device)
            mean = to_tensor(self.dual, placement.device)
            posterior = FeaturePosterior(state.factor, mean, state.jitter)
            run = run_beside(resources, placement, needed)
            return left_out_images(
                images, self.model, prior, posterior, self.variance, run
            )

        return kept_values(*compute_at(resources.placement(needed), leave_out_at))

    def leave_one_out_subset(
        self, resources: Resources
    ) -> tuple[NDArray[np.intp], LeaveOneOut, list[Fact]]:
        """Return indices of samples to calibrate on, and predictions without each."""
        if self.loo_subset is None:
            return np.arange(len(self.model.targets)), *self.leave_one_out(resources)
        indices, mean, var = self.loo_subset
        return indices, *kept_values(mean, var)


def fit_features(
    problem: Problem,
    prior: PlainPrior | ExpansionPrior,
    run: Run,
    *,
    completed: Completed,
    settings: Settings,
    variance: str,
    least_noise: float = 0.0,
    reservoir_generator: Generator | None = None,
) -> tuple[FeatureProcess, Record]:
    """Fit to a completed matrix, on the host.

    Parameters
    ----------
    problem, prior, run : object
        Problem to fit, and how the entries were computed.
    completed : Completed
        The matrix; its factor is overwritten.
    settings : Settings
        Noise and amplitude.
    variance : {"dtc", "sor", "fitc"}
        How the variance that the features do not explain is treated.
    least_noise : float, default=0.0
        Lower bound of the noise variance.
    reservoir_generator : torch.Generator, optional
        Draws the reservoir; without it, no sample can be added later.
    """
    gram, diag = completed.gram, completed.diag
    start = clock(diag.device)
    mean_diag, features, residual_diag, lift_map = completed.in_units_(problem)
    data = FeatureSamples.of(features, problem, residual_diag)
    amplitude = fixed_amplitude(settings.amplitude, mean_diag, data.targets)
    noise = settings.noise
    if isinstance(noise, str):
        precision = prior.precision(run.config)
        inputs = problem.inputs.to(diag.device)
        noise = _chosen_noise(data, noise, amplitude, variance, precision, inputs)
    noise = max(noise, least_noise, SMALLEST_NOISE[data.targets.dtype])
    sums = sums_of(data, noise, variance)
    posterior = feature_posterior(sums)
    evidence, amplitude = feature_evidence(sums, posterior, amplitude)
    loo = left_out_values(data, posterior, noise, variance)
    process = FeatureProcess(
        Model.of(
            problem,
            mean_diag=mean_diag,
            noise=noise,
            amplitude=to_numpy(amplitude),
            evidence=float(evidence.sum()),
        ),
        prior.take(to_numpy(gram.anchors)),
        freeze(FeatureState(posterior.factor, lift_map, posterior.jitter)),
        to_numpy(lift(lift_map, posterior.mean)),
        variance,
        loo,
    )
    if reservoir_generator is not None:
        reservoir = Reservoir.of(data, 0, reservoir_generator)
        process = replace(process, sums=freeze(sums), reservoir=freeze(reservoir))
    jitter = jitter_of(posterior, noise)
    seconds, report = clock(diag.device) - start, {"jitter": jitter}
    facts = jitter_facts(jitter, noise, prior, run)
    record = Record(gram.n_evaluated, completed.seconds, seconds, report, facts)
    return process, record


def _chosen_noise(
    data: FeatureSamples,
    criterion: str,
    amplitude: Tensor | None,
    variance: str,
    precision: torch.dtype,
    inputs: EqualInputs,
) -> float:
    select = partial(select_feature_noise, data.features)
    if variance == "fitc":
        select = partial(select_fitc_noise, data.features, data.residual_diag)
    return select(
        data.targets,
        data.weights,
        criterion=criterion,
        amplitude=amplitude,
        precision=precision,
        inputs=inputs,
    )
