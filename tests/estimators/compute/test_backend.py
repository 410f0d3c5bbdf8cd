"""Which backend computes, in which precision, and what a loaded model does.

Most tests compute with torch under the name "fused", the last ones with the extension.
"""

import pickle
import threading
import time
from dataclasses import dataclass

import joblib
import numpy as np
import pytest
import torch

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    ImageClassifier,
    PatchGPClassifier,
    as_sklearn_kernel,
    gram_diag,
    gram_matrix,
)
from skconvgp.backends import ReferenceBackend
from skconvgp.backends import choose_backend as choose
from skconvgp.backends._fused_cpu import instruction_sets
from skconvgp.kernels import (
    Dense,
    Elementwise,
    Flatten,
    Kernel,
    PatchKernel,
    Sequential,
    rbf,
)
from tests.helpers.estimators import digits, tiny_network
from tests.helpers.fused import BOUNDS, needs_extension

CLASSES = [ConvNetGPClassifier, ConvNetGPRegressor]
CPU = torch.device("cpu")
MISSING = "the compiled extension was left at home"
WINDOWS = PatchKernel(patch_size=3, location_lengthscale=None)
CHOOSERS = [
    "processes.basis._plain.choose_backend",
]
CHOOSERS += ["estimators.settings._compute.choose_backend"]


@dataclass(frozen=True)
class FusedInName:
    """A choice of the fused backend that computes with torch."""

    kernel: Kernel
    name: str = "fused"
    reason: str = ""
    instruction_set: str = "avx512"

    def tiles(self):
        return ReferenceBackend(self.kernel)


@pytest.fixture
def asked(monkeypatch):
    """Run every kernel on the fused backend, but for backend="torch"."""
    calls = []

    def chosen(kernel, image_shape, backend, device):
        calls.append((kernel, image_shape, backend, device))
        if backend == "torch":
            return choose(kernel, image_shape, backend, device)
        return FusedInName(kernel)

    for name in CHOOSERS:
        monkeypatch.setattr(f"skconvgp.{name}", chosen)
    return calls


@pytest.fixture
def without_extension(monkeypatch):
    """Make it a machine without the compiled extension."""
    monkeypatch.setattr("skconvgp.backends._choose.missing_extension", lambda: MISSING)


@pytest.fixture
def data():
    return digits(24)


def precisions(monkeypatch):
    """Return a list that fills with the precisions in which tiles are computed."""
    seen = []
    prepare = ReferenceBackend.prepare

    def recorded(self, images):
        seen.append(images.dtype)
        return prepare(self, images)

    monkeypatch.setattr(ReferenceBackend, "prepare", recorded)
    return seen


def test_wrong_backend_of_gram_diag_is_named(data):
    with pytest.raises(ValueError, match=r"'backend' .* 'torch' or 'fused'.*'jax'"):
        gram_diag(tiny_network(), data[0], backend="jax")


@pytest.mark.parametrize("cls", CLASSES)
def test_backend_is_checked_and_not_used_for_a_precomputed_matrix(cls, data, asked):
    gram = gram_matrix(tiny_network(), data[0], backend="torch", device="cpu")
    asked.clear()
    gp = cls("precomputed", device="cpu", backend="fused").fit(gram, data[1])
    gp.predict(gram)
    assert asked == []
    assert (gp.backend_, gp.dtype_) == ("precomputed", "float64")
    with pytest.raises(ValueError, match="'backend' parameter"):
        cls("precomputed", backend="jax").fit(gram, data[1])


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize(
    ("backend", "dtype", "name", "expected"),
    [
        ("auto", "auto", "fused", "float32"),
        ("fused", "auto", "fused", "float32"),
        ("torch", "auto", "torch", "float64"),
        ("auto", "float64", "fused", "float64"),
        ("torch", "float32", "torch", "float32"),
    ],
)
def test_precision_follows_the_backend(
    cls, backend, dtype, name, expected, data, asked, monkeypatch
):
    seen = precisions(monkeypatch)
    settings = {"backend": backend, "dtype": dtype, "device": "cpu"}
    gp = cls(tiny_network(), **settings).fit(*data)
    gp.predict(data[0])
    assert (gp.backend_, gp.dtype_) == (name, expected)
    assert set(seen) == {getattr(torch, expected)}
    report = gp.fit_report_
    assert (report.backend, report.dtype) == (name, expected)
    assert report.backend_reason == ""
    assert gp.predict_latent(data[0]).dtype == np.float64


