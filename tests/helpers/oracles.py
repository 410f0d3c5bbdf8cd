"""A plain matrix in the place of a kernel, and matrices with known spectra."""

import torch


class PlainOracle:
    """Oracle over a matrix that remembers which entries were asked for."""

    def __init__(self, matrix, points=None):
        self.matrix = torch.as_tensor(matrix, dtype=torch.float64)
        self.asked = torch.zeros(self.matrix.shape, dtype=torch.bool)
        self._points = points
        if points is not None:
            self.points = lambda: torch.as_tensor(points, dtype=torch.float64)

    @property
    def n_samples(self):
        return len(self.matrix)

    @property
    def n_evaluated(self):
        """Distinct entries asked for, the diagonal included."""
        seen = self.asked | self.asked.mT
        seen.fill_diagonal_(True)
        return int(seen.triu().sum())

    def diag(self):
        return self.matrix.diagonal().clone()

    def block(self, rows, cols):
        n = torch.arange(self.n_samples)
        rows, cols = (n if index is None else index for index in (rows, cols))
        self.asked[rows[:, None], cols] = True
        return self.matrix[rows[:, None], cols].clone()


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def low_rank(n, rank, seed=0, noise=0.0):
    """Return a positive semi-definite matrix (n, n) of a rank, plus a diagonal."""
    factor = torch.randn(n, rank, generator=seeded(seed), dtype=torch.float64)
    return factor @ factor.mT / rank + noise * torch.eye(n, dtype=torch.float64)


def smooth(n, lengthscale=0.3, seed=0):
    """Return the RBF Gram matrix (n, n) of random points in a square, and these."""
    points = torch.rand(n, 2, generator=seeded(seed), dtype=torch.float64)
    squares = torch.cdist(points, points).square()
    return torch.exp(-0.5 * squares / lengthscale**2), points
