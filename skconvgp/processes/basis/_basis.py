"""Basis: samples or features that new samples are compared with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._config import ComputeConfig
from skconvgp._typing import FloatArray, Rows
from skconvgp.processes._run import Run

# Blocks of new samples: what a basis gives for them (b, m), and prior variances (b,).
Stream: TypeAlias = Iterator[tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class NewRows:
    """New samples, given by their rows."""

    rows: Rows  # (n, d)
    diag: FloatArray | None = None  # prior variances (n,), read by a given matrix alone

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self.rows)


@dataclass(frozen=True)
class BasisReport:
    """Facts of a basis for the report of a fit."""

    backend: str  # "precomputed" for a given matrix
    dtype: torch.dtype  # of tiles, or of features
    backend_reason: str = ""
    instruction_set: str = ""
    n_position_pairs: int = 0  # of a pair of samples; 0 where none are compared


class Basis(ABC):
    """Training samples, anchors or features, m in number, to compare new samples with.

    A basis is a frozen dataclass with this class as its base. The abstract
    methods are its own; the others say what is usual.
    """

    # Whether prior variances of new samples follow from their rows.
    knows_variances: ClassVar[bool] = True
    # Whether its features never explain more than the prior variance.
    is_projection: ClassVar[bool] = False
    # Whether its values are covariances with samples, by one kernel that it evaluates.
    is_kernel: ClassVar[bool] = False
    # Whether its values are features, and not covariances.
    gives_features: ClassVar[bool] = False
    # Whether features of samples are read block by block, and never held for all.
    is_streamed: ClassVar[bool] = False
    # Whether its values are latent means: nothing else is left of a fit.
    gives_means: ClassVar[bool] = False
    # Whether further samples can follow its own, as `joined` does.
    is_joined: ClassVar[bool] = False
    # Whether no other backend ever computes it.
    is_by_torch: ClassVar[bool] = False

    @property
    @abstractmethod
    def n_samples(self) -> int:
        """The number m of samples, anchors or features that it gives values for."""

    @property
    @abstractmethod
    def tile_dtype(self) -> torch.dtype | None:
        """Precision of tiles or features; None if there are none."""

    @abstractmethod
    def stream(
        self, new: NewRows, run: Run, width: int = 0, *, needs_diag: bool = True
    ) -> Stream:
        """Yield values (b, m) and prior variances (b,) of new samples, block by block.

        Values are covariances with the m samples or anchors, or features. `width`
        numbers are held for each new sample, by default m. Variances that are not
        needed may be zeros.
        """

    @abstractmethod
    def covariance(self, rows: Rows, run: Run, unit: float) -> Tensor:
        """Return prior covariances (n1, n1) of new samples (n1, d), in a unit."""

    @abstractmethod
    def pull(self, rows: NDArray[Any], sums: FloatArray, run: Run) -> FloatArray:
        """Return derivatives (n1, d) by new samples of sums over their values.

        Row i of `sums` (n1, m) has the factors of the values of sample i.
        """

    @abstractmethod
    def precision(self, config: ComputeConfig) -> torch.dtype:
        """Return the coarsest precision that covariances have gone through."""

    @abstractmethod
    def report(self, run: Run) -> BasisReport:
        """Return the facts for the report of a fit."""

    def take(self, indices: NDArray[np.intp]) -> Any:  # noqa: ARG002  (keeps none)
        """Return the basis of some of its samples: itself, if it keeps none."""
        return self

    def joined(self, rows: NDArray[Any], run: Run) -> Any:
        """Return the basis of its samples, followed by further ones (n1, d).

        Beside it are the covariances (n1, m + n1) of these with all. If `is_joined`.
        """
        raise NotImplementedError

    def variances(self, rows: Rows, run: Run) -> Tensor:
        """Return prior variances (n1,) of new samples (n1, d)."""
        blocks = self.stream(NewRows(rows), run.quiet())
        return torch.cat([variances for _, variances in blocks])

    @property
    def has_random_features(self) -> bool:
        """Whether functions of its prior are drawn as sums of random features."""
        return False

    def fold(self, dual: FloatArray) -> Any:  # noqa: ARG002  (most gain nothing)
        """Return a `FoldedBasis` of means by dual coefficients (m, k); None for none.

        It gives means in less time than this one.
        """
        return None

    def quick(self) -> Any:
        """Return the basis for probabilities, whose digits are fewer."""
        return self

    def after_fit(self) -> Any:
        """Return the basis without what predictions do not read."""
        return self

    @property
    def kept_rows(self) -> NDArray[Any] | None:
        """Samples (m, d) that it keeps; None for none."""
        return None

    @property
    def kept_indices(self) -> NDArray[np.intp] | None:
        """Which samples of `fit` these are (m,); None for none."""
        return None

    @property
    def kernel_basis(self) -> Any:
        """The kernel that is evaluated, with samples or none; None for a matrix."""
        return None

    @property
    def compared(self) -> tuple[Any, ...]:
        """Kernels that are evaluated for each new sample, as `kernel_basis` is."""
        return ()

    @property
    def pool(self) -> float:
        """Side of the squares of pixels that are averaged first."""
        return 1.0 if self.kernel_basis is None else float(self.kernel_basis.pool)

    @property
    def left_out_diag(self) -> FloatArray | None:
        """Variances (n,) of new samples that the Gram matrix lacks; None for none."""
        return None

    def gram_of(
        self,
        rows: NDArray[Any],
        run: Run,
        unit: float,
        dtype: str | None = None,  # noqa: ARG002  (of tiles, if these are samples)
    ) -> Tensor:
        """Return prior covariances (n1, n1) of samples as a fit sees them."""
        return self.covariance(rows, run, unit)
