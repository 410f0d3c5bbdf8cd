"""The choice of the backend of a kernel, with its reason."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from skconvgp._protocols import TileBackend
from skconvgp._typing import ImageShape
from skconvgp.backends._correlation import CorrelationBackend
from skconvgp.backends._fused import FusedBackend, FusedTangentBackend, Processor
from skconvgp.backends._fused_cpu import Extension, missing_extension
from skconvgp.backends._fused_cuda import Gpu, unusable_gpu
from skconvgp.backends._orbits import AVERAGES, OrbitBackend, averages_outside
from skconvgp.backends._patch_tangents import patch_tangents
from skconvgp.backends._program import Program, lower, lower_with_tangents
from skconvgp.backends._reference import ReferenceBackend
from skconvgp.backends._reverse_tangents import torch_tangents
from skconvgp.backends._terms import SumBackend
from skconvgp.exceptions import NotFusableError
from skconvgp.kernels import Kernel, MaxNormalization, Sum
from skconvgp.kernels._normalizations import CORRELATION
from skconvgp.kernels._orbits import Average
from skconvgp.kernels._passes import n_passes

__all__ = ["BACKENDS", "BackendChoice", "choose_backend"]

BACKENDS = ("auto", "torch", "fused")


@dataclass(frozen=True)
class BackendChoice:
    """The backend of a kernel's tiles, and the reason if it is not the fused one."""

    kernel: Kernel
    image_shape: ImageShape
    # The network lowered for the fused backend; None if torch computes, or if the terms
    # of a sum have a program each.
    program: Program | None
    reason: str = ""  # why torch computes; empty if it does not, or was asked for
    processor: Processor | None = None  # runs the program; None if torch computes
    # Choices for the terms of a sum, if one program cannot have them all.
    terms: "tuple[BackendChoice, ...]" = ()

    @property
    def is_fused(self) -> bool:
        """Return whether the fused backend computes values."""
        return self.program is not None or bool(self.terms)

    @property
    def name(self) -> str:
        """Return "fused" or "torch"."""
        return "fused" if self.is_fused else "torch"

    @property
    def has_tangents(self) -> bool:
        """Return whether the fused backend has derivatives: not of tangent kernels."""
        if self.terms:
            return all(term.has_tangents for term in self.terms)
        return self.program is not None and self.program.n_tangents == 0

    @property
    def has_own_tangents(self) -> bool:
        """Return whether derivatives by `theta` have code of their own.

        Others take a pass of torch for each hyperparameter. Reverse mode takes one for
        all, if a sum over pairs is wanted.
        """
        network = _network(self.kernel)
        return self.has_tangents or bool(patch_tangents(network, self.image_shape))

    @property
    def instruction_set(self) -> str:
        """Return the instructions of the fused backend; empty for torch."""
        return self.processor.instruction_set if self.processor else ""

    def tiles(self) -> TileBackend:
        """Return the backend that computes values."""
        if self.terms:
            return self._finished(SumBackend(tuple(t.tiles() for t in self.terms)))
        if self.program is None or self.processor is None:
            return ReferenceBackend(self.kernel)
        return self._finished(FusedBackend(self.program, self.processor, self.n_passes))

    def tangents(self) -> TileBackend:
        """Return the backend that computes values with derivatives by `theta`."""
        if not self.has_tangents or self.processor is None:
            of_patches = patch_tangents(_network(self.kernel), self.image_shape)
            if of_patches is None:
                return torch_tangents(self.kernel, self.image_shape)
            return self._finished(of_patches)
        if self.terms:
            return self._finished(SumBackend(tuple(t.tangents() for t in self.terms)))
        lowered = lower_with_tangents(
            _network(self.kernel),
            self.image_shape,
            self.processor.tangents_at_once,
            self.processor.roots,
        )
        return self._finished(
            FusedTangentBackend(*lowered, self.processor, self.n_passes)
        )

    @property
    def n_passes(self) -> int:
        """Return how many maps a pair takes, one after another."""
        return n_passes(_network(self.kernel), self.image_shape)

    @property
    def n_displacements(self) -> int:
        """Return the pairs of positions for each position of the image."""
        shape = self.image_shape
        return _network(self.kernel).n_position_pairs(shape) // math.prod(shape[1:])

    def _finished(self, backend: TileBackend) -> TileBackend:
        """Return the backend of the kernel, given the lowered network's."""
        for wrap in reversed(_split_network(self.kernel)[1]):
            backend = wrap(backend)
        return backend


def choose_backend(
    kernel: Kernel, image_shape: ImageShape, backend: str, device: torch.device
) -> BackendChoice:
    """Choose the backend of a kernel for images of a shape.

    "auto" takes the fused backend if it can run the kernel, which was checked for
    images of this shape. With "fused", raises a `ValueError` that names the layer if it
    cannot.
    """
    if backend == "torch":
        return BackendChoice(kernel, image_shape, None)
    reason = missing_extension() or unusable_gpu(device)
    if reason:
        choice = BackendChoice(kernel, image_shape, None, reason)
    else:
        processor = Extension() if device.type == "cpu" else Gpu(device)
        choice = _choose(kernel, image_shape, processor)
    if backend == "fused" and not choice.is_fused:
        raise ValueError(
            f"backend='fused' cannot run this kernel: {choice.reason}. Use "
            "backend='auto' or 'torch'."
        )
    return choice


def _choose(
    kernel: Kernel, image_shape: ImageShape, processor: Processor
) -> BackendChoice:
    """Choose the backend of a kernel: one program, one for each term, or torch."""
    network = _network(kernel)
    try:
        program = lower(network, image_shape, processor.roots)
        processor.require_accepted(program)
    except NotFusableError as error:
        reason = str(error)
    except OverflowError:
        reason = "its sizes and tables are too large"
    else:
        return BackendChoice(kernel, image_shape, program, "", processor)
    if type(network) is Sum:
        terms = tuple(_choose(term, image_shape, processor) for term in network.parts)
        if all(term.is_fused for term in terms):
            return BackendChoice(kernel, image_shape, None, "", processor, terms)
    return BackendChoice(kernel, image_shape, None, reason)


def _network(kernel: Kernel) -> Kernel:
    """Return the network to lower."""
    return _split_network(kernel)[0]


def _split_network(
    kernel: Kernel,
) -> tuple[Kernel, list[Callable[[TileBackend], TileBackend]]]:
    """Return the network within a kernel, and the kernels around it, outer first.

    Kernels of correlations and averages over orbits are computed from other tiles.
    """
    wraps: list[Callable[[TileBackend], TileBackend]] = []
    while True:
        kernel = averages_outside(kernel)
        if isinstance(kernel, Average) and type(kernel) in AVERAGES:
            wraps.append(partial(OrbitBackend, average=kernel))
        elif type(kernel) is MaxNormalization and kernel.mode == CORRELATION:
            wraps.append(CorrelationBackend)
        else:
            return kernel, wraps
        kernel = kernel.kernel
