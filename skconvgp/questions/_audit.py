"""What is wrong with a training set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from skconvgp._ambient import public
from skconvgp._typing import FloatArray
from skconvgp.estimators._candidates import last_step
from skconvgp.estimators._doors import Training, process_of, training_of
from skconvgp.estimators.settings._checks import Given, as_positive
from skconvgp.processes import alike_samples, knows_class, why_not_alike
from skconvgp.questions._asked import why_no_process
from skconvgp.questions._findings import (
    Columns,
    confused_classes,
    of_those,
    outliers,
    rank_labels,
    rank_targets,
    small_classes,
)
from skconvgp.questions._frames import as_frame, as_records

__all__ = ["Audit", "audit"]

NOTHING_LEFT_OUT = (
    "it has no left-out predictions: use a ConvNetGP, Image, KernelFlows, "
    "NystromCompletedGP or PatchGP estimator"
)
SEVERAL = "it is made of several models: ask one of `estimators_`"


@dataclass(frozen=True)
class Audit:
    """What `audit` has found in a training set.

    Each finding is a data frame, or a list of dicts where pandas is not installed. In
    the column `index` are the positions of samples among those that `fit` was given.

    Parameters
    ----------
    n_samples : int
        Samples that the model has learned from.
    wrong_labels : DataFrame or list of dict
        Likely wrong labels, the least probable one first: `index`, `label`, `proposal`,
        the left-out `probability` of the label and `proposal_probability`. Of a
        regressor, targets far from their left-out prediction, the farthest first:
        `index`, `output` if there are several, `target`, `proposal` and `score`, their
        distance in deviations.
    near_copies : DataFrame, list of dict or None
        Pairs that are equal or nearly so, the nearest first: `index`, `other`, their
        labels `label` and `other_label` if there are labels, and `distance`, as a share
        of the median distance of pairs. Each sample is paired with the nearest one
        before it, and with the nearest of those that have another label. None if
        samples were not compared.
    outliers : DataFrame, list of dict or None
        Samples unlike all others, the strangest first: `index`, `label` if there are
        labels, and `score`. None if no variances are known.
    confused_classes : DataFrame or list of dict
        Classes of which samples are predicted as another class when they are left out,
        most weight first: `label`, `proposal`, the `count` of these samples, the
        `share` of the weight of the class that they have, and the `index` of the
        clearest one. A regressor has none.
    small_classes : DataFrame or list of dict
        Classes with fewer than 9 samples that are left out by themselves: `label`,
        `count`, and the `index` of the first sample. A regressor has none.
    doubtful_labels : DataFrame or list of dict, default=[]
        Labels that are worth a look: the most probable label is another one, but it is
        not among `wrong_labels`, as the rule asks for more. The least probable label
        first, with the columns of `wrong_labels`. A regressor has none.
    labels : DataFrame or list of dict, default=[]
        All labels or targets that are judged, in the order and with the columns of
        `wrong_labels`, and whether a label `is_told` there.
    n_compared : int, default=0
        Samples that near copies were sought among; fewer than `n_samples` if a model of
        features keeps a part of them.
    unanswered : dict of str, default={}
        Findings that are None, with the reasons.

    Examples
    --------
    >>> from skconvgp import ImageClassifier
    >>> from skconvgp.datasets import load_digits_images
    >>> from skconvgp.questions import audit
    >>> X, y = load_digits_images(return_X_y=True)
    >>> X, y = X[:200].copy(), y[:200].copy()
    >>> X[77], y[12] = X[67], 7  # a copy, and a wrong label
    >>> found = audit(ImageClassifier(random_state=0).fit(X, y))
    >>> found.records("wrong_labels")[0]["index"]
    12
    >>> pair = found.records("near_copies")[0]
    >>> pair["index"], pair["other"]
    (77, 67)
    >>> print(found)  # doctest: +ELLIPSIS
    200 samples
    wrong labels      ...
    near copies       1
    ...
    """

    n_samples: int
    wrong_labels: Any
    near_copies: Any
    outliers: Any
    confused_classes: Any
    small_classes: Any
    doubtful_labels: Any = field(default_factory=list)
    labels: Any = field(default_factory=list)
    n_compared: int = 0
    unanswered: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the numbers of findings."""
        lines = [f"{self.n_samples} samples"]
        for name in FINDINGS:
            found = getattr(self, name)
            text = f"unknown: {self.unanswered.get(name)}"
            if found is not None:
                text = str(len(found))
            if name == "near_copies" and 0 < self.n_compared < self.n_samples:
                text += f", among {self.n_compared} of the samples"
            lines.append(f"{name.replace('_', ' '):<18}{text}")
        return "\n".join(lines)

    def records(self, finding: str) -> list[dict[str, Any]]:
        """Return a finding as a list of dicts, with pandas or without.

        Parameters
        ----------
        finding : str
            Its name, such as "near_copies".

        Returns
        -------
        records : list of dict
            Empty if it is None.
        """
        found = getattr(self, finding)
        return [] if found is None else as_records(found)


