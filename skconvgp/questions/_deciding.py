"""How confident an answer has to be."""

from __future__ import annotations

from bisect import bisect_left
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import bdtr, expit

from skconvgp._ambient import public
from skconvgp._typing import FloatArray
from skconvgp.estimators._warn import warn_caller
from skconvgp.metrics._validation import check_probabilities

__all__ = ["select_threshold"]

# Thresholds that are tried: log odds, from strict to lenient, and 0, which answers all.
STRICTEST, LENIENT, STEP = 14.0, -3.0, 0.02
FIRST_SHARE = 0.1  # of the images, that the first threshold answers if it can
# Wrong answers that the first threshold allows, as some labels are wrong, if it then
# answers at most a share of the images.
SPARE, LARGEST_FIRST = (2, 1), 0.5
MOST_IMAGES = 10**7  # that a warning asks for


@public
def select_threshold(
    y_true: ArrayLike,
    y_prob: ArrayLike,
    *,
    risk: float,
    confidence: float = 0.95,
    labels: ArrayLike | None = None,
) -> float:
    """Return the lowest threshold of confidence with few errors among answers.

    A classifier answers if its largest probability is at least the threshold, and
    declines otherwise. With a probability of at least `confidence` over the draw of the
    samples given here, at most a share `risk` of its answers to new samples is wrong.

    Thresholds are tested from strict to lenient, each by the exact binomial bound of
    Clopper and Pearson, up to the first that fails. The thresholds are fixed before any
    sample is seen, and each has the whole of `confidence` (Learn then Test).

    Parameters
    ----------
    y_true : array-like of shape (n,)
        Labels of samples that the classifier has not learned from.
    y_prob : array-like of shape (n, n_classes) or (n,)
        Their probabilities, as ``predict_proba`` returns them; for two classes, the
        second column is enough.
    risk : float
        Largest share of wrong answers, between 0 and 1.
    confidence : float, default=0.95
        Probability that the share is not larger, between 0 and 1.
    labels : array-like of shape (n_classes,), default=None
        The label of each column, as in ``classes_``; None is the sorted labels of
        `y_true`.

    Returns
    -------
    threshold : float
        Between 0 and 1; 0 answers all. It is infinite, with a warning that says how
        many samples it may take, if no threshold passes.

    Raises
    ------
    ValueError
        If `risk` or `confidence` is not between 0 and 1, or as in
        :func:`skconvgp.metrics.accuracy_rejection_curve`.

    See Also
    --------
    skconvgp.metrics.accuracy_rejection_curve : The accuracy for every threshold.

    Notes
    -----
    The promise is for independent samples of the same source, held out of the fit and
    of the choice of its settings, and for error rates that do not rise with confidence.
    With left-out probabilities, as ``loo_predict_proba`` returns them, it is
    approximate: they depend on each other, and come from models of one sample less.

    The first threshold that is tested answers a tenth of the samples, and at least as
    many as it takes to pass: 59 without an error for a risk of 5 % at 95 %. If half of
    the samples are enough for it, it answers so many that two wrong answers pass, 124
    for 5 %, because a few labels may be wrong. If more of these answers are wrong, the
    search ends there.

    References
    ----------
    Angelopoulos, Bates, Candes, Jordan and Lei, "Learn then test: calibrating
    predictive algorithms to achieve risk control", 2021; Clopper and Pearson, "The use
    of confidence or fiducial limits illustrated in the case of the binomial", 1934.

    Examples
    --------
    >>> import numpy as np
    >>> from skconvgp.questions import select_threshold
    >>> rng = np.random.default_rng(0)
    >>> p = rng.uniform(size=2000)  # of the second class
    >>> y = rng.uniform(size=2000) < p
    >>> threshold = select_threshold(y, p, risk=0.1)
    >>> bool(0.8 < threshold < 0.9)
    True
    """
    risk, confidence = _share("risk", risk), _share("confidence", confidence)
    truth, probabilities, columns = check_probabilities(y_true, y_prob, labels)
    sureness = probabilities.max(axis=1)
    is_wrong = columns[probabilities.argmax(axis=1)] != truth
    thresholds = np.append(expit(np.arange(STRICTEST, LENIENT, -STEP)), 0.0)
    order = np.argsort(-sureness, kind="stable")
    answered = np.searchsorted(-sureness[order], -thresholds, side="right")
    wrong = np.append(0, np.cumsum(is_wrong[order]))[answered]
    alpha = 1.0 - confidence
    is_tested = answered >= _first(len(truth), risk, alpha)
    fails = is_tested & (bdtr(wrong, answered, risk) > alpha)
    end = int(fails.argmax()) if fails.any() else len(thresholds)
    passed = thresholds[:end][is_tested[:end]]
    if len(passed):
        return float(passed[-1])
    start = int(is_tested.argmax()) if is_tested.any() else len(wrong)
    warn_caller(_why_not(wrong, answered, risk, alpha, start), UserWarning)
    return float(np.inf)


