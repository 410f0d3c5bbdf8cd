"""Matrices near a Gram matrix with its noise that are cheap to invert."""

import torch
from torch import Tensor

from skconvgp._protocols import GramOperator
from skconvgp.linalg import LowRankPlusDiagonal, pivoted_cholesky

__all__ = [
    "PRECONDITIONERS",
    "make_preconditioner",
    "usual_rank",
]

PRECONDITIONERS = ("pivoted_cholesky", "nystrom", None)
PIVOTS = 16  # columns that are asked for at once
USUAL_RANK = 1000  # maths.md 7
FLOOR = 1e-10  # of the noise, as a share of the mean diagonal


def usual_rank(n: int) -> int:
    """Return 1000, or the number of samples where these are fewer."""
    return min(n, USUAL_RANK)


def make_preconditioner(
    gram: GramOperator,
    noise: Tensor,
    kind: str | None,
    rank: int,
    generator: torch.Generator,
) -> LowRankPlusDiagonal:
    """Return F F^T + diag(noise), with F from a few columns of the matrix.

    Parameters
    ----------
    gram : GramOperator
        The matrix.
    noise : Tensor of shape (n,)
        Noise of the samples; what is smaller than rounding is raised to that.
    kind : {"pivoted_cholesky", "nystrom"} or None
        Columns drawn a few at a time in proportion to what those before leave of the
        diagonal; all columns drawn at once; or none.
    rank : int
        Number of columns.
    generator : torch.Generator
        Draws the columns.
    """
    diag = gram.diag()
    diagonal = noise.clamp(min=FLOOR * float(diag.mean()))
    if kind is None:
        return LowRankPlusDiagonal.from_factor(diag.new_zeros(len(diag), 0), diagonal)
    block = PIVOTS if kind == "pivoted_cholesky" else rank
    result = pivoted_cholesky(diag, gram.columns, rank, generator, block)
    return LowRankPlusDiagonal.from_factor(result.factor, diagonal)
