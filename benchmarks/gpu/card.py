"""The card: its name, its memory, its clock, and the arithmetic that it reaches."""

import subprocess
import time
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.measure import machine
from benchmarks.report import Figures
from skconvgp.engine import free_memory, full_precision

PEAK_SIDE = {"cuda": 8192, "cpu": 512}  # of the matrices that are multiplied
DTYPES = {"float32": torch.float32, "float64": torch.float64}


def describe(device: torch.device) -> Figures:
    """Return what is known of the card; without one, of the processor."""
    if device.type == "cpu":
        return machine() | {"name": "cpu", "memory": free_memory(device)}
    properties = torch.cuda.get_device_properties(device)
    return machine() | {
        "name": properties.name,
        "memory": properties.total_memory,
        "multiprocessors": properties.multi_processor_count,
        "compute_capability": f"{properties.major}.{properties.minor}",
        "cuda": torch.version.cuda,
        "driver": _ask(properties, "driver_version"),
        "largest_clock_mhz": _ask(properties, "clocks.max.sm"),
    }


def _ask(properties: Any, what: str) -> str | None:
    """Return what the driver's own program tells of a card, None where it does not."""
    name = getattr(properties, "uuid", None)
    command = ["nvidia-smi", f"--id=GPU-{name}", f"--query-gpu={what}"]
    try:
        done = subprocess.run(
            [*command, "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


def measure_peak(device: torch.device, repeat: int) -> Figures:
    """Return operations a second of a product of matrices, without TF32.

    In float64 a card may have a second kind of units for products of matrices, which
    multiplies and adds twice as fast as any other program can.
    """
    found: Figures = {}
    side = PEAK_SIDE[device.type]
    for name, dtype in DTYPES.items():
        generator = torch.Generator(device).manual_seed(0)
        # Equal numbers would take less power, and the clock would be higher.
        one = torch.rand((side, side), dtype=dtype, device=device, generator=generator)
        out = torch.empty_like(one)
        with full_precision(device):
            runs = [
                seconds_of(lambda one=one, out=out: torch.mm(one, one, out=out), device)
                for _ in range(repeat + 1)  # the first one warms up
            ]
        found[name] = {"side": side, "operations": 2 * side**3 / min(runs[1:])}
    return found


def seconds_of(call: Callable[[], object], device: torch.device) -> float:
    """Return how long a call takes, until the card is done."""
    wait_for(device)
    start = time.perf_counter()
    call()
    wait_for(device)
    return time.perf_counter() - start


def wait_for(device: torch.device) -> None:
    """Wait until the card is done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
