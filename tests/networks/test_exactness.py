"""Bootstraps against posteriors in closed form, where these are exact."""

import numpy as np
import pytest
import torch

from skconvgp.linalg import shifted_cholesky_
from skconvgp.networks import (
    Epoch,
    FunctionPrior,
    GaussianData,
    LayeredNetwork,
    Potential,
    Sampling,
    Schedule,
    WeightPrior,
    initial_parameters,
    sample_chains,
    sample_functions,
    train,
)

N_DRAWS = 4000


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def proceed(epoch: Epoch) -> bool:
    return False


def assert_same_moments(draws, mean, covariance, n=N_DRAWS):
    """Compare draws (k, n) with a normal distribution, up to their standard errors."""
    variance = np.diag(covariance)
    errors = (draws.mean(0) - mean) / np.sqrt(variance / n)
    assert np.abs(errors).max() < 4.0
    np.testing.assert_allclose(draws.var(0), variance, rtol=5.0 * np.sqrt(2.0 / n))
    sizes = np.sqrt(np.outer(variance, variance))
    assert np.abs((np.cov(draws.T) - covariance) / sizes).max() < 5.0 / np.sqrt(n)


def test_without_hidden_layers_a_bootstrap_is_bayesian_linear_regression():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6, 2)), rng.normal(size=6)
    noise = rng.uniform(0.3, 1.0, size=6)
    network = LayeredNetwork((2, 1), "tanh", ((1.5, 0.5),))
    inputs = torch.from_numpy(X)
    source = generator()
    start = initial_parameters(network, N_DRAWS, source, inputs)
    targets = torch.from_numpy(y)[None, :, None]
    data = GaussianData(targets, torch.from_numpy(noise)[:, None])
    data = data.perturbed(N_DRAWS, source)
    potential = Potential(network, inputs, 6, data, WeightPrior(start))
    trained = train(potential, start, Schedule(300, 0.1), source, proceed)
    X_new = rng.normal(size=(3, 2))
    with torch.no_grad():
        outputs = network.outputs(trained.parameters, torch.from_numpy(X_new))
    gram, cross, prior = (
        1.5 / 2.0 * one @ two.T + 0.5
        for one, two in ((X, X), (X_new, X), (X_new, X_new))
    )
    gain = np.linalg.solve(gram + np.diag(noise), cross.T).T
    assert_same_moments(outputs[..., 0].numpy(), gain @ y, prior - gain @ cross.T)


def test_a_prior_of_functions_is_that_of_a_gaussian_process_at_training_points():
    # A linear network with as many features as points takes any values there.
    rng = np.random.default_rng(1)
    X = np.linspace(0.0, 2.0, 4)
    K = np.exp(-0.5 * (X[:, None] - X) ** 2)
    y, noise, jitter = rng.normal(size=4), 0.2, 0.1
    inputs, source = torch.eye(4, dtype=torch.float64) * 2.0, generator()
    network = LayeredNetwork((4, 1), "tanh", ((1.0, 0.0),))
    factor, _ = shifted_cholesky_(
        torch.from_numpy(K), torch.full((4,), jitter, dtype=torch.float64)
    )
    start = initial_parameters(network, N_DRAWS, source, inputs)
    data = GaussianData(
        torch.from_numpy(y)[None, :, None],
        torch.full((4, 1), noise, dtype=torch.float64),
    )
    prior = FunctionPrior(factor, sample_functions(factor, N_DRAWS, 1, source))
    potential = Potential(network, inputs, 4, data.perturbed(N_DRAWS, source), prior)
    trained = train(potential, start, Schedule(500, 0.1), source, proceed)
    with torch.no_grad():
        outputs = network.outputs(trained.parameters, inputs)[..., 0].numpy()
    C = K + jitter * np.eye(4)
    gain = C @ np.linalg.inv(C + noise * np.eye(4))
    assert_same_moments(outputs, gain @ y, C - gain @ C)


