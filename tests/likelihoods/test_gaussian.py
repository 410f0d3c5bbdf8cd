"""Label regression: the label code, and the calibration of its latents."""

import numpy as np
import pytest
import torch
from scipy.optimize import approx_fprime, minimize
from scipy.special import expit, logsumexp, softmax
from scipy.stats import norm

from skconvgp.likelihoods import Calibration, Dirichlet, Gaussian
from skconvgp.likelihoods._calibration import DEVIATIONS, OFFSET_DEVIATION, USUAL

USUAL_SPREAD = np.exp(USUAL[1])


def noisy_latents(n=60, n_classes=4, seed=0):
    """Return latent means that favour the right class, but not always."""
    generator = np.random.default_rng(seed)
    codes = generator.integers(0, n_classes, n)
    mean = generator.normal(size=(n, n_classes)) * 0.4
    mean[np.arange(n), codes] += 0.5
    return mean, codes, generator.uniform(0.1, 4.0, n)


def calibrate(likelihood, mean, var, codes, weights=None):
    mean, codes = torch.as_tensor(mean), torch.as_tensor(codes)
    weights = np.ones(len(codes)) if weights is None else np.asarray(weights, float)
    var = None if var is None else torch.as_tensor(var)
    return likelihood.calibrate(mean, var, codes, torch.as_tensor(weights))


def probabilities(found, mean, var=None):
    """Return what a calibration makes of latents."""
    mean = torch.as_tensor(mean)
    var = torch.empty(0) if var is None else torch.as_tensor(var)
    return torch.softmax(found.latents(mean, var)[0], dim=1).numpy()


def uncertain_latents(n=400, n_classes=4, seed=0, spread=0.7):
    """Return latent means whose errors are larger where variances are."""
    generator = np.random.default_rng(seed)
    codes = generator.integers(0, n_classes, n)
    var = generator.gamma(0.5, 0.3, size=(n, 1)) * np.ones(n_classes)
    noise = generator.gumbel(size=(n, n_classes)) * np.sqrt(0.04 + spread * var)
    mean = generator.normal(size=(n, n_classes))
    codes = (mean + noise).argmax(axis=1)
    return mean, var, codes, generator.uniform(0.1, 4.0, n)


def drawn_labels(probabilities, seed=0):
    """Return a class for each row of probabilities, drawn from it."""
    uniform = np.random.default_rng(seed).uniform(size=(len(probabilities), 1))
    return (probabilities.cumsum(axis=1) < uniform).sum(axis=1)


def gap(found, true):
    """Return the mean divergence of probabilities from the true ones."""
    return (true * (np.log(true) - np.log(found))).sum(axis=1).mean()


def surprise(place, mean, var, codes, weights, has_offsets):
    """Return log loss and priors, written plainly, where latents have size 1.

    At the logarithms of temperature, spread, bend and odds of the floor, and at b / T.
    """
    n_classes = mean.shape[1]
    temperature, spread, bend = np.exp(place[:3])
    offsets = place[4:] if has_offsets else np.zeros(n_classes)
    centred = mean - mean.mean(axis=1, keepdims=True)
    latents = centred + temperature * (offsets - offsets.mean())
    latents = latents / np.sqrt(temperature**2 + spread * var)
    floor = expit(place[3])
    stated = (1.0 - floor) * softmax(np.arcsinh(bend * latents) / bend, axis=1)
    stated = (stated + floor / n_classes)[np.arange(len(codes)), codes]
    prior = -norm(USUAL, DEVIATIONS).logpdf(place[:4]).sum()
    prior -= norm(0.0, OFFSET_DEVIATION).logpdf(place[4:]).sum()
    return prior - (weights * np.log(stated)).sum()


def size_of(mean, weights):
    centred = mean - mean.mean(axis=1, keepdims=True)
    return np.sqrt(np.average((centred**2).sum(axis=1), weights=weights))


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


@pytest.mark.parametrize("has_offsets", [False, True])
@pytest.mark.parametrize(("n_classes", "seed"), [(2, 0), (5, 2)])
def test_calibration_is_the_most_probable_one(n_classes, seed, has_offsets):
    mean, var, codes, weights = uncertain_latents(150, n_classes, seed)
    found = calibrate(Gaussian(offsets=has_offsets), mean, var, codes, weights)
    size = size_of(mean, weights)
    numbers = found.temperature / size, found.spread, found.bend
    place = np.log([*numbers, found.floor / (1.0 - found.floor)])
    place = np.append(place, np.array(found.offsets) / found.temperature)
    args = (mean / size, var / size**2, codes, weights, has_offsets)
    slope = approx_fprime(place, surprise, 1e-6, *args)
    np.testing.assert_allclose(slope, 0.0, atol=2e-3)
    start = np.append(USUAL + 0.3, np.zeros(n_classes if has_offsets else 0))
    best = minimize(surprise, start, args=args)
    assert surprise(place, *args) <= best.fun + 1e-4


