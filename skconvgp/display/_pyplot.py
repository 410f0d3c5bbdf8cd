"""The only import of matplotlib."""

from typing import Any

__all__ = ["pyplot_for"]


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