def test_batches_estimate_the_potential_without_bias():
    network = LayeredNetwork((2, 3, 1), "erf", ((1.0, 1.0),) * 2)
    inputs = torch.randn(6, 2, generator=generator(), dtype=torch.float64)
    parameters = initial_parameters(network, 2, generator(1), inputs)
    data = GaussianData(inputs[None, :, :1], torch.ones(6, 1, dtype=torch.float64))
    potential = Potential(network, inputs, 6, data, WeightPrior())
    parts = [
        potential.on_batch(parameters, torch.tensor(rows))
        for rows in ([0, 1], [2, 3], [4, 5])
    ]
    torch.testing.assert_close(torch.stack(parts).mean(0), potential(parameters))


@pytest.mark.parametrize("batch_size", [None, 3, 5])
def test_chains_draw_from_the_posterior_of_a_linear_model(batch_size):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(6, 2)), rng.normal(size=6)
    network = LayeredNetwork((2, 1), "tanh", ((1.5, 0.5),))
    inputs, source, n_chains = torch.from_numpy(X), generator(), 2000
    start = initial_parameters(network, n_chains, source, inputs)
    data = GaussianData(
        torch.from_numpy(y)[None, :, None], torch.full((6, 1), 0.5).double()
    )
    potential = Potential(network, inputs, 6, data, WeightPrior())
    # All chains see the same batches, whose noise does not average out over chains.
    n_slower = 1 if batch_size is None else 2
    sampling = Sampling(
        n_chains, 1, 300 * n_slower, 100 * n_slower, 0.15 / n_slower, batch_size
    )
    trained = sample_chains(potential, start, sampling, source, proceed)
    with torch.no_grad():
        outputs = network.outputs(trained.parameters, inputs)
    gram = 0.75 * X @ X.T + 0.5
    gain = gram @ np.linalg.inv(gram + 0.5 * np.eye(6))
    draws, covariance = outputs[..., 0].numpy(), gram - gain @ gram
    std = np.sqrt(np.diag(covariance))
    assert np.abs((draws.mean(0) - gain @ y) / std).max() < 4.0 / np.sqrt(n_chains)
    np.testing.assert_allclose(draws.std(0), std, rtol=0.07)
    assert trained.trace.shape == (n_chains, 20, 6, 1)


def test_chains_of_the_prior_have_its_variance():
    network = LayeredNetwork((1, 1), "tanh", ((1.0, 1.0),))
    inputs, source = torch.zeros(1, 1, dtype=torch.float64), generator()
    start = initial_parameters(network, 1000, source, inputs)
    data = GaussianData(inputs[None], torch.full((1, 1), torch.inf).double())
    potential = Potential(network, inputs, 1, data, WeightPrior())
    far = {name: 5.0 + values for name, values in start.items()}
    sampling = Sampling(1000, 5, 300, 60, 0.2)
    trained = sample_chains(potential, far, sampling, source, proceed)
    for values in trained.parameters.values():
        assert len(values) == 5000
        assert abs(float(values.mean())) < 0.06
        assert abs(float(values.var()) - 1.0) < 0.05


def test_the_density_of_a_function_is_bounded_by_its_norm():
    """A function of the kernel's space has a finite density at any number of points."""
    rng = np.random.default_rng(0)
    centres, weights = np.linspace(-1.0, 1.0, 7)[:, None], rng.normal(size=7)

    def kernel(x, y):
        return np.exp(-0.5 * (x - y.T) ** 2 / 0.3**2)

    norm = weights @ kernel(centres, centres) @ weights
    found = []
    for n in (5, 20, 100):
        x = np.linspace(-1.5, 1.5, n)[:, None]
        outputs = torch.from_numpy(kernel(x, centres) @ weights)[None, :, None]
        covariance = torch.from_numpy(kernel(x, x))
        factor, _ = shifted_cholesky_(covariance, torch.full((n,), 1e-8).double())
        prior = FunctionPrior(factor, torch.zeros_like(outputs))
        found.append(2.0 * float(prior({}, outputs)))
    assert found == sorted(found)
    assert 0.5 * norm < found[-1] <= norm
    np.testing.assert_allclose(found[-1], norm, rtol=1e-3)
