"""What the figures of a card say: tables and targets."""

from benchmarks.gpu.mnist import MIXTURES, SUM, is_complete
from benchmarks.models import NETWORKS
from benchmarks.peers.networks import MAIN
from benchmarks.report import Figures, Target

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
    for name in ("multiprocessors", "largest_clock_mhz", "cuda", "driver"):
        if card.get(name):
            print(f"  {name:<20}{card[name]:>12}")
    for dtype, one in peak.items():
        told = f"{one['operations'] / 1e12:.3g} Tflop/s, {one['side']}^3 product"
        print(f"  peak, {dtype:<14}{told:>12}")


def print_pairs(row: Figures) -> None:
    """Print one network in one precision."""
    print(
        f"\n{row['network']}, {row['data']} ({row['source']}), {row['dtype']}, "
        f"n = {row['n']}"
    )
    print(f"  nanoseconds a pair          {row['nanoseconds']:>12.1f}")
    print(f"  pairs a second              {row['pairs_per_second']:>12.3g}")
    if row["share_of_peak"] is not None:
        print(f"  of the peak, as compiled    {row['share_of_peak']:>12.1%}")
    print(f"  seconds to compile          {row['compile_seconds']:>12.2f}")
    print(f"  seconds for tables          {row['table_seconds']:>12.2f}")
    print(f"  seconds, arrays to array    {row['whole_seconds']:>12.2f}")
    if "torch" in row:
        print(
            f"  torch, n = {row['torch']['n']:<17}{row['torch']['nanoseconds']:>12.1f}"
            f"   {row['ratio']:.1f} times ours"
        )
    if is_main(row):
        for name, published in PUBLISHED_PAIR.items():
            times = published / row["nanoseconds"]
            told = f"{published:>12.1f}   {times:.1f} times ours (published)"
            print(f"  {name:<28}{told}")


def print_errors(row: Figures) -> None:
    """Print the largest errors of one network."""
    told = ", ".join(f"{row[dtype]:.1e} in {dtype}" for dtype in LARGEST_ERRORS)
    print(f"\n{row['network']}: largest error on {row['n']} images {told}")


def print_mnist(row: Figures) -> None:
    """Print one kernel on MNIST."""
    print(
        f"\nMNIST, {row['kernel']}, {row['n_train']} training images "
        f"({row['split']}), {row['n_test']} test images, {row['backend']} backend"
    )
    if row["backend_reason"]:
        print(f"  not fused: {row['backend_reason']}")
    print(
        f"  fit {row['fit_seconds']:.1f} s (Gram {row['gram_seconds']:.1f}, solve "
        f"{row['solve_seconds']:.1f}), predict {row['test_seconds']:.1f} s, "
        f"peak {row['peak_bytes'] / GIBIBYTE:.1f} GiB"
    )
    if row["solver"] != DIRECT or row["jitter"] > 0.0:
        why = f" ({row['solver_reason']})" if row["solver_reason"] else ""
        print(f"  solved by {row['solver']}{why}, jitter {row['jitter']:.1g}")
    print_error(row)
    if "validation_error" in row:
        print(f"  validation error {100.0 * row['validation_error']:.2f} %")


def print_mixture(row: Figures) -> None:
    """Print one mixture of all kernels."""
    shares = ", ".join(f"{one:.2f} {name}" for name, one in row["weights"].items())
    print(f"\nMNIST, {row['kernel']}: {shares}")
    print_error(row)


def print_error(row: Figures) -> None:
    """Print the test error beside the published one."""
    published = PUBLISHED_ERROR[row["kernel"]]
    print(f"  test error {percent(row):.2f} % (published: {published:.2f} %)")
