"""Windows of a convolution along one axis of a map."""

from dataclasses import dataclass, replace
from functools import lru_cache
from numbers import Integral

import numpy as np
import torch
from torch import Tensor

from skconvgp._tensors import int_range
from skconvgp.kernels._steps import Steps

__all__ = ["Axis", "windows_along"]


@dataclass(frozen=True)
class Axis:
    """Inputs that each output of a convolution sums, along one axis."""

    size: int  # number of positions of the map
    kernel: int  # number of elements of a window
    stride: int  # distance between windows
    before: int  # positions that are added before the first one
    after: int  # positions that are added after the last one
    dilation: int  # distance between elements of a window
    # Whether positions wrap around; otherwise the added ones are zero.
    is_circular: bool

    @property
    def n_outputs(self) -> int:
        """Number of windows."""
        span = self.dilation * (self.kernel - 1)
        return (self.size + self.before + self.after - span - 1) // self.stride + 1

    @property
    def is_identity(self) -> bool:
        """Whether each window is the position itself."""
        padded = self.before or self.after
        return self.kernel == 1 and self.stride == 1 and not padded

    @property
    def is_box(self) -> bool:
        """Whether running sums along the map cover all windows with little overhead."""
        lead = self.kernel - 1 - self.before
        tail = self.n_outputs - self.size + lead
        is_plain = self.stride == self.dilation == 1 and not self.is_circular
        return is_plain and lead >= 0 and 0 <= tail < self.kernel

    @property
    def reaches_all(self) -> bool:
        """Whether each position is in at least one window."""
        is_reached = np.zeros(self.size, dtype=bool)
        starts = self._element_positions()
        for start in starts[np.argsort(np.abs(starts))].tolist():  # 0 may reach all
            if self.is_circular:
                covered = start + self.stride * np.arange(self.n_outputs)
                is_reached[covered % self.size] = True
            else:
                first = start % self.stride if start < 0 else start
                stop = start + self.stride * (self.n_outputs - 1) + 1
                is_reached[first : max(stop, 0) : self.stride] = True
            if is_reached.all():
                return True
        return False

    @property
    def has_idle_elements(self) -> bool:
        """Whether windows are longer than the map, and an element never lies on it.

        A map of one position, as vectors have, takes any window.
        """
        offsets = np.arange(self.kernel) * self.dilation - self.before
        is_short = offsets[-1] - offsets[0] < self.size
        if self.is_circular or self.size == 1 or is_short:
            return False
        first = np.maximum(-(offsets // self.stride), 0)  # window where it is past 0
        is_on_map = offsets + first * self.stride < self.size
        return not ((first < self.n_outputs) & is_on_map).all()

    @property
    def hits(self) -> int:
        """Number of elements of the first window that fall on the first position."""
        taps = np.arange(self.kernel) * self.dilation - self.before
        return int(((taps % self.size if self.is_circular else taps) == 0).sum())

    def matrix(self, like: Tensor) -> Tensor:
        """Return the sums as a matrix (n_outputs, size) of zeros and counts."""
        return _axis_matrix(self, like.dtype, like.device)

    def paired_matrix(self, like: Tensor, steps: Steps, *, is_cyclic: bool) -> Tensor:
        """Return the sums of maps of pairs, a matrix with one block for each step.

        The steps are between positions of the input, which wrap around if `is_cyclic`.
        `like` has the dtype and the device of the matrix.
        """
        return _paired_matrix(self, like.dtype, like.device, steps, is_cyclic)

    def _element_positions(self) -> np.ndarray:
        """Return the different positions of the elements of the first window."""
        positions = np.arange(self.kernel) * self.dilation - self.before
        return np.unique(positions % self.size) if self.is_circular else positions


@lru_cache(maxsize=256)
def _axis_matrix(axis: Axis, dtype: torch.dtype, device: torch.device) -> Tensor:
    # The first window is counted once for each position: an array of all elements of
    # all windows may be much larger than the map.
    outputs = int_range(axis.n_outputs, device)[:, None] * axis.stride
    inputs = int_range(axis.size, device)[None, :]
    offset = inputs - outputs + axis.before  # seen from the first element
    if axis.is_circular:
        taps = int_range(axis.kernel, device) * axis.dilation
        counts = torch.bincount(taps % axis.size, minlength=axis.size)
        return counts[offset % axis.size].to(dtype)
    tap = offset.div(axis.dilation, rounding_mode="floor")
    is_covered = (offset == tap * axis.dilation) & (tap >= 0) & (tap < axis.kernel)
    return is_covered.to(dtype)


@lru_cache(maxsize=1024)
def _paired_matrix(
    axis: Axis,
    dtype: torch.dtype,
    device: torch.device,
    steps: Steps,
    is_cyclic: bool,
) -> Tensor:
    if not is_cyclic:
        # The pairs of a step are the positions of a smaller image.
        axes = [replace(axis, size=axis.size - abs(step)) for step in steps]
        return _joined([_axis_matrix(one, dtype, device) for one in axes])
    whole = _axis_matrix(axis, dtype, device)
    if axis.is_circular:
        return _joined([whole] * len(steps))
    # Zeros around the image: no window holds pairs of both sides of the seam.
    inputs = int_range(axis.size, device)
    outputs = int_range(axis.n_outputs, device) * axis.stride
    blocks = []
    for step in steps:
        is_over = outputs[:, None] + step >= axis.size, inputs + step >= axis.size
        blocks.append(whole * (is_over[0] == is_over[1]))
    return _joined(blocks)


def _joined(blocks: list[Tensor]) -> Tensor:
    if len(blocks) == 1:
        return blocks[0]
    return torch.block_diag(*blocks)  # type: ignore[no-any-return, no-untyped-call]


def windows_along(
    size: int, kernel: int, *, stride: int, padding: str | int, dilation: int
) -> Axis:
    """Return the windows along an axis of `size` positions, padded as in `Conv2d`."""
    span = dilation * (kernel - 1)
    before = dilation * ((kernel - 1) // 2)
    after = span - before
    if isinstance(padding, Integral):
        before = after = int(padding)
    elif padding == "valid":
        before = after = 0
    is_circular = isinstance(padding, str) and padding == "circular"
    return Axis(size, kernel, stride, before, after, dilation, is_circular)
