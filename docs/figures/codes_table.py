"""Write what learned codes are worth as tables for the page on them.

Run as ``python docs/figures/codes_table.py <target>``; reads
benchmarks/results/binary_codes.json, and says how to make it if there is none.
"""

import sys
from pathlib import Path
from typing import Any

from speed_table import BENCHMARKS, list_table, read_record

RESULTS = BENCHMARKS / "results" / "binary_codes.json"

MISSING = (
    "The figures have not been measured for this build of the documentation. "
    "``python -m benchmarks binary_codes`` measures them.\n"
)
DATA = {"mnist": "MNIST", "cifar10": "CIFAR-10"}
NAMES = {
    "autoencoder": "without labels",
    "score, no baseline": '"score" without a baseline',
    "random signs": "signs of random directions of the images",
    "discriminants, random signs": "the same of discriminants (LDA)",
    "components, random signs": "the same of neighbourhood components",
}
HEADER = ["Gradient", "Epochs", "Error", "5 nearest codes", "CPU seconds", "Source"]
PLACE = ("data", "encoder", "n_train", "n_bits", "n_features")


def main(target: Path) -> None:
    """Write the tables."""
    target.write_text(tables(read_record(RESULTS)))


def tables(record: Any) -> str:
    """Return a table for each set, encoder and number of images."""
    rows = record["codes"] if record else []
    if not rows:
        return MISSING
    parts = []
    for place in sorted({tuple(row[key] for key in PLACE) for row in rows}):
        own = [row for row in rows if tuple(row[key] for key in PLACE) == place]
        own.sort(key=lambda row: (row["epochs"], row["test_error"]))
        data, encoder, n_train, n_bits, n_features = place
        source = record["reported"][encoder][data]
        title = (
            f'{DATA[data]}, "{encoder}", {n_train} images, {n_bits} bits, '
            f"{n_features} optical features"
        )
        table = [HEADER, *(cells(row, source.get(row["method"])) for row in own)]
        parts.append("\n".join([*list_table(title, table), ""]))
    n_test = " or ".join(str(n) for n in sorted({row["n_test"] for row in rows}))
    processors = dict.fromkeys(row.get("card") or row["processor"] for row in rows)
    parts.append(
        f"The first {n_test} test images judge. Seconds are those of the training, on: "
        f"{', '.join(processors)}.\n"
    )
    return "\n".join(parts)


def cells(row: Any, source: float | None) -> list[str]:
    """Return the cells of a way to make codes."""
    method = row["method"]
    is_learned = "n_iter" in row
    return [
        NAMES.get(method, f'"{method}"'),
        str(row["epochs"]) if is_learned else "",
        f"{row['test_error']:.1%}",
        f"{row['nearest_error']:.1%}",
        f"{row['fit_cpu_seconds']:.0f}",
        "" if source is None else f"*{source:.0%}*",
    ]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
