"""How new a sample is: a p-value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from skconvgp._ambient import public
from skconvgp._typing import FloatArray
from skconvgp.engine import to_tensor
from skconvgp.inference import Addition, norm_counts, variance_counts
from skconvgp.questions._asked import Asked, low_noise
from skconvgp.questions._labels import LabelTargets, label_weights

__all__ = ["novelty"]

NOISE = 1e-3  # as a share of the prior variance: with more noise there is less power
INSTEAD = (
    "a ConvNetGP, Image, KernelFlows, NystromCompletedGP or PatchGP estimator without "
    "a completion, with solver='cholesky' and, for labels, likelihood='gaussian'"
)


@public
def novelty(gp: Any, X: Any, diag: ArrayLike | None = None) -> FloatArray:
    r"""Return p-values of the hypothesis that samples are like the training samples.

    A small value tells of a new kind of sample: of a class that was not among the
    training samples, or of no image at all. If training samples and a new one are
    exchangeable, inputs are all different, and the kernel does not depend on the
    training samples, at most a share t of new samples has a p-value of at most t, for
    any t and any number of samples. With a kernel that does this is approximate, and of
    samples with the input of a training sample nothing is promised.

    Two numbers of the new sample are compared with those of all training samples, each
    of them left out of the set with the new one: the posterior variance, where larger
    is newer, and for classifiers the norm of the latent means, where both small and
    large are new. The p-value is twice the smaller one of theirs.

    Parameters
    ----------
    gp : classifier or regressor
        Fitted, with solver="auto" or "cholesky", or with features.
    X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
        Images or vectors; K(X, X_train) if precomputed.
    diag : array-like of shape (n,), default=None
        Prior variances k(x, x), needed if precomputed.

    Returns
    -------
    p_values : ndarray of shape (n,)
        Between 0 and 1. The smallest that n training samples allow is 2 / (n + 1) for a
        classifier, and 1 / (n + 1) for a regressor.

    Raises
    ------
    ValueError
        For an estimator that has no answer, such as one with likelihood="laplace" or
        nearest neighbours.

    Notes
    -----
    Variances have the noise 1e-3 of the mean prior variance, whatever that of the fit
    is, because noise hides what is new. The first call factors the matrix once more for
    that, and keeps the factor as long as the model is in memory.

    The label of the new sample is not known. The p-value of the norm is the largest
    one of all labels, so that it holds whatever the label is.

    With features the variance that these leave out counts as well, and new samples are
    compared as the notes of `prediction_set` say.

    The p-values of several new samples are not independent of each other.

    References
    ----------
    Vovk, Gammerman and Shafer, "Algorithmic learning in a random world", 2005,
    chapter 2; Laxhammar and Falkman, "Conformal prediction for distribution-independent
    anomaly detection in streaming vessel data", 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from skconvgp import ConvNetGPRegressor
    >>> from skconvgp.kernels import rbf
    >>> from skconvgp.questions import novelty
    >>> X = np.linspace(0.0, 4.0, 39)[:, None]
    >>> gp = ConvNetGPRegressor(rbf(0.5)).fit(X, X[:, 0] > 2.0)
    >>> novelty(gp, [[1.03], [5.0]]) > 0.05
    array([ True, False])
    """
    check_is_fitted(gp)
    asked = low_noise(Asked.of(gp, "novelty", INSTEAD, other_noise=True), NOISE)
    question = NoveltyQuestion(asked)
    found = asked.ask(asked.read(X, diag), question)
    first, *norms = ((one + 1.0) / (question.total + 1.0) for one in found)
    if norms:
        second = np.minimum(1.0, 2.0 * np.minimum(*norms))
        first = np.minimum(1.0, 2.0 * np.minimum(first, second))
    p_values: FloatArray = first.max(1)  # whatever the label is
    return p_values


class NoveltyQuestion:
    """How many units have a variance, and a norm of means, as new ones have."""

    def __init__(self, asked: Asked) -> None:
        gp, self.targets = asked.estimator, None
        self.weights, counts = np.ones(1), asked.weights
        if is_classifier(gp):
            self.targets = LabelTargets.of(gp)
            self.weights = label_weights(gp, asked.codes, asked.weights)
            counts = counts / self.weights[asked.codes]
        self.of, self.shares = asked.of_samples, asked.shares(counts)
        self.total = self.shares.sum().round(6)

    def __call__(self, addition: Addition) -> Sequence[Tensor]:
        """Return counts of variances and, of labels, two of norms; each is (b, k)."""
        device, dtype = addition.mean.device, addition.mean.dtype
        shares = to_tensor(self.shares, device, dtype)
        n_counts = 1 if self.targets is None else 3
        size = n_counts, len(addition.mean), len(self.weights)
        counts = addition.mean.new_empty(size)
        for weight in np.unique(self.weights).tolist():
            augmented = addition.observed(weight)
            is_own = np.flatnonzero(self.weights == weight).tolist()
            found = variance_counts(addition, augmented, self.of, shares)
            counts[0][:, is_own] = found[:, None]
            if self.targets is not None:
                each = self.targets.own, self.targets.other
                own, other = (to_tensor(one, device, dtype) for one in each)
                norms = norm_counts(augmented, self.of, shares, own, other)
                for i, of_norms in enumerate(norms):
                    counts[i + 1][:, is_own] = of_norms[:, is_own]
        return list(counts)
