"""Does Kymatio 0.3 have the same scattering coefficients, and in what time?

Kymatio needs SciPy < 1.15 and has an environment of its own, with NumPy and torch:

    python -m benchmarks twin_kymatio write twin.npz  # in the environment of Kymatio
    python -m benchmarks twin_kymatio check twin.npz  # in that of this package

The first line writes random images and Kymatio's coefficients in double precision, and
its seconds for colour images of 32 x 32 pixels in single precision on one thread, with
torch if it is there and else with NumPy. The second one compares, prints and writes
benchmarks/results/twin_kymatio.json. Kymatio has 3.1415 in the place of pi in the
factor of each filter; errors are given as they are, and with that factor taken out.
"""

import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.report import RESULTS

CASES = [(32, 32, 2, 8), (28, 28, 2, 8), (33, 30, 3, 6), (96, 96, 4, 8), (9, 11, 2, 3)]
N_TIMED, REPEATS = 96, 5


def images(height: int, width: int) -> Any:
    """Return random images (2, h, w)."""
    return np.random.default_rng(height).random((2, height, width))


def fastest(compute: Callable[[], object]) -> float:
    """Return processor milliseconds for an image, the least of some runs."""
    seconds = []
    for _ in range(REPEATS):
        start = time.process_time()
        compute()
        seconds.append(time.process_time() - start)
    return 1e3 * min(seconds) / N_TIMED


def write(path: Path) -> None:
    """Write Kymatio's coefficients and times."""
    from kymatio.numpy import Scattering2D

    found: dict[str, Any] = {}
    for height, width, scales, angles in CASES:
        scattering = Scattering2D(scales, (height, width), L=angles)
        name = f"{height}x{width}, J={scales}, L={angles}"
        found[name] = scattering(images(height, width))
    colour = np.random.default_rng(0).random((3 * N_TIMED, 32, 32)).astype(np.float32)
    try:
        import torch
        from kymatio.torch import Scattering2D as Torch2D
    except ImportError:
        numpy_scattering = Scattering2D(2, (32, 32))
        found["ms_numpy"] = fastest(lambda: numpy_scattering(colour))
    else:
        torch.set_num_threads(1)
        tensor, scattering = torch.from_numpy(colour), Torch2D(2, (32, 32))
        found["ms_torch"] = fastest(lambda: scattering(tensor))
    np.savez(path, **found)


def check(path: Path) -> None:
    """Compare with this package, print and record."""
    import torch

    from skconvgp.transforms import ScatteringTransform

    torch.set_num_threads(1)
    file = np.load(path)
    record: dict[str, Any] = {"kymatio": "0.3.0", "errors": {}}
    for height, width, scales, angles in CASES:
        name = f"{height}x{width}, J={scales}, L={angles}"
        theirs = file[name]
        transform = ScatteringTransform(J=scales, L=angles)
        ours = transform.fit_transform(images(height, width)).reshape(theirs.shape)
        n_filters = np.full(theirs.shape[1], 3)
        n_filters[: 1 + scales * angles] = 2
        n_filters[0] = 1
        factor = (3.1415 / math.pi) ** n_filters[:, None, None]
        largest = np.abs(theirs).max()
        record["errors"][name] = {
            "as they are": float(np.abs(ours - theirs).max() / largest),
            "with pi": float(np.abs(ours - theirs * factor).max() / largest),
        }
    colour = np.random.default_rng(0).random((N_TIMED, 3, 32, 32)).astype(np.float32)
    transform = ScatteringTransform().fit(colour)
    record["milliseconds for a colour image of 32 x 32"] = {
        "here": fastest(lambda: transform.transform(colour)),
        **{key[3:]: float(file[key]) for key in file if key.startswith("ms_")},
    }
    print(json.dumps(record, indent=1))
    report.write(RESULTS / "twin_kymatio.json", record)
