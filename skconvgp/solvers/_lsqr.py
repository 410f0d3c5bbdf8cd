"""Truncated LSQR, as one of the sources ran it."""

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
    """LSQR stopped early: for reproduction only, it costs accuracy.

    Only `solve` is LSQR, for one right-hand side after the other. All else is exact:
    the matrix is factored as :class:`Cholesky` does it. So no time is saved, and
    deviations and the determinant do not show what the solution lacks.

    Parameters
    ----------
    atol, btol : float, default=1e-3
        Errors of the matrix and of the right-hand side, relative to their norms, that
        may remain. A solution counts as converged where its residual is as small as
        `btol` asks; where `atol` ends it before, it does not.
    max_iter : int or None, default=None
        Iterations at most for each right-hand side; None is twice the samples.

    Raises
    ------
    NotPSDError
        In `init`, as :class:`Cholesky`.
    ValueError
        In `init`, before any work, for a setting that is not allowed.

    Notes
    -----
    At ``atol=1e-3`` it stops after a few iterations on the spectra of deep networks,
    however many samples there are, so that more samples hardly make predictions
    better. At ``atol=1e-6`` it comes close to :class:`Cholesky`, after hundreds of
    iterations.

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
        """Solve for right-hand sides (n, k), each as far as the tolerances ask."""
        n_samples = len(rhs)
        max_iter = 2 * n_samples if self.max_iter is None else self.max_iter

        def multiply(vector: Tensor) -> Tensor:
            return state.factor @ (state.factor.mT @ vector)

        ends = [
            lsqr(multiply, side, atol=self.atol, btol=self.btol, max_iter=max_iter)
            for side in rhs.unbind(1)
        ]
        value = torch.stack([solution for solution, _, _ in ends], dim=1)
        residual = (rhs - multiply(value)).norm(dim=0)
        size = rhs.norm(dim=0)
        stats = {
            "iterations": float(max(n_iter for _, n_iter, _ in ends)),
            "residual": float((residual / size.where(size > 0.0, 1.0)).max()),
        }
        return Solution(value, all(is_solved for _, _, is_solved in ends), stats)

    def half_solve(self, state: CholeskyState, rhs: Tensor) -> Tensor:
        """Return R (n, k) with R^T R = rhs^T M^-1 rhs, exactly."""
        return half_solve(state.factor, rhs)

    def logdet(self, state: CholeskyState) -> Tensor:
        """Return ``log |M|``, exactly."""
        return cholesky_logdet(state.factor)

    def inverse_diag(self, state: CholeskyState) -> Tensor:
        """Return the diagonal (n,) of M^-1, exactly."""
        return cholesky_inverse_diag(state.factor)
