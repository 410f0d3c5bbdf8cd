"""Gram matrices of samples with their neighbours: entries of the whole matrix."""

import numpy as np
import pytest
import torch

from skconvgp.backends import ReferenceBackend
from skconvgp.engine import (
    KernelOracle,
    MatrixOracle,
    kernel_neighborhoods,
    matrix_neighborhoods,
    nearest,
)
from skconvgp.exceptions import TileMemoryError
from skconvgp.kernels import convnet, rbf
from tests.helpers.fused import fused, needs_extension
from tests.helpers.memory import needs_peak, peak_memory
from tests.helpers.oracles import seeded
from tests.helpers.tiles import (
    PlaceBackend,
    ScarceBackend,
    config,
    numbered_images,
    run_in_threads,
    run_shuffled,
    small_tiles,
)
from tests.helpers.tolerances import assert_close

N, N_NEW, K = 40, 35, 7
MIB = 2**20
AMPLE = 2**30


def some_values(n_rows=N_NEW, n_cols=N, seed=0):
    return torch.randn(n_rows, n_cols, generator=seeded(seed), dtype=torch.float64)


def some_neighbors(n_rows=N_NEW, n_cols=N, k=K):
    return nearest(some_values(n_rows, n_cols).__getitem__, (n_rows, n_cols), k, AMPLE)


def gathered(parts, n_rows=N_NEW):
    """Return the matrices of all samples, each of which must come once."""
    found = {}
    for part, grams in parts:
        assert grams.shape[0] == part.stop - part.start
        found |= dict(zip(range(part.start, part.stop), grams, strict=True))
    assert sorted(found) == list(range(n_rows))
    return torch.stack([found[i] for i in range(n_rows)])


def images(n, seed=0):
    return torch.rand(n, 1, 6, 5, generator=seeded(seed), dtype=torch.float64)


@pytest.mark.parametrize("budget", [1, 20_000, AMPLE])
def test_the_most_similar_samples_are_found_in_any_budget(budget):
    values = some_values()
    found = nearest(values.__getitem__, (N_NEW, N), K, budget)
    expected = np.sort(np.argsort(-values.numpy(), axis=1)[:, :K], axis=1)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("only_earlier", [False, True])
@pytest.mark.parametrize("budget", [1, AMPLE])
def test_samples_are_no_neighbors_of_themselves(only_earlier, budget):
    values = some_values(N, N)
    values += values.mT + 10.0 * torch.eye(N, dtype=torch.float64)
    numbers = torch.arange(K, N)
    found = nearest(
        lambda part: values[numbers[part]],
        (N - K, N),
        K,
        budget,
        numbers,
        only_earlier=only_earlier,
    )
    for number, near in zip(numbers.tolist(), found.tolist(), strict=True):
        allowed = [j for j in range(N) if (j < number if only_earlier else j != number)]
        best = sorted(allowed, key=lambda j: -float(values[number, j]))[:K]
        assert near == sorted(best)


def test_all_samples_are_neighbors_where_as_many_are_asked_for():
    found = nearest(some_values().__getitem__, (N_NEW, N), N, AMPLE)
    np.testing.assert_array_equal(found, np.tile(np.arange(N), (N_NEW, 1)))


@pytest.mark.parametrize("run", [None, run_shuffled, run_in_threads])
@pytest.mark.parametrize("tile", [1, 3, 100])
def test_every_pair_is_in_its_place(run, tile):
    settings = {} if run is None else {"runner": run}
    backend = PlaceBackend(is_symmetric=False)
    oracle = KernelOracle(backend, numbered_images(N), config(), **settings)
    new, near = 100 + numbered_images(N_NEW), some_neighbors()
    with small_tiles(block=5, tile=tile, pair_bytes=64):
        grams = gathered(kernel_neighborhoods(oracle, new.__getitem__, near))
    for i, gram in enumerate(grams):
        numbers = torch.cat([torch.tensor([100 + i]), near[i]])
        expected = 1000 * numbers[:, None] + numbers
        expected = expected.triu() + expected.triu(1).mT  # a new sample comes first
        np.testing.assert_array_equal(gram, expected)


