"""NeighborProcess: each sample is predicted from its nearest training samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from skconvgp._protocols import Localization
from skconvgp._tensors import int_range, permutation
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
    informative,
    log_marginal_likelihood,
    noise_grid,
)
from skconvgp.linalg import DenseGram
from skconvgp.processes._facts import Clipped, Fact, jitter_facts
from skconvgp.processes._model import Model
from skconvgp.processes._problem import (
    Latent,
    Problem,
    Record,
    Settings,
    entries,
    fixed_amplitude,
    require_finite_noise,
)
from skconvgp.processes._process import CLIP_TOLERANCE, LeftOutValues
from skconvgp.processes._run import COVARIANCES, Resources, Run, Stage, clock
from skconvgp.processes.basis._basis import NewRows
from skconvgp.processes.basis._plain import PlainBasis
from skconvgp.processes.posterior._drawing import NO_BOOTSTRAP, NO_PATHWISE
from skconvgp.processes.posterior._neighbor_labels import LocalLabels
from skconvgp.processes.posterior._neighbor_solver import Neighborhoods, NeighborSolver
from skconvgp.processes.posterior._posterior import Draws
from skconvgp.solvers import Cholesky

# Samples that are left out to choose noise and amplitude: the standard error of an
# accuracy of 97 % is then one percent, and that of an amplitude ten percent of it.
LEFT_OUT = 300
KNOWN = "known"  # noise variances, whose share of the amplitude is chosen
LOCAL_COPIES = 3  # of the Gram matrix of neighbours: it, it plus noise, its factor


@dataclass(frozen=True)
class NeighborProcess:
    """A process that predicts each sample from its nearest neighbours."""

    model: Model  # targets, noise, amplitude; its evidence is computed on demand
    basis: PlainBasis  # covariances with all training samples
    localization: Localization  # says which samples are near
    # (n,), index of the distinct input of each sample.
    inputs: NDArray[np.intp]
    # Indices of samples with their leave-one-out means (m, k) and variances (m,), if
    # `fit` computed some to choose noise or amplitude, or for a calibration.
    loo_subset: tuple[NDArray[np.intp], FloatArray, FloatArray] | None = field(
        default=None, repr=False
    )
    labels: LocalLabels | None = None  # None if all targets share one noise

    has_left_out: ClassVar[bool] = True  # factors solve exactly
    left_out: ClassVar[None] = None  # they follow from all neighbours
    folded_means: ClassVar[None] = None  # as in `Process`
    growth: ClassVar[None] = None
    has_one_latent: ClassVar[bool] = False

    def latent(
        self,
        new: NewRows,
        resources: Resources,
        *,
        needs_var: bool = False,
        needs_cov: bool = False,
    ) -> Latent:
        """Return the posterior at new samples."""
        if needs_cov:
            raise ValueError(
                f"{self.localization!r} gives each sample a separate posterior and "
                "no joint covariance: fit with completion=None for covariances and "
                "samples."
            )

        def latent_at(placement: Placement) -> Latent:
            solver = self._solver(resources.run(placement), "predict")
            around, labels = solver.of_new(new), self.labels
            if labels is None:
                posterior = solver.solve(around, self.model.noise)
            else:
                posterior = labels.solve(solver, around)
            # Means alone need no prior variances: those of a given matrix may be zeros.
            is_clipped = needs_var and posterior.clipped > CLIP_TOLERANCE
            facts = [Clipped(posterior.clipped)] if is_clipped else []
            mean = to_numpy(posterior.mean)
            var = np.empty((0, 1))
            if needs_var:  # of amplitude 1
                var = to_numpy(posterior.var).reshape(len(mean), -1) / self._unit
            return Latent(mean, var, np.empty(0), facts=facts)

        return compute_at(resources.placement(0), latent_at)

    def leave_out(
        self, resources: Resources, *, is_subset_enough: bool = False
    ) -> LeftOutValues:
        """Return predictions of the scaled targets without their samples."""
        n, kept, has_noise = len(self.model.targets), self.loo_subset, not self.labels
        if kept is not None and (is_subset_enough or len(kept[0]) == n):
            return LeftOutValues(*kept, has_noise=has_noise)

        indices = int_range(n)
        if is_subset_enough:
            indices = left_out_indices(n, Generator().manual_seed(0))

        def left_out_at(placement: Placement) -> LeaveOneOut:
            solver = self._solver(resources.run(placement))
            if self.labels is not None:
                return LeaveOneOut(*self.labels.left_out(solver, indices)[1:])
            noise = self.model.noise
            posterior = solver.solve(solver.without_equal_inputs(indices), noise)
            return solver.left_out(posterior.mean, posterior.var, indices, noise)

        loo = compute_at(resources.placement(0), left_out_at)
        values = to_numpy(loo.mean), to_numpy(loo.var)
        return LeftOutValues(to_numpy(indices), *values, has_noise=has_noise)

    def of_mean_variance(self) -> Self:
        """Return the process: there is one variance for all functions."""
        return self

    @property
    def reads_prior_variances(self) -> bool:
        """Return False: predictions do not tell them."""
        return False

    def has_whole_draws(self) -> bool:
        """Return False: there are no functions to draw."""
        return False

    def draws(
        self,
        rows: NDArray[Any],  # noqa: ARG002  (there are none)
        wanted: Draws,
        resources: Resources,  # noqa: ARG002  (there are none)
    ) -> tuple[FloatArray, list[Fact]]:
        """Raise a ValueError, as each sample has a separate posterior."""
        raise ValueError(NO_BOOTSTRAP if wanted.is_bootstrap else NO_PATHWISE)

    def log_evidence(self, resources: Resources) -> float:
        """Return the log density of the targets, each given its earlier neighbours."""
        model = self.model

        def evidence_at(placement: Placement) -> float:
            solver = self._solver(resources.run(placement))
            if self.labels is not None:
                unit = torch.ones(1, dtype=torch.float64, device=placement.device)
                columns = self.labels.columns(solver)
                return float(sum(_evidence(one, 1.0, unit).sum() for one in columns))
            amplitude = to_tensor(model.amplitude, placement.device)
            return float(_evidence(solver, model.noise, amplitude).sum())

        return model.unscaled(compute_at(resources.placement(0), evidence_at))

    @property
    def _unit(self) -> float:
        """Mean prior variance of what is solved for: 1, or the amplitude of labels."""
        return 1.0 if self.labels is None else float(self.model.amplitude[0])

    def _solver(self, run: Run, label: str = "fit") -> NeighborSolver:
        model = self.model
        return NeighborSolver(
            self.basis,
            self.localization,
            model.targets,
            model.weights,
            model.mean_diag / self._unit,
            EqualInputs(rows_to_tensor(self.inputs)),
            run,
            label,
            model.noise_shares,
        )


@dataclass(frozen=True)
class _Chosen:
    """Noise and amplitude, given or chosen on samples that were left out."""

    noise: float
    amplitude: Tensor  # (c,), amplitude of each output
    n_pairs: int = 0  # covariances that were evaluated
    jitter: float = 0.0  # largest jitter of a matrix
    # As in `NeighborProcess`.
    loo_subset: tuple[NDArray[np.intp], FloatArray, FloatArray] | None = None


def neighbor_stages(n: int, k: int) -> tuple[Stage, ...]:
    """Return the stages of a fit to n samples with k neighbours."""
    m = min(n, LEFT_OUT)
    return (Stage(COVARIANCES, n + m * (n + k * k)),)


def fit_neighbors(
    localization: Localization,
    problem: Problem,
    basis: PlainBasis,
    settings: Settings,
    run: Run,
    generator: Callable[[], Generator],
) -> tuple[NeighborProcess, Record]:
    """Keep the samples; choose noise and amplitude on samples that are left out."""
    device = run.config.device
    start = clock(device)
    mean_diag = problem.mean_variance(basis.oracle(run, "fit").diag())
    solver = NeighborSolver(
        basis,
        localization,
        problem.targets,
        problem.weights,
        mean_diag,
        problem.inputs,
        run,
        shares=problem.noise_shares,
    )
    y = solver.observations()[0]
    amplitude = fixed_amplitude(settings.amplitude, mean_diag, y)
    noise, known = settings.noise, None
    if problem.noise_variances is not None:
        known = problem.mean_noise
        noise = KNOWN if amplitude is None else known / float(amplitude[0])
    w = solver.precisions()
    require_finite_noise((1.0 if isinstance(noise, str) else noise) / w)
    if isinstance(noise, str) or amplitude is None or problem.codes is not None:
        chosen = _choose(solver, noise, amplitude, basis, generator(), known)
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
    facts = jitter_facts(chosen.jitter, least_noise, basis, run)
    record = Record(n_pairs, clock(device) - start, 0.0, report, facts)
    inputs = to_numpy(problem.inputs.of)
    process = NeighborProcess(model, basis, localization, inputs, chosen.loo_subset)
    return process, record


def left_out_neighborhoods(
    localization: Localization,
    problem: Problem,
    basis: PlainBasis,
    run: Run,
    generator: Generator,
) -> tuple[Tensor, Neighborhoods, Tensor]:
    """Return samples (m,) to leave out, their neighbours, and which have equal inputs.

    The last (m, k) is True for neighbours whose input is the sample's own.
    """
    solver = NeighborSolver(
        basis,
        localization,
        problem.targets,
        problem.weights,
        1.0,
        problem.inputs,
        run,
    )
    indices = left_out_indices(len(problem.targets), generator)
    around, of = solver.of_training(indices), problem.inputs.of
    equal = of[around.neighbors.to(of.device)] == of[indices.to(of.device)][:, None]
    return indices, around, equal


def left_out_indices(n: int, generator: Generator) -> Tensor:
    """Return the indices of at most 300 of n samples, in order."""
    return permutation(n, generator)[:LEFT_OUT].sort().values


def _choose(
    solver: NeighborSolver,
    noise: float | str,
    amplitude: Tensor | None,
    basis: PlainBasis,
    generator: Generator,
    known: float | None,
) -> _Chosen:
    """Return noise and amplitude, and predictions of samples that were left out.

    A known mean noise variance gives each relative noise that is tried an amplitude.
    """
    y, w = solver.observations()
    indices = left_out_indices(len(y), generator)
    around = solver.without_equal_inputs(indices)
    m, k = around.neighbors.shape
    jitter = 0.0
    if isinstance(noise, str):
        noises = y.new_tensor(noise_grid(basis.precision(solver.run.config)))
        mean, var = solver.solve_for_noises(around, noises)
    else:
        noises = y.new_tensor([noise])
        posterior = solver.solve(around, noise)
        mean, var = posterior.mean[:, None], posterior.var[:, None]
        jitter = posterior.jitter
    for_noises = [
        solver.left_out(mean[:, i], var[:, i], indices, float(one))
        for i, one in enumerate(noises)
    ]
    mean = torch.stack([loo.mean for loo in for_noises], 1)
    var = torch.stack([loo.var for loo in for_noises], 1)
    on_device = indices.to(y.device)
    left_out = LeftOut(y[on_device], w[on_device], mean, var, informative(y))
    if amplitude is None and known is not None:
        amplitudes = (known / noises)[:, None].expand(-1, y.shape[1])
    elif amplitude is None:
        amplitudes = left_out.amplitude()
    else:
        amplitudes = amplitude.to(mean).expand(len(noises), -1)
    best = int(left_out.log_density(amplitudes).argmax())
    loo = left_out.of_noise(best)
    subset = to_numpy(indices), to_numpy(loo.mean), to_numpy(loo.var)
    n_pairs = m * (k * (k + 1) // 2)
    return _Chosen(float(noises[best]), amplitudes[best], n_pairs, jitter, subset)


def _evidence(solver: NeighborSolver, noise: float, amplitude: Tensor) -> Tensor:
    """Return the log evidence (c,) of samples, each given its earlier neighbours.

    The first samples have too few before them: their evidence is exact, without the
    weights of a localization.
    """
    y, w = solver.observations()
    precisions = solver.precisions()
    first = int_range(solver.n_searched)
    oracle = solver.basis.oracle(solver.run, "fit")
    gram = oracle.block(first, first) / solver.mean_diag
    state = Cholesky().init(DenseGram(gram), noise / precisions[first])
    quadratic = Cholesky().half_solve(state, y[first]).square().sum(0)
    logdet = Cholesky().logdet(state)
    later = torch.arange(len(first), len(y), dtype=torch.int64, device="cpu")
    if len(later):
        around = solver.of_training(later, only_earlier=True)
        posterior = solver.solve(around, noise)
        var = posterior.var + noise / precisions[later]
        errors = (y[later] - posterior.mean).square()
        quadratic += (errors / var[:, None]).sum(0)
        logdet += var.log().sum()
    unit = noise * (w / precisions)
    return log_marginal_likelihood(quadratic, logdet, amplitude, unit, w)
