"""NoveltyDisplay: p-values of new samples over time."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from skconvgp._settings import is_int
from skconvgp.display._pyplot import pyplot_for
from skconvgp.engine import host_numbers, host_values
from skconvgp.questions import novelty

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["NoveltyDisplay"]

NEW, LIKE, GUIDE = "firebrick", "0.6", "0.3"  # colors


class NoveltyDisplay:
    """P-values of samples as they come, and the share of small ones.

    Make it with :meth:`from_estimator` or :meth:`from_p_values`. Above, each sample is
    a point, red if its p-value is at most `level`. Below is the share of such samples
    among the last ones: for samples like the training samples it is about `level` or
    less, the dashed line.

    Parameters
    ----------
    p_values : ndarray of shape (n,)
        P-values, in the order of time.
    times : ndarray of shape (n,) or None, default=None
        Times of the samples; None is 0, 1, 2, ...
    level : float, default=0.05
        Which p-values are small.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        The figure, after :meth:`plot`.
    axes_ : ndarray of shape (2,)
        The axes: p-values, and shares.
    shares_ : ndarray of shape (n,)
        Share of small p-values among the last ones; NaN before there are enough.

    Examples
    --------
    >>> import matplotlib
    >>> import numpy as np
    >>> matplotlib.use("agg")
    >>> from skconvgp import ImageClassifier
    >>> from skconvgp.datasets import load_digits_images
    >>> from skconvgp.display import NoveltyDisplay
    >>> X, y = load_digits_images(return_X_y=True)
    >>> some = np.random.default_rng(0).permutation(len(X))[:400]
    >>> X, y = X[some], y[some]
    >>> gp = ImageClassifier(random_state=0).fit(X[:200], y[:200])
    >>> X[300:] = 1.0 - X[300:]
    >>> display = NoveltyDisplay.from_estimator(gp, X[200:], window=50)
    >>> bool(display.shares_[99] < 0.2), bool(display.shares_[199] > 0.9)
    (True, True)
    """

    def __init__(
        self,
        p_values: NDArray[Any],
        times: NDArray[Any] | None = None,
        level: float = 0.05,
    ) -> None:
        self.p_values = p_values
        self.times = times
        self.level = level

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        *,
        times: ArrayLike | None = None,
        level: float = 0.05,
        window: int = 50,
        figure: "Figure | None" = None,
    ) -> Self:
        """Ask a fitted estimator how new samples are, and draw the p-values.

        Parameters
        ----------
        estimator : object
            Fitted, as :func:`skconvgp.questions.novelty` takes it.
        X : array-like of shape (n, ...)
            Samples in the order of time.
        times : array-like of shape (n,), default=None
            Times of the samples: numbers or dates.
        level : float, default=0.05
            Which p-values are small, between 0 and 1.
        window : int, default=50
            Number of last samples whose share of small p-values is drawn.
        figure : matplotlib.figure.Figure, default=None
            Figure to draw in; None makes one.

        Returns
        -------
        display : NoveltyDisplay
            The display, drawn.
        """
        values = novelty(estimator, X)
        return cls.from_p_values(
            values, times=times, level=level, window=window, figure=figure
        )

    @classmethod
    def from_p_values(
        cls,
        p_values: ArrayLike,
        *,
        times: ArrayLike | None = None,
        level: float = 0.05,
        window: int = 50,
        figure: "Figure | None" = None,
    ) -> Self:
        """Draw p-values.

        Parameters
        ----------
        p_values : array-like of shape (n,)
            P-values in the order of time.
        times : array-like of shape (n,), default=None
            Times of the samples: numbers or dates.
        level : float, default=0.05
            Which p-values are small, between 0 and 1.
        window : int, default=50
            Number of last samples whose share of small p-values is drawn.
        figure : matplotlib.figure.Figure, default=None
            Figure to draw in; None makes one.

        Returns
        -------
        display : NoveltyDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            For p-values that are none, another number of times, or a wrong level.
        """
        values = host_numbers(p_values, "p_values")
        are_shares = values.ndim == 1 and ((values > 0.0) & (values <= 1.0)).all()
        if not are_shares or not len(values):
            raise ValueError(
                "`p_values` must be one row of numbers above 0 and at most 1, got "
                f"{p_values!r}."
            )
        given = None if times is None else np.asarray(host_values(times, "times"))
        if given is not None and given.shape != values.shape:
            raise ValueError(
                f"`times` must have one time for each of {len(values)} p-values, got "
                f"shape {given.shape!r}."
            )
        if not 0.0 < level < 1.0:
            raise ValueError(f"`level` must be between 0 and 1, got {level!r}.")
        return cls(values, given, level).plot(window=window, figure=figure)

    def plot(self, *, window: int = 50, figure: "Figure | None" = None) -> Self:
        """Draw the p-values and the shares of small ones.

        Parameters
        ----------
        window : int, default=50
            Number of last samples whose share of small p-values is drawn, at most as
            many as there are.
        figure : matplotlib.figure.Figure, default=None
            Figure to draw in; None makes one.

        Returns
        -------
        display : NoveltyDisplay
            The same object.
        """
        if not is_int(window):
            raise ValueError(f"`window` must be an int >= 1, got {window!r}.")
        plt = pyplot_for(self)
        n, is_small = len(self.p_values), self.p_values <= self.level
        window = min(int(window), n)
        counts = np.cumsum(np.concatenate([[0], is_small]))
        self.shares_ = np.full(n, np.nan)
        self.shares_[window - 1 :] = (counts[window:] - counts[:-window]) / window
        if figure is None:
            figure = plt.figure(figsize=(8, 4.6), layout="constrained")
        self.figure_ = figure
        self.axes_ = np.asarray(figure.subplots(2, 1, sharex=True))
        above, below = self.axes_
        times = np.arange(n) if self.times is None else self.times
        above.scatter(times, self.p_values, s=9, c=np.where(is_small, NEW, LIKE))
        above.axhline(self.level, color=GUIDE, linestyle="--", linewidth=1)
        above.set(yscale="log", ylabel="p-value")
        below.plot(times, self.shares_, color=NEW)
        below.axhline(self.level, color=GUIDE, linestyle="--", linewidth=1)
        below.set(ylim=(-0.03, 1.03), xlabel="sample" if self.times is None else "time")
        below.set_ylabel(f"share of the last {window}\nwith p ≤ {self.level:g}")
        for axes in self.axes_:
            axes.spines[["top", "right"]].set_visible(False)
        return self
