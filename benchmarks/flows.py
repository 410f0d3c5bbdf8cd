"""Kernels that learn themselves: what it costs, what it takes, what it is worth.

    SKCONVGP_DATA=<folder with mnist.npz and cifar10.npz> python benchmarks/flows.py

Takes about two hours on two cores, nearly all of it for the network of seven layers.
Learns two variances from five random starts, with every optimiser and the same number
of kernel evaluations, beside the best random start, the published variances, and
marginal likelihood and leave-one-out in the place of rho. Then the seconds of a step
beside those of Bin Khalid 2022, and the memory of one gradient where its autodiff
failed. All choices are made on validation images. Each part can run alone:

    python benchmarks/flows.py --quick
    python benchmarks/flows.py --parts learn --data mnist --networks 7-layer
    python benchmarks/flows.py --parts learn --methods adam-l2 bayesian-l2
    python benchmarks/flows.py --parts learn --starts uniform      # as the source's
    python benchmarks/flows.py --parts steps memory

Prints tables and writes benchmarks/results/flows.json after each figure; other figures
stay. A quick run writes only what --output names.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

from completing.images import Split
from completing.report import dated, put, save
from flowing.images import DATA, load
from flowing.learn import Plan, judge_kernel, judge_way, learn
from flowing.memory import peak_bytes
from flowing.methods import Method, methods, usual
from flowing.networks import LOG_UNIFORM, NETWORKS, UNIFORM, draw_starts, published
from flowing.report import (
    LEARN_KEYS,
    MEMORY_KEYS,
    RANDOM,
    STEP_KEYS,
    WAY_KEYS,
    comparable,
    learn_targets,
    memory_targets,
    print_memory,
    print_method,
    print_profile,
    print_profile_head,
    print_setting,
    print_source,
    print_step,
    print_steps_head,
    print_way,
    read,
    ways,
)
from flowing.source import (
    AUTODIFF_FAILED,
    AUTOGRAD,
    BATCHES,
    BAYESIAN,
    DIFFERENCES,
    EXACT,
    PROFILE_BATCH,
    PROFILE_STEPS,
    SEVEN,
    THREE,
    Figures,
    reported,
)
from flowing.steps import profile, time_steps
from peers.machine import machine, versions
from peers.report import print_targets

RESULTS = Path(__file__).parent / "results" / "flows.json"
USUAL = {
    "n_starts": 5,
    "budget": 320,
    "n_pool": 2000,
    "batch": 600,
    "sizes": [500, 1000, 2000, 5000],
    "n_new": 1000,
    "step_batches": (AUTODIFF_FAILED, *BATCHES),
    "profile_batch": PROFILE_BATCH,
    "memory_batch": 2400,
}
# Of a quick run.
LITTLE = {
    "n_starts": 2,
    "budget": 48,
    "n_pool": 200,
    "batch": 60,
    "sizes": [100, 200],
    "n_new": 200,
    "step_batches": (60,),
    "profile_batch": 40,
    "memory_batch": 120,
}
N_FIXED = 4
STEP_METHODS = (EXACT, DIFFERENCES, BAYESIAN, AUTOGRAD)


def main() -> None:
    """Measure, print and save."""
    options = parse()
    record = read(options.output)
    record |= {"source": reported(), "versions": versions(), "machine": machine()}
    found, left_out = [], []
    for part in options.parts:
        try:
            found += MEASURE[part](record, options)
        except OSError as error:
            print(f"{part} is left out: {error}")
            left_out.append(part)
    is_good = print_targets(found if options.is_whole else []) and not left_out
    if options.output:
        print(f"\nwritten to {options.output}")
    if options.check and not is_good:
        sys.exit(1)


def parse() -> Any:
    """Return the options."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--parts", nargs="+", choices=MEASURE, default=list(MEASURE))
    add("--data", nargs="+", choices=DATA, default=list(DATA))
    add("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    add("--methods", nargs="+", choices=methods(), default=usual(), metavar="METHOD")
    add(
        "--starts",
        choices=(LOG_UNIFORM, UNIFORM),
        default=LOG_UNIFORM,
        help="how they are drawn; the source's are uniform",
    )
    add("--n-starts", type=int, help="where learning begins")
    add("--budget", type=int, help="kernel evaluations of a start")
    add("--n-pool", type=int, help="training images that are learned from")
    add("--batch", type=int, help="images in a batch")
    add("--sizes", nargs="+", type=int, help="training images of the processes")
    add("--n-new", type=int, help="images for validation, and for tests")
    add("--quick", action="store_true", help="takes a minute or two")
    add(
        "--check",
        action="store_true",
        help="exit with 1 if a figure is missed or missing",
    )
    add("--output", type=Path, help="by default results/flows.json if not quick")
    options = parser.parse_args()
    asked = {name: getattr(options, name, None) for name in USUAL}
    options.is_whole = not options.quick and not any(asked.values())
    for name, value in (LITTLE if options.quick else USUAL).items():
        setattr(options, name, asked[name] or value)
    if options.is_whole and not options.output:
        options.output = RESULTS
    options.plan = Plan(
        options.budget,
        options.n_pool,
        options.batch,
        N_FIXED,
        tuple(options.sizes),
        sorted(options.sizes)[1] if len(options.sizes) > 1 else options.sizes[0],
    )
    return options


def measure_all_learning(record: Figures, options: Any) -> list[Any]:
    """Learn on all images with all networks; return what is required."""
    print_source()
    found = []
    for data in options.data:
        split = load(data, max(options.plan.sizes), options.n_new)
        for network in options.networks:
            found += measure_learning(data, network, split, record, options)
    return found


def measure_learning(
    data: str, network: str, split: Split, record: Figures, options: Any
) -> list[Any]:
    """Learn with every method from every start; return what is required."""
    plan, kernel = options.plan, NETWORKS[network]()
    setting = {"data": data, "network": network, "starts": options.starts}
    name = f"{data}, {network}"
    if options.starts != LOG_UNIFORM:
        name += f", {options.starts} starts"
    starts = draw_starts(options.starts, options.n_starts)
    print_setting(name, plan, len(starts))

    def rows() -> list[Figures]:
        return comparable(record["learn"], plan, **setting)

    def add(method: str, start: int | None, row: Figures) -> None:
        told = setting | {"method": method, "start": start} | row
        put(record["learn"], dated(told), *LEARN_KEYS)
        save(options.output, record)

    for i, theta in enumerate(starts):
        found = judge_kernel(kernel.with_theta(theta), split, plan.sizes)
        add(RANDOM, i, {"theta": theta.tolist(), "accuracies": found})
    print_method(rows(), RANDOM, plan.sizes, options.n_new)
    for method, fixed in published(network).items():
        add(method, None, {"accuracies": judge_kernel(fixed, split, plan.sizes)})
        print_method(rows(), method, plan.sizes, options.n_new)
    for method in options.methods:
        for i, theta in enumerate(starts):
            add(
                method,
                i,
                learn_and_judge(kernel, methods()[method], theta, split, plan),
            )
        print_method(rows(), method, plan.sizes, options.n_new)
    print_way(rows(), plan, options.n_new)
    for row in ways(rows(), plan, options.n_new):
        put(record["ways"], setting | row, *WAY_KEYS)
    save(options.output, record)
    return learn_targets(name, rows(), plan.sizes, options.n_new)


def learn_and_judge(
    kernel: Any, method: Method, start: Any, split: Split, plan: Plan
) -> Figures:
    """Return what was learned, and what it is worth at the end and on the way."""
    row, log = learn(kernel, method, start, split, plan)
    learned = kernel.with_theta(row["theta"][: len(start)])
    return row | {
        "budget": plan.budget,
        "accuracies": judge_kernel(learned, split, plan.sizes),
        "way": judge_way(kernel, start, log, split, plan),
    }


def measure_steps(record: Figures, options: Any) -> list[Any]:
    """Time steps, then profile some; nothing is required of them."""
    largest = max(*options.step_batches, options.profile_batch)
    pool = load("mnist", largest, 1).train
    cases = [(n, m) for n in (THREE, SEVEN) for m in STEP_METHODS]
    print_steps_head()
    for network, method in cases:
        for batch in options.step_batches:
            row = {"network": network, "method": method, "batch": batch}
            row |= time_steps(network, method, batch, pool)
            print_step(row)
            put(record["steps"], dated(row), *STEP_KEYS)
            save(options.output, record)
    print_profile_head(PROFILE_STEPS)
    batch = options.profile_batch
    for network, method in cases:
        if (network, method) == (SEVEN, AUTOGRAD):
            continue  # the source had no memory for it; it takes ten minutes
        row = {"network": network, "method": method, "batch": batch}
        row |= profile(network, method, batch, PROFILE_STEPS, pool.first(batch))
        print_profile(row)
        put(record["profile"], dated(row), *STEP_KEYS)
        save(options.output, record)
    return []


def measure_memory(record: Figures, options: Any) -> list[Any]:
    """Measure the peak of one gradient; return what is required."""
    row = {"network": SEVEN, "gradient": "exact", "batch": options.memory_batch}
    row["bytes"] = peak_bytes(**row)
    print_memory(row, AUTODIFF_FAILED)
    put(record["memory"], dated(row), *MEMORY_KEYS)
    save(options.output, record)
    return memory_targets([row])


MEASURE = {
    "learn": measure_all_learning,
    "steps": measure_steps,
    "memory": measure_memory,
}

if __name__ == "__main__":
    main()
