"""The head of `BinaryEncoder`, which decodes codes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._typing import FloatArray
from skconvgp.engine import slices, thaw, to_numpy, to_tensor
from skconvgp.networks import CodeFeatures

HOST = torch.device("cpu")
# Numbers of a layer, or of features, that are held at once.
BLOCK = 2**22


@dataclass(frozen=True)
class CodeHead:
    """The head that decodes codes: features, and a linear function of them."""

    features: CodeFeatures  # of codes; tensors are arrays
    coef: FloatArray  # (r, k)
    intercept: FloatArray  # values (k,) for features of zero
    # Penalty of the squares of the coefficients, chosen by leave-one-out errors.
    alpha: float
    # Whether there is one target for each code, without a dimension of outputs.
    is_single: bool

    def outputs(self, codes: NDArray[np.uint8]) -> FloatArray:
        """Return the outputs (n, k) of codes (n, n_bits)."""
        features: CodeFeatures = thaw(self.features, HOST)
        outputs = np.empty((len(codes), len(self.intercept)))
        for block in slices(len(codes), max(1, BLOCK // features.n_features)):
            values = features(to_tensor(codes[block], HOST, torch.float64))
            outputs[block] = to_numpy(values) @ self.coef + self.intercept
        return outputs


def unit_scale(features: CodeFeatures, codes: Tensor) -> float:
    """Return the number that gives features the mean length 1."""
    size = max(1, BLOCK // features.n_features)
    lengths = [features(block).norm(dim=1) for block in torch.split(codes, size)]
    mean = float(torch.cat(lengths).mean())
    return 1.0 / mean if mean > 0.0 else 1.0
