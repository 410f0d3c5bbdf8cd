"""Series that do not converge are warned of, wherever kernels are evaluated."""

import warnings

import numpy as np
import pytest
import torch

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    gram_diag,
    gram_gradient,
    gram_matrix,
    gram_vjp,
)
from skconvgp.completion import NearestNeighbors
from skconvgp.kernels import (
    Conv2d,
    Dense,
    Elementwise,
    Flatten,
    MaxNormalization,
    Sequential,
    Sin,
    Tanh,
    rbf,
)
from tests.helpers.estimators import digits

X, LABELS = digits(9)


def network(layer, weight_variance):
    conv = Conv2d(3, weight_variance=weight_variance)
    return Sequential(conv, layer, Flatten(), Dense())


STEEP = network(Elementwise(torch.tanh), 1e3)
CALLS = {
    "gram_matrix": gram_matrix,
    "gram_matrix, others": lambda kernel, X: gram_matrix(kernel, X * 1e-6, X),
    "gram_diag": gram_diag,
    "gram_gradient": gram_gradient,
    "gram_vjp": lambda kernel, X: gram_vjp(kernel, X, None, np.ones((9, 9))),
    "fit": lambda kernel, X: ConvNetGPClassifier(kernel).fit(X, LABELS),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_series_that_do_not_converge_are_warned_of(call):
    with pytest.warns(UserWarning, match=r"`Elementwise` of .* wrong by .* Tanh\(\)"):
        call(STEEP, X)


@pytest.mark.parametrize(
    "kernel", [2.0 * STEEP + rbf(1.0), MaxNormalization(STEEP)], ids=repr
)
def test_series_are_found_in_every_combination(kernel):
    with pytest.warns(UserWarning, match="wrong by"):
        gram_matrix(kernel, X)


@pytest.mark.parametrize(
    "kernel",
    [network(Elementwise(torch.tanh), 1.0), network(Tanh(), 1e4), rbf(1.0)],
    ids=["series", "Tanh", "rbf"],
)
def test_what_is_right_is_not_warned_of(kernel):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("gram_matrix", "gram_diag", "fit"):
            CALLS[name](kernel, X)


@pytest.mark.filterwarnings("ignore::skconvgp.exceptions.ScaleWarning")
def test_predictions_warn_where_new_samples_vary_more():
    kernel = network(Elementwise(torch.tanh), 1.0)
    gp = ConvNetGPRegressor(kernel).fit(X, LABELS.astype(float))
    local = ConvNetGPRegressor(kernel, completion=NearestNeighbors(4))
    local.fit(X, LABELS.astype(float))
    for model in (gp, local):
        with pytest.warns(UserWarning, match="wrong by"):
            model.predict(100.0 * X)


@pytest.mark.parametrize("weight", [0.1, 1.0, 10.0, 100.0, 1e3, 1e4])
@pytest.mark.parametrize("closed", [Tanh(), Sin()], ids=repr)
def test_what_is_wrong_is_never_silent(closed, weight):
    function = {Tanh: torch.tanh, Sin: torch.sin}[type(closed)]
    expected = gram_matrix(network(closed, weight), X, dtype="float64")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = gram_matrix(network(Elementwise(function), weight), X, dtype="float64")
    scale = np.sqrt(np.diag(expected))
    error = np.abs(found - expected) / np.outer(scale, scale)
    assert error.max() < 1e-3 or len(caught) == 1
