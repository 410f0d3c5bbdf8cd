"""Common steps of `partial_fit` of all estimators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if

from skconvgp._protocols import Expansion, LinkLikelihood
from skconvgp.estimators._doors import Training
from skconvgp.estimators._fact_warnings import warn_of_facts
from skconvgp.estimators._labels import distinct_labels
from skconvgp.estimators.settings._checks import LIKELIHOODS
from skconvgp.likelihoods import Gaussian
from skconvgp.processes import Process, Record

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


def publish_extension(
    estimator: Any,
    process: Process,
    training: Training,
    record: Record,
    fields: Mapping[str, Any],
) -> None:
    """Set the attributes that follow from further samples, and warn of facts.

    Parameters
    ----------
    estimator : BaseGP
        Fitted to earlier samples.
    process : Process
        Process of all samples.
    training : Training
        Record of all samples.
    record : Record
        Record of the work for the further ones.
    fields : mapping
        Further fields of the report, by name.
    """
    warn_of_facts(record.facts)
    estimator._process, estimator._training = process, training
    report = estimator.fit_report_
    estimator.fit_report_ = replace(
        report,
        jitter=record.report["jitter"],
        n_samples=len(process.model.targets),
        n_rows=len(process.model.targets),
        n_pairs=report.n_pairs + record.n_pairs,
        gram_seconds=report.gram_seconds + record.gram_seconds,
        solve_seconds=report.solve_seconds + record.solve_seconds,
        **fields,
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
