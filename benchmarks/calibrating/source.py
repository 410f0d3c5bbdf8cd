"""What the literature reports (Kozyrskiy 2023)."""

from typing import Any

Figures = dict[str, Any]

# Test error, negative log likelihood, expected calibration error.
REPORTED: dict[str, dict[str, tuple[float, ...]]] = {
    "magic": {
        "Table 4.4-4.6, Beta transform": (0.133, 0.336, 0.0263),
        "Table 4.4-4.6, log-normal": (0.139, 0.351, 0.022),
        "Table 4.2, bootstrap on random features": (0.13, 0.33),
        "Table 4.2, sparse GP": (0.13, 0.35),
        "Table 4.3, bootstrap of a network": (0.12, 0.31),
        "Table 4.3, MCMC of a network": (0.12, 0.29),
        "Table 6.3-6.4, Wasserstein prior": (0.1163, 0.29),
    },
    "htru2": {
        "Table 4.4-4.6, Beta transform": (0.0224, 0.074, 0.043),
        "Table 4.4-4.6, log-normal": (0.022, 0.081, 0.039),
        "Table 4.2, bootstrap on random features": (0.02, 0.07),
        "Table 4.2, sparse GP": (0.02, 0.07),
        "Table 4.3, bootstrap of a network": (0.02, 0.08),
        "Table 4.3, MCMC of a network": (0.02, 0.07),
        "Table 6.3-6.4, Wasserstein prior": (0.0197, 0.06),
    },
    "eeg_eye_state": {
        "Table 4.4-4.6, Beta transform": (0.18, 0.40, 0.027),
        "Table 4.4-4.6, log-normal": (0.21, 0.43, 0.022),
        "Table 6.3-6.4, Wasserstein prior": (0.0587, 0.18),
    },
}

# Table 6.1 and 6.2: root mean squared error, negative log likelihood.
_METHODS = ("functional MCMC", "Wasserstein prior", "deep ensembles")
_TABLES: dict[str, tuple[tuple[float, float], ...]] = {
    "boston": ((2.73, 2.45), (2.83, 2.48), (3.69, 3.19)),
    "concrete": ((4.06, 2.74), (4.80, 3.03), (3.07, 3.07)),
    "energy": ((0.48, 0.80), (0.34, 0.35), (1.37, 2.07)),
    "kin8nm": ((0.04, -1.46), (0.06, -1.23), (0.06, -1.32)),
    "power_plant": ((3.24, 2.73), (3.72, 2.74), (3.86, 2.74)),
    "protein": ((3.61, 2.73), (3.65, 2.75), (4.45, 2.80)),
    "wine_red": ((0.60, 0.76), (0.60, 0.92), (0.62, 1.08)),
}
REPORTED_REGRESSION = {
    name: {
        f"Tables 6.1, 6.2, {method}": scores
        for method, scores in zip(_METHODS, figures, strict=True)
    }
    for name, figures in _TABLES.items()
}
