"""Inside pipelines, searches, ensembles and joblib."""

import joblib
import numpy as np
import pytest
import sklearn
import torch
from joblib.parallel import ThreadingBackend
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    cross_val_predict,
    cross_val_score,
    train_test_split,
)
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    PatchGPClassifier,
    gram_matrix,
)
from skconvgp.kernels import PatchKernel, convnet, dense, rbf
from tests.helpers.estimators import blobs, digits, tiny_network, wave


@pytest.mark.filterwarnings("ignore:All covariances of different samples")
@pytest.mark.processes
def test_grid_search_over_the_kernel_in_two_processes():
    X, y = digits(60)
    grid = {
        "kernel__depth": [1, 2],
        "kernel__weight_variance": [1e-4, 2.79],
        "noise_variance": [1e-4, 1e-2],
    }
    gp = ConvNetGPClassifier(convnet(depth=1, kernel_size=3))
    search = GridSearchCV(gp, grid, cv=2, n_jobs=2).fit(X, y)
    assert len(search.cv_results_["params"]) == 8
    serial = GridSearchCV(gp, grid, cv=2).fit(X, y)
    for key in ("split0_test_score", "split1_test_score"):
        np.testing.assert_array_equal(search.cv_results_[key], serial.cv_results_[key])
    best = search.best_estimator_
    assert best.kernel.depth == search.best_params_["kernel__depth"]
    assert best.predict(X).shape == (60,)
    assert gp.kernel == convnet(depth=1, kernel_size=3)


@pytest.mark.filterwarnings("ignore:All covariances of different samples")
def test_grid_search_over_whole_kernels():
    X, y = wave(30)
    kernels = [rbf(lengthscale=1e-3), rbf(1.0), dense(depth=1)]
    gp = ConvNetGPRegressor(noise_variance=1e-2)
    search = GridSearchCV(gp, {"kernel": kernels}, cv=3).fit(X, y)
    assert search.best_params_["kernel"] != kernels[0]


def test_pipeline_scales_and_passes_parameters_down():
    X, y = blobs(60)
    X = X * [1.0, 1e4]
    gp = make_pipeline(StandardScaler(), ConvNetGPClassifier(rbf(1.0)))
    gp.set_params(convnetgpclassifier__kernel__lengthscale=0.7)
    gp.fit(X[:40], y[:40])
    assert gp[-1].kernel_.lengthscale == 0.7
    scaled = StandardScaler().fit(X[:40])
    direct = ConvNetGPClassifier(rbf(0.7)).fit(scaled.transform(X[:40]), y[:40])
    np.testing.assert_array_equal(
        gp.predict_proba(X[40:]), direct.predict_proba(scaled.transform(X[40:]))
    )


def test_grid_search_over_patches_and_their_kernel():
    X, y = digits(60)
    grid = [
        {"n_inducing": [3, 6], "kernel__patch_size": [2, 3]},
        {"n_inducing": [6], "kernel__location_lengthscale": [None]},
    ]
    kernel = PatchKernel()
    gp = PatchGPClassifier(kernel, random_state=0)
    search = GridSearchCV(gp, grid, cv=2).fit(X, y)
    best = search.best_estimator_
    assert len(set(search.cv_results_["mean_test_score"])) > 2
    m, size = (search.best_params_[n] for n in ("n_inducing", "kernel__patch_size"))
    assert best.inducing_patches_.shape == (m, 1, size, size)
    assert kernel == PatchKernel()


def test_pipeline_of_a_scaler_and_patches_reads_rows_as_images():
    X, y = digits(60)
    rows = X.reshape(60, -1)
    gp = PatchGPClassifier(n_inducing=8, image_shape=(8, 8), random_state=0)
    scaled = StandardScaler().fit(rows[:40])
    direct = clone(gp).fit(scaled.transform(rows[:40]), y[:40])
    steps = make_pipeline(StandardScaler(), gp).fit(rows[:40], y[:40])
    assert steps[-1].image_shape_ == (1, 8, 8)
    assert not hasattr(steps[-1], "set_output")  # it transforms nothing
    expected = direct.predict_proba(scaled.transform(rows[40:]))
    np.testing.assert_array_equal(steps.predict_proba(rows[40:]), expected)


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.processes
def test_cross_val_predict_on_images(n_jobs):
    X, y = digits(60)
    gp = ConvNetGPClassifier(tiny_network())
    proba = cross_val_predict(gp, X, y, cv=3, method="predict_proba", n_jobs=n_jobs)
    assert proba.shape == (60, 10)
    assert (proba.argmax(1) == y).mean() > 0.5


@pytest.mark.processes
def test_cross_val_score_in_two_processes():
    X, y = wave(40)
    scores = cross_val_score(ConvNetGPRegressor(rbf(1.0)), X, y, cv=2, n_jobs=2)
    expected = cross_val_score(ConvNetGPRegressor(rbf(1.0)), X, y, cv=2)
    np.testing.assert_array_equal(scores, expected)


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_calibration_on_images(method):
    X, y = digits(90)
    keep = y < 3
    gp = CalibratedClassifierCV(ConvNetGPClassifier(tiny_network()), method=method)
    gp.set_params(cv=2).fit(X[keep], y[keep])
    np.testing.assert_allclose(gp.predict_proba(X).sum(1), 1.0)


