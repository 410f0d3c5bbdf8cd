"""Solvers of (gram + diag(noise)) x = rhs, pluggable as `solver=`."""

from skconvgp.solvers._cholesky import Cholesky, CholeskyState

__all__ = ["Cholesky", "CholeskyState"]
