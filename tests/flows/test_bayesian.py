"""Bayesian optimisation: what it finds, confirms and refuses."""

import functools
import math
import warnings

import numpy as np
import pytest
import skopt
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel
from torch.quasirandom import SobolEngine

from skconvgp.flows import BayesianOptimization
from tests.helpers.landscapes import BRANIN_MINIMUM, Surface, bowl, branin
from tests.helpers.oracles import seeded

SHORT = {"n_initial": 6, "max_iter": 10}
MIDDLE = np.array([0.5, 1.0])


def sobol(n, seed=0):
    """Return points of the square from 0 to 1."""
    return SobolEngine(2, scramble=True, seed=seed).draw(n).double().numpy()


N_CANDIDATES = 30


def gap(seed):
    surface = branin()
    part = BayesianOptimization(n_initial=10, max_iter=N_CANDIDATES)
    found = part.minimize(surface, seeded(seed))
    assert surface.n_evaluations <= 2 * N_CANDIDATES  # confirmations included
    return surface.fixed_value(found.theta) - BRANIN_MINIMUM


@functools.cache
def twin_gap(seed):
    """Return the gap of the same loop on scikit-learn's process."""
    surface, rng = branin(), np.random.default_rng(seed)
    points = [surface.start, *sobol(9, seed)]
    values = [surface.fixed_value(point) for point in points]
    kernel = ConstantKernel() * Matern([0.5, 0.5], (0.05, 20.0), nu=2.5)
    gp = GaussianProcessRegressor(kernel + WhiteKernel(1e-4), normalize_y=True)
    while len(points) < N_CANDIDATES:
        with warnings.catch_warnings(action="ignore"):
            gp.fit(points, values)
        candidates = rng.uniform(size=(2000, 2))
        for shrinkage in (0.1, 0.03, 0.01, 0.003, 0.0):
            mean, std = gp.predict(candidates, return_std=True)
            z = (min(values) - mean) / std
            winner = candidates[np.argmax(std * (z * norm.cdf(z) + norm.pdf(z)))]
            shifts = shrinkage * rng.normal(size=(500, 2))
            candidates = np.clip(np.vstack([winner, winner + shifts]), 0.0, 1.0)
        points.append(winner)
        values.append(surface.fixed_value(winner))
    return min(values) - BRANIN_MINIMUM


@pytest.mark.slow
def test_minimum_of_branin_is_found_as_well_as_by_the_twin():
    ours = np.median([gap(seed) for seed in range(3)])
    twin = np.median([twin_gap(seed) for seed in range(3)])
    assert 0.0 <= ours < 0.01
    assert ours < max(5.0 * twin, 0.005)


def test_finds_the_mean_minimum_of_the_fixed_batches():
    surface = bowl(middle=MIDDLE, spread=2.0)
    part = BayesianOptimization(n_initial=8, max_iter=15)
    shift = np.mean([surface._shift(batch) for batch in surface.fixed], axis=0)
    least = surface.fixed_value(shift + MIDDLE)
    ends = [part.minimize(surface, seeded(seed)).theta for seed in range(3)]
    gap = np.median([surface.fixed_value(end) - least for end in ends])
    # Without the batches' shifts the minimum would be elsewhere.
    assert gap < 0.01 < surface.fixed_value(MIDDLE) - least


def test_candidates_begin_at_the_start_and_fill_the_space():
    surface = bowl()
    BayesianOptimization(n_initial=17, max_iter=17).minimize(surface, seeded())
    places = np.array([step.theta for step in surface.steps])
    np.testing.assert_array_equal(places[0], surface.start)
    quarters = np.floor((places[1:] + 3.0) / 1.5).astype(int)
    counts = np.zeros((4, 4))
    np.add.at(counts, tuple(quarters.T), 1)
    assert counts.max() <= 2
    assert (counts > 0).sum() >= 14


