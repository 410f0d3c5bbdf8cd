"""Checks of the entries that strategies are given."""

import torch
from torch import Tensor

from skconvgp.exceptions import CompletionError

__all__ = ["check_finite"]


def check_finite(values: Tensor) -> Tensor:
    """Return entries of a Gram matrix, if all are finite."""
    if bool(values.sum().isfinite()):  # it takes no memory
        return values
    wrong = int(torch.count_nonzero(~values.isfinite()))
    if wrong:
        raise CompletionError(
            f"{wrong} of {values.numel()} covariances are not finite. Look for samples "
            "or hyperparameters that make the kernel overflow: scale the samples, or "
            "use dtype='float64'."
        )
    return values
