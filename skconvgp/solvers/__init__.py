"""Solvers of (gram + diag(noise)) x = rhs, to pass as `solver=`."""

from skconvgp._parts import Part
from skconvgp._protocols import Solution
from skconvgp.solvers._cg import ConjugateGradient, ConjugateGradientState
from skconvgp.solvers._cholesky import Cholesky, CholeskyState
from skconvgp.solvers._lsqr import Lsqr
from skconvgp.solvers._refined import RefinedCholesky, RefinedCholeskyState

__all__ = [
    "Cholesky",
    "CholeskyState",
    "ConjugateGradient",
    "ConjugateGradientState",
    "Lsqr",
    "Part",
    "RefinedCholesky",
    "RefinedCholeskyState",
    "Solution",
]
