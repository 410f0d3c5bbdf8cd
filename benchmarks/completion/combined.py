"""Combinations of strategies: sums of kernels, clusters, mixtures of classifiers."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn.cluster import KMeans
from torch import Generator

from benchmarks.completion.matrices import Covariances, StoredMatrix, judge_matrix
from benchmarks.completion.published import EXACT, NYSTROM
from benchmarks.completion.strategies import classifier
from benchmarks.data import Array, Labelled, Validated
from benchmarks.measure import accuracies
from benchmarks.report import Figures
from skconvgp import KernelEnsembleClassifier, completion
from skconvgp.kernels import convnet

COARSE = ((2, 5, 3), (4, 3, 3))  # side of squares, layers, side of windows
WEIGHTS = (0.25, 0.5, 0.75)  # of the exact kernel in a sum
MIXED_WITH = {
    NYSTROM: completion.Nystrom(),
    "100 neighbours": completion.NearestNeighbors(100),
}


def combinations(
    split: Validated, exact: Covariances, fraction: float
) -> Iterator[Figures]:
    """Yield a row for each; shares are of the entries of the exact kernel."""
    landmarks, share = from_landmarks(exact, StoredMatrix(exact.gram), fraction)
    for pool, depth, size in COARSE:
        name = f"coarse {pool}, {depth} layers of {size}x{size}"
        kernel = convnet(depth=depth, kernel_size=size)
        coarse = Covariances.of(kernel, averaged(split, pool))
        yield named(name, None, 0.0) | judge_matrix(coarse, split)
        for weight in WEIGHTS:
            both = exact.weighted(weight, coarse)
            told = named(f"{name} + {weight:.0%} {EXACT}", None, 1.0)
            yield told | judge_matrix(both, split)
        for weight in WEIGHTS:
            both = landmarks.weighted(weight, coarse)
            told = named(f"{name} + {weight:.0%} {NYSTROM}", fraction, share)
            yield told | judge_matrix(both, split)
    yield clusters_beside_landmarks(split, exact, fraction)
    for name, other in MIXED_WITH.items():
        yield mixture(split, name, other, fraction)


def named(strategy: str, fraction: float | None, share: float) -> Figures:
    """Return the beginning of a row."""
    return {"strategy": strategy, "fraction": fraction, "share": share}


def mixture(split: Validated, name: str, other: Any, fraction: float) -> Figures:
    """Judge a mixture of a coarse kernel's classifier and of another, by stacking."""
    pairs = {"coarse": completion.CoarseKernel(), name: other}
    gp = KernelEnsembleClassifier(
        [(key, classifier(part, fraction)) for key, part in pairs.items()],
        weights="stacking",
    )
    gp.fit(split.train.X, split.train.y)
    n = len(split.train.y)
    share = gp.estimators_[1].fit_report_.n_pairs / (n * (n + 1) / 2)
    told = named(f"mixture of coarse 2, 5 layers of 3x3 and {name}", fraction, share)
    return told | accuracies(split.both(gp.predict_proba), gp.classes_, split)


def from_landmarks(
    exact: Covariances, oracle: StoredMatrix, fraction: float
) -> tuple[Covariances, float]:
    """Return what the columns of landmarks say of all pairs, and their share."""
    generator = Generator().manual_seed(0)
    done = completion.Nystrom().complete(oracle, fraction, generator)

    def approximate(cross: Array) -> Array:
        anchored = torch.from_numpy(cross[:, done.anchors.numpy()])
        return (done.lift(anchored.to(torch.float64)) @ done.factor.mT).numpy()

    return exact.changed(approximate), oracle.share()


def clusters_beside_landmarks(
    split: Validated, exact: Covariances, fraction: float
) -> Figures:
    """Judge exact entries within clusters, landmarks between them, half of each.

    Snelson and Ghahramani, "Local and global sparse Gaussian process approximations",
    2007: a new image belongs to the cluster with the nearest centre.
    """
    means = KMeans(round(2.0 / fraction), random_state=0)
    own = means.fit_predict(flat(split.train))
    oracle = StoredMatrix(exact.gram)
    between, _ = from_landmarks(exact, oracle, fraction / 2.0)
    for number in range(means.n_clusters):
        members = torch.from_numpy((own == number).nonzero()[0])
        oracle.block(members, members)

    def within(new: Array, approximate: Any, given: Any) -> Array:
        return np.where(new[:, None] == own, given, approximate)

    gram = within(own, between.gram, exact.gram)
    cross = {
        name: within(
            means.predict(flat(getattr(split, name))), between.cross[name], given
        )
        for name, given in exact.cross.items()
    }
    told = named(f"clusters, {NYSTROM} between", fraction, oracle.share())
    return told | judge_matrix(Covariances(gram, cross), split)


def flat(part: Labelled) -> Array:
    """Return the images as vectors."""
    return part.X.reshape(len(part.X), -1)


def averaged(split: Validated, side: int) -> Validated:
    """Return smaller images: the means of squares of pixels."""

    def smaller(part: Labelled) -> Labelled:
        n, channels, height, width = part.X.shape
        squares = (n, channels, height // side, side, width // side, side)
        return replace(part, X=part.X.reshape(squares).mean(axis=(3, 5)))

    return Validated(*map(smaller, (split.train, split.validation, split.test)))
