"""The sets of images of the benchmarks: their shapes, labels, seeds and test images."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

if not (Path(__file__).parents[1] / "benchmarks").exists():
    pytest.skip("the benchmarks are not installed", allow_module_level=True)

from benchmarks.data import balanced
from benchmarks.image_sets import SETS, grey
from benchmarks.image_sets.leaves import VIEWS
from benchmarks.image_sets.tiles import SIDE, tiles

OF_FILES = ("mnist", "cifar10")  # which need not be there
HERE = [name for name in SETS if name not in OF_FILES]
SHAPES = {
    "digits": (1, 8, 8),
    "textures": (1, 64, 64),
    "cells": (3, 64, 64),
    "defects": (1, 48, 48),
    "shapes": (3, 32, 32),
    "sounds": (1, 32, 32),
    "heights": (3, 32, 32),
    "signs": (3, 32, 32),
    "left and right": (1, 28, 28),
    "mirrored": (1, 28, 28),
    "leaves": (3, 48, 48),
    "pictures": (3, 32, 32),
}
N_CLASSES = {"digits": 10, "textures": 8, "shapes": 8, "sounds": 8, "heights": 7}
N_CLASSES |= {"signs": 14, "left and right": 6, "mirrored": 10, "pictures": 8}
N_TRAIN, N_TEST = 40, 30


def same(X, Y):
    """Return which images of X are images of Y, too."""
    return (X.reshape(len(X), 1, -1) == Y.reshape(1, len(Y), -1)).all(2).any(1)


@pytest.mark.parametrize("name", HERE)
def test_images_are_small_numbers_with_balanced_labels(name):
    some = SETS[name].make(N_TRAIN, N_TEST, 0)
    k = N_CLASSES.get(name, 5)
    for X, y, n in ((some.X, some.y, N_TRAIN), (some.X_test, some.y_test, N_TEST)):
        assert X.shape == (n, *SHAPES[name])
        assert X.dtype == np.float32
        assert 0.0 <= X.min() < X.max() <= 1.0
        assert y.shape == (n,)
        assert set(y.tolist()) <= set(range(k))
    counts = np.bincount(some.y, minlength=k)
    assert len(counts) == k
    assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("name", HERE)
def test_images_follow_from_the_draw_and_more_begin_with_the_fewer(name):
    some, more = (SETS[name].make(n, N_TEST, 3) for n in (N_TRAIN // 2, N_TRAIN))
    first = more.first(N_TRAIN // 2)
    for part in ("X", "y"):
        np.testing.assert_array_equal(getattr(some, part), getattr(first, part))
    if some.groups is not None:
        np.testing.assert_array_equal(some.groups, first.groups)


@pytest.mark.parametrize("name", HERE)
def test_draws_have_other_training_images_and_the_same_test_images(name):
    one, other = (SETS[name].make(N_TRAIN, N_TEST, seed) for seed in (0, 1))
    assert same(one.X, other.X).mean() < 0.2
    for some in (one, other):
        assert not same(some.X_test, some.X).any()
    if name != "digits":  # their test images are those that were not drawn
        np.testing.assert_array_equal(one.X_test, other.X_test)
        np.testing.assert_array_equal(one.y_test, other.y_test)


def test_labels_take_turns_until_a_class_has_no_more():
    y = np.repeat([0, 1, 2], [5, 2, 3])
    for seed in range(5):
        chosen = balanced(y, 10, seed)
        assert sorted(chosen) == list(range(10))
        assert y[chosen].tolist() == [0, 1, 2, 0, 1, 2, 0, 2, 0, 0]
        np.testing.assert_array_equal(balanced(y, 7, seed), chosen[:7])
        np.testing.assert_array_equal(balanced(y, 20, seed), chosen)
    assert len({tuple(balanced(y, 10, seed)) for seed in range(5)}) > 1


def test_no_pixel_is_in_training_tiles_and_in_test_tiles():
    numbers = np.arange(90 * 200.0).reshape(90, 200, 1)
    some = tiles((numbers / numbers.size * 255.0,), 60, 60, 0)
    assert some.X.shape == (60, 1, SIDE, SIDE)
    seen, tested = (set(X.ravel().tolist()) for X in (some.X, some.X_test))
    assert min(len(seen), len(tested)) > 1000
    assert not seen & tested


def test_leaves_come_in_groups_of_one_label():
    leaves = SETS["leaves"].make(100, 10, 0)
    assert leaves.groups is not None
    assert np.bincount(leaves.groups).max() == VIEWS
    for group in np.unique(leaves.groups):
        assert len(np.unique(leaves.y[leaves.groups == group])) == 1


def test_characters_of_one_set_are_mirrored_by_chance():
    is_mirrored = []
    for seed in range(40):
        plain, some, handed = (
            draw(np.random.default_rng(seed))
            for draw in (
                lambda rng: grey.character(grey.MIRRORED[4], 20.0, rng),
                lambda rng: grey.mirrored(4, rng),
                lambda rng: grey.handed(1, rng),
            )
        )
        is_mirrored.append(np.array_equal(some, plain[..., ::-1]))
        assert is_mirrored[-1] != np.array_equal(some, plain)
        upright = grey.character(grey.HANDED[1], 20.0, np.random.default_rng(seed))
        np.testing.assert_array_equal(handed, upright)
    assert 10 <= sum(is_mirrored) <= 30


@pytest.mark.skipif(find_spec("skimage") is not None, reason="scikit-image is here")
def test_pictures_need_scikit_image():
    assert "pictures" not in SETS
