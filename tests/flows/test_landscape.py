"""An objective as a function of hyperparameters: values, derivatives, the trace."""

import numpy as np
import pytest
import torch

from skconvgp import gram_matrix
from skconvgp._config import ComputeConfig
from skconvgp._protocols import OptimizerResult, Step
from skconvgp.flows import Rho
from skconvgp.flows import _landscape as landscapes
from skconvgp.flows._batches import Batches
from skconvgp.flows._evaluator import Evaluator
from skconvgp.flows._landscape import BatchLandscape, Task
from skconvgp.kernels import convnet, dense, matern, rbf
from tests.helpers.estimators import digits
from tests.helpers.memory import needs_peak, peak_memory

N_SAMPLES, SHAPE = 40, (1, 8, 8)
IMAGES, LABELS = digits(N_SAMPLES)
TARGETS = torch.as_tensor(np.eye(10)[LABELS])
PER_LAYER = convnet(
    depth=2,
    kernel_size=3,
    shared_variances=False,
    weight_variance=(12.0, 9.0, 2.0),
    bias_variance=(1.0, 2.0, 3.0),
)
KERNELS = [
    convnet(depth=2, kernel_size=3),
    PER_LAYER,
    dense(2),
    rbf(lengthscale=3.0),
    2.0 * rbf(lengthscale=3.0) + matern(lengthscale=5.0),
]
LEARNED_NOISE = Rho(noise_variance=1e-2, noise_variance_bounds=(1e-6, 1.0))


def evaluator(dtype=torch.float64, solve_dtype=torch.float64, backend="auto"):
    config = ComputeConfig(
        torch.device("cpu"), dtype, solve_dtype, memory_budget=2**24, n_workers=1
    )
    return Evaluator(torch.as_tensor(IMAGES), SHAPE, backend, config)


def landscape(
    kernel, objective=None, *, sizes=(12,), n_fixed=2, watch=None, **settings
):
    generator = torch.Generator().manual_seed(0)
    return BatchLandscape(
        Task(kernel, objective or Rho(), TARGETS, sizes, n_fixed),
        evaluator(**settings),
        Batches(N_SAMPLES, torch.as_tensor(LABELS), generator),
        watch or (lambda step: False),
    )


def slope_by_differences(surface, theta, batches, step=1e-5):
    found = []
    for i in range(len(theta)):
        change = np.zeros(len(theta))
        change[i] = step
        ends = [surface.value(theta + s * change, batches) for s in (1.0, -1.0)]
        found.append((ends[0] - ends[1]) / (2.0 * step))
    return np.array(found)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_value_is_that_of_the_gram_matrix_of_each_batch(kernel):
    surface = landscape(kernel)
    values = []
    for batch in surface.fixed:
        gram = gram_matrix(kernel, IMAGES[batch.indices], dtype="float64")
        score = Rho().score(torch.as_tensor(gram), TARGETS[batch.indices])
        values.append(score.value)
    found = surface.value(surface.start, surface.fixed)
    assert found == pytest.approx(np.mean(values), rel=1e-9)


@pytest.mark.parametrize("objective", [Rho(), Rho("evidence"), LEARNED_NOISE], ids=repr)
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_gradients_are_those_of_finite_differences(kernel, objective, monkeypatch):
    surface = landscape(kernel, objective)
    theta, batches = surface.start + 0.1, surface.fixed
    expected = slope_by_differences(surface, theta, batches)
    scale = 1e-6 * max(1.0, np.abs(expected).max())
    for method in ("exact", "autograd"):
        value, slope = surface.gradient(theta, batches, method)
        assert value == pytest.approx(surface.value(theta, batches), rel=1e-9)
        np.testing.assert_allclose(slope, expected, rtol=1e-5, atol=scale)
    monkeypatch.setattr(landscapes, "LARGEST_STORED", 0)
    value, slope = surface.gradient(theta, batches)
    np.testing.assert_allclose(slope, expected, rtol=1e-5, atol=scale)


@pytest.mark.parametrize("largest", [landscapes.LARGEST_STORED, 0])
@pytest.mark.parametrize("name", ["dtype", "solve_dtype"])
def test_single_precision_gives_the_same_slope(name, largest, monkeypatch):
    monkeypatch.setattr(landscapes, "LARGEST_STORED", largest)
    kernel = convnet(depth=2, kernel_size=3)
    fine, coarse = landscape(kernel), landscape(kernel, **{name: torch.float32})
    _, expected = fine.gradient(fine.start, fine.fixed)
    _, slope = coarse.gradient(coarse.start, coarse.fixed)
    np.testing.assert_allclose(slope, expected, rtol=1e-3)


