"""Any way of cutting gives the matrix that one big tile gives."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from skconvgp.backends import ReferenceBackend, TangentBackend
from skconvgp.engine import Block, KernelOracle, MatrixOracle, TileCosts
from skconvgp.engine._store import TensorStore
from skconvgp.kernels import (
    Conv2d,
    Dense,
    Elementwise,
    Flatten,
    ReLU,
    Residual,
    Sequential,
    arcsine,
    convnet,
    matern,
    rbf,
)
from tests.helpers.tiles import (
    PlaceBackend,
    WatchedBackend,
    config,
    numbered_images,
    run_in_threads,
    run_shuffled,
    small_tiles,
)
from tests.helpers.tolerances import assert_close

N, N_OTHERS = 23, 17
SHAPE = (2, 5, 6)
BLOCK, TILE = 7, 3  # blocks of 7, 7, 7, 2 images; tiles of 3, 3, 1
DTYPES = [torch.float64, torch.float32]
KERNELS = {
    "convnet": convnet(depth=2, kernel_size=3),
    "resnet": Sequential(
        Conv2d(3, weight_variance=2.0, bias_variance=0.1),
        Residual(ReLU(), Conv2d(3, bias_variance=0.1)),
        ReLU(),
        Conv2d(3, stride=2),
        ReLU(),
        Flatten(),
        Dense(),
    ),
    "quadrature": Sequential(
        Conv2d(3), Elementwise(torch.tanh, n_nodes=16), Flatten(), Dense()
    ),
    "rbf": rbf(lengthscale=2.0),
    "matern": matern(lengthscale=3.0, nu=2.5),
    "arcsine": arcsine(),
    "mixture": convnet(depth=1, kernel_size=3) * rbf(3.0) + 0.5 * arcsine(),
}
everywhere = pytest.mark.parametrize("dtype", DTYPES)
every_kernel = pytest.mark.parametrize("name", KERNELS)


def some_images(n, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, *SHAPE, generator=generator, dtype=torch.float64)


IMAGES, OTHERS = some_images(N), some_images(N_OTHERS, seed=1)


def one_big_tile(kernel, rows, cols, dtype):
    return kernel.cross(kernel.prepare(rows.to(dtype)), kernel.prepare(cols.to(dtype)))


def pair_bytes(kernel, dtype):
    image = torch.zeros(1, *SHAPE, dtype=dtype)
    return ReferenceBackend(kernel).measure(image).pair_bytes


def watched(kernel, images=IMAGES, **settings):
    return KernelOracle(
        WatchedBackend(ReferenceBackend(kernel)), images, config(**settings)
    )


def tight_budget(kernel, dtype=torch.float64):
    """Return a budget in which the tables of all images do not fit."""
    costs = watched(kernel, dtype=dtype).costs
    return 2 * N * costs.image_bytes - 1


@everywhere
@every_kernel
def test_gram_is_that_of_one_big_tile(name, dtype):
    kernel = KERNELS[name]
    oracle = watched(kernel, dtype=dtype)
    with small_tiles(BLOCK, TILE, pair_bytes(kernel, dtype)):
        gram = oracle.gram()
    sides = {rows for rows, _ in oracle.backend.tiles}
    assert sides == {3, 1, 2}  # tiles were cut, ragged ones too
    assert gram.dtype == torch.float64
    assert_close(gram, one_big_tile(kernel, IMAGES, IMAGES, dtype), dtype)


@everywhere
@every_kernel
def test_gram_is_symmetric_to_the_bit_with_exact_diagonal(name, dtype):
    kernel = KERNELS[name]
    oracle = watched(kernel, dtype=dtype)
    with small_tiles(BLOCK, TILE, pair_bytes(kernel, dtype)):
        gram, diag = oracle.gram(), oracle.diag()
    assert torch.equal(gram, gram.mT)
    variance = kernel.diag(kernel.prepare(IMAGES.to(dtype)))
    assert_close(diag, variance, dtype)
    assert torch.equal(gram.diagonal(), diag)


def test_diagonal_of_a_stationary_kernel_is_one_to_the_bit():
    with small_tiles(BLOCK, TILE, 32):
        gram = watched(rbf(0.01), dtype=torch.float32).gram()
    assert torch.equal(gram.diagonal(), torch.ones(N, dtype=torch.float64))


@everywhere
@every_kernel
def test_cross_is_that_of_one_big_tile(name, dtype):
    kernel = KERNELS[name]
    oracle = watched(kernel, dtype=dtype)
    with small_tiles(BLOCK, TILE, pair_bytes(kernel, dtype)):
        cross = oracle.cross(OTHERS)
    assert {rows for rows, _ in oracle.backend.tiles} == {3, 1}
    assert_close(cross, one_big_tile(kernel, OTHERS, IMAGES, dtype), dtype)


@everywhere
@pytest.mark.parametrize("n_rows", [1, 5, N_OTHERS, 100])
def test_stream_gives_cross_and_prior_variances_piece_by_piece(n_rows, dtype):
    kernel = KERNELS["convnet"]
    oracle = watched(kernel, dtype=dtype)
    with small_tiles(BLOCK, TILE, pair_bytes(kernel, dtype)):
        pieces = list(oracle.stream(OTHERS, n_rows))
    assert all(len(cross) <= n_rows for cross, _ in pieces)
    cross, diag = (torch.cat(parts) for parts in zip(*pieces, strict=True))
    assert_close(cross, one_big_tile(kernel, OTHERS, IMAGES, dtype), dtype)
    assert_close(diag, kernel.diag(kernel.prepare(OTHERS.to(dtype))), dtype)


@settings(deadline=None, max_examples=60)
@given(
    n=st.integers(1, 24),
    n_others=st.integers(1, 24),
    block=st.integers(1, 27),
    tile=st.integers(1, 27),
    memory_budget=st.integers(600, 10_000),
    n_workers=st.integers(1, 3),
    runner=st.sampled_from([run_shuffled, run_in_threads]),
)
def test_every_value_lands_in_its_place(
    n, n_others, block, tile, memory_budget, n_workers, runner
):
    settings = config(memory_budget=memory_budget, n_workers=n_workers)
    images, others = numbered_images(n), numbered_images(n_others)
    with small_tiles(block, tile, 64):
        gram = KernelOracle(PlaceBackend(True), images, settings, runner).gram()
        oracle = KernelOracle(PlaceBackend(False), images, settings, runner)
        cross = oracle.cross(others)
    i = np.arange(n)
    larger, smaller = np.maximum.outer(i, i), np.minimum.outer(i, i)
    np.testing.assert_array_equal(gram, 1000 * larger + smaller)
    np.testing.assert_array_equal(cross, 1000 * np.arange(n_others)[:, None] + i)


def test_results_are_written_to_a_given_matrix():
    out = torch.full((N, N), torch.nan, dtype=torch.float32)
    oracle = watched(rbf(1.0))
    assert oracle.gram(out) is out
    assert_close(out, oracle.gram(), torch.float32)
    out = torch.full((N_OTHERS, N), torch.nan, dtype=torch.float32)
    assert oracle.cross(OTHERS, out) is out
    assert_close(out, oracle.cross(OTHERS), torch.float32)


def test_tables_that_fit_are_computed_once_for_each_image():
    kernel = KERNELS["convnet"]
    oracle = watched(kernel)
    with small_tiles(BLOCK, TILE, pair_bytes(kernel, torch.float64)):
        oracle.diag()
        oracle.gram()
    assert oracle.backend.n_prepared == N


def test_prior_variances_are_computed_once_and_only_when_they_are_wanted(monkeypatch):
    oracle, n_computed = watched(KERNELS["convnet"]), []
    of_backend = ReferenceBackend.diag

    def diag(backend, one):
        values = of_backend(backend, one)
        n_computed.append(len(values))
        return values

    monkeypatch.setattr(ReferenceBackend, "diag", diag)
    exact = list(oracle.stream(OTHERS, 5, needs_diag=False))
    assert not n_computed
    for (cross, zeros), (expected, _) in zip(
        exact, oracle.stream(OTHERS, 5), strict=True
    ):
        assert torch.equal(cross, expected)
        assert torch.equal(zeros, torch.zeros_like(zeros))
    n_computed.clear()
    for _ in range(2):
        oracle.diag()
        oracle.block(None, torch.arange(3))
    assert sum(n_computed) == N


def test_tables_of_training_images_are_computed_once_while_predicting():
    kernel = KERNELS["convnet"]
    oracle = watched(kernel)
    with small_tiles(BLOCK, TILE, pair_bytes(kernel, torch.float64)):
        list(oracle.stream(OTHERS, 5))
    assert oracle.backend.n_prepared == N + N_OTHERS


def test_streaming_leaves_half_of_the_budget_to_what_is_streamed():
    kernel = KERNELS["convnet"]
    all_tables = (N + N_OTHERS) * watched(kernel).costs.image_bytes
    for budget, fits in ((4 * all_tables, True), (4 * all_tables - 2, False)):
        oracle = watched(kernel, memory_budget=budget)
        with small_tiles(BLOCK, TILE, pair_bytes(kernel, torch.float64)):
            list(oracle.stream(OTHERS, N_OTHERS))
        assert (oracle.backend.n_prepared == N + N_OTHERS) is fits


@everywhere
@pytest.mark.parametrize("name", ["convnet", "resnet", "quadrature", "mixture"])
def test_tables_that_do_not_fit_give_the_same_matrix(name, dtype):
    kernel = KERNELS[name]
    oracle = watched(kernel, dtype=dtype, memory_budget=tight_budget(kernel, dtype))
    with small_tiles(BLOCK, TILE, pair_bytes(kernel, dtype)):
        gram, diag = oracle.gram(), oracle.diag()
        cross = oracle.cross(OTHERS)
    assert oracle.backend.n_prepared > 2 * N
    assert torch.equal(gram.diagonal(), diag)
    assert_close(gram, one_big_tile(kernel, IMAGES, IMAGES, dtype), dtype)
    assert_close(cross, one_big_tile(kernel, OTHERS, IMAGES, dtype), dtype)


@pytest.mark.parametrize("runner", [run_shuffled, run_in_threads])
def test_runner_may_take_the_blocks_in_any_order(runner):
    kernel = KERNELS["convnet"]
    backend = ReferenceBackend(kernel)
    with small_tiles(BLOCK, TILE, pair_bytes(kernel, torch.float64)):
        serial = KernelOracle(backend, IMAGES, config())
        other = KernelOracle(backend, IMAGES, config(n_workers=3), runner)
        assert torch.equal(other.gram(), serial.gram())
        assert torch.equal(other.cross(OTHERS), serial.cross(OTHERS))


def test_variances_may_be_changed_by_who_asks_for_them():
    oracle = KernelOracle(ReferenceBackend(KERNELS["rbf"]), IMAGES, config())
    diag = oracle.diag()
    expected = diag.clone()
    diag -= 0.5
    assert torch.equal(oracle.diag(), expected)
    assert torch.equal(oracle.gram().diagonal(), expected)


@pytest.mark.parametrize("runner", [run_shuffled, run_in_threads])
def test_progress_only_grows_and_ends_at_the_number_of_pairs(runner):
    calls = []
    oracle = KernelOracle(
        ReferenceBackend(rbf(1.0)),
        IMAGES,
        config(),
        runner,
        lambda done, total: calls.append((done, total)),
    )
    with small_tiles(BLOCK, TILE, 64):
        oracle.gram()
        n_pairs = N * (N + 1) // 2
        assert len(calls) == 1 + 10  # the start; four blocks a side, one triangle
        assert_progress(calls, n_pairs)
        calls.clear()
        oracle.cross(OTHERS)
        assert_progress(calls, N_OTHERS * N)
        calls.clear()
        list(oracle.stream(OTHERS, 5))
        assert_progress(calls, N_OTHERS * N)


def assert_progress(calls, n_pairs):
    done = [pairs for pairs, _ in calls]
    assert done[0] == 0
    assert done == sorted(set(done))
    assert {total for _, total in calls} == {n_pairs}
    assert done[-1] == n_pairs


class LinearBackend:
    """Third-party backend for the inner product of images."""

    def prepare(self, images):
        return images.flatten(1).mT

    def cross(self, one, two):
        return one.mT @ two

    def gram(self, one):
        return one.mT @ one

    def diag(self, one):
        return (one * one).sum(0)

    def measure(self, image):
        return TileCosts(image.nbytes, pair_bytes=64, value_bytes=8)


def test_third_party_backend_needs_five_methods_and_no_base_class():
    x, z = IMAGES.flatten(1).numpy(), OTHERS.flatten(1).numpy()
    oracle = KernelOracle(LinearBackend(), IMAGES, config())
    with small_tiles(BLOCK, TILE, 64):
        assert_close(oracle.gram(), x @ x.T)
        assert_close(oracle.diag(), (x * x).sum(1))
        assert_close(oracle.cross(OTHERS), z @ x.T)


def test_overflow_in_double_precision_is_not_told_to_take_it():
    images = torch.full((2, *SHAPE), 1e200, dtype=torch.float64)
    oracle = KernelOracle(ReferenceBackend(convnet(depth=1)), images, config())
    with pytest.raises(ValueError, match=r"not finite .*scale X.*variances") as caught:
        oracle.gram()
    assert "dtype=" not in str(caught.value)


@pytest.mark.parametrize("method", ["diag", "stream"])
def test_overflow_of_the_prior_variance_is_refused_with_a_remedy(method):
    images = torch.full((N, *SHAPE), 1e18, dtype=torch.float64)
    images[3:] = 1.0
    kernel = convnet(depth=4)
    oracle = KernelOracle(ReferenceBackend(kernel), images, config(dtype=torch.float32))
    with (
        small_tiles(BLOCK, TILE, pair_bytes(kernel, torch.float32)),
        pytest.raises(ValueError, match=r"3 of 23 .* not finite .*dtype='float64'"),
    ):
        oracle.diag() if method == "diag" else list(oracle.stream(images, N))
    double = KernelOracle(ReferenceBackend(kernel), images, config())
    assert torch.isfinite(double.diag()).all()


def test_tangents_of_a_tiled_gram_are_derivatives():
    kernel = convnet(depth=2, kernel_size=3, weight_variance=1.5, bias_variance=0.5)
    images, step = IMAGES[:11], 1e-5
    with small_tiles(4, 3, 2 * pair_bytes(kernel, torch.float64)):
        both = KernelOracle(TangentBackend(kernel), images, config()).gram()
    assert both.shape == (11, 11, 3)
    assert torch.equal(both, both.transpose(0, 1))

    def gram(theta):
        backend = ReferenceBackend(kernel.with_theta(theta))
        return KernelOracle(backend, images, config()).gram()

    assert_close(both[..., 0], gram(kernel.theta))
    for k, direction in enumerate(np.eye(2) * step):
        ahead, behind = gram(kernel.theta + direction), gram(kernel.theta - direction)
        difference = (ahead - behind) / (2.0 * step)
        torch.testing.assert_close(both[..., 1 + k], difference, rtol=1e-7, atol=1e-7)


def test_tangents_by_no_hyperparameter_leave_the_value():
    kernel = rbf(2.0, lengthscale_bounds="fixed")
    both = KernelOracle(TangentBackend(kernel), IMAGES, config()).gram()
    assert both.shape == (N, N, 1)
    assert_close(both[..., 0], one_big_tile(kernel, IMAGES, IMAGES, torch.float64))


def test_matrix_oracle_copies_and_symmetrises():
    matrix = torch.tensor([[2.0, 1.0], [1.5, 3.0]], dtype=torch.float64)
    before = matrix.clone()
    oracle = MatrixOracle(matrix, config())
    gram, diag = oracle.gram(), oracle.diag()
    assert oracle.n_samples == 2
    assert gram.tolist() == [[2.0, 1.25], [1.25, 3.0]]
    assert diag.tolist() == [2.0, 3.0]
    gram.zero_()
    diag.zero_()
    assert torch.equal(matrix, before)


class Recorder(TorchDispatchMode):
    """Lists the operations that torch carries out."""

    def __init__(self):
        super().__init__()
        self.operations = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.operations.append(func.name())
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("n_values", [(), (3,)])
def test_threads_of_torch_do_not_copy_finished_blocks(n_values):
    out = torch.zeros(4, 4, *n_values)
    store = TensorStore(out, True)
    values = torch.rand(2, 2, *n_values, dtype=torch.float64)
    with Recorder() as recorder:
        store.write(Block(slice(0, 2), slice(2, 4), False), values)
    assert not any("copy" in name for name in recorder.operations)
    torch.testing.assert_close(out[:2, 2:], values.float())
    assert torch.equal(out[2:, :2], out[:2, 2:].transpose(0, 1))
    assert not out[:2, :2].any()
    assert not out[2:, 2:].any()
