"""Data sets that are computed: curves, a spiral, and images of rectangles."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skconvgp._settings import is_int
from skconvgp._typing import FloatArray
from skconvgp.datasets._counts import require_int
from skconvgp.estimators._validation import random_source

__all__ = [
    "make_doppler",
    "make_rectangles",
    "make_swissroll_cheesecake",
    "make_three_bumps",
]

TURNS = 1.5  # of the spiral
START = np.pi / 2.0  # angle at which it begins
# Of rectangles: the shortest side, and the least difference between the sides.
SHORTEST, DIFFERENCE = 4, 3


def make_doppler(
    n_samples: int = 400, *, noise: float = 0.1, random_state: Any = None
) -> tuple[FloatArray, FloatArray]:
    r"""Return a curve whose frequency grows without bound towards zero.

    It is :math:`y = \sqrt{x (1 - x)} \sin(2.1 \pi / (x + 0.05))` on the grid
    :math:`x_i = i / n` of :math:`(0, 1]`: no single lengthscale suits it.

    Parameters
    ----------
    n_samples : int, default=400
        Points n of the grid.
    noise : float, default=0.1
        Deviation of the Gaussian noise in y. The curve itself has a deviation of 0.29.
    random_state : int, RandomState instance or None, default=None
        Draws the noise.

    Returns
    -------
    X : ndarray of shape (n_samples, 1)
        The grid.
    y : ndarray of shape (n_samples,)
        The curve, with noise.

    References
    ----------
    Donoho and Johnstone, "Ideal spatial adaptation by wavelet shrinkage", 1994;
    Kozyrskiy, PhD thesis, 2023, chapter 5, with 100, 200 and 400 points.

    Examples
    --------
    >>> from skconvgp.datasets import make_doppler
    >>> X, y = make_doppler(400, random_state=0)
    >>> curve = make_doppler(400, noise=0.0)[1]
    >>> X.shape, f"{curve.std():.2f}"
    ((400, 1), '0.29')
    """
    require_int("n_samples", n_samples, 1)
    x = np.arange(1, n_samples + 1) / n_samples
    y = np.sqrt(x * (1.0 - x)) * np.sin(2.1 * np.pi / (x + 0.05))
    if noise:
        y = y + noise * random_source(random_state).normal(size=n_samples)
    return x[:, None], y


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
    require_int("n_samples", n_samples, 1)
    x = np.linspace(-np.pi, np.pi, n_samples)
    y = np.sin(2.0 * x) + 3.0 * np.sin(3.0 * x) + 2.0 * np.sin(4.0 * x)
    if noise:
        y = y + noise * random_source(random_state).normal(size=n_samples)
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
    require_int("n_samples", n_samples, 1)
    y = np.repeat([0, 1], [n_samples - n_samples // 2, n_samples // 2])
    t = np.concatenate(
        [START + 2.0 * np.pi * TURNS * np.linspace(0.0, 1.0, n) for n in np.bincount(y)]
    )
    radius = (t + np.pi * y) / (2.0 * np.pi)
    X = radius[:, None] * np.column_stack([np.cos(t), np.sin(t)])
    if noise:
        X = X + noise * random_source(random_state).normal(size=X.shape)
    return X, y


def make_rectangles(
    n_samples: int = 1200, *, side: int = 28, random_state: Any = None
) -> tuple[FloatArray, NDArray[np.int64]]:
    r"""Return images of the outlines of rectangles, which are tall or wide.

    The outline is one pixel wide and has the value 1, all else is 0. Height and width
    are drawn uniformly from 4 to `side` pixels until they differ by at least 3, then
    the place of the rectangle in the image.

    Parameters
    ----------
    n_samples : int, default=1200
        Number of images.
    side : int, default=28
        Height and width of the images in pixels, at least 7.
    random_state : int, RandomState instance or None, default=None
        Draws the rectangles.

    Returns
    -------
    X : ndarray of shape (n_samples, 1, side, side)
        The images.
    y : ndarray of shape (n_samples,)
        1 if the rectangle is taller than wide, 0 if it is wider than tall.

    Raises
    ------
    ValueError
        If no rectangle of different sides fits into the image.

    References
    ----------
    Larochelle, Erhan, Courville, Bergstra and Bengio, "An empirical evaluation of deep
    architectures on problems with many factors of variation", 2007; van der Wilk,
    Rasmussen and Hensman, "Convolutional Gaussian processes", 2017, section 4.1, with
    1200 images for training.

    Examples
    --------
    >>> from skconvgp.datasets import make_rectangles
    >>> X, y = make_rectangles(1200, random_state=0)
    >>> X.shape, sorted(set(y.tolist()))
    ((1200, 1, 28, 28), [0, 1])
    """
    require_int("n_samples", n_samples, 1)
    least = SHORTEST + DIFFERENCE
    if not is_int(side, least):
        raise ValueError(
            f"`side` must be an int of at least {least} pixels, for rectangles of "
            f"{SHORTEST} x {least}, got {side!r}."
        )
    random_state = random_source(random_state)
    X = np.zeros((n_samples, 1, side, side))
    y = np.empty(n_samples, dtype=np.int64)
    for i in range(n_samples):
        height = width = 0
        while abs(height - width) < DIFFERENCE:
            height, width = random_state.randint(SHORTEST, side + 1, size=2)
        top, left = (
            random_state.randint(side - height + 1),
            random_state.randint(side - width + 1),
        )
        X[i, 0, top : top + height, left : left + width] = 1.0
        X[i, 0, top + 1 : top + height - 1, left + 1 : left + width - 1] = 0.0
        y[i] = height > width
    return X, y
