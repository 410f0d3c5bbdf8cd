"""Comparisons of fitted processes: their samples and their targets."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import column_or_1d

from skconvgp._protocols import LinkLikelihood
from skconvgp.engine import rows_to_tensor, to_numpy
from skconvgp.processes import MatrixPrior

__all__ = ["have_same_targets", "require_same_data", "targets_of"]


def targets_of(gp: Any) -> NDArray[Any]:
    """Return the targets that the likelihood of a classifier makes of the labels."""
    codes, likelihood = gp._training.codes, gp.likelihood_
    if isinstance(likelihood, LinkLikelihood):
        return codes  # type: ignore[no-any-return]
    weights = rows_to_tensor(gp._process.model.weights)
    targets = likelihood.targets(torch.as_tensor(codes), len(gp.classes_), weights)
    return to_numpy(targets.values)


def have_same_targets(processes: list[Any]) -> bool:
    """Return whether fitted processes have the same targets."""
    first = processes[0]
    if not is_classifier(first):
        return len({len(gp._process.model.targets) for gp in processes}) == 1
    kinds = {type(gp.likelihood_) for gp in processes}
    targets = [targets_of(gp) for gp in processes]
    return len(kinds) == 1 and all(
        one.shape == targets[0].shape and np.allclose(one, targets[0])
        for one in targets
    )


def require_same_data(name: str, gp: Any, X: Any, y: Any) -> None:
    """Raise unless a process was fitted to these samples, all of weight 1."""
    process, training = gp._process, gp._training
    if not (process.model.weights == 1.0).all():
        raise ValueError(
            f"{name!r} was fitted with sample weights, and figures of other weights "
            "cannot be compared: pass an unfitted clone."
        )
    rows, truth = gp._read_new(X), np.asarray(y)
    prior = process.prior
    has_rows = len(rows) == len(truth) == training.n_given and (
        isinstance(prior, MatrixPrior)
        or np.array_equal(prior.rows, rows[prior.indices])
    )
    if not has_rows or not _was_fitted_to(gp, truth):
        raise ValueError(
            f"{name!r} was fitted to other data than X and y: pass an unfitted clone."
        )


def _was_fitted_to(gp: Any, y: NDArray[Any]) -> bool:
    """Return whether a process was fitted to these labels or targets."""
    if is_classifier(gp):
        fitted = gp.classes_[gp._training.codes]
        return np.array_equal(fitted, column_or_1d(y)[gp._training.kept])
    kept = y.reshape(len(y), -1)[gp._training.kept]
    fitted = gp._process.model.targets * gp.y_scale_ + gp.y_mean_
    return fitted.shape == kept.shape and np.allclose(fitted, kept)