@pytest.mark.parametrize("seed", [1, 6, 10])
def test_calibration_is_the_best_of_two_modes(seed):
    # A quarter of the labels fall anywhere; scores that say little explain them too.
    rng = np.random.default_rng(seed)
    n, k = 150, 7
    mean = 0.5 * np.eye(k)[rng.integers(0, k, n)] * rng.uniform(0.0, 2.0, (n, 1))
    mean += 0.25 * rng.normal(size=(n, k))
    codes = drawn_labels(0.75 * softmax(mean / 0.12, axis=1) + 0.25 / k, rng)
    var, weights = np.ones((n, 1)), np.ones(n)
    found = calibrate(Gaussian(), mean, var, codes)
    size = size_of(mean, weights)
    args = mean / size, var / size**2, codes, weights, False
    floored = minimize(surprise, np.append(USUAL[:3], -1.0), args=args)
    numbers = found.temperature / size, found.spread, found.bend
    place = np.log([*numbers, found.floor / (1.0 - found.floor)])
    assert surprise(place, *args) <= floored.fun + 1e-4
    assert found.floor > 0.1


@pytest.mark.parametrize("has_variances", [False, True])
@pytest.mark.parametrize("scale", [1e-6, 1e-2, 1e4])
def test_probabilities_do_not_know_the_scale_of_the_latents(scale, has_variances):
    mean, var, codes, _ = uncertain_latents(n=100)
    var = var if has_variances else None
    small = None if var is None else var * scale**2
    found = calibrate(Gaussian(), mean, var, codes)
    scaled = calibrate(Gaussian(), scale * mean, small, codes)
    assert scaled.temperature == pytest.approx(scale * found.temperature, rel=1e-6)
    np.testing.assert_allclose(
        probabilities(scaled, scale * mean, small),
        probabilities(found, mean, var),
        rtol=1e-6,
    )


def test_weights_are_repetitions():
    mean, var, codes, _ = uncertain_latents(n=100)
    times = np.random.default_rng(1).integers(1, 5, len(codes))
    again = np.repeat(np.arange(len(codes)), times)
    likelihood = Gaussian(offsets=True)
    weighted = calibrate(likelihood, mean, var, codes, times)
    repeated = calibrate(likelihood, mean[again], var[again], codes[again])
    for name in ("temperature", "spread", "bend", "floor"):
        expected = pytest.approx(getattr(repeated, name), rel=1e-5)
        assert getattr(weighted, name) == expected
    np.testing.assert_allclose(weighted.offsets, repeated.offsets, atol=1e-5)


def test_offsets_of_all_classes_alike_change_nothing():
    mean, var, codes, _ = uncertain_latents(n=100)
    found = calibrate(Gaussian(), mean, var, codes)
    moved = calibrate(Gaussian(), mean + 3.0, var, codes)
    assert moved.temperature == pytest.approx(found.temperature, rel=1e-6)
    expected = probabilities(found, mean, var)
    np.testing.assert_allclose(probabilities(moved, mean + 3.0, var), expected, 1e-6)


def test_temperature_of_separable_latents_is_a_share_of_them():
    codes = np.tile([0, 1, 2], 50)
    mean = np.eye(3)[codes]
    found = calibrate(Gaussian(spread=False), mean, None, codes)
    assert 0.02 < found.temperature < 0.3
    assert found.floor < 1e-3
    assert (probabilities(found, mean)[np.arange(150), codes] > 0.99).all()


def test_latents_that_are_always_wrong_say_little():
    codes = np.tile([0, 1, 2], 50)
    mean = -np.eye(3)[codes]
    stated = probabilities(calibrate(Gaussian(), mean, None, codes), mean)
    assert stated.max() < 0.45


def test_latents_that_say_nothing_are_left_alone():
    codes = np.array([0, 1, 2, 0])
    found = calibrate(Gaussian(), np.zeros((4, 3)), np.ones((4, 3)), codes)
    assert found == Calibration()


