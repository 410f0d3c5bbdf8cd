"""Images as float32 arrays (n, c, h, w) in [0, 1]."""

import os
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import fetch_openml, load_digits

from skconvgp.datasets._counts import require_int
from skconvgp.datasets._files import (
    as_answer,
    find_file,
    find_parts,
    read_arrays,
    require_pairs,
)

__all__ = ["fetch_cifar10", "fetch_mnist", "load_digits_images"]

DIGITS_MAX, BYTE_MAX = 16.0, 255.0

Pairs = tuple[NDArray[Any], NDArray[Any]]


@dataclass(frozen=True)
class _Source:
    """Sources of a data set: a local file, or OpenML with the training images first."""

    file: str
    openml: str
    n_train: int
    shape: tuple[int, int, int]
    description: str

    @property
    def stored_shapes(self) -> list[tuple[int, ...]]:
        """Shapes that an image may have in a file."""
        shapes: list[tuple[int, ...]] = [self.shape, (prod(self.shape),)]
        return [self.shape[1:], *shapes] if self.shape[0] == 1 else shapes


MNIST = _Source(
    "mnist.npz",
    "mnist_784",
    60_000,
    (1, 28, 28),
    "MNIST: handwritten digits, 28x28 pixels, 60 000 for training and 10 000 for "
    "tests. LeCun, Bottou, Bengio and Haffner, 1998.",
)
CIFAR10 = _Source(
    "cifar10.npz",
    "CIFAR_10",
    50_000,
    (3, 32, 32),
    "CIFAR-10: photographs of airplanes, automobiles, birds, cats, deer, dogs, frogs, "
    "horses, ships and trucks, labelled 0 to 9 in this order, 32x32 pixels of red, "
    "green and blue, 50 000 for training and 10 000 for tests. Krizhevsky, 2009.",
)


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
        0 to 9 of shape (1797,); ``DESCR``, a description.

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
    return as_answer(images, digits.target, digits.DESCR, return_X_y)


def fetch_mnist(
    *,
    subset: str = "train",
    n_samples: int | None = None,
    data_home: str | os.PathLike[str] | None = None,
    return_X_y: bool = False,  # noqa: N803
) -> Any:
    """Load MNIST from a local ``mnist.npz`` or from OpenML.

    Parameters
    ----------
    subset : {"train", "test", "all"}, default="train"
        The 60 000 images for training, the 10 000 for tests, or all, those for
        training first.
    n_samples : int, default=None
        Number of images to keep, from the first on; None keeps all.
    data_home : path, default=None
        Folder with ``mnist.npz``: arrays ``x_train`` and ``x_test`` of bytes, of shape
        (n, 28, 28), and ``y_train`` and ``y_test`` of integers. None is the folder
        that the environment variable ``SKCONVGP_DATA`` names; without it, scikit-learn
        downloads and caches the set.
    return_X_y : bool, default=False
        Whether to return ``(X, y)`` instead of a bunch.

    Returns
    -------
    data : Bunch
        ``data``, float32 images of shape (n, 1, 28, 28) in [0, 1]; ``target``, integer
        labels 0 to 9 of shape (n,), both in the original order; ``DESCR``, a
        description.

    Raises
    ------
    FileNotFoundError
        If the folder holds no ``mnist.npz``.
    ValueError
        If the file is empty or damaged, if an array of it is missing or has another
        shape or type, or if `n_samples` is no int >= 1.

    References
    ----------
    LeCun, Bottou, Bengio and Haffner, "Gradient-based learning applied to document
    recognition", 1998.

    Examples
    --------
    >>> from skconvgp.datasets import fetch_mnist
    >>> X, y = fetch_mnist(return_X_y=True)  # doctest: +SKIP
    >>> X_test, y_test = fetch_mnist(subset="test", return_X_y=True)  # doctest: +SKIP
    """
    return _fetch(MNIST, subset, n_samples, data_home, return_X_y)


