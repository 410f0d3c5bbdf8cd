"""What a figure was measured on: the processor and the versions."""

import os
import platform
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
import torch

import skconvgp


def machine() -> dict[str, Any]:
    """Return the processor's name and how many cores may be used."""
    found = {"processor": platform.processor(), "cores": n_cores()}
    table = Path("/proc/cpuinfo")
    lines = table.read_text().splitlines() if table.exists() else []
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            found["processor"] = value.strip()
    return found | {"system": f"{platform.system()} {platform.machine()}"}


def n_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def versions() -> dict[str, str]:
    """Return the versions that our figures may depend on."""
    return {
        "python": platform.python_version(),
        "skconvgp": skconvgp.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
    }
