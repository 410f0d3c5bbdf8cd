"""Iterative solver: it needs products with the matrix, not the matrix."""

from dataclasses import dataclass
from numbers import Integral

import torch
from torch import Generator, Tensor

from skconvgp._parts import Part
from skconvgp._protocols import GramOperator, Solution
from skconvgp.linalg import (
    LowRankPlusDiagonal,
    block_cg,
    inverse_root,
    log_quadrature,
    rademacher,
)
from skconvgp.solvers._preconditioners import (
    PRECONDITIONERS,
    make_preconditioner,
    usual_rank,
)

__all__ = ["ConjugateGradient", "ConjugateGradientState"]

# Columns that are solved for together, and for deviations, where all that was found
# on the way is kept.
BLOCK, ROOT_BLOCK = 256, 128


@dataclass(frozen=True)
class ConjugateGradientState:
    """What the iterative solver keeps.

    Parameters
    ----------
    gram : GramOperator
        The matrix, which is not copied.
    noise : Tensor of shape (n,)
        What is added to its diagonal.
    preconditioner : LowRankPlusDiagonal
        A matrix near their sum.
    jitter : float
        Always 0: nothing is added.
    """

    gram: GramOperator
    noise: Tensor
    preconditioner: LowRankPlusDiagonal
    jitter: float = 0.0

    def matmul(self, columns: Tensor) -> Tensor:
        """Return M times columns (n, k)."""
        return self.gram.matmul(columns) + self.noise[:, None] * columns

    def whitened(self, columns: Tensor) -> Tensor:
        """Return C^-1 M C^-T times columns (n, k), where C C^T is near M."""
        near = self.preconditioner
        return near.whiten(self.matmul(near.whiten_transposed(columns)))


