"""AuditDisplay: the images of an audit."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skconvgp._settings import is_int
from skconvgp.display._pictures import (
    as_pictures,
    draw_picture,
    read_pictures,
    set_title,
    shown,
)
from skconvgp.display._pyplot import pyplot_for
from skconvgp.engine import host_values
from skconvgp.questions import audit as ask

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["AuditDisplay"]

COLUMNS = 8  # of images
WIDTH, HEIGHT, HEADING = 1.2, 1.7, 0.4  # of an image, a row and a heading, in inches
# Findings with their titles, and how many images one of them takes.
SECTIONS = {
    "wrong_labels": ("Likely wrong labels", 1),
    "doubtful_labels": ("Worth a look", 1),
    "near_copies": ("Near copies", 2),
    "outliers": ("Unlike the others", 1),
}


class AuditDisplay:
    """Sheet of images that an audit has found, with indices, labels and proposals.

    Make it with :meth:`from_estimator`, or with :meth:`from_audit`. There is a part for
    likely wrong labels, for other labels that are worth a look, for near copies, of
    which pairs stand side by side, and for images unlike the others; each has the
    clearest ones first.

    Parameters
    ----------
    audit : Audit
        What :func:`skconvgp.questions.audit` has found.
    images : ndarray of shape (n, c, h, w)
        The training images, of one channel or three.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        The figure, after :meth:`plot`.
    axes_ : dict of str to list of Axes
        Axes of the images of each finding; an empty list if there are none.
    shown_ : dict of str to list of int
        Indices of these images.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from skconvgp import ImageClassifier
    >>> from skconvgp.datasets import load_digits_images
    >>> from skconvgp.display import AuditDisplay
    >>> X, y = load_digits_images(return_X_y=True)
    >>> X, y = X[:200].copy(), y[:200].copy()
    >>> X[77], y[12] = X[67], 7
    >>> gp = ImageClassifier(random_state=0).fit(X, y)
    >>> AuditDisplay.from_estimator(gp, X).shown_["near_copies"]
    [77, 67]
    """

    def __init__(self, audit: Any, images: NDArray[Any]) -> None:
        self.audit = audit
        self.images = images

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        *,
        n_images: int = 16,
        figure: "Figure | None" = None,
    ) -> Self:
        """Audit the training set of a fitted estimator, and draw the images.

        Parameters
        ----------
        estimator : object
            Fitted, as :func:`skconvgp.questions.audit` takes it.
        X : array-like of shape (n, h, w), (n, c, h, w) or (n, d)
            The images of its fit; rows are read with its ``image_shape_``.
        n_images : int, default=16
            Images of each finding, at most.
        figure : matplotlib.figure.Figure, default=None
            Figure to draw in; None makes one.

        Returns
        -------
        display : AuditDisplay
            The display, drawn.
        """
        images, found = read_pictures(estimator, X), ask(estimator)
        return cls.from_audit(found, images, n_images=n_images, figure=figure)

    @classmethod
    def from_audit(
        cls,
        audit: Any,
        images: ArrayLike,
        *,
        n_images: int = 16,
        figure: "Figure | None" = None,
    ) -> Self:
        """Draw the images of an audit.

        Parameters
        ----------
        audit : Audit
            What :func:`skconvgp.questions.audit` has found.
        images : array-like of shape (n, h, w) or (n, c, h, w)
            All images that the model was fitted to.
        n_images : int, default=16
            Images of each finding, at most.
        figure : matplotlib.figure.Figure, default=None
            Figure to draw in; None makes one.

        Returns
        -------
        display : AuditDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            For an array that holds no images, or fewer than there are samples.
        """
        pictures = as_pictures(np.asarray(host_values(images, "images")))
        if len(pictures) < audit.n_samples:
            raise ValueError(
                f"`images` must have all images of `fit`, at least {audit.n_samples}, "
                f"got {len(pictures)}."
            )
        return cls(audit, pictures).plot(n_images=n_images, figure=figure)

    def plot(self, *, n_images: int = 16, figure: "Figure | None" = None) -> Self:
        """Draw the images.

        Parameters
        ----------
        n_images : int, default=16
            Images of each finding, at most.
        figure : matplotlib.figure.Figure, default=None
            Figure to draw in; None makes one.

        Returns
        -------
        display : AuditDisplay
            The same object.
        """
        if not is_int(n_images, 2):
            raise ValueError(f"`n_images` must be an int >= 2, got {n_images!r}.")
        plt = pyplot_for(self)
        told = {name: self._cells(name, n_images) for name in SECTIONS}
        self.shown_ = {name: [one[0] for one in cells] for name, cells in told.items()}
        rows = [-(-len(cells) // COLUMNS) for cells in told.values()]
        heights = [HEADING + HEIGHT * n_rows for n_rows in rows]
        if figure is None:
            size = WIDTH * COLUMNS, sum(heights)
            figure = plt.figure(figsize=size, layout="constrained")
        self.figure_, self.axes_ = figure, {}
        parts = np.asarray(figure.subfigures(len(heights), 1, height_ratios=heights))
        for part, n_rows, (name, cells) in zip(parts, rows, told.items(), strict=True):
            part.suptitle(self._title(name), fontsize="medium", fontweight="bold")
            every: list[Axes] = []
            if n_rows:
                every = part.subplots(n_rows, COLUMNS, squeeze=False).ravel().tolist()
            for axes in every:
                axes.set_axis_off()
            self.axes_[name] = every[: len(cells)]
            for axes, (index, *words) in zip(every, cells, strict=False):
                draw_picture(axes, self.images[index])
                set_title(axes, [[str(index)], words], figure.bbox.width / COLUMNS)
        return self

    def _title(self, name: str) -> str:
        found = getattr(self.audit, name)
        title = SECTIONS[name][0]
        if found is None:
            return f"{title}: unknown"
        return f"{title}: {len(found)}" if len(found) else f"{title}: none"

    def _cells(self, name: str, n_images: int) -> list[tuple[Any, ...]]:
        """Return indices of images, and the words of their titles."""
        cells: list[tuple[Any, ...]] = []
        for one in self.audit.records(name)[: n_images // SECTIONS[name][1]]:
            label, proposal = one.get("label", one.get("target")), one.get("proposal")
            words = [shown(label)]
            if proposal is not None:
                words = [f"{words[0]} →", shown(proposal)]
            cells.append((one["index"], *words))
            if "other" in one:
                cells.append((one["other"], shown(one.get("other_label"))))
        return cells
