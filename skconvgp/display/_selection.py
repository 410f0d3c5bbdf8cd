"""SelectionDisplay: scores of several candidates, a panel for each score."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from skconvgp._typing import FloatArray
from skconvgp.display._pyplot import pyplot_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["SelectionDisplay"]

PANEL, ROW, MARGIN, LETTER = 1.75, 0.32, 1.0, 0.09  # inches
TITLES = {  # of the panels, with the direction that is better
    "rho": ("rho", "less is better"),
    "evidence": ("log evidence", "more is better"),
    "accuracy": ("accuracy", "more is better"),
    "rmse": ("RMSE", "less is better"),
    "log_density": ("log density", "more is better"),
    "calibration_error": ("calibration error", "less is better"),
    "coverage": ("coverage", "0.95 is best"),
}


class SelectionDisplay:
    """Scores of several processes side by side, a panel for each score.

    Make it with :meth:`from_report`. The best candidate of each panel is green. Each
    panel has a separate scale.

    Parameters
    ----------
    report : SelectionReport
        Result of :func:`skconvgp.selection_report`.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        The figure, after :meth:`plot`.
    axes_ : ndarray of shape (n_scores,)
        The axes, one for each score.

    See Also
    --------
    skconvgp.selection_report : Computes the scores.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> import numpy as np
    >>> from skconvgp import selection_report
    >>> from skconvgp.display import SelectionDisplay
    >>> from skconvgp.kernels import matern, rbf
    >>> X = np.linspace(0.0, 6.0, 40)[:, None]
    >>> report = selection_report([rbf(2.0), matern(2.0)], X, np.sin(X[:, 0]))
    >>> SelectionDisplay.from_report(report).axes_.shape
    (5,)
    """

    def __init__(self, report: Any) -> None:
        self.report = report

    @classmethod
    def from_report(cls, report: Any, *, figure: "Figure | None" = None) -> Self:
        """Draw a report.

        Parameters
        ----------
        report : SelectionReport
            Result of :func:`skconvgp.selection_report`.
        figure : matplotlib.figure.Figure, default=None
            Figure to draw in; None makes one.

        Returns
        -------
        display : SelectionDisplay
            The display, drawn.
        """
        return cls(report).plot(figure=figure)

    def plot(self, *, figure: "Figure | None" = None) -> Self:
        """Draw the panels.

        Parameters
        ----------
        figure : matplotlib.figure.Figure, default=None
            Figure to draw in; None makes one.

        Returns
        -------
        display : SelectionDisplay
            The same object.
        """
        plt = pyplot_for(self)
        names, scores = self.report.names, self.report.scores
        if figure is None:
            longest = max(map(len, names))
            size = (
                PANEL * len(scores) + LETTER * longest,
                ROW * len(names) + MARGIN,
            )
            figure = plt.figure(figsize=size, layout="constrained")
        self.figure_ = figure
        panels = figure.subplots(1, len(scores), sharey=True, squeeze=False)
        self.axes_ = panels[0]
        for axes, score, column in zip(
            self.axes_, scores, self.report.values.T, strict=True
        ):
            self._draw(axes, score, column)
        self.axes_[0].set_yticks(range(len(names)), names)
        self.axes_[0].set_ylim(len(names) - 0.5, -0.5)
        return self

    def _draw(self, axes: "Axes", score: str, values: FloatArray) -> None:
        is_best = self.report.is_best(score)
        positions = np.arange(len(values))
        for marked, color in ((~is_best, "tab:blue"), (is_best, "tab:green")):
            axes.plot(values[marked], positions[marked], "o", color=color)
        title, better = TITLES[score]
        axes.set_title(title, fontsize="medium")
        axes.set_xlabel(better, fontsize="small")
        axes.margins(x=0.15)
        axes.locator_params(axis="x", nbins=3)
        axes.ticklabel_format(axis="x", useOffset=False)
        axes.grid(axis="y", color="0.9")
        axes.set_axisbelow(True)
        axes.tick_params(axis="y", length=0)
        axes.spines[["top", "right", "left"]].set_visible(False)
