"""ReliabilityDisplay: accuracy against stated probability, bin by bin."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from skconvgp._typing import FloatArray
from skconvgp.display._pyplot import pyplot_for
from skconvgp.metrics import reliability_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["ReliabilityDisplay"]

WIDTH, HEIGHT, SHARES_HEIGHT = 4.6, 4.2, 1.3  # inches


class ReliabilityDisplay:
    """Reliability diagram of the most probable class.

    Make it with :meth:`from_estimator` or :meth:`from_predictions`. A bar is the share
    of right answers in a bin of the stated probability. A red mark goes from the top of
    a bar to the mean probability of the bin; it points upwards if the classifier
    promises too much. The lower axes show the share of the samples in each bin: a bar
    with few samples is uncertain.

    Parameters
    ----------
    table : dict of ndarray of shape (n_bins,)
        Result of :func:`~skconvgp.metrics.reliability_table`.
    name : str, default=None
        Name of the classifier, the title.

    Attributes
    ----------
    expected_calibration_error : float
        Mean length of the red marks, weighted by the samples.
    figure_ : matplotlib.figure.Figure
        The figure, after :meth:`plot`.
    axes_ : ndarray of shape (2,)
        The axes of the accuracy and of the samples.

    See Also
    --------
    sklearn.calibration.CalibrationDisplay : The curve of one class of two.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from skconvgp.display import ReliabilityDisplay
    >>> y_prob = [[0.9, 0.1], [0.9, 0.1], [0.2, 0.8]]
    >>> display = ReliabilityDisplay.from_predictions([0, 1, 1], y_prob, name="three")
    >>> f"{display.expected_calibration_error:.3f}"
    '0.333'
    """

    def __init__(
        self, table: dict[str, FloatArray], *, name: str | None = None
    ) -> None:
        self.table = table
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike,
        *,
        n_bins: int = 10,
        strategy: str = "uniform",
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        figure: "Figure | None" = None,
    ) -> Self:
        """Predict X with a fitted classifier and draw the diagram.

        Parameters
        ----------
        estimator : object
            Fitted classifier with ``predict_proba`` and ``classes_``.
        X : array-like
            Samples that the estimator was not fitted on.
        y : array-like of shape (n,)
            Labels of the samples.
        n_bins : int, default=10
            Number of bins.
        strategy : {"uniform", "quantile"}, default="uniform"
            Whether bins have the same width or about the same weight.
        sample_weight : array-like of shape (n,), default=None
            Weights of the samples.
        name : str, default=None
            The title; None is the name of the class.
        figure : matplotlib.figure.Figure, default=None
            Figure to draw in; None makes one.

        Returns
        -------
        display : ReliabilityDisplay
            The display, drawn.
        """
        return cls.from_predictions(
            y,
            estimator.predict_proba(X),
            labels=estimator.classes_,
            n_bins=n_bins,
            strategy=strategy,
            sample_weight=sample_weight,
            name=type(estimator).__name__ if name is None else name,
            figure=figure,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_prob: ArrayLike,
        *,
        labels: ArrayLike | None = None,
        n_bins: int = 10,
        strategy: str = "uniform",
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        figure: "Figure | None" = None,
    ) -> Self:
        """Draw the diagram, given labels and probabilities.

        Parameters
        ----------
        y_true : array-like of shape (n,)
            Labels.
        y_prob : array-like of shape (n, n_classes) or (n,)
            Probabilities of the classes; for two classes, the second column is enough.
        labels : array-like of shape (n_classes,), default=None
            Label of each column; None is the sorted labels of `y_true`.
        n_bins : int, default=10
            Number of bins.
        strategy : {"uniform", "quantile"}, default="uniform"
            Whether bins have the same width or about the same weight.
        sample_weight : array-like of shape (n,), default=None
            Weights of the samples.
        name : str, default=None
            The title.
        figure : matplotlib.figure.Figure, default=None
            Figure to draw in; None makes one.

        Returns
        -------
        display : ReliabilityDisplay
            The display, drawn.
        """
        table = reliability_table(
            y_true,
            y_prob,
            labels=labels,
            n_bins=n_bins,
            strategy=strategy,
            sample_weight=sample_weight,
        )
        return cls(table, name=name).plot(figure=figure)

    @property
    def expected_calibration_error(self) -> float:
        """Mean length of the red marks, weighted by the samples."""
        weight = self.table["weight"]
        gaps = np.abs(self.table["accuracy"] - self.table["confidence"])
        return float(np.nansum(weight * gaps) / weight.sum())

    def plot(self, *, figure: "Figure | None" = None) -> Self:
        """Draw the diagram.

        Parameters
        ----------
        figure : matplotlib.figure.Figure, default=None
            Figure to draw in; None makes one.

        Returns
        -------
        display : ReliabilityDisplay
            The same object.
        """
        plt = pyplot_for(self)
        heights = [HEIGHT, SHARES_HEIGHT]
        if figure is None:
            figure = plt.figure(figsize=(WIDTH, sum(heights)), layout="constrained")
        self.figure_ = figure
        self.axes_ = figure.subplots(2, 1, sharex=True, height_ratios=heights)
        self._draw_accuracy(self.axes_[0])
        self._draw_shares(self.axes_[1])
        for axes in self.axes_:
            axes.spines[["top", "right"]].set_visible(False)
        return self

    def _draw_accuracy(self, axes: "Axes") -> None:
        table = self.table
        axes.plot([0, 1], [0, 1], "--", color="gray", linewidth=1, label="calibrated")
        self._draw_bars(axes, table["accuracy"], label="accuracy")
        axes.vlines(
            table["confidence"],
            table["accuracy"],
            table["confidence"],
            color="firebrick",
            linewidth=2,
            label=f"gap, mean {self.expected_calibration_error:.3f}",
        )
        axes.plot(table["confidence"], table["confidence"], ".", color="firebrick")
        axes.set(xlim=(0, 1), ylim=(0, 1.02), ylabel="share of right answers")
        axes.set_title(self.name or "")
        axes.legend(frameon=False, loc="upper left", fontsize="small")

    def _draw_shares(self, axes: "Axes") -> None:
        weight = self.table["weight"]
        self._draw_bars(axes, weight / weight.sum())
        axes.set(ylabel="share of\nsamples", xlabel="stated probability")

    def _draw_bars(self, axes: "Axes", heights: FloatArray, **settings: Any) -> None:
        low, high = self.table["low"], self.table["high"]
        axes.bar(
            low,
            heights,
            width=high - low,
            align="edge",
            color="tab:blue",
            alpha=0.5,
            edgecolor="tab:blue",
            **settings,
        )
