"""Speed of networks on many channels, beside their layers and the product alone.

    python benchmarks/channels.py

Takes about a minute on one core. A pair of images costs the inner product of their
channels at each position, and the layers. With one channel a pair is the layers alone;
torch's batched product of matrices, one for each position, is the inner product alone.
All take turns on one thread; the best of several runs counts, in seconds of the
processor. Images are random, and tables of images are not counted: there are as many as
images, not as pairs. Prints a table and writes benchmarks/results/channels.json.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from completing.report import save
from peers.machine import machine, versions

from skconvgp.backends import choose_backend
from skconvgp.backends._fused_cpu import instruction_set
from skconvgp.kernels import convnet

RESULTS = Path(__file__).parent / "results" / "channels.json"
SIDE = 8
CHANNELS = (1, 3, 16, 81, 243)
DTYPES = {"float32": torch.float32, "float64": torch.float64}
CPU = torch.device("cpu")
Figures = dict[str, Any]


def main() -> None:
    """Measure, print and save."""
    options = parse()
    torch.set_num_threads(1)
    record: Figures = {"versions": versions(), "machine": machine()}
    record["settings"] = {"n_images": options.n_images, "repeat": options.repeat}
    record |= {"instruction_set": instruction_set(), "rows": []}
    print("microseconds a pair, convnet(depth=2, kernel_size=3) on 8 x 8 positions")
    print(f"{'':<9}{'channels':>9}{'pair':>8}{'/ layers':>10}{'product':>9}{'/ it':>7}")
    for dtype in DTYPES:
        record["rows"] += measure(dtype, options)
    save(options.output, record)


def parse() -> Any:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n-images", type=int, default=256, help="of each side")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--output", type=Path, default=RESULTS)
    return parser.parse_args()


def measure(dtype: str, options: Any) -> list[Figures]:
    """Return a row for each number of channels; all are timed in every round."""
    cases = [make_case(channels, dtype, options.n_images) for channels in CHANNELS]
    runs: list[list[list[float]]] = [[[], []] for _ in cases]
    for _ in range(options.repeat):
        for case, seconds in zip(cases, runs, strict=True):
            for call, times in zip(case, seconds, strict=True):
                start = time.process_time()
                call()
                times.append(time.process_time() - start)
    rows = []
    for channels, (pair, product) in zip(CHANNELS, runs, strict=True):
        best = [1e6 * min(each) / options.n_images**2 for each in (pair, product)]
        layers = rows[0]["pair_us"] if rows else best[0]
        row: Figures = {"dtype": dtype, "channels": channels}
        row |= {"pair_us": best[0], "product_us": best[1]}
        row |= {"pair / layers": best[0] / layers, "pair / product": best[0] / best[1]}
        rows.append(row | {"runs": {"pair": pair, "product": product}})
        print(
            f"{dtype:<9}{channels:>9}{best[0]:>8.3f}{row['pair / layers']:>10.2f}"
            f"{best[1]:>9.3f}{row['pair / product']:>7.2f}",
            flush=True,
        )
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


if __name__ == "__main__":
    main()
