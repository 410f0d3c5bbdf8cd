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


def both_parts(name, split, folder):
    parts = (
        load_uci(name, split, subset=subset, data_home=folder, return_X_y=True)
        for subset in ("train", "test")
    )
    return [array for part in parts for array in part]


@pytest.mark.parametrize("split", [0, 1])
def test_test_samples_of_a_regression_set_are_those_stored(folder, split):
    arrays = stored(folder, "uci_regression", "yacht")
    X, y, X_test, y_test = both_parts("yacht", split, folder)
    assert rows_of(X_test, arrays["X"]) == arrays["test_idx"][split].tolist()
    train = rows_of(X, arrays["X"])
    assert sorted(train + arrays["test_idx"][split].tolist()) == list(range(40))
    assert train != sorted(train)
    np.testing.assert_array_equal(y, arrays["y"][train])
    np.testing.assert_array_equal(y_test, arrays["y"][arrays["test_idx"][split]])


def test_splits_of_a_classification_set_are_drawn_by_their_seed(folder):
    arrays = stored(folder, "uci_classification", "magic")
    X, y, X_test, _ = both_parts("magic", 3, folder)
    assert len(X_test) == 8
    both = rows_of(X, arrays["X"]) + rows_of(X_test, arrays["X"])
    assert sorted(both) == list(range(40))
    np.testing.assert_array_equal(load_uci("magic", 3, data_home=folder).data, X)
    assert not np.array_equal(load_uci("magic", 4, data_home=folder).data, X)
    assert len(y) == 32


@pytest.mark.parametrize("name", ["yacht", "magic"])
def test_all_samples_are_those_for_training_then_those_for_tests(folder, name):
    X, y, X_test, y_test = both_parts(name, 1, folder)
    bunch = load_uci(name, 1, subset="all", data_home=folder)
    np.testing.assert_array_equal(bunch.data, np.concatenate([X, X_test]))
    np.testing.assert_array_equal(bunch.target, np.concatenate([y, y_test]))
    assert name in bunch.DESCR


def test_unknown_part_is_refused(folder):
    with pytest.raises(ValueError, match=r"`subset` must be one of 'train', .*None"):
        load_uci("yacht", subset=None, data_home=folder)


def test_folder_is_named_by_the_environment(folder, monkeypatch):
    monkeypatch.setenv("SKCONVGP_DATA", str(folder))
    expected = load_uci("magic", data_home=folder)
    np.testing.assert_array_equal(load_uci("magic").data, expected.data)


def test_without_a_folder_nothing_is_loaded(monkeypatch):
    monkeypatch.delenv("SKCONVGP_DATA", raising=False)
    with pytest.raises(FileNotFoundError, match=r"yacht\.npz by `data_home`.*SKCONVGP"):
        load_uci("yacht")


def test_a_folder_without_the_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"uci_classification/magic\.npz"):
        load_uci("magic", data_home=tmp_path)


def test_unknown_set_is_refused(folder):
    with pytest.raises(ValueError, match=r"must be one of 'boston'.*got 'iris'"):
        load_uci("iris", data_home=folder)


def test_split_that_is_not_stored_is_refused(folder):
    with pytest.raises(ValueError, match="from 0 to 1, got"):
        load_uci("yacht", 2, data_home=folder)


@pytest.mark.parametrize("name", ["yacht", "magic"])
@pytest.mark.parametrize("split", [-1, 0.5, True, None])
def test_split_is_a_whole_number(name, split, folder):
    with pytest.raises(ValueError, match=rf"`split` must be an int >= 0, got {split}"):
        load_uci(name, split, data_home=folder)


def test_a_damaged_file_is_named_with_the_remedy(folder):
    path = folder / "uci_classification" / "magic.npz"
    for contents in (b"", path.read_bytes()[:-30]):
        path.write_bytes(contents)
        with pytest.raises(ValueError, match=r"empty, damaged or .*: down") as caught:
            load_uci("magic", data_home=folder)
        assert str(path) in str(caught.value)


BAD_FILES = {
    "a number that is not there": (
        {"test_idx": [[0, 40]]},
        "row 0 of 'test_idx' must hold different numbers.*from 0 to 39.*from 0 to 40",
    ),
    "a sample counted from the end": (
        {"test_idx": [[0, -1]]},
        "row 0 of 'test_idx' must hold different numbers.*from -1 to 0",
    ),
    "a sample twice": (
        {"test_idx": [[5, 7, 5]]},
        "row 0 of 'test_idx' .*2 different ones among 3, from 5 to 7",
    ),
    "numbers of one split": (
        {"test_idx": [3, 4]},
        r"'test_idx' must be integers of shape \(n_splits, n_test\).*\(2,\)",
    ),
    "a mask": (
        {"test_idx": [[True, False]]},
        "'test_idx' must be integers.*got bool",
    ),
    "fewer targets": (
        {"y": np.zeros(39)},
        r"'y' must be of shape \(n,\).*got \(39,\) and \(40, 3\)",
    ),
    "a row of features": (
        {"X": np.zeros(40)},
        r"'X' must be of shape \(n, d\), got \(40,\)",
    ),
    "no targets": ({"y": None}, "no array 'y'.*holds 'X', 'test_idx'"),
    "no splits": ({"test_idx": None}, "no array 'test_idx'"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_file_with_other_arrays_is_refused(folder, case):
    changes, message = BAD_FILES[case]
    arrays = stored(folder, "uci_regression", "yacht") | changes
    path = folder / "uci_regression" / "yacht.npz"
    np.savez(path, **{name: a for name, a in arrays.items() if a is not None})
    with pytest.raises(ValueError, match=message) as caught:
        load_uci("yacht", data_home=folder)
    assert str(path) in str(caught.value)
