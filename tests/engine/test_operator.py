"""A matrix that is never held gives what the one that is held gives."""

from dataclasses import replace

import pytest
import torch

from skconvgp.backends import ReferenceBackend
from skconvgp.engine import KernelGram, KernelOracle
from skconvgp.kernels import convnet, rbf
from skconvgp.linalg import DenseGram
from skconvgp.solvers import ConjugateGradient
from tests.helpers.memory import needs_peak, peak_memory
from tests.helpers.tiles import config, small_tiles
from tests.helpers.tolerances import assert_close

N = 23
KERNELS = {"convnet": convnet(depth=1, kernel_size=3), "rbf": rbf(lengthscale=2.0)}
MIB = 2**20


def gram_of(name, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(N, 2, 5, 6, generator=generator, dtype=torch.float64)
    backend = ReferenceBackend(KERNELS[name])
    return KernelGram(KernelOracle(backend, images, config(dtype=dtype)), scale=2.5)


@pytest.fixture(params=KERNELS)
def operator(request):
    """Return a matrix of 23 images, five blocks a side."""
    with small_tiles(5, 2, 8):
        yield gram_of(request.param)


def test_products_diagonal_and_columns_are_those_of_the_matrix(operator):
    matrix = operator.oracle.gram() / 2.5
    generator = torch.Generator().manual_seed(1)
    rhs = torch.randn(N, 4, generator=generator, dtype=torch.float64)
    before, numbers = rhs.clone(), torch.tensor([20, 3, 4])
    assert operator.n_samples == N
    assert_close(operator.dense(), matrix)
    assert_close(operator.matmul(rhs), matrix @ rhs)
    assert_close(operator.diag(), matrix.diagonal())
    assert_close(operator.columns(numbers), matrix[:, numbers])
    assert torch.equal(rhs, before)


def test_product_does_not_depend_on_the_order_of_blocks(operator):
    rhs = torch.linspace(-1.0, 1.0, 2 * N, dtype=torch.float64).reshape(N, 2)

    def reversed_runner(jobs):
        return (job() for job in reversed(list(jobs)))

    backwards = replace(operator.oracle, runner=reversed_runner)
    other = replace(operator, oracle=backwards)
    assert torch.equal(other.matmul(rhs), operator.matmul(rhs))


@pytest.mark.usefixtures("operator")
def test_product_has_the_variances_on_its_diagonal():
    coarse = gram_of("convnet", torch.float32)
    eye = torch.eye(N, dtype=torch.float64)
    assert_close(coarse.matmul(eye).diagonal(), coarse.diag())


@pytest.mark.parametrize(
    "operator",
    [pytest.param("convnet", marks=pytest.mark.slow), "rbf"],
    indirect=True,
)
def test_solver_does_not_notice(operator):
    generator = torch.Generator().manual_seed(1)
    rhs = torch.randn(N, 2, generator=generator, dtype=torch.float64)
    noise = torch.full((N,), 0.01, dtype=torch.float64)
    solver = ConjugateGradient(tolerance=1e-11, rank=5)
    ours, held = (
        solver.solve(solver.init(gram, noise), rhs)
        for gram in (operator, DenseGram(operator.dense()))
    )
    assert ours.converged
    assert_close(ours.value, held.value, kind="solve")


SETUP = """
import torch
from skconvgp._config import ComputeConfig
from skconvgp.backends import ReferenceBackend
from skconvgp.engine import KernelGram, KernelOracle
from skconvgp.kernels import rbf
from skconvgp.solvers import ConjugateGradient

def operator(n):
    points = torch.randn(n, 8, 1, 1, dtype=torch.float64)
    config = ComputeConfig(torch.device("cpu"), memory_budget=4 * 2**20)
    backend = ReferenceBackend(rbf(8.0))
    return KernelGram(KernelOracle(backend, points, config))

def solve(gram):
    n = gram.n_samples
    solver = ConjugateGradient(tolerance=1e-3, rank=20, n_probes=2)
    state = solver.init(gram, torch.full((n,), 1.0, dtype=torch.float64))
    assert solver.solve(state, torch.ones(n, 1, dtype=torch.float64)).converged

solve(operator(300))
gram = operator(2000)
"""


@needs_peak
def test_solution_never_holds_the_matrix():
    matrix = 8 * 2000**2  # 31 MiB
    columns = 4 * 8 * 20 * 2000  # of the preconditioner, with its factorisation
    allowed = (4 + 4) * MIB + columns
    assert allowed < matrix / 3
    assert peak_memory(SETUP, "solve(gram)") <= allowed