def test_voting_with_another_classifier():
    X, y = blobs(60)
    voters = [("gp", ConvNetGPClassifier(rbf(1.0))), ("lr", LogisticRegression())]
    vote = VotingClassifier(voters, voting="soft").fit(X[:40], y[:40])
    expected = np.mean(
        [e.fit(X[:40], y[:40]).predict_proba(X[40:]) for _, e in voters], axis=0
    )
    np.testing.assert_allclose(vote.predict_proba(X[40:]), expected)


def test_multi_output_wrapper():
    X, y = wave(20)
    both = np.column_stack([y, -y])
    wrapped = MultiOutputRegressor(ConvNetGPRegressor(rbf(1.0))).fit(X, both)
    direct = ConvNetGPRegressor(rbf(1.0)).fit(X, both)
    np.testing.assert_allclose(wrapped.predict(X), direct.predict(X))


@pytest.mark.parametrize(
    "estimator", [ConvNetGPClassifier(rbf(1.0)), PatchGPClassifier()], ids=repr
)
def test_sample_weight_can_be_requested(estimator):
    X, y = blobs(30)
    with sklearn.config_context(enable_metadata_routing=True):
        gp = clone(estimator).set_fit_request(sample_weight=True)
        gp.set_score_request(sample_weight=False)
        search = GridSearchCV(gp, {"noise_variance": [1e-2, 1e-1]}, cv=2)
        search.fit(X, y, sample_weight=np.ones(30))
    assert search.best_estimator_.predict(X).shape == (30,)


def test_images_are_split_and_shuffled():
    X, y = digits(100)
    parts = train_test_split(X, y, random_state=0, stratify=y)
    gp = ConvNetGPClassifier(tiny_network()).fit(parts[0], parts[2])
    assert gp.score(parts[1], parts[3]) > 0.5


@pytest.mark.processes
def test_threads_and_processes_give_the_identical_matrix():
    X = digits(40)[0]
    settings = {"memory_budget": "400 KB"}
    before = torch.get_num_threads()
    grams = []
    for backend in ("threading", "loky"):
        with joblib.parallel_config(backend, n_jobs=2):
            grams.append(gram_matrix(tiny_network(), X, **settings))
        assert torch.get_num_threads() == before
    np.testing.assert_array_equal(*grams)
    np.testing.assert_array_equal(grams[0], grams[0].T)
    serial = gram_matrix(tiny_network(), X, **settings)
    np.testing.assert_allclose(grams[0], serial, rtol=1e-12)


@pytest.mark.parametrize("backend", ["threading", "loky"])
@pytest.mark.processes
def test_estimators_take_the_backend_of_the_user(backend):
    X, y = digits(40)
    one = ConvNetGPRegressor(tiny_network()).fit(X, y)
    with joblib.parallel_config(backend, n_jobs=2):
        two = ConvNetGPRegressor(tiny_network()).fit(X, y)
        predicted = two.predict(X)
    np.testing.assert_allclose(two.dual_coef_, one.dual_coef_, rtol=1e-8)
    np.testing.assert_allclose(predicted, one.predict(X), rtol=1e-9)


def test_threads_without_joblib_give_the_same_matrix():
    X = digits(40)[0]
    before = torch.get_num_threads()
    grams = []
    try:
        for n_threads in (1, 3):
            torch.set_num_threads(n_threads)
            grams.append(gram_matrix(tiny_network(), X, memory_budget="150 KB"))
    finally:
        torch.set_num_threads(before)
    np.testing.assert_allclose(*grams, rtol=1e-12)
    np.testing.assert_array_equal(grams[1], grams[1].T)


class ListsOnly(ThreadingBackend):
    """Threads that return lists, as the ray backend does."""

    supports_return_generator = False


def test_backends_that_return_lists_are_served_in_rounds():
    X = digits(40)[0]
    expected = gram_matrix(tiny_network(), X)
    joblib.register_parallel_backend("lists-only", ListsOnly)
    for n_jobs in (1, 2, 3):
        with joblib.parallel_config("lists-only", n_jobs=n_jobs):
            gram = gram_matrix(tiny_network(), X, memory_budget="400 KB")
        np.testing.assert_allclose(gram, expected, rtol=1e-12)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_thread_count_of_torch_is_restored(n_threads):
    X, y = digits(30)
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        for n_jobs in (None, 1, 2):
            gp = ConvNetGPClassifier(tiny_network(), n_jobs=n_jobs).fit(X, y)
            gp.predict(X)
            assert torch.get_num_threads() == n_threads
    finally:
        torch.set_num_threads(before)


def test_thread_count_of_torch_is_restored_after_an_error(monkeypatch):
    def fail(*args):
        raise RuntimeError("stop")

    monkeypatch.setattr("skconvgp.backends.ReferenceBackend.cross", fail)
    before = torch.get_num_threads()
    with pytest.raises(RuntimeError, match="stop"):
        gram_matrix(rbf(1.0), wave(30)[0], n_jobs=2)
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("n_jobs", [1, 2, -1])
def test_number_of_jobs_does_not_change_predictions(n_jobs):
    X, y = digits(40)
    reference = ConvNetGPClassifier(tiny_network()).fit(X[:30], y[:30])
    gp = ConvNetGPClassifier(tiny_network(), n_jobs=n_jobs).fit(X[:30], y[:30])
    np.testing.assert_allclose(
        gp.predict_proba(X[30:]), reference.predict_proba(X[30:]), atol=1e-10
    )
