"""Estimators and functions on a GPU: memory, precision, other machines, compiling."""

import math
import os
import pickle
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    NystromCompletedGP,
    gram_diag,
    gram_matrix,
)
from skconvgp._config import ComputeConfig
from skconvgp._protocols import TileBackend
from skconvgp.backends._nvrtc import compile_cuda
from skconvgp.completion import (
    CoarseKernel,
    MatrixFactorization,
    NearestNeighbors,
    Nystrom,
    SubsetOfData,
)
from skconvgp.engine import KernelOracle, use_gpu
from skconvgp.engine._transfer import SMALLEST, to_device, to_host
from skconvgp.exceptions import TileMemoryError
from skconvgp.flows import LBFGS
from skconvgp.kernels import GELU, Conv2d, Dense, Flatten, Sequential, convnet, rbf
from skconvgp.solvers import ConjugateGradient
from tests.helpers.estimators import digits, tiny_network
from tests.helpers.fused import images
from tests.helpers.gpu import GPU, GPU_BOUNDS, chosen, coarse_products

pytestmark = pytest.mark.gpu
ROOT = Path(__file__).parents[2]
CG = ConjugateGradient(rank=40, tolerance=1e-8)
CLASSES = [ConvNetGPClassifier, ConvNetGPRegressor]
WITH_GELU = Sequential(Conv2d(3), GELU(), Flatten(), Dense())
LATER = """
import pickle, sys
from pathlib import Path
import numpy as np, torch
assert not torch.cuda.is_available()
model, X, target = map(Path, sys.argv[1:])
gp = pickle.loads(model.read_bytes())
mean, std = gp.predict_latent(np.load(X), return_std=True)
np.savez(target, mean=mean, std=std)
"""


def relative_error(gram, exact):
    deviation = np.sqrt(np.diag(exact))
    return (np.abs(gram - exact) / np.outer(deviation, deviation)).max()


@pytest.fixture(scope="module")
def data():
    return digits(120)


