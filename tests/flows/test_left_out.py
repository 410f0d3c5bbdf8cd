"""The density of left-out samples as an objective: values and derivatives."""

import math

import numpy as np
import pytest
import torch

from skconvgp._protocols import Batch
from skconvgp.exceptions import NotPSDError
from skconvgp.flows import _left_out
from skconvgp.flows._evaluator import Evaluator
from skconvgp.flows._landscape import BatchLandscape, Task
from skconvgp.flows._left_out import LeftOutDensity
from skconvgp.flows._stacks import OneBatch, StackEvaluator
from skconvgp.inference import LeftOut, local_posterior, without_neighbors
from skconvgp.kernels import dense, rbf
from tests.helpers.memory import needs_peak, peak_memory
from tests.helpers.tiles import config

M, K, NOISE = 6, 5, 0.03
BOUNDS = (1e-6, 1.0)


def stacks(kernel, seed=0, budget=2**20):
    """Return evaluator, targets, batch, weights and dropped neighbours."""
    rng = np.random.default_rng(seed)
    images = torch.from_numpy(rng.normal(size=(30, 3, 1, 1)))
    targets = torch.from_numpy(rng.normal(size=(30, 2)))
    indices = np.array([rng.permutation(30)[: K + 1] for _ in range(M)])
    weights = torch.from_numpy(rng.uniform(0.3, 3.0, (M, K)))
    dropped = torch.from_numpy(rng.random((M, K)) < 0.3)
    one = Evaluator(images, (3, 1, 1), "torch", config())
    batch = Batch(torch.from_numpy(indices))
    return StackEvaluator(one, budget), targets, batch, weights, dropped


def test_value_is_that_of_left_out_samples():
    kernel = rbf(1.3)
    evaluator, targets, batch, weights, dropped = stacks(kernel)
    grams = 7.0 * evaluator.gram(kernel, batch)
    score = LeftOutDensity(weights, dropped, NOISE).score(grams, targets[batch.indices])
    y = targets[batch.indices]
    mean, var, _ = local_posterior(
        without_neighbors(grams / 7.0, dropped), y[:, 1:], NOISE / weights
    )
    found = LeftOut(
        y[:, 0],
        torch.ones(M).double(),
        mean[:, None],
        var[:, None] + NOISE,
        torch.tensor([True, True]),
    )
    density = found.log_density(found.amplitude())
    assert score.value == pytest.approx(-float(density) / (2 * M), rel=1e-10)


@pytest.mark.parametrize("kernel", [rbf(1.3), dense(1)], ids=["rbf", "dense"])
@pytest.mark.parametrize("budget", [2**20, 5000], ids=["stored", "in parts"])
def test_derivatives_are_differences(kernel, budget):
    evaluator, targets, batch, weights, dropped = stacks(kernel, budget=budget)
    assert evaluator.stores(kernel, batch, 2**20) == (budget == 2**20)
    objective = LeftOutDensity(weights, dropped, NOISE, BOUNDS)
    landscape = BatchLandscape(
        Task(kernel, objective, targets, (0,), 1),
        evaluator,
        OneBatch(batch),
        lambda step: False,
    )
    theta, step = landscape.start, 1e-5
    _, slope = landscape.gradient(theta, landscape.fixed)
    assert len(slope) == len(kernel.theta) + 1
    for i, one in enumerate(slope):
        ends = [
            landscape.value(theta + sign * step * np.eye(len(theta))[i], (batch,))
            for sign in (1, -1)
        ]
        assert one == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-7)
    by_graph = landscape.gradient(theta, (batch,), "autograd")[1]
    np.testing.assert_allclose(by_graph, slope, rtol=1e-6)


@pytest.mark.parametrize("noise", [None, 0.2])
def test_a_small_budget_gives_the_same_score(noise):
    kernel = rbf(1.3)
    large, targets, batch, weights, dropped = stacks(kernel)
    small, *_ = stacks(kernel, budget=5000)
    objective, y = LeftOutDensity(weights, dropped, NOISE), targets[batch.indices]
    held = objective.score(large.gram(kernel, batch), y, noise)
    parts = small.score(objective, kernel, batch, y, noise)
    assert parts.value == pytest.approx(held.value, rel=1e-12)
    assert parts.by_parameter == pytest.approx(held.by_parameter, rel=1e-10)
    expected = large.pull(kernel, batch, held.by_gram)
    torch.testing.assert_close(parts.by_theta(), expected, rtol=1e-10, atol=1e-12)


