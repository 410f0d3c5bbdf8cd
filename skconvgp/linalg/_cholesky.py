"""Cholesky factors, with increasing jitter if needed, and solves with them."""

import torch
from torch import Tensor

from skconvgp._threads import threads_for
from skconvgp.exceptions import NotPSDError

__all__ = [
    "back_solve",
    "cholesky_inverse",
    "cholesky_inverse_diag",
    "cholesky_logdet",
    "cholesky_product",
    "cholesky_rows",
    "cholesky_solve",
    "factor_with_jitter_",
    "half_solve",
    "plain_cholesky",
    "shifted_cholesky_",
    "shifted_choleskys",
    "solve_blocks",
]

# Shares of the mean diagonal, tried in turn (docs/maths.rst, "Posterior").
JITTER = {
    torch.float64: (0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4),
    torch.float32: (0.0, 1e-6, 1e-5, 1e-4, 1e-3),
}
# A pivot whose square is at most so many rounding errors of the scale is a rounding
# error itself, and solves with its factor return noise.
LEAST_PIVOT = 8.0
# Columns of the inverse factor held at once, and rows of a step of the solve. A GPU is
# slow if steps are many and small. It holds up to an eighth of the columns, but with
# three squares of a step beside them at most half a GiB in double precision.
INVERSE_BLOCK, GPU_INVERSE_BLOCK, GPU_INVERSE_NUMBERS = 256, 2048, 2**26
STRIPS = 8  # of columns of a product
# Samples up to which an error names the smallest eigenvalue, which takes some seconds.
MOST_FOR_EIGENVALUES = 4000


def shifted_cholesky_(matrix: Tensor, shift: Tensor) -> tuple[Tensor, float]:
    """Factor ``matrix + diag(shift)`` without copying the matrix.

    The diagonal of the symmetric, finite `matrix` (n, n) is overwritten meanwhile and
    restored at the end. Returns the lower triangular L (n, n) with L L^T = matrix +
    diag(shift) + jitter I, and the jitter, 0 if none was needed. Raises a `NotPSDError`
    if the largest jitter does not help.
    """
    scale = float(matrix.diagonal().mean())
    return _factor_(matrix, shift, scale, LEAST_PIVOT)


def shifted_choleskys(matrices: Tensor, shifts: Tensor) -> tuple[Tensor, float]:
    """Factor many small matrices; each gets the jitter that it needs.

    The matrices (b, k, k) are symmetric and finite; the shifts (b, k) are added to
    their diagonals. Returns lower triangular factors (b, k, k), and the largest jitter
    that was added, 0 if none was needed. Raises a `NotPSDError` if the largest jitter
    does not help one of the matrices.
    """
    shifted = matrices + torch.diag_embed(shifts)
    factors, info = torch.linalg.cholesky_ex(shifted)
    largest = 0.0
    for i in info.nonzero()[:, 0].tolist():
        factors[i], jitter = shifted_cholesky_(matrices[i].clone(), shifts[i])
        largest = max(largest, jitter)
    return factors, largest


def factor_with_jitter_(matrix: Tensor, scale: float) -> Tensor:
    """Return the lower Cholesky factor of a positive semi-definite matrix (n, n).

    Jitter is a share of `scale`. If the matrix is a difference of two matrices, `scale`
    is theirs: their rounding errors are relative to it and may exceed the difference.
    The diagonal of `matrix` is overwritten meanwhile and restored at the end.
    """
    return _factor_(matrix, torch.zeros_like(matrix.diagonal()), scale)[0]


def plain_cholesky(matrix: Tensor) -> Tensor | None:
    """Return the lower factor of a symmetric matrix (n, n); None if there is none."""
    factor, info = _factor(matrix)
    is_finite = factor.diagonal().isfinite().all()
    return factor if bool((info == 0) & is_finite) else None


def cholesky_solve(factor: Tensor, rhs: Tensor) -> Tensor:
    """Solve L L^T x = rhs for right-hand sides (n, k)."""
    # torch.cholesky_solve copies the factor; two triangular solves do not.
    return back_solve(factor, half_solve(factor, rhs))


def solve_blocks(blocks: Tensor, rhs: Tensor) -> Tensor:
    """Return solutions (b, n, k) for positive definite matrices (b, n, n).

    They have derivatives.
    """
    return torch.cholesky_solve(rhs, torch.linalg.cholesky(blocks))


def half_solve(factor: Tensor, rhs: Tensor) -> Tensor:
    """Solve L x = rhs for right-hand sides (n, k), or (b, n, k) for b factors."""
    with threads_for(factor.shape[-1] * rhs.numel()):
        solution: Tensor = torch.linalg.solve_triangular(factor, rhs, upper=False)
    return solution


def back_solve(factor: Tensor, rhs: Tensor) -> Tensor:
    """Solve L^T x = rhs for right-hand sides (n, k)."""
    with threads_for(factor.shape[-1] * rhs.numel()):
        solution: Tensor = torch.linalg.solve_triangular(factor.mT, rhs, upper=True)
    return solution


