"""Views of images by transformers of scikit-learn's kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from torch import Tensor

from skconvgp.engine import rows_to_tensor, to_numpy

__all__ = ["TransformedView", "TransformerFit"]


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
        shown = np.asarray(self.transformer.transform(to_numpy(images)))
        seen = rows_to_tensor(shown)
        return seen if seen.ndim == images.ndim else seen.reshape(len(seen), -1, 1, 1)


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
            view = TransformedView(clone(self.transformer).fit(to_numpy(images)))
            return view, view(images)
        except ValueError as error:
            raise ValueError(
                f"The transformer {self.transformer!r} of `parts` refused images of "
                f"shape {tuple(images.shape)!r} (n, c, h, w): {error}"
            ) from error
