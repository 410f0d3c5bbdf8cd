"""Tiles of pictures that scikit-learn and scikit-image bring along."""

from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images

from benchmarks.data import Array, Samples
from benchmarks.image_sets.drawn import TEST, TRAINING, stacked

SIDE, STRIP = 32, 40
TRIES = 3  # tiles of which the one with most contrast is kept
# In the folder `data` of scikit-image.
FILES = (
    *("astronaut.png", "chelsea.png", "coffee.png", "hubble_deep_field.jpg"),
    *("ihc.png", "motorcycle_left.png", "retina.jpg", "rocket.jpg"),
)


def has_pictures() -> bool:
    """Whether scikit-image is installed."""
    return find_spec("skimage") is not None


def heights(n_train: int, n_test: int, seed: int) -> Samples:
    """Return tiles of two pictures; labels tell of which and from what height."""
    return tiles(_heights(), n_train, n_test, seed)


def pictures(n_train: int, n_test: int, seed: int) -> Samples:
    """Return tiles of eight pictures; labels tell which they are of."""
    return tiles(_pictures(), n_train, n_test, seed)


@cache
def _heights() -> tuple[Array, ...]:
    china, flower = load_sample_images().images
    petals = flower[:, 130:510]  # what is beside them is dark
    parts = np.array_split(china, 4), np.array_split(petals, 3)
    return tuple(part for some in parts for part in some)


@cache
def _pictures() -> tuple[Array, ...]:
    found = find_spec("skimage")
    assert found
    assert found.origin
    folder, whole = Path(found.origin).parent / "data", []
    for name in FILES:
        with Image.open(folder / name) as one:
            whole.append(np.asarray(one.convert("RGB").reduce(2)))
    return tuple(whole)


def tiles(whole: tuple[Array, ...], n_train: int, n_test: int, seed: int) -> Samples:
    """Return tiles of pictures: strips of training and of test tiles take turns."""
    train = _cut(whole, n_train, 0, np.random.default_rng([TRAINING, seed]))
    test = _cut(whole, n_test, 1, np.random.default_rng([TEST, 0]))
    return Samples(*train, *test)


def _cut(
    whole: tuple[Array, ...], n: int, odd: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Return tiles within even or odd strips, and labels, which take turns."""
    y, found = np.arange(n) % len(whole), []
    for label in y:
        some = [_tile(whole[label], odd, rng) for _ in range(TRIES)]
        found.append(max(some, key=np.std).transpose(2, 0, 1) / 255.0)
    return stacked(found), y


def _tile(picture: Array, odd: int, rng: np.random.Generator) -> Array:
    height, width = picture.shape[:2]
    strip = 2 * rng.integers(0, (width // STRIP + 1 - odd) // 2) + odd
    left = strip * STRIP + rng.integers(0, STRIP - SIDE + 1)
    top = rng.integers(0, height - SIDE + 1)
    return picture[top : top + SIDE, left : left + SIDE]
