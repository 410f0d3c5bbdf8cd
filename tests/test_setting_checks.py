"""Checks of the settings of parts."""

import math

import numpy as np
import pytest

from skconvgp._settings import FIXED, as_bounds, is_int, is_number


@pytest.mark.parametrize("value", [1, 7, np.int32(3), np.uint8(5)])
def test_whole_numbers_are_counts(value):
    assert is_int(value)
    assert is_int(value, least=1, most=7)


@pytest.mark.parametrize(
    "value", [True, False, np.True_, 0, -1, 2.0, np.float64(2.0), "3", None, (3,)]
)
def test_what_is_no_count(value):
    assert not is_int(value)


def test_bounds_of_counts_are_allowed_themselves():
    assert is_int(0, least=0)
    assert is_int(4, least=2, most=4)
    assert not is_int(1, least=2, most=4)
    assert not is_int(5, least=2, most=4)


@pytest.mark.parametrize("value", [1, 0.5, 1e-300, 1e300, np.float32(0.1), np.int8(2)])
def test_positive_numbers(value):
    assert is_number(value)


@pytest.mark.parametrize("value", [True, 0, 0.0, -1.0, math.inf, math.nan, "1.0", None])
def test_what_is_no_positive_number(value):
    assert not is_number(value)


@pytest.mark.parametrize("bounds", [(0.5, 0.5), (1e-4, 1e4), (2, 3)])
def test_bounds(bounds):
    assert as_bounds(bounds) == tuple(map(float, bounds))
    assert as_bounds(FIXED) == FIXED


@pytest.mark.parametrize(
    "bounds", [(0.0, 1.0), (-1.0, 1.0), (2.0, 1.0), (1.0, math.inf), (1.0, math.nan)]
)
def test_what_are_no_bounds(bounds):
    with pytest.raises(ValueError, match="0 < low <= high"):
        as_bounds(bounds)
