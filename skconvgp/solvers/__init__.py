"""Solvers of (gram + diag(noise)) x = rhs, pluggable as `solver=`."""

from skconvgp._parts import Part
from skconvgp._protocols import Solution
from skconvgp.solvers._cholesky import Cholesky, CholeskyState

__all__ = ["Cholesky", "CholeskyState", "Part", "Solution"]
