"""What users do with more than one thread of torch: the other tests have one."""

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import check_estimator

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    as_sklearn_kernel,
    gram_matrix,
)
from skconvgp._protocols import run_serially
from skconvgp.estimators.compute._parallel import make_runner
from skconvgp.kernels import arcsine, convnet, rbf
from tests.helpers.estimators import digits


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    monkeypatch.setattr("skconvgp._threads._count_cores", lambda: 2)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(90, 3))


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [ConvNetGPClassifier(), ConvNetGPRegressor()])
def test_scikit_learn_checks_pass(estimator):
    check_estimator(estimator)


@pytest.mark.parametrize("estimator", [ConvNetGPClassifier(), ConvNetGPRegressor()])
@pytest.mark.parametrize(
    "check",
    [
        "check_fit_idempotent",
        "check_methods_subset_invariance",
        "check_methods_sample_order_invariance",
        "check_estimators_pickle",
    ],
)
def test_what_threads_might_change(check, estimator):
    getattr(estimator_checks, check)(type(estimator).__name__, estimator)


def test_kernel_gradients_have_the_value_of_one_thread(rows):
    kernel = as_sklearn_kernel(arcsine())
    gram, gradient = kernel(rows, eval_gradient=True)
    torch.set_num_threads(1)
    gram_1, gradient_1 = kernel(rows, eval_gradient=True)
    np.testing.assert_allclose(gram, gram_1, rtol=1e-13)
    np.testing.assert_allclose(gradient, gradient_1, rtol=1e-11, atol=1e-13)


def test_kernel_gradients_are_safe_in_threads_of_the_user(rows):
    kernel = as_sklearn_kernel(arcsine())
    expected = kernel(rows, eval_gradient=True)[1]
    results = []
    threads = [
        threading.Thread(
            target=lambda: results.append(kernel(rows, eval_gradient=True)[1])
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == len(threads)
    for result in results:
        np.testing.assert_allclose(result, expected, rtol=1e-11, atol=1e-13)


def test_scikit_learns_regressor_learns_a_kernel(rows):
    gp = GaussianProcessRegressor(as_sklearn_kernel(rbf(3.0)), alpha=1e-4)
    gp.fit(rows, np.sin(rows[:, 0]))
    at_start = gp.log_marginal_likelihood(np.log([3.0]))
    assert gp.log_marginal_likelihood_value_ > at_start + 1.0


def test_gram_matrix_of_a_network_is_that_of_one_thread():
    X, _ = digits(70)
    kernel = convnet(depth=2, kernel_size=3)
    gram = gram_matrix(kernel, X)
    assert torch.get_num_threads() == 2
    torch.set_num_threads(1)
    np.testing.assert_allclose(gram, gram_matrix(kernel, X), rtol=1e-13)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_jobs_leave_the_filters_of_warnings_to_their_caller(n_jobs, monkeypatch):
    # All threads share them, so that each change is seen by the others.
    monkeypatch.setattr("joblib.cpu_count", lambda: 2)
    runner, _ = make_runner(n_jobs, torch.device("cpu"))
    before = warnings.filters
    assert all(filters is before for filters in runner([lambda: warnings.filters] * 4))
    assert warnings.filters is before


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_threads_born_while_blocks_are_computed_have_those_of_torch(
    n_jobs, monkeypatch
):
    monkeypatch.setattr("joblib.cpu_count", lambda: 2)
    monkeypatch.setattr("skconvgp._threads.SMALL", 0.0)
    runner, n_workers = make_runner(n_jobs, torch.device("cpu"))
    together = threading.Barrier(n_workers, timeout=60)

    def job():
        together.wait()
        with ThreadPoolExecutor(1) as born:
            n_threads = born.submit(torch.get_num_threads).result()
        together.wait()
        return torch.get_num_threads(), n_threads

    assert list(runner([job] * 2)) == [(1, 2)] * 2
    assert torch.get_num_threads() == 2


def test_a_failing_block_reaches_the_caller_and_threads_are_restored(monkeypatch):
    def fail(*args):
        raise KeyError("block")

    monkeypatch.setattr("skconvgp.engine._evaluate.evaluate_block", fail)
    with pytest.raises(KeyError, match="block"):
        gram_matrix(rbf(1.0), np.zeros((60, 2)))
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize(("place", "n_workers"), [("threading", 3), ("loky", 64)])
def test_jobs_in_threads_are_no_more_than_the_cores(place, n_workers, monkeypatch):
    monkeypatch.setattr("joblib.cpu_count", lambda: 3)
    with joblib.parallel_config(place):
        assert make_runner(64, torch.device("cpu"))[1] == n_workers


@pytest.fixture
def waits(monkeypatch):
    """Return a list that fills with the threads that have waited for their GPU."""
    threads = []
    monkeypatch.setattr(
        "skconvgp.estimators.compute._parallel.finish_on_gpu",
        lambda: threads.append(threading.get_ident()),
    )
    return threads


@pytest.fixture
def four_gpus(monkeypatch, waits):
    """Return which GPU each thread was given, on a machine that seems to have four."""
    given = {}

    def use_gpu(index):
        given[threading.get_ident()] = index

    monkeypatch.setattr("skconvgp.estimators.compute._parallel.count_gpus", lambda: 4)
    monkeypatch.setattr("skconvgp.estimators.compute._parallel.use_gpu", use_gpu)
    monkeypatch.setattr("joblib.cpu_count", lambda: 16)
    return given


@pytest.mark.parametrize(("n_jobs", "n_gpus"), [(2, 2), (3, 3), (9, 4)])
def test_each_gpu_has_a_thread_and_takes_blocks_as_it_gets_free(
    n_jobs, n_gpus, four_gpus
):
    runner, n_workers = make_runner(n_jobs, torch.device("cuda"))
    assert n_workers == n_gpus
    together = threading.Barrier(n_gpus, timeout=60)

    def job():
        together.wait()
        return four_gpus[threading.get_ident()], torch.get_num_threads()

    done = list(runner([job] * 3 * n_gpus))
    assert sorted(four_gpus.values()) == list(range(n_gpus))
    assert sorted(index for index, _ in done) == sorted(list(range(n_gpus)) * 3)
    assert {n_threads for _, n_threads in done} == {max(1, 2 // n_gpus)}
    assert torch.get_num_threads() == 2


def test_a_result_comes_when_its_gpu_is_done(four_gpus, waits):
    runner, _ = make_runner(3, torch.device("cuda"))
    waited = []
    for thread in runner([threading.get_ident] * 5):
        waited.append(thread)
        assert all(waits.count(one) >= waited.count(one) for one in waited)
    assert sorted(waits) == sorted(waited)
    assert set(waits) <= set(four_gpus)


@pytest.mark.parametrize(
    ("n_jobs", "device"), [(None, "cuda"), (1, "cuda"), (4, "cuda:1")]
)
def test_gpu_that_is_named_and_one_job_take_one(n_jobs, device, four_gpus):
    assert make_runner(n_jobs, torch.device(device)) == (run_serially, 1)


@pytest.mark.parametrize("n_jobs", [None, 1])
def test_one_job_runs_as_many_threads_as_torch(n_jobs):
    assert make_runner(n_jobs, torch.device("cpu"))[1] == 2