def test_a_single_sample_leaves_what_is_usual():
    mean, var, codes, _ = uncertain_latents(n=3)
    found = calibrate(Gaussian(), mean, var, codes, np.full(3, 1e-6))
    usual = np.exp(USUAL)
    assert found.temperature == pytest.approx(
        usual[0] * size_of(mean, np.ones(3)), rel=1e-3
    )
    assert found.spread == pytest.approx(USUAL_SPREAD, rel=1e-3)
    assert found.bend == pytest.approx(usual[2], rel=1e-3)
    assert found.floor == pytest.approx(usual[3], rel=1e-2)


def test_spread_of_latents_is_found():
    mean, var, codes, _ = uncertain_latents(n=20_000, spread=0.7)
    found = calibrate(Gaussian(), mean, var, codes)
    assert found.spread == pytest.approx(0.7, rel=0.15)
    assert found.temperature == pytest.approx(0.2, rel=0.15)


@pytest.mark.parametrize(
    ("likelihood", "scale"), [(Gaussian(), 0.01), (Dirichlet(), 1.0)], ids=repr
)
def test_probabilities_of_26_classes_are_found(likelihood, scale):
    # Scores of many classes that are sure too early: the odds are a power of them.
    rng = np.random.default_rng(0)
    n, k = 1500, 26
    mean = 0.04 * rng.normal(size=(n, k))
    mean[np.arange(n), rng.integers(0, k, n)] += rng.uniform(0.0, 0.9, n)
    mean -= mean.mean(axis=1, keepdims=True)
    true = softmax(3.5 * np.arcsinh(mean / 0.1), axis=1)
    codes = drawn_labels(true)
    var = rng.uniform(0.5, 2.0, size=(n, k))  # of latents, says nothing
    found = calibrate(likelihood, scale * mean, scale**2 * var, codes)
    stated = probabilities(found, scale * mean, scale**2 * var)
    assert gap(stated, true) < 0.02
    # Without the bend the best temperature leaves far more.
    straight = min(gap(softmax(c * mean, axis=1), true) for c in np.arange(5, 40, 2))
    assert straight > 10.0 * gap(stated, true)


def test_share_of_labels_that_fall_anywhere_is_found():
    rng = np.random.default_rng(0)
    mean = np.eye(5)[rng.integers(0, 5, 4000)] + 0.1 * rng.normal(size=(4000, 5))
    true = 0.85 * softmax(mean / 0.1, axis=1) + 0.15 / 5
    codes = drawn_labels(true)
    found = calibrate(Gaussian(spread=False), mean, None, codes)
    assert found.floor == pytest.approx(0.15, abs=0.03)
    assert gap(probabilities(found, mean), true) < 0.01
    straight = min(gap(softmax(c * mean, axis=1), true) for c in np.arange(1, 20))
    assert straight > 10.0 * gap(probabilities(found, mean), true)


def test_offsets_mend_classes_that_are_favoured():
    mean, var, codes, _ = uncertain_latents(n=4000)
    shift = np.array([0.3, 0.0, 0.0, -0.3])
    found = calibrate(Gaussian(offsets=True), mean + shift, var, codes)
    mended = np.array(found.offsets) + shift
    np.testing.assert_allclose(mended - mended.mean(), 0.0, atol=0.05)
    assert abs(sum(found.offsets)) < 1e-6


def test_calibration_divides_and_shifts():
    mean, var, *_ = uncertain_latents(n=5)
    calibration = Calibration(0.3, 0.5, (0.1, -0.1, 0.0, 0.2))
    latents, scaled = calibration.latents(torch.as_tensor(mean), torch.as_tensor(var))
    divisor = np.sqrt(0.09 + 0.5 * var)
    shifted = mean + np.array([0.1, -0.1, 0.0, 0.2])
    np.testing.assert_allclose(latents, shifted / divisor, rtol=1e-14)
    np.testing.assert_allclose(scaled, var / divisor**2, rtol=1e-14)


def test_calibration_bends_and_lifts():
    mean, var, *_ = uncertain_latents(n=5)
    calibration = Calibration(0.1, bend=0.4, floor=0.2)
    centred = (mean - mean.mean(axis=1, keepdims=True)) / 0.1
    expected = 0.8 * softmax(np.arcsinh(0.4 * centred) / 0.4, axis=1) + 0.05
    np.testing.assert_allclose(probabilities(calibration, mean, var), expected, 1e-12)


@pytest.mark.parametrize("name", ["spread", "offsets"])
def test_settings_are_checked(name):
    likelihood = Gaussian(**{name: "yes"})
    with pytest.raises(ValueError, match=f"'{name}' parameter of Gaussian"):
        likelihood.targets(torch.tensor([0, 1]), 2, torch.ones(2))
