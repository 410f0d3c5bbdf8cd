"""Views: maps of images, which parts of a sum look through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor

from skconvgp._typing import ImageShape
from skconvgp.engine import slices

AT_ONCE, ON_GPU = 64, 1024  # images


class View(Protocol):
    """A map of images that was fitted to training images."""

    def __call__(self, images: Tensor) -> Tensor:
        """Return images (n, c, h, w) as images (n, c', h', w')."""
        ...


# Fits a view to training images (n, c, h, w), and shows these through it.
FitView: TypeAlias = Callable[[Tensor], tuple[View, Tensor]]


@runtime_checkable
class SizedFitView(Protocol):
    """A fit of a view that tells how much it holds meanwhile."""

    def n_values(self, image_shape: ImageShape) -> int:
        """Return how many numbers of each image are held at once, at most."""
        ...


@runtime_checkable
class ArrayView(Protocol):
    """A view by code that knows nothing of tensors, perhaps with derivatives."""

    def with_slopes(self, images: Tensor) -> Tensor:
        """Return images through the view, so that torch can differentiate them."""
        ...

    def require_slopes(self) -> None:
        """Raise a ValueError if there are no derivatives."""
        ...


@runtime_checkable
class PlacedView(Protocol):
    """A view whose positions stand for squares of pixels."""

    @property
    def cell(self) -> int:
        """Side of the squares in pixels; 0 if the view moves pixels."""
        ...


def cell_of(view: View | None) -> int:
    """Return the side of the cell of a position of a view; 0 if it is not known."""
    if view is None:
        return 1
    return view.cell if isinstance(view, PlacedView) else 0


def require_slopes(view: View | None) -> None:
    """Raise a ValueError if a view has no derivatives by images."""
    if isinstance(view, ArrayView):
        view.require_slopes()


def see(
    view: View | None, images: Tensor, device: torch.device, dtype: torch.dtype
) -> Tensor:
    """Return images through a view, on a device; `dtype` is the precision of a view.

    Without a view they are the images themselves.
    """
    if view is None:
        return images
    # Where it computes: code that knows nothing of tensors does that on the host.
    at = torch.device("cpu") if isinstance(view, ArrayView) else device
    with torch.no_grad():
        shown = [
            view(images[part].to(at, dtype)).to(dtype)
            for part in slices(len(images), at_once(at))
        ]
        return torch.cat(shown).to(device)


def at_once(device: torch.device) -> int:
    """Return how many images a view is shown at once."""
    return AT_ONCE if device.type == "cpu" else ON_GPU


def pull_through(view: View | None, images: Tensor, by_seen: Tensor) -> Tensor:
    """Return derivatives by images, given those by images through a view."""
    if view is None:
        return by_seen.reshape(images.shape)
    show = view.with_slopes if isinstance(view, ArrayView) else view
    parts = []
    for part in slices(len(images), AT_ONCE):
        given = images[part].to(torch.float64).requires_grad_()
        seen = show(given)
        by_shown = by_seen[part].to(seen).reshape(seen.shape)
        (gradient,) = torch.autograd.grad(seen, given, by_shown)
        parts.append(gradient)
    return torch.cat(parts)
