"""CompletionErrorDisplay: error and score of completions by share of the entries."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.model_selection import cross_validate

from skconvgp._typing import FloatArray
from skconvgp.display._pyplot import pyplot_for
from skconvgp.display._scoring import score_name
from skconvgp.engine import host_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["CompletionErrorDisplay"]

FRACTIONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
MARKERS = "osv^Dp*Xd"
LOGARITHMIC = 10.0  # ratio of the fractions from which on their axis is logarithmic
WIDTH, HEIGHT = 9.0, 3.6  # inches


class CompletionErrorDisplay:
    """Error of a completed Gram matrix, and score, against the share of its entries.

    Make it with :meth:`from_estimator`. A strategy that completes no matrix, such as a
    subset of data, has a score but no error. Compare the scores of completions with it,
    because a small error of the matrix need not mean good predictions.

    Parameters
    ----------
    fractions : array-like of shape (n_fractions,)
        Shares of the distinct entries that may be evaluated.
    scores : dict of str to array-like of shape (n_fractions,)
        Scores of each strategy.
    errors : dict of str to array-like of shape (n_fractions,), default=None
        Relative root mean square errors of each strategy; NaN if it has none.
    exact_score : float, default=None
        Score of the process that evaluates all entries.
    score_name : str, default=None
        Name of the score.

    Attributes
    ----------
    figure_ : matplotlib.figure.Figure
        The figure, after :meth:`plot`.
    axes_ : ndarray of shape (2,)
        The axes of the errors and of the scores.

    See Also
    --------
    sklearn.model_selection.ValidationCurveDisplay : Scores against any parameter.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("agg")
    >>> from sklearn.model_selection import ShuffleSplit
    >>> from skconvgp import ConvNetGPClassifier
    >>> from skconvgp.completion import Nystrom, SubsetOfData
    >>> from skconvgp.datasets import load_digits_images
    >>> from skconvgp.display import CompletionErrorDisplay
    >>> from skconvgp.kernels import arcsine
    >>> X, y = load_digits_images(return_X_y=True)
    >>> display = CompletionErrorDisplay.from_estimator(
    ...     ConvNetGPClassifier(arcsine(), random_state=0),
    ...     X[:400],
    ...     y[:400],
    ...     completions=[Nystrom(), SubsetOfData()],
    ...     fractions=[0.1, 0.5],
    ...     cv=ShuffleSplit(1, random_state=0),
    ... )
    >>> error = display.errors["Nystrom()"]
    >>> bool(error[1] < error[0])
    True
    """

    def __init__(
        self,
        fractions: ArrayLike,
        scores: Mapping[str, ArrayLike],
        *,
        errors: Mapping[str, ArrayLike] | None = None,
        exact_score: float | None = None,
        score_name: str | None = None,
    ) -> None:
        self.fractions = host_numbers(fractions, "fractions")
        self.scores = self._curves("scores", scores)
        self.errors = self._curves("errors", errors or {})
        self.exact_score = exact_score
        self.score_name = score_name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike,
        *,
        completions: Mapping[str, Any] | Sequence[Any] | None = None,
        fractions: ArrayLike = FRACTIONS,
        cv: Any = None,
        scoring: Any = None,
        n_jobs: int | None = None,
        figure: "Figure | None" = None,
    ) -> Self:
        """Cross-validate an estimator with completions and draw errors and scores.

        A clone is fitted for each strategy, fraction and fold, and one without
        completion for each fold.

        Parameters
        ----------
        estimator : object
            Estimator with parameters ``completion`` and ``observed_fraction``; it need
            not be fitted.
        X : array-like
            Samples.
        y : array-like of shape (n,) or (n, n_targets)
            Labels or targets of the samples.
        completions : dict or sequence of completions, default=None
            Strategies to compare, by name; None is the completion of the estimator.
        fractions : array-like of shape (n_fractions,), default=(0.1, 0.2, ..., 0.9)
            Shares of the distinct entries that may be evaluated, each in (0, 1].
        cv : int or cross-validation splitter, default=None
            Folds, as in :func:`sklearn.model_selection.cross_validate`.
        scoring : str or callable, default=None
            Score of held-out samples; None is the ``score`` of the estimator.
        n_jobs : int, default=None
            Number of fits at the same time.
        figure : matplotlib.figure.Figure, default=None
            Figure to draw in; None makes one.

        Returns
        -------
        display : CompletionErrorDisplay
            The display, drawn; scores and errors are means over the folds.

        Raises
        ------
        ValueError
            If the estimator lacks a parameter, there is no strategy, two strategies
            have the same name, or a fraction is too small for a strategy.
        """
        strategies = _named(estimator, completions)
        values = np.atleast_1d(host_numbers(fractions, "fractions"))

        def measured(**settings: Any) -> tuple[float, float]:
            folds = cross_validate(
                clone(estimator).set_params(**settings),
                X,
                y,
                cv=cv,
                scoring=scoring,
                n_jobs=n_jobs,
                return_estimator=True,
                error_score="raise",
            )
            errors = [gp.fit_report_.relative_rmse for gp in folds["estimator"]]
            return float(np.mean(folds["test_score"])), float(np.mean(errors))

        exact, _ = measured(completion=None, observed_fraction=1.0)
        curves = {
            name: np.array(
                [
                    measured(completion=part, observed_fraction=float(value))
                    for value in values
                ]
            )
            for name, part in strategies.items()
        }
        return cls(
            values,
            {name: both[:, 0] for name, both in curves.items()},
            errors={name: both[:, 1] for name, both in curves.items()},
            exact_score=exact,
            score_name=score_name(estimator, scoring),
        ).plot(figure=figure)

    def plot(self, *, figure: "Figure | None" = None) -> Self:
        """Draw errors and scores.

        Parameters
        ----------
        figure : matplotlib.figure.Figure, default=None
            Figure to draw in; None makes one.

        Returns
        -------
        display : CompletionErrorDisplay
            The same object.
        """
        plt = pyplot_for(self)
        if figure is None:
            figure = plt.figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        self.figure_ = figure
        self.axes_ = figure.subplots(1, 2, sharex=True)
        self.axes_[0].set(ylabel="relative RMSE of the completed matrix", yscale="log")
        self._draw(self.axes_[0], self.errors)
        self._draw(self.axes_[1], self.scores)
        self.axes_[1].set(ylabel=self.score_name or "score")
        if self.exact_score is not None:
            self.axes_[1].axhline(
                self.exact_score, color="black", linewidth=1, label="exact"
            )
        self.axes_[1].legend(frameon=False, fontsize="small")
        return self

    def _draw(self, axes: "Axes", curves: dict[str, FloatArray]) -> None:
        for index, name in enumerate(self.scores):
            if name in curves:
                marker = MARKERS[index % len(MARKERS)]
                color = f"C{index % 10}"
                axes.plot(
                    self.fractions, curves[name], color=color, marker=marker, label=name
                )
        axes.xaxis.set_major_formatter("{x:.0%}")
        if self.fractions.max() >= LOGARITHMIC * self.fractions.min():
            labels = [f"{100.0 * fraction:.3g}%" for fraction in self.fractions]
            axes.set_xscale("log")
            axes.set_xticks(self.fractions, labels)
            axes.set_xticks([], minor=True)
        axes.set_xlabel("share of the entries")
        axes.spines[["top", "right"]].set_visible(False)

    def _curves(
        self, argument: str, curves: Mapping[str, ArrayLike]
    ) -> dict[str, FloatArray]:
        arrays = {
            name: host_numbers(values, f"{argument}[{name!r}]")
            for name, values in curves.items()
        }
        for name, values in arrays.items():
            if values.shape != self.fractions.shape:
                raise ValueError(
                    f"`{argument}` of {name!r} must hold one value for each fraction, "
                    f"shape {self.fractions.shape}, got shape {values.shape}."
                )
        return arrays


def _named(
    estimator: Any, completions: Mapping[str, Any] | Sequence[Any] | None
) -> dict[str, Any]:
    """Return the strategies by name."""
    params = estimator.get_params(deep=False)
    missing = {"completion", "observed_fraction"} - set(params)
    if missing:
        names = " and ".join(sorted(missing))
        raise ValueError(
            f"{type(estimator).__name__} has no parameter {names}; pass an estimator "
            "that completes its Gram matrix, without a pipeline around it."
        )
    if completions is None:
        completions = [] if params["completion"] is None else [params["completion"]]
    if not completions:
        raise ValueError(
            "There is no completion to draw; give the estimator one or pass "
            "completions=[...]."
        )
    if isinstance(completions, Mapping):
        return dict(completions)
    named = {repr(part): part for part in completions}
    if len(named) < len(completions):
        raise ValueError(f"Two of the completions are the same: {list(completions)}.")
    return named
