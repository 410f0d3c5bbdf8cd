"""Sums of products in single precision against double ones."""

import numpy as np
import pytest
import torch

from skconvgp.linalg import Moments

RNG = np.random.default_rng(0)


def sums_of(rows, targets, weights, cuts, dtype):
    moments = Moments.around(torch.as_tensor(rows[:100].mean(0)), 2, dtype)
    for part in np.split(np.arange(len(rows)), cuts):
        pieces = (torch.as_tensor(one[part]) for one in (rows, targets, weights))
        moments.add(*pieces)
    return [one.numpy() for one in moments.finish()]


@pytest.mark.parametrize("r", [1, 7, 40])
@pytest.mark.parametrize("cuts", [[], [500], [1, 1000, 1001]])
def test_double_sums_are_exact(r, cuts):
    rows, targets = RNG.normal(1.0, 1.0, (1200, r)), RNG.normal(size=(1200, 2))
    weights = RNG.uniform(0.5, 2.0, 1200)
    moment, response = sums_of(rows, targets, weights, cuts, torch.float64)
    scaled = weights[:, None] * rows
    np.testing.assert_allclose(moment, rows.T @ scaled, rtol=1e-12)
    np.testing.assert_allclose(response, scaled.T @ targets, rtol=1e-11, atol=1e-10)


def test_single_products_keep_small_eigenvalues():
    rows = 1.0 + 1e-3 * RNG.normal(size=(5000, 40))
    ones, targets = np.ones(5000), np.zeros((5000, 2))
    moment, _ = sums_of(rows, targets, ones, [1000, 2000, 3000, 4000], torch.float32)
    values = np.linalg.eigvalsh(moment)
    exact = np.linalg.eigvalsh(rows.T @ rows)
    np.testing.assert_allclose(values, exact, rtol=1e-4)
    single = rows.astype(np.float32)
    plain = np.linalg.eigvalsh((single.T @ single).astype(np.float64))
    assert abs(plain[0] / exact[0] - 1.0) > 1e-2  # what the centre is for
