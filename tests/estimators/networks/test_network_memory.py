"""Memory of the training of networks."""

import pytest
import torch
from torch import nn

from skconvgp import BayesianNetworkClassifier, BayesianNetworkRegressor
from skconvgp.exceptions import TileMemoryError
from skconvgp.kernels import rbf
from skconvgp.networks import module_network
from tests.helpers.estimators import blobs, wave
from tests.helpers.memory import needs_peak, peak_memory

SMALL = {"n_draws": 3, "max_iter": 2, "random_state": 0}


@pytest.fixture
def free(monkeypatch):
    """Return a function that sets how many bytes are free."""

    def set_free(n_bytes):
        monkeypatch.setattr(
            "skconvgp.engine._devices.free_memory", lambda device: n_bytes
        )

    return set_free


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        ({}, "`n_draws`.*`batch_size`"),
        (
            {"prior": rbf(1.0), "optimizer": None},
            "`n_draws`, `extra_points`.*fewer samples",
        ),
        ({"inference": "sghmc"}, "`n_chains`.*`batch_size`"),
        (
            {"prior": rbf(1.0), "optimizer": None, "batch_size": 4},
            "`n_draws`, `features`.*`batch_size`",
        ),
    ],
    ids=["weights", "functions", "chains", "features"],
)
def test_a_step_that_does_not_fit_raises_before_any_work(settings, remedy, free):
    X, y = wave(40)
    model = BayesianNetworkRegressor(
        (50, 50), noise_variance=0.1, **SMALL | {"max_iter": 10**9} | settings
    )
    free(2**16)
    with pytest.raises(TileMemoryError, match=remedy):
        model.fit(X, y)


def test_smaller_batches_fit(free):
    X, y = blobs(200)
    model = BayesianNetworkClassifier((20,), batch_size=None, **SMALL)
    free(5 * 2**15)
    with pytest.raises(TileMemoryError, match="200 samples"):
        model.fit(X, y)
    model.set_params(batch_size=20).fit(X, y)


@needs_peak
@pytest.mark.parametrize(
    ("prior", "dtype"),
    [("'weights'", "float32"), ("'weights'", "float64"), ("rbf(1.0)", "float32")],
    ids=["weights", "weights-double", "kernel"],
)
def test_the_estimate_is_an_upper_bound_that_is_near(prior, dtype):
    setup = f"""
import numpy as np
from skconvgp import BayesianNetworkRegressor
from skconvgp.kernels import rbf

def fit(n, sizes, n_draws):
    X = np.linspace(-1.0, 1.0, n)[:, None]
    model = BayesianNetworkRegressor(
        sizes, prior={prior}, optimizer=None, noise_variance=0.1, n_draws=n_draws,
        batch_size=None, max_iter=2, dtype="{dtype}", random_state=0,
    )
    model.fit(X, X[:, 0])

fit(10, (5,), 2)
"""
    sizes, n, n_draws = (48, 48, 48), 500, 8
    call = f"fit({n}, {sizes}, {n_draws})"
    setup += f"\n{call}"
    peak = peak_memory(setup, call)
    n_points = n if prior == "'weights'" else round(1.1 * n)
    item = int(dtype[-2:]) // 8
    held = item * n_points * n_draws * (2 * sum(sizes) + 3 * 48 + 8)
    held += item * 10 * n_draws * 4900
    held += 8 * 4 * n_points**2 if "rbf" in prior else 0
    assert held / 4 < peak < 1.1 * held


def small_module():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2),
        nn.Tanh(),
        nn.Conv2d(8, 16, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64, 1),
    ).double()


@needs_peak
def test_the_estimate_of_a_module_is_an_upper_bound_that_is_near():
    setup = """
import numpy as np
from skconvgp import BayesianNetworkRegressor
from tests.estimators.networks.test_network_memory import small_module

def fit(n, n_draws):
    X = np.random.default_rng(0).normal(size=(n, 1, 14, 14))
    model = BayesianNetworkRegressor(
        network=small_module, noise_variance=0.1, n_draws=n_draws, max_iter=2,
        batch_size=None, random_state=0,
    )
    model.fit(X, X[:, 0, 0, 0])

fit(10, 2)
"""
    call = "fit(1000, 8)"
    sample = torch.zeros(1, 1, 14, 14, dtype=torch.float64)
    held = 4 * 1000 * 8 * module_network(small_module(), sample, 1.0, 1.0).n_held
    assert held / 4 < peak_memory(f"{setup}\n{call}", call) < 1.1 * held
