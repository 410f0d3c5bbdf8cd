"""What sets of generated images share: counts, seeds, and simple ways to draw."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from benchmarks.data import Array, Samples

FINE = 4  # pixels of a page beside one pixel of its image
FONTS = (
    *("DejaVuSans.ttf", "DejaVuSans-Bold.ttf", "DejaVuSans-Oblique.ttf"),
    *("DejaVuSerif.ttf", "DejaVuSerif-Bold.ttf", "DejaVuSansMono.ttf"),
    *("STIXGeneral.ttf", "STIXGeneralBol.ttf", "STIXGeneralItalic.ttf"),
)
# First numbers of the seeds: no training image is drawn as a test image is.
TRAINING, TEST = 1, 2


@dataclass(frozen=True)
class Drawn:
    """A set of which each image is drawn by itself; labels take turns.

    The training images of a draw are the first of a longer list, and the test images of
    all draws are the same, so that scores of more images or of another model can be
    compared in pairs.
    """

    kinds: tuple[str, ...]
    image: Callable[[int, Any], Array]  # of a label and a generator: (c, h, w)

    def __call__(self, n_train: int, n_test: int, seed: int) -> Samples:
        """Return training images of a draw, and the test images."""
        train = self._images(n_train, TRAINING, seed)
        return Samples(*train, *self._images(n_test, TEST, 0))

    def _images(self, n: int, *seed: int) -> tuple[Array, Array]:
        rng, y = np.random.default_rng(seed), np.arange(n) % len(self.kinds)
        return stacked([self.image(int(label), rng) for label in y]), y


def stacked(found: list[Array]) -> Array:
    """Return float32 images (n, c, h, w), cut to [0, 1]."""
    return np.clip(np.stack(found), 0.0, 1.0).astype(np.float32)


def page(side: int, fill: int = 0) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    """Return a grey page of FINE times the side, and a pen for it."""
    found = Image.new("L", (FINE * side, FINE * side), fill)
    return found, ImageDraw.Draw(found)


def coverage(found: Image.Image) -> Array:
    """Return what share of each pixel of the image is white on the page."""
    return _coarse(found)[0]


def colours(found: Image.Image) -> Array:
    """Return the image (3, h, w) of a page in colour."""
    return _coarse(found)


def _coarse(found: Image.Image) -> Array:
    side = found.size[0] // FINE
    pixels = np.asarray(found, np.float64).reshape(side, FINE, side, FINE, -1)
    return pixels.mean((1, 3)).transpose(2, 0, 1) / 255.0


def painted(image: Array, share: Array, colour: Array) -> Array:
    """Return an image (3, h, w) with a colour where a share (h, w) is covered."""
    return image * (1.0 - share) + np.reshape(colour, (3, 1, 1)) * share


def points(outline: Array) -> list[tuple[float, float]]:
    """Return the corners (n, 2) of a polygon as a pen takes them."""
    return [tuple(corner) for corner in outline.tolist()]


@cache
def font(name: str, height: int) -> Any:
    """Return a font that matplotlib brings along."""
    folder = Path(mpl.get_data_path()) / "fonts" / "ttf"
    return ImageFont.truetype(str(folder / name), height)


@cache
def grid(side: int) -> Array:
    """Return rows and columns of the pixels."""
    return np.mgrid[:side, :side].astype(float)


@cache
def frequencies(side: int) -> tuple[Array, Array]:
    """Return the frequencies of rows and columns of a real Fourier transform."""
    return np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None]


def noise(side: int, power: Array, rng: np.random.Generator) -> Array:
    """Return noise of mean 0 and deviation 1 with amplitudes at `frequencies`."""
    amplitudes = np.array(np.broadcast_to(power, (side, side // 2 + 1)))
    amplitudes[0, 0] = 0.0
    found = np.fft.irfft2(
        amplitudes * np.fft.rfft2(rng.normal(size=(side, side))), (side, side)
    )
    return found / found.std()


def clouds(side: int, exponent: float, rng: np.random.Generator) -> Array:
    """Return noise whose amplitudes fall as a power of the frequency."""
    rows, columns = frequencies(side)
    return noise(side, (rows**2 + columns**2 + 1e-4) ** (-exponent / 2.0), rng)


def turned(
    side: int, angle: float, scale: float, rng: np.random.Generator
) -> tuple[Array, Array]:
    """Return coordinates of the pixels, turned and moved at random, in units."""
    rows, columns = grid(side)
    cos, sin = np.cos(angle) / scale, np.sin(angle) / scale
    start = rng.uniform(0.0, 100.0, 2)
    return start[0] + rows * cos - columns * sin, start[1] + rows * sin + columns * cos


def disc(side: int, place: Array, radii: Array, angle: float, soft: float) -> Array:
    """Return the coverage of an ellipse with soft edges of so many pixels."""
    rows, columns = grid(side)
    down, right = rows - place[0], columns - place[1]
    cos, sin = np.cos(angle), np.sin(angle)
    distance = np.hypot(
        (down * cos + right * sin) / radii[0], (right * cos - down * sin) / radii[1]
    )
    return 1.0 / (1.0 + np.exp((distance - 1.0) * min(radii) / soft))


def moved(outline: Array, radius: float, angle: float, place: Array) -> Array:
    """Return the corners of a shape that is turned, enlarged and moved."""
    cos, sin = np.cos(angle), np.sin(angle)
    return place + radius * outline @ np.array([[cos, sin], [-sin, cos]])


def corners(n: int, inner: float = 1.0) -> Array:
    """Return the corners of a regular polygon, or those of a star."""
    turns = np.linspace(0.0, 2.0 * np.pi, n, endpoint=False)
    lengths = np.where(np.arange(n) % 2, inner, 1.0)
    return lengths[:, None] * np.stack([np.cos(turns), np.sin(turns)], 1)
