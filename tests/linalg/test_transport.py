"""The distance of Gaussian distributions."""

import numpy as np
import pytest
import torch
from scipy.linalg import sqrtm

from skconvgp.linalg import gaussian_transport
from skconvgp.metrics import gaussian_wasserstein


def covariances():
    source = np.random.default_rng(0)
    return [one @ one.T for one in source.normal(size=(2, 4, 6))]


def test_distances_are_those_of_matrix_roots():
    A, B = covariances()
    root = sqrtm(A)
    square = np.trace(A + B - 2.0 * sqrtm(root @ B @ root).real)
    np.testing.assert_allclose(gaussian_wasserstein(A, B) ** 2, square)
    np.testing.assert_allclose(gaussian_wasserstein(B, A) ** 2, square)
    assert gaussian_wasserstein(A, A) < 1e-6
    with pytest.raises(ValueError, match=r"\(4, 4\) and \(3, 3\)"):
        gaussian_wasserstein(A, B[:3, :3])


def test_slopes_are_differences():
    A, B = map(torch.from_numpy, covariances())
    change = torch.randn(4, 4, generator=torch.Generator().manual_seed(0)).double()
    change = change + change.T
    _, slope = gaussian_transport(A, B)
    ahead, behind = (gaussian_transport(A, B + h * change)[0] for h in (1e-5, -1e-5))
    expected = float((slope * change).sum())
    np.testing.assert_allclose((ahead - behind) / 2e-5, expected, rtol=1e-6)
