"""Times that reports tell are times that have passed."""

import time
import warnings
from dataclasses import replace

import pytest
from sklearn.base import is_classifier

from skconvgp.flows import VariationalBound
from tests.helpers.public import CASES, N, offers


def growing():
    """Return the cases that learn batches, classifiers also by targets of labels."""
    cases = [case for case in CASES if offers(case.estimator, "partial_fit")]
    with_targets = [
        replace(case, estimator=case.new(likelihood="dirichlet"))
        for case in cases
        if "likelihood" in (settings := case.estimator.get_params())
        and is_classifier(case.estimator)
        # Labels that decide their noise have no bound.
        and not isinstance(settings.get("optimizer"), VariationalBound)
    ]
    return list({case.name: case for case in cases + with_targets}.values())


@pytest.mark.parametrize("case", growing(), ids=lambda case: case.name)
def test_reported_times_are_within_those_of_the_calls(case):
    X, y, _ = case.data()
    model, half = case.new(), N // 2
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part in (slice(0, half), slice(half, N)):
            model.partial_fit(X[part], y[part], *classes_of(case, model, part))
    passed = time.perf_counter() - start
    report = getattr(model, "fit_report_", None)
    if report is not None:
        assert report.gram_seconds >= 0.0
        assert report.solve_seconds >= 0.0
        assert report.gram_seconds + report.solve_seconds <= passed


def classes_of(case, model, part):
    """Return all classes where a first batch has to name them."""
    named = hasattr(model, "predict_proba") and part.start == 0
    return [range(case.n_classes)] if named else []
