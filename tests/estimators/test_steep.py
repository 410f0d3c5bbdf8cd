"""Precision of saturated kernels: float64 where float32 is found to be wrong."""

import numpy as np
import pytest
import torch

from skconvgp import ConvNetGPRegressor, NystromCompletedGPRegressor, gram_matrix
from skconvgp.estimators.compute import _steep
from skconvgp.kernels import (
    Abs,
    Conv2d,
    Dense,
    Erf,
    Flatten,
    GlobalAvgPool2d,
    LeakyReLU,
    ReLU,
    Sequential,
    Tanh,
)
from tests.helpers.estimators import digits
from tests.helpers.fused import needs_extension

pytestmark = needs_extension
X, LABELS = digits(6)
NEAR = 1e-6 * np.random.default_rng(0).normal(size=X.shape)
BOTH = np.concatenate([X, X + NEAR])
ALLOWED = 3e-5


def network(layer, weight_variance):
    conv = Conv2d(3, weight_variance=weight_variance)
    return Sequential(conv, layer, conv, layer, Flatten(), Dense())


def error(kernel, **settings):
    exact = gram_matrix(kernel, BOTH, dtype="float64", backend="torch")
    found = gram_matrix(kernel, BOTH, **settings)
    scale = np.sqrt(np.diag(exact))
    return (np.abs(found - exact) / np.outer(scale, scale)).max()


@pytest.mark.parametrize("weight", [1e-4, 1e-2, 1.0, 1e2, 1e4, 1e6])
@pytest.mark.parametrize("layer", [Erf(), ReLU(), LeakyReLU(), Abs()], ids=repr)
def test_errors_up_to_the_bounds_of_learning(layer, weight):
    assert error(network(layer, weight)) < ALLOWED


def test_single_precision_would_not_do():
    assert error(network(Erf(), 1e4), dtype="float32") > ALLOWED


@pytest.mark.parametrize(
    ("layer", "weight", "dtype"),
    [(Erf(), 1.0, "float32"), (ReLU(), 1e4, "float32"), (Erf(), 1e4, "float64")],
)
def test_the_report_says_why_it_is_not_single(layer, weight, dtype):
    for gp in (
        ConvNetGPRegressor(network(layer, weight), noise_variance=1e-2),
        NystromCompletedGPRegressor(
            network(layer, weight), n_landmarks=4, noise_variance=1e-2
        ),
    ):
        gp.fit(X, LABELS.astype(float))
        assert gp.dtype_ == dtype
        reason = gp.fit_report_.dtype_reason
        assert reason == "" or "close to each other" in reason
        assert bool(reason) == (dtype == "float64")
        assert ("not float32" in str(gp.fit_report_)) == bool(reason)
        assert gp.set_params(dtype="float32").fit(X, LABELS * 1.0).dtype_ == "float32"


@pytest.mark.parametrize(
    ("layer", "side", "n_tried"),
    [(Tanh(), 16, 4), (Tanh(), 17, 1), (ReLU(), 17, 4), (ReLU(), 48, 4)],
    ids=repr,
)
def test_one_sample_is_tried_where_torch_takes_long(layer, side, n_tried, monkeypatch):
    tried = []
    monkeypatch.setattr(
        _steep, "_largest_error", lambda _, few: tried.append(len(few)) or 0.0
    )
    network = Sequential(Conv2d(3), layer, GlobalAvgPool2d(), Dense())
    assert _steep.why_double(network, torch.zeros(8, 1, side, side)) == ""
    assert sum(tried) == n_tried


def test_compiled_code_tries_itself(monkeypatch):
    def refuse(*_):
        raise AssertionError("torch takes minutes for what compiled code does at once")

    monkeypatch.setattr(Sequential, "cross", refuse)
    network = Sequential(Conv2d(3), ReLU(), GlobalAvgPool2d(), Dense())
    gram = gram_matrix(network, torch.ones(2, 1, 8, 8))
    assert gram.shape == (2, 2)
