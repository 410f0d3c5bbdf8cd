"""PatchesDisplay: inducing patches, their places, and the weights of positions."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skconvgp.display._pyplot import pyplot_for
from skconvgp.engine import host_values
from skconvgp.kernels import PatchKernel
from skconvgp.processes import terms_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["PatchesDisplay"]

COLORS = 3
GAP = 1  # pixels between two patches on the sheet
SHOWN = 1.0, 99.0  # percentiles of colors: single pixels are far outside


class PatchesDisplay:
    """Inducing patches on a sheet, beside their places on an image.

    Make it with :meth:`from_estimator`. The sheet has one square for each inducing
    patch, as the base kernel sees it: after normalization, with the lowest and highest
    values as the darkest and brightest ones (of patches in color, the percentiles 1 and
    99). On the right, a dot is the centre of a patch at one of the places. Behind the
    dots there is an image or, if the kernel has weights, the weight of each position of
    a patch.

    Parameters
    ----------
    patches : ndarray of shape (m, c, ph, pw)
        Inducing patches.
    locations : ndarray of shape (l, 2)
        Places: row and column of the first pixel of a patch.
    image : ndarray of shape (c, h, w)
        The image that is drawn behind the places.
    weights : ndarray of shape (h', w') or None, default=None
        Weights of positions; a patch of weight (i, j) begins at row and column `stride`
        times i and j.
    stride : int, default=1
        Distance between neighbouring positions, in pixels.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        The figure, after :meth:`plot`.
    axes_ : ndarray of shape (2,)
        The axes: the sheet of patches, and the places.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from skconvgp import PatchGPClassifier
    >>> from skconvgp.datasets import load_digits_images
    >>> from skconvgp.display import PatchesDisplay
    >>> X, y = load_digits_images(return_X_y=True)
    >>> gp = PatchGPClassifier(n_inducing=16, random_state=0).fit(X[:200], y[:200])
    >>> display = PatchesDisplay.from_estimator(gp, X[0])
    >>> display.patches.shape, display.locations.shape
    ((16, 1, 5, 5), (9, 2))
    """

    def __init__(
        self,
        patches: NDArray[Any],
        locations: NDArray[Any],
        image: NDArray[Any],
        weights: NDArray[Any] | None = None,
        stride: int = 1,
    ) -> None:
        self.patches = patches
        self.locations = locations
        self.image = image
        self.weights = weights
        self.stride = stride

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        image: ArrayLike | None = None,
        *,
        term: int = 0,
        figure: "Figure | None" = None,
    ) -> Self:
        """Draw the inducing patches of a fitted estimator.

        Parameters
        ----------
        estimator : PatchGPClassifier or PatchGPRegressor
            Fitted estimator.
        image : array-like of shape (h, w), (c, h, w) or (d,), default=None
            Image behind the places; None is a blank one.
        term : int, default=0
            Index of a PatchKernel among the terms of the kernel, if that is a sum.
        figure : matplotlib.figure.Figure, default=None
            Figure to draw in; None makes one.

        Returns
        -------
        display : PatchesDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            If the image has not the shape of the training images, or if the term is
            not a PatchKernel.
        """
        shape = estimator.image_shape_
        given = (
            np.zeros(shape)
            if image is None
            else np.asarray(host_values(image, "image"))
        )
        if given.size != np.prod(shape):
            raise ValueError(
                f"`image` must have the shape {shape!r} of the training images, got "
                f"{given.shape!r}."
            )
        terms, weights = terms_of(estimator.kernel_), None
        kernel = terms[term].kernel if 0 <= term < len(terms) else None
        if not isinstance(kernel, PatchKernel):
            raise ValueError(  # noqa: TRY004  (a wrong setting, not a wrong type)
                f"`term` must be the index of a PatchKernel among the {len(terms)} "
                f"terms of {estimator.kernel_!r}, got {term!r}."
            )
        patches, places = estimator.inducing_patches_, estimator.locations_
        if len(terms) > 1:
            patches, places = patches[term], places[term]
        grid = kernel.grid(shape)
        if kernel.weights is not None:
            maps = np.asarray(kernel.weights, dtype=float).reshape(-1, *grid.shape)
            weights = maps.mean(0)  # over channels, if each has weights
        display = cls(
            patches,
            places,
            given.reshape(shape),
            weights,
            kernel.stride,
        )
        return display.plot(figure=figure)

    def plot(self, *, figure: "Figure | None" = None) -> Self:
        """Draw the sheet and the places.

        Parameters
        ----------
        figure : matplotlib.figure.Figure, default=None
            Figure to draw in; None makes one.

        Returns
        -------
        display : PatchesDisplay
            The same object.
        """
        plt = pyplot_for(self)
        if figure is None:
            figure = plt.figure(figsize=(8, 4), layout="constrained")
        self.figure_ = figure
        self.axes_ = np.asarray(figure.subplots(1, 2))
        sheet, places = self.axes_
        sheet.imshow(_sheet(self.patches), cmap="gray_r", interpolation="nearest")
        sheet.set_title(f"{len(self.patches)} inducing patches", fontsize="medium")
        self._draw_places(places)
        for axes in self.axes_:
            axes.set_axis_off()
        return self

    def _draw_places(self, axes: "Axes") -> None:
        height, width = self.image.shape[1:]
        top, left = (np.array(self.patches.shape[2:]) - 1) / 2.0
        n = len(self.locations)
        title = f"{n} place{'' if n == 1 else 's'}"
        if self.weights is None:
            axes.imshow(
                _pictures(self.image[None], (0, 100))[0], cmap="gray_r", vmin=0.0
            )
        else:
            # A pixel of the map is as large as the stride, around the patch's centre.
            rows, columns = np.array(self.weights.shape) * self.stride
            corner = np.array([left, top]) - self.stride / 2.0
            largest = np.abs(self.weights).max()
            drawn = axes.imshow(
                self.weights,
                cmap="RdBu_r",
                vmin=-largest,
                vmax=largest,
                extent=(corner[0], corner[0] + columns, corner[1] + rows, corner[1]),
            )
            self.figure_.colorbar(drawn, ax=axes, shrink=0.8, label="weight")
            title = f"{title}, weights of positions"
        axes.scatter(self.locations[:, 1] + left, self.locations[:, 0] + top, c="C1")
        axes.set_xlim(-0.5, width - 0.5)
        axes.set_ylim(height - 0.5, -0.5)
        axes.set_title(title, fontsize="medium")


def _sheet(patches: NDArray[Any]) -> NDArray[Any]:
    """Return one picture of all patches, row by row; gaps are blank."""
    pictures = _pictures(patches, SHOWN)
    m, height, width = pictures.shape[:3]
    n_columns = int(np.ceil(np.sqrt(m * height / width)))
    n_rows = -(-m // n_columns)
    sheet = np.full(
        (
            n_rows * (height + GAP) - GAP,
            n_columns * (width + GAP) - GAP,
            *pictures.shape[3:],
        ),
        1.0 if pictures.ndim == 4 else np.nan,
    )
    for i, picture in enumerate(pictures):
        row, column = divmod(i, n_columns)
        top, left = row * (height + GAP), column * (width + GAP)
        sheet[top : top + height, left : left + width] = picture
    return sheet


def _pictures(patches: NDArray[Any], percentiles: tuple[float, float]) -> NDArray[Any]:
    """Return patches (m, h, w), or (m, h, w, 3) with values from 0 to 1 in color."""
    if patches.shape[1] != COLORS:
        gray: NDArray[Any] = patches.mean(1)
        return gray
    least, largest = np.percentile(patches, percentiles)
    scale = largest - least if largest > least else 1.0
    shares = ((patches - least) / scale).clip(0.0, 1.0)
    return np.moveaxis(shares, 1, -1)