def test_labels_start_and_bounds():
    surface = landscape(rbf(lengthscale=3.0, lengthscale_bounds=(1, 9)), LEARNED_NOISE)
    assert surface.labels == ("lengthscale", "noise_variance")
    np.testing.assert_allclose(np.exp(surface.start), [3.0, 1e-2])
    np.testing.assert_allclose(np.exp(surface.bounds), [[1.0, 9.0], [1e-6, 1.0]])
    assert surface._kernel_at(np.log([5.0, 0.1]))[0].lengthscale == pytest.approx(5.0)


def test_values_over_the_fixed_batches_are_computed_once():
    surface = landscape(rbf(1.0))
    first = surface.value(surface.start, surface.fixed)
    assert surface.n_evaluations == 2
    assert surface.value(surface.start, surface.fixed) == first
    assert surface.n_evaluations == 2
    surface.value(surface.start, (surface.draw(0.0),))
    surface.gradient(surface.start, surface.fixed)
    assert (surface.n_evaluations, surface.n_derivatives) == (5, 2)


@pytest.mark.parametrize("backend", ["auto", "torch"])
def test_an_overflowing_kernel_is_undefined(backend):
    surface = landscape(convnet(), dtype=torch.float32, backend=backend)
    theta = np.array([np.log(1e60), 0.0])
    assert np.isnan(surface.value(theta, surface.fixed))
    for method in ("exact", "autograd"):
        value, slope = surface.gradient(theta, surface.fixed, method)
        assert np.isnan(value)
        assert np.isnan(slope).all()


def test_batches_grow_with_progress():
    surface = landscape(rbf(1.0), sizes=(4, 8, 16))
    assert [len(surface.draw(p)) for p in (0.0, 0.3, 0.4, 0.7, 1.0)] == [
        4,
        4,
        8,
        16,
        16,
    ]
    assert [len(batch) for batch in surface.fixed] == [16, 16]


def test_result_holds_the_trace():
    seen = []
    surface = landscape(rbf(1.0), watch=lambda step: seen.append(step) or len(seen) > 1)
    better = surface.start + 1.0
    first = Step(0, 2, better, 0.4)
    assert not surface.report(first)
    assert surface.report(Step(1, 2, surface.start, np.nan))
    assert seen[0] is first
    result = surface.result(
        OptimizerResult(better, "done", n_restarts=3, stats={"a": 1.0})
    )
    assert result.rho == surface.value(better, surface.fixed)
    assert result.start_rho == surface.value(surface.start, surface.fixed)
    np.testing.assert_array_equal(result.theta_trace, [better, surface.start])
    np.testing.assert_array_equal(result.rho_trace, [0.4, np.nan])
    assert (np.diff(result.seconds) >= 0.0).all()
    assert (result.message, result.n_restarts, result.stats) == ("done", 3, {"a": 1.0})
    assert result.values == {"lengthscale": pytest.approx(np.e)}


SETUP = """
import numpy as np, torch
from skconvgp._config import ComputeConfig
from skconvgp._protocols import Batch
from skconvgp.flows import Rho
from skconvgp.flows._batches import Batches
from skconvgp.flows._evaluator import Evaluator
from skconvgp.flows._landscape import BatchLandscape, Task
from skconvgp.kernels import {kernel}

torch.set_num_threads(2)
n = {n}
images = torch.rand(n, 1, {side}, {side})
targets = torch.eye(10, dtype=torch.float64)[torch.arange(n) % 10]
config = ComputeConfig(
    torch.device("cpu"), torch.float32, torch.float64, memory_budget=2**27, n_workers=2
)
kernel = {kernel}({settings})
surface = BatchLandscape(
    Task(kernel, Rho(), targets, (n,), 1),
    Evaluator(images, (1, {side}, {side}), "auto", config),
    Batches(n, None, torch.Generator().manual_seed(0)),
    lambda step: False,
)
few = (Batch(torch.arange(64)),)
surface.gradient(surface.start, few)
"""


PER_LAYER = (
    "shared_variances=False, weight_variance=(100.0,) * 7 + (2.0,), "
    "bias_variance=(7.0,) * 8"
)


# The graph of all pairs of 300 images holds 2 GiB.
@needs_peak
@pytest.mark.parametrize(
    ("n", "settings", "limit"),
    [
        pytest.param(300, "", 2**28, id="smaller"),
        pytest.param(2400, "", 2**30, marks=pytest.mark.slow, id="shared"),
        pytest.param(2400, PER_LAYER, 2**30, marks=pytest.mark.slow, id="per layer"),
    ],
)
def test_gradient_of_a_batch_of_a_deep_network_holds_no_graph(n, settings, limit):
    setup = SETUP.format(kernel="convnet", settings=settings, n=n, side=28)
    peak = peak_memory(setup, "surface.gradient(surface.start, surface.fixed)")
    assert peak < limit
