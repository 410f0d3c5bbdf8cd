"""Features of binary codes, which the head of an encoder reads.

The head is linear in them. They are random features of a kernel, the bits themselves,
or what a function returns that nobody differentiates, such as a device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._protocols import BitFeatureMap, FeatureMap
from skconvgp.engine import to_numpy, to_tensor

__all__ = ["BlackBox", "CodeFeatures", "KernelCodes", "SignedCodes"]


class CodeFeatures(Protocol):
    """Features of codes."""

    @property
    def n_features(self) -> int:
        """Number r of features of a code."""
        ...

    def __call__(self, codes: Tensor, /) -> Tensor:
        """Return the features (..., r) of codes (..., n_bits) of zeros and ones."""
        ...

    def mean(self, probabilities: Tensor, /) -> Tensor | None:
        """Return the mean features (n, r) of bits that are 1 with probabilities.

        None if it has no closed form.
        """
        ...


@dataclass(frozen=True)
class KernelCodes:
    """Features of a kernel, times the number `scale`."""

    features: FeatureMap
    scale: float = 1.0

    @property
    def n_features(self) -> int:
        """Number r of features of a code."""
        return self.features.n_features

    def __call__(self, codes: Tensor) -> Tensor:
        """Return the features (..., r) of codes (..., n_bits)."""
        values = self.features(codes.reshape(-1, codes.shape[-1], 1, 1))
        return self.scale * values.reshape(*codes.shape[:-1], -1)

    def mean(self, probabilities: Tensor) -> Tensor | None:
        """Return the mean features (n, r) of random bits, or None."""
        if not isinstance(self.features, BitFeatureMap):
            return None
        values = self.features.mean_of_bits(probabilities)
        return None if values is None else self.scale * values


@dataclass(frozen=True)
class SignedCodes:
    """The bits themselves, as -1 and 1."""

    n_features: int  # number of bits

    def __call__(self, codes: Tensor) -> Tensor:
        """Return the features (..., n_bits) of codes (..., n_bits)."""
        return 2.0 * codes - 1.0

    def mean(self, probabilities: Tensor) -> Tensor:
        """Return the mean features (n, n_bits) of random bits."""
        return self(probabilities)


class BlackBox:
    """Features that a function of arrays returns, times the number `scale`.

    For codes (n, n_bits) of type uint8 the function returns an array (n, n_features) of
    finite numbers.
    """

    def __init__(
        self,
        function: Callable[[NDArray[Any]], Any],
        n_features: int,
        scale: float = 1.0,
    ) -> None:
        self.function, self.n_features, self.scale = function, n_features, scale

    def __call__(self, codes: Tensor) -> Tensor:
        """Return the features (..., r) of codes (..., n_bits)."""
        bits = to_numpy(codes.reshape(-1, codes.shape[-1])).astype(np.uint8)
        values = np.asarray(self.function(bits), dtype=np.float64)
        expected = (len(bits), self.n_features)
        if values.shape != expected:
            raise ValueError(
                f"`head` returned an array of shape {values.shape!r} for codes of "
                f"shape {bits.shape!r}, and must return {expected!r}."
            )
        if not np.isfinite(values).all():
            raise ValueError("`head` returned features that are NaN or infinite.")
        features = to_tensor(values, codes.device, codes.dtype)
        return self.scale * features.reshape(*codes.shape[:-1], -1)

    def mean(self, probabilities: Tensor) -> None:
        """Return None: the mean is not known."""
