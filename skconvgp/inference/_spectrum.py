"""Eigenvalues and vectors of a matrix, which give its inverse with any noise."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from skconvgp._threads import threads_for

__all__ = ["Spectrum"]

ROWS = 4096  # rows of eigenvectors that are multiplied at a time
LARGEST_BY_ENTRY = 8  # blocks whose entries are computed one after the other
COLUMNS = 64  # columns that the eigenvectors are multiplied with at a time


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues (r,), all or only those > 0, and vectors (n, r) of W^1/2 K W^1/2.

    A noise below `least` is lost to rounding.
    """

    values: Tensor
    vectors: Tensor
    least: float = 0.0

    @property
    def n_zeros(self) -> int:
        """Number of eigenvalues that are zero and omitted."""
        return len(self.vectors) - len(self.values)

    def inverses(self, noises: Tensor) -> Tensor:
        """Return (r, m) eigenvalues of the inverse of the matrix plus each noise."""
        return 1.0 / (self.values[:, None] + noises)

    def inverse_diags(self, noises: Tensor) -> Tensor:
        """Return diagonals (n, m) of the inverse of the matrix plus each noise."""
        diags = self._squares(self.inverses(noises))
        if self.n_zeros:
            within = self._squares(torch.ones_like(self.values[:, None]))
            diags += (1.0 - within).clamp(min=0.0) / noises
        return diags

    def inverse_blocks(self, members: Tensor, noises: Tensor) -> Tensor:
        """Return blocks (g, s, s, m) of the inverse of the matrix plus each noise (m,).

        `members` (g, s) holds the rows and columns of each block.
        """
        n_groups, size = members.shape
        blocks = noises.new_empty(n_groups, size, size, len(noises))
        inverses = self.inverses(noises)
        if size > LARGEST_BY_ENTRY:
            for block, rows in zip(blocks, members, strict=True):
                self._fill(block, self.vectors[rows], inverses, noises)
            return blocks
        for i in range(size):
            for j in range(i + 1):
                one, other = members[:, i], members[:, j]
                entries = self._entries(one, other, inverses)
                entries += self._outside(one, other) / noises
                blocks[:, i, j] = blocks[:, j, i] = entries
        return blocks

    def _fill(
        self, block: Tensor, vectors: Tensor, inverses: Tensor, noises: Tensor
    ) -> None:
        """Compute a block (s, s, m) of the inverses, given the vectors (s, r)."""
        outside = torch.zeros_like(block[..., 0])
        if self.n_zeros:
            outside = torch.eye(len(block), dtype=block.dtype, device=block.device)
            outside -= vectors @ vectors.mT
        for i, inverse in enumerate(inverses.mT):
            with threads_for(block[..., 0].numel() * len(inverse)):
                block[..., i] = (vectors * inverse) @ vectors.mT
            block[..., i] += outside / noises[i]

    def _squares(self, factors: Tensor) -> Tensor:
        """Return the diagonals (n, m) of V diag(f) V^T."""
        parts = torch.split(self.vectors, ROWS)
        with threads_for(len(self.vectors) * factors.numel()):
            return torch.cat([part.square() @ factors for part in parts])

    def _entries(self, rows: Tensor, columns: Tensor, factors: Tensor) -> Tensor:
        """Return entries (b, m) of V diag(f) V^T for each column f of the factors."""
        # Rows are copied here, twice.
        parts = zip(
            *(torch.split(one, ROWS // 4) for one in (rows, columns)), strict=True
        )
        return torch.cat(
            [(self.vectors[i] * self.vectors[j]) @ factors for i, j in parts]
        )

    def _outside(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Return entries (b, 1) of the projection on the complement of the vectors.

        There the matrix is the noise times the identity.
        """
        ones = torch.ones_like(self.values[:, None])
        if not self.n_zeros:
            return torch.zeros_like(rows[:, None], dtype=ones.dtype)
        is_same = (rows == columns)[:, None].to(ones)
        entries = is_same - self._entries(rows, columns, ones)
        return torch.where(is_same > 0.0, entries.clamp(min=0.0), entries)

    def products_with(self, columns: Tensor, factors: Tensor) -> Iterator[Tensor]:
        """Yield products (b, n, k) of the vectors with scaled columns for some factors.

        The columns are (r, k), and the m factors by vector (r, m). The vectors are as
        large as the matrix, and therefore read once for several factors.
        """
        n_columns = columns.shape[1]
        for block in torch.split(factors, max(1, COLUMNS // n_columns), dim=1):
            scaled = (columns[:, None] * block[:, :, None]).flatten(1)
            with threads_for(len(self.vectors) * scaled.numel()):
                products = self.vectors @ scaled
            yield products.reshape(len(products), -1, n_columns).transpose(0, 1)
