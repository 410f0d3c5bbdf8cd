"""What must be set before scikit-learn and matplotlib are imported; tests for a GPU."""

import os

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # else array API checks are skipped
os.environ.setdefault("MPLBACKEND", "agg")

import pytest

from skconvgp.backends import _fused_cpu


def pytest_addoption(parser):
    """Let the arithmetic of another processor be asked for."""
    parser.addoption("--instruction-set", default="", help="that the extension uses")


@pytest.fixture(autouse=True, scope="session")
def instruction_set(request):
    """Compute with what was asked for."""
    _fused_cpu.INSTRUCTION_SET = request.config.getoption("--instruction-set")


def pytest_collection_modifyitems(config, items):
    """Leave tests for a GPU out, unless the markers that are asked for name it."""
    if "gpu" in config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker("gpu")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("gpu")]
