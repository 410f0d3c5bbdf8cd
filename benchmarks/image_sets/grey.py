"""Grey sets: textures, defects, spectrograms, and characters that are mirrored."""

from typing import Any

import numpy as np
from PIL import Image
from scipy.spatial import cKDTree

from benchmarks.data import Array
from benchmarks.image_sets.drawn import (
    FINE,
    FONTS,
    Drawn,
    clouds,
    coverage,
    disc,
    font,
    frequencies,
    grid,
    noise,
    page,
    points,
    turned,
)

TEXTURES = (
    *("clouds", "grains", "fibres", "spots", "labyrinth"),
    *("cobbles", "bricks", "weave"),
)
DEFECTS = ("none", "crack", "scratch", "pit", "stain")
SOUNDS = (
    *("low tone", "high tone", "rising", "falling"),
    *("harmonics", "clicks", "warble", "pulses"),
)
HANDED = ("b", "d", "p", "q", "<", ">")
MIRRORED = ("2", "4", "5", "7", "F", "G", "J", "K", "R", "S")


def texture(label: int, rng: np.random.Generator) -> Array:
    """Return a texture of any angle, phase, scale, contrast and light."""
    side, angle, zoom = 64, rng.uniform(0.0, np.pi), rng.uniform(0.7, 1.4)
    down, right = turned(side, angle, zoom, rng)
    found = (
        lambda: clouds(side, rng.uniform(1.3, 1.7), rng),
        lambda: clouds(side, rng.uniform(0.7, 1.1), rng),
        lambda: fibres(side, angle, zoom, rng),
        lambda: np.maximum(ring(side, zoom, rng), 0.3),
        lambda: np.tanh(4.0 * ring(side, zoom, rng)),
        lambda: cobbles(side, 7.5 * zoom, rng),
        lambda: bricks(down, right, rng),
        lambda: weave(down, right, rng),
    )[label]()
    rows, columns = grid(side) / side - 0.5
    light = 0.15 * (rng.normal() * rows + rng.normal() * columns)
    found = (found - found.mean()) / found.std() * rng.uniform(0.06, 0.14)
    grain = clouds(side, 0.5, rng) * rng.uniform(0.03, 0.08)
    return (rng.uniform(0.4, 0.6) + light + found + grain)[None]


def ring(side: int, zoom: float, rng: np.random.Generator) -> Array:
    """Return noise of about one wavelength in all directions."""
    rows, columns = frequencies(side)
    distance = np.hypot(rows, columns) * 7.0 * zoom - 1.0
    return noise(side, np.exp(-((distance / 0.25) ** 2)), rng)


def fibres(side: int, angle: float, zoom: float, rng: np.random.Generator) -> Array:
    """Return noise that is smooth in one direction."""
    rows, columns = frequencies(side)
    along = rows * np.cos(angle) + columns * np.sin(angle)
    across = columns * np.cos(angle) - rows * np.sin(angle)
    decay = (across * 3.0) ** 2 + (along * rng.uniform(7.0, 14.0)) ** 2
    return noise(side, np.exp(-decay * zoom**2) / (0.05 + np.hypot(rows, columns)), rng)


def cobbles(side: int, size: float, rng: np.random.Generator) -> Array:
    """Return the cells around random points: each with a tone, dark between them."""
    margin = 2.0 * size
    n_points = int((side + 2.0 * margin) ** 2 / size**2)
    centres = rng.uniform(-margin, side + margin, (n_points, 2))
    pixels = np.moveaxis(grid(side), 0, -1).reshape(-1, 2)
    distances, nearest = cKDTree(centres).query(pixels, k=2)
    gaps = np.exp(-np.square(distances[:, 1] - distances[:, 0]) / 2.0)
    tones = rng.normal(scale=0.3, size=n_points)[nearest[:, 0]]
    return (tones - gaps).reshape(side, side)


def bricks(down: Array, right: Array, rng: np.random.Generator) -> Array:
    """Return rows of bricks with mortar between them."""
    height, width = 6.0, rng.uniform(11.0, 15.0)
    row = np.floor(down / height).astype(int)
    shifted = right + width / 2.0 * (row % 2)
    column = np.floor(shifted / width).astype(int)
    edge = np.minimum(
        np.minimum(down % height, height - down % height),
        np.minimum(shifted % width, width - shifted % width),
    )
    tones = rng.normal(scale=0.3, size=997)[(31 * row + 17 * column) % 997]
    return tones - np.exp(-np.square(edge))


def weave(down: Array, right: Array, rng: np.random.Generator) -> Array:
    """Return threads that go over and under each other."""
    width = rng.uniform(4.5, 6.0)
    is_over = (np.floor(down / width) + np.floor(right / width)) % 2
    threads = [np.abs(np.sin(np.pi * each / width)) for each in (down, right)]
    return np.where(is_over, threads[0], threads[1] - 0.4)


def defect(label: int, rng: np.random.Generator) -> Array:
    """Return a brushed surface with a faint defect anywhere, or with none."""
    side = 48
    rows, columns = frequencies(side)
    brush = np.exp(-np.square(rows * 4.0)) / (0.03 + np.abs(columns))
    surface = 0.6 * noise(side, brush, rng) + 0.4 * clouds(side, 0.6, rng)
    place, angle = rng.uniform(10.0, side - 10.0, 2), rng.uniform(0.0, np.pi)
    depth = rng.uniform(2.5, 5.0)
    found = (
        lambda: np.zeros((side, side)),
        lambda: -depth * crack(side, place, angle, rng),
        lambda: depth * rng.choice([-1.0, 1.0]) * scratch(side, place, angle, rng),
        lambda: 1.5 * depth * pit(side, place, angle, rng),
        lambda: -0.3 * depth * disc(side, place, rng.uniform(6.0, 11.0, 2), angle, 1.5),
    )[label]()
    scale = rng.uniform(0.04, 0.08)
    return (rng.uniform(0.4, 0.6) + scale * (surface + found))[None]


