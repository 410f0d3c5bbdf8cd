"""Symmetric matrices: products of rows with each other, and means with a transpose."""

from torch import Tensor

__all__ = ["own_products", "symmetrize_"]

STRIP = 128  # rows whose products with earlier ones are computed at once

SYMMETRIZE_BLOCK = 256  # rows that are copied at once


def symmetrize_(matrix: Tensor) -> Tensor:
    """Replace a matrix (n, n) by the mean of it and its transpose; return it."""
    n = matrix.shape[0]
    for start in range(0, n, SYMMETRIZE_BLOCK):
        stop = min(start + SYMMETRIZE_BLOCK, n)
        upper, lower = matrix[start:stop, start:], matrix[start:, start:stop]
        mean = (upper + lower.mT).mul_(0.5)
        upper.copy_(mean)
        lower.copy_(mean.mT)
    return matrix


def own_products(rows: Tensor) -> Tensor:
    """Return the products (n, n) of rows (n, d) with each other, exactly symmetric.

    On the CPU those with later rows are copied, for a third less time.
    """
    n = rows.shape[0]
    products = rows.new_empty(n, n)
    strip = STRIP if rows.device.type == "cpu" else max(n, 1)
    for start in range(0, n, strip):
        stop = min(start + strip, n)
        own = rows[start:stop] @ rows[:stop].mT
        products[start:stop, :stop] = own
        products[:start, start:stop] = own[:, :start].mT
        symmetrize_(products[start:stop, start:stop])
    return products
