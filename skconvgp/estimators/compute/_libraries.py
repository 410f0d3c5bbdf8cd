"""Which code belongs to a library, so that a name and a version identify it."""

import sys
import sysconfig
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

PYTHON = f"python {sys.version_info.major}.{sys.version_info.minor}"
# Their versions identify them wherever they are installed. The code of this package is
# in the name of a cache anyway.
TRUSTED = ("numpy", "scipy", "skconvgp", "torch")


def name_in_library(value: Any, name: str = "") -> str | None:
    """Return the qualified name of a function or class, with its library's version.

    None if the value belongs to no library, or is not found there under its name: a
    function that another function has made, for example.
    """
    name = name or getattr(value, "__qualname__", None) or value.__name__
    module = getattr(value, "__module__", None) or _module_with(value, name)
    library = library_of(module)
    is_there = library is not None and _lookup(sys.modules.get(module), name) is value
    return f"{module}.{name} of {library}" if is_there else None


def _module_with(value: Any, name: str) -> str:
    """Return the module that holds a value, if the value does not name its module."""
    for module, loaded in list(sys.modules.items()):
        if module.partition(".")[0] in TRUSTED and _lookup(loaded, name) is value:
            return module
    return ""


def _lookup(module: Any, name: str) -> Any:
    value = module
    for part in name.split("."):
        value = getattr(value, part, None)
    return value


@lru_cache(maxsize=256)
def library_of(module: str) -> str | None:
    """Return name and version of the library of a module; None without a library.

    A library lies in a folder where Python installs packages, and has a version. An
    editable install of a package under development is no library.
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
    """Return the origin of a package; None if it is unknown."""
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):  # a script has no spec
        return None
    return None if spec is None else spec.origin
