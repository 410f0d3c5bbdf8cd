"""The engine on its own, `gram_matrix` and `gram_diag`: numpy at the door."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_array
from torch import Tensor

from skconvgp._config import ComputeConfig
from skconvgp._protocols import TileRunner
from skconvgp._typing import FloatArray, ImageShape
from skconvgp.backends import ReferenceBackend, TangentBackend
from skconvgp.engine import KernelOracle, require_memory
from skconvgp.estimators._parallel import make_runner
from skconvgp.estimators._progress import ProgressLine
from skconvgp.estimators._resolve import (
    device_exists,
    resolve_device,
    resolve_dtype,
    resolve_memory_budget,
)
from skconvgp.estimators._validation import (
    images_to_rows,
    kernel_shape,
    resolve_image_shape,
    rows_to_images,
    to_numpy,
    warn_of_guess,
)
from skconvgp.kernels import Kernel

__all__ = ["gram_diag", "gram_matrix", "gram_with_gradient"]

OWNER = "gram_matrix"  # of settings, in messages


def gram_matrix(
    kernel: Kernel,
    X: Any,
    Y: Any = None,
    *,
    out: NDArray[Any] | None = None,
    image_shape: object = "auto",
    device: object = "auto",
    dtype: object = "auto",
    memory_budget: object = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> NDArray[Any]:
    """Return the covariances of all pairs of samples.

    Parameters
    ----------
    kernel : Kernel
        Covariance function, from :mod:`skconvgp.kernels`.
    X : array-like of shape (n1, d), (n1, h, w) or (n1, c, h, w)
        Images or vectors.
    Y : array-like of shape (n2, d), (n2, h, w) or (n2, c, h, w), default=None
        Images or vectors of the same size; None is X, and then only one triangle is
        computed and the matrix is exactly symmetric.
    out : ndarray of shape (n1, n2), default=None
        Where to write the matrix, a memory map for example.
    image_shape : "auto", None, (h, w) or (c, h, w), default="auto"
        How a flat row becomes an image; "auto" reads rows of s * s or 3 * s * s values
        with s >= 8 as square images, None reads rows as vectors.
    device : str, default="auto"
        "auto" takes a GPU if there is one; or "cpu", "cuda", "cuda:1".
    dtype : "auto", "float32" or "float64", default="auto"
        Precision of the covariance maps and of the result; "auto" is float64 on the
        CPU, float32 on a GPU.
    memory_budget : None, int or str, default=None
        Bytes (or "2 GiB") that may be held beside X, Y and the matrix; None is half
        of what is free.
    n_jobs : int, default=None
        None computes on as many threads of this process as torch uses; k jobs go
        through joblib and share the cores.
    verbose : int, default=0
        1 shows progress on stderr.

    Returns
    -------
    gram : ndarray of shape (n1, n2)
        The covariances; `out` if it was given.

    Raises
    ------
    ValueError
        If the kernel cannot take samples of this shape, or a setting is wrong.
    TileMemoryError
        Before any work, if the matrix or a single tile does not fit in memory.

    See Also
    --------
    gram_diag : The prior variances alone.
    as_sklearn_kernel : The kernel inside scikit-learn's own estimators.

    Examples
    --------
    >>> from skconvgp import gram_matrix
    >>> from skconvgp.datasets import load_digits_images
    >>> from skconvgp.kernels import convnet
    >>> X, y = load_digits_images(return_X_y=True)
    >>> gram_matrix(convnet(depth=2, kernel_size=3), X[:5]).shape
    (5, 5)
    """
    rows, given = _rows(X)
    shape = _shape(kernel, image_shape, rows.shape[1], given)
    others = None if Y is None else _matching_rows(Y, rows.shape[1], shape)
    n_cols = len(rows) if others is None else len(others)
    buffer = None if out is None else _buffer(out, (len(rows), n_cols))
    n_values = len(rows) * n_cols if out is None else 0
    config, runner = _compute(device, dtype, memory_budget, n_jobs, n_values)
    progress = ProgressLine("gram", verbose)
    images = rows_to_images(rows, kernel_shape(kernel, shape))
    backend = ReferenceBackend(kernel)
    if others is None:
        oracle = KernelOracle(backend, images, config, runner, progress)
        oracle.diag()  # overflow is found here, before any tile
        gram = oracle.gram(buffer)
    else:
        columns = rows_to_images(others, kernel_shape(kernel, shape))
        for side in (images, columns):
            KernelOracle(backend, side, config).diag()
        oracle = KernelOracle(backend, columns, config, runner, progress)
        gram = oracle.cross(images, buffer)
    return out if out is not None else to_numpy(gram)


def gram_diag(
    kernel: Kernel,
    X: Any,
    *,
    image_shape: object = "auto",
    device: object = "auto",
    dtype: object = "auto",
) -> FloatArray:
    """Return the prior variance k(x, x) of each sample.

    Parameters
    ----------
    kernel : Kernel
        Covariance function, from :mod:`skconvgp.kernels`.
    X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
        Images or vectors.
    image_shape : "auto", None, (h, w) or (c, h, w), default="auto"
        How a flat row becomes an image, as in :func:`gram_matrix`.
    device : str, default="auto"
        "auto" takes a GPU if there is one.
    dtype : "auto", "float32" or "float64", default="auto"
        Precision of the variance maps.

    Returns
    -------
    diag : ndarray of shape (n,)
        The diagonal of ``gram_matrix(kernel, X)``.

    Raises
    ------
    ValueError
        If the kernel cannot take samples of this shape, or a variance overflows.

    Examples
    --------
    >>> from skconvgp import gram_diag
    >>> from skconvgp.kernels import dot_product
    >>> gram_diag(dot_product(), [[1.0], [2.0]])
    array([2., 5.])
    """
    config, runner = _compute(device, dtype, None, None, 0)
    rows, given = _rows(X)
    shape = _shape(kernel, image_shape, rows.shape[1], given)
    images = rows_to_images(rows, kernel_shape(kernel, shape))
    return to_numpy(
        KernelOracle(ReferenceBackend(kernel), images, config, runner).diag()
    )


def gram_with_gradient(
    kernel: Kernel, X: Any, image_shape: object
) -> tuple[FloatArray, FloatArray]:
    """Return the Gram matrix (n, n) and its derivatives (n, n, p) by `theta`."""
    rows, given = _rows(X)
    shape = _shape(kernel, image_shape, rows.shape[1], given)
    images = rows_to_images(rows, kernel_shape(kernel, shape))
    n_values = len(rows) ** 2 * (1 + len(kernel.theta))
    config, _ = _compute("auto", "float64", None, None, n_values)
    both = KernelOracle(TangentBackend(kernel), images, config).gram()
    values = to_numpy(both)
    return values[:, :, 0], values[:, :, 1:]


def _compute(
    device: object,
    dtype: object,
    memory_budget: object,
    n_jobs: int | None,
    n_values: int,
) -> tuple[ComputeConfig, TileRunner]:
    place = resolve_device(OWNER, device)
    if not device_exists(place):
        raise ValueError(
            f"device={device!r} was asked for and is not on this machine; use "
            "device='auto' or 'cpu'."
        )
    runner, n_workers = make_runner(n_jobs, place)
    precision = resolve_dtype(OWNER, dtype, place)
    reserved = n_values * precision.itemsize
    if reserved:
        remedy = "pass a memory map as `out`, use fewer samples, or dtype='float32'."
        require_memory(reserved, place, f"A result of {n_values} covariances", remedy)
    budget = resolve_memory_budget(OWNER, memory_budget, place, reserved)
    return ComputeConfig(place, precision, precision, budget, n_workers), runner


def _rows(X: Any) -> tuple[NDArray[Any], ImageShape | None]:
    rows, given = images_to_rows(X)
    return check_array(rows, dtype=[np.float64, np.float32], input_name="X"), given


def _shape(
    kernel: object, image_shape: object, n_features: int, given: ImageShape | None
) -> ImageShape:
    if not isinstance(kernel, Kernel):
        raise ValueError(  # noqa: TRY004  (as for the estimators)
            f"`kernel` must be a kernel of skconvgp.kernels, got {kernel!r}."
        )
    shape, is_guess = resolve_image_shape(
        image_shape, n_features, given, is_spatial=kernel.is_spatial
    )
    if is_guess:
        warn_of_guess(shape, stacklevel=4)
    kernel.check(kernel_shape(kernel, shape))
    return shape


def _matching_rows(Y: Any, n_features: int, shape: ImageShape) -> NDArray[Any]:
    rows, given = images_to_rows(Y)
    rows = check_array(rows, dtype=[np.float64, np.float32], input_name="Y")
    is_row = shape == (n_features, 1, 1)
    if rows.shape[1] != n_features or not (is_row or given in (None, shape)):
        raise ValueError(
            f"X and Y must have samples of one shape: Y has {rows.shape[1]} values a "
            f"sample, of shape {given!r}; X has {n_features}, read as {shape!r}."
        )
    return rows  # type: ignore[no-any-return]


def _buffer(out: Any, shape: tuple[int, int]) -> Tensor:
    """Return `out` as a tensor that shares its memory."""
    is_array = isinstance(out, np.ndarray)
    what = f"{out.dtype} of shape {out.shape!r}" if is_array else repr(type(out))
    if not is_array or out.dtype.char not in "fd" or not out.dtype.isnative:
        raise ValueError(
            f"`out` must be an array of native float32 or float64, got {what}."
        )
    if out.shape != shape:
        raise ValueError(
            f"`out` must be a float32 or float64 array of shape {shape!r}, got {what}."
        )
    if not out.flags.writeable or min(out.strides) < 0:
        raise ValueError(
            "`out` must be writeable and not reversed: open a memory map with "
            "mode='r+' or 'w+', or pass a fresh array."
        )
    return torch.from_numpy(out)
