"""What `device="auto"` takes, and what happens where a GPU has no room."""

import numpy as np
import pytest
import torch

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    gram_diag,
    gram_gradient,
    gram_matrix,
    gram_vjp,
)
from skconvgp.backends import ReferenceBackend
from skconvgp.engine import Placement, choose_placement, compute_at
from skconvgp.engine._placement import GPU_ROOM
from skconvgp.estimators.settings._checks import as_budget
from skconvgp.exceptions import TileMemoryError
from tests.helpers.estimators import digits, tiny_network

CPU = torch.device("cpu")
RESOLVE = "skconvgp.estimators.settings._checks"
CLASSES = [ConvNetGPClassifier, ConvNetGPRegressor]
N = 20
X, y = digits(N)
OTHERS = digits(7, start=50)[0]
TORCH = {"backend": "torch"}


def test_without_a_gpu_the_cpu_computes():
    assert choose_placement(10**12, None) == Placement(CPU)


@pytest.mark.parametrize("needed", [0, 3 * 2**30])
def test_a_gpu_with_room_computes(needed):
    placement = choose_placement(needed, needed + GPU_ROOM)
    assert placement == Placement(torch.device("cuda"), is_optional=True)


@pytest.mark.parametrize("needed", [0, 3 * 2**30])
def test_a_gpu_without_room_is_left_for_a_reason(needed):
    placement = choose_placement(needed, needed + GPU_ROOM - 2**28)
    assert placement.device == CPU
    for number in (needed, GPU_ROOM, needed + GPU_ROOM - 2**28):
        assert f"{number / 2**30:.1f} GiB" in placement.reason


def test_one_byte_decides():
    assert choose_placement(1, GPU_ROOM).device == CPU


@pytest.fixture
def full_gpu(monkeypatch):
    """Let there be a GPU with less than what a tile takes."""
    monkeypatch.setattr(f"{RESOLVE}.gpu_memory", lambda: 2**20)


@pytest.mark.parametrize("cls", CLASSES)
def test_fit_says_why_it_left_the_gpu(cls, full_gpu):
    report = cls(tiny_network()).fit(X, y).fit_report_
    assert report.device == "cpu"
    assert "0.0 GiB are free" in report.device_reason
    assert f"not on GPU   {report.device_reason}" in str(report).splitlines()


@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_without_a_gpu_there_is_no_reason(device, monkeypatch):
    monkeypatch.setattr(f"{RESOLVE}.gpu_memory", lambda: None)
    report = ConvNetGPRegressor(tiny_network(), device=device).fit(X, y).fit_report_
    assert report.device_reason == ""
    assert "GPU" not in str(report)


def computed(**settings):
    """Return all that this package computes from images, as a list of arrays."""
    gp = ConvNetGPRegressor(tiny_network(), **settings)
    prior = gp.sample_y(OTHERS, random_state=0)
    gp.fit(X, y)
    G = np.ones((N, len(OTHERS)))
    return [
        prior,
        *gp.predict(OTHERS, return_std=True),
        gp.loo_predict(),
        gp.sample_y(OTHERS, random_state=0),
        gram_diag(tiny_network(), X, **settings),
        gram_matrix(tiny_network(), X, **settings),
        gram_matrix(tiny_network(), X, OTHERS, **settings),
        *gram_gradient(tiny_network(), X, **settings),
        *gram_vjp(tiny_network(), X, OTHERS, G, **settings),
    ]


def assert_all_equal(arrays, others):
    for one, two in zip(arrays, others, strict=True):
        np.testing.assert_array_equal(one, two)


def test_beside_a_full_gpu_everything_is_computed_on_the_cpu(full_gpu):
    assert_all_equal(computed(), computed(device="cpu"))


@pytest.fixture
def asked(monkeypatch):
    """Return a list that fills with the bytes that "auto" asks a GPU for."""
    calls = []

    def chosen(needed, free):
        calls.append(needed)
        return Placement(CPU)

    monkeypatch.setattr(f"{RESOLVE}.choose_placement", chosen)
    return calls


@pytest.mark.parametrize("cls", CLASSES)
def test_estimators_ask_for_the_matrix_and_its_factor(cls, asked):
    settings = {"noise_variance": "loo", "solve_dtype": "float32"}
    cls(tiny_network(), **settings).fit(X, y)
    assert asked[0] == 7 * 4 * N**2
    asked.clear()
    gp = cls(tiny_network(), noise_variance=1e-4).fit(X, y)
    assert asked[0] == 2 * 8 * N**2
    asked.clear()
    gp.predict(OTHERS)
    gp.predict_latent(OTHERS, return_std=True)
    gp.loo_predict()
    assert asked == [0, 8 * N**2]  # left-out predictions are kept from the fit


@pytest.mark.filterwarnings("ignore:The hyperparameters .* are at a bound")
def test_a_search_asks_for_the_matrices_of_its_labels(asked):
    settings = {"likelihood": "dirichlet", "optimizer": "evidence"}
    ConvNetGPClassifier(tiny_network(), **settings).fit(X, y)
    fitted, searched = 7 * 8 * N**2, 8 * 8 * N**2
    assert asked == [fitted, searched, fitted]


@pytest.mark.filterwarnings("ignore:The hyperparameters .* are at a bound")
def test_a_search_by_the_evidence_of_labels_asks_for_matrices_of_each_class(asked):
    settings = {"likelihood": "laplace", "optimizer": "evidence"}
    ConvNetGPClassifier(tiny_network(), **settings).fit(X, y)
    # One for each of ten classes, and four or eight.
    assert asked[:2] == [14 * 8 * N**2, 18 * 8 * N**2]


