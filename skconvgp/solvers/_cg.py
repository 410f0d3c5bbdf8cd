"""Iterative solver: it needs only products with the matrix."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from skconvgp._parts import Part
from skconvgp._protocols import GramOperator, Solution
from skconvgp._settings import is_int, is_number, one_of, require
from skconvgp._tensors import int_range
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
    default_rank,
    make_preconditioner,
)

__all__ = ["ConjugateGradient", "ConjugateGradientState"]

# Columns that are solved for together. A root keeps the directions of all iterations:
# its blocks are smaller.
BLOCK, ROOT_BLOCK = 256, 128
SETTLED = 0.1  # change of the log determinant, as a share of its standard error
# Memory: blocks of columns that a solve holds; and matrices (n, rank) while the
# preconditioner is made, and later: its vectors and the residual of the bound.
SOLVE_COPIES, MAKING_COPIES, KEPT_COPIES = 12, 5, 2
DEVIATIONS = ("bound", "solve")
FEWEST_LANCZOS = 8  # with fewer steps the largest eigenvalue, too, is inaccurate
LARGEST_SEED = 2**64 - 1
MOST_PROBES = 10_000  # the log determinant is then known to a percent of its error


@dataclass(frozen=True)
class ConjugateGradientState:
    """State of the iterative solver for M = gram + diag(noise).

    Parameters
    ----------
    gram : GramOperator or None
        The matrix, not a copy; None while a fitted model does without it.
    noise : Tensor of shape (n,)
        Noise variances, which are added to its diagonal.
    preconditioner : LowRankPlusDiagonal
        A matrix P near M.
    bound : BoundedInverse or None
        A matrix bounded above by M^-1, for standard deviations; None if these are
        solved for.
    log_det, log_det_error : float
        Estimate of ``log |M|``, and its error.
    jitter : float
        Always 0: no jitter is added.
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
        """Return C^-1 M C^-T times columns (n, k), with the preconditioner C C^T."""
        near = self.preconditioner
        return near.whiten(self.matmul(near.whiten_transposed(columns)))


