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
    """Covariances are larger than the numbers of a precision, or are no numbers.

    The message says how X or the kernel must be scaled. A search for hyperparameters
    leaves such places.

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
    """A computation does not fit in the memory allowed; raised before any work.

    The message gives the bytes needed, the bytes allowed and the parameters
    that lower the need. As others take memory too, it may also come while tiles are
    computed, with what failed.

    Examples
    --------
    >>> from skconvgp.exceptions import TileMemoryError
    >>> issubclass(TileMemoryError, MemoryError)
    True
    """


class NotFusableError(Exception):
    """A kernel has a part that the fused backends cannot run.

    Not public: with ``backend="auto"`` it is the reason for torch, with
    ``backend="fused"`` it becomes a :class:`ValueError`.
    """


class CompletionError(ValueError):
    """A Gram matrix cannot be completed from the entries that may be evaluated.

    The message gives what came, what is needed and what to change.

    Examples
    --------
    >>> from skconvgp.exceptions import CompletionError
    >>> issubclass(CompletionError, ValueError)
    True
    """


class ImageShapeWarning(UserWarning):
    """A flat row was read as a square image because `image_shape` is "auto".

    Set `image_shape=(c, h, w)` to confirm the shape, or `image_shape=None` to
    read each row as a plain vector; both silence the warning. Also where the shape of
    images looks like one with channels last, (h, w, c). A process warns once of
    a shape, however often a search fits it; so does each worker process of joblib.

    Examples
    --------
    >>> from skconvgp.exceptions import ImageShapeWarning
    >>> issubclass(ImageShapeWarning, UserWarning)
    True
    """


class JitterWarning(UserWarning):
    """More was added to the diagonal of a Gram matrix than its noise.

    In finite precision the matrix was not positive definite with the noise asked for,
    or the noise that was chosen. The model that was fitted is one of more noise. Raise
    `noise_variance`, or compute in float64.

    Examples
    --------
    >>> from skconvgp.exceptions import JitterWarning
    >>> issubclass(JitterWarning, UserWarning)
    True
    """


class ScaleWarning(UserWarning):
    """Samples to predict are far larger, or far smaller, than all samples of `fit`.

    Mostly pixels were divided by 255 in one place and not in the other.

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