def test_on_the_cpu_a_kept_factor_takes_nothing_of_the_budget(monkeypatch):
    gp = ConvNetGPRegressor(tiny_network(), device="cpu").fit(X, y)
    reserved = []

    def resolve(budget, **options):
        reserved.append(options["reserved"])
        return 2**20

    monkeypatch.setattr("skconvgp.estimators.settings._compute.as_budget", resolve)
    gp.predict(OTHERS, return_std=True)
    assert reserved == [0]


@pytest.mark.parametrize(
    ("device", "n_workers", "budget"),
    [("cuda", 1, 3000), ("cuda", 2, 2000), ("cuda", 3, 50), ("cuda:2", 1, 0)],
)
def test_budget_of_several_gpus_is_that_of_the_fullest(
    device, n_workers, budget, monkeypatch
):
    free = {None: 7000, 0: 7000, 1: 4000, 2: 100}
    monkeypatch.setattr(f"{RESOLVE}.free_memory", lambda device: free[device.index])
    found = as_budget(None, torch.device(device), 1000, n_workers)
    assert found == budget


def test_functions_ask_for_their_result(asked):
    network, n_others = tiny_network(), len(OTHERS)
    gram_matrix(network, X)
    gram_matrix(network, X, OTHERS, dtype="float64")
    gram_matrix(network, X, out=np.empty((N, N)))
    gram_gradient(network, X, OTHERS)
    gram_diag(network, X)
    gram_vjp(network, X, None, np.ones((N, N)))
    gradient = 3 * 8 * N * n_others  # with the values, by two hyperparameters
    assert asked == [4 * N**2, 8 * N * n_others, 0, gradient, 0, 0]


def test_a_named_device_asks_nobody(asked):
    computed(device="cpu")
    assert asked == []


@pytest.fixture
def filling_gpu(monkeypatch):
    """Let "auto" take a device whose memory runs out when it has begun."""
    prepare = ReferenceBackend.prepare
    placements = []

    def chosen(needed, free):
        placements.append(Placement(CPU, is_optional=True))
        return placements[-1]

    def run_out(self, images):
        if placements:
            placements.clear()
            raise torch.cuda.OutOfMemoryError("tried to allocate 20 MiB")
        return prepare(self, images)

    monkeypatch.setattr(f"{RESOLVE}.choose_placement", chosen)
    monkeypatch.setattr(ReferenceBackend, "prepare", run_out)


@pytest.mark.parametrize("cls", CLASSES)
def test_fit_begins_anew_on_the_cpu_where_memory_runs_out(cls, filling_gpu):
    expected = cls(tiny_network(), device="cpu", **TORCH).fit(X, y)
    gp = cls(tiny_network(), **TORCH).fit(X, y)
    assert gp.fit_report_.device_reason == "it ran out of memory"
    np.testing.assert_array_equal(gp.dual_coef_, expected.dual_coef_)


def test_everything_begins_anew_on_the_cpu_where_memory_runs_out(filling_gpu):
    expected = computed(device="cpu", **TORCH)
    assert_all_equal(computed(**TORCH), expected)


def test_a_named_device_is_not_left():
    def fail(placement):
        raise torch.cuda.OutOfMemoryError("tried to allocate 20 MiB")

    with pytest.raises(TileMemoryError, match=r"run out of memory.* 20 MiB"):
        compute_at(Placement(CPU), fail)


def test_what_ran_out_of_memory_is_tried_once_more_only():
    placements = []

    def fail(placement):
        placements.append(placement)
        raise torch.cuda.OutOfMemoryError("tried to allocate 20 MiB")

    with pytest.raises(torch.cuda.OutOfMemoryError):
        compute_at(Placement(CPU, is_optional=True), fail)
    assert [placement.is_optional for placement in placements] == [True, False]


def set_free_memory(monkeypatch, sizes):
    monkeypatch.setattr(
        "skconvgp.engine._devices.free_memory", lambda device: sizes[device.type]
    )


@pytest.mark.parametrize("device", ["cuda", "auto"])
@pytest.mark.parametrize("cls", CLASSES)
def test_host_without_room_for_what_a_gpu_gives_back_is_an_error_before_any_work(
    cls, device, monkeypatch
):
    monkeypatch.setattr(
        "skconvgp.estimators.settings._compute._exists", lambda device: True
    )
    monkeypatch.setattr(f"{RESOLVE}.gpu_memory", lambda: 10**12)
    set_free_memory(monkeypatch, {"cpu": 3199, "cuda": 10**12})
    gp = cls(tiny_network(), device=device, noise_variance="loo")
    for attempt in (lambda: gp.fit(X, y), lambda: gp.sample_y(X)):
        with pytest.raises(TileMemoryError) as caught:
            attempt()
        for part in ("20 samples", "3200 bytes", "3199 bytes", "'cpu'", "'float32'"):
            assert part in str(caught.value)


@pytest.mark.parametrize("cls", CLASSES)
def test_a_gpu_asked_for_by_name_that_is_too_small_is_an_error(cls, monkeypatch):
    monkeypatch.setattr(
        "skconvgp.estimators.settings._compute._exists", lambda device: True
    )
    set_free_memory(monkeypatch, {"cpu": 10**9, "cuda": 1000})
    gp = cls(tiny_network(), solver="cholesky", noise_variance=1e-4, device="cuda")
    with pytest.raises(TileMemoryError, match=r"6400 bytes.*1000 bytes.*'cuda'"):
        gp.fit(X, y)
