"""Labels: how they are checked, predicted and scored, and which targets they have."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import (
    check_classification_targets,
    type_of_target,
    unique_labels,
)
from sklearn.utils.validation import check_is_fitted, column_or_1d

from skconvgp._protocols import (
    Likelihood,
    LinkLikelihood,
    Targets,
    VariationalLikelihood,
)
from skconvgp._typing import FloatArray
from skconvgp.engine import host_values, rows_to_tensor
from skconvgp.estimators._warn import warn_caller
from skconvgp.estimators.settings._checks import BALANCED, Given, as_class_weight
from skconvgp.estimators.settings._gp import why_no_choice
from skconvgp.likelihoods import Gaussian
from skconvgp.processes import LabelModel, LinkModel, NoisyModel, Problem

AnyLikelihood: TypeAlias = Likelihood | LinkLikelihood | VariationalLikelihood


def as_labels(y: Any) -> NDArray[Any]:
    """Return labels (n,); raise unless all have one kind, and are classes."""
    require_one_kind(y)
    with np.errstate(invalid="ignore"):  # whole numbers are sought by casts
        check_classification_targets(y)
    labels: NDArray[Any] = column_or_1d(y, warn=True)
    return labels


def kind_of(y: Any) -> str:
    """Return scikit-learn's type of labels or targets."""
    with np.errstate(invalid="ignore"):
        return str(type_of_target(y, input_name="y"))


def distinct_labels(classes: Any) -> NDArray[Any]:
    """Return the labels among classes in order, each once."""
    with np.errstate(invalid="ignore"):
        labels: NDArray[Any] = unique_labels(host_values(classes, "classes"))
    return labels


def require_one_kind(y: Any) -> None:
    """Raise if y is an array of objects that are not all strings."""
    values = np.asarray(y)
    if values.dtype == object and not all(isinstance(one, str) for one in values.flat):
        kinds = sorted({type(one).__name__ for one in values.flat})
        raise ValueError(
            "y must hold labels of one kind, all numbers or all strings, got an array "
            f"of dtype object with {', '.join(kinds)}: Unknown label type. Drop "
            "samples without a label, and convert the others, as by y.astype(int) or "
            "y.astype(str)."
        )


def require_classes(classes: NDArray[Any], origin: str = "y") -> None:
    """Raise unless there are two classes or more; `origin` names the labels."""
    if len(classes) == 1:
        raise ValueError(
            f"{origin} must have at least two classes, got one class: "
            f"{classes.tolist()[0]!r}."
        )


def require_usable(
    likelihood: AnyLikelihood, weights: FloatArray, instead: str, name: str
) -> None:
    """Raise if a likelihood needs another inference, or no sample weights (n,).

    `instead` names likelihoods for the class of that name; it is empty if the class has
    variational inference.
    """
    if isinstance(likelihood, VariationalLikelihood) and instead:
        raise ValueError(
            f"{likelihood!r} needs variational inference, which PatchGPClassifier has "
            f"and {name} has not: use likelihood={instead}."
        )
    if isinstance(likelihood, LinkLikelihood) and (weights != 1.0).any():
        raise ValueError(
            f"{likelihood!r} takes no sample weights other than 0 and 1: use "
            "likelihood='dirichlet' or 'gaussian'."
        )


def codes_of(labels: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.intp]:
    """Return the index of each label in sorted classes; raise if one is missing."""
    known = np.isin(labels, classes)
    if not known.all():
        raise ValueError(
            f"y holds labels that are not in `classes`, {classes!r}: "
            f"{np.unique(labels[~known])!r}. Call `fit` with all labels, or name all "
            "as `classes` in the first `partial_fit`."
        )
    return np.searchsorted(classes, labels)


def class_weighing(
    given: Given, classes: NDArray[Any] | None = None
) -> Callable[[NDArray[Any], FloatArray], FloatArray] | None:
    """Return what multiplies sample weights, given y, by those of classes.

    The result is None without `class_weight`. `classes` are the labels that all calls
    of `partial_fit` have; none for `fit`.
    """
    weights = given.read("class_weight", as_class_weight)
    if weights is None:
        return None
    if weights == BALANCED and classes is not None:
        raise ValueError(
            "class_weight='balanced' needs the labels of all calls, and `partial_fit` "
            "knows those of one: pass a dict of weights, as by sklearn.utils."
            "class_weight.compute_class_weight('balanced', classes=classes, y=y) for "
            "the labels y of all calls."
        )
    return partial(_weighed, given=weights, classes=classes)


