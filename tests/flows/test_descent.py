"""Gradient descent and Adam: where they go, and what undefined values do."""

import math

import numpy as np
import pytest
import torch

from skconvgp.flows import Adam, GradientDescent
from skconvgp.flows._search import slope
from tests.helpers.landscapes import Surface, bowl
from tests.helpers.oracles import seeded
from tests.helpers.tolerances import assert_close

EVERY = [
    GradientDescent(),
    GradientDescent(nesterov=True),
    GradientDescent(momentum=0.0, learning_rate=0.5),
    GradientDescent("finite_difference"),
    Adam(),
]
every_descent = pytest.mark.parametrize("part", EVERY, ids=repr)
MIDDLE = np.array([0.5, 1.0])


def wall(theta):
    """Say whether a place is beyond the wall."""
    return theta[0] > 1.0


@every_descent
def test_finds_the_minimum_of_a_smooth_function(part):
    surface = bowl(middle=MIDDLE)
    found = part.minimize(surface, seeded())
    np.testing.assert_allclose(found.theta, MIDDLE, atol=0.01)
    assert found.message == "all steps done"
    assert found.stats == {"n_steps": 200.0, "n_undefined": 0.0}


@every_descent
def test_finds_the_mean_minimum_of_batches(part):
    surface = bowl(middle=MIDDLE, spread=0.3, n_fixed=200)
    found = part.minimize(surface, seeded())
    np.testing.assert_allclose(found.theta, MIDDLE, atol=0.25)


@every_descent
def test_stays_within_bounds_and_ends_at_one(part):
    surface = bowl(start=(0.0, 0.0), middle=(3.0, 1.0), bounds=[(-0.5, 0.5), (-2, 2)])
    found = part.minimize(surface, seeded())
    lows, highs = surface.bounds.T
    assert all((lows <= at).all() and (at <= highs).all() for at in surface.visited)
    np.testing.assert_allclose(found.theta, [0.5, 1.0], atol=0.02)


@every_descent
def test_steps_are_reported_from_the_start_on(part):
    surface = bowl(spread=0.1)
    part.minimize(surface, seeded())
    assert [step.index for step in surface.steps] == list(range(200))
    assert {step.total for step in surface.steps} == {200}
    np.testing.assert_array_equal(surface.steps[0].theta, surface.start)
    assert surface.progress == [i / 200 for i in range(200)]
    assert surface.steps[0].value > surface.steps[-1].value


def test_plain_descent_takes_these_steps():
    surface = bowl(start=(2.0,), middle=(0.0,))
    GradientDescent(learning_rate=2.0, momentum=0.0, max_iter=4).minimize(
        surface, seeded()
    )
    np.testing.assert_allclose(
        np.ravel([step.theta for step in surface.steps]), 2.0 * 0.8 ** np.arange(4)
    )


@pytest.mark.parametrize("nesterov", [False, True])
def test_momentum_moves_as_torch_does(nesterov):
    settings = {"momentum": 0.8, "nesterov": nesterov}
    surface = bowl()
    part = GradientDescent(learning_rate=0.2, max_iter=20, **settings)
    part.minimize(surface, seeded())
    expected = torch_places(surface, torch.optim.SGD, lr=0.2, **settings)
    assert_close([step.theta for step in surface.steps], expected)


def test_adam_moves_as_torch_does():
    surface = bowl()
    part = Adam(20, 0.1, beta1=0.7, beta2=0.95)
    part.minimize(surface, seeded())
    expected = torch_places(surface, torch.optim.Adam, lr=0.1, betas=(0.7, 0.95))
    assert_close([step.theta for step in surface.steps], expected)


def torch_places(surface, rule, **settings):
    theta = torch.tensor(surface.start, requires_grad=True)
    optimizer = rule([theta], **settings)
    places = []
    for _ in range(20):
        places.append(theta.detach().numpy().copy())
        theta.grad = torch.tensor(surface.slope(places[-1]))
        optimizer.step()
    return np.array(places)


@pytest.mark.parametrize("method", ["exact", "autograd"])
@pytest.mark.parametrize("cls", [GradientDescent, Adam])
def test_slopes_come_from_the_method_that_is_asked_for(cls, method):
    surface = bowl()
    cls(gradient=method, max_iter=3).minimize(surface, seeded())
    assert surface.methods == {method}
    assert surface.n_derivatives == 3


def wavy():
    """Return a function that is not its own second-order expansion."""
    return Surface(
        lambda t: math.sin(t[0]) * math.exp(0.3 * t[1]),
        lambda t: (
            np.array([math.cos(t[0]), 0.3 * math.sin(t[0])]) * math.exp(0.3 * t[1])
        ),
        (0.4, 0.2),
        spread=0.2,
    )


