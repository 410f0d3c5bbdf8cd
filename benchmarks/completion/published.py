"""Settings and figures of the source: Meinel 2020, on one T4."""

from dataclasses import dataclass

from benchmarks.report import Figures, find


@dataclass(frozen=True)
class Setting:
    """Which of the 60 000 training images are what, in the order of the file."""

    train: slice
    validation: slice
    test: slice


SETTINGS = {
    1: Setting(slice(0, 5000), slice(6000, 7000), slice(7000, 8000)),
    2: Setting(slice(0, 20_000), slice(20_000, 22_500), slice(22_500, 25_000)),
    3: Setting(slice(0, 25_000), slice(25_000, 27_500), slice(27_500, 30_000)),
    4: Setting(slice(0, 12_500), slice(12_500, 13_500), slice(17_000, 19_000)),
}

EXACT, NYSTROM, SVD = "exact", "nystrom", "iterative-svd"
REGRESSION = "iterative-svd, regression"  # as the source describes it
SOFT, FACTORS = "soft-impute", "factorization"
SUBSET = "subset of data"  # not in the source


def reported(
    where: str, setting: int, strategy: str, fraction: float, *figures: float
) -> Figures:
    """Return a row: validation and test accuracy in percent, minutes."""
    row = {"where": where, "setting": setting, "strategy": strategy}
    row |= {"fraction": fraction}
    return row | dict(zip(("validation", "test", "minutes"), figures, strict=True))


REPORTED = [
    reported("Table 3.3", 1, EXACT, 1.0, 96.4, 97.5, 4),
    reported("Table 3.3", 2, EXACT, 1.0, 98.68, 98.72, 64),
    reported("Table 3.3", 3, EXACT, 1.0, 98.24, 98.52, 94),
    reported("Table 3.6", 1, NYSTROM, 0.2, 0.2, 0.4, 3.22),
    reported("Table 3.6", 1, SVD, 0.2, 80.2, 77.5, 2.69),
    reported("Table 3.7", 2, NYSTROM, 0.2, 87.04, 85.84, 38.89),
    reported("Table 3.7", 2, SVD, 0.2, 81.8, 79.88, 27.44),
    reported("Table 3.8", 3, NYSTROM, 0.2, 87.86, 86.64, 54.22),
    reported("Table 3.8", 3, SVD, 0.2, 81.16, 81.68, 35.58),
]
# What is read from figures of accuracy over 10 to 90 % of the entries.
IN_WORDS = {
    1: "Fig. 3.7-3.9: iterative SVD and Soft-Impute above 80 %, Nyström poor below "
    "50 % of the entries, factorisation poor; Soft-Impute takes 35 to 45 minutes",
    4: "Fig. 3.10-3.12: Nyström 82 % at 10 % of the entries, iterative SVD 80 to "
    "84 %; the exact matrix takes about 15 minutes",
}

# A matrix of entries drawn from U(0, 1): minutes at 10, 20, ... 90 % missing.
RANDOM_N = 5000
RANDOM_ERROR = 0.29  # relative RMSE, about, of all methods
RANDOM_MISSING = [i / 10 for i in range(1, 10)]
RANDOM_MINUTES = {
    SVD: [0.52, 0.57, 0.58, 0.66, 0.76, 0.82, 0.96, 1.12, 1.67],
    SOFT: [1.83, 2.78, 3.25, 4.22, 5.16, 7.53, 11.7, 20.4, 45.5],
    FACTORS: [1.07, 1.76, 2.47, 3.18, 3.89, 4.6, 5.29, 5.99, 6.69],
}


def find_reported(
    setting: int | None, strategy: str, fraction: float | None
) -> Figures:
    """Return what the source reports of a strategy, empty if nothing."""
    strategy = SVD if strategy == REGRESSION else strategy
    fraction = 1.0 if fraction is None else fraction
    place = {"setting": setting, "strategy": strategy, "fraction": fraction}
    return find(REPORTED, **place) or {}
