"""How close is close: one table, by precision."""

from dataclasses import dataclass

import numpy as np
import torch


@dataclass(frozen=True)
class Tolerance:
    """Largest error, as a share of the largest value expected."""

    rounding: float  # the same formula, evaluated in another order
    solve: float  # after a linear solve
    root: float  # an angle or a distance that is zero: the root of rounding errors


TOLERANCES = {
    torch.float64: Tolerance(rounding=1e-12, solve=1e-9, root=1e-7),
    torch.float32: Tolerance(rounding=1e-5, solve=1e-3, root=4e-3),
}


def assert_close(actual, expected, dtype=torch.float64, kind="rounding"):
    """Compare arrays or tensors by the largest error."""
    actual = np.asarray(actual, dtype=np.float64)
    expected = np.asarray(expected, dtype=np.float64)
    assert actual.shape == expected.shape
    scale = np.abs(expected).max(initial=0.0)
    allowed = getattr(TOLERANCES[dtype], kind) * scale
    np.testing.assert_allclose(actual, expected, rtol=0.0, atol=allowed)
