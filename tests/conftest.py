"""What must be set before scikit-learn and matplotlib are imported."""

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
