"""Activations made of hyperbolic tangents, against integrals at all variances."""

import math

import mpmath
import numpy as np
import pytest
import torch
from scipy.special import erf, expit

from skconvgp.kernels import Sigmoid, SiLU, Softplus, Tanh
from skconvgp.kernels._saturating import RATES, WEIGHTS
from tests.helpers.integrals import integral
from tests.helpers.kernels import RTOL, assert_close, double

FUNCTIONS = {
    Tanh: np.tanh,
    Sigmoid: expit,
    SiLU: lambda x: x * expit(x),
    Softplus: lambda x: np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))),
}
PROMISED = 6e-8  # of the standard deviations
LAYERS = [layer() for layer in FUNCTIONS]


def error_of_the_sum(x):
    return erf(np.outer(x, RATES)) @ WEIGHTS / np.tanh(x) - 1.0


def test_error_of_the_sum_is_the_least_largest():
    # As many extrema of one size as there are numbers to choose, and one more.
    near = 2.0 / math.sqrt(math.pi) * np.dot(WEIGHTS, RATES) - 1.0
    x = np.linspace(0.01, 12.0, 3000)
    errors = np.concatenate([[near], error_of_the_sum(x), [sum(WEIGHTS) - 1.0]])
    runs = np.split(errors, np.flatnonzero(np.diff(np.sign(errors))) + 1)
    sizes = [np.abs(run).max() for run in runs]
    assert len(sizes) == 2 * len(RATES) + 1
    np.testing.assert_allclose(sizes, 2.77e-8, rtol=0.01)


@pytest.mark.parametrize("layer", LAYERS, ids=repr)
def test_variances_of_any_size(layer):
    sizes = np.logspace(-6, 6, 13)
    found = layer.second_moment(double(sizes))
    expected = [integral(FUNCTIONS[type(layer)], 1.0, a, a) for a in sizes]
    assert_close(found, expected, rtol=PROMISED)


@pytest.mark.parametrize("t", [-0.9999, 0.6, 0.999999])
@pytest.mark.parametrize("layer", LAYERS, ids=repr)
def test_covariances_of_any_size(layer, t):
    function = FUNCTIONS[type(layer)]
    for a, b in ((1e-6, 1e-5), (1.0, 3.0), (1e6, 4.0), (1e6, 2e6)):
        c, *variances = (double(x) for x in (t * math.sqrt(a * b), a, b))
        scale = math.sqrt(math.prod(integral(function, 1.0, x, x) for x in (a, b)))
        found = layer.expectation(c, *variances)
        assert_close(found, integral(function, t, a, b), rtol=PROMISED, scale=scale)


def test_the_integrals_are_right():
    with mpmath.workdps(20):
        exact = mpmath.quad(
            lambda x: mpmath.tanh(x) ** 2 * mpmath.npdf(x, 0, 3), [-40, -3, 0, 3, 40]
        )
    assert integral(np.tanh, 1.0, 9.0, 9.0) == pytest.approx(float(exact), rel=1e-10)
    # Sheppard: the signs of two variables.
    for t in (-0.9999, 0.6, 0.999999):
        angle = 2.0 / math.pi * math.asin(t)
        assert integral(np.sign, t, 4.0, 9.0) == pytest.approx(angle, abs=1e-3)
    twice = integral(lambda x: x, 0.7, 4.0, 9.0)
    assert twice == pytest.approx(4.2, rel=1e-10)


@pytest.mark.parametrize("layer", LAYERS, ids=repr)
def test_saturated_covariances_are_finite_and_bounded(layer):
    a = double([1e-300, 1.0, 1e100, 1e200, 1e300])
    own = layer.second_moment(a)
    both = layer.expectation(a.sqrt()[:, None] * a.sqrt(), a[:, None], a)
    scale = own.sqrt()[:, None] * own.sqrt()
    assert bool(torch.isfinite(both).all())
    assert bool((both.abs() <= scale * (1.0 + 1e-7)).all())


@pytest.mark.parametrize("layer", LAYERS, ids=repr)
def test_derivatives_of_saturated_variances(layer):
    # Of c, a and b that belong to two vectors, along their lengths and their angle.
    def covariance(place):
        first, second, angle = torch.exp(place)
        c = torch.cos(angle) * first * second
        return layer.expectation(c, first.square(), second.square())

    place = torch.log(double([1e3, 2e3, 1e-3])).requires_grad_()
    (found,) = torch.autograd.grad(covariance(place), place)
    step = 1e-4
    for i, slope in enumerate(found):
        moved = step * torch.eye(3, dtype=torch.float64)[i]
        ends = [covariance(place.detach() + s * moved) for s in (1.0, -1.0)]
        size = ends[0].abs()
        assert_close(slope, (ends[0] - ends[1]) / (2 * step), rtol=3e-6, scale=size)


@pytest.mark.parametrize("layer", LAYERS, ids=repr)
def test_blank_pixels_see_the_value_at_zero(layer):
    function, zero = FUNCTIONS[type(layer)], double(0.0)
    at_zero = float(function(np.zeros(1))[0])
    nodes = np.linspace(-12.0, 12.0, 4001)
    density = np.exp(-nodes * nodes / 2.0) / math.sqrt(2.0 * math.pi)
    mean = at_zero * float(np.trapezoid(function(nodes) * density, nodes))
    found = layer.expectation(zero, zero, double(1.0))
    assert_close(found, mean, rtol=PROMISED, scale=1.0)
    assert_close(layer.second_moment(zero), at_zero**2, rtol=PROMISED, scale=1.0)


@pytest.mark.parametrize("layer", LAYERS, ids=repr)
def test_single_precision(layer):
    a = torch.logspace(-6, 2, 9, dtype=torch.float64)
    c, pair = 0.7 * a, (a, a)
    exact = layer.expectation(c, *pair)
    single = layer.expectation(c.float(), *(x.float() for x in pair))
    assert single.dtype == torch.float32
    own = layer.second_moment(a)
    assert_close(single, exact, rtol=RTOL[torch.float32], scale=own)
