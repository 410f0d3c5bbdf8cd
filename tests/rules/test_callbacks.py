"""Callbacks of scikit-learn are told of every fit, and change nothing of it."""

import pickle
import runpy
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import skconvgp as sk
from skconvgp.estimators import _callbacks
from skconvgp.exceptions import TileMemoryError
from skconvgp.flows import Adam
from skconvgp.kernels import rbf
from skconvgp.transforms import Downsample
from tests.helpers.estimators import blobs, digits
from tests.helpers.public import CASES, CLASSES, assert_same_bits, fitted_and_results
from tests.helpers.recorder import FollowingRecorder, Recorder

ScoringMonitor = pytest.importorskip("sklearn.callback").ScoringMonitor

STAGES = {
    "BayesianNetworkClassifier": ["networks"],  # of too few images for a search
    "BayesianNetworkRegressor": ["prior", "networks"],
    "BinaryEncoder": ["codes"],
    "KernelFlowsClassifier": [
        "search",
        "covariances",
        "noise",
        "solving",
        "calibration",
    ],
    "KernelFlowsWarp": ["flow"],
    "NystromCompletedGP": ["covariances", "completion", "noise", "solving"],
    "PatchGPClassifier": ["features", "noise", "solving"],
}


def stages(recorder):
    """Return names of stages, each of them once."""
    skipped = {"fit", "flow step", "epoch", "search epoch"}
    return [name for name in dict.fromkeys(recorder.names()) if name not in skipped]


def assert_complete(recorder):
    """Check that each task that begins also ends, the whole around all others."""
    events = recorder.events
    assert events[:2] == [("setup", "fit"), ("begin", "fit")]
    assert events[-2:] == [("end", "fit"), ("teardown", "fit")]
    open_tasks = []
    for kind, name in events[1:-1]:
        if kind == "begin":
            open_tasks.append(name)
        else:
            assert open_tasks.pop() == name
    assert not open_tasks


@pytest.mark.parametrize(
    "case", CLASSES, ids=lambda case: type(case.estimator).__name__
)
def test_every_class_tells_and_computes_the_same(case):
    _, expected = fitted_and_results(case)
    recorder = Recorder()
    X, y, new = case.data()
    with warnings.catch_warnings(record=True) as watched:
        warnings.simplefilter("always")
        fitted = case.new().set_callbacks(recorder).fit(X, y)
    with warnings.catch_warnings(record=True) as alone:
        warnings.simplefilter("always")
        again = case.new().fit(X, y)
    assert [str(one.message) for one in watched] == [str(one.message) for one in alone]
    assert_complete(recorder)
    assert vars(fitted).keys() == {*vars(again), "_skl_callbacks"}
    assert_same_bits(case.results(fitted, (X, y, new)), expected)
    n_told = len(recorder.events)
    case.results(fitted, (X, y, new))
    assert len(recorder.events) == n_told


@pytest.mark.parametrize("name", STAGES)
def test_stages_are_tasks(name):
    case = next(one for one in CASES if type(one.estimator).__name__ == name)
    X, y, _ = case.data()
    recorder = Recorder()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case.new().set_callbacks(recorder).fit(X, y)
    assert stages(recorder) == STAGES[name]


