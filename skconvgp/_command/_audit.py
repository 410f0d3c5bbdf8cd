"""``audit``: a page of what is wrong with the pictures in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from skconvgp._command._fit import classes_in, fitted
from skconvgp._command._page import Pictures, page_of
from skconvgp._command._terminal import count, require_writable, tell
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
        type=count,
        default=32,
        help="pixels a side at which pictures are compared; default: %(default)s",
    )
    command.add_argument(
        "--limit",
        type=count,
        default=60,
        help="pictures or pairs of each finding on the page; default: %(default)s",
    )
    command.set_defaults(run=_run)


def _run(options: Any) -> None:
    """Read, fit, ask, and write the page."""
    output = options.output.resolve()
    require_writable(output, options.output)
    folder = classes_in(options.folder, options.size, output)
    model = fitted(folder.images, folder.labels)
    tell("looking for wrong labels, copies and strange pictures")
    share = float(np.mean(model.loo_predict() == folder.labels))
    found = audit(model)
    tell("making small pictures for the page")
    page = page_of(found, Pictures(folder, share), options.limit)
    output.write_bytes(page.encode("utf-8", "replace"))
    tell(f"wrote {str(options.output)!r}")
