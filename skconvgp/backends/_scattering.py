"""Scattering coefficients by the compiled extension."""

from collections.abc import Sequence

import torch
from torch import Tensor

from skconvgp.backends import _fused_cpu

__all__ = ["ScatteringTables", "can_scatter"]

LARGEST = 256  # pixels of a padded side


def can_scatter(images: Tensor, padded: tuple[int, int]) -> bool:
    """Return whether the extension can scatter images that are padded to a size."""
    is_differentiated = torch.is_grad_enabled() and images.requires_grad
    return (
        images.device.type == "cpu"
        and images.dtype == torch.float32
        and not is_differentiated
        and max(padded) <= LARGEST
        and _fused_cpu.has_scattering()
    )


class ScatteringTables:
    """What the extension needs to scatter images of one size.

    A padded image has the rows `row_of` and the columns `column_of` of an image with
    the shape `size`. `rows` and `columns` are the matrices of averages for each level
    i: images at every 2^i-th pixel. `waves` are the wavelets (4^(j - i), l, m', n') of
    scale j for level i, in the order of j and then of i. All tables are float64.
    """

    def __init__(
        self,
        size: tuple[int, int],
        row_of: Tensor,
        column_of: Tensor,
        rows: Sequence[Tensor],
        columns: Sequence[Tensor],
        waves: Sequence[Tensor],
        order: int,
    ) -> None:
        self._bank = _fused_cpu.scattering_bank(
            *size,
            waves[0].shape[1],
            order,
            *(one.to(torch.int32).contiguous() for one in (row_of, column_of)),
            *([one.contiguous() for one in side] for side in (rows, columns, waves)),
        )

    def write(self, images: Tensor, units: Tensor, out: Tensor) -> None:
        """Write the coefficients `out` (n, k, h', w') of images (n, h, w), in float32.

        They are computed of images in their units (n,), powers of 2.
        """
        given = images.detach().contiguous()
        self._bank.scatter(given, units, out, _fused_cpu.INSTRUCTION_SET)
