"""BaseInputs: what comes into an estimator, from settings and arrays to parts."""

import copy
import math
import warnings
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import validate_data
from torch import Tensor

from skconvgp._config import ComputeConfig
from skconvgp._protocols import TileRunner
from skconvgp._typing import FloatArray, ImageShape
from skconvgp.backends import BackendChoice, choose_backend
from skconvgp.engine import (
    KernelOracle,
    MatrixOracle,
    SummedOracle,
    TileCache,
    require_memory,
)
from skconvgp.estimators._kept_tiles import (
    find_cache,
    resolve_cache_dir,
    warn_of_unknown,
)
from skconvgp.estimators._named_kernel import NamedKernel
from skconvgp.estimators._parallel import make_runner
from skconvgp.estimators._place import Place, Size
from skconvgp.estimators._progress import ProgressLine
from skconvgp.estimators._resolve import (
    DTYPES,
    PRECOMPUTED,
    device_exists,
    resolve_backend,
    resolve_device,
    resolve_dtype,
    resolve_jobs,
    resolve_kernel,
    resolve_memory_budget,
    resolve_solve_dtype,
    resolve_verbose,
)
from skconvgp.estimators._scale import mean_squares, warn_of_scale
from skconvgp.estimators._series import warn_of_series
from skconvgp.estimators._steep import why_double
from skconvgp.estimators._validation import (
    check_same_shape,
    check_weights,
    images_to_rows,
    kernel_shape,
    pool_images,
    require_many,
    require_symmetric,
    require_unmasked,
    resolve_image_shape,
    rows_to_images,
    rows_to_tensor,
    warn_of_channels,
    warn_of_guess,
)
from skconvgp.estimators._warn import warn_caller
from skconvgp.exceptions import VersionMismatchWarning
from skconvgp.kernels import Kernel, convnet

__all__ = ["BaseInputs", "Size", "Work"]

VERSION_KEY = "_skconvgp_version"
SMALLER_MATRIX = (
    "fit on fewer samples, with solver='cg' and a number as `noise_variance` (of "
    "classifiers with likelihood='gaussian'), or with solve_dtype='float32'."
)


@dataclass(frozen=True)
class Work:
    """How to compute: settings of an estimator, resolved for one call.

    Parameters
    ----------
    config : ComputeConfig
        Device, precisions, memory.
    runner : TileRunner
        Runs blocks of tiles.
    choice : BackendChoice or None
        Computes tiles; None for a precomputed matrix.
    verbose : int
        How much progress is shown.
    dtype_reason : str
        Why ``dtype="auto"`` is not float32 here.
    caches : list of TileCache
        Those that were used.
    """

    config: ComputeConfig
    runner: TileRunner
    choice: BackendChoice | None
    verbose: int
    dtype_reason: str = ""
    caches: list[TileCache] = field(default_factory=list)


