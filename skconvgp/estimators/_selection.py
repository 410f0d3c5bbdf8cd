"""Scores of several Gaussian processes on the same data, side by side."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.metrics import accuracy_score, log_loss, root_mean_squared_error
from sklearn.utils.validation import NotFittedError, check_is_fitted, column_or_1d

from skconvgp._ambient import public
from skconvgp._typing import FloatArray
from skconvgp.engine import host_values, rows_to_tensor, to_numpy
from skconvgp.estimators._candidates import (
    have_same_targets,
    is_candidate,
    last_inputs,
    last_step,
    usual_process,
)
from skconvgp.estimators._doors import Training, process_of, training_of
from skconvgp.estimators._gp import BaseGP
from skconvgp.estimators._labels import kind_of
from skconvgp.estimators._validation import make_generator
from skconvgp.estimators.settings._checks import (
    MOST_BATCHES,
    Given,
    as_count,
)
from skconvgp.estimators.settings._search import as_batch_size
from skconvgp.exceptions import NotPSDError
from skconvgp.flows import Rho
from skconvgp.flows._batches import Batches
from skconvgp.kernels import Kernel
from skconvgp.metrics import (
    expected_calibration_error,
    interval_coverage,
    negative_log_predictive_density,
)

Candidates: TypeAlias = Mapping[str, Any] | Sequence[Any] | Kernel

OWNER = "selection_report"
USUAL_BATCH = 600  # as in Kernel Flows; docs/maths.rst, "Kernel Flows"
LEVEL = 0.95  # of the intervals whose coverage is reported
NAME_HEADING = "candidate"
# Distance of a score from the best possible value; smaller is better.
LOSSES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "rho": lambda values: values,
    "evidence": np.negative,
    "accuracy": np.negative,
    "rmse": lambda values: values,
    "log_density": np.negative,
    "calibration_error": lambda values: values,
    "coverage": lambda values: np.abs(values - LEVEL),
}
# Scores of leave-one-out predictions.
LABEL_SCORES = ("accuracy", "log_density", "calibration_error")
TARGET_SCORES = ("rmse", "log_density", "coverage")
FORMATS = {"evidence": ".1f", "rmse": "#.4g"}
USUAL_FORMAT = ".4f"


@dataclass(frozen=True, eq=False)
class SelectionReport:
    """Scores of several Gaussian processes; ``print(report)`` shows a table.

    Parameters
    ----------
    names : tuple of str
        Names of the candidates.
    scores : tuple of str
        Names of the scores; see :func:`skconvgp.selection_report`.
    values : ndarray of shape (n_candidates, n_scores)
        The scores, read-only; NaN if a score is undefined.
    estimators : tuple of object
        The fitted estimators.

    Examples
    --------
    >>> import numpy as np
    >>> from skconvgp import selection_report
    >>> from skconvgp.kernels import matern, rbf
    >>> X = np.linspace(0.0, 6.0, 40)[:, None]
    >>> report = selection_report([rbf(2.0), matern(2.0)], X, np.sin(X[:, 0]))
    >>> report.best("evidence")
    'rbf(lengthscale=2.0)'
    >>> sorted(report.to_dict()["rmse"])
    ['matern(lengthscale=2.0)', 'rbf(lengthscale=2.0)']
    """

    names: tuple[str, ...]
    scores: tuple[str, ...]
    values: FloatArray
    estimators: tuple[Any, ...] = field(repr=False)

    def __str__(self) -> str:
        """Return a table, with an asterisk at the best values of each score."""
        best = {score: self.is_best(score) for score in self.scores}
        table = [(NAME_HEADING, *self.scores)]
        for i, (name, row) in enumerate(zip(self.names, self.values, strict=True)):
            cells = (
                format(value, FORMATS.get(score, USUAL_FORMAT))
                + ("*" if best[score][i] else " ")
                for score, value in zip(self.scores, row, strict=True)
            )
            table.append((name, *cells))
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = (
            line[0].ljust(widths[0])
            + "".join(
                f"  {cell:>{width}}"
                for cell, width in zip(line[1:], widths[1:], strict=True)
            )
            for line in table
        )
        return "\n".join(line.rstrip() for line in lines)

    def best(self, score: str) -> str:
        """Return the name of the candidate with the best value of a score.

        Parameters
        ----------
        score : str
            One of `scores`.

        Returns
        -------
        name : str
            Name of the first candidate if several are equally good.
        """
        is_best = self.is_best(score)
        if not is_best.any():
            raise ValueError(f"{score!r} is undefined for every candidate.")
        return self.names[int(is_best.argmax())]

    def is_best(self, score: str) -> NDArray[np.bool_]:
        """Return for each candidate whether no other one has a better score.

        Parameters
        ----------
        score : str
            One of `scores`.

        Returns
        -------
        is_best : ndarray of shape (n_candidates,)
            Several are True if they are equally good; none is if the score is undefined
            for all.
        """
        if score not in self.scores:
            words = ", ".join(map(repr, self.scores))
            raise ValueError(f"`score` must be one of {words}, got {score!r}.")
        losses = LOSSES[score](self.values[:, self.scores.index(score)])
        least = np.nanmin(losses, initial=np.inf)
        is_best: NDArray[np.bool_] = losses == least
        return is_best

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Return the values by score and name, as ``pandas.DataFrame`` takes them.

        Returns
        -------
        values : dict of dict of float
            ``values[score][name]``.
        """
        columns = zip(self.scores, self.values.T.tolist(), strict=True)
        return {
            score: dict(zip(self.names, column, strict=True))
            for score, column in columns
        }


