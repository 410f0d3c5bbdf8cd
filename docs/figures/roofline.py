"""Draw how near two ways to compute come to what a processor can do.

Run as ``python docs/figures/roofline.py <target>``. The points and the roof are those
of benchmarks/results/fused_cpu.json; without it the roof is computed.
"""

import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from speed_table import CYCLES, MAIN, find, n_activations, rate, read_record

OPERATIONS = 10  # nine of the multiply-add units and a root, as the benchmark's floor
BYTES = {"torch": 166.0, "ours": 8.5}  # a position and layer of a pair, float32
NAMES = {"torch": "torch, tile by tile", "ours": "fused"}
COLORS = {"torch": "#d94801", "ours": "#2171b5"}
WHITE = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
GIGAHERTZ, LANES = 4.0, 16  # where nothing was measured


def main(target: Path) -> None:
    """Draw and save."""
    mpl.rcParams.update({"svg.hashsalt": "skconvgp", "font.family": "DejaVu Sans"})
    record = read_record()
    roof, told = peak(record)
    figure, axes = plt.subplots(figsize=(7.5, 4.6), layout="constrained")
    x = [0.01, 20.0]
    axes.loglog(x, [roof, roof], color="0.2", linewidth=2)
    axes.text(19, roof * 1.12, told, ha="right", va="bottom", fontsize=9)
    for bandwidth in (10.0, 100.0):
        end = roof / bandwidth
        axes.loglog([x[0], end], [x[0] * bandwidth, roof], color="0.6", linewidth=1)
        place = (0.0115, 0.021 * bandwidth)
        axes.text(*place, f"{bandwidth:.0f} GB/s", color="0.4", fontsize=9)
    for code, size in BYTES.items():
        axes.axvline(OPERATIONS / size, color=COLORS[code], linestyle=":", linewidth=1)
        operations = measured(record, code)
        style = {"color": COLORS[code], "fontsize": 9, "bbox": WHITE}
        label = f"{NAMES[code]}: {size:g} bytes"
        if operations:
            axes.plot(OPERATIONS / size, operations, "o", color=COLORS[code], ms=9)
            label += f"\n{operations:.2g} billion operations/s"
        height = operations or roof / 30
        place = (OPERATIONS / size * 1.15, height / 1.1)
        axes.text(*place, label, va="top", **style)
    axes.set(xlim=x, ylim=(0.1, roof * 2.2))
    axes.set(xlabel="operations for each byte that comes from beyond the L1 cache")
    axes.set(ylabel="billion operations a second, one core")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(target, metadata={"Date": None})
    plt.close(figure)


def peak(record: Any) -> tuple[float, str]:
    """Return the most operations, in billions a second, and where they come from."""
    cases = record["cases"] if record else []
    floors = [one for case in cases for one in case["floors"]]
    if floors and floors[0]["lanes"]:
        seconds = min(one["seconds_per_vector"] for one in floors)
        return OPERATIONS * floors[0]["lanes"] / seconds / 1e9, "arithmetic, measured"
    told = f"arithmetic, {GIGAHERTZ:.0f} GHz and {LANES} lanes"
    return OPERATIONS * LANES * GIGAHERTZ / CYCLES, told


def measured(record: Any, code: str) -> float | None:
    """Return the operations of a code, in billions a second, if it was measured."""
    case = find(record, *MAIN)
    row = case and next(
        (
            row
            for row in case["rows"]
            if (row["code"], row["dtype"], row["n_threads"]) == (code, "float32", 1)
        ),
        None,
    )
    if not row:
        return None
    positions = n_activations(case["network"], tuple(case["image_shape"]))
    pairs = rate(row, record["settings"]["clock"])
    return OPERATIONS * positions * pairs / 1e9


if __name__ == "__main__":
    main(Path(sys.argv[1]))
