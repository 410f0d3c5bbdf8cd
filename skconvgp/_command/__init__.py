"""Commands for a terminal; each of them is a module that adds itself to the parser."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Sequence

from skconvgp._command import _audit, _demo, _info

__all__ = ["main"]

COMMANDS = (_demo, _audit, _info)
INTERRUPTED = 130  # as shells have it


def main(given: Sequence[str] | None = None) -> int:
    """Run a command, and return its exit status; without one, show help.

    Arguments are by default those of the process. An error that a user can mend is one
    line on stderr, and so is an interruption.
    """
    parser = ArgumentParser(
        prog="python -m skconvgp",
        description="Gaussian processes on images, from a terminal.",
    )
    commands = parser.add_subparsers(title="commands", metavar="command")
    for command in COMMANDS:
        command.add_to(commands)
    options = parser.parse_args(given)
    if not hasattr(options, "run"):
        parser.print_help()
        return 0
    try:
        options.run(options)
    except (ImportError, OSError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return INTERRUPTED
    return 0
