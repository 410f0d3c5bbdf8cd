"""Capabilities that classes of kernels and layers may have."""

from typing import Any, cast

import torch
from torch import Generator, Tensor

from skconvgp._typing import ImageShape
from skconvgp.kernels._map_layer import MapLayer
from skconvgp.kernels._windows import Axis

__all__ = [
    "are_alike",
    "capability",
    "is_mirrored",
    "is_of_package",
    "is_turn_invariant",
    "require_mirrored",
    "require_symmetric",
    "sample_network",
]


def is_of_package(cls: type) -> bool:
    """Return whether a class is part of this package."""
    return cls.__module__.startswith("skconvgp.")


def capability(part: object, name: str) -> Any:
    """Return an attribute by which a class says what its formula allows, or None.

    What a third party's class inherits from this package says nothing of what it
    computes itself.
    """
    cls = type(part)
    others = (base for base in cls.__mro__ if not is_of_package(base))
    if is_of_package(cls) or any(name in vars(base) for base in others):
        return getattr(part, name, None)
    return None


def require_mirrored(kernel: object, shape: ImageShape) -> None:
    """Raise a ValueError that names the part whose covariances flips change.

    The shape is the images' or, for a layer, its map's. Layers that do not distinguish
    positions need no `check_flips`.
    """
    check_flips = capability(kernel, "check_flips")
    if check_flips is not None:
        check_flips(shape)
    elif not isinstance(kernel, MapLayer) or kernel.is_spatial:
        raise ValueError(
            f"whether flips change the covariances of {kernel!r} is not known."
        )


def is_mirrored(kernel: object, shape: ImageShape) -> bool:
    """Return whether flips of both images are known to change nothing."""
    try:
        require_mirrored(kernel, shape)
    except ValueError:
        return False
    return True


def is_turn_invariant(kernel: object, shape: ImageShape) -> bool:
    """Return whether turns and flips of both images are known to change nothing.

    The shape is of square images or, for a layer, its map's. Layers that do not
    distinguish positions need no `is_turn_invariant`.
    """
    answer = capability(kernel, "is_turn_invariant")
    if answer is not None:
        return bool(answer(shape))
    return isinstance(kernel, MapLayer) and not kernel.is_spatial


def are_alike(axes: tuple[Axis, Axis]) -> bool:
    """Return whether windows lie alike from each of the four sides of a map."""
    rows, cols = axes
    return rows == cols and is_symmetric(cols)


def is_symmetric(axis: Axis) -> bool:
    """Return whether windows along an axis of a map are symmetric."""
    windows = axis.matrix(torch.zeros((), dtype=torch.float32, device="cpu"))
    return torch.equal(windows, windows.flip(0, 1))


def require_symmetric(layer: object, axis: Axis, remedy: str) -> None:
    """Raise a ValueError unless windows along the columns of a map are symmetric."""
    if is_symmetric(axis):
        return
    windows = axis.matrix(torch.zeros((), dtype=torch.float32, device="cpu"))
    n_dropped = int((windows.sum(0) == 0).sum())
    dropped = f" and leave out {n_dropped} of its columns" if n_dropped else ""
    raise ValueError(
        f"{layer!r}: its {axis.n_outputs} windows do not lie symmetrically on a map of "
        f"width {axis.size}{dropped}. {remedy}"
    )


def sample_network(
    network: object, images: Tensor, *, width: int, generator: Generator
) -> Tensor:
    """Draw the weights of a finite network, and apply it to images (n, c, h, w).

    Every layer has `width` channels, the last included. The outputs (n, width, h, w) of
    a network that ends in an affine layer are `width` draws from the (nearly Gaussian)
    process at the images. Layers with weights have a method `sample`, others the
    `function` that they apply to maps.
    """
    if hasattr(network, "sample"):
        drawn = network.sample(images, width=width, generator=generator)
        return cast(Tensor, drawn)
    if not hasattr(network, "function"):
        raise TypeError(f"{network!r} has no finite twin.")
    return cast(Tensor, network.function(images))
