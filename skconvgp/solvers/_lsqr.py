"""LSQR stopped early, to reproduce published results that used it."""

from dataclasses import dataclass

import torch
from torch import Tensor

from skconvgp._parts import Part
from skconvgp._protocols import GramOperator, Solution
from skconvgp._settings import is_int, is_number, require
from skconvgp.linalg import (
    cholesky_inverse_diag,
    cholesky_logdet,
    half_solve,
    lsqr,
    shifted_cholesky_,
)
from skconvgp.solvers._cholesky import CholeskyState

__all__ = ["Lsqr"]


@dataclass(repr=False)
class Lsqr(Part):
    """LSQR stopped early: less accurate, and meant for reproduction only.

    Only `solve` uses LSQR, for one right-hand side after the other. All other results
    are exact, from a factorisation as in :class:`Cholesky`. Hence no time is saved, and
    standard deviations and the determinant do not reflect the error of the solution.

    Parameters
    ----------
    atol, btol : float, default=1e-3
        Stopping tolerances: relative errors that may remain in the matrix and in the
        right-hand side. A solution counts as converged if its residual meets `btol`,
        and as not converged if `atol` stops it earlier.
    max_iter : int or None, default=None
        Largest number of iterations for each right-hand side; None is twice the number
        of samples.

    Raises
    ------
    NotPSDError
        In `init`, as :class:`Cholesky`.
    ValueError
        In `init`, before any work, for a setting that is not allowed.

    Notes
    -----
    At ``atol=1e-3`` it stops after a few iterations on the spectra of deep networks,
    whatever the number of samples, so that more samples hardly improve predictions. At
    ``atol=1e-6`` it comes close to :class:`Cholesky`, after hundreds of iterations.

    References
    ----------
    Meinel, MSc thesis, 2020, section 3.3.6; Paige and Saunders, "LSQR: an algorithm for
    sparse linear equations and sparse least squares", 1982.

    Examples
    --------
    >>> from skconvgp import ConvNetGPRegressor
    >>> from skconvgp.solvers import Lsqr
    >>> gp = ConvNetGPRegressor(solver=Lsqr(atol=1e-6))
    """

    atol: float = 1e-3
    btol: float = 1e-3
    max_iter: int | None = None

    def init(self, gram: GramOperator, noise: Tensor) -> CholeskyState:
        """Factor the matrix; `noise` (n,) is added to its diagonal."""
        for name in ("atol", "btol"):
            value = getattr(self, name)
            is_tolerance = is_number(value) or (type(value) is not bool and value == 0)
            require(self, name, is_tolerance, "a finite number >= 0")
        is_count = self.max_iter is None or is_int(self.max_iter)
        require(self, "max_iter", is_count, "None or an int >= 1")
        return CholeskyState(*shifted_cholesky_(gram.dense(), noise))

    def solve(self, state: CholeskyState, rhs: Tensor) -> Solution:
        """Solve for right-hand sides (n, k), each up to the tolerances."""
        n_samples = len(rhs)
        max_iter = 2 * n_samples if self.max_iter is None else self.max_iter

        # The matrix itself is gone, its factor is not: M = L L^T.
        def multiply(vector: Tensor) -> Tensor:
            return state.factor @ (state.factor.mT @ vector)

        results = [
            lsqr(multiply, column, atol=self.atol, btol=self.btol, max_iter=max_iter)
            for column in rhs.unbind(1)
        ]
        value = torch.stack([solution for solution, _, _ in results], dim=1)
        residual = (rhs - multiply(value)).norm(dim=0)
        size = rhs.norm(dim=0)
        # A right-hand side of zeros has the solution zero, and no relative residual.
        relative = residual / size.where(size > 0.0, 1.0)
        stats = {
            "iterations": float(max(n_iter for _, n_iter, _ in results)),
            "residual": float(relative.max()),
        }
        return Solution(value, all(is_solved for _, _, is_solved in results), stats)

    def half_solve(self, state: CholeskyState, rhs: Tensor) -> Tensor:
        """Return R (n, k) with R^T R = rhs^T M^-1 rhs, exactly."""
        return half_solve(state.factor, rhs)

    def logdet(self, state: CholeskyState) -> Tensor:
        """Return ``log |M|``, exactly."""
        return cholesky_logdet(state.factor)

    def inverse_diag(self, state: CholeskyState) -> Tensor:
        """Return the diagonal (n,) of M^-1, exactly."""
        return cholesky_inverse_diag(state.factor)
