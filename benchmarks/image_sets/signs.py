"""Traffic signs in perspective."""

from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from benchmarks.data import Array
from benchmarks.image_sets.drawn import (
    FINE,
    Drawn,
    clouds,
    colours,
    corners,
    font,
    grid,
    moved,
    points,
)

LIMITS = ("20", "30", "50", "60", "80")
SIGNS = (
    *(f"limit of {number}" for number in LIMITS),
    *("no entry", "bend to the left", "bend to the right", "danger"),
    *("crossing", "turn left", "turn right", "straight on", "give way"),
)
WHITE, BLACK = (235, 235, 230), (25, 25, 25)
RED, BLUE = (190, 30, 40), (30, 70, 170)


def sign(label: int, rng: np.random.Generator) -> Array:
    """Return a sign in perspective, under any light, before any wall."""
    side, kind = 32, SIGNS[label]
    plate, mask = plates(kind, FINE * side)
    full, jitter = FINE * side, 0.13 * FINE * side
    square = np.array([[0, 0], [0, full], [full, full], [full, 0]], float)
    size = rng.uniform(1.05, 1.35)
    quad = full / 2 + size * (square - full / 2) + rng.uniform(-jitter, jitter, (4, 2))
    quad += rng.uniform(-0.7, 0.7, 2) * jitter
    numbers, smooth = perspective(square, quad), Image.Resampling.BILINEAR
    how = Image.Transform.PERSPECTIVE, numbers, smooth
    blur = ImageFilter.GaussianBlur(rng.uniform(1.0, 6.0))
    front, share = (
        colours(part.transform(part.size, *how).filter(blur)) for part in (plate, mask)
    )
    wall = rng.uniform(0.2, 0.8, (3, 1, 1)) + 0.12 * clouds(side, 1.3, rng)
    image = wall * (1.0 - share) + front * share
    rows, columns = grid(side) / side - 0.5
    light = rng.uniform(0.35, 1.05) + 0.3 * (
        rng.normal() * rows + rng.normal() * columns
    )
    haze = rng.uniform(0.0, 0.25)
    image = haze + (1.0 - haze) * image * light
    return image + rng.normal(scale=rng.uniform(0.01, 0.05), size=image.shape)


def perspective(square: Array, quad: Array) -> list[float]:
    """Return the eight numbers that take corners to those of another quadrangle."""
    system, values = [], []
    for (x, y), (u, v) in zip(square, quad, strict=True):
        system.append([x, y, 1, 0, 0, 0, -u * x, -u * y])
        system.append([0, 0, 0, x, y, 1, -v * x, -v * y])
        values += [u, v]
    found: list[float] = np.linalg.solve(np.array(system), np.array(values)).tolist()
    return found


def plates(kind: str, side: int) -> tuple[Image.Image, Image.Image]:
    """Return a sign as seen from the front, and where its plate is."""
    plate, mask = Image.new("RGB", (side, side)), Image.new("L", (side, side))
    pens = ImageDraw.Draw(plate), ImageDraw.Draw(mask)
    angular = {
        "bend to the left",
        "bend to the right",
        "danger",
        "crossing",
        "give way",
    }
    is_blue = kind in BLUE_ONES
    rim, inside, ink = (BLUE, BLUE, WHITE) if is_blue else (RED, WHITE, BLACK)
    inside = RED if kind == "no entry" else inside
    middle = side / 2
    if kind in angular:
        turn = np.pi / 6 if kind == "give way" else -np.pi / 6
        for radius, colour in ((0.56, rim), (0.38, inside)):
            place = np.array([middle, middle * (0.9 if kind == "give way" else 1.1)])
            outline = points(moved(corners(3), radius * side, turn, place))
            pens[0].polygon(outline, fill=colour)
            pens[1].polygon(outline, fill=255)
    else:
        for radius, colour in ((0.46, rim), (0.35, inside)):
            box = [middle - radius * side] * 2 + [middle + radius * side] * 2
            pens[0].ellipse(box, fill=colour)
            pens[1].ellipse(box, fill=255)
    pictogram(kind, pens[0], side, ink)
    return plate, mask


def pictogram(kind: str, pen: ImageDraw.ImageDraw, side: int, ink: Any) -> None:
    """Draw what stands on a plate."""
    middle = side / 2
    letters = {"danger": "!", "crossing": "×", **{f"limit of {n}": n for n in LIMITS}}
    if kind in letters:
        height = int(side * (0.5 if len(letters[kind]) == 1 else 0.42))
        place = (middle, middle * (1.15 if len(letters[kind]) == 1 else 1.0))
        own = font("DejaVuSans-Bold.ttf", height)
        pen.text(place, letters[kind], fill=ink, font=own, anchor="mm")
    if kind == "no entry":
        pen.rectangle([0.25 * side, 0.43 * side, 0.75 * side, 0.57 * side], fill=WHITE)
    if kind in ARROWS:
        path, way = ARROWS[kind]
        pen.line(points(side * np.array(path)), fill=ink, width=int(0.08 * side))
        head = moved(corners(3), 0.13 * side, way, side * np.array(path[-1]))
        pen.polygon(points(head), fill=ink)


UP = -np.pi / 2
BLUE_ONES = ("turn left", "turn right", "straight on")
ARROWS: dict[str, tuple[list[tuple[float, float]], float]] = {
    "turn left": ([(0.62, 0.72), (0.62, 0.45), (0.36, 0.45)], np.pi),
    "turn right": ([(0.38, 0.72), (0.38, 0.45), (0.64, 0.45)], 0.0),
    "straight on": ([(0.5, 0.75), (0.5, 0.35)], UP),
    "bend to the left": ([(0.56, 0.7), (0.56, 0.56), (0.46, 0.44)], UP - 0.7),
    "bend to the right": ([(0.44, 0.7), (0.44, 0.56), (0.54, 0.44)], UP + 0.7),
}


signs = Drawn(SIGNS, sign)
