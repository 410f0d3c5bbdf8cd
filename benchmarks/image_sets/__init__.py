"""Sets of images of many kinds, by name: files, and sets that are generated or cut.

Each set is a function of the number of training images, the number of test images and
the draw, and returns `Samples`: float32 images (n, c, h, w) in [0, 1], and labels from
0 on. Labels of training images take turns, so that a class has at most one image more
than another, while a file has images of all. Files may have fewer than `largest`.

Training images depend on the draw; the first of more are those of fewer. Test images
are the same for all draws, but those of digits, which are the digits that were not
drawn. `Samples.groups` tells which training images belong together, where some do; then
test images are of other groups.

Generated sets are made by numpy and Pillow, with fonts of matplotlib. The set
"pictures" is there only where scikit-image is installed.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from benchmarks.data import Samples, draw
from benchmarks.image_sets.coloured import cells, shapes
from benchmarks.image_sets.grey import (
    both_ways,
    defects,
    left_right,
    sounds,
    textures,
)
from benchmarks.image_sets.leaves import leaves
from benchmarks.image_sets.signs import signs
from benchmarks.image_sets.tiles import has_pictures, heights, pictures

Maker = Callable[[int, int, int], Samples]


class ImageSet(NamedTuple):
    """What makes a set, and the most training images that it gives."""

    make: Maker
    largest: int


def _of(name: str) -> Maker:
    """Return what draws images of files, with the first test images."""

    def make(n_train: int, n_test: int, seed: int) -> Samples:
        found = draw(name, n_train, seed)
        X_test, y_test = found.X_test[:n_test], found.y_test[:n_test]
        return replace(found, X_test=X_test, y_test=y_test)

    return make


SETS: dict[str, ImageSet] = {
    "digits": ImageSet(_of("digits"), 1000),
    "mnist": ImageSet(_of("mnist"), 60_000),
    "cifar10": ImageSet(_of("cifar10"), 50_000),
    "textures": ImageSet(textures, 20_000),
    "cells": ImageSet(cells, 20_000),
    "defects": ImageSet(defects, 20_000),
    "shapes": ImageSet(shapes, 20_000),
    "sounds": ImageSet(sounds, 60_000),
    "heights": ImageSet(heights, 2000),
    "signs": ImageSet(signs, 20_000),
    "left and right": ImageSet(left_right, 20_000),
    "mirrored": ImageSet(both_ways, 20_000),
    "leaves": ImageSet(leaves, 20_000),
}
if has_pictures():
    SETS["pictures"] = ImageSet(pictures, 5000)
