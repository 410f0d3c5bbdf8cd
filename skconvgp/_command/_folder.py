"""The pictures of a folder that can be read, and what is left out."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skconvgp.datasets._folder import entries, require_classes
from skconvgp.transforms import ReadImages
from skconvgp.transforms._files import unreadable

__all__ = ["Folder", "read_folder"]

NO_FILES, NO_PICTURES = "no files", "no pictures that can be read"


@dataclass(frozen=True)
class Folder:
    """Pictures with their labels."""

    path: Path
    images: NDArray[Any]  # (n, c, h, w)
    files: list[str]  # n paths
    labels: NDArray[Any]  # (n,), names of classes
    left_out: dict[str, str]  # reasons, by paths of files and folders

    @property
    def names(self) -> list[str]:
        """Names of the classes, in order."""
        return sorted(set(self.labels.tolist()))

    def name_of(self, path: str) -> str:
        """Return a path as one in the folder."""
        return os.path.relpath(path, self.path)


def read_folder(path: Path, size: int, output: Path) -> Folder:
    """Read the pictures in the folders of classes, but no output of an earlier run.

    Files that cannot be read and folders without pictures are left out.
    """
    files, folders = entries(path)
    if not folders:
        raise ValueError(
            f"The folder {str(path)!r} has no folders of classes: put the pictures "
            "of each class into a folder of its name."
        )
    require_classes(path, _without(output, files), folders)
    of_classes = {one: _without(output, entries(one)[0]) for one in folders}
    left_out = {str(one): NO_FILES for one, found in of_classes.items() if not found}
    paths = [str(file) for found in of_classes.values() for file in found]
    try:
        images = _read(paths, size)
    except ValueError:
        faults = unreadable(paths, size)
        if not faults:
            raise
        left_out |= {paths[index]: reason for index, reason in faults.items()}
        paths = [one for one in paths if one not in left_out]
        images = _read(paths, size)
    names = [Path(one).parent.name for one in paths]
    left = {str(one): NO_PICTURES for one in folders if one.name not in names}
    # A name that is no text, as Linux allows it, has escapes.
    labels = [os.fsencode(one).decode("utf-8", "backslashreplace") for one in names]
    return Folder(path, images, paths, np.array(labels), left | left_out)


def _read(paths: list[str], size: int) -> Any:
    """Return images (n, c, h, w); without a path there is none."""
    return ReadImages(size=size).fit_transform(paths) if paths else np.empty((0, 1))


def _without(output: Path, files: Iterable[Path]) -> list[Path]:
    """Return files that are not the output."""
    return [one for one in files if one.resolve() != output]
