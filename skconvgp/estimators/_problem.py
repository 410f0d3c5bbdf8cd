"""What latent functions are fitted to, and which samples have equal inputs."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from skconvgp._typing import FloatArray
from skconvgp.estimators._validation import rows_to_tensor, to_numpy
from skconvgp.inference import EqualInputs

__all__ = ["Problem"]


@dataclass(frozen=True)
class Problem:
    """What latent functions are fitted to; targets have mean 0.

    Parameters
    ----------
    rows : ndarray of shape (n, d)
        Training inputs; the Gram matrix (n, n) if precomputed.
    targets : ndarray of shape (n, k)
        Targets divided by `scale`.
    weights : ndarray of shape (n,)
        Sample weights, > 0.
    scale : ndarray of shape (k,)
        Units of the targets.
    codes : ndarray of shape (n,), optional
        Class codes, where there are classes.
    """

    rows: NDArray[Any]
    targets: FloatArray
    weights: FloatArray
    scale: FloatArray
    codes: NDArray[Any] | None = None

    @cached_property
    def inputs(self) -> EqualInputs:
        """Which samples have equal inputs."""
        return _equal_inputs(self.rows)

    @cached_property
    def left(self) -> FloatArray:
        """Weight (n,) that is left out with each sample."""
        weights = rows_to_tensor(self.weights)
        totals = self.inputs.sum(weights)[self.inputs.of]
        return to_numpy(totals - self.inputs.staying(weights))

    def take(self, numbers: NDArray[Any], *, is_precomputed: bool) -> Self:
        """Return the problem of some of the samples."""
        both = np.ix_(numbers, numbers) if is_precomputed else numbers
        return type(self)(
            self.rows[both],
            self.targets[numbers],
            self.weights[numbers],
            self.scale,
            None if self.codes is None else self.codes[numbers],
        )


def _equal_inputs(rows: NDArray[Any]) -> EqualInputs:
    numbers: dict[int, int] = {}
    of = []
    for row in rows:
        digest = hash((row + 0.0).tobytes())  # -0.0 is 0.0
        of.append(numbers.setdefault(digest, len(numbers)))
    return EqualInputs(torch.tensor(of))
