"""Posterior against dense formulas, and samples against their moments."""

import numpy as np
import pytest
import torch

from skconvgp.exceptions import NotPSDError
from skconvgp.inference import (
    CovarianceUpdate,
    left_out_covariance,
    posterior_mean,
    sample_gaussian,
)
from skconvgp.linalg import DenseGram
from skconvgp.solvers import Cholesky
from tests.helpers.dense_gp import noisy, problem
from tests.helpers.tolerances import assert_close

NOISE = 0.1
WEIGHTS = np.random.default_rng(3).uniform(0.3, 3.0, 20)


def tensors(*arrays):
    return tuple(torch.as_tensor(array) for array in arrays)


def factored():
    gram, cross, _, targets = problem()
    solver = Cholesky()
    noise = torch.as_tensor(NOISE / WEIGHTS)
    state = solver.init(DenseGram(torch.as_tensor(gram)), noise)
    half = solver.half_solve(state, torch.as_tensor(cross.T))
    dual = solver.solve(state, torch.as_tensor(targets)).value
    return dual, half


def test_mean():
    gram, cross, _, targets = problem()
    dual, _ = factored()
    expected = cross @ np.linalg.inv(noisy(gram, NOISE, WEIGHTS)) @ targets
    actual = posterior_mean(torch.as_tensor(cross), dual)
    assert_close(actual, expected, kind="solve")


def test_variance_and_covariance():
    gram, cross, prior, _ = problem()
    _, half = factored()
    inverse = np.linalg.inv(noisy(gram, NOISE, WEIGHTS))
    expected = prior - cross @ inverse @ cross.T
    cov = CovarianceUpdate(half).covariance(torch.as_tensor(prior))
    var, clipped = CovarianceUpdate(half).variance(
        torch.as_tensor(np.diag(prior).copy())
    )
    assert clipped == 0.0
    assert_close(cov, expected, kind="solve")
    assert_close(var, np.diag(expected), kind="solve")


def test_variances_below_zero_are_clipped_and_reported():
    half = torch.tensor([[1.0, 2.0, 1.0]]).double()
    var, clipped = CovarianceUpdate(half).variance(
        torch.tensor([1.5, 3.75, 0.5]).double()
    )
    assert var.tolist() == [0.5, 0.0, 0.0]
    assert clipped == 0.5


def test_variance_of_no_samples():
    var, clipped = CovarianceUpdate(torch.empty(3, 0)).variance(torch.empty(0))
    assert var.shape == (0,)
    assert clipped == 0.0


def draw(mean, covariance, n_samples, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return sample_gaussian(
        *tensors(mean, covariance), n_samples, generator, scale=1.0
    ).numpy()


def test_an_indefinite_residual_keeps_its_variances():
    root = np.random.default_rng(0).normal(size=(6, 6))
    residual = 0.1 * (root + root.T) + 0.2 * np.eye(6)
    values, vectors = np.linalg.eigh(residual)
    assert values[0] < -0.05
    clipped = (vectors * values.clip(min=0.0)) @ vectors.T
    assert residual.diagonal().min() < 0.0  # such a variance is 0
    scale = np.sqrt(residual.diagonal().clip(min=0.0) / clipped.diagonal())
    found = left_out_covariance(torch.as_tensor(residual))
    np.testing.assert_allclose(found, scale[:, None] * clipped * scale, atol=1e-12)
    definite = 0.1 * root @ root.T
    found = left_out_covariance(torch.as_tensor(definite))
    np.testing.assert_allclose(found, definite, atol=1e-12)


def test_samples_have_the_mean_and_the_covariance_of_each_output():
    n_samples = 40_000
    _, _, covariance, targets = problem(n_new=4)
    mean = targets[:4]
    samples = draw(mean, covariance, n_samples)
    assert samples.shape == (4, 2, n_samples)
    deviation = np.sqrt(np.diag(covariance))
    error = 5.0 / np.sqrt(n_samples)  # five standard errors
    off = (samples.mean(2) - mean) / deviation[:, None]
    assert np.abs(off).max() < error
    centred = (samples - mean[:, :, None]) / deviation[:, None, None]
    correlation = covariance / np.outer(deviation, deviation)
    for k in range(2):
        actual = centred[:, k] @ centred[:, k].T / n_samples
        assert np.abs(actual - correlation).max() < np.sqrt(2.0) * error
    between = centred[:, 0] @ centred[:, 1].T / n_samples
    assert np.abs(between).max() < error


def test_draws_are_independent_of_each_other():
    _, _, covariance, _ = problem(n_new=2)
    samples = draw(np.zeros((2, 1)), covariance, 40_000)[0, 0] / np.sqrt(
        covariance[0, 0]
    )
    assert abs((samples[1:] * samples[:-1]).mean()) < 5.0 / 200.0


def test_samples_follow_the_generator():
    _, _, covariance, _ = problem()
    mean = np.zeros((7, 2))
    first, again, other = (draw(mean, covariance, 3, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).all()


def test_sampling_leaves_the_covariance_and_takes_a_singular_one():
    covariance = np.ones((5, 5))
    samples = draw(np.zeros((5, 1)), covariance, 100)
    assert (covariance == 1.0).all()
    np.testing.assert_allclose(samples, samples[:1].repeat(5, axis=0), atol=1e-4)


def test_sampling_refuses_an_indefinite_covariance():
    with pytest.raises(NotPSDError):
        draw(np.zeros((2, 1)), np.array([[1.0, 2.0], [2.0, 1.0]]), 1)
