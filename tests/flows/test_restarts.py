"""A search from several starts."""

import numpy as np
import pytest

from skconvgp._protocols import OptimizerResult
from skconvgp.flows import LBFGS, Adam
from skconvgp.flows._restarts import minimize_from_many
from tests.helpers.landscapes import Surface
from tests.helpers.oracles import seeded


def two_valleys(start):
    """Return a surface with a shallow valley at -2 and a deep one at 2."""
    return Surface(
        lambda t: float((t[0] ** 2 - 4.0) ** 2 / 16.0 - 0.2 * t[0]),
        lambda t: np.array([t[0] * (t[0] ** 2 - 4.0) / 4.0 - 0.2]),
        start=(start,),
        spread=0.0,
    )


def test_restarts_leave_the_valley_of_the_start():
    alone = minimize_from_many(LBFGS(), 0, two_valleys(-2.5), seeded())
    assert alone.theta[0] == pytest.approx(-1.89, abs=0.02)
    assert alone.n_restarts == 0
    many = minimize_from_many(LBFGS(), 8, two_valleys(-2.5), seeded())
    assert many.theta[0] == pytest.approx(2.1, abs=0.02)
    assert many.n_restarts == 8


def test_starts_are_within_the_bounds_and_differ():
    surface = two_valleys(-2.5)
    minimize_from_many(Adam(max_iter=1, learning_rate=1e-9), 20, surface, seeded())
    places = np.unique(np.round(np.ravel(surface.visited), 6))
    assert len(places) >= 20
    assert places.min() >= -3.0
    assert places.max() <= 3.0
    assert places.max() - places.min() > 4.0


def test_the_first_search_wins_where_the_others_find_nothing_better():
    surface = two_valleys(2.0)
    alone = minimize_from_many(LBFGS(), 0, surface, seeded())
    many = minimize_from_many(LBFGS(), 5, two_valleys(2.0), seeded())
    best = surface.fixed_value(alone.theta)
    assert surface.fixed_value(many.theta) <= best
    assert many.message == "converged"


def test_an_undefined_start_is_left():
    surface = two_valleys(-2.5)
    whole = surface.function
    surface.function = lambda t: np.nan if t[0] < 0.0 else whole(t)
    found = minimize_from_many(LBFGS(), 8, surface, seeded())
    assert found.theta[0] == pytest.approx(2.1, abs=0.02)
    assert found.message == "converged"


class Restarting:
    """An optimizer that says that it began anew two times, and stays at its start."""

    def minimize(self, landscape, generator):
        return OptimizerResult(landscape.start, "converged", n_restarts=2)


def test_restarts_within_every_search_count():
    found = minimize_from_many(Restarting(), 3, two_valleys(2.0), seeded())
    assert found.n_restarts == 2 + 3 * (1 + 2)
