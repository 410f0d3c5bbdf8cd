"""Speed of networks that average over positions, beside torch and the arithmetic floor.

    python benchmarks/pooled_speed.py

Takes about eight minutes on one core, of which torch has most; `--no-torch` takes one.
All networks have convolutions of 3 x 3 and ReLU on images of 32 x 32 with three
channels, in float32 on one thread; the best of several runs counts, in seconds of the
processor. Images are random. Tables of images are not counted, and are shown in a
column of their own; so is the neural tangent kernel of the same network, in times of
the covariance. The floor is that of
`benchmarks/fused_cpu.py`, an activation and its share of a window in registers, for as
many pairs of positions as the network has; it is measured in the same run. torch
computes tiles of a few pairs. Prints a table and writes
benchmarks/results/pooled_speed.json.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from completing.report import save
from peers.floor import build, prepare
from peers.machine import machine, versions

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

RESULTS = Path(__file__).parent / "results" / "pooled_speed.json"
SHAPE = (3, 32, 32)
CPU = torch.device("cpu")
Figures = dict[str, Any]


def layers(n: int) -> list[Layer]:
    """Return n convolutions with ReLU."""
    return [Conv2d(3, weight_variance=2.0), ReLU()] * n


def blur(radius: int, step: int = 1) -> AvgPool2d:
    """Return a local average."""
    return AvgPool2d(2 * radius + 1, stride=1, padding="same", dilation=step)


@dataclass(frozen=True)
class Case:
    """A network, and what of it counts as work.

    Parameters
    ----------
    body : list of Layer
        The network without its dense layer.
    step, reach : int
        Displacements of the average along an axis, multiples of a step.
    n_one, n_two : int
        Images of each side: few if a pair takes long.
    levels : tuple of (int, int)
        Sides of maps, and the layers that each of them has.
    """

    body: list[Layer]
    step: int = 1
    reach: int = 31
    n_one: int = 1
    n_two: int = 16
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


def myrtle(*depths: int) -> Case:
    """Return convolutions at three resolutions, with pools of 2 x 2 between them."""
    one, two, three = map(layers, depths)
    body = [*one, AvgPool2d(2), *two, AvgPool2d(2), *three, GlobalAvgPool2d()]
    return Case(body, levels=tuple(zip((32, 16, 8), depths, strict=True)))


NETWORKS = {
    "5 layers, Flatten": Case([*layers(5), Flatten()], 1, 0, 64, 64),
    "radius 2": Case([*layers(5), blur(2), Flatten()], 1, 4, 8),
    "radius 2, step 2": Case([*layers(5), blur(2, 2), Flatten()], 2, 8, 8),
    "lattice 4": Case([*layers(5), GlobalAvgPool2d(4)], 4, 28, 8),
    "lattice 2": Case([*layers(5), GlobalAvgPool2d(2)], 2, 30, 2),
    "all positions": Case([*layers(5), GlobalAvgPool2d()]),
    "all positions, 20": Case([*layers(20), GlobalAvgPool2d()], levels=((32, 20),)),
    "Myrtle-5": myrtle(2, 1, 1),
    "Myrtle-7": myrtle(2, 2, 2),
    "Myrtle-10": myrtle(3, 3, 3),
}


def main() -> None:
    """Measure, print and save."""
    options = parse()
    torch.set_num_threads(1)
    record: Figures = {"versions": versions(), "machine": machine()}
    record["settings"] = {"repeat": options.repeat, "torch": options.torch}
    record |= {"instruction_set": instruction_set(), "rows": []}
    print("microseconds a pair, milliseconds of tables an image, and times the floor")
    heads = (
        f"{'pair':>9}{'/ floor':>9}{'tables':>8}{'ntk':>6}{'torch':>10}{'/ ours':>8}"
    )
    print(f"{'':<20}{heads}")
    for name in options.networks:
        record["rows"].append(measure(name, options))
        save(options.output, record)


def parse() -> Any:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--networks", nargs="+", default=list(NETWORKS), choices=list(NETWORKS))
    add("--repeat", type=int, default=3)
    add("--torch", action=argparse.BooleanOptionalAction, default=True)
    add("--output", type=Path, default=RESULTS)
    return parser.parse_args()


def measure(name: str, options: Any) -> Figures:
    """Return the figures of a network, and print them."""
    case = NETWORKS[name]
    generator = torch.Generator().manual_seed(0)
    given = torch.randn(case.n_one + case.n_two, *SHAPE, generator=generator)
    n_pairs, vector = case.n_one * case.n_two, floor()
    row: Figures = {"network": name}
    for kind, prefix in (("nngp", ""), ("ntk", "ntk_")):
        kernel = Sequential(*case.body, Dense(), kind=kind)
        runs, tables = by_us(kernel, given, case.n_one, options.repeat)
        row |= {f"{prefix}pair_us": 1e6 * min(runs) / n_pairs, f"{prefix}runs": runs}
        row |= {f"{prefix}tables_ms": tables}
    pair, tables = row["pair_us"], row["tables_ms"]
    least = 1e6 * case.n_activations * vector
    row |= {"n_activations": case.n_activations, "floor_us": least}
    row |= {"pair / floor": pair / least, "ntk / pair": row["ntk_pair_us"] / pair}
    row |= {"torch_us": None}
    if options.torch:
        row["torch_us"] = by_torch(Sequential(*case.body, Dense()), given)
    shown = row["torch_us"] or float("nan")
    print(
        f"{name:<20}{pair:>9.1f}{pair / least:>9.2f}{tables:>8.2f}"
        f"{row['ntk / pair']:>6.2f}{shown:>10.0f}"
        f"{shown / pair:>8.0f}",
        flush=True,
    )
    return row


def by_us(
    kernel: Sequential, given: torch.Tensor, n_one: int, repeat: int
) -> tuple[list[float], float]:
    """Return seconds of runs of all pairs, and milliseconds of tables of an image."""
    kernel.check(SHAPE)
    backend = choose_backend(kernel, SHAPE, "fused", CPU).tiles()
    one, rest = backend.prepare(given[:n_one]), given[n_one:]
    tables = 1e3 * min(seconds(1, lambda: backend.prepare(rest))) / len(rest)
    two = backend.prepare(rest)
    return seconds(repeat, lambda: backend.cross(one, two)), tables


def seconds(repeat: int, call: Callable[[], object]) -> list[float]:
    """Return the seconds of the processor that each of some calls takes."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return times


def floor() -> float:
    """Return the least seconds for an activation and its share of a window."""
    library = build(instruction_set())
    prepare(library)
    n_vectors = 400_000
    times = seconds(20, lambda: library.arithmetic(n_vectors))
    return min(times) / n_vectors / library.lanes()


def by_torch(kernel: Sequential, given: torch.Tensor) -> float:
    """Return microseconds of a pair of images by torch."""
    backend = choose_backend(kernel, SHAPE, "torch", CPU).tiles()
    n_one = 1 if len(given) < 100 else 16
    one, two = backend.prepare(given[:n_one]), backend.prepare(given[-4:])
    return 1e6 * min(seconds(1, lambda: backend.cross(one, two))) / (n_one * 4)


if __name__ == "__main__":
    main()
