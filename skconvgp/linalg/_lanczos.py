"""Functions of a positive definite matrix from products with it, by Lanczos' method."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from skconvgp._tensors import random_ints
from skconvgp.linalg._cg import orthonormal
from skconvgp.linalg._cholesky import plain_cholesky

__all__ = [
    "LogQuadrature",
    "inverse_root",
    "log_quadrature",
    "rademacher",
    "standard_error",
]

NEGLIGIBLE = 1e-12  # a residual below this share of A v is a rounding error
LEAST_STEPS = 8  # before which neither means nor extreme eigenvalues have settled
SETTLING = 3  # number of last steps in which a settled mean does not change


def rademacher(n: int, n_probes: int, generator: torch.Generator) -> Tensor:
    """Return random signs (n, n_probes) in float64, on the host."""
    shape = (n, n_probes)
    return random_ints(2, shape, generator).to(torch.float64) * 2.0 - 1.0


@dataclass(frozen=True)
class LogQuadrature:
    """Quadratic forms z^T log(A) z of probes, and the largest eigenvalue of A."""

    forms: Tensor  # (k,), quadratic forms after all steps
    coarse: Tensor  # (k,), after half of them
    # The largest Ritz value plus the norm of its residual: the largest eigenvalue of A,
    # or a number above it if the steps have not converged.
    largest: float
    n_steps: int  # number of products of A with one column for each probe


def log_quadrature(
    matmul: Callable[[Tensor], Tensor],
    probes: Tensor,
    n_steps: int,
    tolerance: float = 0.0,
) -> LogQuadrature:
    """Return z^T log(A) z of probes z (n, k), by stochastic Lanczos quadrature.

    For Rademacher probes the mean of the forms is an unbiased estimate of log |A|,
    except for the error of the quadrature, which falls with the number of steps.
    `matmul` returns A times columns (n, k). Each of the at most `n_steps` vectors is
    made orthogonal to all before it. The steps end once the last few of them have
    changed the mean by no more than `tolerance` times its standard error.

    References
    ----------
    Ubaru, Chen and Saad, "Fast estimation of tr(f(A)) via stochastic Lanczos
    quadrature", 2017.
    """
    n, n_probes = probes.shape
    n_steps = min(n_steps, n)
    lengths = probes.norm(dim=0)
    basis = probes.new_empty(n_steps, n_probes, n)
    tridiagonal = torch.diag_embed(probes.new_ones(n_probes, n_steps))
    vector = probes / lengths
    means: list[Tensor] = []
    for step in range(n_steps):
        basis[step] = vector.mT
        image = matmul(vector)
        size = image.norm(dim=0)
        # If a probe's Krylov space is exhausted, its vector is 0. A diagonal entry of 1
        # then adds log 1 = 0 to the form.
        is_alive = vector.norm(dim=0) > 0.0
        along = (vector * image).sum(0)
        tridiagonal[:, step, step] = along.where(is_alive, 1.0)
        new, known = image.mT[:, :, None], basis[: step + 1].permute(1, 2, 0)
        # Twice, since rounding leaves parts of the basis after the first time.
        new = _orthogonal(_orthogonal(new, known), known)[:, :, 0].mT
        beta = new.norm(dim=0)
        beta = beta.where(beta > NEGLIGIBLE * size, 0.0)
        vector = torch.where(beta > 0.0, new / beta.where(beta > 0.0, 1.0), 0.0)
        used = step + 1
        if tolerance > 0.0:
            forms = lengths.square() * _log_entry(tridiagonal[:, :used, :used])
            means.append(forms.mean())
            if _is_settled(means, standard_error(forms), tolerance):
                break
        if used < n_steps:
            tridiagonal[:, step, used] = tridiagonal[:, used, step] = beta
    tridiagonal, half = tridiagonal[:, :used, :used], (used + 1) // 2
    squares = lengths.square()
    return LogQuadrature(
        squares * _log_entry(tridiagonal),
        squares * _log_entry(tridiagonal[:, :half, :half]),
        _largest(tridiagonal, beta),
        used,
    )


def standard_error(forms: Tensor) -> float:
    """Return the standard error of the mean of values (k,); infinite for one value."""
    return float(forms.std()) / len(forms) ** 0.5 if len(forms) > 1 else math.inf


def _is_settled(means: list[Tensor], spread: float, tolerance: float) -> bool:
    """Say whether the last steps changed a mean by little compared to its spread."""
    if len(means) < LEAST_STEPS:
        return False
    change = abs(float(means[-1] - means[-1 - SETTLING]))
    return math.isfinite(spread) and change <= tolerance * spread


def _largest(tridiagonal: Tensor, beta: Tensor) -> float:
    """Return the largest Ritz value of matrices (k, m, m) plus its residual norm."""
    values, vectors = torch.linalg.eigh(tridiagonal)
    return float((values[:, -1] + beta * vectors[:, -1, -1].abs()).max())


def _log_entry(tridiagonal: Tensor) -> Tensor:
    """Return the first entries (k,) of the logarithms of matrices (k, m, m)."""
    values, vectors = torch.linalg.eigh(tridiagonal)
    logs = values.clamp(min=torch.finfo(values.dtype).tiny).log()
    entries: Tensor = (vectors[:, 0].square() * logs).sum(1)
    return entries


def inverse_root(
    matmul: Callable[[Tensor], Tensor],
    rhs: Tensor,
    *,
    tolerance: float,
    max_iter: int,
) -> Tensor:
    r"""Return :math:`A^{-1/2}` times columns (n, k), by block Lanczos.

    `matmul` returns A times columns (n, b). The iteration stops at `max_iter` blocks,
    or at `tolerance`, the residual of conjugate gradients relative to the norm of a
    column.

    After any number of steps, R^T R of the result R is the quadratic form of conjugate
    gradients after as many steps. It is bounded above by rhs^T A^-1 rhs in the Loewner
    order. The basis, of at most n columns, is held in memory.

    References
    ----------
    Frommer, Lund and Szyld, "Block Krylov subspace methods for functions of
    matrices", 2017.
    """
    lengths = rhs.norm(dim=0)
    unit = rhs / lengths.where(lengths > 0.0, 1.0)
    if not bool((lengths > 0.0).any()):
        return torch.zeros_like(rhs)
    block, start = orthonormal(unit)
    basis = last = rhs[:, :0]
    schur, coupling = rhs.new_zeros(()), start
    diagonals: list[Tensor] = []
    links: list[Tensor] = []
    for _ in range(max_iter):
        basis = torch.cat([basis, block], dim=1)
        image = matmul(block)
        diagonals.append(block.mT @ image)
        # Block elimination of T gives the residual of conjugate gradients: the next
        # block times `coupling`.
        pivot = plain_cholesky(diagonals[-1] - schur)
        # In exact arithmetic the image has parts of the last two blocks only. Rounding
        # adds parts of earlier blocks. They are removed from the next block after it
        # is normalised, because normalising a short block amplifies them.
        new = _orthogonal(image, torch.cat([last, block], dim=1))
        n_left = len(rhs) - basis.shape[1]
        is_spent = float(new.norm()) <= NEGLIGIBLE * float(image.norm())
        if pivot is None or n_left == 0 or is_spent:
            break
        last, unit_new = block, orthonormal(new)[0][:, :n_left]
        block = torch.linalg.qr(_orthogonal(unit_new, basis)).Q
        link = block.mT @ new
        schur = link @ torch.cholesky_solve(link.mT, pivot)
        coupling = link @ torch.cholesky_solve(coupling, pivot)
        if float(coupling.norm(dim=0).max()) <= tolerance:
            break
        links.append(link)
    root: Tensor = _root_of_projection(basis, diagonals, links, start) * lengths
    return root


def _orthogonal(columns: Tensor, basis: Tensor) -> Tensor:
    """Return columns (n, k) less their projection on a basis (n, r)."""
    return columns - basis @ (basis.mT @ columns)


def _root_of_projection(
    basis: Tensor, diagonals: list[Tensor], links: list[Tensor], start: Tensor
) -> Tensor:
    """Return Q T^-1/2 E start for the block tridiagonal T = Q^T A Q."""
    size = basis.shape[1]
    projected, stop = basis.new_zeros(size, size), 0
    for i, diagonal in enumerate(diagonals):
        rows = slice(stop, stop + len(diagonal))
        projected[rows, rows] = diagonal
        if i > 0:
            before = slice(stop - len(diagonals[i - 1]), stop)
            projected[rows, before] = links[i - 1]
            projected[before, rows] = links[i - 1].mT
        stop = rows.stop
    values, vectors = torch.linalg.eigh((projected + projected.mT) / 2)
    positive = values > 0.0
    roots = torch.where(positive, values, 1.0).rsqrt() * positive
    turned = vectors[: len(start)].mT @ start
    root: Tensor = basis @ (vectors @ (roots[:, None] * turned))
    return root
