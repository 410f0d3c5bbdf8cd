"""AttributionDisplay: what a model looked at, and the images that it goes by."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skconvgp.display._pictures import (
    draw_picture,
    frame,
    read_pictures,
    set_title,
    shown,
)
from skconvgp.display._pyplot import pyplot_for
from skconvgp.engine import host_values
from skconvgp.questions import attribution, representer_points

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["AttributionDisplay"]

COLORS = "RdBu_r"
SHADE = 0.4  # how dark the shade of an image on its map is
WIDTH, HEIGHT = 1.25, 1.5  # of an image and its title, in inches
GROUPS = "for", "against"


class AttributionDisplay:
    """Images, maps of what speaks for their labels, and training images.

    Make it with :meth:`from_estimator`. Each image has a row: the image itself, the map
    of contributions of its pixels, red for and blue against the label, and the training
    images with the largest representer values for and against it.

    Parameters
    ----------
    images : ndarray of shape (n, c, h, w)
        The images, of one channel or three.
    maps : ndarray of shape (n, h, w)
        Contributions, as :func:`skconvgp.questions.attribution` returns them.
    names : list of str
        What the score of each image is of, such as its label.
    points : tuple of ndarray of shape (n, 2, n_points) or None, default=None
        Indices and values, as :func:`skconvgp.questions.representer_points` returns
        them.
    train_images : ndarray of shape (n_train, c, h, w) or None, default=None
        The training images.
    y_train : ndarray of shape (n_train,) or None, default=None
        Their labels.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        The figure, after :meth:`plot`.
    axes_ : ndarray of shape (n, 2 + 2 * n_points)
        The axes: images, maps, training images for and against.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from skconvgp import PatchGPClassifier
    >>> from skconvgp.datasets import load_digits_images
    >>> from skconvgp.display import AttributionDisplay
    >>> X, y = load_digits_images(return_X_y=True)
    >>> gp = PatchGPClassifier(random_state=0).fit(X[:200], y[:200])
    >>> given = X[200:203], X[:200], y[:200]
    >>> AttributionDisplay.from_estimator(gp, *given, n_points=2).axes_.shape
    (3, 6)
    """

    def __init__(
        self,
        images: NDArray[Any],
        maps: NDArray[Any],
        names: list[str],
        points: tuple[NDArray[Any], NDArray[Any]] | None = None,
        train_images: NDArray[Any] | None = None,
        y_train: NDArray[Any] | None = None,
    ) -> None:
        self.images = images
        self.maps = maps
        self.names = names
        self.points = points
        self.train_images = train_images
        self.y_train = y_train

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        X_train: ArrayLike | None = None,
        y_train: ArrayLike | None = None,
        *,
        target: Any = None,
        n_points: int = 3,
        figure: "Figure | None" = None,
        **options: Any,
    ) -> Self:
        """Ask a fitted estimator what it looked at, and draw the answers.

        Parameters
        ----------
        estimator : object
            Fitted classifier or regressor.
        X : array-like of shape (n, h, w), (n, c, h, w) or (n, d)
            Images, a row for each; vectors are read with its ``image_shape_``.
        X_train : array-like of shape (n_train, ...), default=None
            The images of its fit; None draws no training images.
        y_train : array-like of shape (n_train,), default=None
            Their labels or targets.
        target : label, int or array-like of shape (n,), default=None
            Whose score, as for :func:`skconvgp.questions.attribution`.
        n_points : int, default=3
            Training images for, and as many against.
        figure : matplotlib.figure.Figure, default=None
            Figure to draw in; None makes one.
        **options : object
            For :func:`skconvgp.questions.attribution`, such as ``method``.

        Returns
        -------
        display : AttributionDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            For an array that holds no images, or fewer than there are training samples.
        """
        images, trained, labels, points = read_pictures(estimator, X), None, None, None
        if X_train is not None:
            trained = read_pictures(estimator, X_train, "X_train")
            labels = (
                None if y_train is None else np.asarray(host_values(y_train, "y_train"))
            )
            if labels is not None and len(labels) != len(trained):
                raise ValueError(
                    f"`y_train` must have one label for each of the {len(trained)} "
                    f"images of `X_train`, got {len(labels)}."
                )
            points = representer_points(estimator, X, target, n_points=n_points)
            if points[0].max() >= len(trained):
                raise ValueError(
                    "`X_train` must have all images of `fit`, at least "
                    f"{points[0].max() + 1}, got {len(trained)}."
                )
        maps = attribution(estimator, X, target, **options)
        if target is None and hasattr(estimator, "classes_"):
            target = estimator.predict(X)
        of_each = np.broadcast_to("" if target is None else target, len(images))
        names = [shown(one) for one in of_each.tolist()]
        display = cls(images, maps, names, points, trained, labels)
        return display.plot(figure=figure)

    def plot(self, *, figure: "Figure | None" = None) -> Self:
        """Draw the images, the maps and the training images.

        Parameters
        ----------
        figure : matplotlib.figure.Figure, default=None
            Figure to draw in; None makes one.

        Returns
        -------
        display : AttributionDisplay
            The same object.
        """
        plt = pyplot_for(self)
        n_points = 0 if self.points is None else self.points[0].shape[2]
        n, sizes = len(self.images), [2, n_points, n_points][: 1 + 2 * (n_points > 0)]
        if figure is None:
            size = WIDTH * sum(sizes) + 0.8, HEIGHT * n + 0.3
            figure = plt.figure(figsize=size, layout="constrained")
        self.figure_ = figure
        parts: Any = figure.subfigures(
            1, len(sizes), squeeze=False, width_ratios=sizes, wspace=0.02
        )[0]
        found = [
            part.subplots(n, width, squeeze=False)
            for part, width in zip(parts, sizes, strict=True)
        ]
        self.axes_ = np.concatenate(found, axis=1)
        for axes in self.axes_.flat:
            axes.set_axis_off()
        width = figure.bbox.width / sum(sizes)
        for i, name in enumerate(self.names):
            image, colored = self.axes_[i, :2]
            draw_picture(image, self.images[i])
            set_title(image, [[name]], width)
            self._draw_map(colored, i)
            set_title(colored, [[f"for {name}" if name else "map"]], width)
        for side, part in enumerate(parts[1:]):
            part.suptitle(f"training images {GROUPS[side]}", fontsize="small")
            for i, row in enumerate(found[1 + side]):
                for k, axes in enumerate(row):
                    self._draw_point(axes, i, side, k)
        if n_points:
            parts[0].suptitle("image and map", fontsize="small")
        return self

    def _draw_map(self, axes: "Axes", i: int) -> None:
        """Draw a map, in the shade of its image."""
        values, image = self.maps[i], self.images[i].mean(0)
        largest = np.abs(values).max() or 1.0
        axes.imshow(values, cmap=COLORS, vmin=-largest, vmax=largest)
        shade = (image - image.min()) / (np.ptp(image) or 1.0)
        if len(self.images[i]) > 1:  # dark pixels are dark; of one channel, bright ones
            shade = 1.0 - shade
        black = np.zeros_like(shade)
        axes.imshow(black, cmap="gray", vmin=0.0, vmax=1.0, alpha=SHADE * shade)
        frame(axes)

    def _draw_point(self, axes: "Axes", i: int, side: int, k: int) -> None:
        """Draw a training image with its label and value, if there is one."""
        assert self.points is not None
        assert self.train_images is not None
        index, value = self.points[0][i, side, k], self.points[1][i, side, k]
        if index < 0:
            return
        draw_picture(axes, self.train_images[index])
        label = "" if self.y_train is None else f"{shown(self.y_train[index])}:"
        width = self.figure_.bbox.width / self.axes_.shape[1]
        set_title(axes, [[label, f"{value:+.2g}"]], width)
