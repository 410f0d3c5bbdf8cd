"""An oracle for completions, whose entries lie on the host."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from skconvgp._typing import OnStep
from skconvgp.engine._evaluate import KernelOracle
from skconvgp.engine._precomputed import MatrixOracle

__all__ = ["SampleOracle"]

HOST = torch.device("cpu")


class SampleOracle:
    """Entries of a Gram matrix, with the points and the labels (n,) of its samples.

    Entries are copied to the host, where completions draw and index. A capability that
    is missing is not an attribute: a precomputed matrix has no ``points``, a regression
    no ``labels``. `precision` is the least precise dtype that the entries have been
    rounded to. `on_step` is called with (entries evaluated, entries allowed) after each
    block; `n_allowed` entries may be evaluated.
    """

    points: Callable[[], Tensor]
    labels: Callable[[], Tensor]

    def __init__(
        self,
        oracle: KernelOracle | MatrixOracle,
        precision: torch.dtype,
        on_step: OnStep,
        n_allowed: int,
        labels: Tensor | None = None,
    ) -> None:
        self.precision = precision
        self._oracle = oracle
        self._on_step = on_step
        self._n_allowed = n_allowed
        self._n_evaluated = 0
        if isinstance(oracle, KernelOracle):
            self.points = oracle.points
        if labels is not None:
            self.labels = lambda: labels

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self._oracle.n_samples

    def diag(self) -> Tensor:
        """Return the prior variances (n,)."""
        return self._oracle.diag().to(HOST)

    def block(self, rows: Tensor | None, cols: Tensor | None) -> Tensor:
        """Return the covariances (n1, n2) of samples given by index; None is all."""
        before, n = self._n_evaluated, self.n_samples
        size = math.prod(n if side is None else len(side) for side in (rows, cols))

        def report(done: int, total: int) -> None:
            self._n_evaluated = before + size * done // total
            self._on_step(min(self._n_evaluated, self._n_allowed), self._n_allowed)

        if isinstance(self._oracle, KernelOracle):
            values = self._oracle.block(rows, cols, report)
        else:
            values = self._oracle.block(rows, cols)
        if self._n_evaluated < before + size:  # what was read has no steps
            report(1, 1)
        return values.to(HOST)
