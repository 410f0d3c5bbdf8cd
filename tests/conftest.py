"""What must be set before scikit-learn and matplotlib are imported; tests for a GPU."""

import os

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # else array API checks are skipped
os.environ.setdefault("MPLBACKEND", "agg")


def pytest_collection_modifyitems(config, items):
    """Leave tests for a GPU out, unless the markers that are asked for name it."""
    if "gpu" in config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker("gpu")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("gpu")]