class BaseInputs(NamedKernel):
    """Settings and data of an estimator, checked and turned into parts."""

    # Whether a fitted model keeps all training inputs.
    _keeps_rows: ClassVar[bool] = True

    kernel: object
    image_shape: object
    noise_variance: object
    amplitude: object
    solver: object
    device: object
    backend: object
    dtype: object
    solve_dtype: object
    memory_budget: object
    n_jobs: object
    cache_dir: object = None  # where there is no such setting
    random_state: Any
    verbose: object

    kernel_: Kernel | str
    image_shape_: ImageShape | None
    pool_: int
    dtype_: str
    # The least and the largest mean square of a training sample.
    _mean_squares: tuple[float, float] = 0.0, math.inf
    _kept: NDArray[np.intp]
    _n_given: int  # samples that `fit` was given

    def __sklearn_tags__(self) -> Tags:
        """Say that images are taken too, and whether X is a Gram matrix."""
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.pairwise = _is_precomputed(self.kernel)
        return tags

    def __getstate__(self) -> dict[str, Any]:
        """Add the version of the package."""
        state: dict[str, Any] = dict(super().__getstate__())
        return state | {VERSION_KEY: version("skconvgp")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Warn if another version of the package wrote the state."""
        state = dict(state)
        written, current = state.pop(VERSION_KEY, "unknown"), version("skconvgp")
        if written != current:
            warnings.warn(
                f"This {type(self).__name__} was saved by skconvgp {written} and is "
                f"loaded by {current}: results may differ; fit it again.",
                VersionMismatchWarning,
                stacklevel=2,
            )
        super().__setstate__(state)

    def _validate_fit(self, X: Any, y: Any, **options: Any) -> tuple[Any, Any]:
        check_random_state(self.random_state)  # an error even if nothing is drawn
        require_unmasked(y, "y")
        self.pool_ = 1
        rows, given = images_to_rows(X)
        rows, y = validate_data(
            self, rows, y, dtype=[np.float64, np.float32], **options
        )
        if _is_precomputed(self.kernel):
            if rows.shape[0] != rows.shape[1]:
                raise ValueError(
                    "With kernel='precomputed', X in `fit` must be the square Gram "
                    f"matrix K(X, X), got shape {rows.shape!r}."
                )
            require_symmetric(rows)
            self.kernel_ = PRECOMPUTED
            self.image_shape_ = None
            return rows, y
        if self._keeps_rows and np.may_share_memory(rows, np.asarray(X)):
            rows = rows.copy()  # what the model keeps is its own
        given_kernel = resolve_kernel(self, self.kernel, self._default_kernel())
        kernel = copy.deepcopy(given_kernel)
        warn_of_unknown(resolve_cache_dir(self, self.cache_dir, kernel), kernel)
        self.kernel_ = kernel
        self._mean_squares = mean_squares(rows)
        self.image_shape_, is_guess = resolve_image_shape(
            self.image_shape, rows.shape[1], given, is_spatial=kernel.is_spatial
        )
        if is_guess:
            warn_of_guess(self.image_shape_)
        if kernel.is_spatial:
            warn_of_channels(self.image_shape_)
        kernel.check(kernel_shape(kernel, self.image_shape_))
        return rows, y

    def _resolved(self, kernel: Any, rows: NDArray[Any]) -> Any:
        """Return a copy with the settings that follow from training samples."""
        if not isinstance(kernel, Kernel):
            return kernel
        return copy.deepcopy(kernel).resolve(self._images(rows, kernel))

    def _default_kernel(self) -> Kernel:
        """Return the kernel that None stands for."""
        return convnet()

    def _kernel_reason(self) -> str:
        """Return why the default kernel may suit the samples badly, if it may."""
        default, shape = self._default_kernel(), self.image_shape_
        is_vector = shape is not None and shape[0] > 1 and shape[1:] == (1, 1)
        if self.kernel is not None or not (is_vector and default.is_spatial):
            return ""
        return (
            f"the default, {default!r}, is for images, and rows were read as vectors: "
            "rbf() is for tables"
        )

    def _weighted(
        self,
        rows: NDArray[Any],
        y: NDArray[Any],
        sample_weight: ArrayLike | None,
        *,
        are_further: bool = False,
    ) -> tuple[NDArray[Any], NDArray[Any], FloatArray]:
        """Return samples and weights without those of weight 0, which are no data.

        The kernel is resolved by first samples, and stays as it is with further ones.

        Rows of further samples of a precomputed kernel hold covariances with earlier
        ones; those of first samples are the Gram matrix.
        """
        weights = check_weights(sample_weight, rows)
        kept = np.flatnonzero(weights)
        self._kept = kept
        self._n_given = len(rows) + (self._n_given if are_further else 0)
        if len(kept) < len(weights):
            is_square = _is_precomputed(self.kernel) and not are_further
            rows = rows[np.ix_(kept, kept)] if is_square else rows[kept]
            y, weights = y[kept], weights[kept]
        if not are_further:
            self.kernel_ = self._resolved(self.kernel_, rows)
        return rows, y, weights

    def _validate_predict(self, X: Any) -> NDArray[Any]:
        rows, given = images_to_rows(X)
        if self.image_shape_ is not None:
            require_many(tuple(getattr(X, "shape", ())), self.image_shape_)
            check_same_shape(given, self.image_shape_)
        dtype = [np.float64, np.float32]
        rows = np.asarray(validate_data(self, rows, reset=False, dtype=dtype))
        if isinstance(self.kernel_, Kernel):
            warn_of_scale(rows, self._mean_squares)
        return rows

    def _images(self, rows: NDArray[Any], kernel: Kernel) -> Tensor:
        assert self.image_shape_ is not None
        images = rows_to_images(rows, kernel_shape(kernel, self.image_shape_))
        return pool_images(images, self.pool_)

    def _map_shape(self, kernel: Kernel) -> ImageShape:
        """Return the shape of the images that a kernel is given."""
        assert self.image_shape_ is not None
        channels, height, width = kernel_shape(kernel, self.image_shape_)
        return channels, -(-height // self.pool_), -(-width // self.pool_)

    def _place(self, *, is_fitting: bool, needed: int) -> Place:
        """Return where to compute with so many bytes; a loaded model has the CPU."""
        place = resolve_device(self, self.device, needed)
        if device_exists(place.device):
            return place
        message = f"device={self.device!r} was asked for and is not on this machine"
        if is_fitting:
            raise ValueError(f"{message}; use device='auto' or 'cpu'.")
        warn_caller(f"{message}: the CPU is used.", UserWarning)
        return Place(torch.device("cpu"))

    def _place_of_fit(self, n_samples: int, size: Size) -> tuple[Place, int]:
        """Return where to fit, and the bytes of what a fit holds there as a whole."""
        itemsize = resolve_solve_dtype(self, self.solve_dtype).itemsize
        place = self._place(is_fitting=True, needed=size.on_gpu * itemsize)
        if place.device.type == "cpu":
            return place, size.held * itemsize
        what = f"The matrix of {n_samples} samples that comes back from the GPU"
        host = torch.device("cpu")
        require_memory(size.beside_gpu * itemsize, host, what, SMALLER_MATRIX)
        return place, size.on_gpu * itemsize

    def _choose(
        self, device: torch.device, *, is_fitting: bool
    ) -> BackendChoice | None:
        """Return what computes tiles; a loaded model falls back to torch."""
        backend = resolve_backend(self, self.backend)
        if not isinstance(self.kernel_, Kernel):
            return None
        shape = self._map_shape(self.kernel_)
        if is_fitting or backend != "fused":
            return choose_backend(self.kernel_, shape, backend, device)
        choice = choose_backend(self.kernel_, shape, "auto", device)
        if choice.name != "fused":
            warn_caller(
                f"backend='fused' was asked for and cannot be used here: "
                f"{choice.reason}. torch computes, in the precision of `fit`, "
                f"{self.dtype_}.",
                UserWarning,
            )
        return choice

    def _work(
        self,
        place: Place,
        *,
        is_fitting: bool,
        rows: NDArray[Any] | None = None,
        reserved: int = 0,
    ) -> Work:
        """Resolve the settings; after `fit` the precision of tiles is that of `fit`.

        Training and test covariances then carry the same rounding, also where a
        model is loaded on a machine that has another device or backend.

        Parameters
        ----------
        place : Place
            Where to compute.
        is_fitting : bool
            Whether a Gram matrix is about to be made.
        rows : ndarray of shape (n, d), optional
            Its samples, on which ``dtype="auto"`` tries float32.
        reserved : int
            Bytes of what must lie on the device as a whole.
        """
        device, reason = place.device, ""
        choice = self._choose(device, is_fitting=is_fitting)
        if is_fitting:
            name = "torch" if choice is None else choice.name
            dtype = resolve_dtype(self, self.dtype, device, name)
            assert rows is not None
            if (self.dtype, dtype) == ("auto", torch.float32) and choice:
                reason = why_double(choice.kernel, self._images(rows, choice.kernel))
                dtype = torch.float64 if reason else dtype
            require_memory(
                reserved,
                device,
                f"What a fit to {len(rows)} samples holds, beside tiles,",
                SMALLER_MATRIX,
            )
        else:
            dtype = DTYPES[self.dtype_]
        runner, n_workers = make_runner(resolve_jobs(self, self.n_jobs), device)
        config = ComputeConfig(
            device,
            dtype,
            resolve_solve_dtype(self, self.solve_dtype),
            resolve_memory_budget(
                self, self.memory_budget, device, reserved, n_workers
            ),
            n_workers,
        )
        return Work(config, runner, choice, resolve_verbose(self, self.verbose), reason)

    def _oracle(
        self,
        images: Tensor,
        work: Work,
        label: str,
        cache: TileCache | None = None,
    ) -> KernelOracle:
        assert work.choice is not None
        if label != "predict":  # `fit` has warned of training samples
            warn_of_series(work.choice.kernel, images)
        tiles = work.choice.tiles()
        progress = ProgressLine(label, work.verbose)
        return KernelOracle(tiles, images, work.config, work.runner, progress, cache)

    def _training_oracle(
        self, rows: NDArray[Any], work: Work
    ) -> KernelOracle | MatrixOracle | SummedOracle:
        if isinstance(self.kernel_, Kernel):
            images, config = self._images(rows, self.kernel_), work.config
            folder = resolve_cache_dir(self, self.cache_dir, self.kernel_)
            assert work.choice is not None
            cache = find_cache(folder, work.choice, config.dtype, config.device, images)
            work.caches.extend([cache] if cache else [])
            return self._oracle(images, work, "fit", cache)
        return MatrixOracle(rows_to_tensor(rows), work.config)


def _is_precomputed(kernel: object) -> bool:
    return isinstance(kernel, str) and kernel == PRECOMPUTED
