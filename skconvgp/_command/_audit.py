"""``audit``: a page of what is wrong with the pictures in a folder."""

from __future__ import annotations

import os
import sys
import warnings
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

import numpy as np

from skconvgp._command._page import Pictures, page_of
from skconvgp.datasets import load_image_folder
from skconvgp.estimators import ImageClassifier
from skconvgp.questions import audit

__all__ = ["add_to"]

DESCRIPTION = """
Find wrong labels, near copies and strange pictures in a folder, and write a page that
any browser shows. The folder has a folder for each class, whose name is the label.
Pictures are not changed, and nothing leaves the machine.
"""


def add_to(commands: Any) -> None:
    """Add the command to a parser."""
    text = "look for wrong labels, copies and strange pictures in a folder"
    command = commands.add_parser("audit", help=text, description=DESCRIPTION)
    command.add_argument(
        "folder", type=Path, help="folder with a folder for each class"
    )
    command.add_argument(
        "--output",
        type=Path,
        default=Path("audit.html"),
        help="file of the page, which is overwritten; default: %(default)s",
    )
    command.add_argument(
        "--size",
        type=_count,
        default=32,
        help="pixels a side at which pictures are compared; default: %(default)s",
    )
    command.add_argument(
        "--limit",
        type=_count,
        default=60,
        help="pictures or pairs of each finding on the page; default: %(default)s",
    )
    command.set_defaults(run=_run)


def _run(options: Any) -> None:
    """Read, fit, ask, and write the page."""
    folder, output = options.folder, options.output
    place = output if output.exists() else output.absolute().parent
    if output.is_dir() or not os.access(place, os.W_OK):
        raise ValueError(
            f"--output {str(output)!r} must be a file that can be written, in a folder "
            "that is there."
        )
    _tell(f"reading the pictures in {str(folder)!r}")
    found = load_image_folder(folder, size=options.size)
    if found.target is None:
        raise ValueError(
            f"The folder {str(folder)!r} has no folders of classes: put the pictures "
            "of each class into a folder of its name."
        )
    names = found.target_names
    if len(names) < 2:
        raise ValueError(
            f"The folder {str(folder)!r} has one class, {str(names[0])!r}, and it "
            "takes two: whether a label is wrong is decided between classes."
        )
    _tell(f"{len(found.data)} pictures of {len(names)} classes")
    model = ImageClassifier(random_state=0, verbose=1)
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always", UserWarning)
        model.fit(found.data, names[found.target])
    for note in notes:
        _tell(f"note: {note.message}")
    share = float(np.mean(model.loo_predict() == names[found.target]))
    pictures = Pictures(folder, found.filenames, names, share)
    page = page_of(audit(model), pictures, options.limit)
    output.write_bytes(page.encode("utf-8", "replace"))
    _tell(f"wrote {str(output)!r}")


def _count(text: str) -> int:
    """Return a whole number > 0."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


def _tell(text: str) -> None:
    """Write a line on stderr."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
