"""Planner: which process is fitted, and by which solver.

Planning raises an error before any work, if settings do not go together or memory is
missing.
"""

from __future__ import annotations

import copy
from dataclasses import astuple, dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from torch import Generator

from skconvgp._protocols import Completion, Expansion, Localization, Solver
from skconvgp.completion import CoarseKernel, SubsetOfData
from skconvgp.engine import Size
from skconvgp.exceptions import TileMemoryError
from skconvgp.processes._plan import (
    COMPLETION,
    FEATURES,
    NEIGHBORS,
    SUBSET,
    Fit,
    Fitted,
    Parts,
    Plan,
    Route,
    missing_memory,
    require_tries,
    route_of,
)
from skconvgp.processes._problem import Problem, Record, Settings
from skconvgp.processes._process import Process
from skconvgp.processes._run import (
    COVARIANCES,
    SMALLER_MATRIX,
    Resources,
    Run,
    Stage,
)
from skconvgp.processes.basis._coarse import coarsened
from skconvgp.processes.basis._completed import completion_stages, n_evaluated
from skconvgp.processes.basis._expansion import expand
from skconvgp.processes.basis._plain import PlainBasis
from skconvgp.processes.fits._coded_choice import (
    columns_pay,
    follow_labels,
    values_of_classes,
)
from skconvgp.processes.fits._exact import exact_stages, fit_exact
from skconvgp.processes.fits._fits import (
    MatrixFit,
    fit_completed,
    fit_expanded,
    fit_local,
    fit_selected,
    fit_sum,
)
from skconvgp.processes.fits._held_rows import FEATURE_COPIES, FEWER_FEATURES
from skconvgp.processes.fits._label_models import LabelModel
from skconvgp.processes.fits._labels import fit_labelled, label_size, label_stages
from skconvgp.processes.fits._local_labels import fit_local_labels
from skconvgp.processes.fits._requirements import (
    require_added_noise,
    require_local,
)
from skconvgp.processes.fits._sums import feature_stages, fit_features
from skconvgp.processes.posterior._neighbors import LOCAL_COPIES, neighbor_stages


