"""L-BFGS on the fixed batches."""

import math

import numpy as np
import pytest

from skconvgp.flows import LBFGS
from tests.helpers.landscapes import Surface, bowl
from tests.helpers.oracles import seeded

MIDDLE = np.array([0.5, 1.0, -0.5, 0.2])


def wide_bowl(**settings):
    return bowl(start=(2.0, -2.0, 1.0, 1.0), middle=MIDDLE, **settings)


@pytest.mark.parametrize("gradient", ["exact", "finite_difference"])
def test_finds_the_minimum_of_the_fixed_batches(gradient):
    surface = wide_bowl(spread=0.3)
    found = LBFGS(gradient=gradient, tolerance=1e-8).minimize(surface, seeded())
    shifts = [surface._shift(batch) for batch in surface.fixed]
    np.testing.assert_allclose(found.theta, MIDDLE + np.mean(shifts, 0), atol=1e-3)
    assert found.message == "converged"
    assert surface.n_drawn == 0


def test_needs_few_evaluations():
    surface = wide_bowl()
    LBFGS().minimize(surface, seeded())
    assert surface.n_evaluations == surface.n_derivatives
    assert surface.n_evaluations < 25 * len(surface.fixed)


def test_curved_valley():
    surface = Surface(
        lambda t: (1.0 - t[0]) ** 2 + 10.0 * (t[1] - t[0] ** 2) ** 2,
        lambda t: np.array(
            [
                -2.0 * (1.0 - t[0]) - 40.0 * t[0] * (t[1] - t[0] ** 2),
                20.0 * (t[1] - t[0] ** 2),
            ]
        ),
        (-1.2, 1.0),
    )
    found = LBFGS(tolerance=1e-10).minimize(surface, seeded())
    np.testing.assert_allclose(found.theta, 1.0, atol=1e-3)


def test_stays_within_bounds_and_fixed_dimensions_do_not_move():
    bounds = [(-3.0, 0.0), (-3.0, 3.0), (1.0, 1.0), (-3.0, 3.0)]
    surface = bowl(start=(-1.0, -2.0, 1.0, 1.0), middle=MIDDLE, bounds=bounds)
    found = LBFGS(tolerance=1e-9).minimize(surface, seeded())
    np.testing.assert_allclose(found.theta, [0.0, 1.0, 1.0, 0.2], atol=1e-3)
    lows, highs = surface.bounds.T
    assert all((lows <= at).all() and (at <= highs).all() for at in surface.visited)


def test_all_dimensions_fixed():
    surface = bowl(bounds=[(2.0, 2.0), (-2.0, -2.0)])
    found = LBFGS().minimize(surface, seeded())
    np.testing.assert_array_equal(found.theta, surface.start)


@pytest.mark.parametrize("gradient", ["exact", "finite_difference"])
def test_line_searches_come_back_from_undefined_places(gradient):
    surface = wide_bowl(undefined=lambda theta: theta[1] > 0.3)
    found = LBFGS(gradient=gradient).minimize(surface, seeded())
    values = [step.value for step in surface.steps]
    assert any(map(math.isnan, values))
    assert found.stats["n_undefined"] == sum(map(math.isnan, values))
    assert surface.fixed_value(found.theta) < 0.6 * surface.fixed_value(surface.start)
    assert found.theta[1] <= 0.3


def test_undefined_places_lose_where_values_are_larger_than_the_worst_known():
    surface = bowl(start=(2.0, 0.25), undefined=lambda theta: theta[1] > 0.3)
    surface.worst = -10.0
    found = LBFGS().minimize(surface, seeded())
    assert math.isnan(surface.steps[0].value)
    assert surface.fixed_value(found.theta) < surface.fixed_value(surface.start)


def test_undefined_start():
    surface = bowl(undefined=lambda theta: True)
    found = LBFGS().minimize(surface, seeded())
    assert found.message == "the objective is undefined at the start"
    np.testing.assert_array_equal(found.theta, surface.start)


def test_steps_are_reported_after_each_iteration():
    surface = wide_bowl()
    found = LBFGS(tolerance=1e-8).minimize(surface, seeded())
    assert [step.index for step in surface.steps] == list(range(len(surface.steps)))
    assert found.stats["n_steps"] == len(surface.steps) > 3
    values = [step.value for step in surface.steps]
    assert values == sorted(values, reverse=True)
    for step in surface.steps:
        assert step.value == pytest.approx(surface.fixed_value(step.theta))


def test_iterations_are_limited():
    surface = wide_bowl()
    found = LBFGS(max_iter=2).minimize(surface, seeded())
    assert found.message == "all steps done"
    assert [step.total for step in surface.steps] == [2, 2]


def n_steps(shift, tolerance):
    """Return how many iterations it takes from a place near the minimum."""
    surface = bowl(start=MIDDLE + shift, middle=MIDDLE)
    LBFGS(tolerance=tolerance).minimize(surface, seeded())
    return len(surface.steps)


def test_ends_where_no_slope_is_steeper_than_the_tolerance():
    assert n_steps(1e-4, tolerance=1e-2) == 0
    assert n_steps(1e-4, tolerance=1e-9) > 0


def test_ends_where_an_iteration_gains_less_than_the_tolerance():
    assert n_steps(np.array([0.3, 0.1, 0.03, 0.01]), tolerance=0.02) == 1


def test_slope_that_misleads_finds_no_way():
    surface = wide_bowl()
    surface.slope = lambda theta: -2.0 * 0.05 * 5.0 ** np.arange(4) * (theta - MIDDLE)
    found = LBFGS().minimize(surface, seeded())
    assert found.message == "no way down was found"
    assert surface.fixed_value(found.theta) <= surface.fixed_value(surface.start)


def test_stops_when_a_report_says_so():
    surface = wide_bowl(last=1)
    found = LBFGS().minimize(surface, seeded())
    assert found.message == "stopped by a callback"
    assert len(surface.steps) == 2
    assert surface.fixed_value(found.theta) < surface.fixed_value(surface.start)


@pytest.mark.parametrize(
    ("part", "name"),
    [
        (LBFGS(max_iter=0), "max_iter"),
        (LBFGS(gradient="bfgs"), "gradient"),
        (LBFGS(tolerance=0.0), "tolerance"),
        (LBFGS(tolerance=math.inf), "tolerance"),
        (LBFGS(difference_step=None), "difference_step"),
    ],
    ids=repr,
)
def test_wrong_settings_are_named(part, name):
    with pytest.raises(ValueError, match=f"The '{name}' parameter of LBFGS must be"):
        part.minimize(wide_bowl(), seeded())
