"""What the figures of a card say: tables and targets."""

from benchmarks.gpu.mnist import MIXTURES, SUM, is_complete
from benchmarks.models import NETWORKS
from benchmarks.peers.networks import MAIN
from benchmarks.report import Figures, Target, tell

# Nanoseconds a pair: Meinel 2020 on the main network; neural-tangents on a comparable.
PUBLISHED_PAIR = {"thesis, T4": 12_800, "neural-tangents, V100": 4_650}
PUBLISHED_ERROR = {
    "convnet": 1.03,
    "residual_convnet": 0.96,
    "resnet32": 0.84,
    **dict.fromkeys((SUM, *MIXTURES), 0.84),  # the best one published
}
LARGEST_NANOSECONDS = 30.0
LEAST_N = 8192  # images of a matrix that counts
LARGEST_SECONDS = 120.0
LARGEST_PERCENT = {"convnet": 1.05, "residual_convnet": 0.98, "resnet32": 0.86}
LARGEST_ERRORS = {"float32": 1e-5, "float64": 1e-11}
GIBIBYTE = 2**30
OF_CARD = ("multiprocessors", "largest_clock_mhz", "cuda", "driver")
OF_PAIRS = {
    "nanoseconds": "nanoseconds a pair",
    "pairs_per_second": "pairs a second",
    "share_of_peak": "part of the peak, as compiled",
    "compile_seconds": "seconds to compile",
    "table_seconds": "seconds for tables",
    "whole_seconds": "seconds, arrays to array",
    "ratio": "torch's time in ours",
}
OF_MNIST = (
    *("backend", "backend_reason", "fit_seconds", "gram_seconds", "solve_seconds"),
    *("test_seconds", "peak_bytes", "solver", "solver_reason", "jitter", "weights"),
    *("test_error", "validation_error"),
)
DIRECT = "Cholesky"


def targets(figures: Figures) -> list[Target]:
    """Return what is required of all there is; nothing on a processor."""
    if figures["card"]["name"] == "cpu":
        return []
    found: list[Target] = []
    for row in ours(figures["pairs"]):
        if is_main(row) and row["n"] >= LEAST_N:
            told = f"nanoseconds a pair, n = {row['n']}"
            found.append((told, row["nanoseconds"], "at most", LARGEST_NANOSECONDS))
    for row in ours(figures["errors"]):
        for dtype, limit in LARGEST_ERRORS.items():
            told = f"{row['network']}, {dtype} error"
            found.append((told, row[dtype], "at most", limit))
    precision = figures.get("precision", {"errors": {}})
    for name, error in precision["errors"].items():
        found.append((name, error, "at most", precision["bounds"][name]))
    for row in ours(figures["mnist"]):
        limit = LARGEST_PERCENT.get(row["kernel"])
        if limit is None or not is_complete(row):
            continue
        told = f"MNIST, {row['kernel']}"
        found.append((f"{told}, seconds", row["seconds"], "at most", LARGEST_SECONDS))
        found.append((f"{told}, error %", percent(row), "at most", limit))
    return found


def ours(rows: list[Figures]) -> list[Figures]:
    """Return the rows of the fused backend: only those count."""
    return [row for row in rows if row.get("backend") == "fused"]


def missing(figures: Figures) -> list[str]:
    """Return what is required and was not measured."""
    names = {name for name, *_ in targets(figures)}
    wanted = [f"{name}, {dtype} error" for name in NETWORKS for dtype in LARGEST_ERRORS]
    wanted += [f"MNIST, {name}, seconds" for name in LARGEST_PERCENT]
    found = [name for name in wanted if name not in names]
    if not any(name.startswith("nanoseconds") for name in names):
        found.append(f"nanoseconds a pair, n >= {LEAST_N}")
    return found if "precision" in figures else [*found, "the precision"]


def is_main(row: Figures) -> bool:
    """Say whether a row is of the network that others have published."""
    return (row["network"], row["data"], row["dtype"]) == (*MAIN, "float32")


def percent(row: Figures) -> float:
    """Return the test error in percent."""
    return 100.0 * float(row["test_error"])


def print_card(card: Figures, peak: Figures) -> None:
    """Print what was measured on."""
    print(f"\n{card['name']}, {card['memory'] / GIBIBYTE:.0f} GiB")
    tell(card, {name: name.replace("_", " ") for name in OF_CARD})
    for dtype, one in peak.items():
        teraflops, product = one["operations"] / 1e12, f"{one['side']}^3 product"
        tell({dtype: teraflops}, {dtype: f"Tflop/s, {dtype}, {product}"})


def print_pairs(row: Figures) -> None:
    """Print one network in one precision."""
    names = ("network", "data", "source", "dtype", "n")
    print("\n" + ", ".join(str(row[name]) for name in names))
    tell(row, OF_PAIRS)
    if "torch" in row:
        tell(row["torch"], {"nanoseconds": f"torch, n = {row['torch']['n']}"})
    if is_main(row):
        tell(PUBLISHED_PAIR, {name: f"{name} (published)" for name in PUBLISHED_PAIR})


def print_errors(row: Figures) -> None:
    """Print the largest errors of one network."""
    print(f"\n{row['network']}: largest errors on {row['n']} images")
    tell(row, {dtype: dtype for dtype in LARGEST_ERRORS})


def print_mnist(row: Figures) -> None:
    """Print one kernel, or a mixture of all, on MNIST, beside the published error."""
    print(
        f"\nMNIST, {row['kernel']}, {row['n_train']} training images ({row['split']})"
    )
    tell(row, {name: name.replace("_", " ") for name in OF_MNIST})
    tell(PUBLISHED_ERROR, {row["kernel"]: "published test error, %"})
