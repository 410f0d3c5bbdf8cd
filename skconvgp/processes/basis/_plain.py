"""Priors: covariances of training samples with each other and with new ones.

`KernelBasis` evaluates a kernel, and `MatrixBasis` reads a given matrix.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._config import ComputeConfig
from skconvgp._resident import once
from skconvgp._typing import FloatArray, ImageShape, Rows
from skconvgp.backends import (
    BackendChoice,
    ResponsesChoice,
    choose_backend,
    choose_pullback,
)
from skconvgp.engine import (
    KernelOracle,
    MatrixOracle,
    TileCache,
    kernel_shape,
    place,
    pool_images,
    pooled_size,
    pull_back,
    rows_to_images,
    rows_to_tensor,
    slices,
    stream_rows,
    to_numpy,
)
from skconvgp.kernels import Kernel
from skconvgp.kernels._feature_maps import HasFeatures
from skconvgp.processes._run import COVARIANCES, Run
from skconvgp.processes.basis._basis import Basis, BasisReport, NewRows, Stream


@dataclass(frozen=True)
class KernelBasis(Basis):
    """A kernel, with the samples whose covariances with new ones are computed."""

    kernel: Kernel
    rows: NDArray[Any]  # (n, d), the samples
    # (n,), their indices among the samples that `fit` was given.
    indices: NDArray[np.intp]
    image_shape: ImageShape  # how a row is read
    pool: float = 1.0  # side of the squares of pixels that are averaged first
    dtype: str = "float64"  # precision of tiles, "float32" or "float64"

    is_kernel: ClassVar[bool] = True
    is_joined: ClassVar[bool] = True

    @property
    def kernel_basis(self) -> Self:
        """Itself."""
        return self

    @property
    def compared(self) -> tuple[KernelBasis, ...]:
        """Itself."""
        return (self,)

    @property
    def kept_rows(self) -> NDArray[Any]:
        """The samples (n, d)."""
        return self.rows

    @property
    def kept_indices(self) -> NDArray[np.intp]:
        """Their indices among the samples that `fit` was given."""
        return self.indices

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.rows)

    @property
    def map_shape(self) -> ImageShape:
        """Shape of the images that the kernel is given."""
        channels, height, width = kernel_shape(self.kernel, self.image_shape)
        return channels, *pooled_size((height, width), self.pool)

    @property
    def n_position_pairs(self) -> int:
        """Pairs of positions whose covariances a pair of samples needs."""
        return self.kernel.n_position_pairs(self.map_shape)

    @property
    def has_random_features(self) -> bool:
        """Whether the kernel has random features."""
        return isinstance(self.kernel, HasFeatures)

    @property
    def tile_dtype(self) -> torch.dtype:
        """Precision of tiles."""
        return torch.float32 if self.dtype == "float32" else torch.float64

    def images(self, rows: Rows | None = None) -> Tensor:
        """Return samples as the kernel sees them; by default its own samples."""
        rows = self.rows if rows is None else rows
        shape = kernel_shape(self.kernel, self.image_shape)
        return pool_images(rows_to_images(rows, shape), self.pool)

    def take(self, indices: NDArray[np.intp]) -> Self:
        """Return the basis of the samples at these indices."""
        return replace(self, rows=self.rows[indices], indices=self.indices[indices])

    def select(self, indices: NDArray[np.intp]) -> Self:
        """Return the basis of the samples at these indices, for a fit to them."""
        return self.take(indices)

    def followed_by(self, rows: NDArray[Any]) -> Self:
        """Return the basis of its samples, followed by further ones (n1, d)."""
        every = np.concatenate([self.rows, rows])
        return replace(self, rows=every, indices=np.arange(len(every)))

    def joined(self, rows: NDArray[Any], run: Run) -> tuple[Self, Tensor]:
        """Return it with further samples, and covariances (n1, m + n1) of these."""
        every = self.followed_by(rows)
        return every, every.oracle(run.quiet(), "basis").gram()[self.n_samples :]

    def resolved(self) -> Self:
        """Return the basis with settings of the kernel computed from the samples."""
        kernel = copy.deepcopy(self.kernel).resolve(self.images())
        return replace(self, kernel=kernel)

    def precision(self, config: ComputeConfig) -> torch.dtype:
        """Return the coarsest precision that a Gram matrix has gone through."""
        return coarsest(self.tile_dtype, config.solve_dtype)

    def choice(self, run: Run) -> BackendChoice:
        """Return the backend that computes tiles of the Gram matrix."""
        key, device = (id(self.kernel), self.map_shape), run.config.device
        if key not in run.choices:
            choice = choose_backend(self.kernel, self.map_shape, run.backend, device)
            run.choices[key] = choice
        return run.choices[key]

    def oracle(self, run: Run, label: str) -> KernelOracle:
        """Return the oracle of covariances of the samples."""
        return self._oracle(run, label, self.images(), is_own=True)

    def cached_oracle(self, run: Run) -> KernelOracle:
        """Return the oracle for a `fit`, which keeps finished tiles."""
        images, choice = self.images(), self.choice(run)
        cache = run.find_cache(choice, self._config(run), images)
        run.caches.extend([cache] if cache else [])
        return self._oracle(run, "fit", images, choice, cache, is_own=True)

    def stream(
        self,
        new: NewRows,
        run: Run,
        width: int = 0,
        *,
        needs_diag: bool = True,
        label: str = "predict",
    ) -> Stream:
        """Yield covariances with the samples; `label` says for what.

        A prior variance may cost half as much as a covariance.
        """
        n_rows, oracle = _rows_at_once(width or self.n_samples, run.config), self.oracle
        images = place(self.images(new.rows), run.config.device)
        yield from oracle(run, label).stream(images, n_rows, needs_diag=needs_diag)

    def variances(self, rows: Rows, run: Run) -> Tensor:
        """Return prior variances (n1,) of new samples (n1, d)."""
        return self._oracle(run.quiet(), "basis", self.images(rows)).diag()

    def report(self, run: Run) -> BasisReport:
        """Return the backend and the precision of tiles."""
        return report_of(self.choice(run), self.tile_dtype, self.n_position_pairs)

    def gram_of(
        self,
        rows: NDArray[Any],
        run: Run,
        unit: float,  # noqa: ARG002  (they are those of the kernel)
        dtype: str | None = None,
    ) -> Tensor:
        """Return covariances (n1, n1) of other samples, by the kernel."""
        other = replace(self, rows=rows, dtype=dtype or self.dtype)
        return other.oracle(run, "basis").gram()

    def covariance(self, rows: Rows, run: Run, unit: float) -> Tensor:
        """Return covariances (n1, n1) of new samples with each other, in a unit."""
        return self._oracle(run, "basis", self.images(rows)).gram() / unit

    def pull(self, rows: NDArray[Any], sums: FloatArray, run: Run) -> FloatArray:
        """Return derivatives (n1, d) by new samples of sums over covariances."""
        _, by_images = pull_back(
            choose_pullback(self.choice(run), has_inputs=True),
            self.images(rows),
            self.images(),
            rows_to_tensor(np.ascontiguousarray(sums)),
            replace(run.config, dtype=torch.float64),
            run.runner,
        )
        assert by_images is not None
        return to_numpy(self.unpooled(by_images, rows)).reshape(len(rows), -1)

    def unpooled(self, by_images: Tensor, rows: NDArray[Any]) -> Tensor:
        """Return derivatives by whole samples, given those by `images` of these."""
        if self.pool == 1:
            return by_images
        shape = kernel_shape(self.kernel, self.image_shape)
        whole = rows_to_images(rows, shape).to(torch.float64).requires_grad_()
        pooled = pool_images(whole, self.pool)
        (by_whole,) = torch.autograd.grad(pooled, whole, by_images.to(pooled))
        return by_whole

    def _config(self, run: Run) -> ComputeConfig:
        return replace(run.config, dtype=self.tile_dtype)

    def _oracle(
        self,
        run: Run,
        label: str,
        images: Tensor,
        choice: BackendChoice | None = None,
        cache: TileCache | None = None,
        *,
        is_own: bool = False,
    ) -> KernelOracle:
        choice, device = choice or self.choice(run), run.config.device
        if device.type != "cpu" and is_own:
            key = device, self.map_shape
            images = once(self.rows, key, lambda: place(images, device))
        elif device.type != "cpu":
            images = place(images, device)
        config, is_fit = self._config(run), label == "fit"
        show = run.progress(COVARIANCES, self.n_position_pairs, is_fit=is_fit)
        return KernelOracle(choice.tiles(), images, config, run.runner, show, cache)


@dataclass(frozen=True)
class MatrixBasis(Basis):
    """A given matrix."""

    # (n, n), the Gram matrix of the samples; None after the fit, if predictions do not
    # read it.
    rows: NDArray[Any] | None
    indices: NDArray[np.intp]  # (n,), columns of K(X_*, X) that belong to the samples

    knows_variances: ClassVar[bool] = False

    @property
    def kept_rows(self) -> NDArray[Any] | None:
        """The samples (n, d)."""
        return self.rows

    @property
    def kept_indices(self) -> NDArray[np.intp]:
        """Their indices among the samples that `fit` was given."""
        return self.indices

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.indices)

    @property
    def tile_dtype(self) -> None:
        """None, as there are no tiles."""

    def take(self, indices: NDArray[np.intp]) -> Self:
        """Return the basis of the samples at these indices, for predictions."""
        return replace(self, rows=None, indices=self.indices[indices])

    @property
    def matrix(self) -> NDArray[Any]:
        """The Gram matrix, before a fit has dropped it."""
        assert self.rows is not None
        return self.rows

    def after_fit(self) -> Self:
        """Return the basis without the matrix: then a pickle is small."""
        return replace(self, rows=None)

    def select(self, indices: NDArray[np.intp]) -> Self:
        """Return the basis of the samples at these indices, for a fit to them."""
        both = self.matrix[np.ix_(indices, indices)]
        return replace(self, rows=both, indices=self.indices[indices])

    def precision(self, config: ComputeConfig) -> torch.dtype:
        """Return the coarsest precision that a Gram matrix has gone through."""
        return coarsest(rows_to_tensor(self.matrix[:1]).dtype, config.solve_dtype)

    def oracle(self, run: Run, label: str) -> MatrixOracle:  # noqa: ARG002  (no work)
        """Return the oracle that reads the matrix."""
        return MatrixOracle(rows_to_tensor(self.matrix), run.config)

    def cached_oracle(self, run: Run) -> MatrixOracle:
        """Return the oracle that reads the matrix."""
        return self.oracle(run, "fit")

    def stream(
        self,
        new: NewRows,
        run: Run,
        width: int = 0,
        *,
        needs_diag: bool = True,  # noqa: ARG002  (they are given, or zeros)
    ) -> Stream:
        """Yield given covariances of new samples."""
        n_rows = _rows_at_once(width or self.n_samples, run.config)
        diag = np.zeros(len(new)) if new.diag is None else new.diag
        for part in slices(len(new), n_rows):
            cross: Any = new.rows[part][:, self.indices]
            yield run.tensor(cross), run.tensor(diag[part])

    def report(self, run: Run) -> BasisReport:
        """Return that nothing is evaluated."""
        return BasisReport("precomputed", run.config.dtype)

    def gram_of(self, rows: NDArray[Any], *_: Any, **__: Any) -> Tensor:
        """Return the given matrix (n1, n1)."""
        return rows_to_tensor(rows)

    def pull(self, *_: Any) -> FloatArray:
        """Raise, as a given matrix has no inputs."""
        raise ValueError("With kernel='precomputed' there are no inputs: use a kernel.")

    def covariance(self, *_: Any) -> Tensor:
        """Raise, as covariances of new samples with each other are not given."""
        raise ValueError(
            "With kernel='precomputed' there is no covariance between the rows of "
            "X: fit with a kernel object."
        )


# Estimators make a plain basis; planning may turn it into a sum.
PlainBasis: TypeAlias = KernelBasis | MatrixBasis


def report_of(
    choice: BackendChoice | ResponsesChoice,
    dtype: torch.dtype,
    n_position_pairs: int = 0,
) -> BasisReport:
    """Return the facts of a backend for a report, and its precision."""
    words = choice.name, dtype, choice.reason, choice.instruction_set
    return BasisReport(*words, n_position_pairs)


def coarsest(*dtypes: torch.dtype) -> torch.dtype:
    """Return the coarsest of precisions."""
    return torch.float32 if torch.float32 in dtypes else torch.float64


def _rows_at_once(width: int, config: ComputeConfig) -> int:
    return stream_rows(width, config.solve_dtype.itemsize, config.memory_budget)
