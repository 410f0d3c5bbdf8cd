"""Speed, errors and all of MNIST on a GPU.

    SKCONVGP_DATA=<folder with mnist.npz, cifar10.npz> python benchmarks/gpu.py

Measures the card's arithmetic, the time of a pair beside it and beside torch, errors
beside float64 on the processor, networks that average over positions, and fits and
predicts all of MNIST. Without the data
the images are generated and MNIST is downloaded. Each part can run alone:

    python benchmarks/gpu.py --skip-mnist
    python benchmarks/gpu.py --only-pools    (networks that average over positions)
    python benchmarks/gpu.py --skip-speed --kernels convnet
    python benchmarks/gpu.py --device cpu --n 256 --n-train 300    (tries it out)

Prints tables and writes benchmarks/results/gpu.json after each figure; figures of
other cards and of earlier runs stay. A dry run on the processor writes only what
--output names.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import torch
from completing.report import dated, put
from on_gpu.card import DTYPES, describe, measure_peak
from on_gpu.mnist import (
    N_TEST,
    N_TRAIN,
    SUM,
    Member,
    load,
    measure_mixtures,
    measure_mnist,
)
from on_gpu.pairs import measure_errors, measure_pairs, share_of_peak, why_not_fused
from on_gpu.pools import (
    NETWORKS,
    SIDES,
    measure_pools,
    print_pools,
    why_not_fused_pools,
)
from on_gpu.report import (
    DIRECT,
    missing,
    print_card,
    print_errors,
    print_mixture,
    print_mnist,
    print_pairs,
    read,
    save,
    targets,
)
from peers.machine import versions
from peers.ours import KERNELS
from peers.report import print_targets

import skconvgp

RESULTS = Path(__file__).parent / "results" / "gpu.json"
# What tells rows of a table apart.
PAIRS = ("network", "data", "source", "dtype", "n", "backend")
POOLS = ("network", "side", "source", "dtype", "backend")
FITS = ("kernel", "split", "n_train", "n_test", "backend")
# The larger images with the main network only.
CASES = [*((name, "mnist") for name in KERNELS), ("convnet", "cifar10")]


def main() -> None:
    """Measure, print and save."""
    options = parse()
    if not is_there(options.device):
        print(f"No device {str(options.device)!r} here; --device cpu tries it out.")
        sys.exit(1 if options.check else 0)
    torch.zeros(1, device=options.device)  # the driver starts, before any clock
    card = describe(options.device)
    empty: dict[str, Any] = {"peak": {}, "pairs": [], "errors": [], "mnist": []}
    empty["pools"] = []
    figures = empty | read(options.output).get(card["name"], {})
    figures |= {"card": card, "versions": versions()}
    if not options.skip_speed:
        measure_speed(figures, options)
    if not options.skip_pools:
        measure_all_pools(figures, options)
    if not options.skip_mnist:
        measure_all_of_mnist(figures, options)
    is_good = print_targets(targets(figures)) and not options.left_out
    if options.is_whole and options.device.type == "cuda" and missing(figures):
        is_good = False
        print(f"not measured: {', '.join(missing(figures))}")
    if options.output:
        print(f"\nwritten to {options.output}")
    if options.check and not is_good:
        sys.exit(1)


def parse() -> Any:
    """Return the options."""
    names = [*KERNELS, SUM]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--device", type=torch.device, default=torch.device("cuda"))
    add("--backend", default="fused", choices=["fused", "torch"], help="of ours")
    add("--kernels", nargs="+", default=names, choices=names, metavar="KERNEL")
    add("--n", nargs="+", type=int, default=[8192], help="images of a matrix")
    add("--repeat", type=int, default=3, help="measurements of each figure")
    add("--n-train", type=int, default=N_TRAIN, help="training images of MNIST")
    add("--n-test", type=int, default=N_TEST, help="test images of MNIST")
    add("--published-split", action="store_true", help="fit on 50 000 images")
    add("--skip-speed", action="store_true", help="leave out all before MNIST")
    add("--skip-pools", action="store_true", help="leave averages over positions out")
    add("--only-pools", action="store_true", help="leave all else out")
    add("--skip-torch", action="store_true", help="leave torch's times out")
    add("--skip-mnist", action="store_true", help="leave out fit and predict")
    add(
        "--check",
        action="store_true",
        help="exit with 1 if a figure is missed or missing",
    )
    add("--output", type=Path, help="by default results/gpu.json for a GPU")
    options = parser.parse_args()
    options.left_out = []
    options.skip_speed |= options.only_pools
    options.skip_mnist |= options.only_pools
    options.is_whole = not (options.skip_speed or options.skip_mnist)
    options.is_whole = options.is_whole and set(options.kernels) == set(names)
    if options.device.type == "cuda" and not options.output:
        options.output = RESULTS
    return options


def is_there(device: torch.device) -> bool:
    """Say whether there is such a device."""
    if device.type == "cpu":
        return True
    return torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count()


def measure_speed(figures: dict[str, Any], options: Any) -> None:
    """Measure the card, the pairs and the errors."""
    figures["peak"] = measure_peak(options.device, options.repeat)
    print_card(figures["card"], figures["peak"])
    keep(figures, options)
    for network, data in CASES:
        if network not in options.kernels:
            continue
        reason = why_not_fused(network, data, options)
        if reason:
            leave_out(f"{network}, {data}", reason, options)
            continue
        for n in options.n:
            for dtype in DTYPES:
                row = measure_pairs(network, data, dtype, n, options)
                row["share_of_peak"] = share_of_peak(
                    row, figures["peak"], is_card=options.device.type == "cuda"
                )
                print_pairs(row)
                put(figures["pairs"], dated(row), *PAIRS)
                keep(figures, options)
        if data == "mnist":
            row = measure_errors(network, options)
            print_errors(row)
            put(figures["errors"], dated(row), "network", "source", "backend")
            keep(figures, options)
    measure_precision(figures, options)


def measure_all_pools(figures: dict[str, Any], options: Any) -> None:
    """Measure networks that average over positions."""
    for network in NETWORKS:
        for side in SIDES:
            reason = why_not_fused_pools(network, side, options)
            if reason:
                leave_out(f"{network}, {side} x {side}", reason, options)
                continue
            for dtype in DTYPES:
                row = measure_pools(network, side, dtype, options)
                print_pools(row)
                put(figures["pools"], dated(row), *POOLS)
                keep(figures, options)


def measure_precision(figures: dict[str, Any], options: Any) -> None:
    """Add what the package itself says of the card's precision."""
    report = skconvgp.check_precision(str(options.device))
    figures["precision"] = {
        "errors": dict(report.errors),
        "bounds": dict(report.bounds),
    }
    print(f"\n{report}")
    keep(figures, options)


