"""NeighborProcess: no Gram matrix, a few training samples for each new one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from skconvgp._protocols import Localization
from skconvgp._typing import FloatArray
from skconvgp.engine import (
    Placement,
    compute_at,
    rows_to_tensor,
    to_numpy,
    to_tensor,
)
from skconvgp.inference import (
    EqualInputs,
    LeaveOneOut,
    LeftOut,
    log_marginal_likelihood,
    noise_grid,
)
from skconvgp.linalg import DenseGram
from skconvgp.processes._facts import Clipped, Fact
from skconvgp.processes._fitting import (
    fixed_amplitude,
    jitter_facts,
    require_finite_noise,
)
from skconvgp.processes._latents import CLIP_TOLERANCE
from skconvgp.processes._left_out import kept_values
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
from skconvgp.processes._surroundings import Surroundings
from skconvgp.solvers import Cholesky

__all__ = ["LOCAL_COPIES", "NeighborProcess", "fit_neighbors"]

# Samples that are left out for what a fit chooses: the standard error of an accuracy
# of 97 % is then a percent, and that of an amplitude some ten percent of it.
LEFT_OUT = 300
LOCAL_COPIES = 3  # matrices of neighbours: it, shifted, and its factor


@dataclass(frozen=True)
class NeighborProcess:
    """A process that predicts each sample from its nearest neighbours.

    Parameters
    ----------
    model : Model
        Targets, noise, amplitude; its evidence is computed on demand.
    prior : KernelPrior or MatrixPrior
        Covariances with all training samples.
    localization : Localization
        Says which samples are near.
    inputs : ndarray of shape (n,)
        Index of the input of each sample: those of equal inputs have the same.
    loo_subset : tuple of ndarray or None, default=None
        Indices of samples with their leave-one-out means (m, k) and variances (m,), if
        `fit` chose something by them.
    """

    model: Model
    prior: PlainPrior
    localization: Localization
    inputs: NDArray[np.intp]
    loo_subset: tuple[NDArray[np.intp], FloatArray, FloatArray] | None = field(
        default=None, repr=False
    )

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
        """Return the posterior at new samples."""
        if needs_cov:
            raise ValueError(
                f"{self.localization!r} gives each sample a posterior of its own, and "
                "no joint covariance: fit with completion=None for covariances and "
                "samples."
            )

        def latent_at(placement: Placement) -> Latent:
            training = self._surroundings(resources.run(placement), "predict")
            around = training.of_new(rows, diag)
            posterior = training.solve(around, self.model.noise)
            # Without, a given matrix need not tell the prior variances.
            is_clipped = needs_var and posterior.clipped > CLIP_TOLERANCE
            facts = [Clipped(posterior.clipped)] if is_clipped else []
            mean = to_numpy(posterior.mean) * self.model.scale
            var = to_numpy(posterior.var)[:, None] if needs_var else np.empty((0, 1))
            return Latent(mean, var, np.empty(0), facts=facts)

        return compute_at(resources.placement(0), latent_at)

    def leave_one_out(self, resources: Resources) -> tuple[LeaveOneOut, list[Fact]]:
        """Return predictions of the scaled targets without their samples."""
        n = len(self.model.targets)
        if self.loo_subset is not None and len(self.loo_subset[0]) == n:
            return kept_values(*self.loo_subset[1:])

        def left_out_at(placement: Placement) -> LeaveOneOut:
            training = self._surroundings(resources.run(placement))
            everyone, noise = torch.arange(n), self.model.noise
            posterior = training.solve(training.of_others(everyone), noise)
            return training.observed(posterior.mean, posterior.var, everyone, noise)

        return compute_at(resources.placement(0), left_out_at), []

    def leave_one_out_subset(
        self, resources: Resources
    ) -> tuple[NDArray[np.intp], LeaveOneOut, list[Fact]]:
        """Return samples to calibrate on, by index, and predictions without them."""
        if self.loo_subset is None:
            return np.arange(len(self.model.targets)), *self.leave_one_out(resources)
        indices, mean, var = self.loo_subset
        return indices, *kept_values(mean, var)

    def log_evidence(self, resources: Resources) -> float:
        """Return the log density of targets that each follow from earlier ones."""
        model = self.model

        def evidence_at(placement: Placement) -> float:
            training = self._surroundings(resources.run(placement))
            amplitude = to_tensor(model.amplitude / model.scale**2, placement.device)
            return float(_evidence(training, model.noise, amplitude).sum())

        return model.unscaled(compute_at(resources.placement(0), evidence_at))

    def _surroundings(self, run: Run, label: str = "fit") -> Surroundings:
        model = self.model
        return Surroundings(
            self.prior,
            self.localization,
            model.targets,
            model.weights,
            model.mean_diag,
            EqualInputs(rows_to_tensor(self.inputs)),
            run,
            label,
        )


@dataclass(frozen=True)
class _Chosen:
    """Choices that a fit makes on samples that were left out.

    Parameters
    ----------
    noise : float
        Noise variance.
    amplitude : Tensor of shape (c,)
        Amplitude of each output.
    n_pairs : int
        Covariances that were evaluated.
    jitter : float
        Largest jitter of a matrix.
    loo_subset : tuple of ndarray or None
        As in `NeighborProcess`.
    """

    noise: float
    amplitude: Tensor
    n_pairs: int = 0
    jitter: float = 0.0
    loo_subset: tuple[NDArray[np.intp], FloatArray, FloatArray] | None = None


def fit_neighbors(
    localization: Localization,
    problem: Problem,
    prior: PlainPrior,
    settings: Settings,
    run: Run,
    generator: Callable[[], Generator],
) -> tuple[NeighborProcess, Record]:
    """Keep the samples; choose noise and amplitude on samples that are left out.

    Parameters
    ----------
    localization : Localization
        Says which samples are near.
    problem, prior, settings, run : object
        Problem to fit, and how to compute.
    generator : callable
        Returns the generator that draws the samples to leave out.
    """
    device = run.config.device
    start = clock(device)
    mean_diag = problem.mean_variance(prior.oracle(run, "fit").diag())
    training = Surroundings(
        prior,
        localization,
        problem.targets,
        problem.weights,
        mean_diag,
        problem.inputs,
        run,
    )
    y, w = training.observations()
    amplitude = fixed_amplitude(settings.amplitude, mean_diag, y, problem.scale)
    noise = settings.noise
    require_finite_noise((1.0 if isinstance(noise, str) else noise) / w)
    if isinstance(noise, str) or amplitude is None or problem.codes is not None:
        chosen = _choose(training, noise, amplitude, prior, generator())
    else:
        chosen = _Chosen(noise, amplitude)
    n = len(y)
    n_pairs = n + chosen.n_pairs
    model = Model.of(
        problem,
        mean_diag=mean_diag,
        noise=chosen.noise,
        amplitude=to_numpy(chosen.amplitude),
        evidence=None,
    )
    report = {
        "jitter": chosen.jitter,
        "observed_fraction": min(1.0, n_pairs / entries(n)),
    }
    least_noise = float((chosen.noise / w).min())
    facts = jitter_facts(chosen.jitter, least_noise, prior, run)
    record = Record(n_pairs, clock(device) - start, 0.0, report, facts)
    inputs = to_numpy(problem.inputs.of)
    process = NeighborProcess(model, prior, localization, inputs, chosen.loo_subset)
    return process, record


def _choose(
    training: Surroundings,
    noise: float | str,
    amplitude: Tensor | None,
    prior: PlainPrior,
    generator: Generator,
) -> _Chosen:
    """Return noise and amplitude, and predictions of samples that were left out."""
    y, w = training.observations()
    indices = torch.randperm(len(y), generator=generator)[:LEFT_OUT].sort().values
    around = training.of_others(indices)
    m, k = around.neighbors.shape
    jitter = 0.0
    if isinstance(noise, str):
        noises = y.new_tensor(noise_grid(prior.precision(training.run.config)))
        mean, var = training.spectra(around, noises)
    else:
        noises = y.new_tensor([noise])
        posterior = training.solve(around, noise)
        mean, var = posterior.mean[:, None], posterior.var[:, None]
        jitter = posterior.jitter
    own, weights = y[indices.to(y.device)], w[indices.to(y.device)]
    others = [
        training.observed(mean[:, i], var[:, i], indices, float(one))
        for i, one in enumerate(noises)
    ]
    mean = torch.stack([loo.mean for loo in others], 1)
    var = torch.stack([loo.var for loo in others], 1)
    left_out = LeftOut(own, weights, mean, var)
    if amplitude is None:
        amplitudes = left_out.amplitude()[:, None].expand(-1, y.shape[1])
    else:
        amplitudes = amplitude.expand(len(noises), -1)
    best = int(left_out.log_density(amplitudes).argmax())
    found = left_out.of_noise(best)
    some = to_numpy(indices), to_numpy(found.mean), to_numpy(found.var)
    n_pairs = m * (k * (k + 1) // 2)
    return _Chosen(float(noises[best]), amplitudes[best], n_pairs, jitter, some)


def _evidence(training: Surroundings, noise: float, amplitude: Tensor) -> Tensor:
    """Return the log evidence (c,) of samples that follow from earlier ones."""
    y, w = training.observations()
    first = torch.arange(training.n_neighbors)
    oracle = training.prior.oracle(training.run, "fit")
    gram = oracle.block(first, first) / training.mean_diag
    state = Cholesky().init(DenseGram(gram), noise / w[first])
    quadratic = Cholesky().half_solve(state, y[first]).square().sum(0)
    logdet = Cholesky().logdet(state)
    later = torch.arange(len(first), len(y))
    if len(later):
        around = training.of_own(later, only_earlier=True)
        posterior = training.solve(around, noise)
        var = posterior.var + noise / w[later]
        errors = (y[later] - posterior.mean).square()
        quadratic += (errors / var[:, None]).sum(0)
        logdet += var.log().sum()
    return log_marginal_likelihood(quadratic, logdet, amplitude, noise, w)