def test_functions_return_the_precision_of_the_backend(data, asked):
    kernel, X = tiny_network(), data[0]
    for settings, expected in [
        ({}, np.float32),
        ({"backend": "fused"}, np.float32),
        ({"backend": "torch"}, np.float64),
        ({"dtype": "float64"}, np.float64),
    ]:
        settings |= {"device": "cpu"}
        assert gram_matrix(kernel, X, **settings).dtype == expected
        assert gram_matrix(kernel, X, X[:2], **settings).dtype == expected
        assert gram_diag(kernel, X, **settings).dtype == expected


def test_float32_matrix_has_the_values_of_float64(data, asked):
    coarse = gram_matrix(tiny_network(), data[0], device="cpu")
    fine = gram_matrix(tiny_network(), data[0], device="cpu", backend="torch")
    np.testing.assert_allclose(coarse, fine, rtol=1e-5)
    out = np.empty_like(fine)
    assert gram_matrix(tiny_network(), data[0], device="cpu", out=out) is out
    np.testing.assert_allclose(out, coarse, rtol=1e-7)  # no second rounding in `out`


def test_kernel_inside_scikit_learn_is_float64_on_any_backend(data, asked):
    kernel = as_sklearn_kernel(tiny_network(), image_shape=(8, 8))
    rows = data[0].reshape(len(data[0]), -1)
    assert kernel(rows).dtype == kernel(rows, rows[:3]).dtype == np.float64
    assert kernel.diag(rows).dtype == np.float64
    assert [call[2] for call in asked] == ["auto"] * 3


@pytest.mark.parametrize("backend", ["auto", "fused", "torch"])
def test_chooser_is_told_the_shape_that_the_kernel_sees(backend, data, asked):
    X, y = data
    for kernel, shape in [(tiny_network(), (1, 8, 8)), (rbf(1.0), (64, 1, 1))]:
        gp = ConvNetGPRegressor(kernel, backend=backend, device="cpu").fit(X, y)
        gp.predict(X)
        gram_matrix(kernel, X, backend=backend, device="cpu")
        gram_diag(kernel, X, backend=backend, device="cpu")
        assert {call[1] for call in asked} == {shape}
        assert {call[3] for call in asked} == {CPU}
        assert all(call[0] == kernel for call in asked)
        asked.clear()


@pytest.mark.parametrize("cls", CLASSES)
def test_torch_that_was_asked_for_needs_no_reason(cls, data):
    report = cls(tiny_network(), backend="torch").fit(*data).fit_report_
    assert (report.backend, report.backend_reason) == ("torch", "")
    assert report.instruction_set == ""
    assert "not fused" not in str(report)


@pytest.mark.parametrize("cls", CLASSES)
def test_report_says_why_torch_computed(cls, data, without_extension):
    gp = cls(tiny_network(), device="cpu").fit(*data)
    assert (gp.backend_, gp.dtype_) == ("torch", "float64")
    assert gp.fit_report_.backend_reason == MISSING
    assert f"not fused    {MISSING}" in str(gp.fit_report_).splitlines()


def test_report_names_the_instruction_set(data, asked):
    gp = ConvNetGPRegressor(tiny_network(), device="cpu").fit(*data)
    assert gp.fit_report_.instruction_set == "avx512"
    lines = str(gp.fit_report_).splitlines()
    assert "computed on  cpu, fused backend (avx512), float32" in lines
    gp = ConvNetGPRegressor(tiny_network(), device="cpu", backend="torch").fit(*data)
    assert gp.fit_report_.instruction_set == ""
    lines = str(gp.fit_report_).splitlines()
    assert "computed on  cpu, torch backend, float64" in lines


@pytest.mark.parametrize("cls", CLASSES)
def test_fused_without_the_extension_is_an_error_in_fit(cls, data, without_extension):
    with pytest.raises(ValueError, match=f"backend='fused'.*{MISSING}.*'auto'"):
        cls(tiny_network(), backend="fused").fit(*data)
    with pytest.raises(ValueError, match=f"backend='fused'.*{MISSING}"):
        cls(tiny_network(), backend="fused").sample_y(data[0])


@pytest.mark.parametrize("function", [gram_matrix, gram_diag])
def test_fused_without_the_extension_is_an_error(function, data, without_extension):
    with pytest.raises(ValueError, match=f"backend='fused'.*{MISSING}.*'auto'"):
        function(tiny_network(), data[0], backend="fused")


