"""Preconditioners: matrices near a Gram matrix plus noise that are cheap to invert."""

import torch
from torch import Tensor

from skconvgp._protocols import GramOperator
from skconvgp.linalg import LowRankPlusDiagonal, pivoted_cholesky

__all__ = [
    "PRECONDITIONERS",
    "above_rounding",
    "default_rank",
    "make_preconditioner",
]

PRECONDITIONERS = ("pivoted_cholesky", "nystrom", None)
PIVOTS = 16  # columns that one step of pivoted Cholesky evaluates
DEFAULT_RANK = 1000  # docs/maths.rst, "Preconditioner"
FLOOR = 1e-10  # smallest noise variance, as a share of the mean diagonal
# Share of the mean residual diagonal, of M minus F F^T, that is added to the noise. The
# whole mean would cost iterations; a tenth of it costs next to none.
RESIDUAL_SHARE = 0.1


def default_rank(n: int) -> int:
    """Return 1000, or the number of samples if there are fewer."""
    return min(n, DEFAULT_RANK)


def above_rounding(noise: Tensor, diag: Tensor) -> Tensor:
    """Return noise (n,) raised above the rounding errors of a diagonal (n,)."""
    return noise.clamp(min=FLOOR * float(diag.mean()))


def make_preconditioner(
    gram: GramOperator,
    noise: Tensor,
    kind: str | None,
    rank: int,
    generator: torch.Generator,
) -> LowRankPlusDiagonal:
    """Return F F^T + diag(noise + s), with F from a few columns of the matrix.

    The scalar s is a share of the mean diagonal of the residual, the matrix minus
    F F^T. Without s and with noise much smaller than the residual, the preconditioner
    would take the residual for zero. Estimates by random vectors with this covariance
    would then hardly sample the residual, although its inverse is large.

    "pivoted_cholesky" draws a few of the `rank` columns at a time, with probabilities
    in proportion to the residual diagonal after the columns before. "nystrom" draws all
    at once, in proportion to the diagonal. None takes no columns. The noise (n,) is
    raised above rounding errors.
    """
    diag = gram.diag()
    diagonal = above_rounding(noise, diag)
    if kind is None:
        return LowRankPlusDiagonal.from_factor(diag.new_zeros(len(diag), 0), diagonal)
    block = PIVOTS if kind == "pivoted_cholesky" else rank
    result = pivoted_cholesky(diag, gram.columns, rank, generator, block)
    residual = RESIDUAL_SHARE * result.residual.mean()
    return LowRankPlusDiagonal.from_factor(result.factor, diagonal + residual)
