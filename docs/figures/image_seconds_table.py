"""Write what fits and predictions of images take, by size, as tables for two pages.

Run as ``python docs/figures/image_seconds_table.py <target>``; reads
benchmarks/results/image_seconds.json, and says how to make it if there is none. The
second table, of latency, is written beside the target.
"""

import sys
from pathlib import Path
from typing import Any

from speed_table import BENCHMARKS, list_table, read_record

RESULTS = BENCHMARKS / "results" / "image_seconds.json"

MISSING = (
    "The figures have not been measured for this build of the documentation. "
    "``python -m benchmarks image_seconds`` measures them.\n"
)
HEADER = ["images", "fit, s (planned)", "memory, GiB (planned)"]
HEADER += ["ms a new image", "model, MB", "for prediction, MB"]
LATENCY = ["images", "threads", "first", "second", "one image", "one of 1000"]
TIMES = ("first_ms", "second_ms", "one_ms", "of_batch_ms")


def main(target: Path) -> None:
    """Write the tables."""
    record = read_record(RESULTS)
    target.write_text(of_fits(record))
    target.with_name("image_latency_table.rst.inc").write_text(of_latency(record))


def of_fits(record: Any) -> str:
    """Return a table with a row for each fit."""
    if not record or not record["fits"]:
        return MISSING
    rows = [HEADER]
    for row in record["fits"]:
        gib = [row[name] / 2**30 for name in ("bytes", "planned_bytes")]
        small = row["small_model_bytes"]
        cells = [
            f"{row['seconds']:.3g} ({row['planned_seconds']:.3g})",
            f"{gib[0]:.2f} ({gib[1]:.2f})",
            f"{row['predict_ms']:.2g}",
            f"{row['model_bytes'] / 1e6:.0f}",
            f"{small / 1e6:.1f}" if small else "has a network",
        ]
        rows.append([name_of(row["fit"]), *cells])
    title = "Seconds of one core, memory and size of ImageClassifier"
    return "\n".join([*list_table(title, rows), ""])


def of_latency(record: Any) -> str:
    """Return a table with a row for each model and number of threads."""
    if not record or not record["latency"]:
        return MISSING
    rows = [LATENCY]
    for row in record["latency"]:
        times = [f"{row[name]:.3g}" for name in TIMES]
        rows.append([name_of(row["fit"]), str(row["n_threads"]), *times])
    return "\n".join([*list_table("Milliseconds on the clock", rows), ""])


def name_of(fit: str) -> str:
    """Return what a fit is called in a table."""
    kind, side, n = fit.split("-")
    return f"{n} of {side}x{side}, {kind}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
