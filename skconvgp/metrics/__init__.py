"""Scores that scikit-learn lacks."""

from skconvgp.metrics._calibration import expected_calibration_error

__all__ = ["expected_calibration_error"]
