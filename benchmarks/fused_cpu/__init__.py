"""How fast is the covariance on the CPU, beside other codes and the arithmetic floor?

    SKCONVGP_DATA=<folder with mnist.npz, cifar10.npz> \
        python -m benchmarks fused_cpu --cnn-gp <checkout of cambridge-mlg/cnn-gp>

Takes about half an hour on two cores that do nothing else. Without the data the images
are generated, without a checkout cnn-gp is left out; neural-tangents is installed into
an environment of its own. Every code runs in a process of its own, on as many cores as
it has threads, and all take turns, so that they see the same machine; the best of
several runs counts. On a processor with AVX-512 the main network is measured with AVX2
too. Figures of other parts stay, if they are of this machine and of the same settings:

    python -m benchmarks fused_cpu --cases convnet/mnist --no-gradient
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.fused_cpu import report
from benchmarks.fused_cpu.case import N_IMAGES, Case, write_images
from benchmarks.measure import Record, machine, n_cores
from benchmarks.peers.environment import default_folder, python_with_neural_tangents
from benchmarks.peers.networks import MAIN
from benchmarks.peers.pipe import Worker, rate
from benchmarks.report import Figures, Target, find, read
from skconvgp.backends._fused_cpu import instruction_set, instruction_sets

PARTS = {"cases": ("network", "data")}
NARROWER = "avx2"  # is measured beside the widest
CASES = ("convnet/mnist", "convnet/cifar10", "resnet32/mnist")
BUDGET = "256 MiB"
N_PARAMETERS = (1, 2, 16)
BUSY = 0.95  # below this part of a core, another program had the rest


def options(add: Any) -> None:
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


def run(options: Any, record: Record) -> list[Target]:
    settle(options)
    begin(options, record)
    figures = record.figures
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for case in options.cases:
            row = record.add("cases", measure_case(case, folder, options, figures))
            if options.whole and tuple(case.split("/")) == MAIN:
                record.write(whole=measure_whole(folder, options, row))
        if options.gradient:
            record.write(gradient=measure_gradients(folder, options))
    warn_if_busy(figures)
    record.write()
    return report.targets(figures)


def begin(options: Any, record: Record) -> None:
    """Keep the figures so far only if they were measured here and like this."""
    names = ("backend", "instruction_set", "threads", "clock", "repeat", "seconds")
    empty: Figures = {"whole": None, "gradient": [], "cases": []}
    empty["settings"] = {name: getattr(options, name) for name in names}
    empty |= {"versions": {}, "machine": machine()}
    old = read(options.output)
    is_like = all(old.get(key) == empty[key] for key in ("settings", "machine"))
    record.figures = old if is_like else empty


def settle(options: Any) -> None:
    """Leave out codes that cannot run, and say so."""
    cores = n_cores()
    options.threads = [n for n in sorted({1, *options.threads}) if n <= cores]
    is_wide = options.backend == "fused" and options.instruction_set.startswith(
        report.WIDE
    )
    options.narrower = NARROWER if is_wide else None
    options.cases = sorted(options.cases, key=CASES.index)
    options.python = neural_tangents_python(options)
    if not options.cnn_gp:
        print("cnn-gp is left out: name a checkout with --cnn-gp.")


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
    name: str, folder: Path, options: Any, record: Figures
) -> dict[str, Any]:
    """Measure all codes on one network and kind of image, and print them."""
    print(f"\nmeasuring {name} ...", flush=True)
    case = Case(*name.split("/"), folder, options)
    figures = case.measure()
    record["versions"] |= case.versions
    figures["ratios"] = report.ratios(figures, options.clock)
    figures["floor"] = report.floor(figures, options.clock)
    report.print_case(figures, options.clock)
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
    beside = [
        run["bytes_beside"] / report.MEBIBYTE for run in runs if "bytes_beside" in run
    ]
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


def warn_if_busy(record: Figures) -> None:
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
