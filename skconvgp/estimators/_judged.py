"""What is asked of labels that a classifier is judged by."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d

__all__ = ["JudgedClassifier"]


class JudgedClassifier(ClassifierMixin):
    """A classifier that is not judged by labels that it cannot know."""

    classes_: NDArray[Any]

    def score(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the share of samples whose label is predicted.

        Parameters
        ----------
        X : array-like
            Images or vectors, as in `fit`.
        y : array-like of shape (n,)
            True labels, all of them in `classes_`.
        sample_weight : array-like of shape (n,), default=None
            Weights.

        Returns
        -------
        score : float
            Accuracy.

        Raises
        ------
        ValueError
            For labels that are not in `classes_`.
        """
        check_is_fitted(self)
        labels = column_or_1d(y)
        known = np.isin(labels, self.classes_)
        if not known.all():
            raise ValueError(
                f"y holds labels that are not in `classes_`, {self.classes_!r}: "
                f"{np.unique(labels[~known])!r}. A sample of a class that `fit` has "
                "not seen cannot be judged."
            )
        return float(super().score(X, y, sample_weight))

    def _labels(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Return the label of the largest score (n, n_classes) of each sample."""
        return self.classes_[scores.argmax(axis=1)]  # type: ignore[no-any-return]