@public
def selection_report(
    estimators: Candidates,
    X: Any,
    y: Any,
    *,
    batch_size: object = "auto",
    n_batches: int = 4,
    random_state: Any = 0,
) -> SelectionReport:
    """Compare several Gaussian processes or kernels on the same training data.

    Nothing is held out: every score follows from the training data in closed form.

    Parameters
    ----------
    estimators : dict, sequence, estimator or kernel
        Estimators of this package: a dict by name, a sequence of estimators or of
        (name, estimator) pairs, or a single estimator. Each may be the last step of a
        pipeline. Estimators that are already fitted must have been fitted to X and y,
        and are used as they are; clones of the others are fitted. A kernel stands for a
        `ConvNetGPClassifier` if y holds labels or integers, otherwise for a
        `ConvNetGPRegressor`, with ``noise_variance="evidence"``.
    X : array-like
        Training images or vectors.
    y : array-like
        Labels or targets.
    batch_size : "auto" or int, default="auto"
        Number of samples in a batch for rho; "auto" is 600, or all samples if there are
        fewer.
    n_batches : int, default=4
        Number of batches over which rho is averaged; all candidates use the same
        batches.
    random_state : int, RandomState instance or None, default=0
        Seed of the batches.

    Returns
    -------
    report : SelectionReport
        A table; see Notes for its columns.

    Raises
    ------
    ValueError
        If candidates mix classifiers and regressors, were fitted to other data, share a
        name, or are no Gaussian processes of this package.

    See Also
    --------
    skconvgp.display.SelectionDisplay : Draws the table.

    Notes
    -----
    The column "rho" holds the squared errors of one half of a batch as the other half
    predicts it, as a share of its squared targets (:class:`~skconvgp.flows.Rho`). Its
    nugget is the noise of the Gaussian process; for likelihoods that derive their noise
    from the labels, the noise of label regression. It is above 1 if predicting zero
    would be better. The column "evidence" holds the log marginal likelihood. All other
    columns judge the leave-one-out predictions: "accuracy" or "rmse"; "log_density",
    the mean log probability of the labels or mean log density of the targets; and
    "calibration_error", the expected calibration error, or "coverage", the share of the
    targets in central intervals of 95 %.

    The evidence is the density of the targets that the likelihood makes of the labels.
    If candidates have different targets, or different numbers of them, evidences cannot
    be compared and are NaN; ``log_marginal_likelihood`` still returns the evidence of
    each estimator. With a completion, leave-one-out predictions cover the samples that
    were used. If a solver ended far from a solution, the evidence and the scores of
    leave-one-out predictions are NaN.

    Examples
    --------
    >>> from skconvgp import selection_report
    >>> from skconvgp.datasets import load_digits_images
    >>> from skconvgp.kernels import convnet, rbf
    >>> X, y = load_digits_images(return_X_y=True)
    >>> kernels = {"network": convnet(depth=2, kernel_size=3), "RBF": rbf(2.0)}
    >>> report = selection_report(kernels, X[:200], y[:200])
    >>> [report.best(score) for score in report.scores]
    ['RBF', 'RBF', 'RBF', 'RBF', 'RBF']
    """
    named, y = _named(estimators), host_values(y, "y")
    candidates = [_as_estimator(one, y) for one in named.values()]
    judge = _judge_of(candidates)
    fitted = []
    for one in candidates:
        try:
            check_is_fitted(last_step(one))
            fitted.append(one)
        except NotFittedError:
            fitted.append(clone(one).fit(X, y))
    rows = []
    for name, one in zip(named, fitted, strict=True):
        own = _Fitted(name, last_step(one), y)
        used = own.rows(last_inputs(one, X))
        given = Given.to(OWNER, batch_size=batch_size, n_batches=n_batches)
        rho = own.mean_rho(used, given, random_state)
        evidence = own.gp.log_marginal_likelihood()
        rows.append({"rho": rho, "evidence": evidence} | judge(own))
    if not have_same_targets([last_step(one) for one in fitted]):
        rows = [row | {"evidence": math.nan} for row in rows]
    scores = tuple(rows[0])
    values = np.array([[row[score] for score in scores] for row in rows])
    values.setflags(write=False)
    return SelectionReport(tuple(named), scores, values, tuple(fitted))


