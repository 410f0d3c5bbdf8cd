"""QueryCurvesDisplay: scores against numbers of labels, for several strategies."""

import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.utils import _safe_indexing, indexable

from skconvgp._settings import is_int
from skconvgp._typing import FloatArray
from skconvgp.display._pyplot import pyplot_for
from skconvgp.display._scoring import score_name
from skconvgp.engine import host_numbers, host_values
from skconvgp.estimators._validation import random_source
from skconvgp.questions import query
from skconvgp.questions._query import checked_strategy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["QueryCurvesDisplay"]

OF_CLASSIFIERS = ("random", "margin", "variance", "uncertain variance")
OF_REGRESSORS = ("random", "variance")
# A strategy has the same colour in every picture.
COLORS = {
    "random": "0.55",
    "margin": "tab:orange",
    "variance": "tab:green",
    "uncertain variance": "tab:blue",
}
OTHERS = ("tab:purple", "tab:red", "tab:brown", "tab:cyan")
WIDTH, HEIGHT = 6.4, 4.0  # inches


class QueryCurvesDisplay:
    """Score against the number of labels, a curve for each strategy of choice.

    Make it with :meth:`from_estimator` or :meth:`from_scores`. A curve is the mean over
    draws of the samples. The band around it is one standard error of this mean on each
    side; a single draw has none. Draws have samples in common, so that a band says
    nothing of other data.

    Parameters
    ----------
    numbers : array-like of shape (n_numbers,)
        Numbers of labels, ascending.
    scores : dict of str to array-like of shape (n_draws, n_numbers) or (n_numbers,)
        Scores of each strategy, by its name.
    score_name : str, default=None
        Name of the score.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        The figure, after :meth:`plot`.
    ax_ : matplotlib.axes.Axes
        The axes.

    See Also
    --------
    skconvgp.questions.query : Chooses the samples.
    sklearn.model_selection.LearningCurveDisplay : Curves of samples at random.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from skconvgp import ConvNetGPClassifier
    >>> from skconvgp.datasets import load_digits_images
    >>> from skconvgp.display import QueryCurvesDisplay
    >>> X, y = load_digits_images(return_X_y=True)
    >>> display = QueryCurvesDisplay.from_estimator(
    ...     ConvNetGPClassifier(),
    ...     X[:500],
    ...     y[:500],
    ...     strategies=["random", "uncertain variance"],
    ...     n_batches=1,
    ...     random_state=0,
    ... )
    >>> display.numbers.tolist(), display.scores["random"].shape
    ([25, 50], (3, 2))
    >>> mean = {name: values.mean(axis=0) for name, values in display.scores.items()}
    >>> bool(mean["uncertain variance"][1] > mean["random"][1])
    True
    """

    def __init__(
        self,
        numbers: ArrayLike,
        scores: Mapping[str, ArrayLike],
        *,
        score_name: str | None = None,
    ) -> None:
        self.numbers = np.asarray(host_values(numbers, "numbers"))
        if self.numbers.ndim != 1 or not (np.diff(self.numbers) > 0).all():
            raise ValueError(
                f"`numbers` must be one row of ascending numbers, got {numbers!r}."
            )
        if not scores:
            raise ValueError("`scores` must have a strategy, got none.")
        self.scores = {name: self._draws(name, one) for name, one in scores.items()}
        self.score_name = score_name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        strategies: Iterable[str] | None = None,
        start: int = 25,
        batch: int = 25,
        n_batches: int = 3,
        test_size: int | None = None,
        n_draws: int = 3,
        scoring: Any = None,
        random_state: Any = None,
        ax: "Axes | None" = None,
    ) -> Self:
        """Learn from chosen labels, a batch at a time, and draw the scores.

        In each draw some samples are set apart to score, and the others are the pool.
        All strategies start with the labels of the same samples of the pool, at random.
        A clone of the estimator is fitted to the labels so far, scored, and asked which
        samples to label next. Samples of a class without a label so far count as
        mistakes.

        Parameters
        ----------
        estimator : classifier or regressor
            As :func:`skconvgp.questions.query` takes it; it need not be fitted.
        X : array-like of shape (n, ...)
            Samples.
        y : array-like of shape (n,)
            Their labels or targets. A strategy sees those of its choices alone.
        strategies : iterable of str, default=None
            Strategies of :func:`skconvgp.questions.query`; None is random choices and
            all choices that the estimator may take.
        start : int, default=25
            Labels at the start.
        batch : int, default=25
            Labels of a batch.
        n_batches : int, default=3
            Batches; the estimator is fitted once more after each.
        test_size : int, default=None
            Samples to score; None is three tenths.
        n_draws : int, default=3
            Draws of all of this.
        scoring : str or callable, default=None
            Score of the samples that are set apart; None is the ``score`` of the
            estimator.
        random_state : int, RandomState instance or None, default=None
            For the draws, and for choices at random.
        ax : matplotlib.axes.Axes, default=None
            Axes to draw in; None makes a figure.

        Returns
        -------
        display : QueryCurvesDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            For strategies that are not those of the estimator, numbers that are no
            positive integers, or more labels than the pool has.
        """
        X, y = indexable(X, np.asarray(host_values(y, "y")))
        sizes = {"start": start, "batch": batch, "n_batches": n_batches}
        n_test = max(1, round(0.3 * len(y))) if test_size is None else test_size
        _check_sizes(len(y), **sizes, n_draws=n_draws, test_size=n_test)
        numbers = start + batch * np.arange(n_batches + 1)
        if strategies is None:
            strategies = OF_CLASSIFIERS if is_classifier(estimator) else OF_REGRESSORS
        names = _strategies(estimator, strategies)
        score, source = check_scoring(estimator, scoring), random_source(random_state)
        scores = {name: np.empty((n_draws, len(numbers))) for name in names}

        def fitted(labelled: NDArray[np.intp]) -> Any:
            return clone(estimator).fit(_safe_indexing(X, labelled), y[labelled])

        def scored(model: Any, test: NDArray[np.intp]) -> float:
            with warnings.catch_warnings():
                # At the start classes without a label are usual.
                warnings.filterwarnings("ignore", message="y holds labels that `fit`")
                return float(score(model, _safe_indexing(X, test), y[test]))

        for draw in range(n_draws):
            order = source.permutation(len(y))
            test, pool = order[:n_test], order[n_test:]
            first = fitted(pool[:start])
            for name in names:
                model, labelled = first, pool[:start]
                scores[name][draw, 0] = scored(model, test)
                for step in range(1, len(numbers)):
                    left = np.setdiff1d(pool, labelled)
                    asked = _safe_indexing(X, left)
                    chosen = query(model, asked, batch, name, random_state=source)
                    labelled = np.concatenate([labelled, left[chosen]])
                    model = fitted(labelled)
                    scores[name][draw, step] = scored(model, test)
        of_score = score_name(estimator, scoring)
        return cls(numbers, scores, score_name=of_score).plot(ax=ax)

    @classmethod
    def from_scores(
        cls,
        numbers: ArrayLike,
        scores: Mapping[str, ArrayLike],
        *,
        score_name: str | None = None,
        ax: "Axes | None" = None,
    ) -> Self:
        """Draw scores that are known.

        Parameters
        ----------
        numbers : array-like of shape (n_numbers,)
            Numbers of labels, ascending.
        scores : dict of str to array-like of shape (n_draws, n_numbers) or (n_numbers,)
            Scores of each strategy, by its name.
        score_name : str, default=None
            Name of the score; None is "score".
        ax : matplotlib.axes.Axes, default=None
            Axes to draw in; None makes a figure.

        Returns
        -------
        display : QueryCurvesDisplay
            The display, drawn.

        Raises
        ------
        ValueError
            For numbers that do not ascend, or scores of another shape.
        """
        return cls(numbers, scores, score_name=score_name).plot(ax=ax)

    def plot(self, *, ax: "Axes | None" = None) -> Self:
        """Draw the curves and their bands.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, default=None
            Axes to draw in; None makes a figure.

        Returns
        -------
        display : QueryCurvesDisplay
            The same object.
        """
        plt = pyplot_for(self)
        if ax is None:
            _, ax = plt.subplots(figsize=(WIDTH, HEIGHT), layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        others = [name for name in self.scores if name not in COLORS]
        for name, draws in self.scores.items():
            color = COLORS.get(name)
            if color is None:
                color = OTHERS[others.index(name) % len(OTHERS)]
            mean = draws.mean(axis=0)
            ax.plot(self.numbers, mean, "o-", markersize=3, color=color, label=name)
            if len(draws) > 1:
                error = draws.std(axis=0, ddof=1) / np.sqrt(len(draws))
                around = mean - error, mean + error
                ax.fill_between(
                    self.numbers, *around, color=color, alpha=0.15, linewidth=0
                )
        ax.set(xlabel="labels", ylabel=self.score_name or "score")
        ax.grid(axis="y", color="0.9")
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, fontsize="small", loc="lower right")
        return self

    def _draws(self, name: str, scores: ArrayLike) -> FloatArray:
        """Return the scores (n_draws, n_numbers) of a strategy."""
        draws = np.atleast_2d(host_numbers(scores, "scores"))
        if draws.ndim != 2 or not len(draws) or draws.shape[1] != len(self.numbers):
            raise ValueError(
                f"`scores` of {name!r} must have a row of {len(self.numbers)} scores "
                f"for each draw, got shape {draws.shape}."
            )
        return draws


def _strategies(estimator: Any, given: Iterable[str]) -> list[str]:
    """Return strategies of an estimator; raise unless each has one of the names."""
    if isinstance(given, str) or not (names := list(given)):
        raise ValueError(f"`strategies` must be a list of names, got {given!r}.")
    for name in names:
        checked_strategy(estimator, name)
    return names


def _check_sizes(n: int, **sizes: int) -> None:
    """Raise unless n samples are enough for a test set and for so many labels."""
    for name, size in sizes.items():
        if not is_int(size):
            raise ValueError(f"`{name}` must be an int >= 1, got {size!r}.")
    n_labels = sizes["start"] + sizes["batch"] * sizes["n_batches"]
    n_test = sizes["test_size"]
    if n_labels > n - n_test:
        raise ValueError(
            f"`start`, `batch` and `n_batches` ask for {n_labels} labels, and {n} "
            f"samples leave a pool of {max(0, n - n_test)}, as {n_test} are set apart "
            "to score: ask for fewer, or pass a smaller `test_size`."
        )
