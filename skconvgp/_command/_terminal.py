"""What commands read from a terminal and write to it."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from pathlib import Path

__all__ = ["count", "require_writable", "show", "tell"]


def tell(text: str) -> None:
    """Write a line on stderr."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def show(text: str) -> None:
    """Write a line on stdout; names of files may have what it cannot write."""
    encoding = sys.stdout.encoding or "utf-8"
    shown = text.encode(encoding, "backslashreplace").decode(encoding)
    sys.stdout.write(f"{shown}\n")


def count(text: str) -> int:
    """Return a whole number > 0."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


def require_writable(output: Path, given: Path) -> None:
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
