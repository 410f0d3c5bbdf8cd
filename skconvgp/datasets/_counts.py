"""Checks of the whole numbers that data sets are asked for with."""

from skconvgp._settings import is_int

__all__ = ["require_int"]


def require_int(name: str, value: object, least: int, also: str = "") -> None:
    """Raise a ValueError unless an argument is an int from `least` on.

    `also` names what is taken besides, for the error.
    """
    if not is_int(value, least):
        raise ValueError(f"`{name}` must be {also}an int >= {least}, got {value!r}.")