@pytest.mark.parametrize(
    "acquisition",
    ["LCB"]
    + [pytest.param(word, marks=pytest.mark.slow) for word in ("EI", "PI", "gp_hedge")],
)
def test_every_acquisition(acquisition):
    surface = bowl()
    part = BayesianOptimization(acquisition, n_initial=8, max_iter=12)
    found = part.minimize(surface, seeded())
    assert surface.fixed_value(found.theta) < 0.2
    assert len(surface.steps) == 12


def test_stays_within_bounds():
    bounds = np.array([(-1.0, 0.3), (0.2, 0.7)])
    surface = bowl(start=(0.3, 0.2), middle=(3.0, 3.0), bounds=bounds)
    found = BayesianOptimization(**SHORT).minimize(surface, seeded())
    lows, highs = bounds.T
    assert all((lows <= at).all() and (at <= highs).all() for at in surface.visited)
    np.testing.assert_allclose(found.theta, highs, atol=0.02)


def test_fixed_dimensions_do_not_move():
    bounds = [(-3.0, 3.0), (1.5, 1.5), (-3.0, 3.0)]
    surface = bowl((2.0, 1.5, 2.0), (0.5, 0.0, 0.2), bounds=bounds)
    part = BayesianOptimization(n_initial=8, max_iter=15)
    found = part.minimize(surface, seeded())
    assert {at[1] for at in surface.visited} == {1.5}
    np.testing.assert_allclose(found.theta, [0.5, 1.5, 0.2], atol=0.4)


def test_nothing_is_free():
    surface = bowl(bounds=[(2.0, 2.0), (-2.0, -2.0)])
    found = BayesianOptimization().minimize(surface, seeded())
    np.testing.assert_array_equal(found.theta, surface.start)
    assert len(surface.steps) == 1


def beyond(theta):
    """Say whether a place is in the region around the minimum."""
    return theta[0] < 0.8 and theta[1] > 0.5


def test_undefined_places_are_recorded_and_never_win():
    surface = bowl(undefined=beyond)
    part = BayesianOptimization(n_initial=8, max_iter=14)
    found = part.minimize(surface, seeded())
    undefined = [math.isnan(step.value) for step in surface.steps]
    assert 0 < sum(undefined) < 14
    assert found.stats["n_undefined"] == sum(undefined)
    assert undefined == [beyond(step.theta) for step in surface.steps]
    assert not beyond(found.theta)
    values = [step.value for step in surface.steps]
    assert surface.fixed_value(found.theta) == np.nanmin(values)


def test_nothing_is_defined():
    surface = bowl(undefined=lambda theta: True)
    found = BayesianOptimization(**SHORT).minimize(surface, seeded())
    assert found.stats["n_undefined"] == 10
    np.testing.assert_array_equal(found.theta, surface.start)


def test_process_is_told_the_worst_finite_value_of_undefined_places(monkeypatch):
    told, tell = [], skopt.Optimizer.tell

    def note(self, point, value):
        told.append(value)
        return tell(self, point, value)

    monkeypatch.setattr(skopt.Optimizer, "tell", note)
    surface = bowl(undefined=beyond)
    BayesianOptimization(n_initial=10, max_iter=12).minimize(surface, seeded())
    values = np.array([step.value for step in surface.steps])
    for i, value in enumerate(values):
        expected = np.nanmax(values[:i]) if math.isnan(value) else value
        assert told[i] == expected
    told.clear()
    nowhere = bowl(undefined=lambda theta: True)
    BayesianOptimization(n_initial=3, max_iter=4).minimize(nowhere, seeded())
    assert told == [nowhere.worst] * 4


def lucky(excess):
    """Return a landscape whose fixed batches flatter half of the places."""
    surface = Surface(None, None, (1.0, 1.0))

    def value(theta, batches):
        true = 0.5 + 0.05 * float(theta @ theta)
        is_flattered = theta[0] < 0.0 and batches is surface.fixed
        return true - (excess if is_flattered else 0.0)

    surface.value = value
    return surface


