"""The strategies by name, each with the fractions it is measured at."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from benchmarks.completion import published
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
        lambda _, fraction: classifier(make(**settings), fraction),
        fractions,
        largest_n,
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
            completion.CoarseKernel,
            WHOLE,
            pool=pool,
            depth=depth,
            kernel_size=size,
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
