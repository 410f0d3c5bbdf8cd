"""Backends that compute a tile: torch, and fused kernels on CPUs and GPUs."""

from skconvgp.backends._choose import BACKENDS, BackendChoice, choose_backend
from skconvgp.backends._fused_cpu import (
    extension_file,
    instruction_set,
    missing_extension,
)
from skconvgp.backends._nvrtc import missing_compiler
from skconvgp.backends._patch_responses import (
    Responses,
    ResponsesChoice,
    choose_responses,
)
from skconvgp.backends._pullback import (
    ReversePullback,
    TangentPullback,
    choose_pullback,
)
from skconvgp.backends._reference import ReferenceBackend, TangentBackend
from skconvgp.backends._reverse_tangents import ReverseTangentBackend

__all__ = [
    "BACKENDS",
    "BackendChoice",
    "ReferenceBackend",
    "Responses",
    "ResponsesChoice",
    "ReversePullback",
    "ReverseTangentBackend",
    "TangentBackend",
    "TangentPullback",
    "choose_backend",
    "choose_pullback",
    "choose_responses",
    "extension_file",
    "instruction_set",
    "missing_compiler",
    "missing_extension",
]
