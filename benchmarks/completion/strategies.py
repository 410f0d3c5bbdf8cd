"""The strategies by name, each with its fractions, and what one costs and is worth."""

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from sklearn.exceptions import ConvergenceWarning

from benchmarks.completion import published
from benchmarks.data import Validated
from benchmarks.measure import Stopwatch, accuracies, number
from benchmarks.report import Figures
from skconvgp import ConvNetGPClassifier, NystromCompletedGP, completion
from skconvgp.kernels import convnet

NOISE = 1e-4
MANY = tuple(i / 10 for i in range(1, 10))
ONE = (0.2,)
WHOLE = (None,)  # there is no fraction to choose
METHODS = {
    published.NYSTROM: completion.Nystrom,
    published.SVD: completion.IterativeSVD,
    published.REGRESSION: partial(completion.IterativeSVD, rule="row_regression"),
    published.SOFT: completion.SoftImpute,
    published.FACTORS: completion.MatrixFactorization,
}
LANDMARKS = ("stratified", "kmeans", "greedy_pivoted", "random_pivoted", "leverage")
SLOW = ("greedy_pivoted",)  # minutes for one fraction
WARM = 64  # images, before any clock
LARGEST_DENSE = 5000  # images of a strategy that holds more than the exact matrix


# Of n images and a fraction.
Maker: TypeAlias = Callable[[int, float | None], Any]


@dataclass(frozen=True)
class Strategy:
    """How an estimator for n images and a fraction is made."""

    make: Maker
    fractions: tuple[float | None, ...]
    largest_n: int | None = None  # where it is measured without being asked for


def classifier(part: Any = None, fraction: float | None = None) -> Any:
    """Return the network's classifier with a completion."""
    fraction = 1.0 if fraction is None else fraction
    return ConvNetGPClassifier(
        convnet(),
        noise_variance=NOISE,
        completion=part,
        observed_fraction=fraction,
        random_state=0,
    )


def completed(
    make: Callable[..., Any],
    fractions: tuple[float | None, ...] = ONE,
    largest_n: int | None = None,
    **settings: Any,
) -> Strategy:
    """Return a strategy that is a completion with some settings."""
    return Strategy(
        lambda _, fraction: classifier(make(**settings), fraction), fractions, largest_n
    )


def strategies() -> dict[str, Strategy]:
    """Return all of them, the exact process first."""
    found = {published.EXACT: Strategy(lambda _n, _fraction: classifier(), WHOLE)}
    return found | baselines() | from_columns() | masked()


def baselines() -> dict[str, Strategy]:
    """Return parts of the images, and networks that are cheaper on all pairs."""
    subset = completion.SubsetOfData
    found = {
        published.SUBSET: completed(subset, MANY),
        f"{published.SUBSET}, stratified": completed(
            subset, MANY, selection="stratified"
        ),
    }
    for pool, depth, size in ((2, 5, 3), (2, 3, 3), (2, 4, 5), (4, 3, 3)):
        found[f"coarse {pool}, {depth} layers of {size}x{size}"] = completed(
            completion.CoarseKernel, WHOLE, pool=pool, depth=depth, kernel_size=size
        )
    for pool, depth in ((2, 5), (4, 3)):
        found[f"coarse {pool}, {depth} layers of 3x3 + {published.NYSTROM}"] = (
            completed(
                completion.CoarseKernel,
                MANY,
                pool=pool,
                depth=depth,
                exact=completion.Nystrom(),
            )
        )
    for k in (100, 150):
        found[f"{k} neighbours"] = completed(
            completion.NearestNeighbors, WHOLE, n_neighbors=k
        )
    return found


def from_columns() -> dict[str, Strategy]:
    """Return what looks at the columns of landmarks."""
    found = {published.NYSTROM: completed(completion.Nystrom, MANY)}
    for word in LANDMARKS:
        fractions = ONE if word in SLOW else MANY
        found[f"{published.NYSTROM}, {word}"] = completed(
            completion.Nystrom, fractions, landmarks=word
        )
    found[f"{published.NYSTROM}, rank auto"] = completed(
        completion.Nystrom, MANY, rank="auto"
    )
    found[f"{published.NYSTROM}, ensemble"] = completed(
        completion.EnsembleNystrom, MANY
    )
    for variance in ("dtc", "fitc"):
        found[f"{published.NYSTROM}, streamed, {variance}"] = Strategy(
            partial(streamed, variance), MANY
        )
    return found


def streamed(variance: str, n: int, fraction: float) -> Any:
    """Return the classifier that never holds more than the columns."""
    return NystromCompletedGP(
        convnet(),
        n_landmarks=max(1, int(n * (1.0 - math.sqrt(1.0 - fraction)))),
        variance=variance,
        noise_variance=NOISE,
        random_state=0,
    )


def masked() -> dict[str, Strategy]:
    """Return what looks at any entries."""
    found = {}
    for name in (published.SVD, published.SOFT, published.FACTORS):
        method = METHODS[name]
        found[name] = completed(method, MANY, LARGEST_DENSE)
        for pattern in ("landmarks", "random"):
            found[f"{name}, {pattern}"] = completed(
                method, ONE, LARGEST_DENSE, pattern=pattern
            )
    found[published.REGRESSION] = completed(
        METHODS[published.REGRESSION], ONE, LARGEST_DENSE
    )
    return found


def start_up(gp: Any, split: Validated) -> None:
    """Load libraries and start threads, before any clock."""
    few = split.train.first(WARM)
    gp.fit(few.X, few.y).predict_proba(few.X)


def measure(gp: Any, split: Validated) -> Figures:
    """Fit and predict, through the kernel: all seconds are those of a user."""
    watch = Stopwatch()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        gp.fit(split.train.X, split.train.y)
    fitted = watch.read("fit_")
    report = gp.fit_report_
    n_pairs = len(split.train.y) * (len(split.train.y) + 1) // 2
    watch = Stopwatch()
    probabilities = split.both(gp.predict_proba)
    row = {
        "estimator": repr(gp),
        "entries": report.n_pairs,
        "share": report.n_pairs / n_pairs,
        "gram_seconds": report.gram_seconds,
        "solve_seconds": report.solve_seconds,
        **fitted,
        "predict_seconds": watch.read()["seconds"],
        "relative_rmse": number(report.relative_rmse),
        "noise_variance": float(gp.noise_variance_),
        "converged": not any(w.category is ConvergenceWarning for w in caught),
        "peak_memory": report.peak_memory,
    }
    return row | accuracies(probabilities, gp.classes_, split)
