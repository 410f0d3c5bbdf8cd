"""Errors and warnings of skconvgp."""

import numpy as np

__all__ = [
    "CompletionError",
    "ImageShapeWarning",
    "JitterWarning",
    "NotFiniteError",
    "NotPSDError",
    "ScaleWarning",
    "TileMemoryError",
    "VersionMismatchWarning",
]


class NotFiniteError(ValueError):
    """Covariances are infinite or NaN, mostly because they overflow the precision.

    The message says how to scale X or the kernel. A search for hyperparameters treats
    the objective as undefined there and continues with other hyperparameters.

    Examples
    --------
    >>> from skconvgp.exceptions import NotFiniteError
    >>> issubclass(NotFiniteError, ValueError)
    True
    """


class NotPSDError(np.linalg.LinAlgError):
    """A Gram matrix is not positive definite, even with the largest jitter.

    The message names the smallest eigenvalue and what to change. It is a
    :class:`numpy.linalg.LinAlgError`, hence also a :class:`ValueError`.

    Examples
    --------
    >>> from skconvgp.exceptions import NotPSDError
    >>> issubclass(NotPSDError, ValueError)
    True
    """


class TileMemoryError(MemoryError):
    """A computation does not fit in the allowed memory; raised before any work.

    The message gives the bytes needed, the bytes allowed and the parameters
    that lower the need. If other programs take the memory meanwhile, the error may also
    be raised while tiles are computed; it then quotes the error of the allocation.

    Examples
    --------
    >>> from skconvgp.exceptions import TileMemoryError
    >>> issubclass(TileMemoryError, MemoryError)
    True
    """


class NotFusableError(Exception):
    """A kernel has a part that the fused backends cannot run.

    Not public: with ``backend="auto"`` it is the reason to compute with torch, and with
    ``backend="fused"`` it becomes a :class:`ValueError`.
    """


class CompletionError(ValueError):
    """A Gram matrix cannot be completed from the entries that may be evaluated.

    The message gives the value, the requirement that it fails, and the remedy.

    Examples
    --------
    >>> from skconvgp.exceptions import CompletionError
    >>> issubclass(CompletionError, ValueError)
    True
    """


class ImageShapeWarning(UserWarning):
    """A flat row was read as a square image because `image_shape` is "auto".

    Set `image_shape=(c, h, w)` to confirm the shape, or `image_shape=None` to
    read each row as a plain vector; both silence the warning. It also warns if a
    setting for rows looks like (h, w, c), with channels last. A shape is warned of once
    in each Python process, workers of joblib included, however often it is fitted.

    Examples
    --------
    >>> from skconvgp.exceptions import ImageShapeWarning
    >>> issubclass(ImageShapeWarning, UserWarning)
    True
    """


class JitterWarning(UserWarning):
    """Jitter was added to the diagonal of a Gram matrix, on top of the noise variance.

    In finite precision, the matrix with the given or chosen noise variance was not
    positive definite. The fitted model therefore has more noise than that. Raise
    `noise_variance`, or compute in float64.

    Examples
    --------
    >>> from skconvgp.exceptions import JitterWarning
    >>> issubclass(JitterWarning, UserWarning)
    True
    """


class ScaleWarning(UserWarning):
    """Samples to predict are far larger, or far smaller, than all samples of `fit`.

    Mostly the pixels were divided by 255 for one of the two calls and not for the
    other. `fit` of a Bayesian network also warns if X is far from numbers near 1, and
    every `fit` if sample weights are so small that all samples together count as few,
    or if all samples are the same, or unrelated, to a kernel: its lengthscale is far
    from their distances, or their numbers are far below the variance of a bias.

    Examples
    --------
    >>> from skconvgp.exceptions import ScaleWarning
    >>> issubclass(ScaleWarning, UserWarning)
    True
    """


class VersionMismatchWarning(UserWarning):
    """A pickled estimator was written by another version of skconvgp.

    Examples
    --------
    >>> from skconvgp.exceptions import VersionMismatchWarning
    >>> issubclass(VersionMismatchWarning, UserWarning)
    True
    """
