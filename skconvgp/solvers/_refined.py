"""Direct solver that holds one matrix, in single precision, and refines solutions."""

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from skconvgp._parts import Part
from skconvgp._protocols import GramOperator, Solution
from skconvgp._settings import is_int, is_number, require
from skconvgp._tensors import int_range
from skconvgp.linalg import (
    FactorInPlace,
    block_cg,
    factor_in_place_,
    rademacher,
    row_values,
)

__all__ = ["RefinedCholesky", "RefinedCholeskyState"]

# Columns that are solved for together, and blocks of them that a solve holds.
BLOCK, SOLVE_COPIES = 32, 12
N_PROBES = 16  # for the error of the determinant


@dataclass(frozen=True)
class RefinedCholeskyState:
    """State of the solver for M = gram + diag(noise).

    Parameters
    ----------
    both : FactorInPlace
        The matrix and its factor in one array.
    log_det, log_det_error : float
        ``log |M|``, and its error.
    jitter : float
        Always 0: no jitter is added.
    """

    both: FactorInPlace
    log_det: float
    log_det_error: float
    jitter: float = 0.0


@dataclass(repr=False)
class RefinedCholesky(Part):
    """Cholesky factor in single precision, in place, with solutions that are refined.

    It holds 4 n^2 bytes, a quarter of what :class:`Cholesky` does: one triangle of an
    array keeps the matrix, and the other one has the factor. ``solver="auto"`` takes it
    if there is no memory for matrix and factor in double precision.

    Parameters
    ----------
    tolerance : float, default=1e-6
        A solution has converged if the norm of its residual is at most this share of
        the norm of its right-hand side.
    max_iter : int, default=50
        Largest number of refinements.

    Raises
    ------
    ValueError
        In `init`, for a setting that is not allowed, and on a GPU.
    NotPSDError
        In `init`, if the matrix has no factor in single precision: with a noise below
        1e-5 or so of the mean diagonal, if samples are many or alike.

    Notes
    -----
    Residuals are computed from the matrix, by sums in double precision. The factor
    solves for corrections, which conjugate gradients combine: two or three are enough,
    and more if the noise is small.

    Standard deviations, left-out values and the determinant come from the factor alone.
    Their relative error is about 1e-6 over the smallest eigenvalue of the matrix with
    its noise. An estimate of the error of the determinant is part of
    ``fit_report_.evidence_error``.

    References
    ----------
    Higham, "Accuracy and stability of numerical algorithms", 2002, chapter 12; Carson
    and Higham, "Accelerating the solution of linear systems by iterative refinement in
    three precisions", 2018.

    Examples
    --------
    >>> from skconvgp import ConvNetGPRegressor
    >>> from skconvgp.solvers import RefinedCholesky
    >>> gp = ConvNetGPRegressor(solver=RefinedCholesky(tolerance=1e-8))
    """

    tolerance: float = 1e-6
    max_iter: int = 50

    is_exact = True  # as in `Cholesky`
    # Left-out values that are computed for deviations and probabilities, at once: each
    # costs a triangular solve.
    n_left_out = 2000

    def n_single_values(self, n_samples: int) -> tuple[int, int]:
        """Return the numbers that it holds, in single and in double precision."""
        beside = n_samples * BLOCK * SOLVE_COPIES + row_values(n_samples)
        return n_samples**2, beside

    def least_noise(self, n_samples: int) -> float:
        """Return the noise, as a share of the mean diagonal, that rounding would hide.

        It is about the norm of the rounding errors of the entries.
        """
        return math.sqrt(n_samples) * torch.finfo(torch.float32).eps

    def init(self, gram: GramOperator, noise: Tensor) -> RefinedCholeskyState:
        """Factor the matrix; `noise` (n,) is added to its diagonal."""
        self._check()
        given_away = getattr(gram, "given_away", None)
        if given_away is None:
            by_rows = torch.contiguous_format
            matrix = gram.dense().to(torch.float32, copy=True, memory_format=by_rows)
        else:
            matrix = given_away()
        both = factor_in_place_(matrix, noise)
        return RefinedCholeskyState(both, *_log_det(both))

    def solve(self, state: RefinedCholeskyState, rhs: Tensor) -> Solution:
        """Solve for right-hand sides (n, k) in double precision, a block at a time."""
        both = state.both
        parts = [
            block_cg(
                both.matmul,
                columns,
                both.near_solve,
                tolerance=self.tolerance,
                max_iter=self.max_iter,
            )
            for columns in torch.split(rhs.to(torch.float64), BLOCK, dim=1)
        ]
        residual = float(torch.cat([part.residual for part in parts]).max())
        stats = {
            "iterations": float(max(part.n_iter for part in parts)),
            "residual": residual,
        }
        value = torch.cat([part.value for part in parts], dim=1).to(rhs.dtype)
        return Solution(value, residual <= self.tolerance, stats)

    def half_solve(self, state: RefinedCholeskyState, rhs: Tensor) -> Tensor:
        """Return R = L^-1 rhs (n, k), by the factor."""
        return state.both.half_solve(rhs)

    def logdet(self, state: RefinedCholeskyState) -> Tensor:
        """Return ``log |M|``."""
        return state.both.noise.new_tensor(state.log_det)

    def logdet_estimate(self, state: RefinedCholeskyState) -> tuple[Tensor, Tensor]:
        """Return ``log |M|`` and its error."""
        return self.logdet(state), state.both.noise.new_tensor(state.log_det_error)

    def inverse_diag(self, state: RefinedCholeskyState) -> Tensor:
        """Return the diagonal (n,) of M^-1, by a solve for each sample."""
        noise = state.both.noise
        return self.inverse_diag_of(state, int_range(len(noise), noise.device))

    def inverse_diag_of(self, state: RefinedCholeskyState, indices: Tensor) -> Tensor:
        """Return the entries (m,) of the diagonal of M^-1 at these indices."""
        parts, noise = [], state.both.noise
        for block in torch.split(indices, BLOCK * SOLVE_COPIES // 3):
            unit = noise.new_zeros(len(noise), len(block))
            unit[block, int_range(len(block), block.device)] = 1.0
            parts.append(state.both.half_solve(unit).square_().sum(0))
        return torch.cat(parts)

    def _check(self) -> None:
        """Raise unless every setting is allowed."""
        is_share = is_number(self.tolerance) and self.tolerance < 1.0
        require(self, "tolerance", is_share, "a number in (0, 1)")
        require(self, "max_iter", is_int(self.max_iter), "an int >= 1")


def _log_det(both: FactorInPlace) -> tuple[float, float]:
    """Return ``log |K + noise|`` and its error, by the factor and random vectors.

    The factor is that of a matrix P near M, and log |M| - log |P| is nearly the trace
    of L^-1 M L^-T less that of the identity.
    """
    noise = both.noise
    probes = rademacher(len(noise), N_PROBES, Generator().manual_seed(0)).to(noise)
    columns = both.back_solve(probes)
    forms = (columns * both.matmul(columns)).sum(0) - float(len(noise))
    error = float(forms.mean().abs() + forms.std() / N_PROBES**0.5)
    return float(both.logdet()), error
