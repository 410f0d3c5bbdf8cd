"""What does it cost and what is it worth that kernels learn themselves?

    SKCONVGP_DATA=<folder with mnist.npz and cifar10.npz> python -m benchmarks flows

Takes about two hours on two cores, nearly all of it for the network of seven layers.
Learns two variances from five random starts, with every optimiser and the same number
of kernel evaluations, beside the best random start, the published variances, and
marginal likelihood and leave-one-out in the place of rho. Then the seconds of a step
beside those of Bin Khalid 2022, and the memory of one gradient where its autodiff
failed. All choices are made on validation images. Then 2 to 20 variances of a network
of nine layers, from poor starts, and a kernel that is learned where most entries of
Gram matrices are completed. Each part can run alone:

    python -m benchmarks flows --quick
    python -m benchmarks flows --parts learn --data mnist --networks 7-layer
    python -m benchmarks flows --parts learn --methods adam-l2 bayesian-l2
    python -m benchmarks flows --parts learn --starts uniform      # as the source's
    python -m benchmarks flows --parts steps memory
    python -m benchmarks flows --parts parameters completed
"""

from itertools import product
from typing import Any

from benchmarks.data import FETCH, Validated
from benchmarks.flows import published
from benchmarks.flows.completed import (
    COMPLETED,
    EXACT,
    METHODS,
    NOT_LEARNED,
    at_start,
    judge_completed,
    learn_kernel,
    show_completed,
)
from benchmarks.flows.learn import Plan, judge_kernel, judge_way, learn
from benchmarks.flows.methods import Method, methods, usual
from benchmarks.flows.networks import (
    LOG_UNIFORM,
    NETWORKS,
    UNIFORM,
    draw_starts,
    load,
    published_kernels,
)
from benchmarks.flows.parameters import (
    NUMBERS,
    OPTIMIZERS,
    learn_some,
    show_parameters,
)
from benchmarks.flows.steps import peak_bytes, profile, time_steps
from benchmarks.flows.tables import (
    RANDOM,
    Learning,
    memory_targets,
    show_profile,
    show_setting,
    show_step,
)
from benchmarks.measure import Record
from benchmarks.report import Figures, Target, put

PARTS = {
    "learn": ("data", "network", "starts", "method", "start"),
    "ways": ("data", "network", "starts", "method"),
    "steps": ("network", "method", "batch"),
    "profile": ("network", "method", "batch"),
    "memory": ("network", "gradient", "batch"),
    "parameters": ("n_parameters", "method", "start", "batch"),
    "completed": ("data", "learning", "by", "process", "n_train"),
}
USUAL = {
    "n_starts": 5,
    "budget": 320,
    "n_pool": 2000,
    "batch": 600,
    "sizes": [500, 1000, 2000, 5000],
    "n_new": 1000,
    "step_batches": (published.AUTODIFF_FAILED, *published.BATCHES),
    "profile_batch": published.PROFILE_BATCH,
    "memory_batch": 2400,
    "numbers": NUMBERS,
    "small_batch": 60,
    "small_starts": 2,
    "n_steps": 60,
    "n_points": 30,
    "completed_batch": 200,
}
QUICK = {
    "n_starts": 2,
    "budget": 48,
    "n_pool": 200,
    "batch": 60,
    "sizes": [100, 200],
    "n_new": 200,
    "step_batches": (60,),
    "profile_batch": 40,
    "memory_batch": 120,
    "numbers": (2, 20),
    "small_batch": 40,
    "small_starts": 1,
    "n_steps": 20,
    "n_points": 4,
    "completed_batch": 60,
}
N_FIXED = 4
STEP_METHODS = ("gd", "differences", "bayesian", "autograd")


def options(add: Any) -> None:
    add("--parts", nargs="+", choices=MEASURE, default=list(MEASURE))
    add("--data", nargs="+", choices=FETCH, default=list(FETCH))
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


def is_trial(options: Any) -> bool:
    return any(getattr(options, name, None) for name in USUAL)


def run(options: Any, record: Record) -> list[Target]:
    record.write(source=published.reported())
    options.plan = Plan(
        options.budget,
        options.n_pool,
        options.batch,
        N_FIXED,
        tuple(options.sizes),
        sorted(options.sizes)[1] if len(options.sizes) > 1 else options.sizes[0],
    )
    found: list[Target] = []
    for part in options.parts:
        try:
            found += MEASURE[part](record, options)
        except OSError as error:
            record.leave_out(part, error)
    return found if options.is_whole else []


def measure_all_learning(record: Record, options: Any) -> list[Target]:
    """Learn on all images with all networks; return what is required."""
    print("The source:", *published.IN_WORDS, sep="\n  ")
    found = []
    for data in options.data:
        split = load(data, max(options.plan.sizes), options.n_new)
        for network in options.networks:
            found += measure_learning(data, network, split, record, options)
    return found


