"""What the literature reports (Kozyrskiy 2023)."""

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
