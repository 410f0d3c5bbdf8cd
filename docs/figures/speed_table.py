"""Write the measured figures as tables for the page "Speed on a CPU".

Run as ``python docs/figures/speed_table.py <target>``; reads
benchmarks/results/fused_cpu.json, and says how to make it if there is none.
"""

import json
import sys
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
RESULTS = BENCHMARKS / "results" / "fused_cpu.json"
sys.path.insert(0, str(BENCHMARKS.parent))

from benchmarks.peers.networks import CYCLES, MAIN, n_activations  # noqa: E402
from benchmarks.peers.pipe import rate  # noqa: E402

__all__ = [
    "BENCHMARKS",
    "CYCLES",
    "MAIN",
    "find",
    "list_table",
    "n_activations",
    "rate",
    "read_record",
    "tables",
]

MISSING = (
    "The figures have not been measured for this build of the documentation. "
    "``python -m benchmarks fused_cpu`` measures them.\n"
)
NAMES = {
    "ours": "**fused**",
    "ours, avx2": "**fused**, AVX2",
    "torch": "torch backend",
}
HEADER = ["Code", "Precision", "Threads", "Pairs/s", "Fused is faster by"]


def main(target: Path) -> None:
    """Write the tables."""
    target.write_text(tables(read_record()))


def read_record(path: Path = RESULTS) -> Any:
    """Return what a benchmark wrote, None without it."""
    return json.loads(path.read_text()) if path.exists() else None


def find(record: Any, network: str, data: str) -> Any:
    """Return the figures of a network on a kind of image, None without them."""
    cases = record["cases"] if record else []
    for case in cases:
        if (case["network"], case["data"]) == (network, data):
            return case
    return None


def tables(record: Any) -> str:
    """Return all tables, with what was measured on which machine."""
    if not record or not record["cases"]:
        return MISSING
    machine, versions = record["machine"], record["versions"]
    listed = ", ".join(f"{name} {number}" for name, number in versions.items())
    parts = [
        f"Measured on: {machine['processor']}, {machine['cores']} cores. {listed}.\n"
    ]
    parts += [of_case(case, record["settings"]["clock"]) for case in record["cases"]]
    return "\n".join([*parts, *of_whole(record), *of_gradients(record)])


def of_case(case: Any, clock: str) -> str:
    """Return the table of one network."""
    shape = " x ".join(str(size) for size in case["image_shape"])
    title = f"{case['network']}, {case['data']} images ({shape})"
    rows = [HEADER] + [of_row(row, case["rows"], clock) for row in case["rows"]]
    lines = list_table(title, rows)
    errors = ", ".join(
        f"{error:.1e} in {name.replace(', ', ' with ')}"
        for name, error in case["errors"].items()
    )
    lines += ["", f"Largest error of the fused backend: {errors}."]
    found = case.get("floor")
    if found:
        lines[-1] += (
            f" One pair takes {found['ours']:.2f} microseconds of a core in float32; "
            f"its bare arithmetic, measured just before, {found['least_measured']:.2f}."
        )
    lines[-1] += of_avx2(case["ratios"])
    return "\n".join([*lines, ""])


def list_table(title: str, rows: list[list[str]]) -> list[str]:
    """Return the lines of a table; the first row is its head."""
    lines = [f".. list-table:: {title}", "   :header-rows: 1", ""]
    for row in rows:
        lines += [f"   {'*' if i == 0 else ' '} - {text}" for i, text in enumerate(row)]
    return lines


def of_avx2(ratios: Any) -> str:
    """Return a sentence on the narrower vectors, where they were measured."""
    times = [
        f"{ratio:.0f} times as fast as {name.partition(' / ')[2]} in "
        f"{name.partition(',')[0]}"
        for name, ratio in ratios.items()
        if ", avx2 / " in name
    ]
    if not times:
        return ""
    return f" With AVX2 the fused backend is {', '.join(times)}."


def of_row(row: Any, rows: list[Any], clock: str) -> list[str]:
    """Return the cells of one code; ratios are those of one thread and precision."""
    pairs, ratio = rate(row, clock), ""
    if not row["code"].startswith("ours") and row["n_threads"] == 1:
        ours = [
            rate(one, clock)
            for one in rows
            if (one["code"], one["dtype"], one["n_threads"])
            == ("ours", row["dtype"], 1)
        ]
        ratio = f"{ours[0] / pairs:.0f}x" if ours else ""
    name = NAMES.get(row["code"], row["code"])
    if "batch" in row:
        name += f", blocks of {row['batch']}"
    return [name, row["dtype"], str(row["n_threads"]), f"{pairs:,.0f}", ratio]


def of_whole(record: Any) -> list[str]:
    """Return a sentence on the whole matrix."""
    whole = record["whole"]
    if not whole:
        return []
    beside = whole["mebibytes_beside"]
    memory = f", and {beside:.0f} MiB beside the matrix" if beside is not None else ""
    return [
        f"A whole matrix of {whole['n']} MNIST images, tables and assembly included, "
        f"takes {whole['seconds']:.1f} s on {whole['n_threads']} threads in float32"
        f"{memory}; pairs divided by the rate of the table are "
        f"{whole['seconds_by_rate']:.1f} s.\n"
    ]


def of_gradients(record: Any) -> list[str]:
    """Return the table of what derivatives cost."""
    if not record["gradient"]:
        return []
    rows = [["Precision", "Hyperparameters", "Time"]] + [
        [row["dtype"], str(row["n_parameters"]), f"{row['ratio']:.1f}"]
        for row in record["gradient"]
    ]
    title = "Time with derivatives, as a multiple of the value's"
    return ["\n".join([*list_table(title, rows), ""])]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
