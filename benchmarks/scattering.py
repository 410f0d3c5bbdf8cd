"""How fast is scattering by the compiled extension, beside torch?

    python -m benchmarks scattering

Takes about two minutes on one core. The same coefficients of uniform noise are computed
by torch and by the extension with each instruction set that the processor has, on one
thread and in turn; the least of several runs counts, in milliseconds of the processor
for an image of one channel. Errors are shares of the largest coefficient, against torch
in double precision. "one" is an image that comes alone.
"""

from functools import partial
from typing import Any

import torch

from benchmarks.measure import Record, runs_of
from benchmarks.report import Figures, Target, show
from skconvgp.backends import _fused_cpu
from skconvgp.backends._fused_cpu import instruction_sets
from skconvgp.image_maps import Scattering

PARTS: dict[str, tuple[str, ...]] = {"rows": ()}
# Height, width, J, images, and the least ratio to torch if vectors are wide.
CASES: list[tuple[int, int, int, int, float | None]] = [
    (8, 8, 1, 256, None),
    (28, 28, 2, 64, 9.0),
    (32, 32, 1, 64, None),
    (32, 32, 2, 64, 10.0),
    (32, 32, 3, 64, 10.0),
    (32, 32, 4, 64, None),
    (48, 32, 3, 64, None),
    (64, 64, 3, 32, None),
    (64, 64, 4, 32, None),
    (96, 96, 3, 32, 6.0),
    (112, 112, 4, 16, None),
]
N_ANGLES, WIDE = 8, ("avx2", "avx512", "avx512_newton")
# Torch, and the name of an instruction set that has no scattering.
TORCH, NONE = "torch", "lanes"
COLUMNS = ("ms", "torch / it", "error", "one, ms")


def options(add: Any) -> None:
    add("--repeat", type=int, default=9)


def run(options: Any, record: Record) -> list[Target]:
    torch.set_num_threads(1)
    wanted: list[Target] = []
    show("", COLUMNS, 36)
    for *case, least in CASES:
        for row in measure(*case, options.repeat):
            record.add("rows", row)
            name = f"{row['height']}x{row['width']}, J={row['n_scales']}, {row['way']}"
            figures = row["ms"], row["ratio"], row["error"], row["ms_alone"]
            show(name, figures, 36)
            if least and row["way"] in WIDE:
                wanted.append((name, row["ratio"], "at least", least))
    return wanted


def measure(
    height: int, width: int, n_scales: int, n: int, repeat: int
) -> list[Figures]:
    """Return times and errors of torch and of each instruction set."""
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(n, 1, height, width, generator=generator)
    scattering = Scattering(n_scales, N_ANGLES, 2)
    exact = scattering(images.double())
    largest = float(exact.abs().max())
    ways = [TORCH, *instruction_sets()]
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    alone: dict[str, list[float]] = {way: [] for way in ways}
    errors = {}
    for _ in range(repeat):
        for way in ways:
            _fused_cpu.INSTRUCTION_SET = NONE if way == TORCH else way
            errors[way] = float((scattering(images) - exact).abs().max())
            seconds[way] += runs_of(partial(scattering, images), 1)
            alone[way] += runs_of(partial(scattering, images[:1]), 1)
    return [
        {
            "height": height,
            "width": width,
            "n_scales": n_scales,
            "n_images": n,
            "way": way,
            "ms": 1e3 * min(seconds[way]) / n,
            "ms_alone": 1e3 * min(alone[way]),
            "ratio": min(seconds[TORCH]) / min(seconds[way]),
            "error": errors[way] / largest,
        }
        for way in ways
    ]
