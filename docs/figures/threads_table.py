"""Write what matrices of covariances take, for the page "Coming from neural-tangents".

Run as ``python docs/figures/threads_table.py <target>``; reads pooled_speed.json and
fused_cpu.json of benchmarks/results. Seconds are pairs times the seconds of a pair.
"""

import sys
from pathlib import Path

from speed_table import BENCHMARKS, find, list_table, rate, read_record

RESULTS = BENCHMARKS / "results"
# Rows of pooled_speed.json, with what they are called.
NETWORKS = {
    "5 layers, Flatten": "5 layers, ``Flatten``",
    "radius 2, step 2": "5 layers, ``AvgPool2d(5, stride=1, dilation=2)``",
    "Myrtle-5": "Myrtle-5",
    "all positions": "5 layers, ``GlobalAvgPool2d``",
}
N, ROWS, COLUMNS = 10_000, 100, 60_000
HEAD = ["Network, 3x32x32 pixels", "A pair", "10 000 x 10 000", "100 x 60 000"]


def main(target: Path) -> None:
    """Write the table."""
    target.write_text(table())


def table() -> str:
    """Return a row for each network."""
    record = read_record(RESULTS / "pooled_speed.json")
    found = {row["network"]: row["pair_us"] * 1e-6 for row in record["rows"]}
    rows = [HEAD] + [cells(name, found[key]) for key, name in NETWORKS.items()]
    speeds = read_record(RESULTS / "fused_cpu.json")
    (ours,) = [
        row
        for row in find(speeds, "convnet", "cifar10")["rows"]
        if (row["code"], row["dtype"], row["n_threads"]) == ("ours", "float32", 1)
    ]
    seconds = 1.0 / rate(ours, speeds["settings"]["clock"])
    rows.insert(1, cells("``convnet()``, 7 layers of 7x7", seconds))
    processor = record["machine"]["processor"]
    title = f"One thread of an {processor}, float32"
    return "\n".join([*list_table(title, rows), ""])


def cells(name: str, seconds: float) -> list[str]:
    """Return the times of a network."""
    pairs = N * (N + 1) // 2, ROWS * COLUMNS
    return [name, *map(duration, (seconds, *(seconds * n for n in pairs)))]


def duration(seconds: float) -> str:
    """Return a time in two digits."""
    units = ("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)
    name, size = next(one for one in units if seconds >= one[1])
    number = seconds / size
    return f"{number:.1f} {name}" if number < 10 else f"{number:.0f} {name}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
