"""Write what features cost and are worth as tables for the page on random features.

Run as ``python docs/figures/features_table.py <target>``; reads
benchmarks/results/features.json and feature_fits.json, and says how to make them if
there are none.
"""

import sys
from pathlib import Path
from typing import Any

from speed_table import BENCHMARKS, list_table, read_record

RESULTS = BENCHMARKS / "results" / "features.json"
FITS = BENCHMARKS / "results" / "feature_fits.json"

MISSING = (
    "The figures have not been measured for this build of the documentation. "
    "``python -m benchmarks features`` and ``feature_fits`` measure them.\n"
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
FITTED = {
    "random features, gaussian": '``RandomFeatures(2000)``, "gaussian"',
    "random features, dirichlet": '``RandomFeatures(2000)``, "dirichlet"',
    "landmarks, gaussian": '1000 landmarks, "gaussian"',
    "landmarks, dirichlet": '1000 landmarks, "dirichlet"',
    "RBFSampler, logistic regression": "``RBFSampler(2000)``, logistic regression",
    "Nystroem, logistic regression": "``Nystroem(1000)``, logistic regression",
}
FITS_HEADER = ["Model", "Error", "Log loss", "Calibration error", "Fit s", "Predict s"]
HEADER = ["Features", "Number", "Accuracy", "Error of the kernel", "CPU seconds"]


def main(target: Path) -> None:
    """Write the tables."""
    target.write_text(tables(read_record(RESULTS), read_record(FITS)))


def tables(record: Any, fits: Any) -> str:
    """Return a table for each kernel that was measured, and of classifiers."""
    if not (record and fits):
        return MISSING
    parts, rows = [], record["features"]
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
    for size in sorted({row["n_train"] for row in fits["fits"]}):
        chosen = [row for row in fits["fits"] if row["n_train"] == size]
        table = [FITS_HEADER, *map(fit_cells, chosen)]
        title = f"Classifiers, ``rbf()``, {size} images and all test images"
        parts.append("\n".join([*list_table(title, table), ""]))
    parts.append(
        "Seconds of the processor, with the choice of noise and calibration, or of the "
        f"penalty; one draw each: {fits['machine']['processor']}.\n"
    )
    return "\n".join(parts)


def fit_cells(row: Any) -> list[str]:
    """Return the cells of a classifier."""
    return [
        FITTED[row["model"]],
        f"{100 * row['error']:.1f} %",
        f"{row['log_loss']:.3f}",
        f"{row['calibration_error']:.3f}",
        f"{row['fit_cpu_seconds']:.0f}",
        f"{row['predict_cpu_seconds']:.1f}",
    ]


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
