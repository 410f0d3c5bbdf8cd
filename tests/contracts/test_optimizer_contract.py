"""What every optimiser does, and a third-party one to prove the seam."""

import copy
import math
import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone

from skconvgp import flows
from skconvgp._protocols import Optimizer, OptimizerResult, Step
from tests.helpers.landscapes import bowl
from tests.helpers.oracles import seeded


class RandomSearch:
    """Third-party optimiser: places drawn between the bounds, no base class."""

    def minimize(self, landscape, generator):
        lows, highs = landscape.bounds.T
        best = landscape.start
        least = landscape.value(best, landscape.fixed)
        least = math.inf if math.isnan(least) else least
        for index in range(30):
            shares = torch.rand(len(lows), dtype=torch.float64, generator=generator)
            theta = lows + shares.numpy() * (highs - lows)
            value = landscape.value(theta, landscape.fixed)
            if value < least:
                best, least = theta, value
            if landscape.report(Step(index, 30, theta, value)):
                break
        return OptimizerResult(best.copy(), "all steps done")


PUBLIC = [getattr(flows, name)() for name in ("Adam", "GradientDescent", "LBFGS")]
BUILT_IN = [*PUBLIC, flows.BayesianOptimization(n_initial=5, max_iter=7)]
OPTIMIZERS = [*BUILT_IN, RandomSearch()]


def name(part):
    return type(part).__name__


every_optimizer = pytest.mark.parametrize("part", OPTIMIZERS, ids=name)
every_built_in = pytest.mark.parametrize("part", BUILT_IN, ids=name)


def noisy_bowl(**settings):
    return bowl(spread=0.2, **settings)


def test_the_optimizers_of_the_package_are_here():
    public = [getattr(flows, name) for name in flows.__all__]
    found = {cls for cls in public if hasattr(cls, "minimize")}
    assert found == {type(part) for part in BUILT_IN}


@every_optimizer
def test_is_an_optimizer(part):
    assert isinstance(part, Optimizer)


@every_built_in
def test_is_a_part_with_settings(part):
    assert clone(part) == part
    assert clone(part) is not part
    assert part.get_params() == vars(part)
    assert eval(repr(part), {name(part): type(part)}) == part
    assert pickle.loads(pickle.dumps(part)) == part
    assert clone(part).set_params(max_iter=3).max_iter == 3


@every_optimizer
def test_finds_something_better_within_bounds(part):
    surface = noisy_bowl()
    result = part.minimize(surface, seeded())
    assert isinstance(result, OptimizerResult)
    assert result.theta.shape == surface.start.shape
    assert result.theta.dtype == np.float64
    assert surface.fixed_value(result.theta) < surface.fixed_value(surface.start) - 0.5
    lows, highs = surface.bounds.T
    assert all((lows <= at).all() and (at <= highs).all() for at in surface.visited)
    assert result.message


@every_optimizer
def test_is_never_worse_than_the_start(part):
    for seed in range(4):
        start = 0.5 + 0.1 * np.random.default_rng(seed).normal(size=2)
        surface = bowl(start, middle=(0.5, 0.5), spread=1.0)
        result = part.minimize(surface, seeded(seed))
        value = surface.fixed_value(result.theta)
        assert value <= surface.fixed_value(surface.start)


@every_optimizer
def test_undefined_places_never_win(part):
    surface = noisy_bowl(undefined=lambda theta: theta[1] > 0.3)
    result = part.minimize(surface, seeded())
    assert surface.fixed_value(result.theta) < surface.fixed_value(surface.start)


@every_optimizer
def test_start_is_the_answer_where_nothing_is_defined(part):
    surface = noisy_bowl(undefined=lambda theta: True)
    result = part.minimize(surface, seeded())
    np.testing.assert_array_equal(result.theta, surface.start)
    assert all(np.isnan(step.value) for step in surface.steps)


@every_optimizer
def test_the_generator_decides(part):
    first, again = noisy_bowl(), noisy_bowl()
    one, two = part.minimize(first, seeded(3)), part.minimize(again, seeded(3))
    np.testing.assert_array_equal(one.theta, two.theta)
    assert (one.message, one.stats) == (two.message, two.stats)
    np.testing.assert_array_equal(first.visited, again.visited)


@every_optimizer
def test_each_step_is_reported(part):
    surface = noisy_bowl()
    part.minimize(surface, seeded())
    assert [step.index for step in surface.steps] == list(range(len(surface.steps)))
    assert all(len(surface.steps) <= step.total for step in surface.steps)
    assert all(step.theta.shape == (2,) for step in surface.steps)
    places = {tuple(step.theta) for step in surface.steps}
    assert len(places) == len(surface.steps)  # copies, not one array that moves


@every_optimizer
def test_stops_after_the_first_step_that_says_so(part):
    surface = noisy_bowl(last=2)
    part.minimize(surface, seeded())
    assert [step.index for step in surface.steps] == [0, 1, 2]


@every_optimizer
def test_settings_and_landscape_are_left_as_they_were(part):
    surface, settings = noisy_bowl(), copy.deepcopy(vars(part))
    start, bounds = surface.start.copy(), surface.bounds.copy()
    part.minimize(surface, seeded())
    assert vars(part) == settings
    np.testing.assert_array_equal(surface.start, start)
    np.testing.assert_array_equal(surface.bounds, bounds)


@every_built_in
def test_answer_is_not_the_array_of_the_start(part):
    surface = noisy_bowl(undefined=lambda theta: True)
    assert part.minimize(surface, seeded()).theta is not surface.start
