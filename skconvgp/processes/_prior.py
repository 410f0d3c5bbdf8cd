"""Priors: covariances of training samples with each other and with new ones.

`KernelPrior` evaluates a kernel, `MatrixPrior` reads a given matrix, and `SummedPrior`
adds the completed matrix of a second kernel. `PatchPrior`, in a file of its own, gives
features instead of covariances.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._config import ComputeConfig
from skconvgp._protocols import CompletedGram
from skconvgp._typing import FloatArray, ImageShape
from skconvgp.backends import BackendChoice, choose_backend, choose_pullback
from skconvgp.engine import (
    KernelOracle,
    MatrixOracle,
    SummedOracle,
    TileCache,
    kernel_shape,
    pool_images,
    pull_back,
    rows_to_images,
    rows_to_tensor,
    slices,
    stream_rows,
    to_numpy,
)
from skconvgp.kernels import Kernel
from skconvgp.processes._run import Run

if TYPE_CHECKING:
    from skconvgp.processes._expansion import ExpansionPrior
    from skconvgp.processes._parts_prior import PartsPrior
    from skconvgp.processes._patch_prior import PatchPrior

__all__ = [
    "AnyPrior",
    "KernelPrior",
    "MatrixPrior",
    "PlainPrior",
    "Prior",
    "SummedPrior",
]

# Blocks of rows: their covariances with the samples of a prior, and prior variances.
Stream: TypeAlias = Iterator[tuple[Tensor, Tensor]]
Rows: TypeAlias = NDArray[Any]


@dataclass(frozen=True)
class KernelPrior:
    """A kernel, with the samples whose covariances with new ones are computed.

    Parameters
    ----------
    kernel : Kernel
        The covariance function.
    rows : ndarray of shape (n, d)
        The samples.
    indices : ndarray of shape (n,)
        Their indices among the samples that `fit` was given.
    image_shape : (c, h, w)
        How a row is read.
    pool : int, default=1
        Side of the squares of pixels that are averaged first.
    dtype : str, default="float64"
        Precision of tiles, "float32" or "float64".
    """

    kernel: Kernel
    rows: NDArray[Any]
    indices: NDArray[np.intp]
    image_shape: ImageShape
    pool: int = 1
    dtype: str = "float64"

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.rows)

    @property
    def map_shape(self) -> ImageShape:
        """Shape of the images that the kernel is given."""
        channels, height, width = kernel_shape(self.kernel, self.image_shape)
        return channels, -(-height // self.pool), -(-width // self.pool)

    @property
    def n_position_pairs(self) -> int:
        """Pairs of positions whose covariances a pair of samples needs."""
        return self.kernel.n_position_pairs(self.map_shape)

    @property
    def knows_variances(self) -> bool:
        """Whether prior variances of new samples follow from their rows."""
        return True

    @property
    def tile_dtype(self) -> torch.dtype:
        """Precision of tiles."""
        return torch.float32 if self.dtype == "float32" else torch.float64

    def images(self, rows: NDArray[Any] | None = None) -> Tensor:
        """Return samples as the kernel sees them; by default those of the prior."""
        rows = self.rows if rows is None else rows
        shape = kernel_shape(self.kernel, self.image_shape)
        return pool_images(rows_to_images(rows, shape), self.pool)

    def take(self, indices: NDArray[np.intp]) -> Self:
        """Return the prior of the samples at these indices."""
        return replace(self, rows=self.rows[indices], indices=self.indices[indices])

    def select(self, indices: NDArray[np.intp]) -> Self:
        """Return the prior of the samples at these indices, for a fit to them."""
        return self.take(indices)

    def resolved(self) -> Self:
        """Return the prior with settings of the kernel computed from the samples."""
        kernel = copy.deepcopy(self.kernel).resolve(self.images())
        return replace(self, kernel=kernel)

    def precision(self, config: ComputeConfig) -> torch.dtype:
        """Return the coarsest precision that a Gram matrix has gone through."""
        return _coarsest(self.tile_dtype, config.solve_dtype)

    def choice(self, run: Run) -> BackendChoice:
        """Return the backend that computes tiles of the Gram matrix."""
        key, device = (id(self.kernel), self.map_shape), run.config.device
        if key not in run.choices:
            choice = choose_backend(self.kernel, self.map_shape, run.backend, device)
            run.choices[key] = choice
        return run.choices[key]

    def oracle(self, run: Run, label: str) -> KernelOracle:
        """Return the oracle of covariances of the samples."""
        return self._oracle(run, label, self.images())

    def cached_oracle(self, run: Run) -> KernelOracle:
        """Return the oracle for a `fit`, which keeps finished tiles."""
        images, choice = self.images(), self.choice(run)
        cache = run.find_cache(choice, self._config(run), images)
        run.caches.extend([cache] if cache else [])
        return self._oracle(run, "fit", images, choice, cache)

    def stream(
        self,
        rows: NDArray[Any],
        diag: FloatArray,  # noqa: ARG002  (a given matrix needs them)
        run: Run,
        width: int | None = None,
        *,
        needs_diag: bool = True,
        label: str = "predict",
    ) -> Stream:
        """Yield covariances of new samples with these, a block of rows at a time.

        Parameters
        ----------
        rows : ndarray of shape (n1, d)
            New samples.
        diag : ndarray of shape (n1,)
            Prior variances, which only a given matrix reads.
        run : Run
            How to compute.
        width : int, optional
            Numbers held for each new sample, which limit the rows of a block; by
            default one for each sample of the prior.
        needs_diag : bool, default=True
            Whether prior variances are wanted, which may cost half as much as a pair.
        label : str, default="predict"
            What progress is called.

        Yields
        ------
        cross : Tensor of shape (b, n)
            The covariances.
        diag : Tensor of shape (b,)
            Prior variances of the new samples; zeros if they are not wanted.
        """
        n_rows, oracle = _rows_at_once(width or self.n_samples, run.config), self.oracle
        images = self.images(rows)
        yield from oracle(run, label).stream(images, n_rows, needs_diag=needs_diag)

    def covariance(self, rows: NDArray[Any], run: Run, unit: float) -> Tensor:
        """Return covariances (n1, n1) of new samples with each other, in a unit."""
        return self._oracle(run, "prior", self.images(rows)).gram() / unit

    def pull(self, rows: NDArray[Any], sums: FloatArray, run: Run) -> FloatArray:
        """Return the derivatives (n1, d) by new samples of sums over covariances.

        Parameters
        ----------
        rows : ndarray of shape (n1, d)
            New samples.
        sums : ndarray of shape (n1, n)
            Factors of the covariances in the sum of each new sample.
        run : Run
            How to compute.
        """
        _, by_images = pull_back(
            choose_pullback(self.choice(run), has_inputs=True),
            self.images(rows),
            self.images(),
            rows_to_tensor(np.ascontiguousarray(sums)),
            replace(run.config, dtype=torch.float64),
            run.runner,
        )
        assert by_images is not None
        return to_numpy(self._unpool(by_images, rows)).reshape(len(rows), -1)

    def _unpool(self, by_images: Tensor, rows: NDArray[Any]) -> Tensor:
        """Return derivatives by whole images, given those by pooled images."""
        if self.pool == 1:
            return by_images
        whole = rows_to_tensor(rows).to(torch.float64)
        whole = whole.reshape(-1, *self.image_shape).requires_grad_()
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
    ) -> KernelOracle:
        choice = choice or self.choice(run)
        config, show = self._config(run), run.progress(label, self.n_position_pairs)
        return KernelOracle(choice.tiles(), images, config, run.runner, show, cache)


@dataclass(frozen=True)
class MatrixPrior:
    """A given matrix.

    Parameters
    ----------
    rows : ndarray of shape (n, n) or None
        The Gram matrix of the samples; None after the fit, if predictions do not
        read it.
    indices : ndarray of shape (n,)
        Columns of K(X_*, X) that belong to the samples.
    """

    rows: NDArray[Any] | None
    indices: NDArray[np.intp]

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.indices)

    @property
    def knows_variances(self) -> bool:
        """Whether prior variances of new samples follow from their rows."""
        return False

    @property
    def tile_dtype(self) -> None:
        """None, as there are no tiles."""

    def take(self, indices: NDArray[np.intp]) -> Self:
        """Return the prior of the samples at these indices, for predictions."""
        return replace(self, rows=None, indices=self.indices[indices])

    def select(self, indices: NDArray[np.intp]) -> Self:
        """Return the prior of the samples at these indices, for a fit to them."""
        assert self.rows is not None
        both = self.rows[np.ix_(indices, indices)]
        return replace(self, rows=both, indices=self.indices[indices])

    def precision(self, config: ComputeConfig) -> torch.dtype:
        """Return the coarsest precision that a Gram matrix has gone through."""
        assert self.rows is not None
        return _coarsest(rows_to_tensor(self.rows[:1]).dtype, config.solve_dtype)

    def oracle(self, run: Run, label: str) -> MatrixOracle:  # noqa: ARG002  (no work)
        """Return the oracle that reads the matrix."""
        assert self.rows is not None
        return MatrixOracle(rows_to_tensor(self.rows), run.config)

    def cached_oracle(self, run: Run) -> MatrixOracle:
        """Return the oracle that reads the matrix."""
        return self.oracle(run, "fit")

    def stream(
        self, rows: Rows, diag: FloatArray, run: Run, width: int = 0, **_: bool
    ) -> Stream:
        """Yield given covariances of new samples, as `KernelPrior.stream` does."""
        n_rows = _rows_at_once(width or self.n_samples, run.config)
        for part in slices(len(rows), n_rows):
            cross = rows[part][:, self.indices]
            yield run.tensor(cross), run.tensor(diag[part])

    def covariance(self, *_: Any) -> Tensor:
        """Raise, as covariances of new samples with each other are not given."""
        raise ValueError(
            "With kernel='precomputed' there is no covariance between the rows of "
            "X: fit with a kernel object."
        )


@dataclass(frozen=True)
class SummedPrior:
    """The sum of a kernel's matrix and of the completed one of a second kernel.

    Parameters
    ----------
    coarse : KernelPrior
        The kernel of all pairs.
    exact : KernelPrior
        The kernel that is completed, with the anchors as its samples.
    lift_map : ndarray of shape (m, r)
        Takes covariances with the anchors to features.
    features : ndarray of shape (n, r)
        Features of the training samples.
    residual_diag : ndarray of shape (n,)
        Part of the prior variances that the features do not explain.
    coarse_scale, scale : float
        Factors of the two kernels in the sum. `lift_map`, `features` and
        `residual_diag` already contain `scale`.
    """

    coarse: KernelPrior
    exact: KernelPrior
    lift_map: FloatArray
    features: FloatArray
    residual_diag: FloatArray
    coarse_scale: float
    scale: float

    @classmethod
    def of(
        cls,
        coarse: KernelPrior,
        exact: KernelPrior,
        completed: CompletedGram,
        diag: Tensor,
        *,
        coarse_scale: float,
        scale: float,
    ) -> Self:
        """Return the sum with a completed matrix, whose factor is scaled in place."""
        features = completed.factor.mul_(math.sqrt(scale))
        residual_diag = (scale * diag - features.square().sum(1)).clamp(min=0.0)
        return cls(
            coarse,
            exact.take(to_numpy(completed.anchors)),
            to_numpy(completed.lift_map) * math.sqrt(scale),
            to_numpy(features),
            to_numpy(residual_diag),
            coarse_scale,
            scale,
        )

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.coarse.n_samples

    @property
    def indices(self) -> NDArray[np.intp]:
        """Indices of the samples among those that `fit` was given."""
        return self.coarse.indices

    @property
    def rows(self) -> NDArray[Any]:
        """The samples (n, d)."""
        return self.coarse.rows

    @property
    def knows_variances(self) -> bool:
        """Whether prior variances of new samples follow from their rows."""
        return True

    @property
    def tile_dtype(self) -> torch.dtype:
        """Precision of the coarse kernel's tiles."""
        return self.coarse.tile_dtype

    def precision(self, config: ComputeConfig) -> torch.dtype:
        """Return the coarsest precision that a Gram matrix has gone through."""
        return _coarsest(self.coarse.precision(config), self.exact.precision(config))

    def oracle(self, run: Run, label: str) -> SummedOracle:
        """Return the oracle of the sum."""
        return self._summed(self.coarse.oracle(run, label), run)

    def cached_oracle(self, run: Run) -> SummedOracle:
        """Return its oracle for a `fit`, which keeps finished tiles."""
        return self._summed(self.coarse.cached_oracle(run), run)

    def stream(
        self,
        rows: NDArray[Any],
        diag: FloatArray,
        run: Run,
        width: int | None = None,
        *,
        needs_diag: bool = True,
    ) -> Stream:
        """Yield covariances of new samples, as `KernelPrior.stream` does."""
        features = run.tensor(self.features)
        done = 0
        blocks = self.coarse.stream(rows, diag, run, width, needs_diag=needs_diag)
        for cross, prior in blocks:
            part = slice(done, done + len(cross))
            lifted, variances = self._lifted(rows[part], run, needs_diag=needs_diag)
            done = part.stop
            yield (
                torch.addmm(cross, lifted, features.mT, beta=self.coarse_scale),
                self.coarse_scale * prior + variances,
            )

    def covariance(self, rows: NDArray[Any], run: Run, unit: float) -> Tensor:
        """Return covariances (n1, n1) of new samples with each other, in a unit."""
        coarse = self.coarse.covariance(rows, run, unit)
        lifted, variances = self._lifted(rows, run)
        added = lifted @ lifted.mT
        added.diagonal().copy_(variances)
        return self.coarse_scale * coarse + added / unit

    def pull(self, rows: NDArray[Any], sums: FloatArray, run: Run) -> FloatArray:
        """Return the derivatives by new samples of sums over covariances."""
        gradient = self.coarse.pull(rows, sums, run)
        anchored = sums @ self.features @ self.lift_map.T
        return self.coarse_scale * gradient + self.exact.pull(rows, anchored, run)

    def _summed(self, oracle: KernelOracle, run: Run) -> SummedOracle:
        features, residual_diag = (
            run.tensor(self.features),
            run.tensor(self.residual_diag),
        )
        return SummedOracle(oracle, self.coarse_scale, features, residual_diag)

    def _lifted(
        self, rows: NDArray[Any], run: Run, *, needs_diag: bool = True
    ) -> tuple[Tensor, Tensor]:
        """Return features (n1, r) of new samples, and their prior variances (n1,).

        Features may explain more than the prior variance; it is then raised to that.
        """
        lift_map = run.tensor(self.lift_map)
        exact, none = self.exact, np.empty(0)
        stream = exact.stream(rows, none, run.quiet(), needs_diag=needs_diag)
        blocks = [(cross @ lift_map, self.scale * prior) for cross, prior in stream]
        lifted, variances = map(torch.cat, zip(*blocks, strict=True))
        return lifted, torch.maximum(variances, lifted.square().sum(1))


# Estimators make a plain prior; planning may turn it into a sum.
PlainPrior: TypeAlias = KernelPrior | MatrixPrior
Prior: TypeAlias = PlainPrior | SummedPrior
AnyPrior: TypeAlias = "Prior | ExpansionPrior | PartsPrior | PatchPrior"


def _coarsest(*dtypes: torch.dtype) -> torch.dtype:
    return torch.float32 if torch.float32 in dtypes else torch.float64


def _rows_at_once(width: int, config: ComputeConfig) -> int:
    return stream_rows(width, config.solve_dtype.itemsize, config.memory_budget)
