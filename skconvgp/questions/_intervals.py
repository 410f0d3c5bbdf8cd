"""Intervals that hold the target with a guarantee."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import is_regressor
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from skconvgp._ambient import public
from skconvgp._typing import FloatArray
from skconvgp.engine import to_tensor
from skconvgp.estimators._warn import warn_caller
from skconvgp.inference import Addition, Ranks, interval_ends
from skconvgp.questions._asked import Asked, alpha_of, check_flag

__all__ = ["prediction_interval"]

INSTEAD = (
    "ConvNetGPRegressor, ImageRegressor, KernelFlowsRegressor, "
    "NystromCompletedGPRegressor or PatchGPRegressor without a completion, or its "
    "`predict_interval`"
)


@public
def prediction_interval(
    gp: Any,
    X: Any,
    level: float = 0.9,
    diag: ArrayLike | None = None,
    *,
    joint: bool = False,
) -> FloatArray:
    r"""Return intervals that contain the target with a probability.

    Full conformal prediction in closed form: each new sample is added to the training
    samples with each possible target, all are left out of this set in turn, and a
    target is in the interval unless the error of the new sample, in its deviation, is
    among the largest. All such targets are one interval.

    If training samples and the new one are exchangeable, inputs are all different, and
    the kernel, the noise and the prior mean do not depend on the training samples, the
    target is in the interval with a probability of at least `level`, for any number of
    samples. With settings that follow from the training samples the guarantee is
    approximate. By default the prior mean is one of these: normalize_y=False has none.
    `predict_interval` of the estimators is narrower by a little, without a guarantee.

    Parameters
    ----------
    gp : regressor
        Fitted, with a direct solver, or with features, as NystromCompletedGPRegressor
        and PatchGPRegressor have.
    X : array-like of shape (n, d), (n, h, w) or (n, c, h, w)
        Images or vectors; K(X, X_train) if precomputed.
    level : float, default=0.9
        Probability, between 0 and 1; of each output by itself, if there are several.
    diag : array-like of shape (n,), default=None
        Prior variances k(x, x), needed if precomputed.
    joint : bool, default=False
        Whether the probability is that the targets of all outputs are in their
        intervals, which are then longer. It changes nothing for one output.

    Returns
    -------
    intervals : ndarray of shape (n, 2) or (n, n_outputs, 2)
        Lower and upper ends, in units of y. They are infinite, with a warning, if there
        are fewer than 1 / (1 - level) - 1 training samples.

    Raises
    ------
    ValueError
        For a wrong setting, or an estimator that has no answer, such as one with
        nearest neighbours.

    Notes
    -----
    Samples with equal inputs, and samples of a group of `fit`, count as one; the new
    sample is a group of its own. There is no guarantee for a new sample with the input
    of a training sample, or of one of the groups. A sample of weight w stands for w
    equal ones. With features see the notes of `prediction_set`. If samples of `fit`
    have a noise variance each, the new one has their mean, and the guarantee is
    approximate.

    With `joint` the error of a sample is the largest one of its outputs, each in the
    deviations of its own. The targets that conform are no box; the intervals are the
    sides of a box around them, so that the guarantee holds, with some room to spare.

    References
    ----------
    Burnaev and Vovk, "Efficiency of conformalized ridge regression", 2014; Vovk,
    Gammerman and Shafer, "Algorithmic learning in a random world", 2005, chapter 2.

    Examples
    --------
    >>> import numpy as np
    >>> from skconvgp import ConvNetGPRegressor
    >>> from skconvgp.kernels import rbf
    >>> from skconvgp.questions import prediction_interval
    >>> X = np.linspace(0.0, 6.0, 40)[:, None]
    >>> gp = ConvNetGPRegressor(rbf(2.0), noise_variance=0.01).fit(X, np.sin(X[:, 0]))
    >>> prediction_interval(gp, [[1.5], [8.0]]).round(2)
    array([[0.97, 1.01],
           [0.67, 0.89]])
    """
    alpha = alpha_of(level)
    check_flag("joint", joint)
    check_is_fitted(gp)
    if not is_regressor(gp):
        raise ValueError(
            f"`prediction_interval` is for regressors, got {type(gp).__name__}: use "
            "`prediction_set` for a classifier."
        )
    asked = Asked.of(gp, "prediction_interval", INSTEAD)
    question = IntervalQuestion(asked, alpha, joint=bool(joint))
    new = asked.read(X, diag)
    ends = np.stack(asked.ask(new, question), axis=-1)
    if question.ranks.least < 0.0:
        needed = int(np.ceil(1.0 / alpha - 1.0 - 1e-9))
        warn_caller(
            f"Intervals are infinite: a level of {level:g} takes {needed} training "
            "samples that are left out by themselves. Lower `level`.",
            UserWarning,
        )
    scaled = ends * gp.y_scale_[:, None] + gp.y_mean_[:, None]
    scaled += gp._mean_at(new.rows[: len(ends)])[:, :, None]  # versions follow
    intervals: FloatArray = gp._without_outputs(scaled, axis=1)
    return intervals


class IntervalQuestion:
    """Which targets conform no worse than those of enough units."""

    def __init__(self, asked: Asked, alpha: float, *, joint: bool) -> None:
        self.targets = asked.process.model.targets[asked.scored.samples]
        self.of, self.precisions = asked.of_samples, asked.precisions
        self.shares = asked.shares(asked.weights)
        self.ranks = Ranks(alpha, float(self.shares.sum().round(6)))
        self.deviations = None
        if joint:
            self.deviations = np.sqrt(asked.process.model.amplitude)

    def __call__(self, addition: Addition) -> Sequence[Tensor]:
        """Return lower and upper ends (b, k)."""
        device, dtype = addition.mean.device, addition.mean.dtype
        given = self.targets, self.precisions, self.shares
        targets, precisions, shares = (to_tensor(one, device, dtype) for one in given)
        augmented, inputs = addition.observed(), addition.inputs
        # The variance of a single observation, not of the mean of those at an input.
        single = (inputs.single + torch.zeros_like(inputs.noise))[self.of] / precisions
        added = single - (inputs.noise - addition.jitter)[self.of]
        wanted = targets, self.of, added, shares, self.ranks
        if self.deviations is None:
            return interval_ends(augmented, *wanted)
        deviations = to_tensor(self.deviations, device, dtype)
        return interval_ends(augmented, *wanted, deviations)
