"""Tables of the UCI repository, with the splits that the literature uses."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skconvgp.datasets._counts import require_int
from skconvgp.datasets._files import (
    DATA_VARIABLE,
    as_answer,
    find_file,
    find_parts,
    read_arrays,
    require_pairs,
)

__all__ = ["load_uci"]

REGRESSION = (
    "boston",
    "concrete",
    "energy",
    "kin8nm",
    "power_plant",
    "protein",
    "wine_red",
    "yacht",
)
CLASSIFICATION = ("eeg_eye_state", "htru2", "magic")
TEST_SHARE = 5  # a fifth of the samples of a classification set


def load_uci(
    name: str,
    split: int = 0,
    *,
    subset: str = "train",
    data_home: str | os.PathLike[str] | None = None,
    return_X_y: bool = False,  # noqa: N803
) -> Any:
    """Load a table of the UCI repository from a local folder.

    Parameters
    ----------
    name : str
        For regression "boston", "concrete", "energy", "kin8nm", "power_plant",
        "protein", "wine_red" or "yacht"; for classification "eeg_eye_state", "htru2"
        or "magic".
    split : int, default=0
        For regression, the index of a stored split with nine tenths for training; there
        are 20, or 5 of "protein". For classification, the seed of a random split with
        four fifths for training.
    subset : {"train", "test", "all"}, default="train"
        The samples for training, those for tests, or all, those for training first.
    data_home : path, default=None
        Folder with ``uci_regression`` and ``uci_classification``, and in these a file
        ``<name>.npz`` with arrays ``X`` (n, d), ``y`` (n,) and, for regression,
        ``test_idx`` (n_splits, n_test). None is the folder that the environment
        variable ``SKCONVGP_DATA`` names.
    return_X_y : bool, default=False
        Whether to return ``(X, y)`` instead of a bunch.

    Returns
    -------
    data : Bunch
        ``data``, features of shape (n, d), and ``target``, of shape (n,), not scaled;
        the training samples in a random order, the same for each call; ``DESCR``, a
        description.

    Raises
    ------
    ValueError
        If there is no such table or split, if the file is empty or damaged, or if an
        array of it is missing or wrong.
    FileNotFoundError
        If no folder is named, or it holds no such file.

    References
    ----------
    Hernandez-Lobato and Adams, "Probabilistic backpropagation for scalable learning of
    Bayesian neural networks", 2015; Gal and Ghahramani, "Dropout as a Bayesian
    approximation", 2016 (regression splits).

    Examples
    --------
    >>> from skconvgp.datasets import load_uci
    >>> X, y = load_uci("yacht", return_X_y=True)  # doctest: +SKIP
    >>> X_test, y_test = load_uci(
    ...     "yacht", subset="test", return_X_y=True
    ... )  # doctest: +SKIP
    """
    names = find_parts(subset)
    require_int("split", split, 0)
    path = _find(name, data_home)
    arrays = read_arrays(path, ["X", "y"])
    X, y = arrays.values()
    if X.ndim != 2:
        raise ValueError(f"{str(path)!r}: 'X' must be of shape (n, d), got {X.shape}.")
    require_pairs(path, arrays)
    if name in CLASSIFICATION:
        parts = _drawn(len(y), split)
    else:
        parts = _stored(path, name, len(y), split)
    rows = np.concatenate([parts[part] for part in names])
    description = f"Table {name!r} of the UCI repository, split {split}."
    return as_answer(X[rows], y[rows], description, return_X_y)


def _find(name: str, data_home: str | os.PathLike[str] | None) -> Path:
    if name not in REGRESSION + CLASSIFICATION:
        known = ", ".join(map(repr, REGRESSION + CLASSIFICATION))
        raise ValueError(f"`name` must be one of {known}, got {name!r}.")
    kind = "uci_regression" if name in REGRESSION else "uci_classification"
    file = f"{kind}/{name}.npz"
    path = find_file(file, data_home)
    if path is None:
        raise FileNotFoundError(
            f"Name a folder with {file} by `data_home`, or by the environment variable "
            f"{DATA_VARIABLE}: the tables are not downloaded."
        )
    return path


def _drawn(n: int, split: int) -> dict[str, NDArray[np.intp]]:
    """Return a random split of a classification set into training and tests."""
    order = np.random.default_rng(split).permutation(n)
    n_test = n // TEST_SHARE
    return {"train": order[n_test:], "test": order[:n_test]}


def _stored(path: Path, name: str, n: int, split: int) -> dict[str, NDArray[np.intp]]:
    """Return a stored split of a regression set, with the training samples shuffled."""
    tests = read_arrays(path, ["test_idx"])["test_idx"]
    if tests.ndim != 2 or tests.dtype.kind not in "iu":
        raise ValueError(
            f"{str(path)!r}: 'test_idx' must be integers of shape (n_splits, n_test), "
            f"got {tests.dtype} of shape {tests.shape}."
        )
    if split >= len(tests):
        raise ValueError(
            f"`split` of {name!r} must be an int from 0 to {len(tests) - 1}, got "
            f"{split!r}."
        )
    test = tests[split].astype(np.intp)
    train = np.setdiff1d(np.arange(n), test)
    if len(train) + len(test) != n:
        raise ValueError(
            f"{str(path)!r}: row {split} of 'test_idx' must hold different numbers of "
            f"samples, from 0 to {n - 1}; it has {len(np.unique(test))} different ones "
            f"among {len(test)}, from {test.min()} to {test.max()}."
        )
    return {"train": np.random.default_rng(split).permutation(train), "test": test}
