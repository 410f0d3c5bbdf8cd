"""Data sets that are computed: a curve in one dimension, a spiral in two."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from skconvgp._typing import FloatArray

__all__ = ["make_swissroll_cheesecake", "make_three_bumps"]

TURNS = 1.5  # of the spiral
START = np.pi / 2.0  # angle at which it begins


def make_three_bumps(
    n_samples: int = 80, *, noise: float = 0.0, random_state: Any = None
) -> tuple[FloatArray, FloatArray]:
    r"""Return a curve of three frequencies on a regular grid.

    It is :math:`y = \sin 2x + 3 \sin 3x + 2 \sin 4x` on :math:`[-\pi, \pi]`: steep in
    the middle, and nearly flat at both ends.

    Parameters
    ----------
    n_samples : int, default=80
        Points of the grid, both ends included.
    noise : float, default=0.0
        Deviation of the Gaussian noise in y.
    random_state : int, RandomState instance or None, default=None
        Draws the noise.

    Returns
    -------
    X : ndarray of shape (n_samples, 1)
        The grid.
    y : ndarray of shape (n_samples,)
        The curve.

    References
    ----------
    Bin Khalid, 2022, chapter 4, with 80 points for training and 200 for testing.

    Examples
    --------
    >>> from skconvgp.datasets import make_three_bumps
    >>> X, y = make_three_bumps(80)
    >>> X.shape, f"{X[0, 0]:.4f} to {X[-1, 0]:.4f}"
    ((80, 1), '-3.1416 to 3.1416')
    """
    x = np.linspace(-np.pi, np.pi, n_samples)
    y = np.sin(2.0 * x) + 3.0 * np.sin(3.0 * x) + 2.0 * np.sin(4.0 * x)
    if noise:
        y = y + noise * check_random_state(random_state).normal(size=n_samples)
    return x[:, None], y


def make_swissroll_cheesecake(
    n_samples: int = 120, *, noise: float = 0.0, random_state: Any = None
) -> tuple[FloatArray, NDArray[np.int64]]:
    r"""Return two classes rolled up in a spiral, one beside the other.

    A point of class c has the polar coordinates :math:`t` and
    :math:`(t + \pi c) / (2 \pi)` with t spread evenly over one and a half turns:
    neighbouring layers of the roll are half a unit apart and of different classes.

    Parameters
    ----------
    n_samples : int, default=120
        Points, half of them in each class; if the number is odd, class 0 has one more.
    noise : float, default=0.0
        Deviation of the Gaussian noise in both coordinates.
    random_state : int, RandomState instance or None, default=None
        Draws the noise.

    Returns
    -------
    X : ndarray of shape (n_samples, 2)
        The points, class 0 first.
    y : ndarray of shape (n_samples,)
        Labels 0 and 1.

    References
    ----------
    Owhadi and Yoo, "Kernel flows: from learning kernels from data into the abyss",
    2019; Bin Khalid, 2022, chapter 4.

    Examples
    --------
    >>> from skconvgp.datasets import make_swissroll_cheesecake
    >>> X, y = make_swissroll_cheesecake(120)
    >>> X.shape, y.sum().item()
    ((120, 2), 60)
    """
    y = np.repeat([0, 1], [n_samples - n_samples // 2, n_samples // 2])
    t = np.concatenate(
        [START + 2.0 * np.pi * TURNS * np.linspace(0.0, 1.0, n) for n in np.bincount(y)]
    )
    radius = (t + np.pi * y) / (2.0 * np.pi)
    X = radius[:, None] * np.column_stack([np.cos(t), np.sin(t)])
    if noise:
        X = X + noise * check_random_state(random_state).normal(size=X.shape)
    return X, y
