"""Latent scores: the function of each sample that a question is about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from skconvgp._typing import FloatArray
from skconvgp.engine import host_values
from skconvgp.questions._asked import given_samples, refuse, why_wrapped

__all__ = ["LatentScores"]

NO_LATENTS = "it has no latent functions: use a classifier or a regressor of skconvgp"
NO_PIXELS = "a given matrix has no pixels: fit with a kernel object"
VECTORS = 2  # axes of samples that are no images


@dataclass(frozen=True)
class LatentScores:
    """A latent function for each sample: of a class, or of an output."""

    estimator: Any
    given: Any  # samples, perhaps a frame whose columns have names
    samples: NDArray[Any]  # (n, ...), the same as an array
    outputs: NDArray[np.intp]  # (n,), which function

    @classmethod
    def of(cls, estimator: Any, X: Any, target: Any, question: str) -> Self:
        """Return the functions of `target`, or raise that it cannot be."""
        why = why_wrapped(estimator)
        if not why and not hasattr(estimator, "predict_latent"):
            why = NO_LATENTS
        refuse(estimator, question, why)
        check_is_fitted(estimator)
        given = given_samples(X, "X")
        samples = np.asarray(given)
        if is_classifier(estimator):
            outputs = _codes(estimator, given, len(samples), target)
        else:
            outputs = _indices(estimator, len(samples), target)
        return cls(estimator, given, samples, outputs)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Shape (c, h, w) of a sample, (1, 1, d) of a vector."""
        shape = self.samples.shape[1:]
        known: Any = getattr(self.estimator, "image_shape_", None)
        if self.samples.ndim == VECTORS and known is not None and max(known[1:]) > 1:
            shape = tuple(known)
        channels, height, width = (1,) * (3 - len(shape)) + tuple(map(int, shape))
        return channels, height, width

    @property
    def are_vectors(self) -> bool:
        """Whether samples are vectors and no images."""
        return self.samples.ndim == VECTORS and self.image_shape[:2] == (1, 1)

    def __call__(
        self, samples: NDArray[Any], owners: NDArray[np.intp] | slice = slice(None)
    ) -> FloatArray:
        """Return scores (m,) of samples, whose functions are those of `owners`."""
        latent = np.asarray(self.estimator.predict_latent(samples), dtype=np.float64)
        outputs = self.outputs[owners]
        scores: FloatArray = latent.reshape(len(samples), -1)[
            np.arange(len(samples)), outputs
        ]
        return scores


def _codes(classifier: Any, samples: Any, n: int, target: Any) -> NDArray[np.intp]:
    """Return the codes (n,) of labels, by default those of predicted ones."""
    classes = classifier.classes_
    if target is None:
        labels = classifier.predict(samples)
    else:
        labels = _of_each(target, n, "label")
        unknown = labels[~np.isin(labels, classes)]
        if len(unknown):
            raise ValueError(
                f"`target` must be labels among `classes_`, which are "
                f"{classes.tolist()!r}, got {unknown[:1].tolist()[0]!r}."
            )
    codes: NDArray[np.intp] = np.searchsorted(classes, labels)
    return codes


def _indices(regressor: Any, n: int, target: Any) -> NDArray[np.intp]:
    """Return the indices (n,) of outputs, by default that of the only one."""
    k = len(np.atleast_1d(regressor.y_mean_))
    if target is None:
        if k > 1:
            raise ValueError(
                f"`target` must be the index of one of {k} outputs, from 0 to {k - 1}, "
                "or an array with an index for each sample: got None."
            )
        return np.zeros(n, dtype=np.intp)
    indices = _of_each(target, n, "index of an output")
    is_index = indices.dtype.kind in "iu"
    if not is_index or indices.min() < 0 or indices.max() >= k:
        raise ValueError(
            f"`target` must be the index of an output, from 0 to {k - 1}, or an array "
            f"with an index for each sample, got {target!r}."
        )
    return indices.astype(np.intp)


def _of_each(target: Any, n: int, what: str) -> NDArray[Any]:
    """Return a target for each of n samples."""
    given = np.asarray(host_values(target, "target"))
    if given.ndim == 0:
        return np.repeat(given, n)
    if given.shape != (n,):
        raise ValueError(
            f"`target` must be a {what}, or an array with one for each of the {n} "
            f"samples, got shape {given.shape!r}."
        )
    return given