@needs_extension
@pytest.mark.parametrize("budget", [400_000, AMPLE])
def test_values_are_bitwise_those_of_the_matrices_of_all(budget):
    samples, new = images(N), images(N_NEW, seed=1)
    backend = fused(convnet(depth=2, kernel_size=3), tuple(samples.shape[1:]))
    settings = config(dtype=torch.float32, memory_budget=budget)
    oracle, near = KernelOracle(backend, samples, settings), some_neighbors()
    grams = gathered(kernel_neighborhoods(oracle, new.__getitem__, near))
    gram, cross = oracle.gram(), oracle.cross(new)
    assert torch.equal(grams[:, 1:, 1:], gram[near[:, :, None], near[:, None]])
    assert torch.equal(grams[:, 0, 1:], cross.gather(1, near))
    assert torch.equal(grams[:, 1:, 0], cross.gather(1, near))
    variances = KernelOracle(backend, new, settings).diag()
    assert torch.equal(grams[:, 0, 0], variances)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_values_by_torch_are_those_of_the_matrices_of_all(dtype):
    samples, new = images(N), images(N_NEW, seed=1)
    backend = ReferenceBackend(convnet(depth=2, kernel_size=3))
    oracle, near = KernelOracle(backend, samples, config(dtype=dtype)), some_neighbors()
    grams = gathered(kernel_neighborhoods(oracle, new.__getitem__, near))
    gram, cross = oracle.gram(), oracle.cross(new)
    assert_close(grams[:, 1:, 1:], gram[near[:, :, None], near[:, None]], dtype)
    assert_close(grams[:, 0, 1:], cross.gather(1, near), dtype)
    assert torch.equal(grams, grams.mT)


def test_a_given_matrix_has_the_means_across_its_diagonal():
    generator = seeded(2)
    matrix = torch.randn(N, N, generator=generator, dtype=torch.float64)
    cross, near = some_values(seed=3), some_neighbors()
    diag = torch.arange(1.0, 1.0 + N_NEW, dtype=torch.float64)
    before = matrix.clone()
    oracle = MatrixOracle(matrix, config())
    grams = gathered(matrix_neighborhoods(oracle, cross.__getitem__, diag, near))
    mean = (matrix + matrix.mT) / 2.0
    assert torch.equal(grams[:, 1:, 1:], mean[near[:, :, None], near[:, None]])
    assert torch.equal(grams[:, 0, 1:], cross.gather(1, near))
    assert torch.equal(grams[:, 1:, 0], cross.gather(1, near))
    assert torch.equal(grams[:, 0, 0], diag)
    assert torch.equal(matrix, before)


def test_progress_counts_the_pairs_of_all():
    steps = []
    oracle = KernelOracle(
        ReferenceBackend(rbf(1.0)),
        images(N),
        config(),
        on_step=lambda *step: steps.append(step),
    )
    new = images(N_NEW, seed=1)
    list(kernel_neighborhoods(oracle, new.__getitem__, some_neighbors()))
    total = N_NEW * (K + 1) * (K + 2) // 2
    assert len(steps) > 1
    assert steps == sorted(steps)
    assert steps[-1] == (total, total)


def test_a_device_without_room_gets_smaller_tiles():
    backend = ScarceBackend(ReferenceBackend(rbf(1.0)), room=3)
    samples, new, near = images(N), images(N_NEW, seed=1), some_neighbors()
    scarce = KernelOracle(backend, samples, config())
    ample = KernelOracle(ReferenceBackend(rbf(1.0)), samples, config())
    assert_close(
        gathered(kernel_neighborhoods(scarce, new.__getitem__, near)),
        gathered(kernel_neighborhoods(ample, new.__getitem__, near)),
    )


def test_a_budget_for_less_than_a_pair_is_refused():
    oracle = KernelOracle(
        ReferenceBackend(convnet(depth=1, kernel_size=3)),
        images(N),
        config(memory_budget=1000),
    )
    new = images(N_NEW, seed=1)
    with pytest.raises(TileMemoryError, match="memory_budget"):
        list(kernel_neighborhoods(oracle, new.__getitem__, some_neighbors()))


PREDICT = """
import numpy as np
from skconvgp import ConvNetGPRegressor
from skconvgp.completion import NearestNeighbors
from skconvgp.kernels import convnet

random = np.random.default_rng(0)
X, y = random.random((1500, 20, 20)), random.random(1500)
gp = ConvNetGPRegressor(
    convnet(depth=2, kernel_size=3),
    device="cpu",
    amplitude=1.0,
    completion=NearestNeighbors(60),
    memory_budget="6 MiB",
)
gp.fit(X, y)
gp.predict(X[:10], return_std=True)
"""


@needs_peak
@pytest.mark.parametrize("call", ["predict(X[:100], return_std=True)", "fit(X, y)"])
def test_local_models_stay_within_a_small_budget(call):
    # The tables of all images take 14 MiB, and the matrix 18.
    kept = 8 * 1500 * 400 if call.startswith("fit") else 0
    assert peak_memory(PREDICT, f"gp.{call}") <= kept + (6 + 2) * MIB
