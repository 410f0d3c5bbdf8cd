"""LSQR: least squares by Golub-Kahan bidiagonalisation."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["lsqr"]


def lsqr(
    multiply: Callable[[Tensor], Tensor],
    rhs: Tensor,
    *,
    atol: float,
    btol: float,
    max_iter: int,
) -> tuple[Tensor, int, bool]:
    """Solve A x = rhs for a symmetric A and one right-hand side (n,).

    `multiply` returns A times a vector (n,). `atol` and `btol` are tolerated errors of
    A and of `rhs`, relative to their norms. Returns the last iterate (n,), the number
    of iterations, and whether the residual meets `btol`: the iteration may end before
    by `atol`.

    Steps and stopping rules follow Paige and Saunders, "LSQR: an algorithm for sparse
    linear equations and sparse least squares", 1982, without their limit on the
    condition number.
    """
    eps = torch.finfo(rhs.dtype).eps
    x = torch.zeros_like(rhs)
    u, beta = _normed(rhs)
    v, alpha = _normed(multiply(u))
    direction = v
    rho_bar, residual, rhs_norm, squares = alpha, beta, beta, 0.0
    if alpha * beta == 0.0:
        return x, 0, beta == 0.0
    for n_iter in range(1, max_iter + 1):
        u, beta = _normed(multiply(v) - alpha * u)
        squares += alpha**2 + beta**2
        v, alpha = _normed(multiply(u) - beta * v)
        rho = math.hypot(rho_bar, beta)
        cosine, sine = rho_bar / rho, beta / rho
        x = x + (cosine * residual / rho) * direction
        direction = v - (sine * alpha / rho) * direction
        gradient = alpha * sine * abs(cosine) * residual
        rho_bar, residual = -cosine * alpha, sine * residual

        # Estimates of |A| (in the Frobenius norm), of |A| |x| / |rhs| and of the
        # relative residual. `gradient` is |A r|, 0 at a least-squares solution.
        norm = math.sqrt(squares)
        reach = norm * float(x.norm()) / rhs_norm
        share, floor = residual / rhs_norm, eps * (1.0 + reach)
        is_stalled = gradient <= max(atol, eps) * norm * residual
        if is_stalled or share <= max(btol + atol * reach, floor):
            return x, n_iter, share <= max(btol, floor)
    return x, max_iter, False


def _normed(vector: Tensor) -> tuple[Tensor, float]:
    """Return a vector scaled to length 1, or 0 if it is 0, and its length."""
    length = float(vector.norm())
    return (vector / length if length else vector), length
