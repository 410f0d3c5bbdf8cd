"""Write what was measured on GPUs as tables for the page "On a GPU".

Run as ``python docs/figures/gpu_table.py <target>``; reads benchmarks/results/gpu.json,
and says how to make it if there is none.
"""

import sys
from pathlib import Path
from typing import Any

from speed_table import BENCHMARKS, list_table, read_record

RESULTS = BENCHMARKS / "results" / "gpu.json"

from benchmarks.gpu.mnist import is_complete  # noqa: E402
from benchmarks.gpu.report import (  # noqa: E402
    GIBIBYTE,
    LARGEST_ERRORS,
    LARGEST_NANOSECONDS,
    LARGEST_PERCENT,
    LARGEST_SECONDS,
    PUBLISHED_ERROR,
    PUBLISHED_PAIR,
    is_main,
    ours,
    percent,
)

MISSING = """\
.. admonition:: Not yet run on a card

   No part of this has run on a GPU so far, and there are no figures of one: not the
   fused kernel, not torch's operations there, not a solve. What has been checked
   without a card:

   - The source that a card gets, generated for each network of the tests, runs on the
     CPU as a whole, with its launches, and gives the values and derivatives of the
     host's build of the same arithmetic to the last bit. Arrays stand for lanes there.
   - NVRTC compiles it for compute capability 7.5, 9.0 and 10.0, nvcc for 8.0, 9.0 and
     10.0, where the maps of the networks of this page stay in registers.
   - Where there is no memory, or a GPU is busy, errors are raised in the place of a
     card's.

   What has not: loading and launching through the driver; what a card has in the place
   of arrays, its shuffles, fused multiply-adds, minima, and approximate roots and
   reciprocals; ``make test-gpu``, several GPUs, the factor of all of MNIST, and
   ``python -m benchmarks gpu``. The aim is 30 ns a pair, and 120 s for all of MNIST.
   If you have a card, ``python -m benchmarks gpu`` tells.
"""
PAIRS = [
    "Network",
    "Images",
    "Precision",
    "n",
    "ns a pair",
    "Of the peak",
    "Torch / ours",
]
POOLS = ["Network", "Images", "Precision", "n", "us a pair", "Torch / ours", "Error"]
MNIST = ["Kernel", "Trained on", "Fit", "Predict", "Memory", "Error", "Published"]


def main(target: Path) -> None:
    """Write the tables."""
    target.write_text(tables(read_record(RESULTS)))


def tables(record: Any) -> str:
    """Return the tables of all cards, with what was measured how."""
    cards = [one for name, one in (record or {}).items() if name != "cpu"]
    return "\n".join(of_card(one) for one in cards) or MISSING


def of_card(figures: Any) -> str:
    """Return the tables of one card."""
    card, versions = figures["card"], figures["versions"]
    listed = ", ".join(f"{name} {number}" for name, number in versions.items())
    told = (
        f"Measured on: {card['name']}, {card['memory'] / GIBIBYTE:.0f} GiB, "
        f"CUDA {card['cuda']}, and {card['cores']} cores ({card['processor']}). "
        f"{listed}."
    )
    for dtype, one in figures["peak"].items():
        told += f" A product of matrices in {dtype} reaches "
        told += f"{one['operations'] / 1e12:.0f} Tflop/s."
    parts = [told, ""]
    if figures["pairs"]:
        parts += [*of_pairs(figures), of_errors(figures), ""]
    if ours(figures.get("pools", [])):
        parts += [*of_pools(figures), ""]
    complete = [row for row in ours(figures["mnist"]) if is_complete(row)]
    if complete:
        parts += [*of_mnist(complete), ""]
    return "\n".join(parts)


def of_pairs(figures: Any) -> list[str]:
    """Return the table of the time of a pair."""
    rows = [PAIRS]
    for row in ours(figures["pairs"]):
        share = row["share_of_peak"]
        rows.append(
            [
                row["network"],
                f"{row['data']}, {' x '.join(map(str, row['image_shape']))}",
                row["dtype"],
                f"{row['n']:,}",
                f"{row['nanoseconds']:,.1f}",
                "" if share is None else f"{share:.0%}",
                f"{row['ratio']:.1f}x" if "ratio" in row else "",
            ]
        )
    title = "Time of a pair; for convnet on MNIST in float32 the aim is "
    title += f"{LARGEST_NANOSECONDS:.0f} ns"
    return [*list_table(title, rows), ""]


def of_pools(figures: Any) -> list[str]:
    """Return the table of networks that average over positions."""
    rows = [
        [
            row["network"],
            f"{row['side']} x {row['side']}",
            row["dtype"],
            f"{row['n']:,}",
            f"{row['nanoseconds'] / 1e3:,.1f}",
            f"{row['ratio']:,.0f}x" if "ratio" in row else "",
            f"{row['error']:.0e}",
        ]
        for row in ours(figures["pools"])
    ]
    return list_table("Networks that average over positions", [POOLS, *rows])


def of_errors(figures: Any) -> str:
    """Return sentences on published times, compiling and errors."""
    told = "Published times of a pair, for convnet on MNIST or a network like it: "
    told += ", ".join(f"{ns:,} ns ({name})" for name, ns in PUBLISHED_PAIR.items())
    main_rows = [row for row in ours(figures["pairs"]) if is_main(row)]
    compiling = max((row["compile_seconds"] for row in main_rows), default=0.0)
    told += f". To compile took {compiling:.1f} s." if compiling else "."
    for dtype in LARGEST_ERRORS:
        errors = [row[dtype] for row in ours(figures["errors"])]
        if errors:
            told += f" Largest error in {dtype}: {max(errors):.1e}."
    return told


def of_mnist(complete: list[Any]) -> list[str]:
    """Return the table of fits of MNIST."""
    rows = [MNIST]
    for row in complete:
        aim = LARGEST_PERCENT.get(row["kernel"])
        took = ["", "", ""]  # of a mixture: nothing is fitted for it
        if "fit_seconds" in row:
            took = [
                f"{row['fit_seconds']:.0f} s",
                f"{row['test_seconds']:.0f} s",
                f"{row['peak_bytes'] / GIBIBYTE:.0f} GiB",
            ]
        rows.append(
            [
                row["kernel"],
                f"{row['n_train']:,}",
                *took,
                f"{percent(row):.2f} %" + (f" (aim {aim:.2f} %)" if aim else ""),
                f"{PUBLISHED_ERROR[row['kernel']]:.2f} %",
            ]
        )
    title = "MNIST, all test images; the aim is "
    title += f"{LARGEST_SECONDS:.0f} s for fit and predict"
    return list_table(title, rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
