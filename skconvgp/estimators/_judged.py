"""What is asked of labels that a classifier is judged by."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from skconvgp.estimators._warn import warn_caller

__all__ = ["JudgedClassifier", "as_labels"]


def as_labels(y: Any) -> NDArray[Any]:
    """Return labels (n,); raise unless they are of one kind, and are classes."""
    values = np.asarray(y)
    if values.dtype == object and not all(isinstance(one, str) for one in values.flat):
        kinds = sorted({type(one).__name__ for one in values.flat})
        raise ValueError(
            "y must hold labels of one kind, all numbers or all strings, got an array "
            f"of {', '.join(kinds)}: Unknown label type. Drop samples without a label, "
            "and convert the others, as by y.astype(str)."
        )
    check_classification_targets(y)
    labels: NDArray[Any] = column_or_1d(y, warn=True)
    return labels


class JudgedClassifier(ClassifierMixin):
    """A classifier that tells of labels that it cannot know."""

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
            True labels. One that is not in `classes_` counts as a mistake, and there
            is a warning.
        sample_weight : array-like of shape (n,), default=None
            Weights.

        Returns
        -------
        score : float
            Accuracy.
        """
        check_is_fitted(self)
        labels = column_or_1d(y)
        score = float(super().score(X, labels, sample_weight))
        unknown = np.setdiff1d(labels, self.classes_)
        if len(unknown):
            warn_caller(
                f"y holds labels that `fit` has not seen, {unknown!r}, beside "
                f"`classes_`, {self.classes_!r}: their samples count as mistakes. In "
                "cross-validation StratifiedKFold keeps rare classes in all parts.",
                UserWarning,
            )
        return score

    def _labels(self, scores: NDArray[Any]) -> NDArray[Any]:
        """Return the label of the largest score (n, n_classes) of each sample."""
        return self.classes_[scores.argmax(axis=1)]  # type: ignore[no-any-return]
