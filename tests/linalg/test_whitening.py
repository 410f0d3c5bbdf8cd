"""whitening_root: its product, and derivatives against central differences."""

from itertools import pairwise

import pytest
import torch

from skconvgp.linalg import smooth_root, triangular_root, whitening_root

# Steps are small enough that no eigenvalue crosses the cut.
CUT, STEP = 1e-6, 1e-7
SPECTRA = {
    "all kept": [0.2, 0.5, 1.0, 3.0],
    "equal": [0.5, 0.5, 0.5, 2.0],
    "some cut": [0.0, 3e-7, 1.0, 2.0],
    "one kept": [0.0, 1e-9, 1e-8, 2.0],
}


def numbers(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def matrix_of(spectrum):
    vectors, _ = torch.linalg.qr(numbers(4, 4))
    return vectors * torch.tensor(spectrum, dtype=torch.float64) @ vectors.mT


def value_of(matrix):
    """Return a function of the products of features alone."""
    features = numbers(5, 4, seed=1) @ whitening_root(matrix, CUT)
    return torch.sin(features @ features.mT * numbers(5, 5, seed=2)).sum()


@pytest.mark.parametrize("spectrum", SPECTRA.values(), ids=SPECTRA)
def test_product_is_the_pseudo_inverse(spectrum):
    matrix = matrix_of(spectrum)
    root = whitening_root(matrix, CUT)
    expected = torch.linalg.pinv(matrix, rtol=CUT, hermitian=True)
    torch.testing.assert_close(root @ root.mT, expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("spectrum", SPECTRA.values(), ids=SPECTRA)
def test_derivatives_are_central_differences(spectrum):
    matrix = matrix_of(spectrum).requires_grad_()
    (gradient,) = torch.autograd.grad(value_of(matrix), matrix)
    change = numbers(4, 4, seed=3)
    change = change + change.mT
    with torch.no_grad():
        rise = value_of(matrix + STEP * change) - value_of(matrix - STEP * change)
    expected = float(rise) / (2 * STEP)
    assert float((gradient * change).sum()) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("shape", [(5, 5), (5, 3), (4, 1)])
def test_triangles_have_the_product_of_the_root(shape):
    root = numbers(*shape)
    found = triangular_root(root)
    assert found.shape == root.shape
    torch.testing.assert_close(found @ found.mT, root @ root.mT)
    assert not found.triu(1).any()


def test_a_smooth_root_is_triangular_and_whitens():
    matrix = matrix_of(SPECTRA["all kept"])
    root = smooth_root(matrix)
    shift = 1e-6 * matrix.diagonal().mean() * torch.eye(4, dtype=torch.float64)
    torch.testing.assert_close(root @ root.mT, torch.linalg.inv(matrix + shift))
    assert torch.equal(root, root.tril())
    assert (root.diagonal() > 0.0).all()
    # The whitening of a fit takes it as it is.
    torch.testing.assert_close(triangular_root(root), root)


def test_a_smooth_root_follows_its_matrix():
    def turned(angle):  # two equal eigenvalues cross
        matrix = matrix_of(SPECTRA["equal"]).clone()
        matrix[0, 1] += angle
        matrix[1, 0] += angle
        return matrix

    steps = [smooth_root(turned(angle)) for angle in (-1e-4, 0.0, 1e-4)]
    for one, two in pairwise(steps):
        assert (one - two).abs().max() < 1e-2
    half = matrix_of(SPECTRA["all kept"]).requires_grad_()
    assert torch.autograd.gradcheck(lambda m: smooth_root((m + m.mT) / 2.0), [half])
