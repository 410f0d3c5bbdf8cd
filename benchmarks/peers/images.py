"""The images that all codes are measured on, as files that each can read."""

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SHAPES = {"mnist": (1, 28, 28), "cifar10": (3, 32, 32)}


def write_images(name: str, n_images: int, folder: Path) -> tuple[Path, str]:
    """Write float32 images (n, c, h, w) in [0, 1]; return the file and their source."""
    images, told = load_images(name, n_images)
    path = folder / f"{name}.npy"
    np.save(path, images)
    return path, told


def load_images(name: str, n_images: int) -> tuple[NDArray[np.float32], str]:
    """Return float32 images (n, c, h, w) in [0, 1] and where they are from."""
    source = Path(os.environ.get("SKCONVGP_DATA", "")) / f"{name}.npz"
    if source.is_file():
        with np.load(source) as file:
            images = file["x_train"][:n_images].reshape(-1, *SHAPES[name])
        return (images / np.float32(255)).astype(np.float32), source.name
    return generated(n_images, SHAPES[name]), "generated"


def generated(n_images: int, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Return smooth random images: the speed depends on the size only."""
    rng = np.random.default_rng(0)
    channels, height, width = shape
    rows = np.arange(height)[:, None] / height
    columns = np.arange(width) / width
    waves = rng.uniform(0, 9, size=(2, n_images, channels, 1, 1))
    phase = rng.uniform(0, 6, size=(n_images, channels, 1, 1))
    images = 0.5 + 0.5 * np.sin(waves[0] * rows + waves[1] * columns + phase)
    return images.astype(np.float32)
