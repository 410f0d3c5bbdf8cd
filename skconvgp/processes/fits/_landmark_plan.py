"""Plan of a fit by the columns of landmarks, to which samples can be added."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from skconvgp.engine import Size
from skconvgp.processes._plan import LANDMARKS, Plan
from skconvgp.processes._problem import Problem, Settings
from skconvgp.processes._run import Resources
from skconvgp.processes.basis._completed import completion_stages
from skconvgp.processes.basis._plain import PlainBasis
from skconvgp.processes.fits._coded_choice import values_of_classes
from skconvgp.processes.fits._fits import fit_landmarks
from skconvgp.processes.fits._label_models import LabelModel
from skconvgp.processes.fits._requirements import require_added_noise
from skconvgp.processes.fits._sums import fit_features


def plan_landmarks(
    strategy: Any,
    variance: str,
    basis: PlainBasis,
    settings: Settings,
    resources: Resources,
    models_of: Callable[[Problem], list[LabelModel]],
    problem: Problem,
) -> Plan:
    """Return the plan of a fit by landmarks, to which samples can be added.

    Parameters
    ----------
    strategy : Nystrom
        Chooses the landmarks.
    variance : {"dtc", "sor", "fitc"}
        How the variance that they do not explain is treated.
    basis, settings, resources : object
        As in `Planner`.
    models_of : callable
        Returns the models of labels that give each label its noise; none if all targets
        share one noise variance.
    problem : Problem
        The problem that will be fitted.
    """
    n, models = basis.n_samples, models_of(problem)
    held = strategy.n_values(n, 1.0)
    options: dict[str, Any] = {"settings": settings, "variance": variance}
    if models:
        name = repr(models[0].likelihood)
        require_added_noise(name, settings.noise)
        if variance == "fitc":
            raise ValueError(
                "variance='fitc' needs one noise variance for all targets of a "
                f"sample, and {name} gives each class its own: use variance='dtc'."
            )
        n_features = min(n, strategy.n_landmarks or n)
        held += values_of_classes(models, problem, n_features)
        options["models_of"] = models_of
    fit = partial(fit_features, **options)
    fit_at = partial(fit_landmarks, strategy, fit, resources)
    m = min(n, strategy.n_landmarks or n)
    stages = completion_stages(
        problem.inputs.n_inputs, strategy, 1.0, problem.inputs.n_inputs * m
    )
    return Plan(n, Size(held, 0, held), fit_at, basis, way=LANDMARKS, stages=stages)
