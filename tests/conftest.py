"""What must be set before scikit-learn and matplotlib are imported."""

import os

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # else array API checks are skipped
os.environ.setdefault("MPLBACKEND", "agg")
