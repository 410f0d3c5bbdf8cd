"""Runner of skconvgp: rates, values, a whole matrix with its memory, gradients."""

from typing import Any

import numpy as np
import torch

import skconvgp
from benchmarks.measure import Stopwatch, forget_peak, size, versions
from benchmarks.models import NETWORKS
from benchmarks.peers.pipe import serve, settings
from skconvgp.backends import _fused_cpu
from skconvgp.kernels import convnet

WARM_UP = 32  # images before the first measurement of a process
# Both variances shared by all layers, one of them, or one of each for every layer.
WITH_PARAMETERS = {
    1: lambda: convnet(bias_variance_bounds="fixed"),
    2: convnet,
    16: lambda: convnet().unshared(),
}


class Runner:
    """Answers about one network on one set of images."""

    def __init__(self, given: dict[str, Any]) -> None:
        torch.set_num_threads(given["n_threads"])
        _fused_cpu.INSTRUCTION_SET = given["instruction_set"]
        self._images = np.load(given["images"])
        self._kernel = NETWORKS[given["network"]]()
        self._options = {name: given[name] for name in ("backend", "dtype")}

    def measure(self, n: int) -> dict[str, Any]:
        """Time the matrix of the first n images: tables, pairs and assembly."""
        images = self._images[:n]
        watch = Stopwatch()
        skconvgp.gram_matrix(self._kernel, images, **self._options)
        return {"pairs": n_pairs(images)} | watch.read()

    def values(self, n: int, path: str) -> dict[str, Any]:
        """Save the matrix of the first n images."""
        chosen = self._images[:n]
        np.save(path, skconvgp.gram_matrix(self._kernel, chosen, **self._options))
        return {}

    def whole(self, n: int, budget: str) -> dict[str, Any]:
        """Time one large matrix and tell the memory held beside it."""
        self.measure(64)  # libraries are loaded, threads are started
        before = forget_peak()
        images = self._images[:n]
        watch = Stopwatch()
        K = skconvgp.gram_matrix(
            self._kernel, images, memory_budget=budget, **self._options
        )
        answer: dict[str, Any] = {"pairs": n_pairs(images)} | watch.read()
        answer["matrix_bytes"] = K.nbytes
        if before is not None:
            answer["bytes_beside"] = size("VmHWM") - before - K.nbytes
        return answer

    def gradient(self, n: int, n_parameters: int) -> dict[str, Any]:
        """Time the matrix with and without its derivatives."""
        kernel, images = WITH_PARAMETERS[n_parameters](), self._images[:n]
        for compute in (skconvgp.gram_matrix, skconvgp.gram_gradient):
            compute(kernel, images[:WARM_UP], **self._options)
        watch = Stopwatch()
        skconvgp.gram_matrix(kernel, images, **self._options)
        value, watch = watch.read(), Stopwatch()
        skconvgp.gram_gradient(kernel, images, **self._options)
        return watch.read() | {"value_" + name: value[name] for name in value}

    @staticmethod
    def versions() -> dict[str, Any]:
        """Return the versions that matter here."""
        return versions()


def n_pairs(images: Any) -> int:
    """Return how many different entries the symmetric matrix has."""
    return len(images) * (len(images) + 1) // 2


def main() -> None:
    """Serve one network on one set of images."""
    runner = Runner(settings())
    names = ("measure", "values", "whole", "gradient", "versions")
    serve({name: getattr(runner, name) for name in names})


if __name__ == "__main__":
    main()
