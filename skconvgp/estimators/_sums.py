"""BaseSummedGP: the sum of a kernel of all pairs and of one that is completed."""

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._protocols import CompletedGram
from skconvgp._typing import FloatArray
from skconvgp.engine import KernelOracle, MatrixOracle, SummedOracle
from skconvgp.estimators._exact import BaseExactGP
from skconvgp.estimators._inputs import Work
from skconvgp.estimators._place import Place
from skconvgp.estimators._resolve import DTYPES, resolve_dtype
from skconvgp.estimators._validation import to_numpy, to_tensor
from skconvgp.inference import LeaveOneOut
from skconvgp.kernels import Kernel

__all__ = ["BaseSummedGP", "ExactPart"]


@dataclass(frozen=True)
class ExactPart:
    """The kernel of a sum whose matrix is completed, beside a coarse one.

    Parameters
    ----------
    kernel : Kernel
        Looks at images as they are.
    dtype : str
        Precision of its tiles.
    rows : ndarray of shape (m, d)
        The anchors.
    lift_map : ndarray of shape (m, r)
        Takes covariances with the anchors to features.
    features : ndarray of shape (n, r)
        Those of the training samples.
    rest : ndarray of shape (n,)
        What features leave out of the prior variances.
    scale, coarse_scale : float
        Factors of this kernel and of the coarse one in the sum; features and what they
        leave out have it already.
    """

    kernel: Kernel
    dtype: str
    rows: NDArray[Any]
    lift_map: FloatArray
    features: FloatArray
    rest: FloatArray
    scale: float
    coarse_scale: float

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        dtype: torch.dtype,
        rows: NDArray[Any],
        completed: CompletedGram,
        diag: Tensor,
        *,
        scale: float,
        coarse_scale: float,
    ) -> Self:
        """Return what is kept of a completion, whose factor is scaled in place."""
        features = completed.factor.mul_(math.sqrt(scale))
        rest = (scale * diag - features.square().sum(1)).clamp(min=0.0)
        return cls(
            kernel,
            str(dtype).removeprefix("torch."),
            rows[to_numpy(completed.anchors)],
            to_numpy(completed.lift_map) * math.sqrt(scale),
            to_numpy(features),
            to_numpy(rest),
            scale,
            coarse_scale,
        )


class BaseSummedGP(BaseExactGP):
    """An exact process of a kernel, or of the sum of it and of a completed one."""

    # Of a fit to a sum; None otherwise.
    _exact_part: ExactPart | None = None

    def _validate_fit(self, X: Any, y: Any, **options: Any) -> tuple[Any, Any]:
        self._exact_part = None  # of another fit
        return super()._validate_fit(X, y, **options)

    def _training_oracle(
        self, rows: NDArray[Any], work: Work
    ) -> KernelOracle | MatrixOracle | SummedOracle:
        oracle, part = super()._training_oracle(rows, work), self._exact_part
        if part is None:
            return oracle
        assert isinstance(oracle, KernelOracle)
        features, rest = self._parts_at(work, part.features, part.rest)
        return SummedOracle(oracle, part.coarse_scale, features, rest)

    def _stream(
        self, rows: NDArray[Any], diag: Any, work: Work, *, needs_var: bool
    ) -> Iterator[tuple[Tensor, Tensor]]:
        blocks = super()._stream(rows, diag, work, needs_var=needs_var)
        part = self._exact_part
        if part is None:
            yield from blocks
            return
        (features,) = self._parts_at(work, part.features)
        done = 0
        for cross, prior in blocks:
            some = slice(done, done + len(cross))
            lifted, own = self._lifted(rows[some], work, part)
            done = some.stop
            yield (
                torch.addmm(cross, lifted, features.mT, beta=part.coarse_scale),
                part.coarse_scale * prior + own,
            )

    def _prior_covariance(self, rows: NDArray[Any], work: Work) -> Tensor:
        prior, part = super()._prior_covariance(rows, work), self._exact_part
        if part is None:
            return prior
        lifted, own = self._lifted(rows, work, part)
        added = lifted @ lifted.mT
        added.diagonal().copy_(own)
        return part.coarse_scale * prior + added / self._mean_diag

    def _closed_form_loo(
        self, inverse_diag: Tensor, numbers: NDArray[np.intp]
    ) -> LeaveOneOut:
        loo, part = super()._closed_form_loo(inverse_diag, numbers), self._exact_part
        if part is None:
            return loo
        rest = to_tensor(part.rest[numbers], loo.var.device, loo.var.dtype)
        return LeaveOneOut(loo.mean, loo.var + rest / self._mean_diag)

    def _gram_precision(self, rows: NDArray[Any], work: Work) -> torch.dtype:
        if self._exact_part is not None and self._exact_part.dtype == "float32":
            return torch.float32
        return super()._gram_precision(rows, work)

    def _pull_to_inputs(self, rows: Any, sums: FloatArray, place: Place) -> FloatArray:
        gradient, part = super()._pull_to_inputs(rows, sums, place), self._exact_part
        if part is None:
            return gradient
        anchored = sums @ part.features @ part.lift_map.T
        exact = self._seen_by(part)._pull_to_inputs(rows, anchored, place)
        return part.coarse_scale * gradient + exact

    def _lifted(
        self, rows: NDArray[Any], work: Work, part: ExactPart
    ) -> tuple[Tensor, Tensor]:
        """Return features (n, r) of new samples, and their prior variances (n,).

        Features may explain more than there is; then it is theirs.
        """
        exact = self._seen_by(part)
        config = replace(work.config, dtype=DTYPES[part.dtype])
        choice = exact._choose(config.device, is_fitting=False)
        quiet = replace(work, config=config, choice=choice, verbose=0)
        (lift_map,) = self._parts_at(work, part.lift_map)
        found = [
            (cross @ lift_map, part.scale * prior)
            for cross, prior in exact._stream(rows, None, quiet, needs_var=True)
        ]
        lifted, variances = map(torch.cat, zip(*found, strict=True))
        return lifted, torch.maximum(variances, lifted.square().sum(1))

    def _seen_by(self, part: ExactPart) -> Self:
        """Return the process as one of the completed kernel and its anchors."""
        exact = self._of_whole_images(part.kernel)
        exact.dtype_ = part.dtype
        exact.X_train_, exact.dual_coef_ = part.rows, part.lift_map
        return exact

    def _work_of(self, kernel: Kernel, work: Work) -> Work:
        """Return how to compute another kernel of whole images in `fit`."""
        device = work.config.device
        choice = self._of_whole_images(kernel)._choose(device, is_fitting=True)
        assert choice is not None
        dtype = resolve_dtype(self, self.dtype, device, choice.name)
        return replace(work, config=replace(work.config, dtype=dtype), choice=choice)

    def _of_whole_images(self, kernel: Kernel) -> Self:
        """Return the process as one of another kernel alone, without pooling."""
        exact = copy.copy(self)
        exact.kernel_, exact.pool_ = kernel, 1
        exact._exact_part, exact._is_label_model = None, False
        return exact

    def _parts_at(self, work: Work, *arrays: FloatArray) -> list[Tensor]:
        """Return arrays as tensors where, and in what, systems are solved."""
        config = work.config
        return [to_tensor(one, config.device, config.solve_dtype) for one in arrays]