def test_parts_of_images_are_tasks():
    recorder = Recorder()
    X, y = digits(30)
    gp = sk.ImageClassifier([rbf(1.0), rbf(2.0)], flips=True)
    gp.set_callbacks(recorder).fit(X, y)
    assert_complete(recorder)
    first, second, *others = stages(recorder)
    assert first.startswith("part 1 of 2: ")
    assert second.startswith("part 2 of 2: ")
    assert others == ["weights", "noise", "solving"]


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_searches_hand_callbacks_on_without_a_warning(n_jobs):
    X, y = blobs(24)
    recorder = FollowingRecorder()
    grid = {"noise_variance": [0.1, 1.0]}
    search = GridSearchCV(sk.ConvNetGPClassifier(rbf(1.0)), grid, cv=2, n_jobs=n_jobs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search.set_callbacks(recorder).fit(X, y)
    told = recorder.names()
    assert "covariances" in told  # of the refit, which is in this process
    if n_jobs is None:
        assert told.count("solving") == 5  # two settings, two splits, one refit
    assert not hasattr(search.best_estimator_, "_skl_callbacks")
    assert not hasattr(search.best_estimator_, "_parent_callback_ctx")


def test_pipelines_hand_callbacks_on():
    X, y = digits(20)
    recorder = FollowingRecorder()
    pipeline = make_pipeline(Downsample(2), sk.ConvNetGPClassifier(rbf(1.0)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipeline.set_callbacks(recorder).fit(X, y)
    assert recorder.names().count("covariances") == 1


def test_clones_and_pickles_keep_callbacks():
    X, y = blobs(12)
    gp = sk.ConvNetGPRegressor(rbf(1.0)).set_callbacks(Recorder())
    for one in clone(gp), pickle.loads(pickle.dumps(gp.fit(X, y))):
        (recorder,) = one._skl_callbacks
        recorder.events.clear()
        one.fit(X, y)
        assert_complete(recorder)


def test_a_fit_that_fails_clears_up_and_changes_nothing():
    X, y = digits(20)
    recorder = Recorder()
    gp = sk.PatchGPRegressor(n_inducing=4, random_state=0).fit(X, y * 1.0)
    gp.set_callbacks(recorder).set_params(memory_budget=100)
    before = dict(vars(gp))
    with pytest.raises(TileMemoryError):
        gp.fit(X, y * 1.0)
    assert vars(gp) == before
    events = [event for event, _ in recorder.events]
    assert events.count("setup") == events.count("teardown")
    assert ("end", "fit") not in recorder.events


class Failing(Recorder):
    """Fails when a task ends."""

    def on_fit_task_end(self, estimator, context):
        super().on_fit_task_end(estimator, context)
        raise RuntimeError("no")


def test_a_callback_that_fails_clears_up():
    X, y = blobs(12)
    failing = Failing()
    gp = sk.ConvNetGPRegressor(rbf(1.0)).set_callbacks(failing)
    before = dict(vars(gp))
    with pytest.raises(RuntimeError, match="no"):
        gp.fit(X, y)
    assert vars(gp) == before
    assert failing.events[-1] == ("teardown", "fit")


def test_a_search_ends_where_a_callback_says():
    X, y = blobs(20)
    recorder = Recorder(stop_at="flow step")
    gp = sk.KernelFlowsClassifier(rbf(1.0), optimizer=Adam(max_iter=9), random_state=0)
    gp.set_callbacks(recorder).fit(X, y)
    assert recorder.names().count("flow step") == 1
    assert len(gp.flow_result_.rho_trace) == 1
    assert_complete(recorder)


class Predicting(Recorder):
    """Predicts with the fitted estimator when `fit` ends."""

    def __init__(self, X):
        super().__init__()
        self.X = X

    def on_fit_task_end(
        self,
        estimator,
        context,
        *,
        X=None,
        y=None,
        metadata=None,
        fitted_estimator=None,
    ):
        super().on_fit_task_end(estimator, context)
        if context.task_name == "fit":
            self.found = fitted_estimator.predict(self.X)
            self.data = X, y, metadata


def test_callbacks_get_the_data_and_the_fitted_estimator():
    X, y = blobs(12)
    weights = np.ones(12)
    predicting = Predicting(X)
    gp = sk.ConvNetGPRegressor(rbf(1.0), verbose=0).set_callbacks(predicting)
    gp.fit(X, y=y, sample_weight=weights)
    np.testing.assert_array_equal(predicting.found, gp.predict(X))
    assert predicting.data[0] is X
    assert predicting.data[1] is y
    assert predicting.data[2] == {"sample_weight": weights}
    assert_complete(predicting)  # predictions of callbacks are no stages


def test_older_versions_have_no_callbacks(monkeypatch):
    def refuse(name):
        raise ImportError(name)

    monkeypatch.setattr("importlib.import_module", refuse)
    old = runpy.run_path(_callbacks.__file__)

    class Plain(old["BaseCallbacks"]):
        """An estimator."""

    tasks = old["FitTasks"](Plain(), has_steps=True)
    tasks.enter("search")
    assert not tasks.step("flow step")
    tasks.end()
    assert not hasattr(Plain, "set_callbacks")


def test_steps_can_be_scored():
    X, y = blobs(20)
    monitor = ScoringMonitor(scoring="accuracy")
    gp = sk.KernelFlowsClassifier(rbf(1.0), optimizer=Adam(max_iter=3), random_state=0)
    gp.set_callbacks(monitor).fit(X, y)
    logged = monitor.get_logs()
    assert [row["accuracy"] for row in logged.data] == [1.0] * 4  # steps, and the end


def test_further_samples_are_no_fit():
    X, y = blobs(24)
    recorder = Recorder()
    gp = sk.NystromCompletedGP(rbf(1.0), n_landmarks=4).fit(X[:12], y[:12])
    gp.set_callbacks(recorder).partial_fit(X[12:], y[12:])
    assert not recorder.events
