"""Speed of the covariance on the CPU beside other codes and the arithmetic floor.

    SKCONVGP_DATA=<folder with mnist.npz, cifar10.npz> \
        python benchmarks/fused_cpu.py --cnn-gp <checkout of cambridge-mlg/cnn-gp>

Takes about half an hour on two cores that do nothing else. Without the data the images
are generated, without a checkout cnn-gp is left out; neural-tangents is installed into
an environment of its own. Every code runs in a process of its own, on as many cores as
it has threads, and all take turns, so that they see the same machine; the best of
several runs counts. On a processor with AVX-512 the main network is measured with AVX2
too. Prints tables and writes benchmarks/results/fused_cpu.json after each part; figures
of other parts stay, if they are of this machine and of the same settings:

    python benchmarks/fused_cpu.py --cases convnet/mnist --no-gradient
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from completing.report import put, save
from peers.case import N_IMAGES, Case
from peers.environment import default_folder, python_with_neural_tangents
from peers.images import write_images
from peers.machine import machine, n_cores
from peers.pipe import Worker
from peers.report import (
    MAIN,
    MEBIBYTE,
    WIDE,
    find,
    floor,
    print_case,
    print_targets,
    rate,
    ratios,
    targets,
)

import skconvgp
from skconvgp.backends._fused_cpu import instruction_set, instruction_sets

RESULTS = Path(__file__).parent / "results" / "fused_cpu.json"
NARROWER = "avx2"  # is measured beside the widest
CASES = ("convnet/mnist", "convnet/cifar10", "resnet32/mnist")
BUDGET = "256 MiB"
N_PARAMETERS = (1, 2, 16)
BUSY = 0.95  # below this part of a core, another program had the rest


def main() -> None:
    """Measure, print and save."""
    options = parse()
    record = begun(options)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for case in options.cases:
            figures = measure_case(case, folder, options, record)
            put(record["cases"], figures, "network", "data")
            save(options.output, record)
            if options.whole and tuple(case.split("/")) == MAIN:
                record["whole"] = measure_whole(folder, options, figures)
                save(options.output, record)
        if options.gradient:
            record["gradient"] = measure_gradients(folder, options)
    are_met = print_targets(targets(record))
    warn_if_busy(record)
    save(options.output, record)
    print(f"\nwritten to {options.output}")
    if options.check and not are_met:
        sys.exit(1)


def begun(options: Any) -> dict[str, Any]:
    """Return the figures so far, if they were measured here and like this."""
    record: dict[str, Any] = {"whole": None, "gradient": [], "cases": []}
    names = ("backend", "instruction_set", "threads", "clock", "repeat", "seconds")
    record["settings"] = {name: getattr(options, name) for name in names}
    record |= {"versions": {}, "machine": machine()}
    old = json.loads(options.output.read_text()) if options.output.exists() else {}
    is_like = all(old.get(key) == record[key] for key in ("settings", "machine"))
    return old if is_like else record


def parse() -> Any:
    """Return the options; codes that cannot run are told and left out."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--backend", default="fused", help="of ours")
    add(
        "--instruction-set",
        choices=instruction_sets(),
        default=instruction_set(),
        help="of the fused backend; the widest by default",
    )
    add("--cases", nargs="+", default=CASES, choices=CASES, metavar="CASE")
    add("--threads", nargs="+", type=int, default=[1, 2])
    add("--cnn-gp", type=Path, help="folder of a checkout of cambridge-mlg/cnn-gp")
    add("--neural-tangents-env", type=Path, default=default_folder())
    add("--neural-tangents", action=argparse.BooleanOptionalAction, default=True)
    add("--gradient", action=argparse.BooleanOptionalAction, default=True)
    add("--gradient-n", type=int, default=600, help="images of the gradients' matrix")
    add("--whole", action=argparse.BooleanOptionalAction, default=True)
    add("--whole-n", type=int, default=N_IMAGES, help="images of the whole matrix")
    add("--seconds", type=float, default=5.0, help="length of one measurement")
    add("--repeat", type=int, default=3, help="measurements of each code")
    add(
        "--clock",
        choices=["seconds", "cpu_seconds"],
        default="seconds",
        help="what one thread is timed by: cpu_seconds on a machine that is shared",
    )
    add("--check", action="store_true", help="exit with 1 if a target is missed")
    add("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    cores = n_cores()
    options.threads = [n for n in sorted({1, *options.threads}) if n <= cores]
    is_wide = options.backend == "fused" and options.instruction_set.startswith(WIDE)
    options.narrower = NARROWER if is_wide else None
    options.cases = sorted(options.cases, key=CASES.index)
    options.python = neural_tangents_python(options)
    if not options.cnn_gp:
        print("cnn-gp is left out: name a checkout with --cnn-gp.")
    if options.gradient and not hasattr(skconvgp, "gram_gradient"):
        print("Gradients are left out: this skconvgp has no gram_gradient.")
        options.gradient = False
    return options


def neural_tangents_python(options: Any) -> str | None:
    """Return the interpreter with neural-tangents, None without it."""
    if not options.neural_tangents:
        return None
    try:
        return python_with_neural_tangents(options.neural_tangents_env)
    except (OSError, RuntimeError) as error:
        print(f"neural-tangents is left out: {error}")
        return None


def measure_case(
    name: str, folder: Path, options: Any, record: dict[str, Any]
) -> dict[str, Any]:
    """Measure all codes on one network and kind of image, and print them."""
    print(f"\nmeasuring {name} ...", flush=True)
    case = Case(*name.split("/"), folder, options)
    figures = case.measure()
    record["versions"] |= case.versions
    figures["ratios"] = ratios(figures, options.clock)
    figures["floor"] = floor(figures, options.clock)
    print_case(figures, options.clock)
    return figures


def measure_whole(folder: Path, options: Any, case: dict[str, Any]) -> dict[str, Any]:
    """Measure one large matrix with all its costs, and the memory beside it."""
    n_threads = max(options.threads)
    print(f"\nmeasuring a matrix of {options.whole_n} images ...", flush=True)
    worker = ours(folder, options, "float32", n_threads)
    told = {"n": options.whole_n, "budget": BUDGET}
    runs = [worker.ask("whole", **told) for _ in range(options.repeat)]
    worker.close()
    row = find(case["rows"], code="ours", dtype="float32", n_threads=n_threads)
    assert row
    seconds = min(run["seconds"] for run in runs)
    by_rate = runs[0]["pairs"] / rate(row, "seconds")
    beside = [run["bytes_beside"] / MEBIBYTE for run in runs if "bytes_beside" in run]
    found = {
        "n": options.whole_n,
        "n_threads": n_threads,
        "runs": runs,
        "seconds": seconds,
        "seconds_by_rate": by_rate,
        "ratio": seconds / by_rate,
        "mebibytes_beside": max(beside, default=None),
    }
    print(
        f"whole matrix of {options.whole_n} images, float32, {n_threads} threads: "
        f"{seconds:.2f} s; pairs / rate: {by_rate:.2f} s"
    )
    return found


def measure_gradients(folder: Path, options: Any) -> list[dict[str, Any]]:
    """Measure the derivatives by 1, 2 and 16 parameters beside the value."""
    found = []
    print(f"\ngradients, {options.gradient_n} images, one thread: time / value's time")
    for dtype in ("float32", "float64"):
        runs: dict[int, list[Any]] = {p: [] for p in N_PARAMETERS}
        for _ in range(options.repeat):  # a new process: pages are its luck
            worker = ours(folder, options, dtype, 1)
            for p in N_PARAMETERS:
                told = {"n": options.gradient_n, "n_parameters": p}
                runs[p].append(worker.ask("gradient", **told))
            worker.close()
        for p, own in runs.items():
            value = min(run[f"value_{options.clock}"] for run in own)
            ratio = min(run[options.clock] for run in own) / value
            row = {"dtype": dtype, "n_parameters": p, "ratio": ratio, "runs": own}
            found.append(row)
            print(f"  {dtype}, p = {p:<4} {ratio:6.2f}   (1 + p: {1 + p})")
    return found


def ours(folder: Path, options: Any, dtype: str, n_threads: int) -> Worker:
    """Start our code on the main network."""
    path, _ = write_images(MAIN[1], N_IMAGES, folder)
    settings = {"network": MAIN[0], "images": str(path), "dtype": dtype}
    settings |= {
        name: getattr(options, name) for name in ("backend", "instruction_set")
    }
    return Worker("ours", settings, n_threads=n_threads)


def warn_if_busy(record: dict[str, Any]) -> None:
    """Say so if one-thread codes did not have their core to themselves."""
    parts = [
        run["cpu_seconds"] / run["seconds"]
        for case in record["cases"]
        for row in case["rows"]
        for run in row["runs"]
        if row["n_threads"] == 1
    ]
    record["smallest_part_of_a_core"] = min(parts)
    if min(parts) < BUSY:
        print(
            f"\nThe machine was busy: one thread got as little as {min(parts):.0%} of "
            "its core. Repeat when it is idle, or take --clock cpu_seconds."
        )


if __name__ == "__main__":
    main()
