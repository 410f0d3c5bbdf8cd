"""How fast are networks that average over positions, beside peers and the floor?

    python -m benchmarks pooled_speed

Takes about 15 minutes on one core, of which torch and neural-tangents have most;
`--no-torch --no-neural-tangents` takes a minute or less. neural-tangents is installed
into an environment of its own. All networks have convolutions of 3 x 3 and ReLU on
images of 32 x 32 with three channels, in float32 on one thread; the best of several
runs counts, in seconds of the processor. Images are random, those of neural-tangents
smooth. Tables of images are not counted, and are shown in a column of their own; so is
the neural tangent kernel of the same network, in times of the covariance. The floor is
that of `fused_cpu`, an activation and its share of a window in registers,
for as many pairs of positions as the network has; it is measured in the same run. torch
computes tiles of a few pairs, neural-tangents compiled blocks of 4 x 4 pairs; it has no
averages with steps.
"""

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.data import generated
from benchmarks.measure import Record, difference, runs_of
from benchmarks.peers.environment import default_folder, python_with_neural_tangents
from benchmarks.peers.floor import build, prepare
from benchmarks.peers.pipe import Worker
from benchmarks.peers.pooled import (
    POOLED,
    POOLED_SIZE,
    POOLED_VARIANCE,
    Steps,
    is_common,
)
from benchmarks.report import Figures, show
from skconvgp import gram_matrix
from skconvgp.backends import choose_backend
from skconvgp.backends._fused_cpu import instruction_set
from skconvgp.kernels import (
    AvgPool2d,
    Conv2d,
    Dense,
    Flatten,
    GlobalAvgPool2d,
    Layer,
    ReLU,
    Sequential,
)

PARTS: dict[str, tuple[str, ...]] = {"rows": ()}
SHAPE = (3, 32, 32)
PEERS = ("torch_us", "neural_tangents_us")
BATCH = 4  # images of a side of a block of neural-tangents
SINGLE_AGREEMENT = 1e-3  # of its float32; in float64 it agrees to 1e-13
CPU = torch.device("cpu")
SHOWN = ("pair_us", "pair / floor", "tables_ms", "ntk / pair", *PEERS)


def body(steps: Steps) -> list[Layer]:
    """Return the layers of a network but for the dense one."""
    found: list[Layer] = []
    for kind, *sizes in steps:
        found += LAYERS[kind](*sizes)
    return found


def layers(n: int) -> list[Layer]:
    """Return n convolutions with ReLU."""
    return [Conv2d(POOLED_SIZE, weight_variance=POOLED_VARIANCE), ReLU()] * n


def blur(radius: int, step: int) -> list[Layer]:
    """Return a local average."""
    return [AvgPool2d(2 * radius + 1, stride=1, padding="same", dilation=step)]


LAYERS: dict[str, Callable[..., list[Layer]]] = {
    "layers": layers,
    "pool": lambda side: [AvgPool2d(side)],
    "average": blur,
    "global": lambda lattice: [GlobalAvgPool2d(lattice)],
    "flatten": lambda: [Flatten()],
}


