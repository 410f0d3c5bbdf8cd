"""Scores of probabilistic predictions that scikit-learn does not have."""

from skconvgp.metrics._calibration import (
    brier_decomposition,
    expected_calibration_error,
    reliability_table,
)
from skconvgp.metrics._convergence import split_rhat
from skconvgp.metrics._predictive import (
    interval_coverage,
    interval_width,
    negative_log_predictive_density,
)
from skconvgp.metrics._rejection import (
    accuracy_rejection_auc_score,
    accuracy_rejection_curve,
)
from skconvgp.metrics._robustness import robustness_curve
from skconvgp.metrics._transport import gaussian_wasserstein

__all__ = [
    "accuracy_rejection_auc_score",
    "accuracy_rejection_curve",
    "brier_decomposition",
    "expected_calibration_error",
    "gaussian_wasserstein",
    "interval_coverage",
    "interval_width",
    "negative_log_predictive_density",
    "reliability_table",
    "robustness_curve",
    "split_rhat",
]
