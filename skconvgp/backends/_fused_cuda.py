"""Programs of fused networks, run on a GPU by kernels compiled for them."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from skconvgp._threads import allowed_threads
from skconvgp.backends._cuda_source import KERNEL_NAME, cuda_source, layout_of
from skconvgp.backends._displacements import has_pools_apart, passes_of, weights_of
from skconvgp.backends._fused_cpu import Extension, table_size
from skconvgp.backends._nvrtc import (
    CudaKernel,
    architecture,
    knows_architecture,
    load_kernel,
    missing_compiler,
)
from skconvgp.backends._opcodes import (
    LANES,
    LARGEST_WIDTH,
    LARGEST_WINDOW,
    WARPS,
    AxisColumn,
    Kind,
)
from skconvgp.backends._program import Program
from skconvgp.exceptions import NotFusableError

__all__ = ["Gpu", "unusable_gpu"]

HOST = torch.device("cpu")
OLDEST = (7, 0)  # compute capability; NVRTC supports 7.0 up to CUDA 12, 7.5 since
LARGEST_THREAD = 2**18  # bytes of a lane; a thread of a GPU may have twice as much
# Derivatives in one pass over a pair: with so many, maps of 28 rows stay in registers.
TANGENTS_AT_ONCE = 3
IMAGES_AT_ONCE = 64  # images whose tables a thread of the host computes in one call


def unusable_gpu(device: torch.device) -> str:
    """Say why a GPU cannot be used; empty if it can, or for the CPU."""
    if device.type == "cpu":
        return ""
    reason = missing_compiler()
    if not reason:
        capability = torch.cuda.get_device_capability(device)
        if capability < OLDEST:
            has, needs = (".".join(map(str, pair)) for pair in (capability, OLDEST))
            reason = f"its compute capability is {has}, below {needs}"
        elif not knows_architecture(device):
            reason = f"the compiler of torch does not know {architecture(device)}"
    return f"there are no fused kernels for device {device}: {reason}" if reason else ""


@dataclass(frozen=True)
class Gpu:
    """Runs programs on a GPU; the maps of a pair stay in the registers of a warp.

    The tables of an image and its variance are computed in double precision by the
    compiled extension, on the host. Values are float64.
    """

    device: torch.device

    @property
    def instruction_set(self) -> str:
        """Name of the architecture: sm_90 is compute capability 9.0."""
        return architecture(self.device)

    @property
    def roots(self) -> int:
        """Values of a position in the tables of piecewise linear activations."""
        return 1

    @property
    def tangents_at_once(self) -> int:
        """Largest number of derivatives in one pass over a pair."""
        return TANGENTS_AT_ONCE

    def require_accepted(self, program: Program) -> None:
        """Raise NotFusableError if a program has no kernel, or is too large for one."""
        if not has_pools_apart(program):
            raise NotFusableError(
                "between convolutions GPUs have kernels only for averages over windows "
                "that do not overlap, without padding"
            )
        Extension().require_accepted(program)
        sizes, outputs = map(program.of_axes, (AxisColumn.SIZE, AxisColumn.OUTPUTS))
        width = max(sizes[:, 1].max(), outputs[:, 1].max())
        windows = program.of_axes(AxisColumn.WINDOW)[program.kinds == Kind.BOX]
        if width > LARGEST_WIDTH or windows.max(initial=0) > LARGEST_WINDOW:
            raise NotFusableError(
                f"on a GPU maps are at most {LARGEST_WIDTH} columns wide, and windows "
                f"{LARGEST_WINDOW}"
            )
        # Each derivative adds maps of the same size; tangent kernels have none.
        n_bytes = layout_of(program, is_double=True).n_bytes
        if not program.is_ntk:
            n_bytes *= 1 + TANGENTS_AT_ONCE
        if n_bytes > LARGEST_THREAD:
            raise NotFusableError("on a GPU its maps are too high")

    def image_bytes(self, program: Program, image: Tensor) -> int:
        """Return the bytes of the tables of an image like this one (1, c, h, w)."""
        return table_size(program) * image.itemsize

    def worker_bytes(self, program: Program, image: Tensor) -> int:
        """Return the bytes that a call holds beside its arguments and its result.

        Maps that do not fit into registers take memory of the GPU, for as many threads
        as it can run at the same time.
        """
        layout = layout_of(program, is_double=image.dtype == torch.float64)
        if layout.in_registers:
            return 0
        return layout.n_bytes * _running_threads(self.device)

    def prepare(self, program: Program, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return the tables (n, t) and the variances (n, 1 + p) of images."""
        parts = torch.split(images.to(HOST), IMAGES_AT_ONCE)
        with ThreadPoolExecutor(allowed_threads()) as pool:
            pairs = list(
                pool.map(lambda part: Extension().prepare(program, part), parts)
            )
        tables, diag = (torch.cat(part) for part in zip(*pairs, strict=True))
        return tables.to(self.device), diag.to(self.device)

    def cross(
        self,
        program: Program,
        one: tuple[Tensor, Tensor],
        two: tuple[Tensor, Tensor],
        *,
        is_upper: bool,
    ) -> Tensor:
        """Return covariances (n1, n2, 1 + p) from tables and variances of two sides."""
        (first, first_diag), (second, second_diag) = one, two
        shape = (len(first), len(second), program.constants.shape[2])
        out = first.new_empty(shape, dtype=torch.float64)
        if not out.numel():
            return out
        is_double = first.dtype == torch.float64
        pairs = layout_of(program, is_double=is_double).pairs
        n_blocks = 1
        for n, n_pairs, n_warps in zip(shape, pairs, WARPS, strict=False):
            n_blocks *= -(-n // (n_pairs * n_warps))
        _kernel(program, is_double, first.device).launch(
            n_blocks,
            WARPS[0] * WARPS[1] * LANES,
            [
                *(first.contiguous(), second.contiguous()),
                *(first_diag.contiguous(), second_diag.contiguous()),
                *_constants(program, first.dtype, first.device),
                out,
                _weights(program, first.device),
                *(len(first), len(second), first.shape[1], program.n_pixels),
                int(is_upper),
            ],
        )
        return out


def _running_threads(device: torch.device) -> int:
    gpu = torch.cuda.get_device_properties(device)
    return int(gpu.multi_processor_count * gpu.max_threads_per_multi_processor)


def _kernel(program: Program, is_double: bool, device: torch.device) -> CudaKernel:
    return load_kernel(cuda_source(program, is_double=is_double), KERNEL_NAME, device)


@lru_cache(maxsize=8)  # some megabytes each for long images
def _weights(program: Program, device: torch.device) -> Tensor:
    """Return numbers of windows; none if no positions are averaged."""
    weights = weights_of(program) if passes_of(program) else np.zeros(1, np.float32)
    return torch.from_numpy(weights).to(device)


@lru_cache(maxsize=256)
def _constants(
    program: Program, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Return the constants of all operations; the last has them in float64 as well."""
    constants = torch.from_numpy(np.ascontiguousarray(program.constants))
    return constants.to(device, dtype), constants[-1].to(device)
