"""The sum of parts of ImageClassifier with one more part, a network with averages."""

from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin

from benchmarks.data import Array
from benchmarks.measure import Stopwatch
from skconvgp import ImageClassifier


class Shown(TransformerMixin, BaseEstimator):
    """Images as a part of a fitted sum sees them."""

    def __init__(self, view: Any) -> None:
        self.view = view

    def fit(self, X: Any, y: Any = None) -> Self:
        """Return this transformer, which has nothing to learn."""
        del X, y
        return self

    def transform(self, X: Array) -> Array:
        """Return images as the part sees them."""
        return np.asarray(self.view(torch.as_tensor(X)))


class PooledSum(ClassifierMixin, BaseEstimator):
    """ImageClassifier with the parts that it uses, and one more.

    That is a kernel, or a transformer and a kernel. Its weight is chosen together with
    the others.
    """

    def __init__(self, part: Any) -> None:
        self.part = part

    def fit(self, X: Array, y: Array) -> Self:
        """Fit the usual sum, then the longer one."""
        watch = Stopwatch()
        usual = ImageClassifier(random_state=0).fit(X, y)
        self.usual_seconds_ = watch.read()
        parts = [
            (Shown(view), kernel) if view else kernel for view, kernel in usual.parts_
        ]
        more = [] if self.part is None else [self.part]
        self.model_ = ImageClassifier([*parts, *more], random_state=0).fit(X, y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X: Array) -> Array:
        """Return the probabilities of the longer sum."""
        return self.model_.predict_proba(X)

    def loo_predict_proba(self) -> Array:
        """Return those of the training images, each left out."""
        return self.model_.loo_predict_proba()
