"""Numerical routines on tensors; they know no Gaussian process and no kernel."""

from skconvgp.linalg._cholesky import (
    cholesky_inverse_diag,
    cholesky_logdet,
    cholesky_solve,
    factor_with_jitter_,
    half_solve,
    shifted_cholesky_,
)
from skconvgp.linalg._lsqr import lsqr
from skconvgp.linalg._operators import DenseGram, LowRankGram
from skconvgp.linalg._pivoted import PivotedCholesky, pivoted_cholesky
from skconvgp.linalg._spectral import symmetric_eigen
from skconvgp.linalg._symmetric import symmetrize_

__all__ = [
    "DenseGram",
    "LowRankGram",
    "PivotedCholesky",
    "cholesky_inverse_diag",
    "cholesky_logdet",
    "cholesky_solve",
    "factor_with_jitter_",
    "half_solve",
    "lsqr",
    "pivoted_cholesky",
    "shifted_cholesky_",
    "symmetric_eigen",
    "symmetrize_",
]
