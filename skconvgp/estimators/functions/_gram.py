"""`gram_matrix` and `gram_diag`: the engine for numpy arrays."""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._ambient import public
from skconvgp._typing import FloatArray
from skconvgp.backends import BackendChoice
from skconvgp.engine import (
    KernelOracle,
    Placement,
    compute_at,
    to_numpy,
)
from skconvgp.estimators._series import warn_of_series
from skconvgp.estimators.compute._kept_tiles import find_cache, warn_of_unknown
from skconvgp.estimators.compute._progress import progress_of
from skconvgp.estimators.compute._steep import why_double
from skconvgp.estimators.functions._pairs import covariances, read_pairs
from skconvgp.estimators.settings._checks import is_auto
from skconvgp.estimators.settings._compute import Compute
from skconvgp.estimators.settings._types import (
    BackendName,
    Budget,
    CacheFolder,
    Dtype,
    ShapeOfImages,
)
from skconvgp.kernels import Kernel
from skconvgp.processes import COVARIANCES

OWNER = "gram_matrix"  # of settings, in messages
REMEDY = "pass a memory map as `out`, use fewer samples, or dtype='float32'."


@public
def gram_matrix(
    kernel: Kernel,
    X: Any,
    Y: Any = None,
    *,
    out: NDArray[Any] | None = None,
    image_shape: ShapeOfImages = "auto",
    backend: BackendName = "auto",
    device: str = "auto",
    dtype: Dtype = "auto",
    memory_budget: Budget = None,
    n_jobs: int | None = None,
    cache_dir: CacheFolder = None,
    verbose: int = 0,
) -> NDArray[Any]:
    """Return the covariances of all pairs of samples.

    Parameters
    ----------
    kernel : Kernel
        Covariance function, from :mod:`skconvgp.kernels`. Settings such as
        ``lengthscale="median"`` follow from X; with a Y they are an error.
    X : array-like of shape (n1, d), (n1, h, w) or (n1, c, h, w)
        Images or vectors.
    Y : array-like of shape (n2, d), (n2, h, w) or (n2, c, h, w), default=None
        Images or vectors of the same size. None is X: only one triangle is then
        computed, and the matrix is exactly symmetric.
    out : ndarray of shape (n1, n2), default=None
        Array into which the matrix is written, a memory map for example. It must not
        share memory with X or Y.
    image_shape : "auto", None, (h, w) or (c, h, w), default="auto"
        How a flat row becomes an image; "auto" reads rows of s * s or 3 * s * s values
        with s >= 8 as square images, None reads rows as vectors.
    backend : "auto", "torch" or "fused", default="auto"
        Code that computes the covariance maps. "fused" is compiled and runs most
        networks; "torch" runs every kernel. "auto" is "fused" if it can run the kernel.
    device : str, default="auto"
        "cpu", "cuda", "cuda:1" and the like. "auto" uses a GPU if there is one with
        enough free memory, otherwise the CPU.
    dtype : "auto", "float32" or "float64", default="auto"
        Precision of the covariance maps and of the result. "auto" is float64 if torch
        computes on the CPU, if for samples close to each other float32 is wrong by more
        than 1e-5 of the standard deviations, or if its errors exceed 2e-4 of the
        differences between a few samples; otherwise it is float32.
    memory_budget : None, int or str, default=None
        Memory that may be used in addition to X, Y and the matrix, in bytes or as in "2
        GiB". None is half of the free memory.
    n_jobs : int, default=None
        None and 1 compute in this process, on as many threads as torch uses, also with
        the fused backend. More jobs run through joblib, at most one per core if they
        are threads, and share the cores; a job of the fused backend uses one thread. If
        device is "auto" or "cuda" and a GPU is used, the number of GPUs.
    cache_dir : None, str or path, default=None
        Folder in which finished tiles are kept: after an interruption the same call
        continues where it stopped. Tiles take 8 bytes for each distinct pair, and stay
        until they are deleted. See :ref:`cache`.
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
    gram_gradient : Derivatives by the hyperparameters.
    gram_vjp : Derivatives of a weighted sum, by hyperparameters and inputs.
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
    pairs = read_pairs(kernel, X, Y, image_shape)
    kernel, sides = pairs.kernel, pairs.sides
    buffer = None if out is None else _buffer(out, pairs.size, *pairs.rows)
    n_values = math.prod(pairs.size) if out is None else 0
    # Rows of a matrix that are computed one by one have the precision of all of them.
    decisive = max(reversed(sides), key=len)
    compute = Compute.to(
        OWNER,
        device=device,
        backend=backend,
        dtype=dtype,
        memory_budget=memory_budget,
        n_jobs=n_jobs,
        cache_dir=cache_dir,
        verbose=verbose,
    )
    placement = compute.placement_of(n_values)
    progress = progress_of(compute.verbose)(COVARIANCES)
    folder = compute.folder
    warn_of_unknown(folder, kernel)
    warn_of_series(kernel, *sides)

    def evaluate(placement: Placement) -> NDArray[Any]:
        choice = compute.backend_of(kernel, pairs.shape, placement)
        config, runner = _precise(compute, choice, decisive, placement).config(
            choice.name, placement, n_values, REMEDY
        )
        tiles = choice.tiles()
        cache = find_cache(folder, choice, config.dtype, placement.device, *sides)
        oracle = KernelOracle(tiles, sides[-1], config, runner, progress, cache)
        gram = covariances(oracle, tiles, sides, buffer)
        return out if out is not None else to_numpy(gram)

    return compute_at(placement, evaluate)


@public
def gram_diag(
    kernel: Kernel,
    X: Any,
    *,
    image_shape: ShapeOfImages = "auto",
    backend: BackendName = "auto",
    device: str = "auto",
    dtype: Dtype = "auto",
) -> FloatArray:
    """Return the prior variance k(x, x) of each sample.

    Parameters
    ----------
    kernel : Kernel
        Covariance function, from :mod:`skconvgp.kernels`. Settings such as
        ``lengthscale="median"`` follow from X.
    X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
        Images or vectors.
    image_shape : "auto", None, (h, w) or (c, h, w), default="auto"
        How a flat row becomes an image, as in :func:`gram_matrix`.
    backend : "auto", "torch" or "fused", default="auto"
        Code that computes the variance maps, as in :func:`gram_matrix`.
    device : str, default="auto"
        As in :func:`gram_matrix`.
    dtype : "auto", "float32" or "float64", default="auto"
        Precision of the variance maps, as in :func:`gram_matrix`.

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
    >>> gram_diag(dot_product(), [[1.0], [2.0]]).tolist()
    [2.0, 5.0]
    """
    pairs = read_pairs(kernel, X, None, image_shape)
    (images,) = pairs.sides
    warn_of_series(pairs.kernel, images)

    compute = Compute.to(OWNER, device=device, backend=backend, dtype=dtype)

    def evaluate(placement: Placement) -> FloatArray:
        choice = compute.backend_of(pairs.kernel, pairs.shape, placement)
        precise = _precise(compute, choice, images, placement)
        config, runner = precise.config(choice.name, placement)
        return to_numpy(KernelOracle(choice.tiles(), images, config, runner).diag())

    return compute_at(compute.placement(), evaluate)


def _precise(
    compute: Compute, choice: BackendChoice, images: Tensor, placement: Placement
) -> Compute:
    """Return the settings, with float64 if "auto" were too imprecise."""
    is_coarse = compute.dtype(placement.device, choice.name) == torch.float32
    if is_auto(compute["dtype"]) and is_coarse and why_double(choice.kernel, images):
        return compute.but(dtype="float64")
    return compute


def _buffer(out: Any, shape: tuple[int, int], *samples: NDArray[Any]) -> Tensor:
    """Return `out` as a tensor that shares its memory; raise if it is not usable."""
    is_array = isinstance(out, np.ndarray)
    if not is_array or out.dtype.char not in "fd" or not out.dtype.isnative:
        raise ValueError(
            f"`out` must be an array of shape {shape!r} and of native float32 or "
            f"float64, got {out.dtype if is_array else type(out)!r}."
        )
    if out.shape != shape:
        raise ValueError(
            f"`out` must have shape {shape!r}, one value for each covariance, got "
            f"shape {out.shape!r}."
        )
    if not out.flags.writeable or min(out.strides) < 0 or _overlaps(out):
        raise ValueError(
            "`out` must be writeable, not reversed, and have a place for each value: "
            "open a memory map with mode='r+' or 'w+', or pass a fresh array."
        )
    if any(np.may_share_memory(out, each) for each in samples):
        raise ValueError(
            "`out` must not share memory with X or Y, which are read while `out` is "
            "written: pass an array of its own."
        )
    return torch.from_numpy(out)


def _overlaps(array: NDArray[Any]) -> bool:
    """Return whether entries may share memory, as in a view with a stride of 0."""
    extent = array.itemsize
    for stride, size in sorted(zip(array.strides, array.shape, strict=True)):
        if size > 1 and stride < extent:
            return True
        extent += stride * (size - 1)
    return False
