"""Anderson's acceleration of a fixed-point iteration."""

import math

import torch
from torch import Tensor

__all__ = ["Anderson"]

RIDGE = 2**12  # of the normal equations, in rounding errors of their diagonal


class Anderson:
    """Accelerates an iteration x <- g(x) by combining its last values.

    The newest value is combined with `depth` earlier ones. If the residual g(x) - x has
    grown, all earlier values are dropped, and the next value is g(x) itself.

    References
    ----------
    Walker and Ni, "Anderson acceleration for fixed-point iterations", 2011.
    """

    def __init__(self, depth: int = 6) -> None:
        self.depth = depth
        self._values: list[Tensor] = []
        self._residuals: list[Tensor] = []
        self._last_norm = math.inf

    def next(self, x: Tensor, value: Tensor) -> Tensor:
        """Return the next x from the present one and its value g(x)."""
        residual = (value - x).flatten()
        norm = float(residual.norm())
        if norm > self._last_norm:
            self._values.clear()
            self._residuals.clear()
        self._last_norm = norm
        self._values = [*self._values[-self.depth :], value]
        self._residuals = [*self._residuals[-self.depth :], residual]
        if len(self._values) == 1:
            return value
        # Weights of the differences to earlier residuals, by least squares. They may be
        # dependent, so that the normal equations get a ridge.
        steps = torch.stack([residual - old for old in self._residuals[:-1]])
        normal = steps @ steps.mT
        limits = torch.finfo(normal.dtype)
        normal.diagonal().mul_(1.0 + RIDGE * limits.eps).add_(limits.tiny)
        root = torch.linalg.cholesky(normal)
        weights = torch.cholesky_solve(steps @ residual[:, None], root)[:, 0]
        mixed = value.clone()
        for weight, old in zip(weights, self._values[:-1], strict=True):
            mixed -= weight * (value - old)
        return mixed
