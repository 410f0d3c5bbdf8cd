"""Priors of features, whose steps read some of the samples, against closed forms."""

import numpy as np
import pytest
import torch

from skconvgp.networks import (
    GaussianData,
    LayeredNetwork,
    Potential,
    Sampling,
    Schedule,
    feature_prior,
    initial_parameters,
    sample_chains,
    train,
)
from tests.networks.test_exactness import (
    N_DRAWS,
    assert_same_moments,
    generator,
    proceed,
)

N, R, NOISE = 5, 3, 0.3


@pytest.fixture
def features():
    return torch.randn(N, R, generator=generator(7), dtype=torch.float64)


def covariance(features):
    return features.numpy() @ features.numpy().T + NOISE * np.eye(len(features))


def outputs_of(n_draws, n_outputs=2):
    size = n_draws, N, n_outputs
    return torch.randn(*size, generator=generator(8), dtype=torch.float64)


def test_the_least_value_is_the_density_of_the_outputs(features):
    prior = feature_prior(features, NOISE, 2, n_draws=4, generator=generator())
    outputs = outputs_of(4)
    prior.renew(outputs, None)
    gaps = (outputs - prior.means).numpy()
    precision = np.linalg.inv(covariance(features))
    expected = 0.5 * np.einsum("kio,ij,kjo->k", gaps, precision, gaps)
    np.testing.assert_allclose(prior({}, outputs), expected)
    # No other coefficients have a smaller value.
    prior.coefficients += 0.01 * outputs_of(4)[:, :R]
    assert (prior({}, outputs).numpy() > expected).all()


def test_coefficients_are_drawn_given_the_outputs(features):
    prior = feature_prior(features, NOISE, 1, generator=generator())
    outputs = outputs_of(1, 1)
    prior.renew(outputs.expand(N_DRAWS, N, 1), generator(1))
    phi = features.numpy()
    inverse = np.linalg.inv(phi.T @ phi + NOISE * np.eye(R))
    mean = inverse @ phi.T @ outputs[0, :, 0].numpy()
    assert_same_moments(prior.coefficients[..., 0].numpy(), mean, NOISE * inverse)


def test_means_are_drawn_from_the_prior(features):
    prior = feature_prior(features, NOISE, 1, n_draws=N_DRAWS, generator=generator())
    assert_same_moments(prior.means[..., 0].numpy(), np.zeros(N), covariance(features))


def test_batches_estimate_the_value_without_bias(features):
    prior = feature_prior(features, NOISE, 2, n_draws=3, generator=generator())
    outputs = outputs_of(3)
    prior.renew(outputs, generator(1))
    rows = torch.arange(N).reshape(N, 1)
    parts = [prior.on_batch({}, outputs[:, one], one) for one in rows]
    torch.testing.assert_close(torch.stack(parts).mean(0), prior({}, outputs))


def linear(features, n_draws, *, is_bootstrap):
    """Return the potential of a network that takes any values at N - 1 samples.

    The last input is read by the prior alone.
    """
    inputs, source = 2.0 * torch.eye(N, dtype=torch.float64), generator()
    network = LayeredNetwork((N, 1), "tanh", ((1.0, 0.0),))
    targets = torch.randn(1, N - 1, 1, generator=generator(9), dtype=torch.float64)
    data = GaussianData(targets, torch.full((N - 1, 1), 0.2).double())
    n_means = n_draws if is_bootstrap else 0
    prior = feature_prior(features, NOISE, 1, n_draws=n_means, generator=source)
    if is_bootstrap:
        data = data.perturbed(n_draws, source)
    start = initial_parameters(network, n_draws, source, inputs)
    return Potential(network, inputs, N - 1, data, prior), start, targets, source


def posterior(features, targets):
    C = covariance(features)
    gain = C[:, :-1] @ np.linalg.inv(C[:-1, :-1] + 0.2 * np.eye(N - 1))
    return gain @ targets[0, :, 0].numpy(), C - gain @ C[:-1]


def test_batches_and_extra_points_estimate_a_potential_without_bias(features):
    potential, start, _, _ = linear(features, 2, is_bootstrap=True)
    potential.renew(start, 2)
    parts = [
        potential.on_batch(start, torch.tensor([one])) for one in reversed(range(N))
    ]
    torch.testing.assert_close(torch.stack(parts).mean(0), potential(start))


def test_a_bootstrap_on_batches_draws_from_the_gaussian_process(features):
    potential, start, targets, source = linear(features, N_DRAWS, is_bootstrap=True)

    def renew(parameters):
        potential.renew(parameters, 2)

    schedule = Schedule(300, 0.1, batch_size=2)
    trained = train(potential, start, schedule, source, proceed, renew=renew)
    with torch.no_grad():
        outputs = potential.network.outputs(trained.parameters, potential.inputs)
    assert_same_moments(outputs[..., 0].numpy(), *posterior(features, targets))


def test_chains_with_gibbs_steps_draw_from_the_gaussian_process(features):
    n_chains = 2000
    potential, start, targets, source = linear(features, n_chains, is_bootstrap=False)
    sampling = Sampling(n_chains, 1, 600, 200, 0.05, batch_size=3)
    trained = sample_chains(potential, start, sampling, source, proceed)
    with torch.no_grad():
        outputs = potential.network.outputs(trained.parameters, potential.inputs)
    mean, expected = posterior(features, targets)
    draws, std = outputs[..., 0].numpy(), np.sqrt(np.diag(expected))
    assert np.abs((draws.mean(0) - mean) / std).max() < 4.0 / np.sqrt(n_chains)
    np.testing.assert_allclose(draws.std(0), std, rtol=0.07)