def cholesky_logdet(factor: Tensor) -> Tensor:
    """Return log |L L^T|."""
    return 2.0 * factor.diagonal().log().sum()


def cholesky_product(factor: Tensor) -> Tensor:
    """Return L L^T (n, n), a strip at a time, so that zeros are not multiplied."""
    product = torch.empty_like(factor)
    width = -(-len(factor) // STRIPS)
    for start in range(0, len(factor), width):
        rows = slice(start, min(start + width, len(factor)))
        with threads_for(len(factor) ** 3):
            part = factor[start:, : rows.stop] @ factor[rows, : rows.stop].mT
        product[start:, rows] = part
        product[rows, start:] = part.mT
    return product


def cholesky_rows(factor: Tensor, rows: slice) -> Tensor:
    """Return rows (b, m) of L L^T up to its diagonal; m is where they end."""
    with threads_for(rows.stop**2 * (rows.stop - rows.start)):
        return factor[rows, : rows.stop] @ factor[: rows.stop, : rows.stop].mT


def cholesky_inverse(factor: Tensor, out: Tensor | None = None) -> Tensor:
    """Return (L L^T)^-1 (n, n); written into `out` (n, n), contiguous, if given."""
    if out is None:
        out = torch.empty_like(factor, memory_format=torch.contiguous_format)
    with threads_for(len(factor) ** 3):  # no copy if `out` is in column order
        torch.cholesky_inverse(factor, out=out.mT)
    return out


def cholesky_inverse_diag(factor: Tensor) -> Tensor:
    """Return the diagonal (n,) of (L L^T)^-1, a block of columns at a time."""
    n = factor.shape[0]
    block = INVERSE_BLOCK
    if factor.device.type != "cpu":
        most = GPU_INVERSE_NUMBERS // (n + 3 * GPU_INVERSE_BLOCK)
        block = max(block, min(GPU_INVERSE_BLOCK, n // 8, most))
    diag = factor.new_empty(n)
    for start in range(0, n, block):
        stop = min(start + block, n)
        with threads_for(n**3 / 3.0):
            columns = _inverse_columns(factor[start:, start:], stop - start, block)
            diag[start:stop] = columns.square_().sum(0)
    return diag


def _inverse_columns(factor: Tensor, n_columns: int, block: int) -> Tensor:
    """Return the first columns (n, n_columns) of the inverse of a factor (n, n).

    A triangular solve copies a factor that is a view of another matrix; a product does
    not. Only the diagonal blocks are therefore used in solves.
    """
    n = factor.shape[0]
    columns = factor.new_empty(n, n_columns)
    for start in range(0, n, block):
        rows = slice(start, min(start + block, n))
        rhs = -(factor[rows, :start] @ columns[:start])
        if start == 0:
            rhs.fill_diagonal_(1.0)
        columns[rows] = half_solve(factor[rows, rows], rhs)
    return columns


def _factor_(
    matrix: Tensor, shift: Tensor, scale: float, least_pivot: float = 0.0
) -> tuple[Tensor, float]:
    """Factor ``matrix + diag(shift)`` with the first jitter that helps.

    The square of each pivot must be above `least_pivot` rounding errors of the scale.
    """
    diagonal = matrix.diagonal()
    original = diagonal.clone()
    shifted = original + shift
    try:
        for share in JITTER[matrix.dtype]:
            jitter = share * scale
            diagonal.copy_(shifted + jitter)
            factor, info = _factor(matrix)
            if int(info) == 0 and _is_resolved(factor, least_pivot * scale):
                return factor, jitter
            del factor  # so that no two factors are held at once
        diagonal.copy_(shifted)
        smallest = _smallest_eigenvalue(matrix)
    finally:
        diagonal.copy_(original)
    raise NotPSDError(
        f"The Gram matrix with its noise is not positive definite: its smallest "
        f"eigenvalue is {smallest} on a scale of {scale:.3g}, "
        f"and jitter up to {jitter:.3g} did not help. Raise `noise_variance`, remove "
        "duplicate samples, compute tiles with dtype='float64', or, with a "
        "precomputed kernel, check that it is symmetric and positive semi-definite."
    )


def _factor(matrix: Tensor) -> tuple[Tensor, Tensor]:
    with threads_for(len(matrix) ** 3 / 3.0):
        factor, info = torch.linalg.cholesky_ex(matrix)
    return factor, info


def _is_resolved(factor: Tensor, scale: float) -> bool:
    """Say whether the squares of all pivots are above the rounding error of a scale."""
    rounding = torch.finfo(factor.dtype).eps * scale
    return float(factor.diagonal().min()) ** 2 > rounding


def _smallest_eigenvalue(matrix: Tensor) -> str:
    """Return the smallest eigenvalue as text, or why it was not computed."""
    if len(matrix) > MOST_FOR_EIGENVALUES:
        return f"unknown (it takes long for {len(matrix)} samples)"
    try:
        return f"{float(torch.linalg.eigvalsh(matrix)[0]):.3g}"
    except RuntimeError:  # out of memory, or LAPACK failed: the caller's error matters
        return "unknown (it cannot be computed here)"
