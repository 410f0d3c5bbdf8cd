"""``audit``: a page of what is wrong with the pictures in a folder."""

from __future__ import annotations

import sys
import warnings
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

import numpy as np

from skconvgp._command._folder import Folder, read_folder
from skconvgp._command._page import Pictures, page_of
from skconvgp.estimators import ImageClassifier
from skconvgp.questions import audit

__all__ = ["add_to"]

MOST_TOLD = 20  # of files that are left out

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
    output = options.output.resolve()
    _require_writable(output, options.output)
    _tell(f"reading the pictures in {str(options.folder)!r}")
    folder = read_folder(options.folder, options.size, output)
    _tell_left_out(folder)
    names = sorted(set(folder.labels.tolist()))
    if len(names) < 2:
        has = f"one class of pictures, {names[0]!r}" if names else "no pictures"
        raise ValueError(
            f"The folder {str(folder.path)!r} has {has}, and it takes two classes: "
            "whether a label is wrong is decided between them."
        )
    _tell(f"{len(folder.images)} pictures of {len(names)} classes")
    model = ImageClassifier(random_state=0, verbose=1)
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always", UserWarning)
        model.fit(folder.images, folder.labels)
    for note in notes:
        _tell(f"note: {note.message}")
    _tell("looking for wrong labels, copies and strange pictures")
    share = float(np.mean(model.loo_predict() == folder.labels))
    found = audit(model)
    _tell("making small pictures for the page")
    page = page_of(found, Pictures(folder, len(names), share), options.limit)
    output.write_bytes(page.encode("utf-8", "replace"))
    _tell(f"wrote {str(options.output)!r}")


def _require_writable(output: Path, given: Path) -> None:
    """Raise unless a file can be written; it stays as it is."""
    try:
        is_new = not output.exists()
        with output.open("ab"):
            pass
        if is_new:
            output.unlink()
    except OSError as error:
        raise ValueError(
            f"--output {str(given)!r} must be a file that can be written, in a folder "
            f"that is there ({error.strerror})."
        ) from error


def _tell_left_out(folder: Folder) -> None:
    """Write on stderr what is left out; the page has all of it."""
    lines = [f"left out: {name} ({reason})" for name, reason in folder.left_out.items()]
    if len(lines) > MOST_TOLD:
        lines[MOST_TOLD:] = [f"left out: {len(lines) - MOST_TOLD} more"]
    for line in lines:
        _tell(line)


def _count(text: str) -> int:
    """Return a whole number > 0."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


def _tell(text: str) -> None:
    """Write a line on stderr."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
