"""How fast and how exact is a GPU, on pairs of images and on all of MNIST?

    SKCONVGP_DATA=<folder with mnist.npz, cifar10.npz> python -m benchmarks gpu

Measures the card's arithmetic, the time of a pair beside it and beside torch, errors
beside float64 on the processor, networks that average over positions, and fits and
predicts all of MNIST. Without the data the images are generated and MNIST is
downloaded. Each part can run alone:

    python -m benchmarks gpu --skip-mnist
    python -m benchmarks gpu --only-pools    (networks that average over positions)
    python -m benchmarks gpu --skip-speed --kernels convnet
    python -m benchmarks gpu --device cpu --n 256 --n-train 300    (tries it out)

Figures of other cards and of earlier runs stay. A dry run on the processor is written
only to the file that --output names.
"""

from itertools import product
from typing import Any

import torch

import skconvgp
from benchmarks.gpu import mnist, pools, report
from benchmarks.gpu.card import DTYPES, describe, measure_peak
from benchmarks.gpu.pairs import (
    measure_errors,
    measure_pairs,
    share_of_peak,
    why_not_fused,
)
from benchmarks.measure import Record
from benchmarks.models import NETWORKS
from benchmarks.report import Target

PARTS = {
    "pairs": ("network", "data", "source", "dtype", "n", "backend"),
    "errors": ("network", "source", "backend"),
    "mnist": ("kernel", "split", "n_train", "n_test", "backend"),
    "pools": ("network", "side", "source", "dtype", "backend"),
}
# The larger images with the main network only.
CASES = [*((name, "mnist") for name in NETWORKS), ("convnet", "cifar10")]


def options(add: Any) -> None:
    names = [*NETWORKS, mnist.SUM]
    add("--device", type=torch.device, default=torch.device("cuda"))
    add("--backend", default="fused", choices=["fused", "torch"], help="of ours")
    add("--kernels", nargs="+", default=names, choices=names, metavar="KERNEL")
    add("--n", nargs="+", type=int, default=[8192], help="images of a matrix")
    add("--repeat", type=int, default=3, help="measurements of each figure")
    add("--n-train", type=int, default=mnist.N_TRAIN, help="training images of MNIST")
    add("--n-test", type=int, default=mnist.N_TEST, help="test images of MNIST")
    add("--published-split", action="store_true", help="fit on 50 000 images")
    add("--skip-speed", action="store_true", help="leave out all before MNIST")
    add("--skip-pools", action="store_true", help="leave averages over positions out")
    add("--only-pools", action="store_true", help="leave all else out")
    add("--skip-torch", action="store_true", help="leave torch's times out")
    add("--skip-mnist", action="store_true", help="leave out fit and predict")


def is_trial(options: Any) -> bool:
    return bool(options.device.type != "cuda")


def run(options: Any, record: Record) -> list[Target]:
    if not is_there(options.device):
        told = f"no device {str(options.device)!r} here; --device cpu tries it out"
        record.leave_out("All", told)
        options.output = None
        return []
    options.skip_speed |= options.only_pools
    options.skip_mnist |= options.only_pools
    torch.zeros(1, device=options.device)  # the driver starts, before any clock
    card = describe(options.device)
    record.begin(card["name"])
    record.write(card=card)
    if not options.skip_speed:
        measure_speed(record, options)
    if not options.skip_pools:
        measure_all_pools(record, options)
    if not options.skip_mnist:
        measure_all_of_mnist(record, options)
    is_whole = not (options.skip_speed or options.skip_mnist)
    if is_whole and set(options.kernels) == {*NETWORKS, mnist.SUM} and options.is_whole:
        for name in report.missing(record.figures):
            record.leave_out(name, "not measured")
    return report.targets(record.figures)


def is_there(device: torch.device) -> bool:
    """Say whether there is such a device."""
    if device.type == "cpu":
        return True
    return torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count()


def measure_speed(record: Record, options: Any) -> None:
    """Measure the card, the pairs and the errors."""
    peak = measure_peak(options.device, options.repeat)
    report.print_card(record.figures["card"], peak)
    record.write(peak=peak)
    for network, data in CASES:
        if network not in options.kernels:
            continue
        reason = why_not_fused(network, data, options)
        if reason:
            record.leave_out(f"{network}, {data}", reason)
            continue
        for n, dtype in product(options.n, DTYPES):
            row = measure_pairs(network, data, dtype, n, options)
            is_card = options.device.type == "cuda"
            row["share_of_peak"] = share_of_peak(row, peak, is_card=is_card)
            report.print_pairs(record.add("pairs", row))
        if data == "mnist":
            report.print_errors(record.add("errors", measure_errors(network, options)))
    found = skconvgp.check_precision(str(options.device))
    print(f"\n{found}")
    told = {"errors": dict(found.errors), "bounds": dict(found.bounds)}
    record.write(precision=told)


def measure_all_pools(record: Record, options: Any) -> None:
    """Measure networks that average over positions."""
    for network, side in product(pools.POOLED_NETWORKS, pools.SIDES):
        reason = pools.why_not_fused_pools(network, side, options)
        if reason:
            record.leave_out(f"{network}, {side} x {side}", reason)
            continue
        for dtype in DTYPES:
            row = pools.measure_pools(network, side, dtype, options)
            pools.print_pools(record.add("pools", row))


def measure_all_of_mnist(record: Record, options: Any) -> None:
    """Fit and predict with each kernel."""
    try:
        parts = mnist.load(options)
    except OSError as error:
        record.leave_out("MNIST", error)
        return
    members: list[mnist.Member] = []
    for name in options.kernels:
        try:
            row, gp = mnist.measure_mnist(name, parts, options)
        except (MemoryError, ValueError, torch.cuda.OutOfMemoryError) as error:
            record.leave_out(f"MNIST, {name}", error)
            continue
        report.print_mnist(record.add("mnist", row))
        # Without a factor each value that is left out takes a solution of its own.
        if name != mnist.SUM and row["solver"] == report.DIRECT:
            members.append(mnist.Member.of(name, gp, parts))
        del gp
    if len(members) < len(NETWORKS):
        return
    for row in mnist.measure_mixtures(members, parts, options):
        report.print_mnist(record.add("mnist", row | {"backend": options.backend}))
