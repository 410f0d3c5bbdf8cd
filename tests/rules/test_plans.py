"""What `plan` says of each estimator of processes, beside what `fit` then does."""

import math
from unittest import mock

import numpy as np
import pytest

from skconvgp.estimators import FitPlan
from skconvgp.flows._kernel_search import EvidenceSearch, FlowSearch
from skconvgp.flows._local_search import LocalSearch
from skconvgp.flows._patch_search import PatchSearch
from skconvgp.processes import Plan
from tests.helpers.public import CASES, N, fitted_and_results, offers

PLANNED = [case for case in CASES if offers(case.estimator, "plan")]
PROCESSES = [case for case in PLANNED if hasattr(case.estimator, "_planned")]
# Of two steps of a search, for example, which are not enough.
pytestmark = pytest.mark.filterwarnings("ignore")

every_case = pytest.mark.parametrize("case", PLANNED, ids=lambda case: case.name)
every_process = pytest.mark.parametrize("case", PROCESSES, ids=lambda case: case.name)


def planned(case):
    X, y, _ = case.data()
    return case.new().plan(X, y)


def shape_of(case):
    """Return the shape of the samples of a case, and its labels or targets."""
    X, y, _ = case.data()
    return X.shape, y


def test_all_estimators_of_processes_are_planned():
    names = {type(case.estimator).__name__ for case in PLANNED}
    assert names == {
        "ConvNetGPClassifier",
        "ConvNetGPRegressor",
        "ImageClassifier",
        "ImageRegressor",
        "KernelEnsembleClassifier",
        "KernelFlowsClassifier",
        "KernelFlowsRegressor",
        "NystromCompletedGP",
        "NystromCompletedGPRegressor",
        "PatchGPClassifier",
        "PatchGPRegressor",
    }


@every_case
def test_a_plan_has_seconds_and_bytes(case):
    plan = planned(case)
    assert isinstance(plan, FitPlan)
    assert plan.estimator == type(case.estimator).__name__
    assert plan.n_samples == N
    assert plan.fits
    assert all(math.isfinite(one.seconds) for one in plan.stages)
    assert all(one.seconds >= 0.0 and one.n_bytes >= 0 for one in plan.stages)
    assert plan.seconds > 0.0
    assert plan.peak_bytes > 0
    assert plan.way in str(plan)


@every_case
def test_a_plan_changes_nothing(case):
    X, y, _ = case.data()
    estimator = case.new()
    before = dict(vars(estimator))
    estimator.plan(X, y)
    assert list(vars(estimator)) == list(before)
    assert all(vars(estimator)[name] is value for name, value in before.items())
    fitted, _ = fitted_and_results(case)
    before = dict(vars(fitted))
    fitted.plan(X, y)
    assert all(vars(fitted)[name] is value for name, value in before.items())


@every_process
def test_a_plan_says_what_the_report_of_the_fit_says(case):
    plan, (fitted, _) = planned(case), fitted_and_results(case)
    report = fitted.fit_report_
    told = {name: getattr(report, name) for name in plan.known}
    assert plan.known == told
    if plan.way in ("exact", "parts") and plan.stages[1].name != "search":
        assert plan.n_pairs == report.n_pairs
    assert plan.device == report.device
    if plan.backend:
        assert plan.backend == report.backend


@every_process
def test_a_shape_is_enough(case):
    plan, other = case.new().plan(*shape_of(case)), planned(case)
    assert (plan.way, plan.n_samples) == (other.way, other.n_samples)
    assert [one.name for one in plan.stages] == [one.name for one in other.stages]
    assert plan.known.get("solver") == other.known.get("solver")


@every_process
def test_a_plan_fits_and_learns_nothing(case):
    X, y, _ = case.data()

    def fail(*_, **__):
        pytest.fail("a plan is not carried out")

    searches = EvidenceSearch, FlowSearch, LocalSearch, PatchSearch
    with (
        mock.patch.object(Plan, "fit", fail),
        mock.patch("skconvgp.processes.basis._chosen_patches.cluster_means", fail),
        mock.patch.object(searches[0], "learn", fail),
        mock.patch.object(searches[1], "learn", fail),
        mock.patch.object(searches[2], "learn", fail),
        mock.patch.object(searches[3], "learn", fail),
    ):
        assert case.new().plan(X, y).stages


def error_of(call):
    with pytest.raises(ValueError, match=r"\w") as caught:
        call()
    return str(caught.value)


@every_process
def test_errors_are_those_of_fit(case):
    X, y, _ = case.data()
    bad = X.copy()
    bad[0] = np.nan
    fit, plan = case.new().fit, case.new().plan
    assert error_of(lambda: plan(bad, y)) == error_of(lambda: fit(bad, y))
    assert error_of(lambda: plan(X, y[:-1])) == error_of(lambda: fit(X, y[:-1]))
    wrong = {"noise_variance": "none"}
    fit, plan = case.new(**wrong).fit, case.new(**wrong).plan
    assert error_of(lambda: plan(X, y)) == error_of(lambda: fit(X, y))
    assert error_of(lambda: plan(*shape_of(case))) == error_of(lambda: fit(X, y))
