"""Anderson's acceleration of a fixed-point iteration."""

import math

import torch
from torch import Tensor

__all__ = ["Anderson"]

RIDGE = 2**12  # of the small systems: rounding errors of their diagonal


class Anderson:
    """Combine the last values of an iteration x <- g(x) so that it ends sooner.

    What was remembered is forgotten once the residual g(x) - x has grown: the next
    value is then g(x) itself.

    Parameters
    ----------
    depth : int, default=6
        How many values are remembered.

    References
    ----------
    Walker and Ni, "Anderson acceleration for fixed-point iterations", 2011.
    """

    def __init__(self, depth: int = 6) -> None:
        self.depth = depth
        self._made: list[Tensor] = []
        self._residuals: list[Tensor] = []
        self._last = math.inf

    def next(self, given: Tensor, made: Tensor) -> Tensor:
        """Return where to go on from x and g(x)."""
        residual = (made - given).flatten()
        norm = float(residual.norm())
        if norm > self._last:
            self._made.clear()
            self._residuals.clear()
        self._last = norm
        self._made = [*self._made[-self.depth :], made]
        self._residuals = [*self._residuals[-self.depth :], residual]
        if len(self._made) == 1:
            return made
        steps = torch.stack([residual - old for old in self._residuals[:-1]])
        small = steps @ steps.mT
        limits = torch.finfo(small.dtype)
        small.diagonal().mul_(1.0 + RIDGE * limits.eps).add_(limits.tiny)
        root = torch.linalg.cholesky(small)
        weights = torch.cholesky_solve(steps @ residual[:, None], root)[:, 0]
        mixed = made.clone()
        for weight, old in zip(weights, self._made[:-1], strict=True):
            mixed -= weight * (made - old)
        return mixed
