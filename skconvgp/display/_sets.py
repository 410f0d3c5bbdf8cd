"""PredictionSetDisplay: images with the labels that fit them."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skconvgp._settings import is_int
from skconvgp.display._pictures import (
    as_pictures,
    column_labels,
    draw_picture,
    read_pictures,
    require_rows,
    set_title,
    shown,
)
from skconvgp.display._pyplot import pyplot_for
from skconvgp.engine import host_values
from skconvgp.questions import prediction_set

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PredictionSetDisplay"]

MOST_ROWS = 4  # the last one has all larger sets
MOST_TOLD = 4  # labels in a title
MISSED = "firebrick"


class PredictionSetDisplay:
    """Images in rows by the number of labels that fit them.

    Make it with :meth:`from_estimator` or :meth:`from_sets`. Titles are the labels in
    the set of an image. If the true label is not among them, they are red and say it.

    Parameters
    ----------
    images : ndarray of shape (n, c, h, w)
        The images, of one channel or three.
    sets : ndarray of bool of shape (n, n_classes)
        Whether each label is in the set.
    labels : ndarray of shape (n_classes,)
        Label of each column.
    y_true : ndarray of shape (n,) or None, default=None
        True labels.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        The figure, after :meth:`plot`.
    axes_ : dict of int to list of Axes
        Axes of the images that are shown, by the size of their sets; the largest key
        has all larger sets.
    shown_ : dict of int to ndarray
        Indices of these images.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from skconvgp import ImageClassifier
    >>> from skconvgp.datasets import load_digits_images
    >>> from skconvgp.display import PredictionSetDisplay
    >>> X, y = load_digits_images(return_X_y=True)
    >>> gp = ImageClassifier(random_state=0).fit(X[:200], y[:200])
    >>> new = X[200:400], y[200:400]
    >>> display = PredictionSetDisplay.from_estimator(gp, *new, level=0.99)
    >>> list(display.shown_)
    [1, 2, 3]
    """

    def __init__(
        self,
        images: NDArray[Any],
        sets: NDArray[Any],
        labels: NDArray[Any],
        y_true: NDArray[Any] | None = None,
    ) -> None:
        self.images = images
        self.sets = sets
        self.labels = labels
        self.y_true = y_true

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        level: float = 0.9,
        by_class: bool = False,
        n_images: int = 8,
        figure: "Figure | None" = None,
    ) -> Self:
        """Ask a fitted classifier which labels fit X, and draw the images.

        Parameters
        ----------
        estimator : object
            Fitted, as :func:`skconvgp.questions.prediction_set` takes it.
        X : array-like of shape (n, h, w), (n, c, h, w) or (n, d)
            Images; vectors are read with its ``image_shape_``.
        y : array-like of shape (n,), default=None
            True labels.
        level : float, default=0.9
            Probability that the true label is in a set.
        by_class : bool, default=False
            Whether the guarantee holds for each class.
        n_images : int, default=8
            Images in each row, at most.
        figure : matplotlib.figure.Figure, default=None
            Figure to draw in; None makes one.

        Returns
        -------
        display : PredictionSetDisplay
            The display, drawn.
        """
        images = read_pictures(estimator, X)
        sets = prediction_set(estimator, X, level, by_class)
        options = {"labels": estimator.classes_, "n_images": n_images, "figure": figure}
        return cls.from_sets(images, sets, y, **options)

    @classmethod
    def from_sets(
        cls,
        images: ArrayLike,
        sets: ArrayLike,
        y_true: ArrayLike | None = None,
        *,
        labels: ArrayLike | None = None,
        n_images: int = 8,
        figure: "Figure | None" = None,
    ) -> Self:
        """Draw images, given their sets.

        Parameters
        ----------
        images : array-like of shape (n, h, w) or (n, c, h, w)
            Images, one or three channels.
        sets : array-like of bool of shape (n, n_classes)
            Whether each label is in the set.
        y_true : array-like of shape (n,), default=None
            True labels.
        labels : array-like of shape (n_classes,), default=None
            Label of each column; None is 0, 1, 2, ...
        n_images : int, default=8
            Images in each row, at most.
        figure : matplotlib.figure.Figure, default=None
            Figure to draw in; None makes one.

        Returns
        -------
        display : PredictionSetDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            For an array that holds no images, or numbers of rows or labels that differ.
        """
        pictures, members = (
            as_pictures(np.asarray(host_values(images, "images"))),
            np.asarray(host_values(sets, "sets"), dtype=bool),
        )
        truth = None if y_true is None else np.asarray(host_values(y_true, "y_true"))
        columns = column_labels("sets", members, labels)
        require_rows(len(pictures), sets=members, y_true=truth)
        display = cls(pictures, members, columns, truth)
        return display.plot(n_images=n_images, figure=figure)

    def plot(self, *, n_images: int = 8, figure: "Figure | None" = None) -> Self:
        """Draw the images.

        Parameters
        ----------
        n_images : int, default=8
            Images in each row, at most.
        figure : matplotlib.figure.Figure, default=None
            Figure to draw in; None makes one.

        Returns
        -------
        display : PredictionSetDisplay
            The same object.
        """
        if not is_int(n_images):
            raise ValueError(f"`n_images` must be an int >= 1, got {n_images!r}.")
        plt = pyplot_for(self)
        sizes = np.minimum(self.sets.sum(1), MOST_ROWS)
        of_sizes = {n: np.flatnonzero(sizes == n) for n in np.unique(sizes).tolist()}
        if figure is None:
            height = 1.75 * max(1, len(of_sizes))
            figure = plt.figure(figsize=(1.25 * n_images, height), layout="constrained")
        self.figure_, self.axes_ = figure, {}
        self.shown_ = {n: found[:n_images] for n, found in of_sizes.items()}
        parts: Any = figure.subfigures(max(1, len(of_sizes)), 1, squeeze=False)
        for part, (n, found) in zip(parts[:, 0], of_sizes.items(), strict=False):
            title = _title(n, self.sets.shape[1], len(found))
            part.suptitle(title, fontsize="medium", fontweight="bold")
            every = part.subplots(1, n_images, squeeze=False)[0]
            for axes in every:
                axes.set_axis_off()
            self.axes_[n] = list(every[: len(self.shown_[n])])
            for axes, index in zip(self.axes_[n], self.shown_[n], strict=True):
                draw_picture(axes, self.images[index])
                lines, is_missed = self._told(int(index))
                color = MISSED if is_missed else "black"
                set_title(axes, lines, figure.bbox.width / n_images, color=color)
        return self

    def _told(self, index: int) -> tuple[list[list[str]], bool]:
        """Return the labels of an image, and whether the true one is not among them."""
        found = self.labels[self.sets[index]].tolist()
        told = [shown(one) for one in found] or ["none"]
        if len(found) > MOST_TOLD:
            told = [f"{len(found)} labels"]
        line = [f"{one}," for one in told[:-1]] + told[-1:]
        if self.y_true is None or self.y_true[index] in found:
            return [line], False
        return [line, [f"true: {shown(self.y_true.tolist()[index])}"]], True


def _title(size: int, n_classes: int, count: int) -> str:
    """Return how many images have sets of a size."""
    more = " or more" if size == MOST_ROWS < n_classes else ""
    labels = f"{size}{more} label{'' if size == 1 else 's'}" if size else "No label"
    return f"{labels}: {count} image{'' if count == 1 else 's'}"
