"""UncertainDigitsDisplay: the least and the most certain images of a classifier."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skconvgp.display._pictures import (
    as_pictures,
    column_labels,
    draw_picture,
    read_pictures,
    require_rows,
    set_title,
)
from skconvgp.display._pyplot import pyplot_for
from skconvgp.engine import host_numbers, host_values

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["UncertainDigitsDisplay"]


class UncertainDigitsDisplay:
    """Images of a test set in two rows: the least and the most certain.

    Make it with :meth:`from_estimator` or :meth:`from_predictions`. An image is as
    certain as the probability of its most probable class.

    Parameters
    ----------
    images : ndarray of shape (n, c, h, w)
        The images, one or three channels.
    labels : ndarray of shape (n,)
        Most probable labels.
    confidence : ndarray of shape (n,)
        Probabilities of these labels.
    y_true : ndarray of shape (n,) or None, default=None
        True labels; mistakes are marked.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        The figure, after :meth:`plot`.
    axes_ : ndarray of shape (2, n_images)
        The axes: the least certain images above, the most certain ones below.
    least_certain_, most_certain_ : ndarray of shape (n_images,)
        Indices of the images shown.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from skconvgp import ConvNetGPClassifier
    >>> from skconvgp.datasets import load_digits_images
    >>> from skconvgp.display import UncertainDigitsDisplay
    >>> from skconvgp.kernels import convnet
    >>> X, y = load_digits_images(return_X_y=True)
    >>> gp = ConvNetGPClassifier(convnet(depth=1, kernel_size=3)).fit(X[:99], y[:99])
    >>> display = UncertainDigitsDisplay.from_estimator(gp, X[99:199], y[99:199])
    >>> display.axes_.shape
    (2, 8)
    """

    def __init__(
        self,
        images: NDArray[Any],
        labels: NDArray[Any],
        confidence: NDArray[Any],
        y_true: NDArray[Any] | None = None,
    ) -> None:
        self.images = images
        self.labels = labels
        self.confidence = confidence
        self.y_true = y_true

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        n_images: int = 8,
        figure: "Figure | None" = None,
    ) -> Self:
        """Predict X with a fitted classifier and draw the images.

        Parameters
        ----------
        estimator : object
            Fitted classifier with ``predict_proba`` and ``classes_``.
        X : array-like of shape (n, h, w), (n, c, h, w) or (n, d)
            Images; rows are read with the estimator's ``image_shape_``.
        y : array-like of shape (n,), default=None
            True labels.
        n_images : int, default=8
            Images in each of the two rows.
        figure : matplotlib.figure.Figure, default=None
            Figure to draw in; None makes one.

        Returns
        -------
        display : UncertainDigitsDisplay
            The display, drawn.
        """
        return cls.from_predictions(
            read_pictures(estimator, X),
            estimator.predict_proba(X),
            y,
            labels=estimator.classes_,
            n_images=n_images,
            figure=figure,
        )

    @classmethod
    def from_predictions(
        cls,
        images: ArrayLike,
        y_prob: ArrayLike,
        y_true: ArrayLike | None = None,
        *,
        labels: ArrayLike | None = None,
        n_images: int = 8,
        figure: "Figure | None" = None,
    ) -> Self:
        """Draw images, given the probabilities of their classes.

        Parameters
        ----------
        images : array-like of shape (n, h, w) or (n, c, h, w)
            Images, one or three channels.
        y_prob : array-like of shape (n, n_classes)
            Probabilities.
        y_true : array-like of shape (n,), default=None
            True labels.
        labels : array-like of shape (n_classes,), default=None
            Label of each column; None is 0, 1, 2, ...
        n_images : int, default=8
            Images in each of the two rows.
        figure : matplotlib.figure.Figure, default=None
            Figure to draw in; None makes one.

        Returns
        -------
        display : UncertainDigitsDisplay
            The display, drawn.
        """
        probabilities = host_numbers(y_prob, "y_prob")
        pictures = as_pictures(np.asarray(host_values(images, "images")))
        columns = column_labels("y_prob", probabilities, labels)
        truth = None if y_true is None else np.asarray(host_values(y_true, "y_true"))
        require_rows(len(pictures), y_prob=probabilities, y_true=truth)
        top = probabilities.argmax(axis=1)
        display = cls(pictures, columns[top], probabilities.max(axis=1), truth)
        return display.plot(n_images=n_images, figure=figure)

    def plot(self, *, n_images: int = 8, figure: "Figure | None" = None) -> Self:
        """Draw the images.

        Parameters
        ----------
        n_images : int, default=8
            Images in each of the two rows, at most as many as there are.
        figure : matplotlib.figure.Figure, default=None
            Figure to draw in; None makes one.

        Returns
        -------
        display : UncertainDigitsDisplay
            The same object.
        """
        if not isinstance(n_images, int) or n_images < 1:
            raise ValueError(f"`n_images` must be an int >= 1, got {n_images!r}.")
        plt = pyplot_for(self)
        n_shown = min(n_images, len(self.images))
        order = np.argsort(self.confidence, kind="stable")
        self.least_certain_ = order[:n_shown]
        self.most_certain_ = order[::-1][:n_shown]
        if figure is None:
            figure = plt.figure(figsize=(1.25 * n_shown, 3.9), layout="constrained")
        self.figure_ = figure
        rows = np.asarray(figure.subfigures(2, 1))
        titles = ("Least certain", "Most certain")
        self.axes_ = np.empty((2, n_shown), dtype=object)
        for i, found in enumerate((self.least_certain_, self.most_certain_)):
            rows[i].suptitle(titles[i], fontsize="medium", fontweight="bold")
            self.axes_[i] = rows[i].subplots(1, n_shown, squeeze=False)[0]
            for axes, index in zip(self.axes_[i], found, strict=True):
                self._draw(axes, int(index))
        return self

    def _draw(self, axes: "Axes", index: int) -> None:
        draw_picture(axes, self.images[index])
        label, confidence = self.labels[index], self.confidence[index]
        lines, color = [[f"{label}:", f"{confidence:.1%}"]], "black"
        if self.y_true is not None and self.y_true[index] != label:
            lines, color = [*lines, [f"true: {self.y_true[index]}"]], "firebrick"
        width = self.figure_.bbox.width / self.axes_.shape[1]
        set_title(axes, lines, width, color=color)