def _weighed(
    y: NDArray[Any],
    weights: FloatArray,
    given: str | Mapping[Any, float],
    classes: NDArray[Any] | None,
) -> FloatArray:
    """Return sample weights (n,), times those of the classes of labels y (n,)."""
    counted = weights > 0.0
    present, codes = np.unique(as_labels(y)[counted], return_inverse=True)
    if isinstance(given, str):
        totals = np.bincount(codes, weights[counted])
        factors = totals.sum() / (len(totals) * totals)
    else:
        labels = (present if classes is None else classes).tolist()
        missing = [label for label in labels if label not in given]
        unknown = [label for label in given if label not in labels]
        if missing and unknown:
            raise ValueError(
                f"`class_weight` has weights of {unknown!r}, which are no labels of y, "
                f"and none of the labels {missing!r}: name the labels as y does. A "
                "label without a weight has the weight 1."
            )
        factors = np.array([given.get(label, 1.0) for label in present.tolist()])
    product = weights.copy()
    product[counted] *= factors[codes]
    if counted.any() and not product.any():
        raise ValueError(
            "`class_weight` is 0 for the label of every sample that counts: give two "
            "labels a weight > 0."
        )
    return product


def accuracy(
    classifier: Any, X: Any, y: ArrayLike, sample_weight: ArrayLike | None
) -> float:
    """Return the accuracy; warn of labels that `fit` has not seen.

    Parameters
    ----------
    classifier : classifier
        Fitted, with `classes_`.
    X, y, sample_weight : array-like
        As in `score`.
    """
    check_is_fitted(classifier)
    labels = column_or_1d(host_values(y, "y"))
    weights = host_values(sample_weight, "sample_weight")
    predicted = classifier.predict(X)
    with np.errstate(invalid="ignore"):
        score = float(accuracy_score(labels, predicted, sample_weight=weights))
    unknown = np.setdiff1d(labels, classifier.classes_)
    if len(unknown):
        warn_caller(
            f"y holds labels that `fit` has not seen, {unknown!r}, beside "
            f"`classes_`, {classifier.classes_!r}: their samples count as mistakes. In "
            "cross-validation StratifiedKFold keeps rare classes in all parts.",
            UserWarning,
        )
    return score


def logarithms(probabilities: FloatArray) -> FloatArray:
    """Return the logarithms of probabilities; -inf for 0."""
    with np.errstate(divide="ignore"):
        return np.log(probabilities)


def most_probable(classes: NDArray[Any], scores: NDArray[Any]) -> NDArray[Any]:
    """Return the label of the largest score (n, n_classes) of each sample."""
    labels: NDArray[Any] = classes[scores.argmax(axis=1)]
    return labels


def warn_of_missing_classes(classes: NDArray[Any], codes: NDArray[np.intp]) -> None:
    """Warn if labels that determine their noise lack a class: `partial_fit` is used."""
    missing = np.setdiff1d(np.arange(len(classes)), codes)
    if len(missing):
        warn_caller(
            "The first call of `partial_fit` has no samples of the classes "
            f"{classes[missing].tolist()}. Their prior means, and the amplitude of "
            "all, stay those that follow from this call: begin with a batch that has "
            "samples of every class.",
            UserWarning,
        )


def candidates_of(likelihood: Likelihood) -> Sequence[Likelihood]:
    """Return the likelihoods to choose from by leave-one-out; usually only one."""
    candidates = getattr(likelihood, "candidates", None)
    choices: Sequence[Likelihood] = [likelihood] if candidates is None else candidates()
    return choices


def targets_for(
    likelihood: Likelihood, codes: NDArray[Any], n_classes: int, weights: FloatArray
) -> Targets:
    """Return the targets that a likelihood makes of labels."""
    units = rows_to_tensor(weights)
    return likelihood.targets(rows_to_tensor(codes), n_classes, units)


def regression_targets(
    likelihood: AnyLikelihood,
    codes: NDArray[np.intp],
    n_classes: int,
    weights: FloatArray,
) -> Targets:
    """Return targets that share one noise variance; a kernel is learned on these.

    If the likelihood has no such targets, they are those of `Gaussian`.
    """
    if isinstance(likelihood, LinkLikelihood | VariationalLikelihood):
        likelihood.n_latents(n_classes)  # raises for wrong settings before any work
    else:
        first = candidates_of(likelihood)[0]
        targets = targets_for(first, codes, n_classes, weights)
        if targets.noise is None:
            return targets
    return targets_for(Gaussian(), codes, n_classes, weights)


def label_models(
    likelihood: AnyLikelihood, n_classes: int, problem: Problem
) -> list[LabelModel]:
    """Return the candidate models of labels whose noise follows from the labels.

    The list is empty if all targets share one noise variance.
    """
    codes = problem.codes
    assert codes is not None
    if isinstance(likelihood, LinkLikelihood):
        return [LinkModel(likelihood, rows_to_tensor(codes), n_classes)]
    if isinstance(likelihood, VariationalLikelihood):
        return []
    models: list[LabelModel] = []
    candidates = candidates_of(likelihood)
    if len(candidates) > 1 and why_no_choice(problem):
        candidates = candidates[:1]
    for one in candidates:
        targets = targets_for(one, codes, n_classes, problem.weights)
        if targets.noise is not None:
            weights = rows_to_tensor(problem.weights)
            models.append(NoisyModel(one, targets, weights, problem.inputs))
    return models
