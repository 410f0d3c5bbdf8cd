"""Images as float32 arrays (n, c, h, w) in [0, 1]."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import fetch_openml, load_digits
from sklearn.utils import Bunch

__all__ = ["fetch_cifar10", "fetch_mnist", "load_digits_images"]

DATA_VARIABLE = "SKCONVGP_DATA"
DIGITS_MAX, BYTE_MAX = 16.0, 255.0

Split = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]


@dataclass(frozen=True)
class _Source:
    """Where a set is: a local file, or OpenML, with its training images first."""

    file: str
    openml: str
    n_train: int
    shape: tuple[int, int, int]


MNIST = _Source("mnist.npz", "mnist_784", 60_000, (1, 28, 28))
CIFAR10 = _Source("cifar10.npz", "CIFAR_10", 50_000, (3, 32, 32))


def load_digits_images(*, return_X_y: bool = False) -> Any:  # noqa: N803
    """Load scikit-learn's handwritten digits as images; nothing is downloaded.

    Parameters
    ----------
    return_X_y : bool, default=False
        Whether to return ``(X, y)`` instead of a bunch.

    Returns
    -------
    data : Bunch
        ``data``, float32 images of shape (1797, 1, 8, 8) in [0, 1]; ``target``, labels
        0 to 9 of shape (1797,).

    References
    ----------
    Alpaydin and Kaynak, "Optical recognition of handwritten digits", UCI, 1998.

    Examples
    --------
    >>> from skconvgp.datasets import load_digits_images
    >>> X, y = load_digits_images(return_X_y=True)
    >>> X.shape
    (1797, 1, 8, 8)
    """
    digits = load_digits()
    images = (digits.images[:, None] / DIGITS_MAX).astype(np.float32)
    if return_X_y:
        return images, digits.target
    return Bunch(data=images, target=digits.target, DESCR=digits.DESCR)


def fetch_mnist(
    *,
    n_train: int | None = None,
    n_test: int | None = None,
    data_home: str | os.PathLike[str] | None = None,
) -> Split:
    """Load MNIST: from a local ``mnist.npz``, else from OpenML.

    Parameters
    ----------
    n_train, n_test : int, default=None
        Keep only the first so many images of each part.
    data_home : path, default=None
        Folder with ``mnist.npz`` (arrays ``x_train``, ``y_train``, ``x_test``,
        ``y_test`` of bytes). None is the folder that the environment variable
        ``SKCONVGP_DATA`` names; without it, scikit-learn downloads and caches the set.

    Returns
    -------
    X_train, y_train, X_test, y_test : ndarray
        Float32 images (n, 1, 28, 28) in [0, 1] and integer labels (n,), in the
        original order; 60 000 and 10 000 unless cut.

    Raises
    ------
    FileNotFoundError
        If the folder holds no ``mnist.npz``.

    References
    ----------
    LeCun, Bottou, Bengio and Haffner, "Gradient-based learning applied to document
    recognition", 1998.

    Examples
    --------
    >>> from skconvgp.datasets import fetch_mnist
    >>> X_train, y_train, X_test, y_test = fetch_mnist()  # doctest: +SKIP
    """
    return _fetch(MNIST, n_train, n_test, data_home)


def fetch_cifar10(
    *,
    n_train: int | None = None,
    n_test: int | None = None,
    data_home: str | os.PathLike[str] | None = None,
) -> Split:
    """Load CIFAR-10: from a local ``cifar10.npz``, else from OpenML.

    Parameters
    ----------
    n_train, n_test : int, default=None
        Keep only the first so many images of each part.
    data_home : path, default=None
        Folder with ``cifar10.npz`` (arrays ``x_train``, ``y_train``, ``x_test``,
        ``y_test`` of bytes). None is the folder that the environment variable
        ``SKCONVGP_DATA`` names; without it, scikit-learn downloads and caches the set.

    Returns
    -------
    X_train, y_train, X_test, y_test : ndarray
        Float32 images (n, 3, 32, 32) in [0, 1], red, green, blue, and integer labels
        (n,), in the original order; 50 000 and 10 000 unless cut. A local file may
        hold fewer training images: then they are fewer here too.

    Raises
    ------
    FileNotFoundError
        If the folder holds no ``cifar10.npz``.

    References
    ----------
    Krizhevsky, "Learning multiple layers of features from tiny images", 2009.

    Examples
    --------
    >>> from skconvgp.datasets import fetch_cifar10
    >>> X_train, y_train, X_test, y_test = fetch_cifar10()  # doctest: +SKIP
    """
    return _fetch(CIFAR10, n_train, n_test, data_home)


def _fetch(
    source: _Source,
    n_train: int | None,
    n_test: int | None,
    data_home: str | os.PathLike[str] | None,
) -> Split:
    folder = data_home if data_home is not None else os.environ.get(DATA_VARIABLE)
    if folder is None:
        parts = _from_openml(source)
    else:
        parts = _from_file(Path(folder) / source.file)
    x_train, y_train, x_test, y_test = parts
    return (
        _as_images(x_train[:n_train], source.shape),
        y_train[:n_train].astype(np.int64),
        _as_images(x_test[:n_test], source.shape),
        y_test[:n_test].astype(np.int64),
    )


def _from_file(path: Path) -> list[NDArray[Any]]:
    if not path.is_file():
        raise FileNotFoundError(
            f"No file {str(path)!r}: `data_home`, or the environment variable "
            f"{DATA_VARIABLE}, must name a folder with {path.name}; leave both out "
            "to download the set from OpenML."
        )
    with np.load(path) as arrays:
        return [arrays[f"{kind}_{part}"] for part in ("train", "test") for kind in "xy"]


def _from_openml(source: _Source) -> list[NDArray[Any]]:
    bunch = fetch_openml(source.openml, version=1, as_frame=False)
    x, y, cut = bunch.data, bunch.target, source.n_train
    return [x[:cut], y[:cut], x[cut:], y[cut:]]


def _as_images(x: NDArray[Any], shape: tuple[int, int, int]) -> NDArray[Any]:
    images = x.reshape(-1, *shape).astype(np.float32)
    images /= BYTE_MAX
    return images