def fetch_cifar10(
    *,
    subset: str = "train",
    n_samples: int | None = None,
    data_home: str | os.PathLike[str] | None = None,
    return_X_y: bool = False,  # noqa: N803
) -> Any:
    """Load CIFAR-10 from a local ``cifar10.npz`` or from OpenML.

    Parameters
    ----------
    subset : {"train", "test", "all"}, default="train"
        The 50 000 images for training, the 10 000 for tests, or all, those for
        training first. A local file may hold fewer.
    n_samples : int, default=None
        Number of images to keep, from the first on; None keeps all.
    data_home : path, default=None
        Folder with ``cifar10.npz``: arrays ``x_train`` and ``x_test`` of bytes, of
        shape (n, 3, 32, 32), and ``y_train`` and ``y_test`` of integers. None is the
        folder that the environment variable ``SKCONVGP_DATA`` names; without it,
        scikit-learn downloads and caches the set.
    return_X_y : bool, default=False
        Whether to return ``(X, y)`` instead of a bunch.

    Returns
    -------
    data : Bunch
        ``data``, float32 images of shape (n, 3, 32, 32) in [0, 1], red, green, blue;
        ``target``, integer labels 0 to 9 of shape (n,), both in the original order;
        ``DESCR``, a description that names the classes.

    Raises
    ------
    FileNotFoundError
        If the folder holds no ``cifar10.npz``.
    ValueError
        If the file is empty or damaged, if an array of it is missing or has another
        shape or type, or if `n_samples` is no int >= 1.

    References
    ----------
    Krizhevsky, "Learning multiple layers of features from tiny images", 2009.

    Examples
    --------
    >>> from skconvgp.datasets import fetch_cifar10
    >>> X, y = fetch_cifar10(return_X_y=True)  # doctest: +SKIP
    >>> X_test, y_test = fetch_cifar10(subset="test", return_X_y=True)  # doctest: +SKIP
    """
    return _fetch(CIFAR10, subset, n_samples, data_home, return_X_y)


def _fetch(
    source: _Source,
    subset: str,
    n_samples: int | None,
    data_home: str | os.PathLike[str] | None,
    as_pair: bool,
) -> Any:
    names = find_parts(subset)
    if n_samples is not None:
        require_int("n_samples", n_samples, 1, also="None or ")
    otherwise = "; leave both out to download the set from OpenML"
    path = find_file(source.file, data_home, otherwise)
    if path is None:
        parts = _from_openml(source)
    else:
        parts = {name: _from_file(path, source, name) for name in names}
    pixels, labels = (
        np.concatenate([parts[name][i] for name in names])[:n_samples] for i in (0, 1)
    )
    images = pixels.astype(np.float32)
    images /= BYTE_MAX
    return as_answer(images, labels.astype(np.int64), source.description, as_pair)


def _from_file(path: Path, source: _Source, part: str) -> Pairs:
    """Return the bytes (n, c, h, w) and the labels (n,) of a part in a file."""
    arrays = read_arrays(path, [f"x_{part}", f"y_{part}"])
    require_pairs(path, arrays)
    pixels, labels = arrays.values()
    if pixels.shape[1:] not in source.stored_shapes:
        shapes = " or ".join(
            f"(n, {', '.join(map(str, one))})" for one in source.stored_shapes
        )
        raise ValueError(
            f"{str(path)!r}: 'x_{part}' must be of shape {shapes}, "
            f"got {pixels.shape}. Channels come before rows and columns."
        )
    if pixels.dtype != np.uint8 or (pixels.size and pixels.max() <= 1):
        limits = f" from {pixels.min()} to {pixels.max()}" if pixels.size else ""
        raise ValueError(
            f"{str(path)!r}: 'x_{part}' must be bytes (uint8) from 0 to 255, got "
            f"{pixels.dtype}{limits}: multiply pixels in [0, 1] by 255, round them, "
            "and save them as uint8."
        )
    if labels.dtype.kind not in "iu":
        raise ValueError(
            f"{str(path)!r}: 'y_{part}' must be integers, got {labels.dtype}."
        )
    return pixels.reshape(-1, *source.shape), labels


def _from_openml(source: _Source) -> dict[str, Pairs]:
    bunch = fetch_openml(source.openml, version=1, as_frame=False)
    x, y, cut = bunch.data.reshape(-1, *source.shape), bunch.target, source.n_train
    return {"train": (x[:cut], y[:cut]), "test": (x[cut:], y[cut:])}
