"""Representer points: the training samples that carry a prediction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from skconvgp._ambient import public
from skconvgp._settings import is_int
from skconvgp._typing import FloatArray
from skconvgp.estimators._series import warn_of_basis
from skconvgp.processes import (
    NewRows,
    is_expansion,
    representer_samples,
    representer_values,
)
from skconvgp.questions._asked import Asked
from skconvgp.questions._scores import LatentScores

__all__ = ["representer_points"]

QUESTION = "representer_points"
INSTEAD = (
    "a ConvNetGP, Image, KernelFlows, NystromCompletedGP or PatchGP estimator without "
    "a completion and, for features, likelihood='gaussian'"
)


@public
def representer_points(
    gp: Any, X: Any, target: Any = None, *, n_points: int = 5
) -> tuple[NDArray[np.intp], FloatArray]:
    r"""Return the training samples that speak most for and against a latent score.

    The mean of a latent function is a sum over training samples,
    :math:`m(x) = \sum_j \alpha_j \, k(x, x_j)` plus the prior mean. The terms are the
    representer values: a large one has a training sample that is like the new one, and
    whose target the model would miss without it.

    Parameters
    ----------
    gp : classifier or regressor
        Fitted.
    X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
        Images or vectors; K(X, X_train) if precomputed.
    target : label, int or array-like of shape (n,), default=None
        Whose score: a class label, or the index of an output, one for all samples or
        for each of them. None is the predicted label, or the only output.
    n_points : int, default=5
        Training samples for the score, and as many against it.

    Returns
    -------
    indices : ndarray of int of shape (n, 2, n_points)
        Indices of training samples among those that `fit` was given. The first row has
        those with the largest values, the second row those with the most negative
        ones, in this order; -1 where no other value has the sign.
    values : ndarray of shape (n, 2, n_points)
        Their representer values, in units of the score; 0 where there are none.

    Raises
    ------
    ValueError
        For wrong settings, or an estimator that has no answer, such as one by nearest
        neighbours.

    Notes
    -----
    With features, :math:`k(x, x_j)` is the product of features, and
    :math:`\alpha_j = w_j (y_j - m(x_j)) / \lambda_j` for the noise :math:`\lambda_j`.
    Values are known of those training samples whose features are kept: a random part,
    if there are many.

    References
    ----------
    Yeh, Kim, Yen and Ravikumar, "Representer point selection for explaining deep neural
    networks", 2018.

    Examples
    --------
    >>> from skconvgp import ImageClassifier
    >>> from skconvgp.datasets import load_digits_images
    >>> from skconvgp.questions import representer_points
    >>> X, y = load_digits_images(return_X_y=True)
    >>> gp = ImageClassifier(random_state=0).fit(X[:200], y[:200])
    >>> indices, values = representer_points(gp, X[200:201], n_points=3)
    >>> gp.predict(X[200:201]), y[indices[0, 0]]
    (array([1]), array([1, 1, 1]))
    """
    if not is_int(n_points):
        raise ValueError(f"`n_points` must be an int >= 1, got {n_points!r}.")
    check_is_fitted(gp)
    known = getattr(gp, "_process", None)
    if known is None or not is_expansion(known):
        known = Asked.of(gp, QUESTION, INSTEAD, compares=False).process
    scores = LatentScores.of(gp, X, target, QUESTION)
    rows = gp._read_new(scores.given)
    warn_of_basis(known.basis, rows)
    samples = representer_samples(known)
    places, values = representer_values(
        known,
        NewRows(rows),
        scores.outputs,
        gp._resources(),
        Largest(min(n_points, len(samples))),
    )
    units = known.model.scale[scores.outputs]
    size = len(rows), 2, n_points
    indices, found = np.full(size, -1), np.zeros(size)
    indices[:, :, : places.shape[2]] = gp._training.kept[samples][places]
    found[:, :, : places.shape[2]] = values * units[:, None, None]
    indices[found == 0.0] = -1
    return indices, found


class Largest:
    """The largest and the most negative values."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __call__(self, values: Tensor) -> Sequence[Tensor]:
        """Return places (b, 2, m) of values (b, n), and these without others' signs."""
        both = [torch.topk(one, self.count) for one in (values, -values)]
        found = torch.stack([one.values.clamp(min=0.0) for one in both], 1)
        found[:, 1] = -found[:, 1]
        return torch.stack([one.indices for one in both], 1), found
