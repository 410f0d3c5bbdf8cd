"""What a factored Gram matrix says: predictions, evidence, leave-one-out."""

from skconvgp.inference._evidence import (
    LeaveOneOut,
    leave_one_out,
    log_marginal_likelihood,
    mean_variance,
    profiled_amplitude,
)
from skconvgp.inference._noise import select_noise
from skconvgp.inference._posterior import (
    posterior_covariance,
    posterior_mean,
    posterior_variance,
    sample_gaussian,
)

__all__ = [
    "LeaveOneOut",
    "leave_one_out",
    "log_marginal_likelihood",
    "mean_variance",
    "posterior_covariance",
    "posterior_mean",
    "posterior_variance",
    "profiled_amplitude",
    "sample_gaussian",
    "select_noise",
]
