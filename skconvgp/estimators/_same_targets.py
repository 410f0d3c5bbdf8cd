"""Whether processes have evidences, and latent functions, of the same targets."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import is_classifier

from skconvgp._protocols import LinkLikelihood
from skconvgp.estimators._validation import rows_to_tensor, to_numpy

__all__ = ["have_same_targets", "targets_of"]


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
