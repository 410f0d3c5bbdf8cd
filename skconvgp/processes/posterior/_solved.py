"""Solved: the posterior by linear solves with the whole Gram matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._protocols import IterativeSolver, RefiningSolver, Solver
from skconvgp._tensors import int_range, normals, permutation
from skconvgp._typing import FloatArray
from skconvgp.engine import (
    KernelGram,
    Placement,
    compute_at,
    frozen_bytes,
    rows_to_tensor,
    thaw,
    to_numpy,
    to_tensor,
)
from skconvgp.inference import (
    CovarianceUpdate,
    EqualInputs,
    LeaveOneOut,
    join_updates,
    pathwise_coefficients,
    posterior_mean,
)
from skconvgp.kernels._feature_maps import feature_map
from skconvgp.processes._facts import Fact, Inexact
from skconvgp.processes._model import Model
from skconvgp.processes._process import (
    LeftOutValues,
    Process,
    RepeatedTargets,
    run_beside,
)
from skconvgp.processes._run import Resources, Run
from skconvgp.processes.basis._basis import Basis, NewRows
from skconvgp.processes.basis._feature_room import require_features
from skconvgp.processes.posterior._drawing import (
    NO_BOOTSTRAP,
    NO_PATHWISE,
    prior_values,
)
from skconvgp.processes.posterior._left_out import (
    inverse_diag_by_input,
    left_out_in_blocks,
    left_out_of,
)
from skconvgp.processes.posterior._one_more import (
    AsksSolved,
    Question,
    Scored,
    ask_solved,
    scored_inputs,
    why_not_solved,
    with_noise,
)
from skconvgp.processes.posterior._pool import Choice, choose_solved, why_no_matrix
from skconvgp.processes.posterior._posterior import Draws, Spread

# Largest relative residual at which leave-one-out predictions are used, and largest
# relative error of <y, M^-1 y> at which the evidence is computed.
SOLVED = 1e-2
# Samples to calibrate probabilities on if each leave-one-out value costs a solve:
# the standard error of an accuracy of 97 % is then below a percent.
LEFT_OUT = 500
# And to scale deviations by: their factor is then known to a tenth. A fit without its
# matrix has room for few columns at once.
FEW_LEFT_OUT, AT_ONCE = 64, 16
MOST_BLOCKS = 4  # if a solver leaves out more at once, as its solves take less


@dataclass(frozen=True)
class Solved:
    """The posterior by linear solves with the whole Gram matrix, M = K + noise."""

    dual: FloatArray  # (n, k)
    state: Any  # that the solver keeps
    solver: Solver[Any]
    unit: float  # mean prior variance, by which the matrix was divided
    is_converged: bool = True  # the tolerance was met, or there is a factor
    residual: float = math.nan  # of the solution; NaN for a direct solver

    width: ClassVar[int] = 0
    n_covariances: ClassVar[int] = 1
    draws_coefficients: ClassVar[bool] = False

    @property
    def is_accurate(self) -> bool:
        """Whether leave-one-out values are exact enough to be used."""
        return self.is_converged or self.residual <= SOLVED

    def at(self, basis: Basis, run: Run) -> Self:
        """Return it with the state on a device; with an operator for no matrix."""
        state = thaw(self.state, run.config.device)
        if getattr(state, "gram", state) is not None:
            return replace(self, state=state)
        by: Any = basis  # a kernel: it was solved without its matrix
        oracle = by.oracle(run, "predict")
        return replace(self, state=replace(state, gram=KernelGram(oracle, self.unit)))

    def reads_variances(
        self,
        basis: Basis,  # noqa: ARG002  (whatever it is)
        *,
        needs_var: bool,
    ) -> bool:
        """Return whether prior variances are read; a joint covariance has its own."""
        return needs_var

    def spread(self, values: Tensor, prior: Tensor) -> Spread:
        """Return one variance for all outputs."""
        var, clipped = self._update(values).variance(prior)
        return Spread(var[:, None], clipped=clipped)

    def part(
        self,
        values: Tensor,
        prior: Tensor,  # noqa: ARG002  (joint covariances are not clipped)
    ) -> tuple[CovarianceUpdate, None]:
        """Return the update of the prior covariances by the data."""
        return self._update(values), None

    def joint(self, parts: list[CovarianceUpdate], prior: Tensor) -> Tensor:
        """Return one covariance for all outputs."""
        return join_updates(parts).covariance(prior)[:, :, None]

    def facts(self) -> list[Fact]:
        """Return that the solution is inexact, if it is."""
        return [] if self.is_converged else [Inexact(self.solver)]

    def has_whole_draws(self, basis: Basis) -> bool:
        """Return whether the kernel is a sum of random features."""
        return basis.has_random_features

    def draws(
        self,
        model: Model,
        basis: Basis,
        rows: NDArray[Any],
        wanted: Draws,
        resources: Resources,
    ) -> tuple[FloatArray, list[Fact]]:
        """Return draws: each one of the prior, plus the effect of the data."""
        if wanted.is_bootstrap:
            raise ValueError(NO_BOOTSTRAP)
        if not basis.is_kernel:
            raise ValueError(NO_PATHWISE)
        return self._draws(model, basis, rows, wanted, resources), self.facts()

    def _update(self, values: Tensor) -> CovarianceUpdate:
        scaled = values.mT / self.unit
        return CovarianceUpdate(self.solver.half_solve(self.state, scaled))

    def _draws(
        self,
        model: Model,
        basis: Any,
        rows: NDArray[Any],
        wanted: Draws,
        resources: Resources,
    ) -> FloatArray:
        n_draws, generator = wanted.count, wanted.generator
        require_features(basis.kernel, basis.map_shape, wanted.n_features)
        features = feature_map(
            basis.kernel, basis.map_shape, wanted.n_features, generator
        )
        k = self.dual.shape[1]
        weights = normals((features.n_features, k * n_draws), generator)
        weights /= math.sqrt(self.unit)
        needed, begin = frozen_bytes(self.state), generator.get_state()

        def draws_at(placement: Placement) -> FloatArray:
            generator.set_state(begin)  # for the same draws if a GPU has no room
            run = run_beside(resources, placement, needed)
            state = self.at(basis, run).state

            def solve(columns: Tensor) -> Tensor:
                return self.solver.solve(state, columns).value

            noise = run.tensor(model.row_noise)
            at_training = prior_values(features, basis.images(), weights, run)
            solved = pathwise_coefficients(
                solve, at_training.to(noise), noise, generator
            )
            dual = torch.cat([run.tensor(self.dual), -solved / self.unit], 1)
            stream = basis.stream(NewRows(rows), run, needs_diag=False)
            both = to_numpy(torch.cat([posterior_mean(one, dual) for one, _ in stream]))
            drawn = to_numpy(prior_values(features, basis.images(rows), weights, run))
            changes = (both[:, k:] + drawn).reshape(len(rows), k, n_draws)
            draws: FloatArray = changes * np.sqrt(model.function_variances)[:, None]
            draws += both[:, :k, None]
            return draws

        return compute_at(resources.placement(needed), draws_at)


@dataclass(frozen=True)
class SolvedLeftOut(AsksSolved):
    """Left-out predictions by solves with the Gram matrix, or kept ones."""

    inputs: NDArray[np.intp]  # (n,), the same index for equal inputs
    groups: NDArray[np.intp] | None  # as in `EqualInputs`
    kept: tuple[FloatArray, FloatArray] | None = None  # means (n, k), variances (n,)
    has_labels: bool = False  # whether probabilities are calibrated on them

    @property
    def known_means(self) -> FloatArray | None:
        """Means (n, k) that are kept; None if none are."""
        return None if self.kept is None else self.kept[0]

    def values(
        self, process: Process, resources: Resources, *, is_subset_enough: bool
    ) -> LeftOutValues:
        """Return the predictions; a random subset if each value costs a solve."""
        found = self._values(process, resources, is_subset_enough=is_subset_enough)
        return replace(found, repeated=self._repeated(process.model))

    def _repeated(self, model: Model) -> RepeatedTargets | None:
        """Return the scatter of targets of inputs with more than one unit of weight.

        Targets of a group may agree more than those of new samples: it is not known.
        Nor is it used if the noise is known.
        """
        if self.groups is not None or model.noise_shares is not None:
            return None
        inputs = EqualInputs.numbered(rows_to_tensor(self.inputs[: model.n_samples]))
        targets, weights = model.sample_targets, model.sample_weights
        merged = inputs.merge(rows_to_tensor(targets), rows_to_tensor(weights))
        units = to_numpy(merged.weights) - 1.0
        return RepeatedTargets(
            to_numpy(merged.scatter)[units > 0.0], units[units > 0.0]
        )

    def _values(
        self, process: Process, resources: Resources, *, is_subset_enough: bool
    ) -> LeftOutValues:
        """Return the predictions without the scatter of targets of equal inputs."""
        n, posterior = process.model.n_samples, _solved(process)
        n_enough = LEFT_OUT if self.has_labels else FEW_LEFT_OUT
        at_once = n_enough if self.has_labels else AT_ONCE
        n_enough = getattr(posterior.solver, "n_left_out", n_enough)
        is_dear = n > n_enough and isinstance(posterior.solver, RefiningSolver)
        if is_subset_enough and is_dear:
            # Deviations of a regressor are no matter of chance.
            fixed = torch.Generator().manual_seed(0)
            generator = resources.generator() if self.has_labels else fixed
            indices = permutation(n, generator)[:n_enough].sort().values
            found = [
                self._compute(process, block, resources, is_whole=False)
                for block in torch.split(indices, max(at_once, n_enough // MOST_BLOCKS))
            ]
            mean, var = (
                torch.cat([getattr(one, name) for one in found])
                for name in ("mean", "var")
            )
            values = to_numpy(mean), to_numpy(var)
            return LeftOutValues(to_numpy(indices), *values, True, posterior.facts())
        if self.kept is not None:
            return LeftOutValues(np.arange(n), *self.kept, has_noise=True)
        loo = self._compute(process, int_range(n), resources, is_whole=True)
        values = to_numpy(loo.mean), to_numpy(loo.var)
        return LeftOutValues(np.arange(n), *values, True, posterior.facts())

    def _compute(
        self, process: Process, indices: Tensor, resources: Resources, *, is_whole: bool
    ) -> LeaveOneOut:
        """Return predictions without samples (m,), with variances as for new samples.

        Where a solver bounds variances of new samples from above, it bounds those of
        left-out samples in the same way, so that a calibration fits both. Of all
        samples the diagonal is computed as a whole.
        """

        def left_out_at(placement: Placement) -> LeaveOneOut:
            run = resources.run(placement)
            posterior = _solved(process).at(process.basis, run)
            solver, state = posterior.solver, posterior.state
            on_device = indices.to(placement.device)
            inputs = self._equal_inputs(process, placement.device)
            if inputs.has_blocks:
                dtype = run.config.solve_dtype
                return self.in_blocks(process, state, on_device, dtype)
            one_by_one = None if is_whole else on_device
            inverse_diag = inverse_diag_by_input(solver, state, inputs, one_by_one)
            loo = self.closed_form(process, inverse_diag, indices)
            bounds = None
            if isinstance(solver, IterativeSolver):
                bounds = solver.left_out_variances(state, on_device)
            if bounds is None:
                return loo
            bounded = self.closed_form(process, 1.0 / bounds, indices)
            is_repeated = inputs.counts()[on_device] > 1
            return LeaveOneOut(loo.mean, torch.where(is_repeated, loo.var, bounded.var))

        placement = resources.placement(frozen_bytes(process.state))
        return compute_at(placement, left_out_at)

    def closed_form(
        self, process: Process, inverse_diag: Tensor, indices: Tensor
    ) -> LeaveOneOut:
        """Return predictions of samples (m,) from those with other inputs.

        `inverse_diag` (m,) is that of `inverse_diag_by_input`.
        """
        model, dual = process.model, process.dual
        inputs = self._equal_inputs(process, inverse_diag.device)
        loo = left_out_of(model, dual, inputs, inverse_diag, indices)
        return self._as_new(process, loo, indices)

    def in_blocks(
        self, process: Process, state: Any, indices: Tensor, dtype: torch.dtype
    ) -> LeaveOneOut:
        """Return predictions of images (m,), all versions or the group left out.

        The state of the solver and the indices are on one device.
        """
        inputs = self._equal_inputs(process, indices.device)
        model, dual, solver = process.model, process.dual, _solved(process).solver
        loo = left_out_in_blocks(model, dual, inputs, solver, state, indices, dtype)
        return self._as_new(process, loo, indices)

    def keep(
        self, process: Process, state: Any, inverse_diag: Tensor | None, targets: Tensor
    ) -> Self:
        """Return it with the predictions, while the factor is on a device.

        `inverse_diag` (n,) is not needed of images with versions or groups; `targets`
        have the device and the precision of solves.
        """
        every = int_range(process.model.n_samples, targets.device)
        if inverse_diag is None:
            loo = self.in_blocks(process, state, every, targets.dtype)
        else:
            loo = self.closed_form(process, inverse_diag, every)
        return replace(self, kept=(to_numpy(loo.mean), to_numpy(loo.var)))

    def scored(self, process: Process) -> Scored:
        """Return the samples that a new one is compared with."""
        return scored_inputs(self._equal_inputs(process, torch.device("cpu")))

    def ask(
        self,
        process: Process,
        new: NewRows,
        resources: Resources,
        question: Question,
    ) -> list[FloatArray]:
        """Return what a question says of each new sample, added by itself."""
        inputs = self._equal_inputs(process, torch.device("cpu"))
        kept_var = None if self.kept is None else self.kept[1]
        return ask_solved(process, inputs, kept_var, new, resources, question)

    def why_no_pool(self, process: Process) -> str:
        """Return why samples without labels have no covariances; empty if they do."""
        return why_not_solved(process) or why_no_matrix(process)

    def choose(
        self,
        process: Process,
        rows: NDArray[Any],
        resources: Resources,
        choice: Choice,
    ) -> NDArray[np.intp]:
        """Return which of rows (r, d) are chosen."""
        return choose_solved(process, rows, resources, choice)

    def with_noise(
        self, process: Process, noise: float, resources: Resources
    ) -> Process:
        """Return the process with another noise variance."""
        found = with_noise(process, noise, resources)
        return replace(found, left_out=replace(self, kept=None))

    def _as_new(
        self, process: Process, loo: LeaveOneOut, indices: Tensor
    ) -> LeaveOneOut:
        """Add the variance that the matrix lacks, and that new samples have."""
        residual_diag = process.basis.left_out_diag
        if residual_diag is None:
            return loo
        of_samples, var = residual_diag[to_numpy(indices)], loo.var
        added = to_tensor(of_samples, var.device, var.dtype)
        return LeaveOneOut(loo.mean, var + added / process.model.mean_diag)

    def _equal_inputs(self, process: Process, device: torch.device) -> EqualInputs:
        of, n_versions = rows_to_tensor(self.inputs), process.model.n_versions
        groups = None if self.groups is None else rows_to_tensor(self.groups)
        return EqualInputs(of, n_versions, groups=groups).to(device)


def _solved(process: Process) -> Solved:
    assert isinstance(process.posterior, Solved)
    return process.posterior
