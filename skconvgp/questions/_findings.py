"""What left-out predictions say of training samples: columns of findings."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from skconvgp._typing import FloatArray

__all__ = [
    "Columns",
    "confused_classes",
    "of_those",
    "outliers",
    "rank_labels",
    "rank_targets",
    "small_classes",
]

Columns: TypeAlias = dict[str, NDArray[Any]]
# A sample is strange at so many robust deviations: Iglewicz and Hoaglin, 1993.
STRANGE = 3.5
TO_DEVIATION = 1.4826  # of the median absolute deviation of normal numbers
ROUNDING = 1e-9  # of probabilities, and of sums of shares
LEAST_SPREAD = 1e-6  # of logarithms of variances: less is rounding
# A set of 90 % of `prediction_set(by_class=True)` takes so many samples of a class.
FEWEST = 9


def rank_labels(
    labels: NDArray[Any],
    codes: NDArray[np.intp],
    proba: FloatArray,
    weights: FloatArray,
    is_judged: NDArray[np.bool_],
) -> Columns:
    """Return samples that are judged (n,), the least probable label first.

    The column `is_told` has the rule of Northcutt, Jiang and Chuang, 2021: a sample is
    counted for the most probable of the classes whose probability is no less than its
    mean over the samples with this label. It is told if that is another class than its
    own, and the most probable one is, too. Probabilities are (n, k), left out, and NaN
    for samples that are not known, which are not judged.
    """
    is_known = np.isfinite(proba).all(1)
    own, best = _own(proba, codes), _largest(proba)
    thresholds = np.full(len(labels), np.inf)
    for code in range(len(labels)):
        of_class = is_known & (codes == code)
        if of_class.any():
            thresholds[code] = np.average(own[of_class], weights=weights[of_class])
    confident = np.where(proba >= thresholds - ROUNDING, proba, -1.0)
    counted = np.where(confident.max(1) > 0.0, confident.argmax(1), codes)
    index = np.flatnonzero(is_known & is_judged)
    index = index[np.argsort(own[index], kind="stable")]
    is_told = (counted != codes) & (best != codes)
    return {
        "index": index,
        "label": labels[codes[index]],
        "proposal": labels[best[index]],
        "probability": own[index],
        "proposal_probability": proba[index, best[index]],
        "is_told": is_told[index],
    }


def of_those(ranking: Columns, which: NDArray[np.bool_]) -> Columns:
    """Return the samples of a ranking for which `which` (n,) is true."""
    return {name: ranking[name][which] for name in ranking if name != "is_told"}


def confused_classes(
    labels: NDArray[Any],
    codes: NDArray[np.intp],
    proba: FloatArray,
    weights: FloatArray,
    is_judged: NDArray[np.bool_],
) -> Columns:
    """Return pairs of classes of which one is taken for the other, most weight first.

    `index` is the sample that is taken most clearly. Only samples that are judged (n,)
    count; the count is of samples, and the share is of weight.
    """
    k, best = len(labels), _largest(proba)
    is_wrong = np.isfinite(proba).all(1) & is_judged & (best != codes)
    wrong = np.flatnonzero(is_wrong)
    clearness = proba[wrong, best[wrong]] - proba[wrong, codes[wrong]]
    wrong = wrong[np.argsort(-clearness, kind="stable")]
    pairs, first, own, counts = np.unique(
        codes[wrong] * k + best[wrong],
        return_index=True,
        return_inverse=True,
        return_counts=True,
    )
    taken = np.bincount(own.ravel(), weights[wrong], len(pairs))
    order = np.argsort(-taken, kind="stable")
    pairs = pairs[order]
    totals = np.bincount(codes, weights, k)
    return {
        "index": wrong[first[order]],
        "label": labels[pairs // k],
        "proposal": labels[pairs % k],
        "count": counts[order],
        "share": taken[order] / totals[pairs // k],
    }


def small_classes(
    labels: NDArray[Any], codes: NDArray[np.intp], units: FloatArray
) -> Columns:
    """Return classes of few units (k,), the smallest first, with their first sample."""
    few = np.flatnonzero(units < FEWEST)
    few = few[np.argsort(units[few], kind="stable")]
    return {
        "index": np.array([np.flatnonzero(codes == code)[0] for code in few], np.intp),
        "label": labels[few],
        "count": units[few].round().astype(np.intp),
    }


def outliers(
    var: FloatArray,
    kinds: NDArray[np.intp],
    shares: FloatArray,
    is_scored: NDArray[np.bool_],
) -> Columns:
    """Return samples of large left-out variances (n,) for their kind, largest first.

    The score is the distance of the logarithm from the median of the kind, in robust
    deviations, which are common to all kinds. Medians count the share (n,) that a
    sample has of those that are left out with it. Only samples that are scored (n,), of
    known variances, count. Nothing is told if most deviations are 0.
    """
    scored = np.flatnonzero(is_scored & (var > 0.0))
    log_var, own, shares = np.log(var[scored]), kinds[scored], shares[scored]
    for kind in np.unique(own):
        of_kind = own == kind
        log_var[of_kind] -= _median(log_var[of_kind], shares[of_kind])
    spread = TO_DEVIATION * _median(np.abs(log_var), shares) if len(scored) else 0.0
    score = log_var / spread if spread > LEAST_SPREAD else np.zeros(len(scored))
    order = np.argsort(-score, kind="stable")
    order = order[score[order] > STRANGE]
    return {"index": scored[order], "score": score[order]}


def rank_targets(
    targets: FloatArray, mean: FloatArray, std: FloatArray, *, has_outputs: bool
) -> Columns:
    """Return targets (n, k), the farthest from left-out means in deviations first.

    Those beyond the distance of strange samples are told.
    """
    score = (targets - mean) / std
    size = np.abs(score)
    index, output = np.nonzero(np.isfinite(size))
    order = np.argsort(-size[index, output], kind="stable")
    at = index[order], output[order]
    return {
        "index": at[0],
        **({"output": at[1]} if has_outputs else {}),
        "target": targets[at],
        "proposal": mean[at],
        "score": score[at],
        "is_told": size[at] > STRANGE,
    }


def _median(values: FloatArray, shares: FloatArray) -> float:
    """Return the median of values (n,), each of which counts by its share (n,)."""
    order = np.argsort(values)
    below = shares[order].cumsum()
    half, rounding = below[-1] / 2.0, ROUNDING * below[-1]
    ends = np.searchsorted(below, [half - rounding, half + rounding])
    return float(values[order[ends]].mean())


def _own(proba: FloatArray, codes: NDArray[np.intp]) -> FloatArray:
    """Return the probability (n,) of the own class."""
    own: FloatArray = np.take_along_axis(proba, codes[:, None], axis=1)[:, 0]
    return own


def _largest(proba: FloatArray) -> NDArray[np.intp]:
    """Return the most probable class (n,); any for samples that are not known."""
    largest: NDArray[np.intp] = np.nan_to_num(proba, nan=-1.0).argmax(1)
    return largest