def test_central_differences_agree_with_derivatives_on_the_same_batches():
    surface = wavy()
    batches = (surface.draw(0.0), surface.draw(0.5))
    value, by_theta = slope(surface, surface.start, batches, "finite_difference", 1e-5)
    exact_value, exact = slope(surface, surface.start, batches, "exact", 1e-5)
    assert surface.n_drawn == 2
    assert value == exact_value
    np.testing.assert_allclose(by_theta, exact, rtol=1e-8)


def test_default_difference_suits_values_in_single_precision():
    surface, rounded = wavy(), wavy()
    rounded.function = lambda t: float(np.float32(surface.function(t)))
    part = GradientDescent()
    settings = (surface.start, surface.fixed, "finite_difference")
    _, exact = slope(surface, surface.start, surface.fixed, "exact", 0.0)
    for used, allowed in ((part.difference_step, 1e-4), (1e-8, math.inf)):
        _, by_theta = slope(rounded, *settings, used)
        assert np.abs(by_theta - exact).max() < allowed
    assert np.abs(by_theta - exact).max() > 0.1  # far below the default, all is lost


def test_differences_at_bounds_look_inwards_and_leave_fixed_dimensions_alone():
    surface = wavy()
    surface.bounds = np.array([(0.4, 1.0), (0.2, 0.2)])
    batch = (surface.draw(0.0),)
    surface.visited.clear()
    _, by_theta = slope(surface, surface.start, batch, "finite_difference", 1e-5)
    _, exact = slope(surface, surface.start, batch, "exact", 1e-5)
    assert by_theta[1] == 0.0
    assert by_theta[0] == pytest.approx(exact[0], rel=1e-4)
    assert min(theta[0] for theta in surface.visited) == 0.4


@every_descent
@pytest.mark.parametrize("seed", range(5))
def test_never_worse_than_the_start_on_the_fixed_batches(part, seed):
    start = 0.5 + 0.02 * np.random.default_rng(seed).normal(size=2)
    surface = bowl(start=start, middle=(0.5, 0.5), spread=1.0)
    found = part.set_params(max_iter=7).minimize(surface, seeded())
    part.set_params(max_iter=200)
    assert surface.fixed_value(found.theta) <= surface.fixed_value(surface.start)


def test_start_is_the_answer_where_nothing_is_better():
    surface = bowl(start=MIDDLE, middle=MIDDLE, spread=1.0)
    surface.slope = lambda theta: -np.ones(2)  # misleads
    found = Adam(max_iter=50).minimize(surface, seeded())
    np.testing.assert_array_equal(found.theta, surface.start)


def test_answer_is_a_running_mean_of_places():
    surface = bowl(start=(2.0,), middle=(0.0,))
    part = GradientDescent(learning_rate=2.0, momentum=0.0, max_iter=5, check_every=2)
    found = part.minimize(surface, seeded())
    places = 2.0 * 0.8 ** np.arange(1, 6)
    means = [places[:2].mean(), places[2:4].mean(), places[4]]
    assert found.theta == pytest.approx(means[2])
    checked = [at[0] for at in surface.visited]
    assert all(any(abs(at - mean) < 1e-12 for at in checked) for mean in means)
    # five steps; the start and three means on four fixed batches
    assert surface.n_evaluations == 5 + 4 * 4


@every_descent
def test_undefined_steps_are_recorded_and_taken_back(part):
    surface = bowl(start=(0.9, -1.0), middle=(1.3, 1.0), undefined=wall)
    found = part.minimize(surface, seeded())
    values = np.array([step.value for step in surface.steps])
    undefined = np.isnan(values)
    assert undefined.any()
    assert found.stats["n_undefined"] == undefined.sum()
    near = part.difference_step if part.gradient == "finite_difference" else 0.0
    for step in surface.steps:
        assert math.isnan(step.value) == wall(step.theta + near)
    assert found.n_restarts == 0
    assert found.theta[0] > 0.9  # as near to the wall as it could
    assert math.isfinite(surface.fixed_value(found.theta))


def test_first_step_after_an_undefined_one_is_half_way_back_without_momentum():
    surface = bowl(start=(0.9, -1.0), middle=(1.3, 1.0), undefined=wall)
    part = GradientDescent(learning_rate=0.5)
    part.minimize(surface, seeded())
    steps = surface.steps
    i = next(i for i, step in enumerate(steps) if math.isnan(step.value))
    middle = (steps[i].theta + steps[i - 1].theta) / 2.0
    np.testing.assert_allclose(steps[i + 1].theta, middle)
    j = next(j for j in range(i, len(steps)) if not math.isnan(steps[j].value))
    moved = steps[j].theta - 0.5 * surface.slope(steps[j].theta)
    np.testing.assert_allclose(steps[j + 1].theta, moved)


