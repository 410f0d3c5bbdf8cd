"""Matrices near a Gram matrix with its noise that are cheap to invert."""

import torch
from torch import Tensor

from skconvgp._protocols import GramOperator
from skconvgp.linalg import LowRankPlusDiagonal, pivoted_cholesky

__all__ = [
    "PRECONDITIONERS",
    "above_rounding",
    "make_preconditioner",
    "usual_rank",
]

PRECONDITIONERS = ("pivoted_cholesky", "nystrom", None)
PIVOTS = 16  # columns that are asked for at once
USUAL_RANK = 1000  # docs/maths.rst, "Preconditioner"
FLOOR = 1e-10  # of the noise, as a share of the mean diagonal
# Of what the columns leave of the diagonal, the share that stands for it. All of it
# would cost iterations; a tenth next to none.
STAND_IN = 0.1


def usual_rank(n: int) -> int:
    """Return 1000, or the number of samples where these are fewer."""
    return min(n, USUAL_RANK)


def above_rounding(noise: Tensor, diag: Tensor) -> Tensor:
    """Return noise (n,) that is nowhere below rounding of a matrix's diagonal (n,)."""
    return noise.clamp(min=FLOOR * float(diag.mean()))


def make_preconditioner(
    gram: GramOperator,
    noise: Tensor,
    kind: str | None,
    rank: int,
    generator: torch.Generator,
) -> LowRankPlusDiagonal:
    """Return F F^T + diag(noise + s), with F from a few columns of the matrix.

    The number s is a share of the mean diagonal of what F leaves out. Where the noise
    is much smaller than that, random vectors would else hardly enter the part of the
    matrix that is left, whose inverse is large.

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
    diagonal = above_rounding(noise, diag)
    if kind is None:
        return LowRankPlusDiagonal.from_factor(diag.new_zeros(len(diag), 0), diagonal)
    block = PIVOTS if kind == "pivoted_cholesky" else rank
    result = pivoted_cholesky(diag, gram.columns, rank, generator, block)
    left = STAND_IN * result.residual.mean()
    return LowRankPlusDiagonal.from_factor(result.factor, diagonal + left)
