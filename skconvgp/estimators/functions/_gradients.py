"""`gram_gradient` and `gram_vjp`: derivatives of covariances, for numpy arrays."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_array
from torch import Tensor

from skconvgp._ambient import public
from skconvgp._protocols import run_serially
from skconvgp._typing import FloatArray
from skconvgp.backends import choose_pullback
from skconvgp.engine import (
    KernelOracle,
    Placement,
    compute_at,
    host_values,
    pull_back,
    rows_to_tensor,
    to_numpy,
)
from skconvgp.estimators._given import FLOATS, host_samples
from skconvgp.estimators._series import warn_of_series
from skconvgp.estimators.compute._progress import progress_of
from skconvgp.estimators.functions._pairs import (
    covariances,
    read_pairs,
    require_finite,
)
from skconvgp.estimators.settings._checks import as_flag
from skconvgp.estimators.settings._compute import Compute
from skconvgp.estimators.settings._types import (
    BackendName,
    Budget,
    Dtype,
    ShapeOfImages,
)
from skconvgp.kernels import Kernel
from skconvgp.processes import COVARIANCES

REMEDY = "use fewer samples, or `gram_vjp`, which stores no derivatives of K."


@public
def gram_gradient(
    kernel: Kernel,
    X: Any,
    Y: Any = None,
    *,
    image_shape: ShapeOfImages = "auto",
    backend: BackendName = "auto",
    device: str = "auto",
    dtype: Dtype = "auto",
    memory_budget: Budget = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> tuple[NDArray[Any], NDArray[Any]]:
    r"""Return the covariances of all pairs, and their derivatives by hyperparameters.

    Both are computed together, tile by tile: apart from the result, only tiles are held
    in memory.

    Parameters
    ----------
    kernel : Kernel
        Covariance function, from :mod:`skconvgp.kernels`. Settings such as
        ``lengthscale="median"`` follow from X; with a Y they are an error.
    X : array-like of shape (n1, d), (n1, h, w) or (n1, c, h, w)
        Images or vectors.
    Y : array-like of shape (n2, d), (n2, h, w) or (n2, c, h, w), default=None
        Images or vectors of the same size; None is X, and both results are then
        exactly symmetric.
    image_shape : "auto", None, (h, w) or (c, h, w), default="auto"
        How a flat row becomes an image, as in :func:`gram_matrix`.
    backend : "auto", "torch" or "fused", default="auto"
        Code that computes the covariance maps, as in :func:`gram_matrix`.
    device : str, default="auto"
        As in :func:`gram_matrix`.
    dtype : "auto", "float32" or "float64", default="auto"
        Precision of the maps and of the result; "auto" is float64, for optimisers.
    memory_budget : None, int or str, default=None
        Memory that may be used in addition to X, Y and the result, in bytes or as in "2
        GiB". None is half of the free memory.
    n_jobs : int, default=None
        As in :func:`gram_matrix`, for the fused backend. With torch, tiles are computed
        one after the other, by torch's own threads.
    verbose : int, default=0
        1 shows progress on stderr.

    Returns
    -------
    gram : ndarray of shape (n1, n2)
        The covariances.
    gradient : ndarray of shape (n1, n2, p)
        Their derivatives by ``kernel.theta``, the logarithms of the free
        hyperparameters.

    Raises
    ------
    ValueError
        If the kernel cannot take samples of this shape, or a setting is wrong.
    TileMemoryError
        Before any work, if the result or a single tile does not fit in memory.

    See Also
    --------
    gram_vjp : A weighted sum of the derivatives, without storing them.

    Examples
    --------
    >>> from skconvgp import gram_gradient
    >>> from skconvgp.datasets import load_digits_images
    >>> from skconvgp.kernels import convnet
    >>> X, y = load_digits_images(return_X_y=True)
    >>> gram, gradient = gram_gradient(convnet(depth=2, kernel_size=3), X[:5])
    >>> gram.shape, gradient.shape
    ((5, 5), (5, 5, 2))
    """
    pairs = read_pairs(kernel, X, Y, image_shape)
    kernel, sides = pairs.kernel, pairs.sides
    n_columns = 1 + len(kernel.theta)
    n_values = math.prod(pairs.size) * n_columns
    compute = Compute.to(
        "gram_gradient",
        device=device,
        backend=backend,
        dtype=_precise(dtype),
        memory_budget=memory_budget,
        n_jobs=n_jobs,
        verbose=verbose,
    )
    placement = compute.placement_of(n_values)
    progress = progress_of(compute.verbose)(COVARIANCES)
    warn_of_series(kernel, *sides)

    def evaluate(placement: Placement) -> NDArray[Any]:
        choice = compute.backend_of(kernel, pairs.shape, placement)
        config, runner = compute.config(choice.name, placement, n_values, REMEDY)
        if not choice.has_tangents:  # torch has threads of its own
            config, runner = replace(config, n_workers=1), run_serially
        # Covariances are contiguous in memory, as are derivatives by one
        # hyperparameter.
        both = torch.empty(
            (n_columns, *pairs.size), dtype=config.dtype, device=config.device
        ).permute(1, 2, 0)
        oracle = KernelOracle(choice.tangents(), sides[-1], config, runner, progress)
        covariances(oracle, choice.tiles(), sides, both)
        return to_numpy(both)

    values = compute_at(placement, evaluate)
    return values[..., 0], values[..., 1:]


@public
def gram_vjp(
    kernel: Kernel,
    X: Any,
    Y: Any,
    G: Any,
    *,
    inputs: bool = True,
    image_shape: ShapeOfImages = "auto",
    backend: BackendName = "auto",
    device: str = "auto",
    dtype: Dtype = "auto",
    memory_budget: Budget = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> tuple[FloatArray, FloatArray | None]:
    r"""Return the derivatives of a weighted sum of covariances.

    The sum is :math:`\langle G, K \rangle = \sum_{ij} G_{ij} K_{ij}` for a given G.
    Every objective of a Gaussian process has its gradient in this form. The derivatives
    of K are never stored: each tile is computed once more, its part of G is propagated
    backwards through it, and the tile is discarded.

    Parameters
    ----------
    kernel : Kernel
        Covariance function, from :mod:`skconvgp.kernels`. Settings such as
        ``lengthscale="median"`` follow from X and are held fixed; with a Y they are an
        error.
    X : array-like of shape (n1, d), (n1, h, w) or (n1, c, h, w)
        Images or vectors.
    Y : array-like of shape (n2, d), (n2, h, w) or (n2, c, h, w), or None
        Images or vectors of the same size, which are held fixed; None is X, and the
        sum is then a function of X on both sides, the diagonal included.
    G : array-like of shape (n1, n2)
        The weights; they need not be symmetric.
    inputs : bool, default=True
        Whether to return derivatives by X. Without them less time and memory is needed.
    image_shape : "auto", None, (h, w) or (c, h, w), default="auto"
        How a flat row becomes an image, as in :func:`gram_matrix`.
    backend : "auto", "torch" or "fused", default="auto"
        Code that computes the covariance maps, as in :func:`gram_matrix`. Derivatives
        by inputs are always computed by torch.
    device : str, default="auto"
        As in :func:`gram_matrix`.
    dtype : "auto", "float32" or "float64", default="auto"
        Precision of the maps; "auto" is float64, for optimisers. Sums are float64.
    memory_budget : None, int or str, default=None
        Memory that may be used in addition to X, Y, G and the result, in bytes or as in
        "2 GiB". None is half of the free memory.
    n_jobs : int, default=None
        None and 1 compute in this process, on as many threads as torch uses; more jobs
        run through joblib and share the cores. The result is the same to the last bit,
        unless the memory budget is small.
    verbose : int, default=0
        1 shows progress on stderr.

    Returns
    -------
    by_theta : ndarray of shape (p,)
        Derivatives by ``kernel.theta``, the logarithms of the free hyperparameters.
    by_X : ndarray of the shape of X, or None
        Derivatives by X; None without `inputs`.

    Raises
    ------
    ValueError
        If the kernel cannot take samples of this shape, G has another shape than the
        matrix or is not finite, or a setting is wrong.
    TileMemoryError
        Before any work, if a single pair does not fit in memory.

    See Also
    --------
    gram_gradient : The derivatives themselves.

    Examples
    --------
    >>> import numpy as np
    >>> from skconvgp import gram_vjp
    >>> from skconvgp.kernels import dot_product
    >>> gram_vjp(dot_product(bias_variance=2.0), [[1.0], [3.0]], None, np.ones((2, 2)))
    (array([8.]), array([[8.],
           [8.]]))
    """
    pairs = read_pairs(kernel, X, Y, image_shape)
    kernel, sides = pairs.kernel, pairs.sides
    compute = Compute.to(
        "gram_vjp",
        device=device,
        backend=backend,
        dtype=_precise(dtype),
        memory_budget=memory_budget,
        n_jobs=n_jobs,
        verbose=verbose,
        inputs=inputs,
    )
    has_inputs = compute.read("inputs", as_flag)
    weights = _weights(G, pairs.size)
    images, columns = sides[0], None if Y is None else sides[1]
    progress = progress_of(compute.verbose)("derivatives")
    warn_of_series(kernel, *sides)

    def evaluate(placement: Placement) -> tuple[Tensor, Tensor | None]:
        choice = compute.backend_of(kernel, pairs.shape, placement)
        config, runner = compute.config(choice.name, placement)
        require_finite(choice.tiles(), config, sides)
        pullback = choose_pullback(choice, has_inputs=has_inputs)
        return pull_back(pullback, images, columns, weights, config, runner, progress)

    by_theta, by_images = compute_at(compute.placement(), evaluate)
    if by_images is None:
        return to_numpy(by_theta), None
    shape = pairs.rows[0].shape if pairs.given is None else np.shape(host_samples(X))
    return to_numpy(by_theta), to_numpy(by_images).reshape(shape)


def _precise(dtype: object) -> object:
    """Return the setting of the precision; "auto" is float64."""
    return "float64" if isinstance(dtype, str) and dtype == "auto" else dtype


def _weights(G: Any, shape: tuple[int, int]) -> Tensor:
    weights = check_array(host_values(G, "G"), dtype=FLOATS, input_name="G")
    if weights.shape != shape:
        raise ValueError(
            f"`G` must have one weight for each covariance, shape {shape!r}, got shape "
            f"{weights.shape!r}."
        )
    return rows_to_tensor(weights)
