"""Backends on a GPU, asked and read from the host."""

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
