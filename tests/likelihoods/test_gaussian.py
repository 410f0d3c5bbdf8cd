"""Label regression: the label code, and the calibration of its latents."""

import numpy as np
import pytest
import torch
from scipy.optimize import approx_fprime, minimize, minimize_scalar
from scipy.special import logsumexp

from skconvgp.likelihoods import Calibration, Gaussian
from skconvgp.likelihoods._calibration import (
    INVERSE_TEMPERATURES,
    OFFSET_DEVIATION,
    SPREADS,
    USUAL_SPREAD,
)

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
    return calibrate(Gaussian(spread=False), mean, None, codes, weights).temperature


def calibrate(likelihood, mean, var, codes, weights):
    mean, codes = torch.as_tensor(mean), torch.as_tensor(codes)
    weights = torch.as_tensor(np.asarray(weights, dtype=float))
    return likelihood.calibrate(
        mean, None if var is None else torch.as_tensor(var), codes, weights
    )


def uncertain_latents(n=400, n_classes=4, seed=0, spread=0.7):
    """Return latent means whose errors are larger where variances are."""
    generator = np.random.default_rng(seed)
    codes = generator.integers(0, n_classes, n)
    var = generator.gamma(0.5, 0.3, size=(n, 1)) * np.ones(n_classes)
    noise = generator.gumbel(size=(n, n_classes)) * np.sqrt(0.04 + spread * var)
    mean = generator.normal(size=(n, n_classes))
    codes = (mean + noise).argmax(axis=1)
    return mean, var, codes, generator.uniform(0.1, 4.0, n)


def surprise(place, mean, var, codes, weights, has_offsets):
    """Return log loss and priors at log T, log kappa and b / T, written plainly."""
    n_classes = mean.shape[1]
    offsets = place[2:] if has_offsets else np.zeros(n_classes)
    divisor = np.sqrt(np.exp(2 * place[0]) + np.exp(place[1]) * var)
    latents = (mean + np.exp(place[0]) * offsets) / divisor
    loss = logsumexp(latents, axis=1) - latents[np.arange(len(codes)), codes]
    prior = (place[1] - np.log(USUAL_SPREAD)) ** 2
    prior += ((place[2:] / OFFSET_DEVIATION) ** 2).sum()
    return (weights * loss).sum() + prior / 2


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


@pytest.mark.parametrize("has_offsets", [False, True])
@pytest.mark.parametrize(("n_classes", "seed"), [(2, 0), (4, 1), (10, 2)])
def test_calibration_is_the_most_probable_one(n_classes, seed, has_offsets):
    data = uncertain_latents(n_classes=n_classes, seed=seed)
    found = calibrate(Gaussian(offsets=has_offsets), *data)
    place = np.log([found.temperature, found.spread])
    place = np.append(place, np.array(found.offsets) / found.temperature)
    args = (*data, has_offsets)
    slope = approx_fprime(place, surprise, 1e-6, *args)
    np.testing.assert_allclose(slope, 0.0, atol=2e-3)
    start = np.append([-1.0, 1.0], np.zeros(n_classes if has_offsets else 0))
    best = minimize(surprise, start, args=args)
    assert surprise(place, *args) <= best.fun + 1e-6


def test_spread_of_latents_is_found():
    mean, var, codes, _ = uncertain_latents(n=20_000, spread=0.7)
    found = calibrate(Gaussian(), mean, var, codes, np.ones(len(codes)))
    assert found.spread == pytest.approx(0.7, rel=0.1)
    assert found.temperature == pytest.approx(0.2, rel=0.1)


def test_few_samples_have_the_usual_spread():
    mean, var, codes, _ = uncertain_latents(n=3)
    found = calibrate(Gaussian(), mean, var, codes, np.full(3, 1e-6))
    assert found.spread == pytest.approx(USUAL_SPREAD, rel=1e-3)


def test_offsets_mend_classes_that_are_favoured():
    mean, var, codes, _ = uncertain_latents(n=4000)
    shift = np.array([0.3, 0.0, 0.0, -0.3])
    found = calibrate(
        Gaussian(offsets=True), mean + shift, var, codes, np.ones(len(codes))
    )
    mended = np.array(found.offsets) + shift
    np.testing.assert_allclose(mended - mended.mean(), 0.0, atol=0.05)
    assert abs(sum(found.offsets)) < 1e-6


def test_weights_are_repetitions_for_spread_and_offsets():
    mean, var, codes, _ = uncertain_latents(n=100)
    times = np.random.default_rng(1).integers(1, 5, len(codes))
    again = np.repeat(np.arange(len(codes)), times)
    likelihood = Gaussian(offsets=True)
    weighted = calibrate(likelihood, mean, var, codes, times)
    repeated = calibrate(
        likelihood, mean[again], var[again], codes[again], np.ones(len(again))
    )
    assert weighted.temperature == pytest.approx(repeated.temperature, rel=1e-5)
    assert weighted.spread == pytest.approx(repeated.spread, rel=1e-5)
    np.testing.assert_allclose(weighted.offsets, repeated.offsets, atol=1e-5)


def test_calibration_divides_and_shifts():
    mean, var, *_ = uncertain_latents(n=5)
    calibration = Calibration(0.3, 0.5, (0.1, -0.1, 0.0, 0.2))
    latents, scaled = calibration.latents(torch.as_tensor(mean), torch.as_tensor(var))
    divisor = np.sqrt(0.09 + 0.5 * var)
    shifted = mean + np.array([0.1, -0.1, 0.0, 0.2])
    np.testing.assert_allclose(latents, shifted / divisor, rtol=1e-14)
    np.testing.assert_allclose(scaled, var / divisor**2, rtol=1e-14)


def test_certain_samples_end_at_the_bounds():
    codes = np.repeat([0, 1], 20_000)
    mean = np.array([1.0, -1.0])[np.abs(codes[:, None] - [0, 1])]
    certain = calibrate(
        Gaussian(), mean, np.full_like(mean, 1e4), codes, np.full(len(codes), 1e9)
    )
    assert certain.temperature == pytest.approx(COLDEST)
    assert certain.spread == pytest.approx(SPREADS[0])


@pytest.mark.parametrize("name", ["spread", "offsets"])
def test_settings_are_checked(name):
    likelihood = Gaussian(**{name: "yes"})
    with pytest.raises(ValueError, match=f"'{name}' parameter of Gaussian"):
        likelihood.targets(torch.tensor([0, 1]), 2, torch.ones(2))
