"""Cholesky routines against dense linear algebra, and the jitter ladder."""

import pytest
import torch

from skconvgp.exceptions import NotPSDError
from skconvgp.linalg import (
    DenseGram,
    back_solve,
    cholesky_inverse,
    cholesky_inverse_diag,
    cholesky_logdet,
    cholesky_product,
    cholesky_rows,
    cholesky_solve,
    factor_with_jitter_,
    half_solve,
    plain_cholesky,
    shifted_cholesky_,
    shifted_choleskys,
    symmetric_eigen,
    symmetrize_,
)
from skconvgp.linalg._cholesky import INVERSE_BLOCK
from tests.helpers.tolerances import assert_close

DTYPES = [torch.float64, torch.float32]
everywhere = pytest.mark.parametrize("dtype", DTYPES)


def random_matrix(values, dtype=torch.float64, seed=0):
    """Return a symmetric matrix with these eigenvalues."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.as_tensor(values, dtype=torch.float64)
    n = len(values)
    square = torch.randn(n, n, generator=generator, dtype=torch.float64)
    vectors = torch.linalg.qr(square)[0]
    matrix = (vectors * values) @ vectors.mT
    return ((matrix + matrix.mT) / 2.0).to(dtype)


def well_conditioned(n, dtype=torch.float64):
    return random_matrix(torch.linspace(0.5, 2.0, n), dtype)


def indefinite(smallest, n=30):
    """Return a matrix with mean diagonal 1 and one eigenvalue below 0."""
    values = torch.full((n,), (n - smallest) / (n - 1), dtype=torch.float64)
    values[0] = smallest
    return random_matrix(values)


@everywhere
def test_solves_and_determinant_agree_with_dense_routines(dtype):
    matrix, shift = well_conditioned(40, dtype), torch.linspace(0.1, 1.0, 40).to(dtype)
    rhs = random_matrix(torch.linspace(-1.0, 1.0, 40), dtype, seed=1)[:, :3]
    factor, jitter = shifted_cholesky_(matrix, shift)
    full = (matrix + torch.diag(shift)).double()
    assert jitter == 0.0
    assert factor.dtype == dtype
    assert torch.equal(factor, factor.tril())
    assert_close(factor @ factor.mT, full, dtype)
    solution = torch.linalg.solve(full, rhs.double())
    assert_close(cholesky_solve(factor, rhs), solution, dtype, "solve")
    half = half_solve(factor, rhs)
    assert_close(half.mT @ half, rhs.double().mT @ solution, dtype, "solve")
    sign, logdet = torch.linalg.slogdet(full)
    assert sign == 1.0
    assert_close(cholesky_logdet(factor), logdet, dtype, "solve")


@everywhere
def test_inverse_is_written_where_it_is_wanted(dtype):
    matrix = well_conditioned(40, dtype)
    factor, _ = shifted_cholesky_(matrix, torch.zeros(40, dtype=dtype))
    out = torch.full((2, 40, 40), torch.nan, dtype=dtype)
    result = cholesky_inverse(factor, out[1])
    assert result.data_ptr() == out[1].data_ptr()
    assert torch.equal(result, result.mT)
    assert_close(out[1], torch.linalg.inv(matrix.double()), dtype, kind="solve")


def test_plain_factor_or_none():
    matrix = random_matrix([1e-9, 1.0, 2.0])
    factor = plain_cholesky(matrix)
    assert_close(factor @ factor.mT, matrix)
    rhs = torch.eye(3, dtype=torch.float64)
    assert_close(factor.mT @ back_solve(factor, rhs), rhs, kind="solve")
    assert plain_cholesky(random_matrix([-1e-9, 1.0, 2.0])) is None
    assert plain_cholesky(torch.full((3, 3), torch.nan)) is None


@everywhere
@pytest.mark.parametrize("n", [1, 5, INVERSE_BLOCK, 2 * INVERSE_BLOCK + 37])
def test_inverse_diagonal_over_several_ragged_blocks(n, dtype):
    matrix = well_conditioned(n, dtype)
    inverse = torch.linalg.inv(matrix.double())
    diag = cholesky_inverse_diag(factor_with_jitter_(matrix, 1.0))
    assert_close(diag, inverse.diagonal(), dtype, "solve")


@pytest.mark.parametrize("block", [1, 4, 7, 100])
def test_inverse_diagonal_does_not_depend_on_the_block(block, monkeypatch):
    factor = factor_with_jitter_(well_conditioned(25), 1.0)
    whole = cholesky_inverse_diag(factor)
    monkeypatch.setattr("skconvgp.linalg._cholesky.INVERSE_BLOCK", block)
    assert_close(cholesky_inverse_diag(factor), whole)


def test_beside_the_cpu_steps_of_the_inverse_diagonal_are_few_and_large(monkeypatch):
    steps = []

    def solve(factor, rhs):
        steps.append(len(factor))
        return torch.empty_like(rhs)

    monkeypatch.setattr("skconvgp.linalg._cholesky.half_solve", solve)
    cholesky_inverse_diag(torch.empty(600, 600, device="meta"))
    assert steps == [256, 256, 88, 256, 88, 88]
    for n, side in ((4000, 500), (20_000, 2048), (60_000, 1014)):
        steps.clear()
        cholesky_inverse_diag(torch.empty(n, n, device="meta"))
        assert set(steps) <= {side, n % side}
        assert 8 * (n + 3 * side) * side <= 2**29


@pytest.mark.parametrize(
    ("smallest", "rung"),
    [(-3e-11, 1e-10), (-3e-9, 1e-8), (-3e-7, 1e-6), (-3e-5, 1e-4)],
)
def test_ladder_takes_the_first_jitter_that_helps_and_reports_it(smallest, rung):
    matrix = indefinite(smallest)
    factor, jitter = shifted_cholesky_(matrix, torch.zeros(30, dtype=torch.float64))
    assert jitter == pytest.approx(rung, rel=1e-6)
    identity = torch.eye(30, dtype=torch.float64)
    assert_close(factor @ factor.mT, matrix + jitter * identity)


def test_jitter_is_relative_to_the_diagonal():
    zero = torch.zeros(30, dtype=torch.float64)
    _, jitter = shifted_cholesky_(indefinite(-3e-9), zero)
    _, larger = shifted_cholesky_(indefinite(-3e-9) * 1e12, zero)
    assert larger == pytest.approx(1e12 * jitter, rel=1e-6)


def test_single_precision_has_a_ladder_of_its_own():
    matrix = indefinite(-3e-4).float()
    _, jitter = shifted_cholesky_(matrix, torch.zeros(30))
    assert jitter == pytest.approx(1e-3, rel=1e-4)


def test_shift_makes_jitter_unnecessary():
    shift = torch.full((30,), 1e-3, dtype=torch.float64)
    assert shifted_cholesky_(indefinite(-1e-4), shift)[1] == 0.0


@pytest.mark.parametrize("smallest", [0.5, -3e-9, -1.0])
def test_matrix_is_restored_to_the_bit(smallest):
    matrix = indefinite(smallest)
    before = matrix.clone()
    shift = torch.linspace(0.0, 1e-3, 30, dtype=torch.float64)
    try:
        shifted_cholesky_(matrix, shift)
    except NotPSDError:
        assert smallest == -1.0
    assert torch.equal(matrix, before)


def test_error_names_the_smallest_eigenvalue_and_remedies():
    with pytest.raises(NotPSDError) as caught:
        shifted_cholesky_(indefinite(-0.0213), torch.zeros(30, dtype=torch.float64))
    message = str(caught.value)
    assert "eigenvalue is -0.0213" in message
    assert "jitter up to 0.0001" in message
    for remedy in ("`noise_variance`", "duplicate samples", "float64", "precomputed"):
        assert remedy in message


def test_error_of_a_large_matrix_takes_no_longer_than_its_factor(monkeypatch):
    monkeypatch.setattr("skconvgp.linalg._cholesky.MOST_FOR_EIGENVALUES", 29)
    with pytest.raises(NotPSDError, match=r"is unknown \(it takes long for 30 samples"):
        shifted_cholesky_(indefinite(-1.0), torch.zeros(30, dtype=torch.float64))


@pytest.mark.parametrize("error", [torch.cuda.OutOfMemoryError, RuntimeError])
def test_error_without_memory_for_the_eigenvalue_names_the_remedies(error, monkeypatch):
    def fail(matrix):
        raise error("tried to allocate 27 GiB")

    monkeypatch.setattr(torch.linalg, "eigvalsh", fail)
    matrix = indefinite(-1.0)
    before = matrix.clone()
    with pytest.raises(NotPSDError, match=r"is unknown .*`noise_variance`"):
        shifted_cholesky_(matrix, torch.zeros(30, dtype=torch.float64))
    assert torch.equal(matrix, before)


def test_factor_with_jitter_takes_a_singular_matrix_and_leaves_it():
    ones = torch.ones(20, 20, dtype=torch.float64)
    factor = factor_with_jitter_(ones, 1.0)
    torch.testing.assert_close(factor @ factor.mT, ones, rtol=0.0, atol=1e-9)
    assert torch.equal(ones, torch.ones_like(ones))


def test_eigenvalues_below_zero_are_set_to_zero():
    matrix = indefinite(-1e-9)
    values, vectors = symmetric_eigen(matrix)
    assert float(values[0]) == 0.0
    assert torch.equal(values, values.sort().values)
    torch.testing.assert_close(
        (vectors * values) @ vectors.mT, matrix, rtol=0.0, atol=1e-8
    )
    identity = torch.eye(30, dtype=torch.float64)
    assert_close(vectors.mT @ vectors, identity)


@everywhere
@pytest.mark.parametrize("block", [1, 4, 7, 100])
def test_symmetrize_is_the_mean_with_the_transpose(block, dtype, monkeypatch):
    monkeypatch.setattr("skconvgp.linalg._symmetric.SYMMETRIZE_BLOCK", block)
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(25, 25, generator=generator, dtype=dtype)
    expected = (matrix + matrix.mT) * 0.5
    assert symmetrize_(matrix) is matrix
    assert torch.equal(matrix, expected)


def test_dense_gram_gives_its_matrix():
    matrix = well_conditioned(4)
    gram = DenseGram(matrix)
    assert gram.n_samples == 4
    assert gram.dense() is matrix


@everywhere
def test_many_factors_are_those_of_each_matrix(dtype):
    matrices = torch.stack([well_conditioned(9, dtype) * i for i in (1, 2, 5)])
    shifts = torch.linspace(0.1, 2.0, 27).reshape(3, 9).to(dtype)
    before = matrices.clone()
    factors, jitter = shifted_choleskys(matrices, shifts)
    assert jitter == 0.0
    assert torch.equal(matrices, before)
    for matrix, shift, factor in zip(matrices, shifts, factors, strict=True):
        assert torch.equal(factor, factor.tril())
        expected = (matrix + torch.diag(shift)).double()
        assert_close(factor @ factor.mT, expected, dtype)


def test_of_many_matrices_those_that_need_it_get_jitter():
    matrices = torch.stack([well_conditioned(30), indefinite(-1e-9)])
    before, shifts = matrices.clone(), torch.zeros(2, 30, dtype=torch.float64)
    factors, jitter = shifted_choleskys(matrices, shifts)
    alone, needed = shifted_cholesky_(matrices[1].clone(), shifts[1])
    assert jitter == needed > 0.0
    assert torch.equal(factors[1], alone)
    assert_close(factors[0] @ factors[0].mT, matrices[0])
    assert torch.equal(matrices, before)


def test_many_matrices_are_refused_if_one_is():
    matrices = torch.stack([well_conditioned(30), indefinite(-0.5)])
    with pytest.raises(NotPSDError, match="not positive definite"):
        shifted_choleskys(matrices, torch.zeros(2, 30, dtype=torch.float64))


@pytest.mark.parametrize("n_matrices", [0, 3])
def test_many_empty_matrices_have_empty_factors(n_matrices):
    factors, jitter = shifted_choleskys(
        torch.empty(n_matrices, 0, 0), torch.empty(n_matrices, 0)
    )
    assert factors.shape == (n_matrices, 0, 0)
    assert jitter == 0.0


def test_many_matrices_are_decomposed_one_by_one():
    matrices = torch.stack([well_conditioned(9), indefinite(-1e-3, 9)])
    values, vectors = symmetric_eigen(matrices)
    for i in range(2):
        assert_close(values[i], symmetric_eigen(matrices[i])[0])
    rebuilt = (vectors[0] * values[0]) @ vectors[0].mT
    assert_close(rebuilt, matrices[0])
    assert float(values[1, 0]) == 0.0


@everywhere
def test_a_pivot_of_rounding_errors_is_no_factor(dtype):
    rounding = torch.finfo(dtype).eps
    matrix = torch.tensor([[1.0, 1.0], [1.0, 1.0 + rounding]], dtype=dtype)
    assert plain_cholesky(matrix) is not None
    _, jitter = shifted_cholesky_(matrix, torch.zeros(2, dtype=dtype))
    assert jitter > 0.0
    _, jitter = shifted_cholesky_(matrix, torch.full((2,), 20.0 * rounding).to(dtype))
    assert jitter == 0.0


@pytest.mark.parametrize("n", [1, 5, 8, 37])
def test_product_of_a_factor_with_itself(n):
    factor = torch.randn(n, n, generator=torch.Generator().manual_seed(n)).double()
    factor = factor.tril()
    whole = factor @ factor.mT
    torch.testing.assert_close(cholesky_product(factor), whole)
    rows = slice(2, len(factor) - 1)
    torch.testing.assert_close(
        cholesky_rows(factor, rows), whole[rows, : len(factor) - 1]
    )
