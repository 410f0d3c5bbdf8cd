"""The polynomials of the fused backend, against the functions they stand for."""

import importlib.util
import re
from dataclasses import replace
from pathlib import Path

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf

BACKENDS = Path(__file__).parents[2] / "skconvgp" / "backends"
NATIVE = BACKENDS / "native"
HEADER = BACKENDS / "warp" / "coefficients.hpp"
ARRAY = re.compile(
    r"// Degree (\d+), [^\n]* at most (\S+)\.\n"
    r"inline constexpr double (\w+)\[\] = \{([^}]*)\};"
)
DIGITS = 40
SPACINGS = np.concatenate(
    [np.logspace(-15, -1, 150), 1 - np.logspace(-15, -1, 50), np.linspace(0, 1, 601)]
)
PRECISIONS = ["float", "double"]


def read_arrays(text):
    """Return degree, bound and coefficients of each array of a header."""
    return {
        name: (int(degree), float(bound), [float(n) for n in numbers.split(",")[:-1]])
        for degree, bound, name, numbers in ARRAY.findall(text)
    }


def load_script():
    path = NATIVE / "make_coefficients.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ARRAYS = read_arrays(HEADER.read_text(encoding="utf-8"))
SCRIPT = load_script()


def polynomial(name, point):
    return mpmath.polyval([mpf(value) for value in ARRAYS[name][2][::-1]], point)


def expectation(name, rho):
    """Return f from the polynomial."""
    u = 1 - abs(rho)
    return (max(rho, 0) + u * mpmath.sqrt(u) * polynomial(name, u)) / 2


def exact_expectation(rho):
    return (mpmath.sqrt(1 - rho**2) + (mp.pi - mpmath.acos(rho)) * rho) / (2 * mp.pi)


def angle(name, u):
    """Return arccos(1 - u) / pi from the polynomial."""
    return mpmath.sqrt(u * (2 - u)) * polynomial(name, u)


def arcsine(name, x):
    """Return arcsin(x), for x > 1/2 by its reduction."""
    if x > 0.5:
        return mp.pi / 2 - 2 * arcsine(name, mpmath.sqrt((1 - x) / 2))
    return x + x**3 * polynomial(name, x**2)


def largest_relative_error(approximate, exact, points):
    """Return the largest error, relative to the exact value, where that is not 0."""
    with mpmath.workdps(DIGITS):
        points = [mpf(float(point)) for point in points]
        pairs = [(approximate(point), exact(point)) for point in points]
        return float(max(abs(a / e - 1) for a, e in pairs if e))


def assert_reached(error, name):
    bound = ARRAYS[name][1]
    assert bound / 1.2 < error <= bound


@pytest.mark.slow
def test_the_script_writes_the_header(tmp_path):
    path = tmp_path / "coefficients.hpp"
    SCRIPT.main(path)
    assert path.read_text(encoding="utf-8") == HEADER.read_text(encoding="utf-8")


def test_the_header_has_every_array_with_its_degree():
    assert list(ARRAYS) == [fit.name for fit in SCRIPT.FITS]
    for fit in SCRIPT.FITS:
        degree, bound, coefficients = ARRAYS[fit.name]
        assert degree == fit.degree == len(coefficients) - 1
        assert bound <= fit.limit


@pytest.mark.parametrize("fit", SCRIPT.FITS, ids=lambda fit: fit.name)
def test_a_smaller_degree_misses_the_limit(fit):
    samples = fit.sample(200)
    coefficients = SCRIPT.minimax(samples, fit.degree - 1)
    assert SCRIPT.bound_error(fit, coefficients) > fit.limit


@pytest.mark.parametrize("name", [name for name in ARRAYS if name.endswith("_float")])
def test_floats_hold_the_coefficients_for_floats(name):
    coefficients = np.array(ARRAYS[name][2])
    np.testing.assert_array_equal(coefficients.astype(np.float32), coefficients)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_relu_reaches_its_bound(precision):
    name = f"relu_{precision}"
    rho = np.concatenate([SPACINGS - 1, 1 - SPACINGS])
    error = largest_relative_error(
        lambda rho: expectation(name, rho), exact_expectation, rho
    )
    assert_reached(error, name)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_relu_reaches_its_bound_for_positive_correlations(precision):
    name = f"relu_positive_{precision}"
    error = largest_relative_error(
        lambda rho: expectation(name, rho), exact_expectation, 1 - SPACINGS
    )
    assert_reached(error, name)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_angle_reaches_its_bound(precision):
    name = f"angle_{precision}"
    with mpmath.workdps(DIGITS):
        points = [mpf(float(u)) for u in SPACINGS]
        errors = [abs(angle(name, u) - mpmath.acos(1 - u) / mp.pi) for u in points]
    assert_reached(float(max(errors)), name)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_value_from_the_angle_is_as_good_as_the_angle(precision):
    name = f"angle_{precision}"
    with mpmath.workdps(DIGITS):
        for spacing in SPACINGS:
            u = mpf(float(spacing))
            slope = 1 - angle(name, u)
            value = (mpmath.sqrt(u * (2 - u)) / mp.pi + (1 - u) * slope) / 2
            assert abs(value - exact_expectation(1 - u)) <= ARRAYS[name][1] / 2


@pytest.mark.parametrize("precision", PRECISIONS)
def test_arcsine_reaches_its_bound(precision):
    name = f"arcsine_{precision}"
    error = largest_relative_error(
        lambda x: arcsine(name, x), mpmath.asin, SPACINGS / 2
    )
    assert_reached(error, name)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_reduction_of_arcsine_at_most_doubles_its_error(precision):
    name = f"arcsine_{precision}"
    error = largest_relative_error(
        lambda x: arcsine(name, x), mpmath.asin, 0.5 + SPACINGS / 2
    )
    bound = ARRAYS[name][1]
    assert bound < error <= 2 * bound


def test_power_reaches_its_bound():
    error = largest_relative_error(
        lambda v: 1 + v * polynomial("power_float", v),
        lambda v: mpf(2) ** v,
        np.concatenate([-SPACINGS / 2, SPACINGS / 2]),
    )
    assert_reached(error, "power_float")


@pytest.mark.parametrize("precision", PRECISIONS)
def test_values_at_correlation_one(precision):
    _, bound, coefficients = ARRAYS[f"relu_{precision}"]
    rounding = 4 * np.finfo(float).eps if precision == "double" else 0
    limit = 2 * np.sqrt(2) / (3 * np.pi)
    assert abs(coefficients[0] / limit - 1) <= bound + rounding
    for family in ["relu", "relu_positive"]:
        assert expectation(f"{family}_{precision}", mpf(1)) == 0.5
        assert expectation(f"{family}_{precision}", mpf(-1)) == 0


def test_a_limit_out_of_reach_is_an_error():
    fit = replace(SCRIPT.FITS[0], limit=1e-9)
    with pytest.raises(ArithmeticError, match=r"`relu_positive_float` .* its degree"):
        SCRIPT.format_array(fit)


def test_an_exchange_that_does_not_settle_is_an_error(monkeypatch):
    monkeypatch.setattr(SCRIPT, "MAX_EXCHANGES", 1)
    with pytest.raises(ArithmeticError, match="did not settle"):
        SCRIPT.minimax(SCRIPT.FITS[0].sample(100), 4)


def test_too_few_extrema_are_an_error():
    with pytest.raises(ArithmeticError, match="too few extrema"):
        SCRIPT.alternating_extrema([1.0, 2.0, -1.0], 3)
