"""Deviations of regressors without the factor that left-out targets ask for."""

import numpy as np


def plain(gp, std):
    """Return standard deviations (n,) or (n, k) of the fitted process itself."""
    factors = np.array(gp.fit_report_.deviation_factors or [1.0])
    return std / (factors[0] if std.ndim == 1 else factors)


def plain_cov(gp, cov):
    """Return covariances (n, n) or (n, n, k) of the fitted process itself."""
    factors = np.array(gp.fit_report_.deviation_factors or [1.0])
    return cov / (factors[0] if cov.ndim == 2 else factors) ** 2
