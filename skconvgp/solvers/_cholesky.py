"""Direct solver: a Cholesky factorisation of the whole matrix."""

from dataclasses import dataclass

from torch import Tensor

from skconvgp._parts import Part
from skconvgp._protocols import GramOperator, Solution
from skconvgp.linalg import (
    cholesky_inverse_diag,
    cholesky_logdet,
    cholesky_product,
    cholesky_rows,
    cholesky_solve,
    half_solve,
    shifted_cholesky_,
)

__all__ = ["Cholesky", "CholeskyState"]


@dataclass(frozen=True)
class CholeskyState:
    """Factorisation M = L L^T that the direct solver keeps.

    Parameters
    ----------
    factor : Tensor of shape (n, n)
        The lower Cholesky factor L.
    jitter : float
        Jitter that had to be added to the diagonal; 0 if none.
    """

    factor: Tensor
    jitter: float


@dataclass(repr=False)
class Cholesky(Part):
    """Cholesky factorisation with a bounded jitter ladder: exact, O(n^3).

    Raises
    ------
    NotPSDError
        In `init`, if the matrix is not positive definite even with a jitter of 1e-4
        times its mean diagonal.

    References
    ----------
    Rasmussen and Williams, "Gaussian processes for machine learning", 2006,
    algorithm 2.1.

    Examples
    --------
    >>> from skconvgp import ConvNetGPRegressor
    >>> from skconvgp.solvers import Cholesky
    >>> gp = ConvNetGPRegressor(solver=Cholesky())
    """

    # Whether any right-hand side is solved for as exactly as the factor allows.
    is_exact = True

    def init(self, gram: GramOperator, noise: Tensor) -> CholeskyState:
        """Factor the matrix; `noise` (n,) is added to its diagonal."""
        return CholeskyState(*shifted_cholesky_(gram.dense(), noise))

    def solve(self, state: CholeskyState, rhs: Tensor) -> Solution:
        """Solve for right-hand sides (n, k)."""
        return Solution(cholesky_solve(state.factor, rhs))

    def half_solve(self, state: CholeskyState, rhs: Tensor) -> Tensor:
        """Return R = L^-1 rhs (n, k), with R^T R = rhs^T M^-1 rhs."""
        return half_solve(state.factor, rhs)

    def logdet(self, state: CholeskyState) -> Tensor:
        """Return ``log |M|``."""
        return cholesky_logdet(state.factor)

    def inverse_diag(self, state: CholeskyState) -> Tensor:
        """Return the diagonal (n,) of M^-1."""
        return cholesky_inverse_diag(state.factor)

    def product(self, state: CholeskyState) -> Tensor:
        """Return M (n, n), with the jitter that had to be added."""
        return cholesky_product(state.factor)

    def rows(self, state: CholeskyState, rows: slice) -> Tensor:
        """Return rows (b, m) of M up to its diagonal, where m is their end."""
        return cholesky_rows(state.factor, rows)
