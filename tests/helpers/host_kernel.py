"""Kernels for a GPU, whole, on the processor: a warp after the other."""

import ctypes
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import torch

from skconvgp.backends._cuda_source import KERNEL_NAME
from skconvgp.backends._opcodes import LANES

COMPILER = os.environ.get("CXX", "").split() or ["c++"]
# As the compiled extension is built: what is rounded does not depend on the compiler.
OPTIONS = ["-std=c++17", "-O0", "-ffp-contract=off", "-shared", "-fPIC", "-w"]
has_no_compiler = shutil.which(COMPILER[0]) is None

# What CUDA has and C++ has not, and a loop over the blocks and warps of a launch.
BEFORE = """
struct Place { unsigned x; };
static Place blockIdx, threadIdx;
#define __global__
#define __constant__
#define __launch_bounds__(n)
"""
AFTER = f"""
template <class... T>
static void launch(int n_blocks, int n_threads, T... given) {{
    for (int i = 0; i < n_blocks; ++i)
        for (int j = 0; j < n_threads; j += {LANES}) {{
            blockIdx.x = i;
            threadIdx.x = j;
            {KERNEL_NAME}(given...);
        }}
}}

extern "C" void run(
    int n_blocks, int n_threads, const Number* one, const Number* two,
    const double* diag_one, const double* diag_two, const Number* constants,
    const double* result, double* out, const float* weights, int n_one, int n_two,
    int n_values, int n_pixels, int is_upper) {{
    launch(n_blocks, n_threads, one, two, diag_one, diag_two, constants, result, out,
           weights, n_one, n_two, n_values, n_pixels, is_upper);
}}
"""


class HostKernel:
    """A source that was compiled for the processor, launched like one on a card.

    Parameters
    ----------
    source : str
        What a card gets.
    folder : Path
        For the library.
    """

    def __init__(self, source: str, folder: Path) -> None:
        code, library = folder / "kernel.cpp", folder / "kernel.so"
        code.write_text("\n".join([BEFORE, source, AFTER]), encoding="utf-8")
        command = [*COMPILER, *OPTIONS, str(code), "-o", str(library)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        self._run = ctypes.CDLL(str(library)).run

    def launch(self, n_blocks: int, n_threads: int, arguments: list[object]) -> None:
        """Carry all blocks out; tensors are passed as pointers."""
        self._run(
            n_blocks,
            n_threads,
            *(
                ctypes.c_void_p(item.data_ptr())
                if isinstance(item, torch.Tensor)
                else ctypes.c_int(item)
                for item in arguments
            ),
        )


def on_host(monkeypatch, folder):
    """Let kernels be compiled for the processor, into a folder."""

    @cache
    def load(source, name, device):
        place = folder / f"kernel{len(list(folder.iterdir()))}"
        place.mkdir()
        return HostKernel(source, place)

    monkeypatch.setattr("skconvgp.backends._fused_cuda.load_kernel", load)
