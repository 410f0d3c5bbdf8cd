"""Label regression: the label code and the temperature."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from skconvgp.likelihoods import Gaussian
from skconvgp.likelihoods._gaussian import INVERSE_TEMPERATURES

COLDEST, HOTTEST = (1.0 / inverse for inverse in INVERSE_TEMPERATURES[::-1])


def noisy_latents(n=60, n_classes=4, seed=0):
    """Return latent means that favour the right class, but not always."""
    generator = np.random.default_rng(seed)
    codes = generator.integers(0, n_classes, n)
    mean = generator.normal(size=(n, n_classes)) * 0.4
    mean[np.arange(n), codes] += 0.5
    return mean, codes, generator.uniform(0.1, 4.0, n)


def log_loss(inverse, mean, codes, weights):
    """Return the weighted log loss of the latents times `inverse`, complex or real."""
    scaled = inverse * mean
    top = scaled.real.max(axis=1, keepdims=True)
    total = np.log(np.exp(scaled - top).sum(axis=1)) + top[:, 0]
    return (weights * (total - scaled[np.arange(len(codes)), codes])).sum()


def slope(inverse, *data):
    """Return the derivative of the log loss by a complex step: exact to rounding."""
    return log_loss(complex(inverse, 1e-30), *data).imag / 1e-30


def temperature(mean, codes, weights):
    arrays = (np.asarray(mean), np.asarray(codes), np.asarray(weights, dtype=float))
    return Gaussian().temperature(*(torch.as_tensor(array) for array in arrays))


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_targets_sum_to_zero_over_the_classes(n_classes):
    targets = Gaussian().targets(
        torch.arange(n_classes), n_classes, torch.ones(n_classes)
    )
    values = targets.values.numpy()
    expected = np.full((n_classes, n_classes), -1.0 / (n_classes - 1))
    np.fill_diagonal(expected, 1.0)
    np.testing.assert_allclose(values, expected, rtol=1e-15)
    np.testing.assert_allclose(values.sum(1), 0.0, atol=1e-15)
    assert not targets.offset.any()


def test_targets_of_two_classes_are_plus_and_minus_one():
    values = Gaussian().targets(torch.tensor([0, 1, 1]), 2, torch.ones(3)).values
    assert values.tolist() == [[1.0, -1.0], [-1.0, 1.0], [-1.0, 1.0]]


def test_probabilities_are_the_softmax():
    mean = noisy_latents()[0]
    expected = np.exp(mean - logsumexp(mean, axis=1, keepdims=True))
    actual = Gaussian().probabilities(torch.as_tensor(mean), torch.empty(0))
    np.testing.assert_allclose(actual, expected, rtol=1e-13)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_classes", [2, 5])
def test_temperature_minimises_the_weighted_log_loss(n_classes, seed):
    data = noisy_latents(n_classes=n_classes, seed=seed)
    inverse = 1.0 / temperature(*data)
    best = minimize_scalar(
        log_loss,
        args=data,
        bounds=INVERSE_TEMPERATURES,
        method="bounded",
        options={"xatol": 1e-9},
    )
    assert inverse == pytest.approx(best.x, rel=1e-5)
    # The step of Newton's method to the root of the derivative is nothing.
    curvature = (slope(inverse + 1e-4, *data) - slope(inverse - 1e-4, *data)) / 2e-4
    assert abs(slope(inverse, *data) / curvature) < 1e-10 * inverse


def test_weights_are_repetitions():
    mean, codes, _ = noisy_latents()
    times = np.random.default_rng(1).integers(1, 5, len(codes))
    again = np.repeat(np.arange(len(codes)), times)
    repeated = temperature(mean[again], codes[again], np.ones(len(again)))
    assert temperature(mean, codes, times) == pytest.approx(repeated, rel=1e-10)


def test_common_factor_of_the_weights_does_not_matter():
    mean, codes, weights = noisy_latents()
    scaled = temperature(mean, codes, 7.0 * weights)
    assert scaled == pytest.approx(temperature(mean, codes, weights), rel=1e-10)


def test_temperature_scales_with_the_latents():
    mean, codes, weights = noisy_latents()
    scaled = temperature(2.0 * mean, codes, weights)
    assert scaled == pytest.approx(2.0 * temperature(mean, codes, weights), rel=1e-10)


def test_separable_latents_end_at_the_lower_bound():
    codes = np.array([0, 1, 2, 0])
    mean = np.eye(3)[codes]
    assert temperature(mean, codes, np.ones(4)) == COLDEST


def test_latents_that_are_always_wrong_end_at_the_upper_bound():
    codes = np.array([0, 1, 2, 0])
    mean = -np.eye(3)[codes]
    assert temperature(mean, codes, np.ones(4)) == HOTTEST


def test_latents_that_say_nothing_end_at_the_upper_bound():
    codes = np.array([0, 1, 2, 0])
    assert temperature(np.zeros((4, 3)), codes, np.ones(4)) == HOTTEST
