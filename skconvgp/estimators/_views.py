"""Views of images by transformers of scikit-learn's kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from torch import Tensor

from skconvgp.engine import rows_to_tensor, to_numpy
from skconvgp.estimators._validation import channels_are_first
from skconvgp.image_maps import PixelMap, Scattering

SHAPES, ROWS = (2, 3, 4), 2  # numbers of axes of what a transformer may return


@dataclass(frozen=True)
class TransformedView:
    """Images as a fitted transformer shows them.

    Parameters
    ----------
    transformer : transformer
        The fitted transformer.
    """

    transformer: Any

    def __call__(self, images: Tensor) -> Tensor:
        """Return transformed images; rows become images of one pixel.

        The transformer is given a copy, into which it may write.

        Raises
        ------
        ValueError
            If it returns no finite numbers, one sample for each image.
        """
        return self.read(self.transformed(images), images)

    def transformed(self, images: Tensor) -> NDArray[Any]:
        """Return what the transformer returns for images."""
        with channels_are_first():
            return np.asarray(self.transformer.transform(to_numpy(images).copy()))

    def read(self, shown: NDArray[Any], images: Tensor) -> Tensor:
        """Return what the transformer returned for images as images."""
        is_real = shown.dtype.kind in "biuf"
        if not is_real or shown.ndim not in SHAPES or len(shown) != len(images):
            raise ValueError(
                f"The transformer {self.transformer!r} of `parts` must return numbers "
                f"of shape (n, d), (n, h, w) or (n, c, h, w), here with n={len(images)}"
                f", and returned {shown.dtype} of shape {shown.shape!r}."
            )
        if not np.isfinite(shown).all() or not shown.size:
            raise ValueError(
                f"The transformer {self.transformer!r} of `parts` returned numbers "
                f"that are not finite, or none, for images of shape "
                f"{tuple(images.shape)!r}."
            )
        seen = rows_to_tensor(shown)
        if seen.ndim == ROWS:
            return seen.reshape(len(seen), -1, 1, 1)
        return seen if seen.ndim == images.ndim else seen[:, None]

    def with_slopes(self, images: Tensor) -> Tensor:
        """Return transformed images that torch can differentiate."""
        for one in _steps(self.transformer):
            images = one.map_(images)
        return images

    def require_slopes(self) -> None:
        """Raise a ValueError unless a map of tensors is known for each transformer."""
        for one in _steps(self.transformer):
            if not isinstance(getattr(one, "map_", None), PixelMap | Scattering):
                raise ValueError(  # noqa: TRY004  (of a setting)
                    f"Derivatives by inputs are not known for the transformer {one!r} "
                    "of `parts`: use transformers of skconvgp.transforms, or pipelines "
                    "of these."
                )


@dataclass(frozen=True)
class TransformerFit:
    """Fits a copy of a transformer to training images.

    Parameters
    ----------
    transformer : transformer
        The transformer, which is not changed.
    """

    transformer: Any

    def __call__(self, images: Tensor) -> tuple[TransformedView, Tensor]:
        """Return the view of a copy that is fitted to images, and these through it.

        Raises
        ------
        ValueError
            If the transformer refuses images.
        """
        try:
            with channels_are_first():
                fitted = clone(self.transformer).fit(to_numpy(images).copy())
            view = TransformedView(fitted)
            shown = view.transformed(images)
        except ValueError as error:
            raise ValueError(
                f"The transformer {self.transformer!r} of `parts` refused images of "
                f"shape {tuple(images.shape)!r} (n, c, h, w): {error}"
            ) from error
        return view, view.read(shown, images)


def _steps(transformer: Any) -> list[Any]:
    """Return the fitted transformers of a pipeline, also within its steps."""
    if not isinstance(transformer, Pipeline):
        return [] if transformer in (None, "passthrough") else [transformer]
    return [one for _, step in transformer.steps for one in _steps(step)]
