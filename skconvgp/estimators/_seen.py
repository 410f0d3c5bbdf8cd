"""The Gram matrix of samples as a fitted process sees them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skconvgp._typing import FloatArray
from skconvgp.estimators._gram import gram_matrix
from skconvgp.estimators._place import Place, compute_at
from skconvgp.estimators._validation import to_numpy
from skconvgp.kernels import Kernel

__all__ = ["gram_as_seen"]


def gram_as_seen(gp: Any, rows: NDArray[Any], dtype: str | None = None) -> FloatArray:
    """Return prior covariances of samples, in units of their own.

    Parameters
    ----------
    gp : object
        Fitted process.
    rows : ndarray of shape (n, d)
        Samples; the Gram matrix (n, n) itself if precomputed.
    dtype : str, optional
        Precision of tiles; by default that of the fit. Sums of kernels have theirs.

    Returns
    -------
    gram : ndarray of shape (n, n)
        Of pooled images, and of a sum of kernels, where the process has such.
    """
    if not isinstance(gp.kernel_, Kernel):
        return np.asarray(rows)
    if getattr(gp, "_exact_part", None) is not None:

        def evaluate(place: Place) -> FloatArray:
            work = gp._work(place, is_fitting=False)
            return to_numpy(gp._prior_covariance(rows, work))

        return compute_at(gp._place(is_fitting=False, needed=0), evaluate)
    images = to_numpy(gp._images(rows, gp.kernel_))
    settings = {name: getattr(gp, name) for name in ("device", "backend", "n_jobs")}
    settings |= {"dtype": dtype or gp.dtype_, "memory_budget": gp.memory_budget}
    return gram_matrix(gp.kernel_, images, **settings)