@dataclass(frozen=True)
class Work:
    """What counts as work of a network."""

    step: int = 1  # displacements of the average along an axis are multiples of it
    reach: int = 31  # the largest displacement
    n_one: int = 1  # images of one side, and of the other: few if a pair takes long
    n_two: int = 16
    # Sides of maps, and the layers that each of them has.
    levels: tuple[tuple[int, int], ...] = ((32, 5),)

    @property
    def n_activations(self) -> int:
        """Activations of a pair of images."""
        total = 0
        for side, n_layers in self.levels:
            reach = min(self.reach, side - 1)
            moves = range(-reach // self.step * self.step, reach + 1, self.step)
            pairs = sum(side - abs(move) for move in moves if abs(move) < side)
            total += n_layers * pairs**2
        return total


WORK = {
    "5 layers, Flatten": Work(1, 0, 64, 64),
    "radius 2": Work(1, 4, 8),
    "radius 2, step 2": Work(2, 8, 8),
    "lattice 4": Work(4, 28, 8),
    "lattice 2": Work(2, 30, 2),
    "all positions": Work(),
    "all positions, 20": Work(levels=((32, 20),)),
    "Myrtle-5": Work(levels=((32, 2), (16, 1), (8, 1))),
    "Myrtle-7": Work(levels=((32, 2), (16, 2), (8, 2))),
    "Myrtle-10": Work(levels=((32, 3), (16, 3), (8, 3))),
}


def options(add: Any) -> None:
    add("--networks", nargs="+", default=list(POOLED), choices=list(POOLED))
    add("--repeat", type=int, default=3)
    add("--torch", action=argparse.BooleanOptionalAction, default=True)
    add("--neural-tangents-env", type=Path, default=default_folder())
    add("--neural-tangents", action=argparse.BooleanOptionalAction, default=True)


def run(options: Any, record: Record) -> None:
    torch.set_num_threads(1)
    options.python = None
    if options.neural_tangents:
        options.python = python_with_neural_tangents(options.neural_tangents_env)
    settings = {"repeat": options.repeat, "torch": options.torch}
    record.write(settings=settings, instruction_set=instruction_set())
    print("microseconds a pair, milliseconds of tables an image, and times the floor")
    show("", ("pair", "/ floor", "tables", "ntk", "torch", "n.-t."), 20)
    for name in options.networks:
        row = measure(name, options, record.figures["versions"])
        record.add("rows", row)
        show(name, (row[score] for score in SHOWN), 20)


def measure(name: str, options: Any, versions: Figures) -> Figures:
    """Return the figures of a network."""
    work, network = WORK[name], body(POOLED[name])
    generator = torch.Generator().manual_seed(0)
    given = torch.randn(work.n_one + work.n_two, *SHAPE, generator=generator)
    n_pairs, vector = work.n_one * work.n_two, floor()
    row: Figures = {"network": name}
    for kind, prefix in (("nngp", ""), ("ntk", "ntk_")):
        kernel = Sequential(*network, Dense(), kind=kind)
        runs, tables = by_us(kernel, given, work.n_one, options.repeat)
        row |= {f"{prefix}pair_us": 1e6 * min(runs) / n_pairs, f"{prefix}runs": runs}
        row |= {f"{prefix}tables_ms": tables}
    pair = row["pair_us"]
    least = 1e6 * work.n_activations * vector
    row |= {"n_activations": work.n_activations, "floor_us": least}
    row |= {"pair / floor": pair / least, "ntk / pair": row["ntk_pair_us"] / pair}
    row |= dict.fromkeys(PEERS)
    kernel = Sequential(*network, Dense())
    if options.torch:
        row["torch_us"] = by_torch(kernel, given)
    if options.python and is_common(name):
        found = by_neural_tangents(name, kernel, options.python)
        row["neural_tangents_us"] = found["us"]
        versions |= found["versions"]
    return row


def by_us(
    kernel: Sequential, given: torch.Tensor, n_one: int, repeat: int
) -> tuple[list[float], float]:
    """Return seconds of runs of all pairs, and milliseconds of tables of an image."""
    kernel.check(SHAPE)
    backend = choose_backend(kernel, SHAPE, "fused", CPU).tiles()
    one, rest = backend.prepare(given[:n_one]), given[n_one:]
    tables = 1e3 * min(runs_of(lambda: backend.prepare(rest), 1)) / len(rest)
    two = backend.prepare(rest)
    return runs_of(lambda: backend.cross(one, two), repeat), tables


def floor() -> float:
    """Return the least seconds for an activation and its share of a window."""
    library = build(instruction_set())
    prepare(library)
    n_vectors = 400_000
    times = runs_of(lambda: library.arithmetic(n_vectors), 20)
    return min(times) / n_vectors / library.lanes()


def by_torch(kernel: Sequential, given: torch.Tensor) -> float:
    """Return microseconds of a pair of images by torch."""
    backend = choose_backend(kernel, SHAPE, "torch", CPU).tiles()
    n_one = 1 if len(given) < 100 else 16
    one, two = backend.prepare(given[:n_one]), backend.prepare(given[-4:])
    return 1e6 * min(runs_of(lambda: backend.cross(one, two), 1)) / (n_one * 4)


def by_neural_tangents(name: str, kernel: Sequential, python: str) -> Figures:
    """Return microseconds of a pair by neural-tangents, and its versions.

    It is refused if its values are not ours: it would compute another network.
    """
    with tempfile.TemporaryDirectory() as folder:
        images, values = Path(folder) / "images.npy", Path(folder) / "values.npy"
        X = generated(2 * BATCH, SHAPE)
        np.save(images, X)
        settings = {"network": name, "images": str(images), "dtype": "float32"}
        worker = Worker("neural_tangents", settings, python=python)
        try:
            run = worker.ask("measure", batch=BATCH, seconds=0)
            worker.ask("values", n=BATCH, path=str(values))
            told = worker.ask("versions")
        finally:
            worker.close()
        ours = gram_matrix(kernel, X[:BATCH], dtype="float64")
        apart = difference(np.load(values), ours)
    if not apart <= SINGLE_AGREEMENT:
        raise RuntimeError(f"neural-tangents differs by {apart:.1e} on {name}.")
    return {"us": 1e6 * run["cpu_seconds"] / run["pairs"], "versions": told}
