"""Expectations of activations against numerical integration."""

import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import erf, ndtr
from torch import Tensor

from skconvgp.kernels import GELU, Abs, Erf, Identity, LeakyReLU, ReLU, Sin
from tests.helpers.kernels import QUICK, ROOT_RTOL, RTOL, assert_close, double, name

KINKED = [
    (ReLU(), lambda x: np.maximum(x, 0.0)),
    (LeakyReLU(), lambda x: np.maximum(x, 0.0) + 0.01 * np.minimum(x, 0.0)),
    (LeakyReLU(slope=0.3), lambda x: np.maximum(x, 0.0) + 0.3 * np.minimum(x, 0.0)),
    (LeakyReLU(slope=-2.0), lambda x: np.maximum(x, 0.0) - 2.0 * np.minimum(x, 0.0)),
    (Abs(), np.abs),
    (Identity(), lambda x: x),
]
SMOOTH = [
    (Erf(), erf),
    (GELU(), lambda x: x * ndtr(x)),
    (Sin(), np.sin),
    (Identity(), lambda x: x),
]
LAYERS = [layer for layer, _ in KINKED + SMOOTH[:3]]

CORRELATIONS = [-1.0, -1 + 1e-9, -0.999, -0.6, 0.0, 0.3, 0.9, 0.999, 1 - 1e-9, 1.0]
VARIANCES = [(1.0, 1.0), (2.0, 0.7), (1e-4, 30.0), (50.0, 0.02)]
HUGE = 1e13  # what the published network for MNIST reaches


def homogeneous_integral(
    function: Callable[[np.ndarray], np.ndarray], t: float, a: float, b: float
) -> float:
    """E[f(u) f(v)] for f(s x) = s f(x), s > 0: an integral over the angle alone."""
    angle = math.atan2(math.sqrt((1 - t) * (1 + t)), t)
    kinks = {x % (2 * math.pi) for s in (0.5, 1.5) for x in (s * math.pi,)}
    kinks |= {(x + angle) % (2 * math.pi) for x in kinks}
    edges = sorted({0.0, 2 * math.pi, *kinks})
    nodes, weights = np.polynomial.legendre.leggauss(20)
    total = 0.0
    for low, high in pairwise(edges):
        x = low + (high - low) * (nodes + 1) / 2
        values = function(np.cos(x)) * function(np.cos(x - angle))
        total += (high - low) / 2 * float(weights @ values)
    return math.sqrt(a) * math.sqrt(b) * total / math.pi


def smooth_integral(
    function: Callable[[np.ndarray], np.ndarray], t: float, a: float, b: float
) -> float:
    """E[f(u) f(v)] by the trapezoidal rule, exact to rounding for these functions."""
    z = np.arange(-10.0, 10.0 + 1e-9, 0.04)
    density = np.exp(-z * z / 2) * (0.04 / math.sqrt(2 * math.pi))
    first = function(math.sqrt(a) * z) * density
    v = math.sqrt(b) * (t * z[:, None] + math.sqrt((1 - t) * (1 + t)) * z[None, :])
    return float(first @ function(v) @ density)


