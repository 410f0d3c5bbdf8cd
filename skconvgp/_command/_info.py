"""``info``: what is installed, and what it runs on."""

from typing import Any

from skconvgp.estimators import show_versions

__all__ = ["add_to"]


def add_to(commands: Any) -> None:
    """Add the command to a parser."""
    text = "show versions, instruction set, cores, threads and GPUs"
    command = commands.add_parser("info", help=text, description=f"{text}.")
    command.set_defaults(run=lambda _: show_versions())
