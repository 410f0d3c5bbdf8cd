"""Windows of a convolution along one axis of a map."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

__all__ = ["Axis"]


@dataclass(frozen=True)
class Axis:
    """Which inputs each output of a convolution adds up, along one axis.

    Parameters
    ----------
    size : int
        Positions of the map.
    kernel, stride, dilation : int
        Elements of a window, distance of windows, distance of elements.
    before, after : int
        Positions added before the first and after the last.
    is_circular : bool
        Whether positions wrap around; otherwise those added are zero.
    """

    size: int
    kernel: int
    stride: int
    before: int
    after: int
    dilation: int
    is_circular: bool

    @property
    def n_outputs(self) -> int:
        """How many windows there are."""
        span = self.dilation * (self.kernel - 1)
        return (self.size + self.before + self.after - span - 1) // self.stride + 1

    @property
    def is_identity(self) -> bool:
        """Whether each window is the position itself."""
        padded = self.before or self.after
        return self.kernel == 1 and self.stride == 1 and not padded

    @property
    def is_box(self) -> bool:
        """Whether running sums along the map pass all windows, and little more."""
        lead = self.kernel - 1 - self.before
        tail = self.n_outputs - self.size + lead
        is_plain = self.stride == self.dilation == 1 and not self.is_circular
        return is_plain and lead >= 0 and 0 <= tail < self.kernel

    @property
    def reaches_all(self) -> bool:
        """Whether each position is in a window."""
        is_reached = np.zeros(self.size, dtype=bool)
        starts = self._places()
        for start in starts[np.argsort(np.abs(starts))].tolist():  # 0 may reach all
            if self.is_circular:
                seen = start + self.stride * np.arange(self.n_outputs)
                is_reached[seen % self.size] = True
            else:
                first = start % self.stride if start < 0 else start
                stop = start + self.stride * (self.n_outputs - 1) + 1
                is_reached[first : max(stop, 0) : self.stride] = True
            if is_reached.all():
                return True
        return False

    @property
    def hits(self) -> int:
        """Elements of the first window that see the first position."""
        taps = np.arange(self.kernel) * self.dilation - self.before
        return int(((taps % self.size if self.is_circular else taps) == 0).sum())

    def matrix(self, like: Tensor) -> Tensor:
        """Return the sums as a matrix (n_outputs, size) of zeros and counts."""
        return _axis_matrix(self, like.dtype, like.device)

    def _places(self) -> np.ndarray:
        """Return where the first window has its elements, without those alike."""
        places = np.arange(self.kernel) * self.dilation - self.before
        return np.unique(places % self.size) if self.is_circular else places


@lru_cache(maxsize=256)
def _axis_matrix(axis: Axis, dtype: torch.dtype, device: torch.device) -> Tensor:
    # How often the first window sees a place, by the place: no array of all elements of
    # all windows, which may be much larger than the map.
    outputs = torch.arange(axis.n_outputs, device=device)[:, None] * axis.stride
    inputs = torch.arange(axis.size, device=device)[None, :]
    place = inputs - outputs + axis.before  # seen from the first element
    if axis.is_circular:
        taps = torch.arange(axis.kernel, device=device) * axis.dilation
        counts = torch.bincount(taps % axis.size, minlength=axis.size)
        return counts[place % axis.size].to(dtype)
    tap = place.div(axis.dilation, rounding_mode="floor")
    is_seen = (place == tap * axis.dilation) & (tap >= 0) & (tap < axis.kernel)
    return is_seen.to(dtype)
