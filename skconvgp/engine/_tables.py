"""Per-image tables: sliced, counted, computed once for each image."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor

from skconvgp._config import ComputeConfig
from skconvgp._protocols import TileBackend
from skconvgp._typing import Prepared
from skconvgp.engine._plan import TileCosts

__all__ = ["ImagesPart", "Tables", "measure_costs", "take"]


@dataclass(frozen=True)
class ImagesPart:
    """Some of the images, on the host until a job needs them.

    Parameters
    ----------
    images : Tensor of shape (b, c, h, w)
        The images, a view.
    config : ComputeConfig
        Where to and in which precision.
    """

    images: Tensor
    config: ComputeConfig

    def load(self) -> Tensor:
        """Return the images on the device."""
        return self.images.to(self.config.device, self.config.dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave the other images behind: a view would take them to a process along."""
        return ImagesPart, (self.images.clone(), self.config)


class Tables:
    """Tables of a set of images, computed block by block when they are asked for.

    Parameters
    ----------
    backend : TileBackend
        Computes them.
    images : Tensor of shape (n, c, h, w)
        The images, on the host.
    config : ComputeConfig
        Where to and in which precision.
    """

    def __init__(
        self, backend: TileBackend, images: Tensor, config: ComputeConfig
    ) -> None:
        self.images = images
        self._backend = backend
        self._config = config
        self._kept: dict[tuple[int, int], Prepared] = {}

    def block(self, part: slice, *, keep: bool) -> Prepared:
        """Return the tables of a slice of the images; `keep` them for the next call."""
        key = (part.start, part.stop)
        if key in self._kept:
            return self._kept[key]
        prepared = _prepare(self._backend, self._part(part))
        if keep:
            self._kept[key] = prepared
        return prepared

    def source(self, part: slice, *, keep: bool) -> Callable[[], Prepared]:
        """Return what gives a job its tables: those kept, or its own computation.

        Tables that are not kept are so held by blocks in work, not by those that wait.
        """
        if keep:
            return partial(_given, self.block(part, keep=True))
        return partial(_prepare, self._backend, self._part(part))

    def _part(self, part: slice) -> ImagesPart:
        return ImagesPart(self.images[part], self._config)


def _prepare(backend: TileBackend, part: ImagesPart) -> Prepared:
    return backend.prepare(part.load())


def _given(prepared: Prepared) -> Prepared:
    return prepared


def take(prepared: Prepared, part: slice) -> Prepared:
    """Return the tables of a slice of images: a view."""
    if prepared is None:
        return None
    if isinstance(prepared, tuple):
        return tuple(take(branch, part) for branch in prepared)
    return prepared[..., part]


def measure_costs(
    backend: TileBackend, image: Tensor, config: ComputeConfig
) -> TileCosts:
    """Return what a kernel needs, read off the tables of one image (1, c, h, w)."""
    prepared = Tables(backend, image, config).block(slice(0, 1), keep=False)
    value = backend.cross(prepared, prepared)
    _, channels, height, width = image.shape
    map_values = backend.map_values((channels, height, width))
    return TileCosts(
        image_bytes=_count_bytes(prepared),
        map_bytes=map_values * config.dtype.itemsize,
        value_bytes=value.nbytes,
        value_shape=tuple(value.shape[2:]),
    )


def _count_bytes(prepared: Prepared) -> int:
    if isinstance(prepared, tuple):
        return sum(_count_bytes(branch) for branch in prepared)
    return 0 if prepared is None else prepared.nbytes