def _share(name: str, value: object) -> float:
    """Return a number between 0 and 1; raise if it is none."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not 0.0 < (share := float(value)) < 1.0:  # type: ignore[arg-type]
        raise ValueError(f"`{name}` must be between 0 and 1, got {value!r}.")
    return share


def _enough(n_wrong: int, risk: float, alpha: float, most: int) -> int:
    """Return how many answers pass with so many wrong ones among them, up to `most`."""
    tried = range(most)
    return bisect_left(
        tried, True, lo=n_wrong + 1, key=lambda n: bdtr(n_wrong, n, risk) <= alpha
    )


def _first(n: int, risk: float, alpha: float) -> int:
    """Return how many of n samples the first threshold that is tested answers.

    It is the largest number at which one wrong answer more is allowed, up to a share,
    and allows a few of them if it can. More than n is n + 1.
    """
    most = int(FIRST_SHARE * n)
    n_passing = bisect_left(
        range(most), True, key=lambda n_wrong: bdtr(n_wrong, most, risk) > alpha
    )
    n_wrong = max(0, n_passing - 1)
    for spare in SPARE:
        found = _enough(max(spare, n_wrong), risk, alpha, n + 1)
        if found <= LARGEST_FIRST * n:
            return found
    return _enough(n_wrong, risk, alpha, n + 1)


def _why_not(
    wrong: NDArray[np.intp],
    answered: NDArray[np.intp],
    risk: float,
    alpha: float,
    start: int,
) -> str:
    """Return why no threshold passes, and how many samples it may take.

    The threshold at `start` was the first one that was tested.
    """
    n = int(answered[-1])
    told = f"A risk of {risk:g} is not reachable with {n} samples"
    # Shares of wrong answers that are likely, and the samples that these would take.
    some, first = np.unique(answered, return_index=True)
    shares: FloatArray = (wrong[first] + 0.5) / (some + 1.0)
    is_good = (some > 0) & (shares < risk)
    least = _enough(0, risk, alpha, max(n, MOST_IMAGES) + 1)
    sizes = np.geomspace(least, MOST_IMAGES, 100).round()
    sizes = sizes.astype(np.intp)
    needed = np.inf
    for share, m in zip(shares[is_good], some[is_good], strict=True):
        passes = bdtr(np.ceil(share * sizes), sizes, risk) <= alpha
        if passes.any():
            needed = min(needed, float(sizes[passes.argmax()]) * n / int(m))
    if needed > MOST_IMAGES:
        if n < least and not wrong[answered > 0].all():
            return (
                f"{told}: it takes at least {least} without an error. Raise `risk` or "
                "lower `confidence`. The threshold is infinite, and answers none."
            )
        return (
            f"{told}: also its most confident answers are wrong too often. Train it on "
            "more images, or raise `risk`."
        )
    if needed <= n:  # by more lenient thresholds, which were not reached
        return (
            f"{told}: {wrong[start]} of its {answered[start]} most confident answers "
            "are wrong. Look at the labels of these samples, or raise `risk`. The "
            "threshold is infinite, and answers none."
        )
    digits = 1 - int(np.floor(np.log10(needed)))
    return (
        f"{told}, some {int(round(needed, digits))} may be enough. Without them raise "
        "`risk` or lower `confidence`. The threshold is infinite, and answers none."
    )
