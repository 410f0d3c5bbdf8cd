"""The basis of a coarse kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from skconvgp.completion import CoarseKernel
from skconvgp.kernels import Kernel
from skconvgp.processes.basis._plain import KernelBasis, PlainBasis


def coarsened(coarsening: CoarseKernel, basis: PlainBasis) -> KernelBasis:
    """Return the basis of a cheaper kernel, or of the kernel on smaller images."""
    samples: KernelBasis | None = basis.kernel_basis
    if samples is None:
        raise ValueError(
            f"{coarsening!r} needs a kernel that looks at images, got 'precomputed'."
        )
    if coarsening.kernel is None:  # otherwise the given kernel is not coarsened
        _require_spatial(coarsening, samples.kernel)
    kernel, shape = coarsening.coarsen(samples.kernel), samples.image_shape
    if coarsening.pool > min(shape[1:]):
        is_vector = shape[1:] == (1, 1)
        remedy = "rows are read as vectors, set `image_shape`"
        raise ValueError(
            f"{coarsening!r} averages squares of {coarsening.pool} x {coarsening.pool} "
            f"pixels, more than images of shape {shape!r} have: "
            f"{remedy if is_vector else 'lower `pool`'}."
        )
    coarse = replace(samples, kernel=kernel, pool=float(coarsening.pool))
    try:
        if isinstance(kernel, Kernel):
            kernel.check(coarse.map_shape)
    except ValueError as error:
        raise ValueError(
            f"{coarsening!r} gives {kernel!r}, which cannot be used on images of "
            f"shape {shape!r} that are pooled: {error}"
        ) from error
    _require_spatial(coarsening, kernel)
    return coarse.resolved()


def _require_spatial(coarsening: CoarseKernel, kernel: Any) -> None:
    if not isinstance(kernel, Kernel) or not kernel.is_spatial:
        raise ValueError(
            f"{coarsening!r} needs a kernel that looks at images, got {kernel!r}."
        )
