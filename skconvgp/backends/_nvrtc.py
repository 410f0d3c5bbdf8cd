"""Kernels compiled at run time, by NVRTC and the CUDA driver.

The compiler is installed with torch and the driver with the GPU, so that users need no
CUDA toolkit. torch's wrapper of both is not used, since it needs the toolkit's headers.
"""

import ctypes
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

__all__ = [
    "CudaKernel",
    "architecture",
    "compile_cuda",
    "known_architectures",
    "knows_architecture",
    "load_kernel",
    "missing_compiler",
]

# Without fused multiply-add: rounding must not depend on which products and sums a
# compiler fuses.
OPTIONS = ("--std=c++17", "--fmad=false")
OUT_OF_MEMORY = 2  # error code of the driver
BUILTINS = ("libnvrtc-builtins.so*", "nvrtc-builtins*.dll")  # libraries of the compiler


@dataclass(frozen=True)
class CudaKernel:
    """A kernel that is loaded on a device."""

    function: int  # handle of the driver
    device: torch.device

    def launch(self, n_blocks: int, n_threads: int, arguments: list[object]) -> None:
        """Queue the kernel on torch's stream; tensors are passed as pointers."""
        values = [
            ctypes.c_void_p(item.data_ptr())
            if isinstance(item, torch.Tensor)
            else ctypes.c_int(item)  # type: ignore[arg-type]
            for item in arguments
        ]
        pointers = (ctypes.c_void_p * len(values))(
            *(ctypes.addressof(value) for value in values)
        )
        stream = torch.cuda.current_stream(self.device).cuda_stream
        with torch.cuda.device(self.device):
            _enter(self.device)
            _check(
                _driver().cuLaunchKernel(
                    ctypes.c_void_p(self.function),
                    *(n_blocks, 1, 1),
                    *(n_threads, 1, 1),
                    0,
                    ctypes.c_void_p(stream),
                    pointers,
                    None,
                )
            )


# The driver needs a context in each thread. torch creates it with its first call of the
# CUDA run time in the thread, which may come later than our first kernel.
_THREAD = threading.local()


def _enter(device: torch.device) -> None:
    """Make sure that the calling thread has a context of the device."""
    entered: set[torch.device] = _THREAD.__dict__.setdefault("entered", set())
    if device not in entered:
        torch.cuda.synchronize(device)
        entered.add(device)


def missing_compiler() -> str:
    """Say why kernels cannot be compiled; empty if they can."""
    if torch.version.cuda is None:
        return "this torch was built without CUDA"
    try:
        _compiler(torch.version.cuda)
    except OSError as error:
        return f"the run-time compiler of CUDA was not found ({error})"
    return ""


def architecture(device: torch.device) -> str:
    """Return the compiler's name of a device's architecture, such as "sm_90"."""
    major, minor = torch.cuda.get_device_capability(device)
    return f"sm_{major}{minor}"


def knows_architecture(device: torch.device) -> bool:
    """Say whether the compiler supports the architecture of a device."""
    return architecture(device) in known_architectures(torch.version.cuda or "")


def known_architectures(version: str) -> list[str]:
    """Return the architectures that a compiler of CUDA supports, such as "sm_90"."""
    compiler = _compiler(version)
    n = ctypes.c_int()
    compiler.nvrtcGetNumSupportedArchs(ctypes.byref(n))
    known = (ctypes.c_int * n.value)()
    compiler.nvrtcGetSupportedArchs(known)
    return [f"sm_{number}" for number in known]


@lru_cache(maxsize=256)
def load_kernel(source: str, name: str, device: torch.device) -> CudaKernel:
    """Compile a kernel for a device and load it, once.

    Raises a `RuntimeError` if the compiler or the driver reports an error.
    """
    version = torch.version.cuda or ""
    binary = compile_cuda(source, architecture(device), version)
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    with torch.cuda.device(device):
        _enter(device)
        driver = _driver()
        _check(driver.cuModuleLoadData(ctypes.byref(module), binary))
        _check(
            driver.cuModuleGetFunction(ctypes.byref(function), module, name.encode())
        )
    return CudaKernel(function.value or 0, device)


@lru_cache(maxsize=256)
def compile_cuda(source: str, architecture: str, version: str) -> bytes:
    """Return the machine code of a source for an architecture such as "sm_90".

    Raises a `RuntimeError` with the log of the compiler if the source does not compile.
    """
    compiler = _compiler(version)
    program = ctypes.c_void_p()
    created = compiler.nvrtcCreateProgram(
        ctypes.byref(program), source.encode(), b"skconvgp.cu", 0, None, None
    )
    if created != 0:
        raise RuntimeError(f"The compiler of CUDA cannot be used: error {created}.")
    try:
        options = [f"--gpu-architecture={architecture}", *OPTIONS]
        given = (ctypes.c_char_p * len(options))(*(item.encode() for item in options))
        if compiler.nvrtcCompileProgram(program, len(options), given) != 0:
            log = _read(
                program, compiler.nvrtcGetProgramLogSize, compiler.nvrtcGetProgramLog
            )
            text = log.rstrip(b"\0").decode()
            raise RuntimeError(
                f"The kernel does not compile for {architecture}: {text}"
            )
        return _read(program, compiler.nvrtcGetCUBINSize, compiler.nvrtcGetCUBIN)
    finally:
        compiler.nvrtcDestroyProgram(ctypes.byref(program))


def _read(program: ctypes.c_void_p, get_size: Any, get: Any) -> bytes:
    size = ctypes.c_size_t()
    get_size(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    get(program, buffer)
    return buffer.raw


@lru_cache
def _compiler(version: str) -> ctypes.CDLL:
    """Return the compiler of a CUDA version, from torch, its packages or the system."""
    major = version.split(".")[0]
    names = [f"libnvrtc.so.{major}", "libnvrtc.so"]
    if sys.platform == "win32":
        names = [f"nvrtc64_{major}0_0.dll"]
    # torch's compiler is as new as torch; the system's may not support a new GPU.
    for folder in _folders():
        for name in names:
            with suppress(OSError):
                return _load(folder, name)
    for name in names:
        with suppress(OSError):
            return _load(None, name)
    return _load(None, names[0])  # raises an error that names the missing file


def _load(folder: Path | None, name: str) -> ctypes.CDLL:
    if folder is None:
        return ctypes.CDLL(name)
    library = ctypes.CDLL(str(folder / name))
    for pattern in BUILTINS:  # the compiler does not find them in its folder by itself
        for part in sorted(folder.glob(pattern)):
            ctypes.CDLL(str(part))
    return library


def _folders() -> list[Path]:
    """Return the folders of Python packages that may contain the compiler."""
    folders = [Path(torch.__file__).parent / "lib"]
    spec = find_spec("nvidia")
    for root in (spec.submodule_search_locations or []) if spec else []:
        for pattern in ("*/lib", "*/bin", "*/bin/x86_64"):
            folders += sorted(Path(root).glob(pattern))
    return folders


@lru_cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")


def _check(result: int) -> None:
    if result == 0:
        return
    text = ctypes.c_char_p()
    _driver().cuGetErrorString(result, ctypes.byref(text))
    message = text.value.decode() if text.value else f"error {result}"
    if result == OUT_OF_MEMORY:  # torch's error, upon which tiles are made smaller
        raise torch.cuda.OutOfMemoryError(f"CUDA: {message}.")
    raise RuntimeError(f"CUDA: {message}.")
