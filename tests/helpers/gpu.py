"""Backends on a GPU, asked and read from the host."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from skconvgp._protocols import TileBackend
from skconvgp.backends import choose_backend

GPU = torch.device("cuda")
# Relative to sqrt(K_ii K_jj).
GPU_BOUNDS = {torch.float32: 1e-5, torch.float64: 1e-11}


@dataclass(frozen=True)
class FromHost:
    """Takes images to the GPU, and its values back."""

    backend: TileBackend

    def measure(self, image):
        return self.backend.measure(image.to(GPU))

    def prepare(self, images):
        return self.backend.prepare(images.to(GPU))

    def cross(self, one, two):
        return self.backend.cross(one, two).cpu().double()

    def gram(self, one):
        return self.backend.gram(one).cpu().double()

    def diag(self, one):
        return self.backend.diag(one).cpu().double()


def chosen(kernel, shape, backend="fused"):
    """Return what computes a kernel on the GPU."""
    kernel.check(shape)
    return choose_backend(kernel, shape, backend, GPU)


def on_gpu(kernel, shape):
    """Return the fused backend of a kernel on the GPU."""
    return FromHost(chosen(kernel, shape).tiles())


@contextmanager
def coarse_products() -> Iterator[Callable[[], bool]]:
    """Let torch shorten products of matrices to TF32; yield what says that it may."""
    matmul = torch.backends.cuda.matmul
    is_new = hasattr(matmul, "fp32_precision")  # torch 2.9 and later
    name, coarse = ("fp32_precision", "tf32") if is_new else ("allow_tf32", True)
    before = getattr(matmul, name)
    setattr(matmul, name, coarse)
    try:
        yield lambda: bool(getattr(matmul, name) == coarse)
    finally:
        setattr(matmul, name, before)