@dataclass(frozen=True)
class Planner:
    """Plans the fit of a process from its parts.

    Parameters
    ----------
    basis : KernelBasis or MatrixBasis
        Covariances of the samples.
    parts : Parts
        Solver, completion, likelihood.
    resources : Resources
        Devices and memory that may be used.
    """

    basis: PlainBasis
    parts: Parts
    resources: Resources

    def plan(self, problem: Problem, settings: Settings) -> Plan:
        """Return the plan of a fit; raise if the parts do not go together."""
        models, parts = self.parts.models_of(problem), self.parts
        if models:
            self._require_labels(models[0].likelihood, settings)
        match copy.deepcopy(parts.completion):
            case None:
                return self._plan_whole(models, problem, settings)
            case SubsetOfData() as selection:
                return self._plan_selected(selection, models, problem, settings)
            case Completion() as completion:
                return self._plan_completed(completion, models, problem, settings)
            case Expansion() as expansion:
                return self._plan_expanded(expansion, models, problem, settings)
            case Localization() as localization:
                return self._plan_local(localization, models, settings)
            case CoarseKernel() as coarsening:
                return self._plan_coarse(coarsening, models, problem, settings)

    def _plan(
        self,
        size: Size,
        fit_at: Fit,
        solver: Solver[Any] | None = None,
        basis: PlainBasis | None = None,
        remedy: str = SMALLER_MATRIX,
        **known: Any,
    ) -> Plan:
        """Return a plan, by default for the samples and the solver of the user."""
        basis, solver = basis or self.basis, solver or self.parts.solver
        return Plan(basis.n_samples, size, fit_at, basis, solver, remedy, **known)

    def _routed(
        self,
        route: Route,
        fit_at: Fit,
        stages: tuple[Stage, ...],
        basis: PlainBasis | None,
        way: str,
    ) -> Plan:
        """Return a plan of a fit by a Gram matrix."""
        more: dict[str, Any] = {"way": way, "stages": stages, "known": route.known}
        return self._plan(route.size, fit_at, route.solver, basis, **more)

    def _plan_whole(
        self,
        models: list[LabelModel],
        problem: Problem,
        settings: Settings,
        basis: PlainBasis | None = None,
    ) -> Plan:
        """Return the plan for the whole Gram matrix, by default of the samples."""
        n, n_versions = self.basis.n_samples, problem.n_versions
        route, fit, stages = self._dense(models, settings, n, n_versions)
        return self._routed(route, partial(_fit_all, fit), stages, basis, route.way)

    def affords_choice(self, problem: Problem, most: int) -> bool:
        """Return whether choosing the noise costs at most as much as the fit itself.

        Parameters
        ----------
        problem : Problem
            The problem that will be fitted.
        most : int
            Largest number of distinct inputs for which an eigendecomposition is
            affordable.
        """
        n, count = len(problem.rows), problem.inputs.n_inputs
        match self.parts.completion:
            case None:
                pass  # the matrix of all samples
            case SubsetOfData() as selection:
                count = selection.count(count, self.parts.fraction)
                n = problem.inputs.most_samples(count)
            case Completion() | Expansion() | Localization():
                return True
        if count > most or not self.parts.is_direct:
            return False
        size = self.route(n, is_selecting=True, n_versions=problem.n_versions).size
        return not missing_memory(size, self.resources)

    def route(
        self, n: int, *, is_selecting: bool, n_versions: int = 1, noise: float = 0.0
    ) -> Route:
        """Return the route of an exact process of n rows, with a noise or none yet."""
        return route_of(
            n,
            self.parts.solver,
            self.resources,
            is_auto=self.parts.is_auto,
            is_selecting=is_selecting,
            has_kernel=self.basis.knows_variances,
            n_versions=n_versions,
            noise=noise,
        )

    def _dense(
        self, models: list[LabelModel], settings: Settings, n: int, n_versions: int = 1
    ) -> tuple[Route, MatrixFit, tuple[Stage, ...]]:
        """Return the route of n rows, the function that fits them, and its stages."""
        if models:
            size = label_size(models, n, 0)
            route = Route(self.parts.solver, size, is_held=True, reason="")
            return route, self._label_fit(settings), label_stages(models, n)
        is_selecting = isinstance(settings.noise, str)
        is_open = is_selecting or settings.is_known
        noise = 0.0 if is_open else settings.added_noise
        options: Any = {"is_selecting": is_selecting, "n_versions": n_versions}
        route = self.route(n, noise=noise, **options)
        if settings.is_known:
            require_tries(settings, route)
        keeps = self.parts.keeps_left_out
        fit = partial(fit_exact, settings=settings, route=route, keeps_left_out=keeps)
        stages = exact_stages(n, settings, route, keeps=keeps)
        return route, fit, stages

    def _label_fit(self, settings: Settings) -> partial[tuple[Process, Record]]:
        return partial(fit_labelled, models_of=self.parts.models_of, settings=settings)

    def _plan_selected(
        self,
        selection: SubsetOfData,
        models: list[LabelModel],
        problem: Problem,
        settings: Settings,
    ) -> Plan:
        m = selection.count(problem.inputs.n_inputs, self.parts.fraction)
        n = problem.inputs.most_samples(m)
        route, fit, stages = self._dense(models, settings, n)
        fit_at = partial(
            fit_selected, selection, m, fit, self.parts.fraction, self.resources
        )
        return self._routed(route, fit_at, stages, None, SUBSET)

    def _by_features(
        self,
        models: list[LabelModel],
        problem: Problem,
        settings: Settings,
        variance: str,
        held: int,
        n_features: int,
        generator: Generator | None = None,
    ) -> tuple[Size, MatrixFit]:
        """Return the size of a fit by features, and the function that fits.

        Parameters
        ----------
        models : list of LabelModel
            Models of the labels; none if all targets share one noise variance.
        problem : Problem
            The samples.
        settings : Settings
            Noise and amplitude.
        variance : {"dtc", "sor"}
            How the variance that the features do not explain is treated.
        held : int
            Numbers that are held beside those of labels.
        n_features : int
            Number of features, at most.
        generator : torch.Generator, optional
            Draws the samples that are kept, so that others can be added.
        """
        options: dict[str, Any] = {"settings": settings, "variance": variance}
        options["reservoir_generator"] = generator
        if not models:
            return Size(held, 0, held), partial(fit_features, **options)
        n = self.basis.n_samples
        has_few = columns_pay(len(problem.scale), n_features, n)
        if not (has_few and follow_labels(models, problem)):
            return label_size(models, n, held), self._label_fit(settings)
        held += values_of_classes(models, problem, n_features)
        fit = partial(fit_features, models_of=self.parts.models_of, **options)
        return Size(held, 0, held), fit

    def _plan_completed(
        self,
        completion: Completion,
        models: list[LabelModel],
        problem: Problem,
        settings: Settings,
    ) -> Plan:
        self._require_direct(completion)
        n = self.basis.n_samples
        held = completion.n_values(n, self.parts.fraction)
        n_features = min(n, held // (FEATURE_COPIES * n))
        options = settings, "dtc", held, n_features
        size, fit = self._by_features(models, problem, *options)
        fit_at = partial(
            fit_completed, completion, fit, self.parts.fraction, self.resources
        )
        stages = completion_stages(
            problem.inputs.n_inputs, completion, self.parts.fraction
        )
        return self._plan(
            size, fit_at, remedy=FEWER_FEATURES, way=COMPLETION, stages=stages
        )

    def _plan_expanded(
        self,
        expansion: Expansion,
        models: list[LabelModel],
        problem: Problem,
        settings: Settings,
    ) -> Plan:
        """Return the plan of a fit by features; draws them, which may raise."""
        samples = self.basis.kernel_basis
        if samples is None:
            raise ValueError(
                f"{expansion!r} computes features of the samples, and "
                "kernel='precomputed' has none: use a kernel object."
            )
        self._require_direct(expansion)
        generator = self.resources.generator
        basis = expand(expansion, samples, generator(), FEATURE_COPIES)
        n, r = self.basis.n_samples, basis.n_samples
        held = FEATURE_COPIES * (n + r) * r + isinstance(settings.noise, str) * n * r
        # Features do not cover a variance that could be missing.
        options = settings, "sor", held, r, generator()
        size, fit = self._by_features(models, problem, *options)
        fit_at = partial(fit_expanded, basis, fit)
        stages = feature_stages(n, r, settings, basis)
        return self._plan(
            size, fit_at, remedy=FEWER_FEATURES, way=FEATURES, stages=stages
        )

    def _plan_local(
        self, localization: Localization, models: list[LabelModel], settings: Settings
    ) -> Plan:
        require_local(localization, self.parts, settings, self.basis, models)
        n = self.basis.n_samples
        k = localization.count(n)
        held = LOCAL_COPIES * k**2
        fit: partial[Fitted] = partial(fit_local, localization)
        if models:
            fit = partial(fit_local_labels, localization, self.parts.models_of)
        fit_at = partial(fit, settings, self.resources)
        stages = neighbor_stages(n, k)
        return self._plan(Size(held, held, 0), fit_at, way=NEIGHBORS, stages=stages)

    def _plan_coarse(
        self,
        coarsening: CoarseKernel,
        models: list[LabelModel],
        problem: Problem,
        settings: Settings,
    ) -> Plan:
        """Return the plan for a cheaper kernel, or for its sum with a completed one."""
        coarse, added = coarsened(coarsening, self.basis), coarsening.exact
        if added is None:
            return self._plan_whole(models, problem, settings, coarse)
        n = self.basis.n_samples
        route, fit, stages = self._dense(models, settings, n, problem.n_versions)
        if not route.is_held or route.is_single:
            asked = f"solver={self.parts.solver_setting!r}"
            raise TileMemoryError(
                f"{coarsening!r} adds a completed matrix to the Gram matrix, which has "
                f"to be held: {route.reason or asked}. Use exact=None, fewer samples, "
                "or a larger `memory_budget`."
            )
        count = added.n_values(n, self.parts.fraction)
        size = Size(*(held + count for held in astuple(route.size)))
        exact = self.basis.kernel_basis
        fit_at = partial(
            fit_sum, coarsening, exact, fit, self.parts.fraction, self.resources
        )
        count = n_evaluated(problem.inputs.n_inputs, added, self.parts.fraction)
        stages = Stage(COVARIANCES, count, of=exact), *stages
        route = replace(route, size=size)
        return self._routed(route, fit_at, stages, coarse, COMPLETION)

    def _require_direct(self, strategy: Completion | Expansion) -> None:
        """Raise if a solver is asked for that does not solve through features."""
        if not self.parts.is_direct:
            raise ValueError(
                f"{strategy!r} gives a product of features, which is solved through "
                f"them: use solver='auto', got {self.parts.solver_setting!r}."
            )

    def _require_labels(self, likelihood: Any, settings: Settings) -> None:
        """Raise for settings that need a noise variance common to all targets."""
        name = repr(likelihood)
        if not self.parts.is_direct:
            raise ValueError(
                f"{name} is fitted by Cholesky factors: use solver='auto', got "
                f"{self.parts.solver_setting!r}."
            )
        require_added_noise(name, settings.noise)


def _fit_all(fit: MatrixFit, problem: Problem, basis: PlainBasis, run: Run) -> Fitted:
    """Fit to all samples."""
    return Fitted(*fit(problem, basis, run), np.arange(problem.n_samples))
