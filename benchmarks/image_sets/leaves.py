"""Leaves of plants: a plant is a group, and test images are of other plants."""

from typing import Any

import numpy as np

from benchmarks.data import Array, Samples
from benchmarks.image_sets.drawn import (
    FINE,
    TEST,
    TRAINING,
    clouds,
    coverage,
    grid,
    moved,
    page,
    painted,
    points,
    stacked,
)

LEAVES = ("smooth", "toothed", "three lobes", "five lobes", "heart")
VIEWS = 8  # leaves of a plant


def leaves(n_train: int, n_test: int, seed: int) -> Samples:
    """Return leaves of plants: eight views of each, test images of other plants."""
    X, y, groups = plants(n_train, TRAINING, seed)
    X_test, y_test, _ = plants(n_test, TEST, 0)
    return Samples(X, y, X_test, y_test, groups)


def plants(n: int, *seed: int) -> tuple[Array, Array, Array]:
    """Return images, labels and the plant of each; labels take turns."""
    rng, k = np.random.default_rng(seed), len(LEAVES)
    places = np.arange(n)
    groups = places // (k * VIEWS) * k + places % k
    looks = [plant(group % k, rng) for group in range(int(groups.max(initial=0)) + 1)]
    found = [leaf(looks[group], rng) for group in groups]
    return stacked(found), places % k, groups


def plant(label: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return what the leaves of a plant have in common."""
    side, kind = 48, LEAVES[label]
    ground = rng.uniform([0.4, 0.2, 0.4], [0.9, 0.7, 0.9])
    turns = np.linspace(0.0, 2.0 * np.pi, 240, endpoint=False)
    depth = rng.uniform(0.15, 0.3)
    radius = {
        "smooth": lambda: 1.0 + 0.0 * turns,
        "toothed": lambda: (
            1.0 - 0.55 * depth * (turns * rng.integers(20, 30) / (2.0 * np.pi) % 1.0)
        ),
        "three lobes": lambda: 1.0 - depth + depth * np.cos(3.0 * turns),
        "five lobes": lambda: 1.0 - depth + depth * np.cos(5.0 * turns),
        "heart": lambda: 1.0 - 2.2 * depth * np.exp(-np.square((turns - np.pi) / 0.35)),
    }[kind]()
    outline = radius[:, None] * np.stack([np.cos(turns), np.sin(turns)], 1)
    return {
        "outline": outline * [1.0, rng.uniform(0.6, 0.95)],
        "size": rng.uniform(14.0, 19.0),
        "colour": rng.uniform([0.1, 0.3, 0.05], [0.5, 0.7, 0.3]),
        "vein": rng.uniform(-0.25, 0.25),
        "ground": ground[:, None, None]
        + 0.08 * clouds(side, rng.uniform(0.5, 1.5), rng),
    }


def leaf(look: dict[str, Any], rng: np.random.Generator) -> Array:
    """Return a view of a plant's leaf, on the ground that this plant has."""
    side, angle = 48, rng.uniform(-0.5, 0.5)
    place = side / 2 + rng.uniform(-3.0, 3.0, 2)
    shear = np.eye(2) + rng.uniform(-0.15, 0.15, (2, 2))
    size = look["size"] * rng.uniform(0.9, 1.1)
    outline = FINE * moved(look["outline"] @ shear, size, angle, place)
    whole, veins = page(side), page(side)
    whole[1].polygon(points(outline), fill=255)
    for i in range(0, len(outline), 40):
        veins[1].line([*(FINE * place), *outline[i]], fill=255, width=3)
    ground = np.roll(look["ground"], rng.integers(0, side, 2), axis=(1, 2))
    image = painted(ground, coverage(whole[0]), look["colour"])
    image += look["vein"] * coverage(veins[0])
    rows, columns = grid(side) / side - 0.5
    light = rng.uniform(0.75, 1.15) + 0.2 * (
        rng.normal() * rows + rng.normal() * columns
    )
    return image * light + rng.normal(scale=0.03, size=image.shape)
