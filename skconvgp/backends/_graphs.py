"""Bytes that graphs of torch store."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from skconvgp._ambient import ordinary_torch

__all__ = ["graph_bytes", "stored_bytes"]


def graph_bytes(build: Callable[[int, int], object]) -> tuple[int, int]:
    """Return the bytes for an image and for a pair that the graphs of tiles store.

    `build` builds the graph of a tile of so many rows and columns.
    """
    # The graph of (n1, n2) images holds a n1 n2 + b (n1 + n2) + c bytes.
    small, wide, square = (
        stored_bytes(build, *size) for size in ((1, 1), (1, 2), (2, 2))
    )
    a_pair = max(0, square - 2 * wide + small)
    an_image = max(0, wide - small - a_pair)
    # c is counted as part of an image.
    return an_image + max(0, small - a_pair - 2 * an_image), a_pair


def stored_bytes(build: Callable[[int, int], object], n_rows: int, n_cols: int) -> int:
    """Return the bytes that the graph of a tile stores."""
    # They are held: what is dropped on the way would give its address to others, and
    # the count, and with it tiles and the order of sums, would vary.
    saved: dict[int, torch.UntypedStorage] = {}

    def count(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage
        return tensor.detach()  # an output that is saved would hold its own graph

    with ordinary_torch(), saved_tensors_hooks(count, lambda one: one):
        graph = build(n_rows, n_cols)
    # Freed only now: the address of freed memory could be saved a second time.
    del graph
    return sum(storage.nbytes() for storage in saved.values())
