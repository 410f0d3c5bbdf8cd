"""Tables of the UCI repository, with the splits that the literature uses."""

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from skconvgp.datasets._images import DATA_VARIABLE, Split

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
    name: str, split: int = 0, *, data_home: str | os.PathLike[str] | None = None
) -> Split:
    """Load a table of the UCI repository from a local folder.

    Parameters
    ----------
    name : str
        For regression "boston", "concrete", "energy", "kin8nm", "power_plant",
        "protein", "wine_red" or "yacht"; for classification "eeg_eye_state", "htru2"
        or "magic".
    split : int, default=0
        Which split: of a regression set one of those that are stored (20, but 5 of
        "protein"), nine tenths for training; of a classification set the seed of one
        with four fifths for training.
    data_home : path, default=None
        Folder with ``uci_regression`` and ``uci_classification``, and in these a file
        ``<name>.npz`` with arrays ``X`` (n, d), ``y`` (n,) and, for regression,
        ``test_idx`` (n_splits, n_test). None is the folder that the environment
        variable ``SKCONVGP_DATA`` names.

    Returns
    -------
    X_train, y_train, X_test, y_test : ndarray
        Features (n, d) and targets (n,), not scaled; the training samples in a random
        order, the same for each call.

    Raises
    ------
    ValueError
        For a set or a split that there is not.
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
    >>> X_train, y_train, X_test, y_test = load_uci("yacht")  # doctest: +SKIP
    """
    arrays = _read(name, data_home)
    X, y = arrays["X"], arrays["y"]
    if name in CLASSIFICATION:
        order = np.random.default_rng(split).permutation(len(y))
        n_test = len(y) // TEST_SHARE
        test, train = order[:n_test], order[n_test:]
    else:
        tests = arrays["test_idx"]
        if not 0 <= split < len(tests):
            raise ValueError(
                f"`split` of {name!r} must be an int from 0 to {len(tests) - 1}, got "
                f"{split!r}."
            )
        test = tests[split]
        rest = np.setdiff1d(np.arange(len(y)), test)
        train = np.random.default_rng(split).permutation(rest)
    return X[train], y[train], X[test], y[test]


def _read(
    name: str, data_home: str | os.PathLike[str] | None
) -> dict[str, NDArray[np.float64]]:
    if name not in REGRESSION + CLASSIFICATION:
        known = ", ".join(map(repr, REGRESSION + CLASSIFICATION))
        raise ValueError(f"`name` must be one of {known}, got {name!r}.")
    folder = data_home if data_home is not None else os.environ.get(DATA_VARIABLE)
    kind = "uci_regression" if name in REGRESSION else "uci_classification"
    path = Path(folder or ".") / kind / f"{name}.npz"
    if folder is None or not path.is_file():
        raise FileNotFoundError(
            f"No file {str(path)!r}: `data_home`, or the environment variable "
            f"{DATA_VARIABLE}, must name a folder with {kind}/{name}.npz."
        )
    with np.load(path) as arrays:
        return dict(arrays)