def crack(side: int, place: Array, angle: float, rng: np.random.Generator) -> Array:
    """Return a line that turns at random and has a branch."""
    paper, pen = page(side)
    for length in (rng.integers(10, 18), rng.integers(3, 7)):
        steps = angle + 0.45 * np.cumsum(rng.normal(size=length))
        walk = 2.5 * np.stack([np.sin(steps), np.cos(steps)], 1).cumsum(0)
        walk += place - walk[length // 2]
        pen.line(points(FINE * walk), fill=255, width=int(rng.integers(4, 8)))
        angle += rng.choice([-1.0, 1.0])
    return coverage(paper)


def scratch(side: int, place: Array, angle: float, rng: np.random.Generator) -> Array:
    """Return a line that is nearly straight."""
    paper, pen = page(side)
    along = np.linspace(-1.0, 1.0, 12)[:, None] * rng.uniform(9.0, 20.0)
    bend = np.square(along / 20.0) * rng.uniform(-3.0, 3.0)
    walk = along * [np.sin(angle), np.cos(angle)] + bend * [
        np.cos(angle),
        np.sin(angle),
    ]
    walk = FINE * (walk + place)
    pen.line(points(walk), fill=255, width=int(rng.integers(4, 8)))
    return coverage(paper)


def pit(side: int, place: Array, angle: float, rng: np.random.Generator) -> Array:
    """Return a dark hole with a rim that light falls on."""
    radii = rng.uniform(1.5, 3.5, 2)
    hole = disc(side, place, radii, angle, 0.5)
    rim = disc(side, place + np.array([1.2, 0.8]), radii, angle, 0.5)
    return np.maximum(rim - hole, 0.0) - hole


def sound(label: int, rng: np.random.Generator) -> Array:
    """Return a spectrogram: rows are frequencies, columns are times."""
    side = 32
    height, time = grid(side)
    height = side - 1.0 - height  # low tones are below
    start, length = rng.uniform(1.0, 10.0), rng.uniform(12.0, 20.0)
    middle, slope = start + length / 2.0, rng.uniform(0.35, 0.9)
    tone = rng.uniform(6.0, 13.0)

    def line(pitch: Any, width: float = 0.9) -> Array:
        return np.exp(-np.square((height - pitch) / width) / 2.0)

    beat = rng.uniform(3.0, 5.0)
    phase = rng.uniform(0.0, 2.0 * np.pi)
    wave = np.sin(2.0 * np.pi * time / beat + phase)
    found = (
        lambda: line(rng.uniform(5.0, 10.0)),
        lambda: line(rng.uniform(18.0, 26.0)),
        lambda: line(rng.uniform(11.0, 20.0) + slope * (time - middle)),
        lambda: line(rng.uniform(11.0, 20.0) - slope * (time - middle)),
        lambda: line(tone / 2) + 0.8 * line(tone) + 0.6 * line(1.5 * tone),
        lambda: 0.9 * np.exp(-np.square(((time + beat) % (2 * beat) - beat) / 0.7)),
        lambda: line(rng.uniform(6.0, 25.0) + rng.uniform(1.5, 3.0) * wave),
        lambda: line(rng.uniform(6.0, 25.0)) * (wave > 0.0),
    )[label]()
    is_on = 1.0 / (1.0 + np.exp(2.0 * (np.abs(time - middle) - length / 2.0)))
    loudness = rng.uniform(2.0, 5.0)
    hiss = (1.0 + 0.7 * np.exp(-height / rng.uniform(3.0, 9.0))) * 0.8
    waves = rng.normal(size=(2, side, side)) * hiss
    waves[0] += loudness * found * is_on
    return np.log1p(np.hypot(*waves))[None] / 2.2


def character(text: str, tilt: float, rng: np.random.Generator) -> Array:
    """Return a character of any font, with light, noise and a line across it."""
    side = 28
    paper, pen = page(side)
    height = int(FINE * side * rng.uniform(0.6, 0.95))
    place = FINE * side * (0.5 + rng.uniform(-0.1, 0.1, 2))
    pen.text(
        tuple(place),
        text,
        fill=255,
        font=font(str(rng.choice(FONTS)), height),
        anchor="mm",
    )
    paper = paper.rotate(rng.uniform(-tilt, tilt), Image.Resampling.BILINEAR)
    ends = rng.uniform(0.0, FINE * side, (2, 2))
    width = int(rng.integers(3, 9))
    type(pen)(paper).line(points(ends), fill=int(rng.integers(0, 256)), width=width)
    contrast = rng.choice([-1.0, 1.0]) * rng.uniform(0.3, 0.6)
    grain = clouds(side, 0.4, rng) * rng.uniform(0.03, 0.1)
    return (0.5 + contrast * (coverage(paper) - 0.5) + grain)[None]


def handed(label: int, rng: np.random.Generator) -> Array:
    """Return a character whose mirror image is another character."""
    return character(HANDED[label], 20.0, rng)


def mirrored(label: int, rng: np.random.Generator) -> Array:
    """Return a character that is mirrored as often as not."""
    found = character(MIRRORED[label], 20.0, rng)
    return found[..., ::-1] if rng.random() < 0.5 else found


textures = Drawn(TEXTURES, texture)
defects = Drawn(DEFECTS, defect)
sounds = Drawn(SOUNDS, sound)
left_right = Drawn(HANDED, handed)
both_ways = Drawn(MIRRORED, mirrored)
