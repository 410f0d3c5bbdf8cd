"""Whether Markov chains have forgotten where they began."""

import numpy as np
from numpy.typing import ArrayLike

from skconvgp._ambient import public
from skconvgp._typing import FloatArray
from skconvgp.engine import host_numbers

__all__ = ["split_rhat"]

LEAST_LENGTH = 4


@public
def split_rhat(draws: ArrayLike) -> FloatArray:
    r"""Return the potential scale reduction of chains, each split into two halves.

    It is the square root of the ratio of two estimates of the variance: from all
    halves, and from within them. It is 1 if all halves agree.

    Parameters
    ----------
    draws : array-like of shape (n_chains, n_draws, ...)
        Draws of quantities, in the order of each chain; at least 4 of each.

    Returns
    -------
    rhat : ndarray of shape (...)
        Values; NaN for a quantity that is constant.

    Raises
    ------
    ValueError
        If a chain has fewer than 4 draws.

    References
    ----------
    Gelman, Carlin, Stern, Dunson, Vehtari and Rubin, "Bayesian data analysis", 2013,
    section 11.4.

    Examples
    --------
    >>> import numpy as np
    >>> from skconvgp.metrics import split_rhat
    >>> draws = np.random.default_rng(0).normal(size=(4, 1000))
    >>> bool(abs(split_rhat(draws) - 1.0) < 0.01)
    True
    >>> bool(split_rhat(draws + np.arange(4.0)[:, None]) > 1.5)
    True
    """
    values = host_numbers(draws, "draws")
    half = values.shape[1] // 2 if values.ndim > 1 else 0
    if 2 * half < LEAST_LENGTH:
        raise ValueError(
            f"`draws` must have shape (n_chains, n_draws, ...) with {LEAST_LENGTH} "
            f"draws or more, got shape {values.shape!r}."
        )
    halves = np.concatenate([values[:, :half], values[:, -half:]])
    within = halves.var(axis=1, ddof=1).mean(axis=0)
    between = halves.mean(axis=1).var(axis=0, ddof=1)
    ratio = np.full_like(within, np.nan)
    np.divide(between, within, out=ratio, where=within > 0.0)
    rhat: FloatArray = np.sqrt((half - 1.0) / half + ratio)
    return rhat
