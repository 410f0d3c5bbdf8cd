"""The model that commands ask, of pictures in a folder or of arrays."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from skconvgp._command._folder import Folder, read_folder
from skconvgp._command._terminal import tell
from skconvgp.estimators import ImageClassifier

__all__ = ["classes_in", "fitted"]

MOST_TOLD = 20  # of files that are left out


def classes_in(path: Path, size: int, output: Path) -> Folder:
    """Return the pictures of a folder, but not the output, and tell what is left out.

    There are two classes at least.
    """
    tell(f"reading the pictures in {str(path)!r}")
    folder = read_folder(path, size, output)
    _tell_left_out(folder)
    if len(folder.names) < 2:
        has = "no pictures"
        if folder.names:
            has = f"one class of pictures, {folder.names[0]!r}"
        raise ValueError(
            f"The folder {str(folder.path)!r} has {has}, and it takes two classes: "
            "whether a label is wrong is decided between them."
        )
    tell(f"{len(folder.images)} pictures of {len(folder.names)} classes")
    return folder


def fitted(images: Any, labels: Any) -> ImageClassifier:
    """Return a model with default settings; its progress and notes go to stderr."""
    model = ImageClassifier(random_state=0, verbose=1)
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always", UserWarning)
        model.fit(images, labels)
    for note in notes:
        tell(f"note: {note.message}")
    return model


def _tell_left_out(folder: Folder) -> None:
    """Write on stderr what is left out."""
    lines = [f"left out: {name} ({reason})" for name, reason in folder.left_out.items()]
    if len(lines) > MOST_TOLD:
        lines[MOST_TOLD:] = [f"left out: {len(lines) - MOST_TOLD} more"]
    for line in lines:
        tell(line)
