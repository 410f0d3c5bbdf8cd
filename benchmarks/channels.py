"""How much do networks on many channels cost, beside their layers and the products?

    python -m benchmarks channels

Takes about a minute on one core. A pair of images costs the inner product of their
channels at each position, and the layers. With one channel a pair is the layers alone;
torch's batched product of matrices, one for each position, is the inner product alone.
All take turns on one thread; the best of several runs counts, in seconds of the
processor. Images are random, and tables of images are not counted: there are as many as
images, not as pairs.
"""

from collections.abc import Callable
from typing import Any

import torch

from benchmarks.measure import Record, runs_of
from benchmarks.report import Figures, show
from skconvgp.backends import choose_backend
from skconvgp.backends._fused_cpu import instruction_set
from skconvgp.kernels import convnet

PARTS: dict[str, tuple[str, ...]] = {"rows": ()}
SIDE = 8
CHANNELS = (1, 3, 16, 81, 243)
DTYPES = {"float32": torch.float32, "float64": torch.float64}
CPU = torch.device("cpu")


def options(add: Any) -> None:
    add("--n-images", type=int, default=256, help="of each side")
    add("--repeat", type=int, default=7)


def run(options: Any, record: Record) -> None:
    torch.set_num_threads(1)
    settings = {"n_images": options.n_images, "repeat": options.repeat}
    record.write(settings=settings, instruction_set=instruction_set())
    print("microseconds a pair, convnet(depth=2, kernel_size=3) on 8 x 8 positions")
    show("channels", ("pair", "/ layers", "product", "/ it"), 17)
    for dtype in DTYPES:
        for row in measure(dtype, options):
            record.add("rows", row)


def measure(dtype: str, options: Any) -> list[Figures]:
    """Return a row for each number of channels; all are timed in every round."""
    cases = [make_case(channels, dtype, options.n_images) for channels in CHANNELS]
    runs: list[list[list[float]]] = [[[], []] for _ in cases]
    for _ in range(options.repeat):
        for case, seconds in zip(cases, runs, strict=True):
            for call, times in zip(case, seconds, strict=True):
                times.extend(runs_of(call, 1))
    rows: list[Figures] = []
    for channels, (pair, product) in zip(CHANNELS, runs, strict=True):
        best = [1e6 * min(each) / options.n_images**2 for each in (pair, product)]
        layers = rows[0]["pair_us"] if rows else best[0]
        row: Figures = {"dtype": dtype, "channels": channels}
        row |= {"pair_us": best[0], "product_us": best[1]}
        row |= {"pair / layers": best[0] / layers, "pair / product": best[0] / best[1]}
        rows.append(row | {"runs": {"pair": pair, "product": product}})
        ratios = row["pair / layers"], best[1], row["pair / product"]
        show(f"{dtype} {channels:>8}", (best[0], *ratios), 17)
    return rows


def make_case(
    channels: int, dtype: str, n_images: int
) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return the calls for all pairs of two sets: ours, and torch's products."""
    generator = torch.Generator().manual_seed(channels)
    shape = channels, SIDE, SIDE
    given = torch.randn(2, n_images, *shape, generator=generator, dtype=DTYPES[dtype])
    kernel = convnet(depth=2, kernel_size=3)
    backend = choose_backend(kernel, shape, "fused", CPU).tiles()
    one, two = (backend.prepare(images) for images in given)
    by_position = given.flatten(3).permute(0, 3, 1, 2).contiguous()
    first, second = by_position[0], by_position[1].mT.contiguous()
    return lambda: backend.cross(one, two), lambda: torch.bmm(first, second)