def test_slices_of_sites_give_the_same_score(monkeypatch):
    evaluator, targets, batch, weights, dropped = stacks(rbf(1.3))
    objective = LeftOutDensity(weights, dropped, NOISE)
    grams, y = 7.0 * evaluator.gram(rbf(1.3), batch), targets[batch.indices]
    whole = objective.score(grams, y)
    calls, factor = [], _left_out.shifted_choleskys
    monkeypatch.setattr(
        _left_out, "shifted_choleskys", lambda *a: calls.append(a) or factor(*a)
    )
    monkeypatch.setattr(_left_out, "AT_ONCE", 4 * (K + 1) ** 2)
    parts = objective.score(grams, y)
    assert [len(one) for one, _ in calls] == [4, 2]
    assert parts.value == pytest.approx(whole.value, rel=1e-12)
    assert parts.by_parameter == pytest.approx(whole.by_parameter, rel=1e-12)
    torch.testing.assert_close(parts.by_gram, whole.by_gram, rtol=1e-10, atol=1e-12)


@needs_peak
def test_few_copies_of_the_stack_are_made():
    setup = """
import torch
from skconvgp.flows._left_out import LeftOutDensity

def score(m):
    objective = LeftOutDensity(torch.ones(m, 199), torch.zeros(m, 199).bool(), 0.1)
    grams = torch.eye(200, dtype=torch.float64).repeat(m, 1, 1)
    return objective.score(grams, torch.ones(m, 200, 1, dtype=torch.float64))

score(26)
"""
    # The matrices and the derivatives have 48 MiB each.
    assert peak_memory(setup, "score(156)") <= (2 * 48 + 72) * 2**20


def test_undefined_matrices_have_no_score_in_parts():
    kernel = rbf(1.3)
    evaluator, targets, batch, weights, dropped = stacks(kernel, budget=5000)
    objective, y = LeftOutDensity(weights, dropped, NOISE), targets[batch.indices]
    assert evaluator.score(objective, 0.0 * dense(1), batch, y, None) is None
    assert evaluator.score(objective, kernel, batch, y * math.nan, None) is None


@needs_peak
def test_matrices_stay_within_the_budget():
    setup = """
import numpy as np
import torch
from skconvgp._config import ComputeConfig
from skconvgp._protocols import Batch
from skconvgp.flows._evaluator import Evaluator
from skconvgp.flows._left_out import LeftOutDensity
from skconvgp.flows._stacks import StackEvaluator
from skconvgp.kernels import rbf

def score(m, k=99, budget=3 * 2**20):
    rng = np.random.default_rng(0)
    config = ComputeConfig(torch.device("cpu"), memory_budget=budget)
    images = torch.from_numpy(rng.normal(size=(200, 3, 1, 1)))
    one = Evaluator(images, (3, 1, 1), "torch", config)
    indices = np.array([rng.permutation(200)[: k + 1] for _ in range(m)])
    objective = LeftOutDensity(torch.ones(m, k), torch.zeros(m, k).bool(), 0.1)
    targets = torch.ones(m, 1 + k, 1, dtype=torch.float64)
    evaluator = StackEvaluator(one, budget)
    batch = Batch(torch.from_numpy(indices))
    return evaluator.score(objective, rbf(1.0), batch, targets, None).by_theta()

score(2)
"""
    # All matrices have 11.4 MiB; tiles and matrices may take 3 MiB each.
    assert peak_memory(setup, "score(150)") <= (3 + 3 + 2) * 2**20


@pytest.mark.parametrize("value", [0.0, math.nan, math.inf])
def test_variances_without_a_mean_are_refused(value):
    objective = LeftOutDensity(torch.ones(1, 2), torch.zeros(1, 2).bool(), NOISE)
    with pytest.raises(NotPSDError, match="mean prior variance"):
        objective.score(torch.full((1, 3, 3), value), torch.ones(1, 3, 1))