@dataclass(repr=False)
class ConjugateGradient(Part):
    """Block conjugate gradients, which need only products with the matrix.

    Parameters
    ----------
    tolerance : float, default=1e-6
        A solution has converged if the norm of its residual is at most this share of
        the norm of its right-hand side.
    max_iter : int, default=1000
        Largest number of iterations.
    preconditioner : {"pivoted_cholesky", "nystrom"} or None, \
default="pivoted_cholesky"
        The preconditioner is a low-rank matrix, made from columns of the matrix, plus
        a diagonal one. "pivoted_cholesky" draws the columns a few at a time, mostly at
        samples that the columns before explain least. "nystrom" draws all at once.
        None uses no columns.
    rank : "auto" or int, default="auto"
        Number of these columns; "auto" is 1000, or the number of samples if that is
        smaller. With as many columns as samples the solver is direct.
    deviations : {"bound", "solve"}, default="bound"
        How standard deviations are computed. "bound" computes upper bounds from the
        columns of the preconditioner, at the cost of a product with them. The bounds
        are never too small, and too large if there are too few columns. "solve"
        iterates for each sample, to the same tolerance. It does not resolve variances
        that are a billion times smaller than the prior variance.
    n_probes : int, default=16
        Number of random probe vectors for the determinant.
    n_lanczos : int, default=100
        Largest number of products with the matrix for each probe, 8 or more. Fewer are
        computed if more would change the result by less than a tenth of its standard
        error over the probes.
    random_state : int, default=0
        Seed of the columns and of the probes, which are the same in every call.

    Raises
    ------
    ValueError
        In `init`, before any work, for a setting that is not allowed.

    Notes
    -----
    With k right-hand sides, an iteration costs a product of the matrix with k columns,
    2 n^2 k operations. More right-hand sides take fewer iterations, as all of a block
    share their search directions. If the matrix is not stored, each product evaluates
    all covariances anew. `init` computes the products for the determinant and, with
    "bound", a product with `rank` columns.

    The preconditioner is F F^T + D. F comes from the columns. The diagonal matrix D is
    the noise plus a tenth of the mean diagonal of the residual K - F F^T. Without that
    tenth, and with noise far below it, the evidence and its derivatives would be
    uncertain: probes would give huge weights to the residual.

    The evidence is an estimate, whose error :meth:`logdet_estimate` returns. With
    orthonormal vectors U, here those of the preconditioner, and
    A = U (U^T M U)^-1 U^T, "bound" replaces M^-1 by
    A + (I - M A)^T (I - M A) / t, where t is at least the largest eigenvalue of M
    outside of the span of U. This matrix is at most M^-1 in the Loewner order, so that
    variances are upper bounds. They are right to a few percent if the span of U
    contains the eigenvectors whose eigenvalues exceed the noise.

    `inverse_diag` solves for columns of the identity. It is exact, but slower than
    :class:`Cholesky` whenever that fits into memory.

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
        """Return the number of values that it holds at once beside the matrix."""
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
        # log |M| = log |C C^T| + log |C^-1 M C^-T|. The first term is known exactly;
        # the probes vary little in the second, whose matrix is near the identity.
        quadrature = log_quadrature(
            state.whitened, self._probes(noise), self.n_lanczos, SETTLED
        )
        # By the second half of the steps: how far the quadrature has converged.
        change = float((quadrature.forms - quadrature.coarse).mean())
        bound = None
        # Without columns there are no vectors from which to compute bounds.
        if self.deviations == "bound" and self.preconditioner is not None:
            unbounded = BoundedInverse.from_products(near, state.matmul)
            bound = replace(unbounded, ceiling=quadrature.largest)
        return replace(
            state,
            bound=bound,
            log_det=float(near.logdet() + quadrature.forms.mean()),
            log_det_error=math.hypot(standard_error(quadrature.forms), change),
        )

    def for_search(self) -> "ConjugateGradient":
        """Return the solver without bounds, which only standard deviations need."""
        return replace(self, deviations="solve")

    def solve(self, state: ConjugateGradientState, rhs: Tensor) -> Solution:
        """Solve for right-hand sides (n, k), a block of columns at a time."""
        return self._solve(state, rhs, self.tolerance)

    def half_solve(self, state: ConjugateGradientState, rhs: Tensor) -> Tensor:
        """Return R (r, k): R^T R is rhs^T M^-1 rhs, or less in the Loewner order."""
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
            The value is the exact log determinant of the preconditioner plus an
            estimate of the difference. The error combines the standard error over the
            probes with the change by the last half of the Lanczos steps.
        """
        new = state.noise.new_tensor
        return new(state.log_det), new(state.log_det_error)

    def inverse_factors(
        self, state: ConjugateGradientState
    ) -> tuple[Tensor, Tensor, Tensor]:
        r"""Return an unbiased estimate of M^-1, A B^T + diag(d).

        Its trace with dM estimates the derivative of ``log |M|``. The p probes w are
        those of the determinant. With the preconditioner :math:`P = C C^T` and
        z = C w, we have :math:`E z z^T = P`, so that
        :math:`N + (M^{-1} z - N z)(P^{-1} z)^T` has the mean M^-1 for any N. The nearer
        N is to M^-1, the smaller is the variance.

        Returns
        -------
        left, right : Tensor of shape (n, p + r)
            A and B; the columns of the p probes come first.
        diag : Tensor of shape (n,)
            The diagonal d.
        """
        assert state.gram is not None
        near = state.preconditioner
        probes = self._probes(state.noise) / self.n_probes**0.5
        z = near.unwhiten(probes)
        # N = left right^T + diag(diag), the control variate.
        left, right, diag = near.inverse_near(state.gram.diag() + state.noise)
        approximate = left @ (right.mT @ z) + diag[:, None] * z
        correction = self.solve(state, z).value - approximate
        return (
            torch.cat([correction, left], dim=1),
            # P^-1 z = C^-T w
            torch.cat([near.whiten_transposed(probes), right], dim=1),
            diag,
        )

    def inverse_diag(self, state: ConjugateGradientState) -> Tensor:
        """Return the diagonal (n,) of M^-1, by a solution for each sample."""
        everyone = int_range(len(state.noise), state.noise.device)
        return self._inverse_diag(state, everyone, self.tolerance)

    def inverse_diag_of(self, state: ConjugateGradientState, indices: Tensor) -> Tensor:
        """Return the entries (m,) of the diagonal of M^-1 at these indices.

        An entry is a quadratic form e_i^T M^-1 e_i, whose relative error is about the
        square of the error of the solution: the root of the tolerance suffices.
        """
        return self._inverse_diag(state, indices, math.sqrt(self.tolerance))

    def left_out_variances(
        self, state: ConjugateGradientState, indices: Tensor
    ) -> Tensor | None:
        """Return leave-one-out variances (m,) of observations, by the same bounds.

        They are the variances that `half_solve` would give if the sample were new and
        left out, so that they compare with predictive variances. None if `half_solve`
        is exact, as then 1 / (M^-1)_ii is the same.
        """
        if state.bound is None:
            return None
        assert state.gram is not None
        noise = above_rounding(state.noise, state.gram.diag())
        parts = []
        for block in torch.split(indices, ROOT_BLOCK):
            each = int_range(len(block), block.device)
            # Copied, since the operator may return a view of the Gram matrix.
            columns = state.gram.columns(block).clone()
            columns[block, each] += state.noise[block]
            parts.append(
                state.bound.left_out_variances(
                    state.preconditioner, columns, block, noise[block]
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
        self, state: ConjugateGradientState, indices: Tensor, tolerance: float
    ) -> Tensor:
        assert state.gram is not None
        parts = []
        for block in torch.split(indices, BLOCK):
            each = int_range(len(block), block.device)
            unit = state.noise.new_zeros(len(state.noise), len(block))
            unit[block, each] = 1.0
            value = self._solve(state, unit, tolerance).value
            parts.append(value[block, each])
        # (M^-1)_ii >= 1 / M_ii for every positive definite M; iterates may be smaller.
        least = 1.0 / (state.gram.diag() + state.noise)[indices]
        return torch.maximum(torch.cat(parts), least)

    def _check(self) -> None:
        """Raise unless every setting is allowed."""
        is_share = is_number(self.tolerance) and self.tolerance < 1.0
        require(self, "tolerance", is_share, "a number in (0, 1)")
        is_number_of_probes = is_int(self.n_probes, most=MOST_PROBES)
        expected = f"an int from 1 to {MOST_PROBES}"
        require(self, "n_probes", is_number_of_probes, expected)
        lowest = {"max_iter": 1, "n_lanczos": FEWEST_LANCZOS}
        for name, least in lowest.items():
            is_enough = is_int(getattr(self, name), least)
            require(self, name, is_enough, f"an int >= {least}")
        is_seed = is_int(self.random_state, least=0, most=LARGEST_SEED)
        require(self, "random_state", is_seed, "an int from 0 to 2**64 - 1")
        is_rank = self.rank == "auto" or is_int(self.rank)
        require(self, "rank", is_rank, "'auto' or an int >= 1")
        # The type first: an array is neither `in` a tuple nor out of it.
        is_word = isinstance(self.preconditioner, str | None)
        is_kind = is_word and self.preconditioner in PRECONDITIONERS
        expected = "'pivoted_cholesky', 'nystrom' or None"
        require(self, "preconditioner", is_kind, expected)
        require(self, "deviations", self.deviations in DEVIATIONS, one_of(DEVIATIONS))

    def _probes(self, noise: Tensor) -> Tensor:
        return rademacher(len(noise), self.n_probes, self._generator()).to(noise)

    def _rank(self, n: int) -> int:
        return default_rank(n) if self.rank == "auto" else min(n, int(self.rank))

    def _generator(self) -> Generator:
        return Generator().manual_seed(self.random_state)
