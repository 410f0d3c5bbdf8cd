"""The check that evaluated entries are finite."""

import torch
from torch import Tensor

from skconvgp.exceptions import CompletionError

__all__ = ["check_finite"]


def check_finite(values: Tensor) -> Tensor:
    """Return entries of a Gram matrix; raise a CompletionError if one is not finite."""
    # The sum takes no memory. If it is not finite, it may only have overflowed.
    if bool(values.sum().isfinite()):
        return values
    wrong = int(torch.count_nonzero(~values.isfinite()))
    if wrong:
        raise CompletionError(
            f"{wrong} of {values.numel()} covariances are not finite. Look for samples "
            "or hyperparameters that make the kernel overflow: scale the samples, or "
            "use dtype='float64'."
        )
    return values
