"""Markov chains that have left the posterior."""

import torch

from skconvgp.networks import (
    GaussianData,
    LayeredNetwork,
    Potential,
    Sampling,
    WeightPrior,
    initial_parameters,
    sample_chains,
)

NETWORK = LayeredNetwork((1, 5, 1), "tanh", ((2.0, 1.0),) * 2)


def chains(step_size, n_steps, shift=0.0):
    inputs = torch.linspace(-1.0, 1.0, 8, dtype=torch.float64)[:, None]
    data = GaussianData(inputs[None] ** 2, torch.full_like(inputs, 0.1))
    generator = torch.Generator().manual_seed(0)
    start = initial_parameters(NETWORK, 4, generator, inputs)
    for values in start.values():
        values[0] += shift
    potential = Potential(NETWORK, inputs, 8, data, WeightPrior())
    sampling = Sampling(4, 3, n_steps, n_steps, step_size)
    return sample_chains(potential, start, sampling, generator, lambda epoch: False)


def test_chains_that_grow_to_finite_numbers_have_diverged():
    trained = chains(step_size=3.0, n_steps=10)
    assert all(values.isfinite().all() for values in trained.parameters.values())
    assert not trained.is_finite.any()


def test_usual_chains_have_not():
    trained = chains(step_size=0.05, n_steps=200)
    assert trained.is_finite.all()
    assert len(trained.trace) == 4


def test_a_start_far_from_the_posterior_is_no_divergence():
    trained = chains(step_size=0.05, n_steps=200, shift=30.0)
    assert trained.is_finite.all()
    assert trained.losses[-1] < trained.losses[0]
