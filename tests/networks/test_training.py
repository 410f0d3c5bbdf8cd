"""Training: members that do not influence each other, and early stopping."""

import math

import pytest
import torch

from skconvgp.networks import (
    GaussianData,
    LayeredNetwork,
    Potential,
    Schedule,
    Validation,
    WeightPrior,
    initial_parameters,
    train,
)

NETWORK = LayeredNetwork((1, 4, 1), "relu", ((2.0, 1.0),) * 2)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def never(_epoch):
    return False


def problem(n_draws=3):
    inputs = torch.linspace(-1.0, 1.0, 8, dtype=torch.float64)[:, None]
    data = GaussianData(inputs[None] ** 2, torch.full_like(inputs, 0.1))
    start = initial_parameters(NETWORK, n_draws, generator(), inputs)
    return Potential(NETWORK, inputs, 8, data, WeightPrior()), start


def test_a_draw_is_trained_as_if_it_were_alone():
    potential, start = problem()
    schedule = Schedule(20, 0.05)
    together = train(potential, start, schedule, generator(), never)
    one = {name: values[1:2] for name, values in start.items()}
    alone = train(potential, one, schedule, generator(), never)
    for name, values in alone.parameters.items():
        torch.testing.assert_close(together.parameters[name][1:2], values)


def test_a_draw_that_diverges_is_reported_and_harms_no_other():
    potential, start = problem()
    start["weight0"][1] = torch.inf
    trained = train(potential, start, Schedule(20, 0.05), generator(), never)
    assert trained.is_finite.tolist() == [True, False, True]
    assert trained.losses[-1] < trained.losses[0]


@pytest.mark.parametrize("batch_size", [None, 5])
def test_a_training_that_grows_to_finite_numbers_has_diverged(batch_size):
    potential, start = problem()
    wild = Schedule(20, 1e6, batch_size)
    assert not train(potential, start, wild, generator(), never).is_finite.any()
    usual = Schedule(20, 0.05, batch_size)
    assert train(potential, start, usual, generator(), never).is_finite.all()


@pytest.mark.parametrize(
    ("n", "size", "sizes"),
    [(33, 32, [17, 16]), (33, 16, [11, 11, 11]), (6, 3, [3, 3]), (7, 1, [1] * 7)],
)
def test_batches_of_an_epoch_are_equally_large_and_have_each_sample_once(
    n, size, sizes
):
    batches = list(Schedule(1, 0.1, size).batches(n, generator()))
    assert [len(one) for one in batches] == sizes
    assert sorted(torch.cat(batches).tolist()) == list(range(n))


@pytest.mark.parametrize("block", [7, 2**17])  # of 39 numbers
def test_steps_are_those_of_adam(monkeypatch, block):
    monkeypatch.setattr("skconvgp.networks._training.ADAM_BLOCK", block)
    potential, start = problem()
    trained = train(potential, start, Schedule(3, 0.1), generator(), never)
    values = {name: one.clone().requires_grad_() for name, one in start.items()}
    means, squares = dict.fromkeys(start, 0.0), dict.fromkeys(start, 0.0)
    for t in range(1, 4):
        potential(values).sum().backward()
        rate = 0.05 * (1.0 + math.cos(math.pi * (t - 1) / 3))
        for name, one in values.items():
            means[name] = 0.9 * means[name] + 0.1 * one.grad
            squares[name] = 0.999 * squares[name] + 0.001 * one.grad**2
            mean, square = means[name] / (1 - 0.9**t), squares[name] / (1 - 0.999**t)
            moved = one.detach() - rate * mean / (square.sqrt() + 1e-8)
            values[name] = moved.requires_grad_()
    for name, one in values.items():
        torch.testing.assert_close(trained.parameters[name], one.detach())


def test_early_stopping_keeps_the_best_of_each_draw():
    potential, start = problem()
    apart = torch.tensor([[0.5]], dtype=torch.float64)
    data = GaussianData(torch.full((1, 1, 1), 100.0, dtype=torch.float64), apart)
    validation = Validation(NETWORK, apart, data, 1)  # far from what is learned
    trained = train(
        potential, start, Schedule(400, 0.05), generator(), never, validation
    )
    assert trained.is_stopped
    assert len(trained.losses) < 400
    kept = validation.losses(trained.parameters)
    assert (kept <= validation.losses(start)).all()


class Falling:
    """The root of 1 - w, which a descent follows out of its domain."""

    n_rows = 1

    def __call__(self, parameters):
        w = parameters["w"]
        return torch.stack([(w[0] - 1.0).square().sum(), (1.0 - w[1]).sqrt().sum()])

    def losses(self, parameters):
        return parameters["w"].square().sum(1)  # best at the start


def test_a_draw_that_diverges_after_its_best_look_is_reported():
    start = {"w": torch.zeros(2, 1, dtype=torch.float64)}
    schedule = Schedule(60, 0.1, look_every=1, patience=100)
    trained = train(Falling(), start, schedule, generator(), never, Falling())
    assert trained.parameters["w"].abs().max() < 0.2
    assert trained.is_finite.tolist() == [True, False]


def test_losses_on_validation_samples_do_not_depend_on_how_many_are_read():
    potential, start = problem()
    held_out = potential.inputs, potential.data
    whole, parts = (Validation(NETWORK, *held_out, n).losses(start) for n in (8, 3))
    torch.testing.assert_close(parts, whole)
    assert (whole > 0.0).all()
