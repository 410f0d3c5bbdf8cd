"""The only imports of matplotlib."""

from typing import Any

__all__ = ["figure_for", "pyplot_for"]


def pyplot_for(display: object) -> Any:
    """Return matplotlib.pyplot; the error without it says how to install it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"{type(display).__name__} needs matplotlib: install it with `pip install "
            'matplotlib`, or in a checkout with `pip install ".[display]"`.'
        ) from error
    return plt


def figure_for(program: object, width: float, height: float) -> Any:
    """Return a figure of so many inches that no window shows."""
    pyplot_for(program)
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")
