"""Per-image tables: computed for slices of the images, and kept if memory allows."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from skconvgp._config import ComputeConfig
from skconvgp._protocols import TileBackend, TileRunner
from skconvgp._typing import Prepared
from skconvgp.engine._devices import on_device

__all__ = ["ImagesPart", "Tables"]


@dataclass(frozen=True)
class ImagesPart:
    """A slice of the images, on the host until a job needs it."""

    images: Tensor  # (b, c, h, w), a view
    config: ComputeConfig  # device and precision of the tables

    def load(self) -> Tensor:
        """Return the images on the device."""
        return self.images.to(self.config.device, self.config.dtype)


class Tables:
    """Tables of images (n, c, h, w), computed block by block when they are asked for.

    The images are on the host. `config` has the device and the precision of the tables.
    """

    def __init__(
        self, backend: TileBackend, images: Tensor, config: ComputeConfig
    ) -> None:
        self.images = images
        self._backend = backend
        self._config = config
        self._kept: dict[tuple[int, int], Prepared] = {}
        # Jobs of the same part share one view, so that it is sent to a worker once.
        self._parts: dict[tuple[int, int], ImagesPart] = {}

    def keep(self, parts: list[slice], runner: TileRunner) -> None:
        """Compute and keep the tables of these slices of the images; drop others."""
        keys = [(part.start, part.stop) for part in parts]
        self._kept = {key: self._kept[key] for key in keys if key in self._kept}
        jobs = (
            partial(_prepare_part, self._backend, key, self._part(part))
            for key, part in zip(keys, parts, strict=True)
            if key not in self._kept
        )
        for key, prepared in runner(jobs):
            self._kept[key] = prepared

    def source(self, part: slice) -> Callable[[], Prepared]:
        """Return a callable that gives a job its tables: kept or computed in the job.

        Tables that are not kept therefore exist only for blocks in work, not for blocks
        that wait.
        """
        key = (part.start, part.stop)
        if key in self._kept:
            return partial(_on_device, self._kept[key], self._config.device)
        return partial(_prepare, self._backend, self._part(part))

    def _part(self, part: slice) -> ImagesPart:
        key = (part.start, part.stop)
        if key not in self._parts:
            self._parts[key] = ImagesPart(self.images[part], self._config)
        return self._parts[key]


def _prepare(backend: TileBackend, part: ImagesPart) -> Prepared:
    with torch.no_grad(), on_device(part.config.device):
        return backend.prepare(part.load())


def _prepare_part(
    backend: TileBackend, key: tuple[int, int], part: ImagesPart
) -> tuple[tuple[int, int], Prepared]:
    return key, _prepare(backend, part)


def _on_device(prepared: Prepared, device: torch.device) -> Prepared:
    """Return tables on a device; tables on another GPU are copied."""
    if prepared is None:
        return None
    if isinstance(prepared, tuple):
        return tuple(_on_device(branch, device) for branch in prepared)
    return prepared.to(device)