def measure_learning(
    data: str, network: str, split: Validated, record: Record, options: Any
) -> list[Target]:
    """Learn with every method from every start; return what is required."""
    plan, kernel = options.plan, NETWORKS[network]()
    setting = {"data": data, "network": network, "starts": options.starts}
    name = ", ".join(setting.values())
    starts = draw_starts(options.starts, options.n_starts)
    show_setting(name, plan, len(starts))

    def learning() -> Learning:
        return Learning.of(record.rows("learn", **setting), plan, options.n_new)

    def add(method: str, start: int | None, row: Figures) -> None:
        record.add("learn", setting | {"method": method, "start": start} | row)

    for i, theta in enumerate(starts):
        found = judge_kernel(kernel.with_theta(theta), split, plan.sizes)
        add(RANDOM, i, {"theta": theta.tolist(), "accuracies": found})
    learning().show(RANDOM)
    for method, fixed in published_kernels(network).items():
        add(method, None, {"accuracies": judge_kernel(fixed, split, plan.sizes)})
        learning().show(method)
    for method in options.methods:
        for i, theta in enumerate(starts):
            row = learn_and_judge(kernel, methods()[method], theta, split, plan)
            add(method, i, row)
        learning().show(method)
    learning().show_ways()
    for row in learning().ways():
        put(record.figures["ways"], setting | row, *PARTS["ways"])
    record.write()
    return learning().targets(name)


def learn_and_judge(
    kernel: Any, method: Method, start: Any, split: Validated, plan: Plan
) -> Figures:
    """Return what was learned, and what it is worth at the end and on the way."""
    row, log = learn(kernel, method, start, split, plan)
    learned = kernel.with_theta(row["theta"][: len(start)])
    return row | {
        "budget": plan.budget,
        "accuracies": judge_kernel(learned, split, plan.sizes),
        "way": judge_way(kernel, start, log, split, plan),
    }


def measure_steps(record: Record, options: Any) -> list[Target]:
    """Time steps, then profile some; nothing is required of them."""
    batch, n_steps = options.profile_batch, published.PROFILE_STEPS
    pool = load("mnist", max(*options.step_batches, batch), 1).train
    networks = published.THREE, published.SEVEN
    print("\nseconds of a step on MNIST; two hyperparameters; the source's")
    for case in product(networks, STEP_METHODS, options.step_batches):
        row = dict(zip(PARTS["steps"], case, strict=True))
        show_step(record.add("steps", row | time_steps(*case, pool)))
    print(
        f"\n{n_steps} steps: seconds, share in the objective, evaluations of a matrix,"
    )
    print("and with derivatives; seconds and evaluations of the source")
    for case in product(networks, STEP_METHODS, [batch]):
        if case[:2] == (published.SEVEN, published.AUTOGRAD):
            continue  # the source had no memory for it; it takes ten minutes
        row = dict(zip(PARTS["profile"], case, strict=True))
        row |= profile(*case, n_steps, pool.first(batch))
        show_profile(record.add("profile", row))
    return []


def measure_memory(record: Record, options: Any) -> list[Target]:
    """Measure the peak of one gradient; return what is required."""
    case = published.SEVEN, "exact", options.memory_batch
    row = dict(zip(PARTS["memory"], case, strict=True))
    row = record.add("memory", row | {"bytes": peak_bytes(**row)})
    failed = published.AUTODIFF_FAILED
    print(f"\nmemory of learning one step; the source's failed at a batch of {failed}")
    print(row, flush=True)
    return memory_targets(row)


def measure_parameters(record: Record, options: Any) -> list[Target]:
    """Learn more and more variances; nothing is required of them."""
    split = load("mnist", options.sizes[1], options.n_new)
    print("\nvariances of nine layers, MNIST; means over starts")
    starts = range(options.small_starts)
    for case in product(options.numbers, OPTIMIZERS, starts):
        row = dict(zip(PARTS["parameters"], (*case, options.small_batch), strict=True))
        if record.missing("parameters", **row):
            record.add("parameters", row | learn_some(*case, split, options))
    show_parameters(record.rows("parameters", batch=options.small_batch))
    return []


def measure_completed(record: Record, options: Any) -> list[Target]:
    """Learn and fit with completions or without; nothing is required of them."""
    n = options.sizes[1]
    print("\na kernel learned where matrices are completed, seven layers")
    learnings = [(NOT_LEARNED, "exact"), (EXACT, "exact")]
    learnings += [(COMPLETED, name) for name in METHODS if name != "exact"]
    for data, (learning, by) in product(options.data, learnings):
        names = METHODS if learning != COMPLETED else ("exact", by)
        place = {"data": data, "learning": learning, "by": by, "n_train": n}
        left = [
            name for name in names if record.missing("completed", **place, process=name)
        ]
        if not left:
            continue
        split = load(data, n, options.n_new)
        kernel, told = at_start(), {}
        if learning != NOT_LEARNED:
            kernel, told = learn_kernel(METHODS[by](), split, options)
        for name in left:
            row = told | judge_completed(kernel, METHODS[name](), split)
            record.add("completed", place | {"process": name} | row)
    for data in options.data:
        show_completed(record.rows("completed", data=data, n_train=n))
    return []


MEASURE = {
    "learn": measure_all_learning,
    "steps": measure_steps,
    "memory": measure_memory,
    "parameters": measure_parameters,
    "completed": measure_completed,
}