def test_fused_for_a_network_that_it_cannot_run_is_an_error(data):
    series = Sequential(Flatten(), Dense(), Elementwise(torch.erf), Dense())
    with pytest.raises(ValueError, match=r"backend='fused' cannot run this kernel"):
        ConvNetGPRegressor(series, backend="fused").fit(*data)
    gp = ConvNetGPRegressor(series, device="cpu").fit(*data)
    assert (gp.backend_, gp.dtype_) == ("torch", "float64")
    assert gp.fit_report_.backend_reason


def loaded_elsewhere(gp, monkeypatch):
    """Return a copy of a model on a machine without the compiled extension."""
    data = pickle.dumps(gp)
    for name in CHOOSERS:
        monkeypatch.setattr(f"skconvgp.{name}", choose)
    return pickle.loads(data)


@pytest.mark.parametrize("cls", CLASSES)
def test_loaded_model_predicts_with_torch_in_the_precision_of_fit(
    cls, data, asked, without_extension, monkeypatch
):
    X, y = data
    gp = cls(tiny_network(), backend="fused", device="cpu").fit(X[:20], y[:20])
    expected = gp.predict_latent(X, return_std=True)
    loaded = loaded_elsewhere(gp, monkeypatch)
    seen = precisions(monkeypatch)
    with pytest.warns(UserWarning, match=f"'fused'.*{MISSING}.*`fit`, float32"):
        mean, std = loaded.predict_latent(X, return_std=True)
    assert set(seen) == {torch.float32}
    # The tiles of both are torch's, in one precision: no digit differs.
    np.testing.assert_array_equal(mean, expected[0])
    np.testing.assert_array_equal(std, expected[1])
    assert (loaded.backend_, loaded.dtype_) == ("fused", "float32")


def test_loaded_model_draws_samples_with_torch(
    data, asked, without_extension, monkeypatch
):
    gp = ConvNetGPRegressor(tiny_network(), backend="fused", device="cpu").fit(*data)
    expected = gp.sample_y(data[0], random_state=0)
    loaded = loaded_elsewhere(gp, monkeypatch)
    with pytest.warns(UserWarning, match=MISSING):
        samples = loaded.sample_y(data[0], random_state=0)
    np.testing.assert_array_equal(samples, expected)


def test_what_needs_no_tiles_does_not_warn(data, asked, without_extension, monkeypatch):
    gp = ConvNetGPClassifier(tiny_network(), backend="fused", device="cpu").fit(*data)
    expected = gp.loo_predict_proba()
    loaded = loaded_elsewhere(gp, monkeypatch)
    np.testing.assert_array_equal(loaded.loo_predict_proba(), expected)
    assert loaded.log_marginal_likelihood() == gp.log_marginal_likelihood()


def test_auto_falls_back_without_a_warning(data, asked, without_extension, monkeypatch):
    gp = ConvNetGPRegressor(tiny_network(), device="cpu").fit(*data)
    assert (gp.backend_, gp.dtype_) == ("fused", "float32")
    expected = gp.predict(data[0])
    loaded = loaded_elsewhere(gp, monkeypatch)
    seen = precisions(monkeypatch)
    np.testing.assert_array_equal(loaded.predict(data[0]), expected)
    assert set(seen) == {torch.float32}


def test_model_of_torch_keeps_float64_where_the_fused_backend_is(
    data, asked, monkeypatch
):
    X, y = data
    gp = ConvNetGPRegressor(tiny_network(), backend="torch", device="cpu").fit(X, y)
    expected = gp.predict(X)
    seen = precisions(monkeypatch)
    np.testing.assert_array_equal(gp.set_params(backend="auto").predict(X), expected)
    assert asked[-1][2] == "auto"
    assert set(seen) == {torch.float64}


@dataclass(frozen=True)
class Logged(ReferenceBackend):
    """Writes down which tiles are at work together, and what threads torch may use."""

    log: list
    at_work: set

    def cross(self, one, two):
        self.at_work.add(threading.get_ident())
        entry = (threading.get_ident(), len(self.at_work), torch.get_num_threads())
        self.log.append(entry)
        time.sleep(0.001)
        values = super().cross(one, two)
        self.at_work.discard(threading.get_ident())
        return values


