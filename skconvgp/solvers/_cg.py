"""Iterative solver: it needs products with the matrix, not the matrix."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from skconvgp._parts import Part
from skconvgp._protocols import GramOperator, Solution
from skconvgp._settings import is_int, is_number, one_of, require
from skconvgp.linalg import (
    BoundedInverse,
    LowRankPlusDiagonal,
    block_cg,
    inverse_root,
    log_quadrature,
    rademacher,
    standard_error,
)
from skconvgp.solvers._preconditioners import (
    PRECONDITIONERS,
    above_rounding,
    make_preconditioner,
    usual_rank,
)

__all__ = ["ConjugateGradient", "ConjugateGradientState"]

# Columns that are solved for together, and for deviations, where all that was found
# on the way is kept.
BLOCK, ROOT_BLOCK = 256, 128
SETTLED = 0.1  # share of its standard error that the determinant may lack
# Blocks of columns that a solution holds; copies of the columns of a preconditioner
# while it is made, and of those that are kept: vectors and their rest.
SOLVE_COPIES, MAKING_COPIES, KEPT_COPIES = 12, 5, 2
DEVIATIONS = ("bound", "solve")
LEAST = 8  # steps of Lanczos in which the largest eigenvalue settles, too
LARGEST_SEED = 2**64 - 1


@dataclass(frozen=True)
class ConjugateGradientState:
    """What the iterative solver keeps.

    Parameters
    ----------
    gram : GramOperator or None
        The matrix, which is not copied; None where it was taken out.
    noise : Tensor of shape (n,)
        What is added to its diagonal.
    preconditioner : LowRankPlusDiagonal
        A matrix near their sum.
    bound : BoundedInverse or None
        A matrix nowhere above the inverse, for deviations; None where they iterate.
    log_det, log_det_error : float
        Estimate of ``log |M|``, and its error.
    jitter : float
        Always 0: nothing is added.
    """

    gram: GramOperator | None
    noise: Tensor
    preconditioner: LowRankPlusDiagonal
    bound: BoundedInverse | None
    log_det: float
    log_det_error: float
    jitter: float = 0.0

    def matmul(self, columns: Tensor) -> Tensor:
        """Return M times columns (n, k)."""
        assert self.gram is not None
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
        Number of these columns; "auto" is 1000, or all of fewer samples. With as many
        columns as samples the solver is direct.
    deviations : {"bound", "solve"}, default="bound"
        "bound" takes deviations from these columns and what is known of the rest: at
        the cost of a product with them, never too small, and too large where columns
        are too few. "solve" iterates for each sample, to the same tolerance; a
        variance a billion times smaller than that of the prior is not resolved then.
    n_probes : int, default=16
        Random vectors for the determinant.
    n_lanczos : int, default=100
        Products with the matrix for each of them at most, 8 or more; it stops where
        more would change less than a tenth of the error that so few vectors leave.
    random_state : int, default=0
        Seed of the columns and of the probes, which are the same in every call.

    Raises
    ------
    ValueError
        In `init`, before any work, for a setting that is not allowed.

    Notes
    -----
    An iteration costs a product of the matrix with all columns, 2 n^2 k operations;
    more columns take fewer iterations. Where the matrix is not held, each product
    evaluates all covariances. `init` takes the products of the determinant and, for
    "bound", one with the `rank` columns.

    The preconditioner is F F^T from the columns, and on the diagonal the noise and a
    tenth of the mean that the columns leave of it. Without that tenth, noise far below
    it would make the evidence and its slopes uncertain, with huge weights for the part
    of the matrix that no column is near.

    The evidence is an estimate with the error that :meth:`logdet_estimate` gives. With
    U orthonormal and A = U (U^T M U)^-1 U^T, deviations by "bound" take
    A + (I - M A)^T (I - M A) / t for M^-1, where t is above all eigenvalues that U
    leaves: that is nowhere above M^-1. They are right to a few percent where U holds
    the eigenvalues that are larger than the noise.

    `inverse_diag` solves for columns of the identity: exact, and slower than
    :class:`Cholesky` wherever that fits into memory.

    References
    ----------
    Ji and Li, "A breakdown-free block conjugate gradient method", 2017; Gardner et al.,
    "GPyTorch: blackbox matrix-matrix Gaussian process inference with GPU acceleration",
    2018; Pleiss et al., "Constant-time predictive distributions for Gaussian
    processes", 2018; Wang et al., "Exact Gaussian processes on a million data points",
    2019; Chen, Epperly, Tropp and Webber, "Randomly pivoted Cholesky", 2022.

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
    deviations: str = "bound"
    n_probes: int = 16
    n_lanczos: int = 100
    random_state: int = 0

    def n_values(self, n_samples: int) -> int:
        """Return how many numbers it holds at once beside the matrix."""
        self._check()
        rank = self._rank(n_samples)
        probes = self.n_probes * min(self.n_lanczos, n_samples)
        later = KEPT_COPIES * rank + max(SOLVE_COPIES * BLOCK, probes)
        return n_samples * max(MAKING_COPIES * rank, later)

    def init(self, gram: GramOperator, noise: Tensor) -> ConjugateGradientState:
        """Make the preconditioner; `noise` (n,) is added to the diagonal."""
        self._check()
        rank = self._rank(gram.n_samples)
        near = make_preconditioner(
            gram, noise, self.preconditioner, rank, self._generator()
        )
        state = ConjugateGradientState(gram, noise, near, None, 0.0, 0.0)
        seen = log_quadrature(
            state.whitened, self._probes(noise), self.n_lanczos, SETTLED
        )
        change = float((seen.forms - seen.coarse).mean())
        bound = None
        # Without columns there are no bounds.
        if self.deviations == "bound" and self.preconditioner is not None:
            found = BoundedInverse.from_products(near, state.matmul)
            bound = replace(found, ceiling=seen.largest)
        return replace(
            state,
            bound=bound,
            log_det=float(near.logdet() + seen.forms.mean()),
            log_det_error=math.hypot(standard_error(seen.forms), change),
        )

    def for_search(self) -> "ConjugateGradient":
        """Return the solver without bounds, which only deviations need."""
        return replace(self, deviations="solve")

    def solve(self, state: ConjugateGradientState, rhs: Tensor) -> Solution:
        """Solve for right-hand sides (n, k), a block of columns at a time."""
        return self._solve(state, rhs, self.tolerance)

    def half_solve(self, state: ConjugateGradientState, rhs: Tensor) -> Tensor:
        """Return R (r, k) with R^T R = rhs^T M^-1 rhs, or nowhere above it."""
        if state.bound is not None:
            return state.bound.half_solve(state.preconditioner, rhs)
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
        new = state.noise.new_tensor
        return new(state.log_det), new(state.log_det_error)

    def inverse_factors(
        self, state: ConjugateGradientState
    ) -> tuple[Tensor, Tensor, Tensor]:
        r"""Return an unbiased estimate of M^-1, A B^T + diag(d).

        It gives the derivative of ``log |M|`` by whatever M depends on, its trace with
        dM. The p probes w are those of the determinant: with z = C w, where
        :math:`P = C C^T` is the preconditioner, :math:`E z z^T = P`, and
        :math:`N + (M^{-1} z - N z)(P^{-1} z)^T` has the mean M^-1 for any N. The nearer
        N is to M^-1, the less the probes vary.

        Returns
        -------
        left, right : Tensor of shape (n, p + r)
            A and B; first the columns of the probes.
        diag : Tensor of shape (n,)
            The diagonal d.
        """
        assert state.gram is not None
        near = state.preconditioner
        probes = self._probes(state.noise) / self.n_probes**0.5
        z = near.unwhiten(probes)
        left, right, diag = near.inverse_near(state.gram.diag() + state.noise)
        known = left @ (right.mT @ z) + diag[:, None] * z
        unknown = self.solve(state, z).value - known
        return (
            torch.cat([unknown, left], dim=1),
            torch.cat([near.whiten_transposed(probes), right], dim=1),
            diag,
        )

    def inverse_diag(self, state: ConjugateGradientState) -> Tensor:
        """Return the diagonal (n,) of M^-1, by a solution for each sample."""
        everyone = torch.arange(len(state.noise), device=state.noise.device)
        return self._inverse_diag(state, everyone, self.tolerance)

    def inverse_diag_of(self, state: ConjugateGradientState, numbers: Tensor) -> Tensor:
        """Return the entries (m,) of that diagonal that belong to some samples.

        As a form of a solution, its error is the square of that of the solution.
        """
        return self._inverse_diag(state, numbers, math.sqrt(self.tolerance))

    def left_out_variances(
        self, state: ConjugateGradientState, numbers: Tensor
    ) -> Tensor | None:
        """Return variances (m,) of observations of some samples from all others.

        They are what `half_solve` gives for a new sample in the place of each, bounds
        where those are: of the same size as the variances that are predicted. None
        where `half_solve` is exact, as then 1 / (M^-1)_ii is the same.
        """
        if state.bound is None:
            return None
        assert state.gram is not None
        noise = above_rounding(state.noise, state.gram.diag())
        parts = []
        for some in torch.split(numbers, ROOT_BLOCK):
            each = torch.arange(len(some), device=some.device)
            columns = state.gram.columns(some).clone()
            columns[some, each] += state.noise[some]
            parts.append(
                state.bound.left_out_variances(
                    state.preconditioner, columns, some, noise[some]
                )
            )
        return torch.cat(parts)

    def _solve(
        self, state: ConjugateGradientState, rhs: Tensor, tolerance: float
    ) -> Solution:
        parts = [
            block_cg(
                state.matmul,
                columns,
                state.preconditioner.solve,
                tolerance=tolerance,
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
        return Solution(value, residual <= tolerance, stats)

    def _inverse_diag(
        self, state: ConjugateGradientState, numbers: Tensor, tolerance: float
    ) -> Tensor:
        assert state.gram is not None
        parts = []
        for some in torch.split(numbers, BLOCK):
            columns = torch.arange(len(some), device=some.device)
            unit = state.noise.new_zeros(len(state.noise), len(some))
            unit[some, columns] = 1.0
            value = self._solve(state, unit, tolerance).value
            parts.append(value[some, columns])
        # They are nowhere below the inverse of the diagonal, as iterates may be.
        least = 1.0 / (state.gram.diag() + state.noise)[numbers]
        return torch.maximum(torch.cat(parts), least)

    def _check(self) -> None:
        """Raise unless every setting is allowed."""
        is_share = is_number(self.tolerance) and self.tolerance < 1.0
        require(self, "tolerance", is_share, "a number in (0, 1)")
        for name, least in (("max_iter", 1), ("n_probes", 1), ("n_lanczos", LEAST)):
            is_enough = is_int(getattr(self, name), least)
            require(self, name, is_enough, f"an int >= {least}")
        is_seed = is_int(self.random_state, least=0, most=LARGEST_SEED)
        require(self, "random_state", is_seed, "an int from 0 to 2**64 - 1")
        is_rank = self.rank == "auto" or is_int(self.rank)
        require(self, "rank", is_rank, "'auto' or an int >= 1")
        is_word = isinstance(self.preconditioner, str | None)
        is_kind = is_word and self.preconditioner in PRECONDITIONERS
        expected = "'pivoted_cholesky', 'nystrom' or None"
        require(self, "preconditioner", is_kind, expected)
        require(self, "deviations", self.deviations in DEVIATIONS, one_of(DEVIATIONS))

    def _probes(self, noise: Tensor) -> Tensor:
        return rademacher(len(noise), self.n_probes, self._generator()).to(noise)

    def _rank(self, n: int) -> int:
        return usual_rank(n) if self.rank == "auto" else min(n, int(self.rank))

    def _generator(self) -> Generator:
        return Generator().manual_seed(self.random_state)
