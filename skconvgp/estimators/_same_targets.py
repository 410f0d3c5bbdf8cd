"""Whether processes have the same samples, and evidences of the same targets."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import column_or_1d

from skconvgp._protocols import LinkLikelihood
from skconvgp.estimators._validation import rows_to_tensor, to_numpy
from skconvgp.kernels import Kernel

__all__ = ["have_same_targets", "require_same_data", "targets_of"]


def targets_of(gp: Any) -> NDArray[Any]:
    """Return the numbers that the likelihood of a classifier makes of the labels."""
    codes, likelihood = gp._codes, gp.likelihood_
    if isinstance(likelihood, LinkLikelihood):
        return codes  # type: ignore[no-any-return]
    weights = rows_to_tensor(gp._weights)
    targets = likelihood.targets(torch.as_tensor(codes), len(gp.classes_), weights)
    return to_numpy(targets.values)


def have_same_targets(processes: list[Any]) -> bool:
    """Say whether fitted processes of the same data explain the same numbers."""
    first = processes[0]
    if not is_classifier(first):
        return all(len(gp._targets) == len(first._targets) for gp in processes)
    kinds = {type(gp.likelihood_) for gp in processes}
    targets = [targets_of(gp) for gp in processes]
    return len(kinds) == 1 and all(
        one.shape == targets[0].shape and np.allclose(one, targets[0])
        for one in targets
    )


def require_same_data(name: str, gp: Any, X: Any, y: Any) -> None:
    """Raise unless a process was fitted to these samples, all of weight 1."""
    if not (gp._weights == 1.0).all():
        raise ValueError(
            f"{name!r} was fitted with sample weights, and figures of other weights "
            "cannot be compared: pass an unfitted clone."
        )
    rows, truth = gp._validate_predict(X), np.asarray(y)
    numbers = gp._columns
    has_rows = len(rows) == len(truth) == gp._n_given and (
        not isinstance(gp.kernel_, Kernel) or np.array_equal(gp.X_train_, rows[numbers])
    )
    if not has_rows or not _has(gp, truth):
        raise ValueError(
            f"{name!r} was fitted to other data than X and y: pass an unfitted clone."
        )


def _has(gp: Any, y: NDArray[Any]) -> bool:
    """Say whether the targets of a process are those."""
    if is_classifier(gp):
        own = gp.classes_[gp._codes]
        return np.array_equal(own, column_or_1d(y)[gp._kept])
    kept = y.reshape(len(y), -1)[gp._kept]
    own = gp._targets * gp.y_scale_ + gp.y_mean_
    return own.shape == kept.shape and np.allclose(own, kept)
