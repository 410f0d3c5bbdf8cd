"""The factor in single precision in place, against dense algebra in double."""

import numpy as np
import pytest
import torch

from skconvgp.exceptions import NotPSDError
from skconvgp.linalg import DenseGram, SingleGram, factor_in_place_
from skconvgp.solvers import RefinedCholesky
from tests.helpers.memory import needs_peak, peak_memory

N, K = 300, 40  # more columns than are solved for at once


def system(noise=1e-2, n=N):
    """Return a Gram matrix in single precision, noises, and right-hand sides."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 4))
    gram = np.exp(-((x[:, None] - x) ** 2).sum(2) / 8.0).astype(np.float32)
    noises = noise * rng.uniform(1.0, 2.0, n)
    rhs = np.sin(x @ rng.normal(size=(4, K)))
    return torch.from_numpy((gram + gram.T) / 2), *map(torch.from_numpy, (noises, rhs))


def dense(gram, noise):
    return gram.numpy().astype(np.float64) + np.diag(noise.numpy())


@pytest.mark.parametrize(("noise", "tolerance"), [(1e-2, 1e-6), (1e-4, 1e-10)])
def test_solutions_have_the_residual_that_is_told(noise, tolerance):
    gram, noises, rhs = system(noise)
    matrix = dense(gram, noises)
    solver = RefinedCholesky(tolerance)
    state = solver.init(SingleGram(gram), noises)
    assert state.both.matrix.data_ptr() == gram.data_ptr()  # no second array
    solution = solver.solve(state, rhs)
    rest = rhs.numpy() - matrix @ solution.value.numpy()
    told = np.linalg.norm(rest, axis=0) / np.linalg.norm(rhs.numpy(), axis=0)
    assert solution.converged
    assert told.max() <= tolerance
    assert solution.stats["residual"] == pytest.approx(told.max(), rel=0.1, abs=1e-12)
    expected = np.linalg.solve(matrix, rhs.numpy())
    allowed = tolerance * 50.0 / noise * abs(expected).max()
    np.testing.assert_allclose(solution.value, expected, atol=allowed)


def test_without_enough_refinements_it_has_not_converged():
    gram, noises, rhs = system(1e-4)
    solver = RefinedCholesky(1e-10, max_iter=1)
    solution = solver.solve(solver.init(SingleGram(gram), noises), rhs)
    assert not solution.converged
    assert solution.stats["residual"] > 1e-10


def test_other_results_come_from_the_factor():
    gram, noises, rhs = system()
    matrix = dense(gram, noises)
    solver = RefinedCholesky()
    state = solver.init(SingleGram(gram), noises)
    inverse = np.linalg.inv(matrix)
    half = solver.half_solve(state, rhs).numpy()
    expected = rhs.numpy().T @ inverse @ rhs.numpy()
    allowed = 1e-4 * abs(expected).max()
    np.testing.assert_allclose(half.T @ half, expected, atol=allowed)
    np.testing.assert_allclose(solver.inverse_diag(state), np.diag(inverse), rtol=1e-3)
    some = torch.tensor([5, 0, 250])
    entries = solver.inverse_diag_of(state, some)
    np.testing.assert_allclose(entries, np.diag(inverse)[some], rtol=1e-3)
    value, error = solver.logdet_estimate(state)
    assert 0.0 < float(error) < 0.05
    assert abs(float(value) - np.linalg.slogdet(matrix)[1]) < 3.0 * float(error)
    np.testing.assert_allclose(state.both.matmul(rhs), matrix @ rhs.numpy(), rtol=1e-12)


def test_right_hand_sides_in_single_precision_leave_matrix_and_factor_as_they_are():
    gram, noises, rhs = system()
    matrix = dense(gram, noises)
    solver = RefinedCholesky()
    state = solver.init(SingleGram(gram), noises.to(torch.float32))
    kept = state.both.matrix.clone()
    expected = np.linalg.solve(matrix, rhs.numpy())
    allowed = 1e-4 * abs(expected).max()
    for _ in range(2):
        solution = solver.solve(state, rhs.to(torch.float32))
        assert solution.converged
        assert solution.value.dtype == torch.float32
        np.testing.assert_allclose(solution.value, expected, atol=allowed)
    assert torch.equal(state.both.matrix, kept)
    np.testing.assert_allclose(state.both.diagonal, np.ones(N), rtol=1e-6)


def test_a_matrix_in_double_precision_is_copied():
    gram, noises, rhs = system()
    given = gram.to(torch.float64)
    state = RefinedCholesky().init(DenseGram(given), noises)
    assert torch.equal(given, gram.to(torch.float64))
    expected = np.linalg.solve(dense(gram, noises), rhs.numpy())
    value = RefinedCholesky(1e-10).solve(state, rhs).value
    np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("noise", [1e-9, -0.5])
def test_a_matrix_without_a_factor_is_left_as_it_was(noise):
    gram, noises, _ = system(noise, n=700)
    before = gram.clone()
    with pytest.raises(NotPSDError, match="raise `noise_variance`"):
        factor_in_place_(gram, noises)
    assert torch.equal(gram, before)


def test_products_with_a_matrix_in_single_precision_are_sums_in_double():
    gram, _, rhs = system()
    operator = SingleGram(gram)
    expected = gram.to(torch.float64)
    np.testing.assert_allclose(operator.matmul(rhs), expected @ rhs, rtol=1e-12)
    assert torch.equal(operator.diag(), expected.diagonal())
    some = torch.tensor([3, 7])
    assert torch.equal(operator.columns(some), expected[:, some])


@pytest.mark.parametrize(
    "settings", [{"tolerance": 0.0}, {"tolerance": 2.0}, {"max_iter": 0}]
)
def test_wrong_settings_are_named(settings):
    gram, noises, _ = system()
    with pytest.raises(ValueError, match=next(iter(settings))):
        RefinedCholesky(**settings).init(SingleGram(gram), noises)


PEAK = """
import torch
from skconvgp.linalg import SingleGram
from skconvgp.solvers import RefinedCholesky

def solve(n):
    points = torch.linspace(0.0, 50.0, n)
    gram = (points[:, None] - points).abs_().neg_().exp_()
    noise = torch.full((n,), 1e-2, dtype=torch.float64)
    solver = RefinedCholesky()
    state = solver.init(SingleGram(gram), noise)
    rhs = points.to(torch.float64)[:, None].repeat(1, 50)
    solver.solve(state, rhs)
    solver.half_solve(state, rhs)
    solver.inverse_diag_of(state, torch.arange(0, n, 10))
solve(50)
"""


@needs_peak
def test_one_matrix_is_held():
    n = 3000
    n_single, beside = RefinedCholesky().n_single_values(n)
    peak = peak_memory(PEAK, f"solve({n})", is_second=True)
    assert peak <= 4 * n_single + 8 * (beside + 3 * 50 * n) + 4 * 2**20
    assert peak < 2.5 * 4 * n**2  # matrix and factor in double precision take four
