"""Logarithms and inverse roots from products, against eigendecompositions."""

import pytest
import torch

from skconvgp.linalg import inverse_root, log_quadrature, rademacher
from tests.helpers.tolerances import assert_close
from tests.linalg.test_cg import N, columns, positive_definite


def function_of(matrix, function):
    values, vectors = torch.linalg.eigh(matrix)
    return (vectors * function(values)) @ vectors.mT


def probes(n_probes, n=N):
    return rademacher(n, n_probes, torch.Generator().manual_seed(0))


def test_probes_are_signs_that_a_seed_repeats():
    signs = probes(16)
    assert torch.equal(signs.abs(), torch.ones(N, 16, dtype=torch.float64))
    assert torch.equal(signs, probes(16))
    assert abs(float(signs.mean())) < 0.1


@pytest.mark.parametrize("condition", [1e1, 1e3])
def test_quadrature_of_enough_steps_is_exact(condition):
    matrix, z = positive_definite(condition), probes(5)
    forms = log_quadrature(lambda v: matrix @ v, z, 120).forms
    expected = (z * (function_of(matrix, torch.log) @ z)).sum(0)
    assert_close(forms, expected, kind="solve")


def test_half_of_the_steps_shows_what_is_missing():
    matrix, z = positive_definite(1e3), probes(5)
    exact = (z * (function_of(matrix, torch.log) @ z)).sum(0)
    whole = log_quadrature(lambda v: matrix @ v, z, 20)
    halved = log_quadrature(lambda v: matrix @ v, z, 10)
    assert_close(whole.coarse, halved.forms, kind="solve")
    missing, shown = (whole.forms - exact).abs(), (whole.forms - whole.coarse).abs()
    assert (missing > 0.1).all()
    assert (shown > missing).all()


def test_more_steps_than_the_matrix_has_eigenvalues():
    diagonal = torch.tensor([1.0, 2.0, 4.0, 2.0, 1.0], dtype=torch.float64)
    z = torch.ones(5, 2, dtype=torch.float64)
    found = log_quadrature(lambda v: diagonal[:, None] * v, z, 30)
    assert_close(found.forms, diagonal.log().sum().expand(2))
    assert_close(found.coarse, found.forms)
    assert found.largest == pytest.approx(4.0)


def test_identity_has_the_logarithm_zero():
    found = log_quadrature(lambda v: v, probes(4), 30, tolerance=0.1)
    assert_close(found.forms + 1.0, torch.ones(4))
    assert found.largest == pytest.approx(1.0)


@pytest.mark.parametrize("condition", [1e1, 1e3])
def test_steps_end_where_more_would_be_lost_in_the_error(condition):
    matrix, z = positive_definite(condition), probes(8)
    every = log_quadrature(lambda v: matrix @ v, z, 120)
    found = log_quadrature(lambda v: matrix @ v, z, 120, tolerance=0.1)
    error = float(every.forms.std()) / 8**0.5
    assert found.n_steps < 60
    assert abs(float((found.forms - every.forms).mean())) < 0.5 * error


@pytest.mark.parametrize("n_steps", [8, 15, 120])
@pytest.mark.parametrize("condition", [1e1, 1e3])
def test_largest_eigenvalue_is_not_underestimated(condition, n_steps):
    matrix = positive_definite(condition)
    exact = float(torch.linalg.eigvalsh(matrix)[-1])
    found = log_quadrature(lambda v: matrix @ v, probes(8), n_steps).largest
    assert (1.0 - 1e-9) * exact <= found <= 1.3 * exact


def root(matrix, rhs, tolerance=1e-10, max_iter=1000):
    return inverse_root(
        lambda v: matrix @ v, rhs, tolerance=tolerance, max_iter=max_iter
    )


@pytest.mark.parametrize("condition", [1e2, 1e6])
@pytest.mark.parametrize("k", [1, 6, 70, N, N + 30])
def test_inverse_root(condition, k):
    matrix, rhs = positive_definite(condition), columns(k)
    expected = function_of(matrix, torch.rsqrt) @ rhs
    assert_close(root(matrix, rhs), expected, kind="root")


def test_roots_of_columns_do_not_depend_on_their_block():
    matrix, rhs = positive_definite(1e4), columns(12)
    parts = [root(matrix, part, 1e-8) for part in torch.split(rhs, [1, 4, 7], dim=1)]
    both = torch.cat(parts, dim=1)
    expected = rhs.mT @ torch.linalg.solve(matrix, rhs)
    assert_close(both.mT @ both, expected, kind="root")


def test_stopped_early_the_form_is_smaller_and_grows():
    matrix, rhs = positive_definite(1e6), columns(4)
    exact = (rhs * torch.linalg.solve(matrix, rhs)).sum(0)
    before = torch.zeros(4, dtype=torch.float64)
    for max_iter in (1, 2, 5, 10, 20):
        form = root(matrix, rhs, max_iter=max_iter).square().sum(0)
        assert (before < form).all()
        assert (form < exact).all()
        before = form


def test_root_of_equal_scaled_and_zero_columns():
    matrix, rhs = positive_definite(1e2), columns(2)
    zero = torch.zeros(N, 1, dtype=torch.float64)
    both = torch.cat([rhs, 1e-100 * rhs[:, :1], rhs[:, 1:], zero], dim=1)
    found = root(matrix, both)
    assert_close(1e100 * found[:, 2], found[:, 0], kind="solve")
    assert_close(found[:, 3], found[:, 1], kind="solve")
    assert torch.equal(found[:, 4:], zero)
    assert torch.equal(root(matrix, zero), zero)


def test_root_in_an_invariant_subspace():
    matrix = positive_definite(1e4)
    values, vectors = torch.linalg.eigh(matrix)
    some = vectors[:, 3:6]
    assert_close(root(matrix, some), some * values[3:6].rsqrt(), kind="root")


def test_root_of_a_singular_matrix_is_finite():
    matrix = positive_definite(1e2)
    matrix[0] = matrix[:, 0] = 0.0
    assert root(matrix, columns(3)).isfinite().all()
