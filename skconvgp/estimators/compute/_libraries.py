"""Which code is that of a library, and so what its name and version say."""

import sys
import sysconfig
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

__all__ = ["library_of", "name_in_library"]

PYTHON = f"python {sys.version_info.major}.{sys.version_info.minor}"
# They are what their versions say wherever they lie; the code of this package is in
# the name of a cache anyway.
TRUSTED = ("numpy", "scipy", "skconvgp", "torch")


def name_in_library(value: Any, name: str = "") -> str | None:
    """Return where a library has a function or class, with the library's version.

    None for what is not of a library, or not found there under its name: a function
    that was made by another, for example.
    """
    name = name or getattr(value, "__qualname__", None) or value.__name__
    module = getattr(value, "__module__", None) or _module_with(value, name)
    library = library_of(module)
    is_there = library is not None and _found(sys.modules.get(module), name) is value
    return f"{module}.{name} of {library}" if is_there else None


def _module_with(value: Any, name: str) -> str:
    """Return the module of a library that has a value that does not know its own."""
    for module, loaded in list(sys.modules.items()):
        if module.partition(".")[0] in TRUSTED and _found(loaded, name) is value:
            return module
    return ""


def _found(place: Any, name: str) -> Any:
    for part in name.split("."):
        place = getattr(place, part, None)
    return place


@lru_cache(maxsize=256)
def library_of(module: str) -> str | None:
    """Return name and version of the library of a module; None if it is none.

    Installed is what lies where Python puts packages, and has a version. A package
    that is installed from its sources, to be worked on, is not.
    """
    top = module.partition(".")[0]
    if top in TRUSTED:
        return f"{top} {version(top)}"
    origin = _origin(top)
    if origin is None:
        return None
    if origin in ("built-in", "frozen"):
        return PYTHON
    parts = Path(origin).parts
    if any(folder in parts for folder in ("site-packages", "dist-packages")):
        names = _distributions().get(top, [])
        return " ".join(f"{name} {version(name)}" for name in names) or None
    paths = sysconfig.get_paths()
    roots = (Path(paths[name]).resolve() for name in ("stdlib", "platstdlib"))
    path = Path(origin).resolve()
    return PYTHON if any(path.is_relative_to(root) for root in roots) else None


@lru_cache(maxsize=1)
def _distributions() -> Mapping[str, list[str]]:
    return packages_distributions()


def _origin(top: str) -> str | None:
    """Return where a package comes from; None where that is not to be known."""
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):  # a program has none
        return None
    return None if spec is None else spec.origin
