"""Values of users as arrays, and what is told of those that make none."""

import numpy as np
import pandas as pd
import pytest
import torch

from skconvgp.engine import first_shapes, host_arrays, host_numbers, host_values

RAGGED = [
    ([[1.0, 2.0], [3.0]], r"y\[0\] has shape \(2,\), y\[1\] has shape \(1,\)"),
    ([1.0, [2.0, 3.0]], r"y\[0\] has shape \(\), y\[1\] has shape \(2,\)"),
    (([[1.0], [2.0, 3.0]],), r"different lengths: give"),
    ([torch.zeros(2), torch.zeros(3)], r"y\[1\] has shape \(3,\)"),
]


@pytest.mark.parametrize(("values", "message"), RAGGED, ids=[0, 1, 2, 3])
def test_sequences_of_different_lengths_are_named(values, message):
    with pytest.raises(ValueError, match=f"y holds sequences of .*{message}"):
        host_values(values, "y")


def test_few_shapes_are_named():
    values = [[0.0] * i for i in range(1, 10)]
    with pytest.raises(ValueError, match=r"y\[3\] has shape \(4,\)\)"):
        host_values(values, "y")
    assert len(first_shapes(values)) == 9


@pytest.mark.parametrize("cell", [[1.0, 2.0], np.ones(2)], ids=["list", "array"])
@pytest.mark.parametrize("column", [pd.Series, np.array], ids=["frame", "array"])
def test_cells_with_sequences_are_named(column, cell):
    values = np.empty(3, dtype=object)
    values[:] = [1.0, cell, 3.0]
    kind = type(cell).__name__
    with pytest.raises(ValueError, match=rf"a {kind} in a cell.*np\.stack\(y\)"):
        host_values(column(values), "y")


@pytest.mark.parametrize(
    "values",
    [None, 1.0, "word", [1, 2], ["a", "b"], [], [[1.0], [2.0]], [("a", 1), ("b", 2)]],
    ids=repr,
)
def test_others_are_as_they_were(values):
    assert host_values(values, "y") is values
    assert host_arrays(values, "y") is values


def test_numbers_are_doubles_or_refused():
    np.testing.assert_array_equal(host_numbers([1, 2], "v"), [1.0, 2.0])
    assert host_numbers(torch.ones(2), "v").dtype == np.float64
    for wrong in (["a"], [{}], {}, [None, {}], [10**400]):
        with pytest.raises(ValueError, match=r"^`v` must hold numbers, got "):
            host_numbers(wrong, "v")
    with pytest.raises(ValueError, match=r"^v holds sequences of different lengths"):
        host_numbers([[1.0], []], "v")
