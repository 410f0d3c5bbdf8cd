"""How fast are responses of patches to inducing patches, beside torch and the floor?

    SKCONVGP_DATA=<folder with mnist.npz> python -m benchmarks patch_responses

Takes about a minute on one core. The patches have 5 x 5 pixels and lie on a grid of
24 x 24: random ones, of which no two are equal, and with the variable those of MNIST,
many of which are blank. Torch computes a product of matrices, the exponentials in place
and the sums of one image after the other, so that all stays in cache. It and we take
turns on one thread; the best of several runs counts, in seconds of the processor. There
are few images at once, so that results lie in memory that the system need not clear.

The floor is what a core needs at its measured clock for the multiply-adds of the
distances and the steps of an exponential, two vectors a cycle, and for nothing else.
"""

import os
from collections.abc import Callable
from itertools import product
from typing import Any

import torch
from torch import Tensor

from benchmarks.measure import Record, runs_of
from benchmarks.peers.pipe import Worker
from benchmarks.report import Figures, Target, show
from skconvgp.backends import _fused_cpu
from skconvgp.backends._fused_cpu import instruction_set, instruction_sets
from skconvgp.backends._patch_responses import Responses
from skconvgp.datasets import fetch_mnist
from skconvgp.kernels import Kernel, matern, rbf

PARTS: dict[str, tuple[str, ...]] = {"rows": ()}
SIDE, WINDOW = 28, 5
GRID, SIZE = SIDE - WINDOW + 1, WINDOW**2
KERNELS: list[Kernel] = [rbf(1.0), matern(1.0, nu=1.5)]
PLACES = {"all responses": 0, "weighted sum": 1, "5 x 5 places": 5, "7 x 7 places": 7}
N_INDUCING = (128, 256)
EXPONENTIAL = 16  # steps from the products to a response in a sum
AT_ONCE = 2  # vectors that a core works on in a cycle
WIDE = "avx512"
WAYS = ("ours", "torch")


def options(add: Any) -> None:
    add("--n-images", type=int, default=50)
    add("--repeat", type=int, default=7)
    names = instruction_sets()
    add("--instruction-sets", nargs="+", choices=names, default=[instruction_set()])


def run(options: Any, record: Record) -> list[Target]:
    torch.set_num_threads(1)
    settings = {"n_images": options.n_images, "repeat": options.repeat}
    floors: Figures = {}
    for name in options.instruction_sets:
        _fused_cpu.INSTRUCTION_SET = name
        floors[name] = measure_floor(name)
        record.write(settings=settings, floors=floors)
        sets = all_images(options.n_images)
        for (data, images), base, m in product(sets, KERNELS, N_INDUCING):
            print(f"\n{name}, {data}, {base!r}, {m} inducing patches")
            show("", ("G / s", "torch", "of floor", "error"), 16)
            for row in measure(images, base, m, options.repeat):
                row |= {"instruction_set": name, "data": data}
                row["share"] = share(row, floors[name])
                record.add("rows", row)
                rates = [row[way] / 1e9 if way in row else None for way in WAYS]
                show(row["sums"], (*rates, row["share"], row["error"]), 16)
    is_wide = any(name.startswith(WIDE) for name in options.instruction_sets)
    return targets(record.rows("rows")) if is_wide else []


def measure_floor(name: str) -> Figures:
    """Return the clock of this core and how many numbers a vector has."""
    worker = Worker("floor", {"instruction_set": name})
    found: Figures = worker.ask("measure")
    worker.close()
    return found


def all_images(n: int) -> list[tuple[str, Tensor]]:
    """Return images (n, 28, 28) of each kind."""
    generator = torch.Generator().manual_seed(0)
    found = [("random", torch.rand(n, SIDE, SIDE, generator=generator))]
    if os.environ.get("SKCONVGP_DATA"):
        X = torch.as_tensor(fetch_mnist(n_samples=n).data, dtype=torch.float32)
        found.append(("mnist", X.reshape(n, SIDE, SIDE)))
    return found


