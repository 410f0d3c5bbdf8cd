"""Distances of covariances."""

import numpy as np
import torch
from numpy.typing import ArrayLike

from skconvgp._ambient import public
from skconvgp.engine import host_numbers
from skconvgp.linalg import gaussian_transport

__all__ = ["gaussian_wasserstein"]


@public
def gaussian_wasserstein(cov1: ArrayLike, cov2: ArrayLike) -> float:
    r"""Return the Wasserstein distance W2 of two Gaussian distributions of mean 0.

    .. math:: W_2^2 = \mathrm{tr} A + \mathrm{tr} B
              - 2 \, \mathrm{tr} (A^{1/2} B A^{1/2})^{1/2}

    Parameters
    ----------
    cov1, cov2 : array-like of shape (n, n)
        Their covariances A and B, for example two priors at the same n points.

    Returns
    -------
    distance : float
        The distance, >= 0, in the units of the variables. For singular covariances
        distances up to 1e-7 of the deviations are rounding errors.

    Raises
    ------
    ValueError
        Unless both are square matrices of the same size.

    References
    ----------
    Tran, Rossi, Milios and Filippone, "All you need is a good functional prior for
    Bayesian deep learning", 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from skconvgp.metrics import gaussian_wasserstein
    >>> f"{gaussian_wasserstein(np.eye(4), 9.0 * np.eye(4)):.6f}"
    '4.000000'
    """
    first, second = host_numbers(cov1, "cov1"), host_numbers(cov2, "cov2")
    if first.ndim != 2 or not first.shape == second.shape == first.T.shape:
        raise ValueError(
            f"`cov1` and `cov2` must be square matrices of the same size, got shapes "
            f"{first.shape!r} and {second.shape!r}."
        )
    square, _ = gaussian_transport(torch.from_numpy(first), torch.from_numpy(second))
    return float(np.sqrt(square))
