"""Criteria of features against dense formulas, refits and central differences."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal, norm

from skconvgp.inference import feature_score
from tests.helpers.dense_gp import refit_without_sample

N, R, K, NOISE, STEP = 9, 4, 3, 0.3, 1e-6


def data(seed=0):
    generator = np.random.default_rng(seed)
    return generator.normal(size=(N, R)), generator.normal(size=(N, K))


def score_of(criterion, features, targets, noise):
    F, Y = map(torch.as_tensor, (features, targets))
    return feature_score(F, Y, noise, criterion)


def dense_evidence(features, targets, noise):
    gram = features @ features.T + noise * np.eye(N)
    amplitude = np.sum(targets * np.linalg.solve(gram, targets)) / targets.size
    joint = multivariate_normal(np.zeros(N), amplitude * gram)
    return -joint.logpdf(targets.T).sum() / targets.size


def test_evidence_is_a_density():
    features, targets = data()
    score = score_of("evidence", features, targets, NOISE)
    assert score.value == pytest.approx(dense_evidence(features, targets, NOISE))


def test_leave_one_out_is_that_of_refits():
    features, targets = data()
    gram = features @ features.T
    refits = [
        refit_without_sample(gram, targets, NOISE, np.ones(N), i) for i in range(N)
    ]
    means = np.array([mean for mean, _ in refits])
    variances = np.array([var for _, var in refits])[:, None]
    amplitude = np.mean((targets - means) ** 2 / variances)
    densities = norm.logpdf(targets, means, np.sqrt(amplitude * variances))
    score = score_of("loo", features, targets, NOISE)
    assert score.value == pytest.approx(-densities.mean())


@pytest.mark.parametrize("criterion", ["evidence", "loo"])
def test_derivatives_are_central_differences(criterion):
    features, targets = data()
    score = score_of(criterion, features, targets, NOISE)
    slopes = np.zeros((N, R))
    for place in np.ndindex(N, R):
        change = np.zeros((N, R))
        change[place] = STEP
        rise = score_of(criterion, features + change, targets, NOISE).value
        rise -= score_of(criterion, features - change, targets, NOISE).value
        slopes[place] = rise / (2 * STEP)
    np.testing.assert_allclose(score.by_features, slopes, rtol=1e-6, atol=1e-8)
    rise = score_of(criterion, features, targets, NOISE + STEP).value
    rise -= score_of(criterion, features, targets, NOISE - STEP).value
    assert score.by_noise == pytest.approx(rise / (2 * STEP), rel=1e-6)
