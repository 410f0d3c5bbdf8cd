"""Settings and figures of the source: Bin Khalid 2022, on one RTX 3070 with 8 GB."""

from benchmarks.report import Figures

THREE, SEVEN, DENSE = "3-layer", "7-layer", "dense"
ADAM, EXACT, DIFFERENCES = "adam", "gd", "differences"
QUASI, BAYESIAN, AUTOGRAD = "lbfgs", "bayesian", "autograd"

NOISE = 1e-4
OUT_OF_MEMORY = "out of memory"

# Table 3.4: seconds a step, by network and method, at batches of 600 and 1200.
BATCHES = (600, 1200)
STEP_SECONDS = {
    (THREE, AUTOGRAD): (0.736, OUT_OF_MEMORY),
    (THREE, DIFFERENCES): (0.667, 2.715),
    (THREE, BAYESIAN): (0.385, 1.243),
    (SEVEN, AUTOGRAD): (OUT_OF_MEMORY, OUT_OF_MEMORY),
    (SEVEN, DIFFERENCES): (8.667, 34.916),
    (SEVEN, BAYESIAN): (3.969, 15.778),
}

# Table 3.3: a profile of ten steps; seconds in all, kernel evaluations. It must be of
# three layers: with seven there was no memory for autodiff.
PROFILE_BATCH, PROFILE_STEPS = 300, 10
PROFILE = {AUTOGRAD: (85.81, 10), DIFFERENCES: (30.30, 30), BAYESIAN: (12.42, 13)}

AUTODIFF_FAILED = 100  # the smallest batch, on the network with seven layers

# What is read from its figures.
IN_WORDS = [
    "Fig. 3.8: 8 GB at a batch of 450 with plain autodiff, 3 layers",
    "Fig. 3.12, 3.13: differences, 7 layers, worst of five starts: better than the "
    "published parameters as it set them, not than the best start",
    "Fig. 3.14, 3.15: Bayesian, 7 layers: best found after 9 steps; CIFAR-10 close "
    "to 45 %",
    "Fig. 3.16: all three, 3 layers, MNIST: Bayesian best",
]


def reported() -> Figures:
    """Return the source's figures, for the file."""
    return {
        "step_seconds": [
            {"network": network, "method": method, "batch": batch, "seconds": value}
            for (network, method), values in STEP_SECONDS.items()
            for batch, value in zip(BATCHES, values, strict=True)
        ],
        "profile": {
            method: {"seconds": seconds, "n_evaluations": count}
            for method, (seconds, count) in PROFILE.items()
        },
        "in_words": IN_WORDS,
    }