def _named(estimators: Any) -> dict[str, Any]:
    """Return candidates by name; without names, their repr is the name."""
    if is_candidate(estimators):
        estimators = [estimators]
    if isinstance(estimators, Mapping):
        pairs = list(estimators.items())
    else:
        are_pairs = all(isinstance(one, tuple) for one in estimators)
        pairs = [one if are_pairs else (_on_one_line(one), one) for one in estimators]
    if not pairs:
        raise ValueError("`estimators` must hold one candidate or more, got none.")
    names = [str(name) for name, _ in pairs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(
            f"Candidates must have names that differ, got {twice!r} more than once: "
            "pass a dict or (name, estimator) pairs."
        )
    return dict(zip(names, (one for _, one in pairs), strict=True))


def _on_one_line(candidate: object) -> str:
    return " ".join(repr(candidate).split())


def _as_estimator(candidate: Any, y: Any) -> Any:
    """Return an estimator; for a kernel, the one that it stands for."""
    is_label = kind_of(y) in ("binary", "multiclass")
    candidate = usual_process(candidate, is_label=is_label)
    if not isinstance(last_step(candidate), BaseGP) or isinstance(candidate, type):
        raise ValueError(  # noqa: TRY004  (as for a wrong kernel)
            "Candidates must be kernels or single processes of skconvgp, which have "
            f"evidence and leave-one-out predictions, got {candidate!r}."
        )
    return candidate


def _judge_of(candidates: list[Any]) -> Callable[["_Fitted"], dict[str, float]]:
    """Return the function that scores the leave-one-out predictions of candidates."""
    if all(map(is_classifier, candidates)):
        return _Fitted.judged_by_labels
    if all(map(is_regressor, candidates)):
        return _Fitted.judged_by_targets
    raise ValueError(
        "Candidates must be all classifiers or all regressors, got "
        f"{sorted({type(last_step(one)).__name__ for one in candidates})!r}."
    )


@dataclass(frozen=True)
class _Fitted:
    """A fitted candidate, and the labels or targets of the comparison."""

    name: str
    gp: Any
    y: Any

    @property
    def process(self) -> Any:
        """Its process."""
        return process_of(self.gp)

    @property
    def training(self) -> Training:
        """The record of its training data."""
        return training_of(self.gp)

    def rows(self, X: Any) -> NDArray[Any]:
        """Return the rows that it uses; raise unless it was fitted to X and y.

        All weights must be 1.
        """
        if not np.allclose(self.process.model.sample_weights, 1.0):
            raise ValueError(
                f"{self.name!r} was fitted with sample weights, and its scores cannot "
                "be compared with those of unweighted fits: pass an unfitted clone."
            )
        rows, truth, training = self.gp._read_new(X), np.asarray(self.y), self.training
        # Versions of images follow.
        basis, n = self.process.basis, self.process.model.n_samples
        kept, indices = basis.kept_rows, basis.kept_indices
        has_rows = len(rows) == len(truth) == training.n_given and (
            kept is None or np.array_equal(kept[:n], rows[indices[:n]])
        )
        if not has_rows or not self._was_fitted_to(truth):
            raise ValueError(
                f"{self.name!r} was fitted to other data than X and y: pass an "
                "unfitted clone."
            )
        used: NDArray[Any] = rows[training.kept]
        return used

    def _was_fitted_to(self, y: NDArray[Any]) -> bool:
        """Return whether it was fitted to these labels or targets."""
        gp, training = self.gp, self.training
        if is_classifier(gp):
            fitted = gp.classes_[training.codes]
            return np.array_equal(fitted, column_or_1d(y)[training.kept])
        kept = y.reshape(len(y), -1)[training.kept]
        scaled = self.process.model.sample_targets
        fitted = training.targets(scaled, gp.y_scale_, gp.y_mean_)
        return fitted.shape == kept.shape and np.allclose(fitted, kept)

    def mean_rho(self, rows: NDArray[Any], given: Given, random_state: Any) -> float:
        """Return the mean of rho over batches of rows; NaN if it is undefined."""
        kept, codes, process = self.training.kept, self.training.codes, self.process
        labels = None if codes is None else rows_to_tensor(codes)
        size = given.read("batch_size", as_batch_size, n=len(rows), usual=USUAL_BATCH)
        batches = Batches(len(rows), labels, make_generator(random_state))
        targets = rows_to_tensor(process.model.sample_targets)
        objective = Rho("held_out", noise_variance=process.model.noise)
        total, count = 0.0, given.read("n_batches", as_count, most=MOST_BATCHES)
        for _ in range(count):
            indices = batches.draw(size).indices
            drawn = to_numpy(indices)
            has_matrix = process.basis.kernel_basis is None
            part = rows[np.ix_(drawn, kept[drawn])] if has_matrix else rows[drawn]
            gram = rows_to_tensor(self.gp._gram_of(part))
            try:
                total += objective.score(gram, targets[indices]).value
            except NotPSDError:
                return math.nan
        return total / count

    def judged_by_labels(self) -> dict[str, float]:
        """Return scores of left-out probabilities."""
        gp = self.gp
        if not self.process.has_left_out:
            return dict.fromkeys(LABEL_SCORES, math.nan)
        truth, y_prob = np.asarray(self.y)[self.training.kept], gp.loo_predict_proba()
        values = (
            float(accuracy_score(truth, gp.loo_predict())),
            -float(log_loss(truth, y_prob, labels=gp.classes_)),
            expected_calibration_error(truth, y_prob, labels=gp.classes_),
        )
        return dict(zip(LABEL_SCORES, values, strict=True))

    def judged_by_targets(self) -> dict[str, float]:
        """Return scores of left-out means and deviations."""
        if not self.process.has_left_out:
            return dict.fromkeys(TARGET_SCORES, math.nan)
        truth = np.asarray(self.y, dtype=np.float64)[self.training.kept]
        mean, std = self.gp.loo_predict(return_std=True)
        density = negative_log_predictive_density(truth, mean, std)
        coverage = interval_coverage(truth, mean, std, level=LEVEL)
        values = (
            float(root_mean_squared_error(truth, mean)),
            -float(np.mean(density)),
            float(np.mean(coverage)),
        )
        return dict(zip(TARGET_SCORES, values, strict=True))
