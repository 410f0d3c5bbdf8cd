"""The version of the package in the state of an estimator."""

import warnings
from importlib.metadata import version
from typing import Any

from skconvgp.exceptions import VersionMismatchWarning

VERSION_KEY = "_skconvgp_version"


def with_version(state: Any) -> dict[str, Any]:
    """Return the state of an estimator with the version of the package."""
    return dict(state) | {VERSION_KEY: version("skconvgp")}


def without_version(owner: str, state: dict[str, Any]) -> dict[str, Any]:
    """Return a state without its version; warn if it is not the current one."""
    state = dict(state)
    written, current = state.pop(VERSION_KEY, "unknown"), version("skconvgp")
    if written != current:
        warnings.warn(
            f"This {owner} was saved by skconvgp {written} and is "
            f"loaded by {current}: results may differ; fit it again.",
            VersionMismatchWarning,
            stacklevel=3,
        )
    return state
