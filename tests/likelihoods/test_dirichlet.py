"""Labels as counts: targets, noise, prior means and probabilities."""

import numpy as np
import pytest
import torch
from scipy.special import softmax
from scipy.stats import gamma

from skconvgp.likelihoods import Calibration, Dirichlet

# docs/maths.rst, "Labels as counts": noise and target on and off the own class.
TABLE = {
    0.01: (0.688184, -0.334142, 4.615121, -6.912730),
    0.1: (0.646627, -0.228003, 2.397895, -3.501533),
}


def made(alpha_eps, codes, n_classes, weights=None):
    codes = torch.as_tensor(codes)
    weights = torch.ones(len(codes)) if weights is None else torch.as_tensor(weights)
    return Dirichlet(alpha_eps).targets(codes, n_classes, weights)


@pytest.mark.parametrize("alpha_eps", TABLE)
def test_targets_and_noise_are_those_of_the_table(alpha_eps):
    targets = made(alpha_eps, [1], 2)
    found = (targets.noise[0, 1], targets.values[0, 1])
    found += (targets.noise[0, 0], targets.values[0, 0])
    np.testing.assert_allclose(found, TABLE[alpha_eps], atol=5e-7)


@pytest.mark.parametrize("alpha", [0.01, 0.3, 1.01])
def test_log_normal_has_the_mean_and_variance_of_the_count(alpha):
    targets = made(alpha, [0], 2)
    mean, noise = float(targets.values[0, 1]), float(targets.noise[0, 1])
    expected = gamma(alpha)
    assert np.exp(mean + noise / 2.0) == pytest.approx(expected.mean())
    spread = (np.exp(noise) - 1.0) * np.exp(2.0 * mean + noise)
    assert spread == pytest.approx(expected.var())


def test_prior_means_are_log_frequencies_and_the_mean_of_the_targets():
    codes = [0] * 6 + [1] * 3 + [2]
    targets = made(0.01, codes, 3)
    shape = targets.offset - targets.offset.mean()
    log_frequency = np.log([0.6, 0.3, 0.1])
    np.testing.assert_allclose(shape, log_frequency - log_frequency.mean(), atol=1e-12)
    assert float((targets.values - targets.offset).mean()) == pytest.approx(0.0)


def test_weights_count_in_the_prior_means():
    weighted = made(0.01, [0, 1, 2], 3, [3.0, 1.0, 2.0])
    many = made(0.01, [0, 0, 0, 1, 2, 2], 3)
    np.testing.assert_allclose(weighted.offset, many.offset, rtol=1e-12)


def test_a_class_without_samples_has_a_finite_prior_mean():
    offset = made(0.01, [0, 0, 1, 1], 3).offset
    assert offset.isfinite().all()
    assert offset.argmin() == 2


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e3])
def test_prior_means_depend_on_shares_of_the_weights_only(scale):
    codes = torch.tensor([0] * 19 + [1])
    weights = torch.ones(20, dtype=torch.float64)
    for n_classes in (2, 3):  # the third has no samples
        whole = Dirichlet().targets(codes, n_classes, weights).offset
        scaled = Dirichlet().targets(codes, n_classes, scale * weights).offset
        torch.testing.assert_close(scaled, whole)
    assert whole[2] < whole[1] < whole[0]


def test_a_class_of_a_tiny_weight_counts_as_half_a_sample():
    codes, weights = [0] * 10 + [1], [1.0] * 10
    tiny, half = (made(0.01, codes, 2, [*weights, w]).offset for w in (1e-30, 0.0))
    # The mean weight is 1, and 10/11 with the tiny one.
    assert float(half[0] - half[1]) == pytest.approx(np.log(20.0))
    assert float(tiny[0] - tiny[1]) == pytest.approx(np.log(22.0))


def test_probabilities_are_the_softmax_of_calibrated_means():
    rng = np.random.default_rng(0)
    mean, var = rng.normal(size=(5, 3)), rng.uniform(0.1, 3.0, size=(5, 3))
    calibration = Calibration(0.5, spread=0.3)
    latents = calibration.latents(torch.as_tensor(mean), torch.as_tensor(var))
    divisor = np.sqrt(0.25 + 0.3 * var.mean(axis=1, keepdims=True))
    expected = softmax(mean / divisor, axis=1)
    np.testing.assert_allclose(Dirichlet().probabilities(*latents), expected, 1e-12)


def test_probabilities_of_many_classes_are_not_timid():
    # Twelve of 26 latent functions are far below the one of a label, and unsure.
    rng = np.random.default_rng(0)
    n, k = 2000, 26
    codes = np.arange(n) % k
    mean = -6.0 + rng.normal(size=(n, k))
    mean[np.arange(n), codes] += 4.0
    right = (mean.argmax(axis=1) == codes).mean()
    mean, var = torch.as_tensor(mean), torch.full((n, k), 4.0, dtype=torch.float64)
    calibration = Dirichlet().calibrate(
        mean, var, torch.as_tensor(codes), torch.ones(n, dtype=torch.float64)
    )
    stated = Dirichlet().probabilities(*calibration.latents(mean, var)).amax(1)
    assert float(stated.mean()) == pytest.approx(right, abs=0.02)


def test_candidates_are_made_only_where_asked_for():
    assert [one.alpha_eps for one in Dirichlet("loo").candidates()] == [
        0.01,
        0.1,
        1e-3,
        1e-6,
    ]
    assert Dirichlet(0.2).candidates() == [Dirichlet(0.2)]


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.inf, "evidence", None, True])
def test_wrong_count_is_refused(wrong):
    with pytest.raises(ValueError, match="'alpha_eps' parameter of Dirichlet"):
        made(wrong, [0, 1], 2)
