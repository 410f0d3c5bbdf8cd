"""Maps of images whose orbits an average runs over."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from skconvgp._protocols import Augmentation
from skconvgp._settings import is_int, one_of, shown
from skconvgp._tensors import integers
from skconvgp._typing import ImageShape

__all__ = [
    "FLIPS",
    "GROUPS",
    "TURNS",
    "flip",
    "has_inverse",
    "n_versions",
    "require_maps",
    "returned",
    "versions_of",
]

FLIPS, QUARTER_TURNS, SYMMETRIES = GROUPS = "flips", "quarter_turns", "symmetries"
TURNS = (QUARTER_TURNS, SYMMETRIES)
MOST_MAPS = 1000


def flip(images: Tensor) -> Tensor:
    """Return images (n, c, h, w) with left and right exchanged."""
    return images.flip(-1)


def versions_of(images: Tensor, maps: Any) -> list[Tensor]:
    """Return images (n, c, h, w), and what each map makes of them."""
    if maps is None:
        return [images]
    if isinstance(maps, str):
        turns = [images]
        if maps in TURNS:
            turns += [torch.rot90(images, i, (-2, -1)) for i in (1, 2, 3)]
        return turns if maps == QUARTER_TURNS else [*turns, *map(flip, turns)]
    if isinstance(maps, Augmentation):
        return [images, *maps.versions(images)]
    return [images, *(_mapped(images, one) for one in maps)]


def n_versions(maps: Any, shape: ImageShape) -> int:
    """Return how many versions there are of an image (c, h, w)."""
    image = torch.zeros((1, *shape), dtype=torch.float32, device="cpu")
    return len(versions_of(image, maps))


def has_inverse(maps: Any) -> bool:
    """Return whether it is known where the pixels of versions come from."""
    return maps is None or isinstance(maps, str)


def returned(values: list[Tensor], maps: Any) -> list[Tensor]:
    """Return maps (n, h, w) of all versions as maps of the images themselves."""
    n_turns = 4 if maps in TURNS else 1
    found = []
    for i, value in enumerate(values):
        upright = flip(value) if i >= n_turns else value
        found.append(torch.rot90(upright, -(i % n_turns), (-2, -1)))
    return found


def require_maps(maps: Any, shape: ImageShape) -> None:
    """Raise a ValueError that says why images (c, h, w) cannot be mapped."""
    if isinstance(maps, str):
        _require_group(maps, shape)
    elif isinstance(maps, Augmentation) and not isinstance(maps, type):
        maps.check(shape)
    elif not isinstance(maps, list | tuple) or not 0 < len(maps) <= MOST_MAPS:
        raise ValueError(
            f"`maps` must be {one_of(GROUPS)}, an object such as `Shift(1)` of "
            f"skconvgp.augmentation, or a list of at most {MOST_MAPS} functions or "
            f"permutations of pixels, got {shown(maps)}."
        )
    else:
        for i, one in enumerate(maps):
            require = _require_function if callable(one) else _require_permutation
            require(one, f"map {i} of `maps`", shape)


def _require_group(maps: str, shape: ImageShape) -> None:
    _, height, width = shape
    if maps not in GROUPS:
        raise ValueError(f"`maps` must be {one_of(GROUPS)}, got {maps!r}.")
    if width == 1:
        raise ValueError(
            f"maps={maps!r} moves pixels, and samples of shape {shape!r} (c, h, w) "
            "have a single column, as vectors have: pass images or set `image_shape`."
        )
    if maps in TURNS and height != width:
        raise ValueError(
            f"maps={maps!r} turns images, and those of shape {shape!r} (c, h, w) are "
            "not square: cut or pad them to squares, or take maps='flips'."
        )


def _require_permutation(given: Any, name: str, shape: ImageShape) -> None:
    items = given.tolist() if isinstance(given, np.ndarray | Tensor) else given
    sizes = math.prod(shape[1:]), math.prod(shape)
    if not (isinstance(items, Sequence) and all(is_int(one, 0) for one in items)):
        items = ()
    if len(items) not in sizes or sorted(items) != list(range(len(items))):
        raise ValueError(
            f"{name} must be a function of images, or have each of the numbers from 0 "
            f"to {sizes[0] - 1} once, one for each pixel of images of shape {shape!r} "
            f"(c, h, w), got {shown(given)}."
        )


def _require_function(function: Callable[[Tensor], Any], name: str, shape: Any) -> None:
    probe = torch.linspace(
        -1.0, 2.0, 2 * math.prod(shape), dtype=torch.float64, device="cpu"
    ).reshape(2, *shape)
    together, alone = function(probe), function(probe[:1])
    for made, wanted in ((together, probe), (alone, probe[:1])):
        if not isinstance(made, Tensor) or (made.shape, made.dtype) != (
            wanted.shape,
            wanted.dtype,
        ):
            kind = (
                f"tensor of shape {tuple(made.shape)!r} and {made.dtype}"
                if isinstance(made, Tensor)
                else type(made).__name__
            )
            raise ValueError(
                f"{name} must return a tensor of the shape and dtype of its images; "
                f"{function!r} made a {kind} of one of shape {tuple(wanted.shape)!r}."
            )
    if not torch.allclose(together[:1], alone, equal_nan=True):
        raise ValueError(
            f"{name} must map each image by itself, and {function!r} maps an image "
            "differently when there are others."
        )


def _mapped(images: Tensor, one: Any) -> Tensor:
    if callable(one):
        mapped: Tensor = one(images)
        return mapped
    order = integers(np.asarray(one)).to(images.device)
    start = 1 if len(order) == images[0].numel() else 2
    return images.flatten(start)[..., order].reshape(images.shape)
