"""Sets in colour: stained cells, and shapes of any angle."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.data import Array
from benchmarks.image_sets.drawn import (
    FINE,
    Drawn,
    clouds,
    corners,
    coverage,
    disc,
    moved,
    page,
    painted,
    points,
)

CELLS = ("round", "two nuclei", "lobed", "ring", "granules")
SHAPES = (
    *("triangle", "square", "pentagon", "star"),
    *("cross", "ellipse", "half disc", "ring"),
)


def cell(label: int, rng: np.random.Generator) -> Array:
    """Return one stained cell among red ones, anywhere."""
    side, tint = 64, rng.normal(scale=0.03, size=3)
    image = np.full((3, side, side), 0.9) + rng.normal(scale=0.02, size=(3, 1, 1))
    for _ in range(rng.integers(3, 7)):
        place, radii = rng.uniform(0.0, side, 2), rng.uniform(6.0, 8.0) * np.ones(2)
        red = disc(
            side, place, radii * rng.uniform(0.85, 1.1, 2), rng.uniform(0, 3), 0.6
        )
        red -= 0.5 * disc(side, place, radii * 0.5, 0.0, 1.5)
        image = painted(image, 0.8 * red, np.array([0.85, 0.55, 0.55]) + tint)
    place, angle = rng.uniform(24.0, side - 24.0, 2), rng.uniform(0.0, 2.0 * np.pi)
    radii = rng.uniform(14.0, 18.0) * rng.uniform(0.9, 1.1, 2)
    body = disc(side, place, radii, angle, 0.7)
    image = painted(image, 0.85 * body, np.array([0.75, 0.7, 0.85]) + tint)
    purple = np.array([0.42, 0.25, 0.58]) + tint + rng.normal(scale=0.03, size=3)
    nucleus, grains = nuclei(label, place, angle, radii.min() * 0.5, rng)
    image = painted(image, 0.9 * grains * body, purple + 0.12)
    image = painted(image, rng.uniform(0.7, 0.9) * nucleus, purple)
    image += 0.02 * clouds(side, 0.8, rng) + rng.normal(scale=0.01, size=image.shape)
    return image * rng.uniform(0.85, 1.05)


def nuclei(
    label: int, place: Array, angle: float, radius: float, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Return the coverage of nuclei and of granules around them."""
    side, n_grains = 64, int(rng.integers(0, 6))
    toward = np.array([np.sin(angle), np.cos(angle)])

    def blob(shift: Array, size: float) -> Array:
        radii = size * rng.uniform(0.85, 1.15, 2)
        return disc(side, place + shift, radii, rng.uniform(0.0, 3.0), 0.5)

    def around(count: int, far: float, size: float) -> Array:
        start = rng.uniform(0.0, 2.0 * np.pi)
        turns = start + np.linspace(0.0, rng.uniform(3.5, 4.5), count)
        return np.maximum.reduce(
            [blob(far * np.array([np.sin(t), np.cos(t)]), size) for t in turns]
        )

    gap = radius * rng.uniform(0.65, 0.85)
    nucleus = (
        lambda: blob(rng.normal(size=2), radius),
        lambda: np.maximum(
            blob(gap * toward, 0.68 * radius), blob(-gap * toward, 0.68 * radius)
        ),
        lambda: around(3, 0.75 * radius, 0.6 * radius),
        lambda: blob(0.0 * toward, radius) - 0.9 * blob(0.1 * toward, 0.45 * radius),
        lambda: blob(rng.normal(size=2), radius),
    )[label]()
    grains = np.zeros((side, side))
    for _ in range(n_grains + 12 * (CELLS[label] == "granules")):
        far, turn = radius * rng.uniform(1.0, 1.9), rng.uniform(0.0, 2.0 * np.pi)
        spot = place + far * np.array([np.sin(turn), np.cos(turn)])
        grains = np.maximum(grains, disc(side, spot, np.ones(2), 0.0, 0.4))
    return np.clip(nucleus, 0.0, 1.0), grains


def shape(label: int, rng: np.random.Generator) -> Array:
    """Return a shape of any angle, size, place and colour, with clutter."""
    side = 32
    paper, pen = page(side)
    radius = rng.uniform(9.0, 12.5)
    place = side / 2 + rng.uniform(-3.0, 3.0, 2)
    outline = SHAPE_OUTLINES[SHAPES[label]](rng)
    pen.polygon(
        points(FINE * moved(outline, radius, rng.uniform(0, 7), place)), fill=255
    )
    if SHAPES[label] == "ring":
        size, middle = FINE * radius * rng.uniform(0.35, 0.65), FINE * place
        pen.ellipse([*(middle - size), *(middle + size)], fill=0)
    back, front = rng.uniform(0.0, 0.45, 3), rng.uniform(0.55, 1.0, 3)
    image = back[:, None, None] + 0.05 * clouds(side, 1.2, rng)
    image = painted(image, clutter(side, rng), rng.uniform(0.1, 0.9, 3))
    image = painted(image, coverage(paper), front)
    image = painted(image, 0.8 * clutter(side, rng), rng.uniform(0.1, 0.9, 3))
    return image + rng.normal(scale=0.03, size=image.shape)


def clutter(side: int, rng: np.random.Generator) -> Array:
    """Return the coverage of a few dots and lines."""
    paper, pen = page(side)
    for _ in range(rng.integers(0, 3)):
        start = rng.uniform(0.0, FINE * side, 2)
        end = start + FINE * rng.uniform(-10.0, 10.0, 2)
        pen.line([*start, *end], fill=255, width=int(rng.integers(3, 8)))
        corner, size = rng.uniform(0.0, FINE * side, 2), FINE * rng.uniform(1.0, 3.5)
        pen.ellipse([*corner, *(corner + size)], fill=255)
    return coverage(paper)


def cross(rng: np.random.Generator) -> Array:
    """Return the corners of a cross."""
    a = rng.uniform(0.25, 0.4)
    arm = np.array([[1.0, -a], [1.0, a], [a, a]])
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
    return np.concatenate([arm @ np.linalg.matrix_power(turn, i) for i in range(4)])


def half_disc(rng: np.random.Generator) -> Array:
    """Return an outline of half a disc."""
    turns = np.linspace(0.0, np.pi, 20)
    found = np.stack([np.cos(turns), np.sin(turns) * rng.uniform(0.9, 1.2)], 1)
    return found - [0.0, 0.4]


def stretched(n: int, least: float, most: float) -> Callable[[Any], Array]:
    """Return what makes regular polygons that are stretched at random."""
    return lambda rng: corners(n) * [1.0, rng.uniform(least, most)]


SHAPE_OUTLINES: dict[str, Callable[[Any], Array]] = {
    "triangle": stretched(3, 0.7, 1.2),
    "square": stretched(4, 0.9, 1.1),
    "pentagon": stretched(5, 0.85, 1.1),
    "star": lambda rng: corners(10, rng.uniform(0.35, 0.5)),
    "cross": cross,
    "ellipse": stretched(30, 0.5, 0.75),
    "half disc": half_disc,
    "ring": stretched(30, 0.8, 1.0),
}


cells = Drawn(CELLS, cell)
shapes = Drawn(SHAPES, shape)