@pytest.mark.parametrize(
    ("n_jobs", "n_workers", "n_threads"),
    [(None, 2, 1), (2, 2, max(1, joblib.cpu_count() // 2))],
)
def test_jobs_share_the_cores(n_jobs, n_workers, n_threads, data, asked, monkeypatch):
    log, at_work = [], set()
    monkeypatch.setattr(
        FusedInName, "tiles", lambda self: Logged(self.kernel, log, at_work)
    )
    monkeypatch.setattr("skconvgp._threads._count_cores", lambda: 2)
    monkeypatch.setattr("skconvgp._threads.SMALL", 0.0)
    monkeypatch.setattr("skconvgp.engine._plan.SMALL_BYTES", 0)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        gram_matrix(tiny_network(), np.repeat(data[0], 4, axis=0), n_jobs=n_jobs)
    finally:
        torch.set_num_threads(before)
    # One pair is computed here, for its size, before any block is cut.
    work = [entry for entry in log if entry[0] != threading.get_ident()]
    assert len(work) >= len(log) - 1 > n_workers
    _, together, settings = zip(*work, strict=True)
    assert max(together) <= n_workers
    assert set(settings) == {n_threads}


def fused(cls, data, **settings):
    """Return a model of three quarters of the data, by the compiled extension."""
    X, y = data
    n = 3 * len(X) // 4
    settings = {"backend": "fused", "device": "cpu", "noise_variance": 0.1} | settings
    gp = cls(tiny_network(), **settings).fit(X[:n], y[:n])
    assert gp.backend_ == "fused"
    assert gp.fit_report_.instruction_set == instruction_sets()[0]
    return gp


def assert_same(got, expected):
    for part, wanted in zip(got, expected, strict=True):
        np.testing.assert_array_equal(part, wanted)


@needs_extension
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.processes
def test_jobs_do_not_change_a_bit_of_the_extension(cls, dtype, data):
    expected = fused(cls, data, dtype=dtype).predict_latent(data[0], return_std=True)
    for backend in ("threading", "loky"):
        with joblib.parallel_config(backend):
            gp = fused(cls, data, dtype=dtype, n_jobs=2)
            assert_same(gp.predict_latent(data[0], return_std=True), expected)


@needs_extension
@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.processes
def test_pickled_model_computes_with_the_extension(cls, data, monkeypatch):
    gp = fused(cls, data)
    expected = gp.predict_latent(data[0], return_std=True)
    loaded = pickle.loads(pickle.dumps(gp))
    task = joblib.delayed(loaded.predict_latent)(data[0], return_std=True)
    for found in joblib.Parallel(n_jobs=2, backend="loky")([task, task]):
        assert_same(found, expected)
    seen = precisions(monkeypatch)
    assert_same(loaded.predict_latent(data[0], return_std=True), expected)
    assert seen == []  # no tile was torch's


@needs_extension
@pytest.mark.parametrize("cls", CLASSES)
def test_torch_takes_over_where_the_extension_is_missing(cls, data, monkeypatch):
    gp = fused(cls, data, backend="auto")
    expected = gp.predict_latent(data[0])
    gram = gram_matrix(tiny_network(), data[0], device="cpu")
    monkeypatch.setattr("skconvgp.backends._fused_cpu._MISSING", MISSING)
    loaded = pickle.loads(pickle.dumps(gp))
    scale = np.abs(expected).max()
    found = loaded.predict_latent(data[0])
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-4 * scale)
    fresh = cls(tiny_network(), device="cpu").fit(*data)
    report = fresh.fit_report_
    assert (report.backend, report.dtype) == ("torch", "float64")
    assert (report.backend_reason, report.instruction_set) == (MISSING, "")
    exact = gram_matrix(tiny_network(), data[0], device="cpu")
    deviation = np.sqrt(np.diag(exact))
    error = np.abs(gram - exact) / np.outer(deviation, deviation)
    assert 0.0 < error.max() < BOUNDS[torch.float32]


def test_a_fit_lowers_its_kernel_once(monkeypatch):
    chosen = []

    def counted(*arguments):
        chosen.append(choose(*arguments))
        return chosen[-1]

    monkeypatch.setattr(f"skconvgp.{CHOOSERS[0]}", counted)
    gp = ConvNetGPClassifier(tiny_network()).fit(*digits(12))
    assert [choice.name for choice in chosen] == [gp.backend_]


@needs_extension
@pytest.mark.parametrize(
    "gp",
    [PatchGPClassifier(), ImageClassifier([WINDOWS, tiny_network()])],
    ids=["patches", "parts"],
)
def test_responses_to_patches_are_fused_after_a_fit_that_was(gp, monkeypatch):
    X, y = digits(20)
    gp.set_params(backend="fused", device="cpu", dtype="float32", random_state=0)
    gp.fit(X, y)
    expected = gp.predict_proba(X)  # without a warning
    missing = "skconvgp.backends._patch_responses.missing_extension"
    monkeypatch.setattr(missing, lambda: MISSING)
    with pytest.warns(UserWarning, match=f"used here: {MISSING}"):
        found = gp.predict_proba(X)
    np.testing.assert_allclose(found, expected, atol=1e-3)