FINDINGS = (
    "wrong_labels",
    "doubtful_labels",
    "near_copies",
    "outliers",
    "confused_classes",
    "small_classes",
)


@public
def audit(gp: Any, near: float = 0.01) -> Audit:
    r"""Return what is wrong with the training set of a fitted model, without a refit.

    Every finding follows from predictions of each training sample from all the others,
    which the model has in closed form, and from its covariances.

    Parameters
    ----------
    gp : classifier or regressor
        Fitted, with left-out predictions (`loo_predict`).
    near : float, default=0.01
        Two samples are near copies below this share of the median distance of pairs.
        The distance is 1 less the correlation of both in the prior, which grows like
        the square of a distance in pixels.

    Returns
    -------
    found : Audit
        Data frames of likely wrong labels, near copies, outliers, confused classes and
        small classes.

    Raises
    ------
    ValueError
        For a wrong setting, or an estimator without left-out predictions.

    Notes
    -----
    Samples with equal inputs, and samples of a group of `fit`, are left out together,
    as in `loo_predict`; those of a group are no near copies of each other, unless they
    are equal. A sample of weight w stands for w equal ones, in thresholds and shares;
    a `count` of confused classes is of samples, whatever their weights.

    *Wrong labels* are chosen by the rule of confident learning: a sample is told if
    another class is the most probable one, and the classes whose left-out probability
    is no less than its mean over their own samples are led by another class. Where a
    model is sure of most labels, this asks for much: with means of .9 a probability of
    .88 for another label is not enough. *Doubtful labels* have these samples, and
    `labels` has all of them in one order, which depends on no rule. A class
    of a single sample, or of samples that are left out together, is not judged here,
    nor as an outlier or a confused class.

    *Outliers* have a left-out variance whose logarithm is more than 3.5 robust
    deviations above the median of the class. Samples that are left out together count
    once in medians. If half of the deviations are 0 there is no scale, and no outlier
    is told. Landmarks of a completion are not judged, because features leave nothing of
    them out.

    *Near copies* need the covariances of the training samples. A factor gives them
    back, features are compared for those samples that a model keeps features of, and
    other solvers evaluate the kernel once more for all pairs. What landmarks do not
    explain of two samples counts as different, unless the samples are equal. Models of
    images evaluate the kernel for pairs that could be near by their features. Pairs
    that are not equal must differ by more than rounding in the precision of `dtype`.

    References
    ----------
    Northcutt, Jiang and Chuang, "Confident learning: estimating uncertainty in dataset
    labels", 2021; Iglewicz and Hoaglin, "How to detect and handle outliers", 1993.

    Examples
    --------
    >>> import numpy as np
    >>> from skconvgp import ConvNetGPClassifier
    >>> from skconvgp.kernels import rbf
    >>> from skconvgp.questions import audit
    >>> X = np.concatenate([np.linspace(0.0, 1.0, 20), np.linspace(2.0, 3.0, 20)])
    >>> y = np.arange(40) // 20
    >>> y[7] = 1
    >>> found = audit(ConvNetGPClassifier(rbf(0.5)).fit(X[:, None], y))
    >>> [(one["index"], one["proposal"]) for one in found.records("wrong_labels")]
    [(7, 0)]
    """
    near = Given.to("audit", near=near).read("near", as_positive, most=1.0)
    check_is_fitted(gp)
    owner = type(gp).__name__
    text = why_no_process(gp)
    if not text and not hasattr(gp, "loo_predict"):
        text = NOTHING_LEFT_OUT
    if text:
        raise ValueError(f"{owner} cannot answer `audit`: {text}.")
    members = getattr(gp, "estimators_", None)
    training = training_of(gp if members is None else last_step(members[0]))
    labels = None if training.codes is None else gp.classes_[training.codes]
    n_compared, unanswered = 0, {}
    if members is None:
        found = _of_one(gp, training)
        why_not = why_not_alike(gp._process)
        if why_not:
            unanswered["near_copies"] = why_not
        else:
            found["near_copies"], n_compared = _near_copies(gp, training, near)
    else:
        found = _of_labels(gp, gp.loo_predict_proba(), members[0])
        unanswered = dict.fromkeys(("near_copies", "outliers"), SEVERAL)
    frames: dict[str, Any] = dict.fromkeys(FINDINGS)
    for name, columns in found.items():
        frames[name] = as_frame(_as_given(columns, labels, training.kept))
    found_of = frames | {"n_compared": n_compared, "unanswered": unanswered}
    return Audit(len(training.kept), **found_of)


