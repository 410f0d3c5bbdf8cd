"""What the raw figures say: rates, ratios, the floor, and whether targets are met."""

from typing import Any

from benchmarks.peers.networks import CYCLES, MAIN, n_activations
from benchmarks.peers.pipe import rate
from benchmarks.report import Target, find, show, tell

WIDE = "avx512"  # with narrower vectors the peers' targets are halved
MEBIBYTE = 2**20
LARGEST_ERRORS = {"float32": 2e-6, "float64": 1e-11}

Figures = dict[str, Any]


def ratios(case: Figures, clock: str) -> Figures:
    """Return how many times faster we are than each other code, on one thread."""
    found: Figures = {}
    for ours in case["rows"]:
        if not ours["code"].startswith("ours") or ours["n_threads"] > 1:
            continue
        dtype = ours["dtype"]
        name = dtype + ours["code"].removeprefix("ours")
        for code in ("neural-tangents", "cnn-gp", "torch"):
            other = find(case["rows"], code=code, dtype=dtype, n_threads=1)
            if other:
                found[f"{name} / {code}"] = rate(ours, clock) / rate(other, clock)
        two = find(case["rows"], code=ours["code"], dtype=dtype, n_threads=2)
        if two:
            times = rate(two, "seconds") / rate(ours, "seconds")
            found[f"{name}, 2 threads / 1"] = times
    return found


def floor(case: Figures, clock: str) -> Figures | None:
    """Return microseconds per pair and core in float32: the least, and ours.

    The clock of a processor changes with what else it does: our best run is put beside
    the floor that was measured just before it.
    """
    row = find(case["rows"], code="ours", dtype="float32", n_threads=1)
    if not case["floors"] or not case["floors"][0]["lanes"] or not row:
        return None
    rates = [run["pairs"] / run[clock] for run in row["runs"]]
    floors = case["floors"]  # one a round, of as many runs each
    beside = floors[rates.index(max(rates)) * len(floors) // len(rates)]
    lanes = beside["lanes"]
    vectors = n_activations(case["network"], tuple(case["image_shape"])) / lanes
    least = 1e6 * CYCLES / beside["clock_hz"] * vectors
    measured = 1e6 * beside["seconds_per_vector"] * vectors
    ours = 1e6 / max(rates)
    return {
        "clock_ghz": beside["clock_hz"] / 1e9,
        "lanes": lanes,
        "least": least,
        "least_measured": measured,
        "cycles_measured": beside["clock_hz"] * beside["seconds_per_vector"],
        "ours": ours,
        "ours / least": ours / least,
        "ours / least_measured": ours / measured,
    }


def targets(record: Figures) -> list[Target]:
    """Return what is required of all there is."""
    case = next((c for c in record["cases"] if (c["network"], c["data"]) == MAIN), None)
    found: list[Target] = []
    if case:
        found += _of_case(case, record["settings"]["instruction_set"])
    whole = record["whole"]
    if whole:
        found.append(("whole matrix / pairs by rate", whole["ratio"], "at most", 1.5))
        if whole["mebibytes_beside"] is not None:
            told = ("MiB beside the whole matrix", whole["mebibytes_beside"])
            found.append((*told, "at most", 256.0))
    for one in record["gradient"]:
        name = f"gradient, p = {one['n_parameters']}, {one['dtype']}"
        found.append((name, one["ratio"], "at most", 1.0 + one["n_parameters"]))
    return found


def _of_case(case: Figures, instruction_set: str) -> list[Target]:
    part = 1.0 if instruction_set.startswith(WIDE) else 0.5
    required = {
        "float32 / neural-tangents": 100 * part,
        "float32 / cnn-gp": 50 * part,
        "float64 / neural-tangents": 40 * part,
        "float32, avx2 / neural-tangents": 50,
        "float32, avx2 / cnn-gp": 25,
        "float64, avx2 / neural-tangents": 20,
        "float32, 2 threads / 1": 1.8,
    }
    found = [
        (name, case["ratios"][name], "at least", value)
        for name, value in required.items()
        if name in case["ratios"]
    ]
    if case["floor"]:
        # CYCLES are another processor's; what this one reaches has been measured.
        times = case["floor"]["ours / least_measured"]
        found.append(("time / arithmetic floor", times, "at most", 2.0))
    for name, error in case["errors"].items():
        limit = LARGEST_ERRORS[name.partition(",")[0]]
        found.append((f"{name} error", error, "at most", limit))
    return found


def print_case(case: Figures, clock: str) -> None:
    """Print the rates and ratios of one network on one kind of image."""
    shape = " x ".join(map(str, case["image_shape"]))
    print(f"\n{case['network']}, {case['data']} ({shape}; {case['source']})")
    show("  code", ("dtype", "threads", "blocks of", "pairs/s"), 20)
    for row in case["rows"]:
        cells = row["dtype"], row["n_threads"], row.get("batch"), rate(row, clock)
        show(f"  {row['code']}", cells, 20)
    tell(case["ratios"], {name: f"ours, {name}" for name in case["ratios"]})
    tell(case["errors"], {name: f"largest error, {name}" for name in case["errors"]})
    print("  microseconds a pair and core, float32, and the floor")
    tell(case["floor"] or {}, {name: name for name in case["floor"] or {}})
