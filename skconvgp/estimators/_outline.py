"""From an estimator that is not fitted to what its fit will take."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from skconvgp._settings import is_int
from skconvgp.completion import Nystrom
from skconvgp.engine import free_memory
from skconvgp.estimators._fit_plan import KNOWN, FitPlan, OtherPlan, PlannedStage
from skconvgp.estimators._fitting import FitData, PlannedFit
from skconvgp.estimators._made_up import (
    as_shape,
    few_of_shape,
    grown,
    targets_for,
)
from skconvgp.estimators._prior_mean import beside_plan
from skconvgp.estimators._warn import without_warnings
from skconvgp.estimators.compute._rates import seconds_of, spread
from skconvgp.exceptions import TileMemoryError
from skconvgp.processes import (
    EXACT,
    ITERATIVE,
    PAIRS,
    LabelModel,
    Problem,
    Run,
    Stage,
    in_precision,
)

HOST = torch.device("cpu")
FEWEST = 100  # samples of a fit for which other settings are tried
CG_NOISE = 1e-2  # of a fit by conjugate gradients that is tried
TRIED = 1024  # samples whose pairs or features tell the speed of all
READING = "reading"  # a stage: checks, and which samples are equal


@dataclass(frozen=True)
class Outline:
    """How an estimator reads data and plans a fit, without carrying it out."""

    name: str  # of its class
    params: dict[str, Any]
    keeps_rows: bool  # whether its fit keeps all training inputs
    is_label: bool  # whether it is a classifier
    read: Callable[..., FitData]  # reads samples and labels or targets
    planned: Callable[..., PlannedFit]  # plans a fit to what was read
    # Returns the models of labels that determine their noise.
    models_of: Callable[[Problem], Sequence[LabelModel]]

    def plan(self, X: Any, y: Any = None, n_outputs: int | None = None) -> FitPlan:
        """Return what a fit will take.

        X may be a shape. `n_outputs` is a number of classes or outputs if y is None.
        """
        if n_outputs is not None and not is_int(n_outputs, 1):
            raise ValueError(f"`n_outputs` must be an int >= 1, got {n_outputs!r}.")
        shape, start = as_shape(X), time.perf_counter()
        with without_warnings() if shape else nullcontext():
            if shape:
                X, y = few_of_shape(shape, y, n_outputs, is_label=self.is_label)
            if y is None:
                y = targets_for(X, n_outputs, is_label=self.is_label)
            data = self.read(X, y, None, is_outline=True)
            is_same = isinstance(X, np.ndarray)
            is_same = is_same and np.may_share_memory(data.problem.rows, X)
            n_copied = data.problem.rows.nbytes * (self.keeps_rows or not is_same)
            if shape:
                n_copied = n_copied // len(X) * shape[0]
                try:
                    data = grown(data, shape, self.models_of)
                except TileMemoryError as error:
                    return self._without_memory(shape[0], error)
            reading = PlannedStage(READING, time.perf_counter() - start, 0)
            found = replace(self._plan(data, reading), sample_bytes=n_copied)
            others = tuple(self._others(data, found))
        beside = beside_plan(self.params.get("mean"))
        return replace(found, others=others, beside=beside)

    def _plan(self, data: FitData, reading: PlannedStage) -> FitPlan:
        """Return the plan of a fit to data that were read."""
        n = data.problem.n_samples
        try:
            planned = self.planned(data, is_outline=True)
            run, missing = _run(planned)
        except TileMemoryError as error:
            return self._without_memory(n, error)
        basis = _precise(planned.plan.basis, planned, run)
        stages = (*planned.before, *planned.plan.stages)
        of_stages = _joined(_planned_stages(stages, planned, run))
        known = planned.plan.known | planned.report
        known |= {"noise_reason": planned.noise_reason}
        report = None if basis is None else basis.report(run)
        return FitPlan(
            self.name,
            planned.plan.way,
            n,
            known.get("n_pairs", _n_pairs(stages)),
            (reading, *of_stages),
            0,
            str(run.placement.device),
            "" if report is None else report.backend,
            "" if report is None else str(report.dtype).removeprefix("torch."),
            free_memory(run.placement.device),
            {field: known[field] for field in KNOWN if field in known},
            missing,
        )

    def _without_memory(self, n: int, error: TileMemoryError) -> FitPlan:
        """Return the plan of a fit to n samples that there is no memory for."""
        nothing = FitPlan(self.name, "", n, 0, (), 0, str(HOST), "", "", 0, {})
        return replace(nothing, free_bytes=free_memory(HOST), missing=str(error))

    def _others(self, data: FitData, found: FitPlan) -> Iterator[OtherPlan]:
        """Yield what other settings would take, as far as they go with the others."""
        for settings in other_settings(self.params, found):
            other = replace(data, settings=data.settings.but(**settings))
            with suppress(ValueError):  # of settings that do not go together
                plan = self._plan(other, found.stages[0])
                words = (f"{key}={value!r}" for key, value in settings.items())
                if plan.stages:
                    yield OtherPlan(
                        ", ".join(words),
                        plan.way,
                        plan.seconds,
                        plan.peak_bytes + found.sample_bytes,
                        plan.fits,
                    )


def _run(planned: PlannedFit) -> tuple[Run, str]:
    """Return how a fit will compute, and the error that it raises for lack of memory.

    The error is empty if there is enough; else the run is one that needs none.
    """
    plan, resources = planned.plan, planned.resources
    placement, needed = plan.placement(resources)
    try:
        return plan.run(needed, placement, resources).quiet(), ""
    except TileMemoryError as error:
        return resources.run(placement).quiet(), str(error)


def _planned_stages(
    stages: tuple[Stage, ...], planned: PlannedFit, run: Run
) -> Iterator[PlannedStage]:
    """Yield the stages of a fit with their seconds and bytes."""
    plan, rows = planned.plan, planned.data.problem.rows
    rows = rows[spread(len(rows), TRIED)]
    _, needed = plan.placement(planned.resources)
    itemsize = (plan.dtype or planned.resources.solve_dtype).itemsize
    for stage in stages:
        basis = _basis_of(stage, planned, run)
        seconds = seconds_of(stage, basis, rows, run)
        held = stage.held * itemsize if stage.held else needed
        if stage.unit == PAIRS and basis.is_kernel:
            held += basis.oracle(run, "plan").tile_bytes(plan.n)
        yield PlannedStage(stage.name, seconds, held)


def _basis_of(stage: Stage, planned: PlannedFit, run: Run) -> Any:
    """Return what the pairs or images of a stage are of, in its precision."""
    basis = planned.plan.basis if stage.of is None else stage.of
    return _precise(basis() if callable(basis) else basis, planned, run)


def _precise(basis: Any, planned: PlannedFit, run: Run) -> Any:
    """Return a basis with few of its samples, in the precision of its tiles."""
    if basis is None or basis.is_streamed:
        return in_precision(basis, planned.resources, run)
    if basis.gives_features:  # which have no samples to try
        samples = _precise(planned.plan.basis, planned, run)
        return replace(basis, exact=replace(basis.exact, dtype=samples.dtype))
    few = basis.select(spread(basis.n_samples, TRIED))
    return in_precision(few, planned.resources, run)


def _joined(stages: Iterator[PlannedStage]) -> list[PlannedStage]:
    """Return stages of which those of one name are one."""
    found: dict[str, PlannedStage] = {}
    for one in stages:
        same = found.get(one.name, PlannedStage(one.name, 0.0, 0))
        most = max(one.n_bytes, same.n_bytes)
        found[one.name] = PlannedStage(one.name, one.seconds + same.seconds, most)
    return list(found.values())


def _n_pairs(stages: tuple[Stage, ...]) -> int:
    return int(sum(stage.amount for stage in stages if stage.unit == PAIRS))


def no_models(problem: Problem) -> list[LabelModel]:  # noqa: ARG001  (has none)
    """Return no models: targets share one noise."""
    return []


def other_settings(params: dict[str, Any], found: FitPlan) -> list[dict[str, Any]]:
    """Return settings that take less or more, given those of an estimator.

    A plan says what the fit takes as it is.
    """
    n = found.n_samples
    if not found.stages or n < FEWEST:
        return []
    if "n_landmarks" in params:
        m = found.known.get("n_landmarks") or params["n_landmarks"]
        if isinstance(m, int):
            return [{"n_landmarks": k} for k in (m // 2, 2 * m) if 1 <= k < n]
        return [{"n_landmarks": n // 4}]
    if "n_inducing" in params:
        most = max(found.known.get("n_inducing", (0,)))
        return [{"n_inducing": k} for k in (most // 2, 2 * most) if k]
    if found.way not in (EXACT, ITERATIVE):
        return []
    by_pairs = {"solver": "cg", "noise_variance": CG_NOISE}
    few = {"completion": Nystrom(n_landmarks=n // 4)}
    return [{"solve_dtype": "float32"}, by_pairs, few]
