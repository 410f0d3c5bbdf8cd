"""Write what features cost and are worth as tables for the page on random features.

Run as ``python docs/figures/features_table.py <target>``; reads
benchmarks/results/features.json, and says how to make it if there is none.
"""

import sys
from pathlib import Path
from typing import Any

from speed_table import BENCHMARKS, list_table, read_record

RESULTS = BENCHMARKS / "results" / "features.json"

MISSING = (
    "The figures have not been measured for this build of the documentation. "
    "``python benchmarks/features.py`` measures them.\n"
)
KERNELS = {
    "rbf": "``rbf()``, 5000 images",
    "dense": "``dense(1)``, 5000 images",
    "convnet": "``convnet()``, 1000 images of 14 x 14 pixels",
}
NAMES = {
    "landmarks": "``Nystrom``",
    "random": "``RandomFeatures``",
    "random, independent": "``RandomFeatures(orthogonal=False)``",
    "random, width 16": "``RandomFeatures(width=16)``",
    "random, width 32": "``RandomFeatures(width=32)``",
    "RBFSampler": "scikit-learn's ``RBFSampler``",
    "Nystroem": "scikit-learn's ``Nystroem``",
}
HEADER = ["Features", "Number", "Accuracy", "Error of the kernel", "CPU seconds"]


def main(target: Path) -> None:
    """Write the tables."""
    target.write_text(tables(read_record(RESULTS)))


def tables(record: Any) -> str:
    """Return a table for each kernel that was measured."""
    rows = record["features"] if record else []
    if not rows:
        return MISSING
    parts = []
    for kernel, title in KERNELS.items():
        chosen = [row for row in rows if row["kernel"] == kernel]
        if chosen:
            table = [HEADER, *map(cells, chosen)]
            parts.append("\n".join([*list_table(title, table), ""]))
    machine = record["machine"]
    parts.append(
        "One draw each. The error is that of covariances of 500 test images, as a "
        "share of the standard deviation of their correlations. Seconds are of the "
        f"processor, for features of the training images: {machine['processor']}.\n"
    )
    return "\n".join(parts)


def cells(row: Any) -> list[str]:
    """Return the cells of a row."""
    return [
        NAMES[row["model"]],
        str(row["n_features"]),
        f"{100 * row['accuracy']:.1f} %",
        f"{row['kernel_error']:.2f}",
        f"{row['feature_cpu_seconds']:.1f}",
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
