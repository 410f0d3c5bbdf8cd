"""Numerical routines on tensors; they know no Gaussian process and no kernel."""

from skconvgp.linalg._anderson import Anderson
from skconvgp.linalg._cg import BlockSolution, block_cg
from skconvgp.linalg._cholesky import (
    back_solve,
    cholesky_inverse,
    cholesky_inverse_diag,
    cholesky_logdet,
    cholesky_product,
    cholesky_rows,
    cholesky_solve,
    factor_with_jitter_,
    half_solve,
    plain_cholesky,
    shifted_cholesky_,
    shifted_choleskys,
    solve_blocks,
)
from skconvgp.linalg._contrast import standardized
from skconvgp.linalg._in_place import (
    FactorInPlace,
    SingleGram,
    factor_in_place_,
    row_values,
)
from skconvgp.linalg._lanczos import (
    LogQuadrature,
    inverse_root,
    log_quadrature,
    rademacher,
    standard_error,
)
from skconvgp.linalg._lloyd import cluster_means
from skconvgp.linalg._lsqr import lsqr
from skconvgp.linalg._moments import Moments
from skconvgp.linalg._operators import DenseGram
from skconvgp.linalg._pivoted import PivotedCholesky, pivoted_cholesky
from skconvgp.linalg._products import (
    column_factor,
    product_change,
    psd_factor,
    pseudo_inverse_map,
    ridge_solve,
    row_factor,
    spread_rows,
)
from skconvgp.linalg._rotations import random_frames
from skconvgp.linalg._spectral import (
    eigen_with_rounding,
    symmetric_eigen,
    without_rounding,
)
from skconvgp.linalg._symmetric import own_products, symmetrize_
from skconvgp.linalg._transport import gaussian_transport
from skconvgp.linalg._truncated import (
    Symmetric,
    leading_eigenpairs,
    leading_right_vectors,
    widened,
)
from skconvgp.linalg._whitening import (
    smooth_root,
    triangular_root,
    whitening_root,
)
from skconvgp.linalg._woodbury import BoundedInverse, LowRankPlusDiagonal

__all__ = [
    "Anderson",
    "BlockSolution",
    "BoundedInverse",
    "DenseGram",
    "FactorInPlace",
    "LogQuadrature",
    "LowRankPlusDiagonal",
    "Moments",
    "PivotedCholesky",
    "SingleGram",
    "Symmetric",
    "back_solve",
    "block_cg",
    "cholesky_inverse",
    "cholesky_inverse_diag",
    "cholesky_logdet",
    "cholesky_product",
    "cholesky_rows",
    "cholesky_solve",
    "cluster_means",
    "column_factor",
    "eigen_with_rounding",
    "factor_in_place_",
    "factor_with_jitter_",
    "gaussian_transport",
    "half_solve",
    "inverse_root",
    "leading_eigenpairs",
    "leading_right_vectors",
    "log_quadrature",
    "lsqr",
    "own_products",
    "pivoted_cholesky",
    "plain_cholesky",
    "product_change",
    "psd_factor",
    "pseudo_inverse_map",
    "rademacher",
    "random_frames",
    "ridge_solve",
    "row_factor",
    "row_values",
    "shifted_cholesky_",
    "shifted_choleskys",
    "smooth_root",
    "solve_blocks",
    "spread_rows",
    "standard_error",
    "standardized",
    "symmetric_eigen",
    "symmetrize_",
    "triangular_root",
    "whitening_root",
    "widened",
    "without_rounding",
]