def measure(images: Tensor, base: Kernel, m: int, repeat: int) -> list[Figures]:
    """Return rates and errors with m inducing patches, for each kind of sum."""
    patches = images.unfold(1, WINDOW, 1).unfold(2, WINDOW, 1).contiguous()
    patches = patches.reshape(len(images), GRID, GRID, 1, WINDOW, WINDOW)
    flat = patches.reshape(-1, SIZE)
    generator = torch.Generator().manual_seed(1)
    chosen = torch.randperm(len(flat), generator=generator)[:m]
    responses = Responses(base, flat[chosen].reshape(m, 1, WINDOW, WINDOW), "fused")
    entries = len(flat) * m
    rows = []
    for name, side in PLACES.items():
        weights = torch.rand(GRID, GRID, generator=generator)
        factors = torch.rand(side, GRID, generator=generator)
        task = patches, weights, factors, factors
        ways = {"ours": by_us(responses, *task)}
        if isinstance(base, rbf):
            ways["torch"] = by_torch(responses, *task)
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(repeat):
            for way, call in ways.items():
                seconds[way] += runs_of(call, 1)
        row: Figures = {"kernel": repr(base), "n_inducing": m, "sums": name}
        row |= {"entries": entries, "seconds": seconds}
        row |= {way: entries / min(own) for way, own in seconds.items()}
        rows.append(row | {"error": largest_error(responses, *task)})
    return rows


def by_us(
    responses: Responses, patches: Tensor, weights: Tensor, y: Tensor, x: Tensor
) -> Callable[[], Tensor]:
    """Return what computes all responses, or sums where there are places."""
    if len(y) == 0:
        return lambda: responses.full(patches)
    return lambda: responses.pooled(patches, weights, y, x)


def by_torch(
    responses: Responses, patches: Tensor, weights: Tensor, y: Tensor, x: Tensor
) -> Callable[[], Tensor]:
    """Return what computes the same of an rbf of lengthscale 1 with torch."""
    z = responses.inducing.flatten(1)
    centre, m = z.mean(0), len(z)
    z = (z - centre).T.contiguous()
    half = z.square().sum(0) / -2
    by_place = weights[:, None] * x  # (y, places, x)
    scratch = torch.empty(GRID * GRID, m)

    def run() -> Tensor:
        shape = (len(patches), len(y) * len(x) or GRID * GRID, m)
        out = torch.empty(shape)
        for image, own in zip(patches, out, strict=True):
            vectors = image.reshape(-1, SIZE) - centre
            values = scratch if len(y) else own
            torch.addmm(half, vectors, z, out=values)
            values -= vectors.square().sum(1, keepdim=True) / 2
            values.clamp_(max=0.0).exp_()
            if len(y):
                sums = torch.bmm(by_place, values.view(GRID, GRID, m))
                torch.mm(y, sums.view(GRID, -1), out=own.view(len(y), -1))
        return out

    return run


def largest_error(
    responses: Responses, patches: Tensor, weights: Tensor, y: Tensor, x: Tensor
) -> float:
    """Return the largest error on a few images, of sums relative to the largest."""
    exact = Responses(responses.base, responses.inducing.double(), "torch")
    some = patches[:4]
    if len(y) == 0:
        return float((responses.full(some) - exact.full(some.double())).abs().max())
    expected = exact.pooled(some.double(), weights.double(), y.double(), x.double())
    found = responses.pooled(some, weights, y, x)
    return float((found - expected).abs().max() / expected.abs().max())


def share(row: Figures, floor: Figures) -> float:
    """Return the least time for the distances and exponentials as part of ours."""
    steps = SIZE + EXPONENTIAL
    lanes = floor["lanes"] or 4
    least = steps / AT_ONCE / floor["clock_hz"] / lanes
    return float(least * row["ours"])


def targets(rows: list[Figures]) -> list[Target]:
    """Return what is required of random patches with the widest vectors."""
    found: list[Target] = []
    for row in rows:
        wanted = {"weighted sum": 1.0, "all responses": 0.8}.get(row["sums"])
        is_wide = row["instruction_set"].startswith(WIDE)
        chosen = is_wide, row["data"], row["kernel"]
        if wanted is None or chosen != (True, "random", repr(KERNELS[0])):
            continue
        name = f"{row['sums']}, {row['n_inducing']}"
        found.append((f"{name}: G responses/s", row["ours"] / 1e9, "at least", wanted))
        ratio = row["ours"] / row["torch"]
        found.append((f"{name}: times torch", ratio, "at least", 2.0))
        found.append((f"{name}: error", row["error"], "at most", 1e-5))
    return found
