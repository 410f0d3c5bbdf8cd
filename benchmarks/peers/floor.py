"""Runner that asks the machine itself: its clock and its own arithmetic floor.

Two loops in C, compiled here with the machine's compiler and called through ctypes:
a chain of dependent additions, one cycle each, and per vector nine independent
multiply-adds and one square root, which is what one position of one layer costs.
"""

import ctypes
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.peers.networks import MULTIPLY_ADDS
from benchmarks.peers.pipe import serve, settings

N_ADDITIONS = 4_000_000
N_VECTORS = 400_000
N_TRIES = 300  # of a millisecond: some of them have the core to themselves

NATIVE = ["-march=native"]
OPTIONS = {"avx2": ["-march=haswell"], "baseline": []}  # of narrower vectors

SOURCE = r"""
#include <stdint.h>
#if defined(__AVX512F__)
#include <immintrin.h>
enum { LANES = 16 };
typedef __m512 vector;
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define ROOT(a) _mm512_sqrt_ps(a)
#define ALL(x) _mm512_set1_ps(x)
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
enum { LANES = 8 };
typedef __m256 vector;
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define ROOT(a) _mm256_sqrt_ps(a)
#define ALL(x) _mm256_set1_ps(x)
#elif defined(__aarch64__)
#include <arm_neon.h>
enum { LANES = 4 };
typedef float32x4_t vector;
#define FMA(a, b, c) vfmaq_f32(c, a, b)
#define ROOT(a) vsqrtq_f32(a)
#define ALL(x) vdupq_n_f32(x)
#else
enum { LANES = 0 };
#endif

int lanes(void) { return LANES; }

/* A register is added, not a constant: some processors fold constants away. */
uint64_t chain(uint64_t n, uint64_t step)
{
    uint64_t x = 0;
    for (uint64_t i = 0; i < n; i += 8)
        for (int j = 0; j < 8; j++) {
            x += step;
            __asm__ volatile("" : "+r"(x));
        }
    return x;
}

#if defined(ROOT)
float arithmetic(uint64_t n)
{
    /* a and b feed on themselves, c takes the root of a: no chain is longer than
       three multiply-adds, so the units are the limit, not their latency. */
    vector a[4], b[4], c[4], k = ALL(0.5f), one = ALL(1.0f);
    for (int j = 0; j < 4; j++)
        a[j] = b[j] = c[j] = ALL(1.0f + j);
    for (uint64_t i = 0; i < n; i += 4)
        for (int j = 0; j < 4; j++) {
            c[j] = FMA(ROOT(a[j]), k, c[j]);
            a[j] = FMA(FMA(FMA(a[j], k, one), k, one), k, one);
            b[j] = FMA(FMA(FMA(b[j], k, one), k, one), k, one);
            c[j] = FMA(FMA(c[j], k, one), k, one);
        }
    vector sum = ALL(0.0f);
    for (int j = 0; j < 4; j++)
        sum = FMA(a[j], b[j], FMA(c[j], one, sum));
    return ((float *)&sum)[0];
}
#endif
"""


def build(instruction_set: str) -> ctypes.CDLL:
    """Compile the loops and load them."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "floor.c", Path(folder) / "floor.so"
        source.write_text(SOURCE)
        compiler = os.environ.get("CC", "cc").split()
        options = ["-O3", "-shared", "-fPIC", *OPTIONS.get(instruction_set, NATIVE)]
        command = [*compiler, *options, str(source), "-o", str(library)]
        subprocess.run(command, check=True)
        return ctypes.CDLL(str(library))


def main() -> None:
    """Serve the two figures."""
    library: list[ctypes.CDLL] = []

    def measure() -> dict[str, Any]:
        if not library:
            library.append(build(settings()["instruction_set"]))
            prepare(library[0])
        loops = library[0]
        clock = N_ADDITIONS / seconds_of(lambda: loops.chain(N_ADDITIONS, 1))
        answer = {"clock_hz": clock, "lanes": loops.lanes()}
        if answer["lanes"]:
            arithmetic = seconds_of(lambda: loops.arithmetic(N_VECTORS))
            answer["seconds_per_vector"] = arithmetic / N_VECTORS
            answer["multiply_adds_per_vector"] = MULTIPLY_ADDS
        return answer

    serve({"measure": measure})


def prepare(library: ctypes.CDLL) -> None:
    """Say what the functions take and give."""
    library.chain.argtypes = [ctypes.c_uint64, ctypes.c_uint64]
    library.chain.restype = ctypes.c_uint64
    if library.lanes():
        library.arithmetic.argtypes = [ctypes.c_uint64]
        library.arithmetic.restype = ctypes.c_float


def seconds_of(call: Callable[[], object]) -> float:
    """Return the shortest time of some calls."""
    times = []
    for _ in range(N_TRIES):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    main()