def scalars(*values: float, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    return [torch.tensor(value, dtype=dtype) for value in values]


def expectation(layer, t: float, a: float, b: float) -> Tensor:
    return layer.expectation(*scalars(t * math.sqrt(a) * math.sqrt(b), a, b))


@pytest.mark.parametrize("variances", [*VARIANCES, (HUGE, HUGE), (HUGE, 1.0)])
@pytest.mark.parametrize("t", CORRELATIONS)
@pytest.mark.parametrize(("layer", "function"), KINKED, ids=name)
def test_kinked_activations_against_an_integral(layer, function, t, variances):
    expected = homogeneous_integral(function, t, *variances)
    actual = expectation(layer, t, *variances)
    assert_close(actual, expected, scale=math.sqrt(variances[0] * variances[1]))


@pytest.mark.parametrize("variances", VARIANCES)
@pytest.mark.parametrize("t", CORRELATIONS)
@pytest.mark.parametrize(("layer", "function"), SMOOTH, ids=name)
def test_smooth_activations_against_an_integral(layer, function, t, variances):
    a, b = variances
    expected = smooth_integral(function, t, a, b)
    norms = [smooth_integral(function, 1.0, var, var) for var in variances]
    scale = math.sqrt(norms[0] * norms[1])
    assert_close(expectation(layer, t, a, b), expected, scale=scale)


@pytest.mark.parametrize("a", [1e-4, 0.3, 2.0, 30.0])
@pytest.mark.parametrize(("layer", "function"), SMOOTH, ids=name)
def test_second_moment_of_smooth_activations(layer, function, a):
    expected = smooth_integral(function, 1.0, a, a)
    assert_close(layer.second_moment(*scalars(a)), expected)


@pytest.mark.parametrize("a", [1e-4, 2.0, HUGE])
@pytest.mark.parametrize(("layer", "function"), KINKED, ids=name)
def test_second_moment_of_kinked_activations(layer, function, a):
    expected = homogeneous_integral(function, 1.0, a, a)
    assert_close(layer.second_moment(*scalars(a)), expected)


@pytest.mark.parametrize("dtype", RTOL)
@pytest.mark.parametrize("layer", LAYERS, ids=name)
@given(a=st.floats(2.0**-20, 2.0**44, width=32))
@QUICK
def test_expectation_of_equal_inputs_is_the_second_moment(layer, dtype, a):
    (var,) = scalars(a, dtype=dtype)
    moment = layer.second_moment(var)
    assert moment.dtype == dtype
    assert_close(layer.expectation(var, var, var), moment, rtol=RTOL[dtype])


@pytest.mark.parametrize("dtype", RTOL)
def test_second_moment_of_relu_is_exactly_half(dtype):
    var = torch.logspace(-20, 20, 101, dtype=dtype)
    assert torch.equal(ReLU().second_moment(var), var / 2)


@pytest.mark.parametrize("dtype", RTOL)
@pytest.mark.parametrize("layer", LAYERS, ids=name)
def test_blank_pixels_have_no_covariance(layer, dtype):
    zero, var = torch.zeros(1, dtype=dtype), torch.tensor([3.0], dtype=dtype)
    for a, b in ((zero, zero), (zero, var), (var, zero)):
        assert layer.expectation(zero, a, b).item() == 0.0
    assert layer.second_moment(zero).item() == 0.0


@pytest.mark.parametrize("layer", LAYERS, ids=name)
def test_derivatives_at_blank_pixels_are_finite(layer):
    point = [torch.zeros((), dtype=torch.float64, requires_grad=True) for _ in "cab"]
    grads = torch.autograd.grad(layer.expectation(*point), point, allow_unused=True)
    assert all(grad is None or math.isfinite(grad.item()) for grad in grads)


@pytest.mark.parametrize("t", [-0.9, -0.2, 0.0, 0.5, 0.99])
def test_huge_variances_make_erf_a_sign(t):
    # E[sign(u) sign(v)] = 2 / pi arcsin(t)
    value = expectation(Erf(), t, HUGE, 2 * HUGE)
    assert_close(value, 2 / math.pi * math.asin(t), scale=1.0)


@pytest.mark.parametrize("t", CORRELATIONS)
def test_huge_variances_make_gelu_a_relu(t):
    a, b = HUGE, 2 * HUGE
    expected = homogeneous_integral(lambda x: np.maximum(x, 0.0), t, a, b)
    assert_close(expectation(GELU(), t, a, b), expected, scale=math.sqrt(a * b))


@pytest.mark.parametrize("t", [-1.0, -0.9, 0.0, 0.7, 1.0])
def test_huge_variances_make_sines_independent(t):
    value = float(expectation(Sin(), t, HUGE, HUGE))
    assert_close(value, {-1.0: -0.5, 1.0: 0.5}.get(t, 0.0), scale=1.0)


@pytest.mark.parametrize("dtype", RTOL)
@pytest.mark.parametrize("layer", LAYERS, ids=name)
def test_rounding_above_the_largest_covariance_is_harmless(layer, dtype):
    (a,) = scalars(HUGE, dtype=dtype)
    for sign in (-1.0, 1.0):
        c = sign * a * (1 + 2 * torch.finfo(dtype).eps)
        value = layer.expectation(c, a, a)
        expected = layer.expectation(sign * a, a, a)
        scale = layer.second_moment(a)
        assert_close(value, expected, rtol=RTOL[dtype], scale=scale)


@pytest.mark.parametrize("variances", [*VARIANCES, (HUGE, HUGE), (HUGE, 1e-3)])
@pytest.mark.parametrize("layer", LAYERS, ids=name)
def test_single_precision_matches_double(layer, variances):
    t = torch.tensor(CORRELATIONS, dtype=torch.float64)
    a, b = scalars(*variances, dtype=torch.float32)
    c = (t * a.double().sqrt() * b.double().sqrt()).float()
    single = layer.expectation(c, a, b)
    exact = layer.expectation(c.double(), a.double(), b.double())
    assert single.dtype == torch.float32
    scale = (layer.second_moment(a) * layer.second_moment(b)).double().sqrt()
    # Only erf and sin see 1 - t itself, which single precision has rounded.
    sees_rounding = isinstance(layer, Erf | Sin)
    rtol = ROOT_RTOL[torch.float32] if sees_rounding else RTOL[torch.float32]
    moderate = max(variances) < HUGE
    if isinstance(layer, Sin) and not moderate:
        assert bool(single.isfinite().all())
    else:
        assert_close(single, exact, rtol=rtol, scale=scale)


@given(
    exponent=st.floats(-7.0, -1.0),
    a=st.floats(2.0**-20, 2.0**44, width=32),
    b=st.floats(2.0**-20, 2.0**44, width=32),
    sign=st.sampled_from([-1.0, 1.0]),
)
@QUICK
def test_relu_in_single_precision_is_stable_near_equal_pairs(exponent, a, b, sign):
    t = sign * (1 - 10**exponent)
    c, a, b = scalars(t * math.sqrt(a) * math.sqrt(b), a, b, dtype=torch.float32)
    single = ReLU().expectation(c, a, b).double()
    exact = ReLU().expectation(c.double(), a.double(), b.double())
    # near t = -1 the value itself vanishes, so the scale is the largest one
    largest = (a.double().sqrt() * b.double().sqrt()) / 2
    assert_close(single, exact, rtol=1e-6, scale=exact if sign > 0 else largest)


@pytest.mark.parametrize("layer", LAYERS, ids=name)
def test_variances_broadcast_against_the_covariance(layer):
    generator = torch.Generator().manual_seed(0)
    a = 1.0 + torch.rand(2, 3, 1, generator=generator, dtype=torch.float64)
    b = 1.0 + torch.rand(2, 1, 4, generator=generator, dtype=torch.float64)
    c = torch.rand(2, 3, 4, generator=generator, dtype=torch.float64)
    whole = layer.expectation(c, a, b)
    for i, j, k in np.ndindex(2, 3, 4):
        one = layer.expectation(c[i, j, k], a[i, j, 0], b[i, 0, k])
        assert_close(whole[i, j, k], one, scale=double(1.0))