def _of_one(gp: Any, training: Training) -> dict[str, Columns]:
    """Return what left-out predictions of a single process say, computed once."""
    if training.codes is None:
        mean, std, var = gp._left_out()
        scaled = gp._process.model.sample_targets
        targets = training.targets(scaled, gp.y_scale_, gp.y_mean_)
        has_outputs = not training.is_single
        ranking = rank_targets(targets, mean, std, has_outputs=has_outputs)
        found = {
            "labels": ranking,
            "wrong_labels": of_those(ranking, ranking["is_told"]),
            "doubtful_labels": {},
            "confused_classes": {},
            "small_classes": {},
        }
        kinds = np.zeros(len(mean), np.intp)
    else:
        mean, var = gp._left_out()[1:]
        found = _of_labels(gp, gp._probabilities(mean, var), gp)
        # Of the latent functions, of which covariances may be known.
        var = np.einsum("nii->ni", var) if var.ndim == 3 else var
        var, kinds = var.mean(1), training.codes
    model = gp._process.model
    weights, left_out = model.sample_weights, model.class_left_out
    is_scored = knows_class(kinds, weights, left_out)
    if training.are_landmarks is not None:
        is_scored &= ~training.are_landmarks
    shares = weights / left_out
    return {**found, "outliers": outliers(var, kinds, shares, is_scored)}


def _of_labels(gp: Any, proba: FloatArray, one: Any) -> dict[str, Columns]:
    """Return what left-out probabilities say; a fitted process has the samples."""
    codes: Any = training_of(one).codes
    model = process_of(one).model
    weights, left_out = model.sample_weights, model.class_left_out
    is_judged = knows_class(codes, weights, left_out)
    # How many times a sample, with its copies, could be left out of its class.
    labels = gp.classes_
    shares = np.bincount(codes, weights / left_out, len(labels))
    units = shares.astype(np.float64)
    ranking = rank_labels(labels, codes, proba, weights, is_judged)
    is_told = ranking["is_told"]
    is_doubtful = ~is_told & (ranking["label"] != ranking["proposal"])
    return {
        "labels": ranking,
        "wrong_labels": of_those(ranking, is_told),
        "doubtful_labels": of_those(ranking, is_doubtful),
        "confused_classes": confused_classes(labels, codes, proba, weights, is_judged),
        "small_classes": small_classes(labels, codes, units),
    }


def _near_copies(gp: Any, training: Training, near: float) -> tuple[Columns, int]:
    """Return pairs of near copies, and how many samples were compared."""
    kinds = np.zeros(len(training.kept), np.intp)
    if training.codes is not None:
        kinds = training.codes
    found = alike_samples(gp._process, kinds, near, gp._resources())
    is_near = found.distance < near * found.usual
    is_near |= found.distance == 0.0
    place, column = np.nonzero(is_near)
    # Of equal samples the usual distance is 0, too, and of a group it is unknown.
    usual = found.usual if found.usual > 0.0 else 1.0
    distance = found.distance[place, column] / usual
    order = np.argsort(distance, kind="stable")
    columns = {
        "index": found.samples[place[order]],
        "other": found.which[place[order], column[order]],
        "distance": distance[order],
    }
    return columns, len(found.samples)


def _as_given(
    columns: Columns, labels: NDArray[Any] | None, kept: NDArray[np.intp]
) -> Columns:
    """Return findings with samples as `fit` was given them, and with labels (n,)."""
    places = {name: columns[name] for name in ("index", "other") if name in columns}
    shown: Columns = {name: kept[place] for name, place in places.items()}
    if labels is not None and "label" not in columns:
        names = {"index": "label", "other": "other_label"}
        shown |= {names[name]: labels[place] for name, place in places.items()}
    return {**shown, **{name: columns[name] for name in columns if name not in shown}}
