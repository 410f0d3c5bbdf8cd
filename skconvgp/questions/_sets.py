"""Sets of labels that hold the true one with a guarantee."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from skconvgp._ambient import public
from skconvgp.engine import to_tensor
from skconvgp.estimators._warn import warn_caller
from skconvgp.inference import Addition, Ranks, label_counts
from skconvgp.questions._asked import Asked, alpha_of, check_flag
from skconvgp.questions._labels import LabelTargets, label_weights

__all__ = ["prediction_set"]

INSTEAD = (
    "ConvNetGPClassifier, ImageClassifier, KernelFlowsClassifier, NystromCompletedGP "
    "or PatchGPClassifier with likelihood='gaussian' and without a completion"
)


@public
def prediction_set(
    gp: Any,
    X: Any,
    level: float = 0.9,
    by_class: bool = False,
    allow_empty: bool = True,
    diag: ArrayLike | None = None,
) -> NDArray[np.bool_]:
    r"""Return sets of labels that contain the true one with a probability.

    Full conformal prediction in closed form: each new sample is added to the training
    samples with each of the labels, all are left out of this set in turn, and a label
    is in the set unless the margin of the new sample is among the smallest. No model
    is fitted again, and no samples are set apart.

    If training samples and the new one are exchangeable, inputs are all different, and
    the kernel and the noise do not depend on the training samples, the true label is in
    the set with a probability of at least `level`, for any number of samples. With
    settings that follow from the training samples the guarantee is approximate. It is
    of the mean over new samples, not of each of them.

    Parameters
    ----------
    gp : classifier
        Fitted, with likelihood="gaussian" and a direct solver, or with features, as
        NystromCompletedGP and PatchGPClassifier have.
    X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
        Images or vectors; K(X, X_train) if precomputed.
    level : float, default=0.9
        Probability, between 0 and 1.
    by_class : bool, default=False
        Whether the guarantee holds for the samples of each class. Then a class with
        fewer than 1 / (1 - level) - 1 training samples is in every set, with a warning.
    allow_empty : bool, default=True
        Whether a set may be empty, which says that no label fits. False adds the
        predicted label to empty sets.
    diag : array-like of shape (n,), default=None
        Prior variances k(x, x), needed if precomputed.

    Returns
    -------
    sets : ndarray of bool of shape (n, n_classes)
        Whether each label is in the set; columns in the order of `classes_`.

    Raises
    ------
    ValueError
        For a wrong setting, or an estimator that has no answer, such as one with
        likelihood="laplace" or nearest neighbours.

    Notes
    -----
    Samples with equal inputs, and samples of a group of `fit`, count as one; the new
    sample is a group of its own. There is no guarantee for a new sample with the input
    of a training sample, or of one of the groups. A sample of weight w stands for w
    equal ones. The weights of `class_weight` are those of new samples, too, and are no
    numbers of samples. Weights that make up for a
    shift between training samples and new ones are not supported.

    With features a new sample is compared with a random part of the training samples,
    whose features are kept, without landmarks: features leave nothing of these out. The
    guarantee is then approximate, unless features are random, or landmarks are drawn at
    random.

    References
    ----------
    Vovk, Gammerman and Shafer, "Algorithmic learning in a random world", 2005,
    chapters 2 and 4.

    Examples
    --------
    >>> import numpy as np
    >>> from skconvgp import ConvNetGPClassifier
    >>> from skconvgp.kernels import rbf
    >>> from skconvgp.questions import prediction_set
    >>> X = np.linspace(0.0, 4.0, 40)[:, None]
    >>> y = np.arange(40) >= 20
    >>> y[[17, 22]] = True, False  # near the border two labels are wrong
    >>> gp = ConvNetGPClassifier(rbf(1.0), noise_variance=0.1).fit(X, y)
    >>> prediction_set(gp, [[0.5], [2.0], [3.5]], level=0.95)
    array([[ True, False],
           [ True,  True],
           [False,  True]])
    """
    alpha = alpha_of(level)
    check_flag("by_class", by_class)
    check_flag("allow_empty", allow_empty)
    check_is_fitted(gp)
    if not is_classifier(gp):
        raise ValueError(
            f"`prediction_set` is for classifiers, got {type(gp).__name__}: use "
            "`prediction_interval` for a regressor."
        )
    asked = Asked.of(gp, "prediction_set", INSTEAD)
    question = SetQuestion(asked, by_class=by_class)
    new = asked.read(X, diag)
    counts, means = asked.ask(new, question)
    ranks = Ranks(alpha, question.totals)
    sets: NDArray[np.bool_] = counts > ranks.least
    _warn_of_few(gp, ranks, by_class=by_class)
    if not allow_empty:
        empty = np.flatnonzero(~sets.any(1))
        sets[empty, means[empty].argmax(1)] = True
    return sets


class SetQuestion:
    """How many units conform no better than a new sample with each label."""

    def __init__(self, asked: Asked, *, by_class: bool) -> None:
        gp = asked.estimator
        self.targets = LabelTargets.of(gp)
        k = len(gp.classes_)
        self.codes, self.of = asked.codes, asked.of_samples
        self.weights = label_weights(gp, self.codes, asked.weights)
        offsets = gp.calibration_.offsets
        # Prior means are the same in a left-out prediction and in that of a new sample.
        self.offsets = np.asarray(offsets if offsets else np.zeros(k))
        self.offsets = self.offsets + gp.latent_offset_
        counts = asked.weights / self.weights[self.codes]
        if by_class:
            of_class = self.codes[:, None] == np.arange(k)
            self.shares = asked.shares(counts, self.codes)[:, None] * of_class
        else:
            self.shares = np.repeat(asked.shares(counts)[:, None], k, axis=1)
        self.totals = self.shares.sum(0).round(6)

    def __call__(self, addition: Addition) -> Sequence[Tensor]:
        """Return counts (b, k), and latent means that tell the predicted label."""
        device, dtype = addition.mean.device, addition.mean.dtype
        given = self.shares, self.targets.own, self.targets.other, self.offsets
        values = [to_tensor(one, device, dtype) for one in given]
        codes = to_tensor(self.codes, device)
        counts = torch.empty_like(addition.mean)
        for weight in np.unique(self.weights).tolist():
            augmented = addition.observed(weight)
            found = label_counts(augmented, codes, self.of, *values)
            is_own = np.flatnonzero(self.weights == weight).tolist()
            counts[:, is_own] = found[:, is_own]
        return counts, addition.mean + values[3]


def _warn_of_few(gp: Any, ranks: Ranks, *, by_class: bool) -> None:
    """Warn if there are too few samples for a level."""
    few = ranks.least < 0.0
    if not few.any():
        return
    needed = int(np.ceil(1.0 / ranks.alpha - 1.0 - 1e-9))
    if by_class:
        names = gp.classes_[few].tolist()
        warn_caller(
            f"The classes {names!r} are in every set: a level of {1.0 - ranks.alpha:g} "
            f"by class takes {needed} training samples of each. Lower `level`, or use "
            "by_class=False.",
            UserWarning,
        )
        return
    warn_caller(
        f"Every set has all classes: a level of {1.0 - ranks.alpha:g} takes {needed} "
        "training samples that are left out by themselves. Lower `level`.",
        UserWarning,
    )
