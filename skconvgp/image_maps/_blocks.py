"""ImageBlocks: images that a fit reads a block at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from skconvgp.engine import slices

__all__ = ["ImageBlocks"]


@dataclass(frozen=True)
class ImageBlocks:
    """Images, of which a block at a time is on a device in double precision."""

    images: Tensor  # (n, c, h, w), on any device
    device: torch.device  # the device that computes with the blocks
    n_at_once: int  # number of images in a block

    @property
    def parts(self) -> list[slice]:
        """Ranges of the images of each block."""
        return slices(len(self.images), self.n_at_once)

    def __getitem__(self, part: slice) -> Tensor:
        """Return images (b, c, h, w) of a range."""
        return self.images[part].to(self.device, torch.float64)

    def __iter__(self) -> Iterator[Tensor]:
        """Yield the blocks (b, c, h, w)."""
        for part in self.parts:
            yield self[part]
