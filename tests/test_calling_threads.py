"""How many threads torch and OpenBLAS use in the calling thread."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from skconvgp import _threads
from skconvgp._threads import (
    LARGE,
    allowed_threads,
    limit_this_thread,
    on_threads,
    one_thread,
    run_small,
    small_on_one_thread,
    threads_for,
)


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    monkeypatch.setattr(_threads, "_count_cores", lambda: 2)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=["OpenMP", "torch alone"])
def settings(request, monkeypatch):
    if request.param == "torch alone":
        monkeypatch.setattr(_threads, "_local_settings", lambda: (None, int))


def elsewhere(call):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


@pytest.mark.usefixtures("settings")
def test_one_thread_is_for_the_caller_and_for_small_operations_alone():
    with one_thread():
        assert (torch.get_num_threads(), allowed_threads()) == (1, 2)
        assert elsewhere(torch.get_num_threads) == 2
        with threads_for(LARGE - 1):
            assert torch.get_num_threads() == 1
        with threads_for(LARGE), one_thread(), threads_for(LARGE):
            assert torch.get_num_threads() == 2
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == allowed_threads() == 2


@pytest.mark.usefixtures("settings")
def test_an_error_restores_the_number():
    with pytest.raises(KeyError), one_thread(), threads_for(LARGE):
        raise KeyError
    assert torch.get_num_threads() == 2
    assert elsewhere(torch.get_num_threads) == 2


def test_there_are_no_more_threads_than_cores(monkeypatch):
    monkeypatch.setattr(_threads, "_count_cores", lambda: 1)
    with one_thread(), threads_for(LARGE):
        assert torch.get_num_threads() == allowed_threads() == 1


def test_large_operations_have_one_thread_beside_blocks():
    def in_a_block():
        limit_this_thread(1)
        with threads_for(LARGE):
            return torch.get_num_threads(), allowed_threads()

    with one_thread():
        assert elsewhere(in_a_block) == (1, 1)


@pytest.mark.parametrize("small", [0.0, 100.0])
def test_items_are_computed_in_order_on_one_thread_each(small, monkeypatch):
    monkeypatch.setattr(_threads, "SMALL", small)

    def one(item):
        state = torch.get_num_threads(), torch.is_grad_enabled()
        return item, *state, threading.get_ident() == here

    here = threading.get_ident()
    with torch.no_grad(), one_thread():
        found = on_threads(one, range(5))
    assert found == [(i, 1, False, small > 0.0) for i in range(5)]


def test_small_work_leaves_the_jobs_that_are_worth_threads(monkeypatch):
    seconds = iter([0.0, 0.015, 1.0, 1.015])
    monkeypatch.setattr("time.thread_time", lambda: next(seconds))
    jobs = iter([lambda: 1, lambda: 2, lambda: 3])
    assert list(run_small(jobs)) == [1, 2]
    assert len(list(jobs)) == 1


def test_openblas_of_numpy_is_left_alone_where_scipy_has_its_own(monkeypatch):
    class Library:
        def __init__(self, filepath):
            self.filepath = filepath

    class Controller:
        def select(self, **_):
            return self

    site = "/opt/lib/python3.12/site-packages"
    scipy, numpy = (
        Library(f"{site}/{name}.libs/libscipy_openblas-1.so")
        for name in ("scipy", "numpy")
    )
    shared = Library("/opt/lib/libopenblas.so")
    monkeypatch.setattr(_threads, "ThreadpoolController", Controller)
    for every, limited in (([numpy, scipy], [scipy]), ([shared], [shared])):
        Controller.lib_controllers = every
        assert _threads._openblas.__wrapped__() == limited


def test_openblas_has_its_threads_back_when_the_last_search_ends(monkeypatch):
    class Library:
        n_threads = 5

        def get_num_threads(self):
            return self.n_threads

        def set_num_threads(self, n_threads):
            self.n_threads = n_threads

    library = Library()
    monkeypatch.setattr(_threads, "_openblas", lambda: [library])
    first, second = small_on_one_thread(), small_on_one_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert library.n_threads == 1
    second.__exit__(None, None, None)
    assert library.n_threads == 5
