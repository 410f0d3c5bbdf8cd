"""Large tensors between a GPU and the host, in parts that several threads copy.

The driver copies ordinary memory of the host by one thread, through a buffer of its own
that cannot be swapped out. For a large matrix that takes longer than to compute it.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from skconvgp._threads import allowed_threads

__all__ = ["to_device", "to_host"]

HOST = torch.device("cpu")
SMALLEST = 2**28  # bytes that are copied in parts; fewer take a tenth of a second
PART_BYTES = 2**25
MOST_THREADS = 8


def to_host(tensor: Tensor) -> Tensor:
    """Return a tensor on the host, with the same strides if it is dense."""
    if tensor.device == HOST or tensor.nbytes < SMALLEST:
        return tensor.to(HOST)

    def fetch(target: Tensor, source: Tensor, buffer: Tensor) -> None:
        buffer.copy_(source, non_blocking=True)
        torch.cuda.current_stream(source.device).synchronize()
        target.copy_(buffer)

    return _copied(tensor, HOST, fetch)


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a tensor of the host on a device, with the same strides if it is dense."""
    if device == HOST or tensor.nbytes < SMALLEST:
        return tensor.to(device)

    def send(target: Tensor, source: Tensor, buffer: Tensor) -> None:
        buffer.copy_(source)
        target.copy_(buffer, non_blocking=True)
        torch.cuda.current_stream(target.device).synchronize()

    return _copied(tensor, device, send)


def _copied(
    tensor: Tensor,
    place: torch.device,
    copy: Callable[[Tensor, Tensor, Tensor], None],
) -> Tensor:
    """Return a copy at a place; ``copy`` takes parts through a buffer."""
    tensor = tensor.detach()
    if not tensor.is_contiguous():
        if tensor.ndim == 2 and tensor.mT.is_contiguous():
            return _copied(tensor.mT, place, copy).mT
        return tensor.to(place)
    result = torch.empty_like(tensor, device=place)
    # With its number: in a new thread "cuda" may be another GPU.
    gpu = tensor.device if result.device == HOST else result.device
    if gpu != HOST:  # what is queued may still use the memory of either
        torch.cuda.synchronize(gpu)
    n = max(PART_BYTES // tensor.itemsize, 1)
    targets, sources = result.view(-1), tensor.view(-1)
    parts = [slice(start, start + n) for start in range(0, len(sources), n)]
    n_threads = max(1, min(MOST_THREADS, allowed_threads(), len(parts)))

    def copy_every(first: int) -> None:
        buffer = torch.empty(
            n, dtype=tensor.dtype, pin_memory=gpu != HOST, device="cpu"
        )
        stream = None if gpu == HOST else torch.cuda.Stream(gpu)  # type: ignore[no-untyped-call]
        with torch.cuda.stream(stream):
            for part in parts[first::n_threads]:
                copy(targets[part], sources[part], buffer[: len(sources[part])])

    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(copy_every, range(n_threads)))
    return result
