"""Children of a fork, where no thread but one lives on."""

import os
import signal
import traceback

import joblib
import numpy as np
import pytest
import torch
from sklearn.model_selection import GridSearchCV

from skconvgp import ConvNetGPRegressor, gram_matrix
from skconvgp.kernels import convnet, rbf

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    # Python's own warning, from 3.12 on: it is what these tests are about.
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded"),
]

SECONDS = 100  # far more than a child needs, and a child that hangs never ends


@pytest.fixture(autouse=True)
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def rows():
    X = np.random.default_rng(0).normal(size=(300, 4))
    return X, X[:, 0]


def run_in_child(work):
    """Return the exit status of a child of a fork: 0 if the work raised no error."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(SECONDS)
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]


def test_a_child_predicts_and_fits_after_its_parent_has(rows):
    X, y = rows
    gp = ConvNetGPRegressor(rbf(2.0)).fit(X, y)
    mean, std = gp.predict(X, return_std=True)
    images = X.reshape(12, 1, 10, 10)
    gram = gram_matrix(convnet(depth=1), images)

    def work():
        again = gp.predict(X, return_std=True)
        np.testing.assert_allclose(again, (mean, std), rtol=1e-6, atol=1e-8)
        refit = ConvNetGPRegressor(rbf(2.0)).fit(X, y).predict(X)
        np.testing.assert_allclose(refit, mean, rtol=1e-6, atol=1e-8)
        np.testing.assert_array_equal(gram_matrix(convnet(depth=1), images), gram)

    assert run_in_child(work) == 0
    assert torch.get_num_threads() == 2


def test_threads_that_a_child_starts_may_have_more(rows):
    gp = ConvNetGPRegressor(rbf(2.0)).fit(*rows)

    def work():
        with joblib.parallel_config("threading", n_jobs=2):
            gp.predict(rows[0])

    assert run_in_child(work) == 0


def test_a_search_in_forked_processes_ends(rows):
    X, y = rows
    ConvNetGPRegressor(rbf(2.0)).fit(X, y)

    def give_up(number, frame):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(SECONDS)
    try:
        search = GridSearchCV(
            ConvNetGPRegressor(rbf(2.0)),
            {"noise_variance": [1e-4, 1e-2]},
            cv=2,
            refit=False,  # it would fork once more for each matrix
        )
        with joblib.parallel_config("multiprocessing", n_jobs=2):
            search.fit(X, y)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
