"""The environment that neural-tangents needs: it works only with old partners."""

import os
import subprocess
import sys
import venv
from pathlib import Path

REQUIREMENTS = (
    "neural-tangents==0.6.5",
    "jax==0.4.25",
    "jaxlib==0.4.25",
    "numpy<2",
    "scipy<1.13",
    "tensorflow>=2.15,<2.17",
    "tf2jax<0.3.7",
)
NEWEST_PYTHON = (3, 12)  # that these versions have wheels for


def default_folder() -> Path:
    """Return the folder in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")
    return Path(cache) / "skconvgp" / "neural-tangents"


def python_with_neural_tangents(folder: Path) -> str:
    """Return the interpreter of the environment, which is made if it is missing."""
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not _is_ready(python):
        if sys.version_info[:2] > NEWEST_PYTHON:
            raise RuntimeError(
                f"neural-tangents needs Python {'.'.join(map(str, NEWEST_PYTHON))} or "
                f"older, this is {sys.version.split()[0]}."
            )
        print(f"installing neural-tangents in {folder} (about 2 GB) ...", flush=True)
        venv.create(folder, with_pip=True)
        install = [python, "-m", "pip", "install", "--quiet", *REQUIREMENTS]
        subprocess.run(install, check=True)
    return str(python)


def _is_ready(python: Path) -> bool:
    if not python.exists():
        return False
    test = "import jax, neural_tangents, sys; sys.exit(jax.__version__ != '0.4.25')"
    done = subprocess.run([python, "-c", test], capture_output=True, check=False)
    return done.returncode == 0
