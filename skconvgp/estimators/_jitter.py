"""What is told of jitter: it is a help, until it is more than the noise."""

import torch

from skconvgp.estimators._inputs import Work
from skconvgp.estimators._warn import warn_caller
from skconvgp.exceptions import JitterWarning

__all__ = ["warn_of_jitter"]


def warn_of_jitter(jitter: float, least_noise: float, work: Work) -> None:
    """Warn if more was added to the diagonal than the least noise of a sample.

    Parameters
    ----------
    jitter, least_noise : float
        Both in the units of the matrix.
    work : Work
        How the matrix was computed.
    """
    if jitter <= least_noise:
        return
    config, remedies = work.config, []
    if work.choice is not None and config.dtype == torch.float32:
        remedies.append("compute covariances with `dtype='float64'`")
    if config.solve_dtype == torch.float32:
        remedies.append("solve with `solve_dtype='float64'`")
    if not remedies:
        remedies.append("remove samples that are nearly the same")
    warn_caller(
        f"The Gram matrix with its noise of {least_noise:.2g} was not positive "
        f"definite in finite precision, and {jitter:.2g} was added to its diagonal: "
        "predictions, deviations and the evidence are those of that noise, not of the "
        f"one asked for. Raise `noise_variance`, or {', and '.join(remedies)}.",
        JitterWarning,
    )
