"""Tables from a folder, and their splits."""

import numpy as np
import pytest

from skconvgp.datasets import load_uci


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for kind, name in (("uci_regression", "yacht"), ("uci_classification", "magic")):
        arrays = {"X": rng.normal(size=(40, 3)), "y": rng.integers(0, 2, 40)}
        if kind == "uci_regression":
            order = [rng.permutation(40)[:4] for _ in range(2)]
            arrays["test_idx"] = np.array(order)
        (tmp_path / kind).mkdir()
        np.savez(tmp_path / kind / f"{name}.npz", **arrays)
    return tmp_path


def stored(folder, kind, name):
    with np.load(folder / kind / f"{name}.npz") as arrays:
        return dict(arrays)


def rows_of(X, table):
    """Return the numbers of rows of a table."""
    return [int(np.flatnonzero((table == row).all(1))[0]) for row in X]


@pytest.mark.parametrize("split", [0, 1])
def test_test_samples_of_a_regression_set_are_those_stored(folder, split):
    arrays = stored(folder, "uci_regression", "yacht")
    X, y, X_test, y_test = load_uci("yacht", split, data_home=folder)
    assert rows_of(X_test, arrays["X"]) == arrays["test_idx"][split].tolist()
    train = rows_of(X, arrays["X"])
    assert sorted(train + arrays["test_idx"][split].tolist()) == list(range(40))
    assert train != sorted(train)
    np.testing.assert_array_equal(y, arrays["y"][train])
    np.testing.assert_array_equal(y_test, arrays["y"][arrays["test_idx"][split]])


def test_splits_of_a_classification_set_are_drawn_by_their_seed(folder):
    arrays = stored(folder, "uci_classification", "magic")
    X, y, X_test, _ = load_uci("magic", 3, data_home=folder)
    assert len(X_test) == 8
    both = rows_of(X, arrays["X"]) + rows_of(X_test, arrays["X"])
    assert sorted(both) == list(range(40))
    np.testing.assert_array_equal(load_uci("magic", 3, data_home=folder)[0], X)
    assert not np.array_equal(load_uci("magic", 4, data_home=folder)[0], X)
    assert len(y) == 32


def test_folder_is_named_by_the_environment(folder, monkeypatch):
    monkeypatch.setenv("SKCONVGP_DATA", str(folder))
    expected = load_uci("magic", data_home=folder)
    for found, part in zip(load_uci("magic"), expected, strict=True):
        np.testing.assert_array_equal(found, part)


def test_without_a_folder_nothing_is_loaded(monkeypatch):
    monkeypatch.delenv("SKCONVGP_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match=r"SKCONVGP_DATA.*must name a folder"):
        load_uci("yacht")


def test_a_folder_without_the_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"uci_classification/magic\.npz"):
        load_uci("magic", data_home=tmp_path)


def test_unknown_set_is_refused(folder):
    with pytest.raises(ValueError, match=r"must be one of 'boston'.*got 'iris'"):
        load_uci("iris", data_home=folder)


@pytest.mark.parametrize("split", [-1, 2])
def test_split_that_is_not_stored_is_refused(folder, split):
    with pytest.raises(ValueError, match="from 0 to 1, got"):
        load_uci("yacht", split, data_home=folder)
