"""Any activation by quadrature, against closed forms and integrals."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import erf
from torch import Tensor

from skconvgp.kernels import (
    GELU,
    Conv2d,
    Dense,
    Elementwise,
    Erf,
    Flatten,
    Identity,
    Maps,
    Sequential,
    Sin,
    Tanh,
)
from skconvgp.kernels._quadrature import series_error
from tests.helpers.kernels import (
    QUICK,
    RTOL,
    assert_close,
    cross,
    deviations,
    diag,
    name,
    random_images,
)

CLOSED = [
    (Elementwise(torch.erf), Erf()),
    (Elementwise(torch.nn.functional.gelu), GELU()),
    (Elementwise(torch.sin), Sin()),
    (Elementwise(torch.positive, n_nodes=2), Identity()),
]


def series(layer: Elementwise, c: Tensor, a: Tensor, b: Tensor) -> Tensor:
    _, one = layer.image_pass(a.reshape(1, 1, -1))
    _, two = layer.image_pass(b.reshape(1, 1, -1))
    maps = Maps(c.reshape(1, 1, len(a), len(b)))
    return layer.pair_pass(maps, one, two).nngp[0, 0]


def quadrature(function, t: float, a: float, b: float, n_nodes: int = 120) -> float:
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    weights = weights / weights.sum()
    v = math.sqrt(b) * (t * nodes[:, None] + math.sqrt(1 - t * t) * nodes[None, :])
    return float((weights * function(math.sqrt(a) * nodes)) @ function(v) @ weights)


def wave(x: Tensor) -> Tensor:
    return torch.exp(-x * x) + 0.3 * x


@pytest.mark.parametrize(("layer", "closed"), CLOSED, ids=name)
def test_series_matches_the_closed_form(layer, closed):
    a = torch.tensor([0.01, 0.4, 1.0], dtype=torch.float64)
    b = torch.tensor([1.0, 0.2], dtype=torch.float64)
    for t in (-1.0, -0.7, 0.0, 0.5, 0.999, 1.0):
        c = t * a.sqrt()[:, None] * b.sqrt()[None, :]
        expected = closed.expectation(c, a[:, None], b[None, :])
        scale = closed.second_moment(a)[:, None] * closed.second_moment(b)
        assert_close(series(layer, c, a, b), expected, scale=scale.sqrt())


@pytest.mark.parametrize(("layer", "closed"), CLOSED, ids=name)
def test_second_moment_matches_the_closed_form(layer, closed):
    a = torch.linspace(0.0, 1.0, 7, dtype=torch.float64).reshape(1, 1, -1)
    out, _ = layer.image_pass(a)
    assert_close(out, closed.second_moment(a), scale=torch.ones_like(a))


@pytest.mark.parametrize(
    ("function", "twin"),
    [
        (torch.tanh, np.tanh),
        (torch.erf, erf),
        (wave, lambda x: np.exp(-x * x) + 0.3 * x),
    ],
)
def test_series_matches_tensor_quadrature(function, twin):
    layer = Elementwise(function, n_nodes=100)
    for t in (-0.9, 0.0, 0.3, 0.95):
        for a, b in ((0.3, 0.3), (0.5, 0.1)):
            point = [torch.tensor([x], dtype=torch.float64) for x in (a, b)]
            c = torch.tensor([t * math.sqrt(a * b)], dtype=torch.float64)
            expected = quadrature(twin, t, a, b)
            scale = quadrature(twin, 0.999999, 0.5, 0.5)
            value = series(layer, c, *point)[0, 0]
            assert_close(value, expected, rtol=1e-9, scale=scale)


def test_more_nodes_approach_a_kink():
    a = torch.ones(1, dtype=torch.float64)
    c = torch.tensor([0.6], dtype=torch.float64)
    angle = math.acos(0.6)
    exact = (math.sin(angle) + (math.pi - angle) * 0.6) / (2 * math.pi)
    errors = [
        abs(series(Elementwise(torch.relu, n_nodes=n), c, a, a).item() - exact)
        for n in (2, 4, 64)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-4


def test_blank_pixels_see_the_value_at_zero():
    # f(0) E[f(v)] with f = cos: exp(-b / 2)
    zero, b = (torch.tensor([x], dtype=torch.float64) for x in (0.0, 0.8))
    value = series(Elementwise(torch.cos), zero, zero, b)
    assert_close(value, [[math.exp(-0.4)]])
    assert_close(series(Elementwise(torch.cos), zero, zero, zero), [[1.0]])


@given(seed=st.integers(0, 1000), n_nodes=st.sampled_from([1, 2, 7, 64, 128]))
@QUICK
def test_series_is_positive_semidefinite(seed, n_nodes):
    net = Sequential(
        Conv2d(3, bias_variance=0.1),
        Elementwise(torch.tanh, n_nodes=n_nodes),
        Flatten(),
        Dense(),
    )
    gram = cross(net, random_images(6, 1, 4, 4, seed=seed))
    smallest = torch.linalg.eigvalsh(gram)[0]
    assert smallest >= -1e-13 * gram.diagonal().sum()


def test_series_in_single_precision():
    net = Sequential(Conv2d(3), Elementwise(torch.tanh), Flatten(), Dense())
    images = random_images(5, 2, 4, 4)
    exact = cross(net, images)
    single = cross(net, images.float())
    rtol = RTOL[torch.float32]
    assert_close(single, exact, rtol=rtol, scale=deviations(exact))
    assert_close(diag(net, images.float()), diag(net, images), rtol=rtol)


@pytest.mark.parametrize("n_nodes", [0, -1, 1025, 2.5, "many"])
def test_number_of_nodes_is_checked(n_nodes):
    net = Sequential(Flatten(), Elementwise(torch.tanh, n_nodes=n_nodes), Dense())
    with pytest.raises(ValueError, match=r"layer1.*`n_nodes` must be an int from 1 to"):
        net.check((1, 2, 2))


@pytest.mark.parametrize(
    ("function", "closed", "largest"),
    [(torch.tanh, Tanh(), 1e6), (torch.erf, Erf(), 1e6), (torch.sin, Sin(), 1e4)],
)
def test_variances_are_right_and_errors_are_told(function, closed, largest):
    a = torch.logspace(-4, math.log10(largest), 23, dtype=torch.float64)
    layer = Elementwise(function)
    found, trace = layer.image_pass(a.reshape(1, 1, -1))
    own = closed.second_moment(a)
    assert bool(((found[0, 0] / own - 1.0).abs() <= trace.error + 1e-6).all())
    told = series_error(trace)
    for t in (1.0, 0.9999, 0.9, -0.99):
        c = t * a.sqrt()[:, None] * a.sqrt()
        value = layer.pair_pass(Maps(c[None, None]), trace, trace).nngp[0, 0]
        error = (value - closed.expectation(c, a[:, None], a)).abs()
        share = error / (own.sqrt()[:, None] * own.sqrt())
        bound = torch.maximum(trace.error[:, None], trace.error)
        assert bool((share <= bound + 1e-6).all())
    assert told == float(trace.error.max())
    assert told > 1e-3


@pytest.mark.parametrize("function", [torch.tanh, torch.erf, torch.nn.functional.gelu])
def test_moderate_inputs_are_right_without_a_doubt(function):
    _, trace = Elementwise(function).image_pass(torch.rand(2, 3, 4).double())
    assert series_error((None, (trace,))) < 1e-6


def test_an_image_has_the_same_series_whatever_others_there_are():
    var = torch.logspace(-3, 5, 12, dtype=torch.float64).reshape(2, 2, 3)
    _, together = Elementwise(torch.tanh).image_pass(var)
    for i in range(3):
        _, alone = Elementwise(torch.tanh).image_pass(var[..., i : i + 1])
        rtol = RTOL[torch.float64]
        assert_close(alone.coefficients, together.coefficients[..., i : i + 1], scale=1)
        assert_close(alone.error, together.error[i : i + 1], rtol=rtol)


def average(x: Tensor) -> Tensor:
    return x.mean(-1, keepdim=True)


def softmax(x: Tensor) -> Tensor:
    return x.softmax(-1)


def coarse(x: Tensor) -> Tensor:
    return torch.tanh(x).float()


def in_numpy(x: Tensor):
    return np.tanh(x.numpy())


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (
            average,
            r"turned a tensor of shape \(2, 3\) and torch.float64 into a tensor of "
            r"shape \(2, 1\) and torch.float64\.$",
        ),
        (torch.squeeze, r"of shape \(1,\) .* into .* shape \(\) and torch.float64\.$"),
        (softmax, "each number separately"),
        (coarse, r"of shape \(2, 3\) and torch.float32\.$"),
        (in_numpy, r"must return a tensor .* into a ndarray\.$"),
        (np.tanh, "numpy's .*: take torch.tanh"),
        (np.cbrt, "take one of torch"),
        ("tanh", "must be a function of a tensor, got 'tanh'"),
    ],
)
def test_functions_that_are_no_activations(function, words):
    net = Sequential(Flatten(), Elementwise(function), Dense())
    with pytest.raises(ValueError, match=rf"(?s)layer1.*`function`.*{words}"):
        net.check((1, 2, 2))
