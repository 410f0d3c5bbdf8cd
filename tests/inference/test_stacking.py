"""Weights of a mixture of predictions."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from skconvgp.inference import stacking_weights


def draws(n, m, seed, spread=1.0):
    """Return probabilities (n, m) of the labels that came."""
    logits = spread * np.random.default_rng(seed).normal(size=(n, m))
    return 1.0 / (1.0 + np.exp(-logits))


def solve(p, weights=None):
    ones = np.ones(len(p)) if weights is None else weights
    found = stacking_weights(torch.from_numpy(p), torch.from_numpy(ones))
    return np.array(found.tolist())


def loss(v, p, weights=None):
    return -np.average(np.log(p @ v), weights=weights)


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(1, 60),
    m=st.integers(1, 8),
    seed=st.integers(0, 1000),
    spread=st.sampled_from([0.01, 1.0, 8.0, 40.0]),
)
def test_the_loss_is_the_least_there_is(n, m, seed, spread):
    p = draws(n, m, seed, spread)
    v = solve(p)
    assert (v >= 0.0).all()
    np.testing.assert_allclose(v.sum(), 1.0, rtol=1e-12)
    # By convexity the loss is above the least by no more than this.
    slopes = (p / (p @ v)[:, None]).mean(0)
    assert slopes.max() - 1.0 < 1e-5
    assert loss(v, p) <= min(loss(one, p) for one in np.eye(m)) + 1e-7


def test_agrees_with_a_general_solver():
    p = draws(200, 4, seed=3, spread=3.0)
    v = solve(p)
    general = minimize(
        loss,
        np.full(4, 0.25),
        args=(p,),
        bounds=[(0.0, 1.0)] * 4,
        constraints={"type": "eq", "fun": lambda v: v.sum() - 1.0},
        options={"ftol": 1e-12},
    )
    np.testing.assert_allclose(v, general.x, atol=1e-4)
    assert loss(v, p) <= general.fun + 1e-9


def test_a_model_that_is_always_better_is_alone():
    p = draws(50, 3, seed=0)
    p[:, 1] = p.max(1) + 0.1
    np.testing.assert_array_equal(solve(p), [0.0, 1.0, 0.0])


def test_equal_models_share():
    p = draws(50, 2, seed=0)
    v = solve(np.column_stack([p, p]))
    np.testing.assert_allclose(v[:2], v[2:], atol=1e-8)
    np.testing.assert_allclose(v[:2] + v[2:], solve(p), atol=1e-6)


def test_a_weight_is_a_number_of_observations():
    p = draws(30, 3, seed=1, spread=4.0)
    weights = np.arange(30) % 3 + 1.0
    repeated = np.repeat(p, weights.astype(int), axis=0)
    np.testing.assert_allclose(solve(p, weights), solve(repeated), atol=1e-7)


def test_observations_that_no_model_expects_change_nothing():
    p = draws(30, 3, seed=1, spread=4.0)
    v = solve(np.vstack([p, np.zeros((30, 3))]))
    np.testing.assert_allclose(v, solve(p), atol=1e-6)


def test_models_that_are_certain_and_wrong_get_what_they_can():
    p = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    np.testing.assert_allclose(solve(p), [2 / 3, 1 / 3], atol=1e-7)
