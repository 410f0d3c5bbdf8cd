"""Views of images by transformers of scikit-learn's kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from torch import Tensor

from skconvgp.engine import rows_to_tensor, to_numpy
from skconvgp.estimators._validation import channels_are_first
from skconvgp.image_maps import PixelMap, Scattering


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
        """Return transformed images; rows become images of one pixel."""
        with channels_are_first():
            shown = np.asarray(self.transformer.transform(to_numpy(images)))
        seen = rows_to_tensor(shown)
        return seen if seen.ndim == images.ndim else seen.reshape(len(seen), -1, 1, 1)

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
                fitted = clone(self.transformer).fit(to_numpy(images))
            view = TransformedView(fitted)
            return view, view(images)
        except ValueError as error:
            raise ValueError(
                f"The transformer {self.transformer!r} of `parts` refused images of "
                f"shape {tuple(images.shape)!r} (n, c, h, w): {error}"
            ) from error


def _steps(transformer: Any) -> list[Any]:
    """Return the fitted transformers of a pipeline, also within its steps."""
    if not isinstance(transformer, Pipeline):
        return [] if transformer in (None, "passthrough") else [transformer]
    return [one for _, step in transformer.steps for one in _steps(step)]
