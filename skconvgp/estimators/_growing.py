"""Common steps of `partial_fit` of all estimators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if

from skconvgp._protocols import Expansion, LinkLikelihood
from skconvgp.estimators._doors import Samples, Training
from skconvgp.estimators._labels import distinct_labels
from skconvgp.estimators._report import FitReport
from skconvgp.estimators._series import warn_of_basis
from skconvgp.estimators.compute._resources import EstimatorResources
from skconvgp.estimators.settings._checks import LIKELIHOODS
from skconvgp.estimators.settings._gp import GPSettings
from skconvgp.likelihoods import Gaussian
from skconvgp.processes import (
    NOT_KEPT,
    KernelBasis,
    MatrixBasis,
    Problem,
    Process,
    Record,
    can_grow,
    entries,
    extend_process,
    fold,
)

NO_CLOSED_FORM = (
    "`partial_fit` needs a closed form, which variational inference does not have: use "
    "inference='collapsed' with likelihood='gaussian' or 'dirichlet', or `fit`."
)
Method = TypeVar("Method", bound=Callable[..., Any])


def only_with_features(method: Method) -> Method:
    """Return a method that an estimator has only with a completion by features."""
    return available_if(_computes_features)(method)  # type: ignore[no-any-return]


def _computes_features(estimator: Any) -> bool:
    likelihood = getattr(estimator, "likelihood", None)  # a regressor has none
    if isinstance(likelihood, str):
        likelihood = LIKELIHOODS.get(likelihood, Gaussian)()
    has_targets = not isinstance(likelihood, LinkLikelihood)
    return isinstance(estimator.completion, Expansion) and has_targets


def base_to_grow(owner: str, process: Any) -> KernelBasis | MatrixBasis:
    """Return what further samples are compared with; raise if none can be added."""
    if process.basis.gives_means:
        raise ValueError(NOT_KEPT.format("the sums to which samples are added"))
    if process.model.n_groups:
        raise ValueError(
            f"This {owner} was fitted with `groups`, to which further samples may "
            "belong: call `fit` with all samples and their groups."
        )
    if not can_grow(process):
        if process.basis.is_streamed:
            raise ValueError(NO_CLOSED_FORM)
        raise ValueError(
            f"This {owner} was fitted with other settings, and no "
            "samples can be added: call `fit`, or `partial_fit` of a new estimator."
        )
    base: KernelBasis | MatrixBasis = process.basis.kernel_basis or process.basis
    is_fitc = getattr(process.posterior, "variance", None) == "fitc"
    if is_fitc and not base.knows_variances:
        raise ValueError(
            "variance='fitc' needs the prior variances of further samples, which "
            "kernel='precomputed' does not give: use a kernel object."
        )
    return base


def extended_by(
    problem: Problem,
    samples: Samples,
    process: Any,
    earlier: Training,
    settings: GPSettings,
    resources: EstimatorResources,
) -> tuple[Process, Record]:
    """Return a process with further samples, and the record of the work for them.

    The process is of earlier samples; the resources are those of its estimator.
    """
    warn_of_basis(process.basis, samples.rows)
    extended, record = extend_process(
        process,
        replace(problem, n_before=len(process.model.targets)),
        settings.amplitude_for(earlier.join(samples.training)),
        resources.generator(),
        resources,
        earlier.codes,
    )
    return fold(extended, samples.rows, resources), record


def extended_report(report: FitReport, process: Process, record: Record) -> FitReport:
    """Return the report of all samples; the record is of the work for further ones."""
    n, n_pairs = len(process.model.targets), report.n_pairs + record.n_pairs
    has_pairs = not (process.basis.is_streamed and process.basis.gives_features)
    return replace(
        report,
        jitter=record.report["jitter"],
        n_samples=n,
        n_rows=n,
        n_pairs=n_pairs,
        gram_seconds=report.gram_seconds + record.gram_seconds,
        solve_seconds=report.solve_seconds + record.solve_seconds,
        observed_fraction=n_pairs / entries(n) if has_pairs else 1.0,
    )


def first_classes(classes: ArrayLike | None) -> NDArray[Any]:
    """Return the classes given in a first call; raise if there are none."""
    if classes is None:
        raise ValueError(
            "`classes` must be passed on the first call to partial_fit: the labels of "
            "this and of all later calls."
        )
    return distinct_labels(classes)


def require_same_classes(known: NDArray[Any], classes: ArrayLike | None) -> None:
    """Raise if classes are given and differ from the first call."""
    if classes is not None and not np.array_equal(known, distinct_labels(classes)):
        raise ValueError(
            f"`classes`={classes!r} is not the same as on the last call to "
            f"partial_fit, {known!r}."
        )
