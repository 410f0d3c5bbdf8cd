"""Sight: images, and what several views of them have in common."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._typing import FloatArray, ImageShape
from skconvgp.engine import rows_to_tensor, slices, to_numpy
from skconvgp.kernels._flips import flip
from skconvgp.processes._problem import first_of_each
from skconvgp.processes._run import Run
from skconvgp.processes.basis._views import (
    FitView,
    View,
    at_once,
    pull_through,
    see,
)

FEW = 8  # images whose values stay in a core's cache while a view shows them


class Source(Protocol):
    """A map of images, whose values several views show in their ways."""

    def n_values(self, image_shape: ImageShape) -> int:
        """Return how many values an image has, at most."""
        ...

    def __call__(self, images: Tensor) -> Tensor:
        """Return the values (n, c', h', w') of images (n, c, h, w)."""
        ...


@runtime_checkable
class SharedView(Protocol):
    """A view of the values of a source."""

    @property
    def source(self) -> Source:
        """The source: the same object in all views that share it."""
        ...

    def project(self, values: Tensor) -> Tensor:
        """Return values (n, c', h', w') as the view shows them."""
        ...


@runtime_checkable
class SharedFitView(Protocol):
    """A fit of a view of the values of a source."""

    @property
    def key(self) -> Hashable:
        """Equal for fits of views of the same source."""
        ...

    def fit_source(self, images: Tensor) -> tuple[Source, Tensor, Any]:
        """Return the source fitted to images, their values, and what fits share."""
        ...

    def fit_on(
        self, source: Source, values: Tensor, shared: Any
    ) -> tuple[View, Tensor]:
        """Return the view fitted to the values of images, and these through it."""
        ...


@dataclass
class Sight:
    """Images, and the values of the source that was used last.

    Views of the same source that follow each other compute its values once, and equal
    views are fitted once.
    """

    images: Tensor  # (n, c, h, w), on any device
    # What is known: of what (a key of a fit, or a source and a precision), and values.
    _of: Any = field(default=None, repr=False)
    _known: Any = field(default=None, repr=False)
    # The last view that was fitted, and inducing patches by what they are for.
    _fitted: Any = field(default=None, repr=False)
    patches: dict[Hashable, Tensor] = field(default_factory=dict, repr=False)

    @cached_property
    def flipped(self) -> Sight:
        """The mirror images."""
        return Sight(flip(self.images))

    def through(
        self, view: View | None, device: torch.device, dtype: torch.dtype
    ) -> Tensor:
        """Return the images through a view, on a device, in a precision."""
        if not isinstance(view, SharedView):
            return see(view, self.images, device, dtype)
        parts = slices(len(self.images), at_once(device))
        with torch.no_grad():
            if self._of != (id(view.source), dtype):
                self._known = None  # before others are computed
                self._known = (
                    view.source,
                    [
                        view.source(self.images[part].to(device, dtype))
                        for part in parts
                    ],
                )
                self._of = id(view.source), dtype
            few = FEW if device.type == "cpu" else at_once(device)
            return torch.cat(
                [
                    view.project(of_few).to(dtype)
                    for one in self._known[1]
                    for of_few in one.split(few)
                ]
            )

    def fit(self, fit_view: FitView, device: torch.device) -> tuple[View, Tensor]:
        """Return a view that is fitted to the different images, and all through it."""
        if self._fitted is None or self._fitted[0] != fit_view:
            self._fitted = None  # before another one is fitted
            self._fitted = fit_view, *self._fit(fit_view, device)
        _, view, seen = self._fitted
        return view, seen

    def _fit(self, fit_view: FitView, device: torch.device) -> tuple[View, Tensor]:
        first, images = self._different, self.images
        are_all = len(first) == len(images)
        given = images if are_all else images[first]
        if isinstance(fit_view, SharedFitView):
            if self._of != fit_view.key:
                self._known = None
                self._known = fit_view.fit_source(given.to(device))
                self._of = fit_view.key
            view, seen = fit_view.fit_on(*self._known)
        else:
            view, seen = fit_view(given.to(device))
            seen = seen.to(device)
        return view, seen if are_all else see(view, images, device, images.dtype)

    @cached_property
    def _different(self) -> NDArray[np.intp]:
        """Indices of the first of each of the different images."""
        return first_of_each(to_numpy(self.images.flatten(1)))


def shared_key(fit_view: FitView | None) -> Hashable:
    """Return what is equal for fits of views that share a source; None for none."""
    return fit_view.key if isinstance(fit_view, SharedFitView) else None


def shared_values(view: View | None, image_shape: ImageShape) -> int:
    """Return how many values of an image are held for views that share a source."""
    return view.source.n_values(image_shape) if isinstance(view, SharedView) else 0


def source_of(view: View | None) -> int:
    """Return what is equal for views that share a source."""
    return id(view.source) if isinstance(view, SharedView) else 0


def seen_rows(part: Any, sight: Sight, run: Run) -> Tensor:
    """Return rows of images as the view of a part shows them, on the device."""
    dtype = part.kernel_basis.tile_dtype
    return sight.through(part.view, run.config.device, dtype).flatten(1)


def through(part: Any, images: Tensor, by_rows: FloatArray) -> Tensor:
    """Return derivatives by images, given those by rows that a view shows."""
    shape = part.kernel_basis.image_shape
    by_seen = rows_to_tensor(by_rows).reshape(-1, *shape)
    return pull_through(part.view, images, by_seen)
