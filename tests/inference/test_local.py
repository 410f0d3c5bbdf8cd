"""Posteriors from a few neighbours against dense formulas."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import norm

from skconvgp.inference import (
    UNINFORMED,
    LeftOut,
    local_posterior,
    local_spectra,
    without_neighbors,
)
from tests.helpers.dense_gp import noisy, problem
from tests.helpers.tolerances import assert_close

B, K = 6, 8
NOISES = [1e-6, 0.03, 2.0]


def neighborhoods():
    """Return Gram matrices, targets and weights of neighbours, as numpy arrays."""
    gram, _, _, targets = problem(n=30)
    rng = np.random.default_rng(1)
    numbers = np.array([rng.permutation(30)[: K + 1] for _ in range(B)])
    grams = gram[numbers[:, :, None], numbers[:, None, :]]
    return grams, targets[numbers], rng.uniform(0.3, 3.0, (B, K + 1))


def tensors(*arrays):
    return (torch.as_tensor(array) for array in arrays)


def dense_posterior(gram, targets, noise, weights):
    solved = np.linalg.solve(noisy(gram[1:, 1:], noise, weights), gram[1:, 0])
    return solved @ targets, gram[0, 0] - solved @ gram[1:, 0]


@pytest.mark.parametrize("noise", NOISES)
def test_posterior_is_that_of_each_alone(noise):
    grams, targets, weights = neighborhoods()
    known = targets[:, 1:], noise / weights[:, 1:]
    mean, var, jitter = local_posterior(*tensors(grams, *known))
    assert jitter == 0.0
    for i in range(B):
        expected = dense_posterior(grams[i], known[0][i], noise, weights[i, 1:])
        assert_close(mean[i], expected[0], kind="solve")
        assert float(var[i]) == pytest.approx(expected[1], abs=1e-9)


def test_one_decomposition_serves_all_noises():
    grams, targets, weights = neighborhoods()
    known = targets[:, 1:], weights[:, 1:]
    noises = torch.tensor(NOISES, dtype=torch.float64)
    means, variances = local_spectra(*tensors(grams, *known), noises)
    assert means.shape == (B, 3, 2)
    assert variances.shape == (B, 3)
    for g, noise in enumerate(NOISES):
        for i in range(B):
            expected = dense_posterior(grams[i], known[0][i], noise, known[1][i])
            assert_close(means[i, g], expected[0], kind="solve")
            assert float(variances[i, g]) == pytest.approx(expected[1], abs=1e-8)


def test_neighbors_that_are_dropped_tell_nothing():
    grams, targets, weights = neighborhoods()
    dropped = np.random.default_rng(2).random((B, K)) < 0.4
    detached = without_neighbors(*tensors(grams, dropped))
    noise = 0.03 / weights[:, 1:]
    mean, var, jitter = local_posterior(detached, *tensors(targets[:, 1:], noise))
    assert jitter == 0.0
    for i in range(B):
        kept = np.append(True, ~dropped[i])
        some = grams[i][np.ix_(kept, kept)]
        expected = dense_posterior(
            some, targets[i][kept][1:], 0.03, weights[i][kept][1:]
        )
        assert_close(mean[i], expected[0], kind="solve")
        assert float(var[i]) == pytest.approx(expected[1], abs=1e-9)


def left_out(seed=0):
    rng = np.random.default_rng(seed)
    return LeftOut(
        *tensors(
            rng.normal(size=(9, 2)),
            rng.uniform(0.3, 3.0, 9),
            rng.normal(size=(9, 3, 2)),
            rng.uniform(0.2, 2.0, (9, 3)),
        ),
        torch.tensor([True, True]),
    )


def test_density_is_that_of_each_target():
    values = left_out()
    amplitude = torch.tensor([[1.0, 2.0], [0.5, 3.0], [2.0, 0.1]], dtype=torch.float64)
    found = values.log_density(amplitude)
    for g in range(3):
        deviation = (values.var[:, g, None] * amplitude[g]).sqrt()
        density = norm.logpdf(values.targets, values.mean[:, g], deviation)
        expected = (values.weights.numpy() * density.sum(1)).sum()
        assert float(found[g]) == pytest.approx(expected, rel=1e-12)


def test_amplitude_has_the_largest_density():
    values = left_out()
    best = values.amplitude()
    assert (values.log_density(best) > values.log_density(0.99 * best)).all()
    assert (values.log_density(best) > values.log_density(1.01 * best)).all()


def test_amplitude_of_targets_that_are_met_is_positive():
    zeros = torch.zeros(3, 1, 2)
    values = LeftOut(
        zeros[:, 0], torch.ones(3), zeros, torch.zeros(3, 1), torch.ones(2).bool()
    )
    assert (values.amplitude() > 0.0).all()
    assert values.log_density(values.amplitude()).isfinite().all()


def test_outputs_that_say_nothing_change_nothing():
    both = left_out()
    one = replace(
        both,
        targets=both.targets[:, :1],
        mean=both.mean[:, :, :1],
        informs=both.informs[:1],
    )
    found = replace(both, informs=torch.tensor([True, False]))
    amplitudes = found.amplitude()
    assert torch.equal(amplitudes[:, :1], one.amplitude())
    assert (amplitudes[:, 1] == UNINFORMED).all()
    assert torch.equal(found.log_density(amplitudes), one.log_density(one.amplitude()))