def test_new_best_that_a_fresh_batch_does_not_confirm_is_refused():
    surface = lucky(excess=0.1)
    found = BayesianOptimization(**SHORT).minimize(surface, seeded())
    assert min(step.value for step in surface.steps) < 0.5  # they were evaluated
    assert found.stats["n_unconfirmed"] > 0
    # It was flattered only if it is better than the start in truth too.
    assert np.linalg.norm(found.theta) <= np.linalg.norm(surface.start)
    assert surface.n_drawn >= found.stats["n_unconfirmed"]
    assert set(surface.progress) == {1.0}


def test_a_best_that_is_worse_on_the_fresh_batch_gives_way():
    surface = bowl()
    surface.value = lambda theta, batches, value=surface.value: (
        value(theta, batches) + (0.0 if batches is surface.fixed else 1.0)
    )
    found = BayesianOptimization(**SHORT).minimize(surface, seeded())
    assert found.stats["n_unconfirmed"] == 0
    best = min(step.value for step in surface.steps)
    assert surface.value(found.theta, surface.fixed) == best


def test_tolerance_lets_them_pass():
    surface = lucky(excess=0.1)
    part = BayesianOptimization(confirm_tolerance=0.11, **SHORT)
    found = part.minimize(surface, seeded())
    assert found.stats["n_unconfirmed"] == 0
    assert found.theta[0] < 0.0


def test_undefined_on_the_fresh_batch_is_not_confirmed():
    surface = bowl()
    value = surface.value
    surface.value = lambda theta, batches: (
        value(theta, batches) if batches is surface.fixed else math.nan
    )
    found = BayesianOptimization(**SHORT).minimize(surface, seeded())
    np.testing.assert_array_equal(found.theta, surface.start)
    assert found.stats["n_unconfirmed"] > 0


def test_the_generator_decides():
    places = []
    for seed in (1, 1, 2):
        surface = bowl()
        BayesianOptimization(n_initial=4, max_iter=6).minimize(surface, seeded(seed))
        places.append(np.array([step.theta for step in surface.steps]))
    np.testing.assert_array_equal(places[0], places[1])
    assert not np.allclose(places[0], places[2])


def test_a_place_that_is_proposed_again_is_no_warning():
    surface = bowl(start=(0.5,), middle=(-20.0,))
    with warnings.catch_warnings(action="error"):
        BayesianOptimization(n_initial=4, max_iter=8).minimize(surface, seeded())
    places = [float(step.theta[0]) for step in surface.steps]
    assert places.count(-3.0) >= 1


def test_stops_when_a_report_says_so():
    surface = bowl(last=8)
    found = BayesianOptimization(**SHORT).minimize(surface, seeded())
    assert found.message.startswith("stopped by a callback")
    assert len(surface.steps) == 9
    assert found.stats["n_steps"] == 9


def test_fewer_candidates_than_initial_ones():
    surface = bowl()
    BayesianOptimization(max_iter=3).minimize(surface, seeded())
    assert [step.total for step in surface.steps] == [3, 3, 3]


@pytest.mark.parametrize(
    ("part", "name"),
    [
        (BayesianOptimization("EIps"), "acquisition"),
        (BayesianOptimization(acquisition=None), "acquisition"),
        (BayesianOptimization(n_initial=0), "n_initial"),
        (BayesianOptimization(max_iter=1.5), "max_iter"),
        (BayesianOptimization(confirm_tolerance=-0.1), "confirm_tolerance"),
        (BayesianOptimization(confirm_tolerance=math.nan), "confirm_tolerance"),
    ],
    ids=repr,
)
def test_wrong_settings_are_named(part, name):
    message = f"The '{name}' parameter of BayesianOptimization must be"
    with pytest.raises(ValueError, match=message):
        part.minimize(bowl(), seeded())