def measure_all_of_mnist(figures: dict[str, Any], options: Any) -> None:
    """Fit and predict with each kernel."""
    try:
        parts = load(options)
    except OSError as error:
        leave_out("MNIST", error, options)
        return
    members: list[Member] = []
    for name in options.kernels:
        try:
            row, gp = measure_mnist(name, parts, options)
        except (MemoryError, ValueError, torch.cuda.OutOfMemoryError) as error:
            leave_out(f"MNIST, {name}", error, options)
            continue
        print_mnist(row)
        put(figures["mnist"], dated(row), *FITS)
        keep(figures, options)
        # Without a factor each value that is left out takes a solution of its own.
        if name != SUM and row["solver"] == DIRECT:
            members.append(Member.of(name, gp, parts))
        del gp
    if len(members) < len(KERNELS):
        return
    for row in measure_mixtures(members, parts, options):
        row |= {"backend": options.backend}
        print_mixture(row)
        put(figures["mnist"], dated(row), *FITS)
        keep(figures, options)


def leave_out(what: str, reason: object, options: Any) -> None:
    """Say why there is no figure."""
    print(f"\n{what} is left out: {reason}")
    options.left_out.append(what)


def keep(figures: dict[str, Any], options: Any) -> None:
    """Write what there is, in case the run ends here."""
    save(options.output, figures["card"]["name"], figures)


if __name__ == "__main__":
    main()