def sometimes(is_defined, **settings):
    """Return a bowl that is undefined on some batches, by number from 1."""
    surface = bowl(**settings)
    value = surface.value
    surface.value = lambda theta, batches: (
        value(theta, batches)
        if batches is surface.fixed or is_defined(surface.n_drawn)
        else math.nan
    )
    return surface


def test_undefined_steps_that_are_not_in_a_row_do_not_end_the_search():
    surface = sometimes(lambda number: number % 10 == 0)
    found = GradientDescent().minimize(surface, seeded())
    assert found.message == "all steps done"
    assert found.stats["n_undefined"] == 180


def test_places_before_a_restart_are_not_in_the_mean_after_it():
    surface = sometimes(lambda number: number != 6)
    part = Adam(max_iter=11, check_every=10, restart_undefined=True)
    assert part.minimize(surface, seeded()).n_restarts == 1
    mean = np.mean([step.theta for step in surface.steps[7:11]], axis=0)
    assert any(np.allclose(at, mean, atol=1e-12) for at in surface.visited)


@every_descent
def test_ends_where_everything_is_undefined(part):
    surface = bowl(undefined=lambda theta: True)
    found = part.minimize(surface, seeded())
    assert found.message == "the objective was undefined 10 times in a row"
    assert found.stats == {"n_steps": 10.0, "n_undefined": 10.0}
    np.testing.assert_array_equal(found.theta, surface.start)


@pytest.mark.parametrize("part", [GradientDescent(), Adam()], ids=repr)
def test_slope_that_is_not_finite_is_undefined_too(part):
    surface = bowl()
    surface.slope = lambda theta: np.array([0.0, math.inf])
    found = part.minimize(surface, seeded())
    assert found.stats["n_undefined"] == 10
    assert all(math.isnan(step.value) for step in surface.steps)


@pytest.mark.parametrize("cls", [GradientDescent, Adam])
def test_restarts_leave_an_undefined_region(cls):
    surface = bowl(start=(2.0, 2.0), undefined=wall)
    found = cls(restart_undefined=True).minimize(surface, seeded())
    assert found.n_restarts >= 1
    assert found.n_restarts == found.stats["n_undefined"]
    np.testing.assert_allclose(found.theta, MIDDLE, atol=0.02)


def test_new_starts_fill_the_bounds():
    bounds = np.array([(-3.0, -1.0), (0.0, 4.0)])
    surface = bowl(start=(-2.0, 1.0), bounds=bounds, undefined=lambda theta: True)
    found = Adam(max_iter=400, restart_undefined=True).minimize(surface, seeded())
    assert found.n_restarts == 400
    starts = np.array([step.theta for step in surface.steps[1:]])
    np.testing.assert_allclose(starts.min(0), bounds[:, 0], atol=0.05)
    np.testing.assert_allclose(starts.max(0), bounds[:, 1], atol=0.05)
    np.testing.assert_allclose(starts.mean(0), bounds.mean(1), atol=0.2)


def test_undefined_start_is_beaten_by_any_defined_place():
    surface = bowl(start=(1.1, 0.0), undefined=wall)
    found = Adam(max_iter=40, restart_undefined=True).minimize(surface, seeded(1))
    assert math.isfinite(surface.fixed_value(found.theta))


@every_descent
def test_stops_when_a_report_says_so(part):
    surface = bowl(last=6)
    found = part.minimize(surface, seeded())
    assert found.message == "stopped by a callback"
    assert len(surface.steps) == 7
    assert found.stats["n_steps"] == 7
    assert surface.fixed_value(found.theta) < surface.fixed_value(surface.start)


@pytest.mark.parametrize(
    ("part", "name"),
    [
        (GradientDescent("forward"), "gradient"),
        (GradientDescent(gradient=None), "gradient"),
        (GradientDescent(learning_rate=0.0), "learning_rate"),
        (GradientDescent(learning_rate=math.nan), "learning_rate"),
        (GradientDescent(momentum=1.0), "momentum"),
        (GradientDescent(momentum=-0.1), "momentum"),
        (GradientDescent(nesterov="yes"), "nesterov"),
        (GradientDescent(max_iter=0), "max_iter"),
        (GradientDescent(max_iter=2.5), "max_iter"),
        (GradientDescent(check_every=0), "check_every"),
        (GradientDescent(restart_undefined=1), "restart_undefined"),
        (GradientDescent(difference_step=-1e-3), "difference_step"),
        (Adam(max_iter=True), "max_iter"),
        (Adam(learning_rate="fast"), "learning_rate"),
        (Adam(gradient="exact "), "gradient"),
        (Adam(beta1=1.0), "beta1"),
        (Adam(beta2=-1.0), "beta2"),
    ],
    ids=repr,
)
def test_wrong_settings_are_named(part, name):
    surface = bowl()
    message = f"The '{name}' parameter of {type(part).__name__} must be"
    with pytest.raises(ValueError, match=message):
        part.minimize(surface, seeded())
    assert surface.n_evaluations == 0