@dataclass(repr=False)
class ConjugateGradient(Part):
    """Block conjugate gradients: time and memory of products with the matrix.

    Parameters
    ----------
    tolerance : float, default=1e-6
        Norm of a residual, as a share of that of its right-hand side, at which a
        solution counts as converged.
    max_iter : int, default=1000
        Iterations at most.
    preconditioner : {"pivoted_cholesky", "nystrom"} or None, \
default="pivoted_cholesky"
        How columns of the matrix are chosen that make a cheap one near it: a few at a
        time, where those before leave most, or all at once.
    rank : "auto" or int, default="auto"
        Number of these columns; "auto" is a tenth of the samples, but from 100 to 1000.
        With as many columns as samples the solver is direct.
    n_probes : int, default=16
        Random vectors for the determinant.
    n_lanczos : int, default=30
        Products with the matrix for each of them; little noise takes more.
    random_state : int, default=0
        Seed of the columns and of the probes, which are the same in every call.

    Raises
    ------
    ValueError
        In `init`, for a preconditioner or a rank that there is not.

    Notes
    -----
    An iteration costs a product of the matrix with all columns, 2 n^2 k operations;
    more columns take fewer iterations. The evidence is an estimate with the standard
    error that :meth:`logdet_estimate` gives. A deviation costs as much as a solution,
    where :class:`Cholesky` has it for one product; stopped early it is too large, never
    too small. `inverse_diag` solves for every column of the identity: exact, and slower
    than :class:`Cholesky` wherever that fits into memory.

    References
    ----------
    Ji and Li, "A breakdown-free block conjugate gradient method", 2017; Gardner et al.,
    "GPyTorch: blackbox matrix-matrix Gaussian process inference with GPU acceleration",
    2018; Wang et al., "Exact Gaussian processes on a million data points", 2019; Chen,
    Epperly, Tropp and Webber, "Randomly pivoted Cholesky", 2022.

    Examples
    --------
    >>> from skconvgp import ConvNetGPRegressor
    >>> from skconvgp.solvers import ConjugateGradient
    >>> gp = ConvNetGPRegressor(solver=ConjugateGradient(tolerance=1e-4))
    """

    tolerance: float = 1e-6
    max_iter: int = 1000
    preconditioner: str | None = "pivoted_cholesky"
    rank: str | int = "auto"
    n_probes: int = 16
    n_lanczos: int = 30
    random_state: int = 0

    def init(self, gram: GramOperator, noise: Tensor) -> ConjugateGradientState:
        """Make the preconditioner; `noise` (n,) is added to the diagonal."""
        near = make_preconditioner(
            gram,
            noise,
            self._kind(),
            self._rank(gram.n_samples),
            self._generator(),
        )
        return ConjugateGradientState(gram, noise, near)

    def solve(self, state: ConjugateGradientState, rhs: Tensor) -> Solution:
        """Solve for right-hand sides (n, k), a block of columns at a time."""
        parts = [
            block_cg(
                state.matmul,
                columns,
                state.preconditioner.solve,
                tolerance=self.tolerance,
                max_iter=self.max_iter,
            )
            for columns in torch.split(rhs, BLOCK, dim=1)
        ]
        residual = float(torch.cat([part.residual for part in parts]).max())
        stats = {
            "iterations": float(max(part.n_iter for part in parts)),
            "residual": residual,
        }
        value = torch.cat([part.value for part in parts], dim=1)
        return Solution(value, residual <= self.tolerance, stats)

    def half_solve(self, state: ConjugateGradientState, rhs: Tensor) -> Tensor:
        """Return R (n, k) with R^T R = rhs^T M^-1 rhs, a block of columns at a time."""
        parts = [
            inverse_root(
                state.whitened,
                state.preconditioner.whiten(columns),
                tolerance=self.tolerance,
                max_iter=self.max_iter,
            )
            for columns in torch.split(rhs, ROOT_BLOCK, dim=1)
        ]
        return torch.cat(parts, dim=1)

    def logdet(self, state: ConjugateGradientState) -> Tensor:
        """Return an estimate of ``log |M|``."""
        return self.logdet_estimate(state)[0]

    def logdet_estimate(self, state: ConjugateGradientState) -> tuple[Tensor, Tensor]:
        """Return an estimate of ``log |M|`` and its error.

        Parameters
        ----------
        state : ConjugateGradientState
            From `init`.

        Returns
        -------
        value, error : Tensor of shape ()
            The determinant of the preconditioner, exactly, and an estimate of what is
            missing; standard error, with what the last half of the steps changed.
        """
        noise = state.noise
        probes = rademacher(len(noise), self.n_probes, self._generator()).to(noise)
        forms, coarse = log_quadrature(state.whitened, probes, self.n_lanczos)
        spread = forms.new_full((), torch.inf)  # one probe does not tell
        if self.n_probes > 1:
            spread = forms.var() / self.n_probes
        change = (forms - coarse).mean()
        value = state.preconditioner.logdet() + forms.mean()
        return value, (spread + change.square()).sqrt()

    def inverse_diag(self, state: ConjugateGradientState) -> Tensor:
        """Return the diagonal (n,) of M^-1, by a solution for each sample."""
        n = len(state.noise)
        diag = torch.empty_like(state.noise)
        for start in range(0, n, BLOCK):
            stop = min(start + BLOCK, n)
            unit = state.noise.new_zeros(n, stop - start)
            unit[start:stop].fill_diagonal_(1.0)
            diag[start:stop] = self.solve(state, unit).value[start:stop].diagonal()
        return diag

    def _kind(self) -> str | None:
        if self.preconditioner in PRECONDITIONERS:
            return self.preconditioner
        raise ValueError(
            "The 'preconditioner' parameter of ConjugateGradient must be "
            "'pivoted_cholesky', 'nystrom' or None. Got "
            f"{self.preconditioner!r} instead."
        )

    def _rank(self, n: int) -> int:
        if self.rank == "auto":
            return usual_rank(n)
        if isinstance(self.rank, Integral) and self.rank >= 1:
            return min(n, int(self.rank))
        raise ValueError(
            "The 'rank' parameter of ConjugateGradient must be 'auto' or an int >= 1. "
            f"Got {self.rank!r} instead."
        )

    def _generator(self) -> Generator:
        return Generator().manual_seed(self.random_state)