@pytest.mark.parametrize("backend", ["fused", "torch"])
def test_several_gpus_give_the_matrix_of_one(data, backend, monkeypatch):
    # Where there is one GPU it has two threads.
    n_gpus = torch.cuda.device_count()
    monkeypatch.setattr(
        "skconvgp.estimators.compute._parallel.count_gpus", lambda: max(n_gpus, 2)
    )
    monkeypatch.setattr(
        "skconvgp.estimators.compute._parallel.use_gpu",
        lambda index: use_gpu(index % n_gpus),
    )
    settings = {"device": "cuda", "backend": backend, "memory_budget": "64 MiB"}
    one = gram_matrix(convnet(depth=2), data[0], **settings)
    two = gram_matrix(convnet(depth=2), data[0], n_jobs=2, **settings)
    assert relative_error(two, one) <= (0.0 if backend == "fused" else 1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_matrix_of_the_gpu_is_that_of_the_processor(data, dtype):
    kernel, X = convnet(3, 3), data[0]
    exact = gram_matrix(kernel, X, device="cpu", backend="torch", dtype="float64")
    settings = {"device": str(GPU), "backend": "fused", "dtype": dtype}
    gram = gram_matrix(kernel, X, **settings)
    bound = GPU_BOUNDS[getattr(torch, dtype)]
    assert gram.dtype == dtype
    assert np.array_equal(gram, gram.T)
    assert relative_error(gram, exact) <= bound
    cross = gram_matrix(kernel, X[:50], X[50:], **settings)
    assert np.array_equal(cross, gram[:50, 50:])
    # Rounded to the precision of the result.
    assert np.array_equal(
        gram_diag(kernel, X, **settings).astype(dtype), gram.diagonal()
    )


@pytest.mark.parametrize("cls", CLASSES)
def test_auto_takes_the_gpu(cls, data):
    gp = cls(tiny_network()).fit(*data)
    report = gp.fit_report_
    assert torch.device(gp.device_).type == GPU.type
    assert (gp.backend_, gp.dtype_, report.backend_reason) == ("fused", "float32", "")


@pytest.mark.parametrize("cls", CLASSES)
def test_kernel_that_the_gpu_cannot_fuse_goes_to_torch_with_the_reason(cls, data):
    gp = cls(WITH_GELU).fit(*data)
    assert torch.device(gp.device_).type == GPU.type
    assert gp.backend_ == "torch"
    assert "GELU" in gp.fit_report_.backend_reason
    exact = cls(WITH_GELU, device="cpu", dtype="float64").fit(*data)
    expected = exact.predict_latent(data[0])
    error = np.abs(gp.predict_latent(data[0]) - expected).max()
    assert error <= 1e-3 * np.abs(expected).max()


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("device", ["auto", str(GPU)])
def test_model_fitted_on_a_gpu_predicts_without_one(cls, device, data, tmp_path):
    X, y = data
    gp = cls(tiny_network(), device=device, backend="fused", noise_variance=0.1)
    mean, std = gp.fit(X[:90], y[:90]).predict_latent(X, return_std=True)
    assert torch.device(gp.device_).type == GPU.type
    (tmp_path / "model").write_bytes(pickle.dumps(gp))
    np.save(tmp_path / "X.npy", X)
    names = [str(tmp_path / name) for name in ("model", "X.npy", "latent.npz")]
    done = subprocess.run(
        [sys.executable, "-c", LATER, *names],
        cwd=ROOT,
        env=os.environ | {"CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # It warns where the GPU was asked for by name.
    assert ("UserWarning" in done.stderr) == (device != "auto")
    with np.load(tmp_path / "latent.npz") as later:
        for found, expected in ((later["mean"], mean), (later["std"], std)):
            assert np.abs(found - expected).max() <= 1e-4 * np.abs(expected).max()


@dataclass(frozen=True)
class Crowded:
    """Runs out of memory on tiles of more pairs than it has room for."""

    backend: TileBackend
    room: int

    def measure(self, image):
        return self.backend.measure(image)

    def prepare(self, images):
        return self.backend.prepare(images)

    def cross(self, one, two):
        return self._checked(self.backend.cross(one, two))

    def gram(self, one):
        return self._checked(self.backend.gram(one))

    def diag(self, one):
        return self.backend.diag(one)

    def _checked(self, values):
        if values.shape[0] * values.shape[1] > self.room:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory.")
        return values


@pytest.mark.parametrize("room", [1, 50, 1000])
def test_tiles_get_smaller_where_memory_runs_out(room):
    kernel, shape = convnet(2, 3), (1, 8, 8)
    backend, given = chosen(kernel, shape).tiles(), images(41, shape)
    settings = ComputeConfig(GPU, dtype=torch.float32)
    whole = KernelOracle(backend, given, settings)
    crowded = KernelOracle(Crowded(backend, room), given, settings)
    assert torch.equal(crowded.gram(), whole.gram())
    assert torch.equal(crowded.cross(given[:9]), whole.cross(given[:9]))


def test_pair_that_does_not_fit_is_an_error_of_memory():
    kernel, shape = convnet(2, 3), (1, 8, 8)
    backend = Crowded(chosen(kernel, shape).tiles(), room=0)
    settings = ComputeConfig(GPU, dtype=torch.float32)
    with pytest.raises(TileMemoryError):
        KernelOracle(backend, images(5, shape), settings).gram()


@pytest.fixture
def full_gpu():
    """Leave next to nothing of the memory to others."""
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info(GPU)
    taken = torch.empty(free - 64 * 2**20, dtype=torch.uint8, device=GPU)
    yield
    del taken
    torch.cuda.empty_cache()


@pytest.mark.parametrize("cls", CLASSES)
def test_auto_works_where_others_use_the_gpu(cls, data, full_gpu):
    X, y = data
    expected = cls(tiny_network(), device="cpu").fit(X, y).predict_latent(X)
    found = cls(tiny_network()).fit(X, y).predict_latent(X)
    assert np.abs(found - expected).max() <= 1e-3 * np.abs(expected).max()


@pytest.mark.parametrize("backend", ["torch", "fused"])
def test_no_tf32(backend):
    X = images(40, (3, 8, 8)).numpy()  # products over channels
    kernel = convnet(2, 3, bias_variance=0.0)
    exact = gram_matrix(kernel, X, device="cpu", backend="torch", dtype="float64")
    with coarse_products() as is_coarse:
        gram = gram_matrix(kernel, X, device=str(GPU), backend=backend, dtype="float32")
        assert is_coarse()
    assert relative_error(gram, exact) <= GPU_BOUNDS[torch.float32]


@pytest.mark.parametrize(("noise", "n_matrices"), [(0.1, 2), ("auto", 7)])
def test_no_matrix_is_held_beside_those_that_are_counted(noise, n_matrices):
    random, matrix = np.random.default_rng(0), 8 * 4000**2
    X, y = random.random((4000, 5)), random.random(4000)
    gp = ConvNetGPRegressor(
        rbf(1.0), noise_variance=noise, device=str(GPU), memory_budget="16 MiB"
    )
    gp.fit(X[:100], y[:100]).predict(X[:10], return_std=True)  # loads libraries
    for n_held, call in (
        (n_matrices, lambda: gp.fit(X, y)),
        (1, lambda: gp.predict(X, return_std=True)),
        (1, gp.loo_predict),
    ):
        torch.cuda.reset_peak_memory_stats(GPU)
        before = torch.cuda.memory_allocated(GPU)
        call()
        peak = torch.cuda.max_memory_allocated(GPU) - before
        # Of a budget of 16 MiB, and the work space of libraries.
        assert peak <= n_held * matrix + 64 * 2**20


def test_other_hyperparameters_are_not_compiled_again():
    X = images(9, (1, 11, 13)).numpy()  # no other test has this size
    before = compile_cuda.cache_info().misses

    def compute(*settings, rows=X):
        kernel = convnet(2, 5, *settings)
        exact = gram_matrix(kernel, rows, device="cpu", dtype="float64")
        gram = gram_matrix(kernel, rows, device=str(GPU), backend="fused")
        assert relative_error(gram, exact) <= GPU_BOUNDS[torch.float32]
        return compile_cuda.cache_info().misses - before

    first = compute(1.3, 0.7)
    assert first > 0
    assert compute(0.4, 2.5) == first
    assert compute(1.3, 0.7, rows=X[:3]) == first
    assert compute(1.3, 0.7, rows=X[..., 1:]) > first


@pytest.mark.parametrize("is_transposed", [False, True])
def test_large_matrices_come_from_the_gpu_and_go_there_in_parts(is_transposed):
    n = math.isqrt(SMALLEST // 4) + 77
    matrix = torch.rand(n, n, device=GPU)
    matrix = matrix.mT if is_transposed else matrix
    host = to_host(matrix)
    assert host.stride() == matrix.stride()
    assert torch.equal(host, matrix.cpu())
    assert torch.equal(to_device(host, GPU), matrix)


@pytest.mark.parametrize(
    "completion",
    [
        Nystrom(n_landmarks=40, landmarks="random_pivoted"),
        MatrixFactorization(rank=5, max_iter=5),
        SubsetOfData(),
        CoarseKernel(depth=1),
        CoarseKernel(depth=1, exact=Nystrom(40)),
        NearestNeighbors(20),
    ],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore:.*did not converge")
def test_completions_on_the_gpu_are_those_of_the_processor(completion, data):
    settings = {"completion": completion, "random_state": 0, "dtype": "float64"}
    mine, expected = (
        ConvNetGPClassifier(convnet(2, 3), device=device, **settings).fit(*data)
        for device in (str(GPU), "cpu")
    )
    assert mine.device_ == str(GPU)
    for one, two in zip(
        mine.predict_latent(data[0], return_std=True),
        expected.predict_latent(data[0], return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "settings",
    [
        {"noise_variance": "loo"},
        {"likelihood": "dirichlet"},
        {"likelihood": "laplace"},
        {"optimizer": LBFGS(max_iter=3)},
        {"solver": CG},
        {"solver": CG, "memory_budget": "200 KiB"},
        {"solver": CG, "optimizer": LBFGS(max_iter=3)},
    ],
    ids=" ".join,
)
def test_ways_to_fit_on_the_gpu_are_those_of_the_processor(settings, data):
    settings = {"random_state": 0, "dtype": "float64"} | settings
    mine, expected = (
        ConvNetGPClassifier(convnet(2, 3), device=device, **settings).fit(*data)
        for device in (str(GPU), "cpu")
    )
    for one, two in zip(
        mine.predict_latent(data[0], return_std=True),
        expected.predict_latent(data[0], return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(one, two, rtol=1e-3, atol=1e-5)


def test_more_samples_on_the_gpu():
    X, labels = digits(300)
    gp = NystromCompletedGP(
        tiny_network(), n_landmarks=30, device=str(GPU), random_state=0
    )
    gp.partial_fit(X[:150], labels[:150], classes=np.unique(labels))
    assert gp.partial_fit(X[150:], labels[150:]).score(X, labels) > 0.85
