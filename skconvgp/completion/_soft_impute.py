"""SoftImpute: completion by the matrix with shrunken eigenvalues."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Generator, Tensor

from skconvgp.completion._masked import Fit, Limits, MaskedCompletion
from skconvgp.completion._observed import Filled, Observed
from skconvgp.completion._patterns import Entries
from skconvgp.linalg import leading_eigenpairs, product_change, widened

__all__ = ["SoftImpute"]

# docs/maths.rst, "Completion from entries"
N_STEPS = 20
SMALLEST_SHARE = 1e-4
LARGEST_RANK = 100  # with "auto"; a larger rank does not lower the error
NORM_ROUNDS = 30  # to compute the norm of the observed entries
SPARE = 4  # eigenpairs computed beyond those that were above the penalty


@dataclass(repr=False)
class SoftImpute(MaskedCompletion):
    r"""Fill missing entries from the matrix with shrunken eigenvalues.

    Each round is :math:`Z \leftarrow S_\gamma(P_\Omega K + P_\Omega^\perp Z)`, where
    :math:`S_\gamma` lowers the eigenvalues by :math:`\gamma` and drops those below
    zero. :math:`\gamma` falls in 20 equal ratios from :math:`\gamma_{max} = \lVert
    P_\Omega K \rVert_2`, which leaves no eigenvalue, to :math:`10^{-4} \gamma_{max}`,
    and each value starts from the result of the previous one. The value with the
    smallest error on the held-out entries is kept; the path ends if the error twice in
    a row does not fall by 1 %.

    Parameters
    ----------
    rank : int or "auto", default="auto"
        Largest number of eigenvalues that are kept, of those that exceed
        :math:`\gamma`; "auto" is 100.
    pattern : {"blocks", "landmarks", "random"}, default="blocks"
        Pattern of the evaluated entries: tiles between random groups of samples, all
        entries of random samples, or single entries. Every sample is compared with
        others.
    max_iter : int, default=200
        Largest number of rounds at the :math:`\gamma` that is kept.
    rtol : float, default=1e-5
        Rounds end when :math:`\lVert Z - Z' \rVert^2 / \lVert Z' \rVert^2` is less.
    check_fraction : float, default=0.05
        Share of the evaluated entries that is held out to choose :math:`\gamma` and to
        measure the error. The final fit uses them, but the error is measured before, on
        a fit without them. With pattern="landmarks" the final fit does not use them.
    n_anchors : int, optional
        Number of samples that new samples are compared with; by default all.

    References
    ----------
    Mazumder, Hastie and Tibshirani, "Spectral regularization algorithms for learning
    large incomplete matrices", 2010, algorithm 1; Meinel, "Scaling up Gaussian
    processes with convolutional kernels by matrix completion", 2020, section 3.3.2.

    Examples
    --------
    >>> from skconvgp import ConvNetGPClassifier
    >>> from skconvgp.completion import SoftImpute
    >>> from skconvgp.datasets import load_digits_images
    >>> from skconvgp.kernels import rbf
    >>> X, y = load_digits_images(return_X_y=True)
    >>> gp = ConvNetGPClassifier(
    ...     rbf(2.0),
    ...     completion=SoftImpute(),
    ...     observed_fraction=0.4,
    ...     random_state=0,
    ... ).fit(X[:200], y[:200])
    >>> gp.fit_report_.relative_rmse < 0.06
    True
    """

    def _path(
        self, entries: Entries, generator: Generator
    ) -> tuple[Sequence[float], bool]:
        start = widened(entries.values[:, :0], SPARE, generator)
        values, _ = leading_eigenpairs(Observed.of(entries), start, NORM_ROUNDS)
        shares = [SMALLEST_SHARE ** (i / N_STEPS) for i in range(1, N_STEPS + 1)]
        return [float(values[0]) * share for share in shares], True

    def _fit(
        self,
        entries: Entries,
        step: float,
        start: Tensor | None,
        limits: Limits,
        generator: Generator,
    ) -> Fit:
        zero = entries.values.new_zeros(len(entries.values), 1)
        factor, observed = zero if start is None else start, Observed.of(entries)
        vectors = self._widened(factor, SPARE, generator)
        for n_iter in range(1, limits.max_iter + 1):
            filled = Filled.of(observed, factor, factor)
            values, vectors = self._above(filled, vectors, step, generator)
            n_kept = max(int((values > step).sum()), 1)
            roots = (values[:n_kept] - step).clamp(min=0.0).sqrt()
            last, factor = factor, vectors[:, :n_kept] * roots
            change, size = product_change(factor, factor, last, last)
            if change <= limits.rtol * size:
                return Fit(factor, n_iter, converged=True)
            vectors = self._widened(vectors[:, :n_kept], SPARE, generator)
        return Fit(factor, n_iter, converged=False)

    def _above(
        self, matrix: Filled, vectors: Tensor, gamma: float, generator: Generator
    ) -> tuple[Tensor, Tensor]:
        """Return the largest eigenpairs, at least one of which is not above gamma."""
        values, vectors = leading_eigenpairs(matrix, vectors)
        while float(values[-1]) > gamma:
            wider = self._widened(vectors, vectors.shape[1], generator)
            if wider.shape == vectors.shape:
                break
            values, vectors = leading_eigenpairs(matrix, wider)
        return values, vectors

    def _widened(self, vectors: Tensor, n_more: int, generator: Generator) -> Tensor:
        n, width = vectors.shape
        most = LARGEST_RANK if isinstance(self.rank, str) else int(self.rank)
        return widened(vectors, min(width + n_more, most, n), generator)

    def _check_further(self) -> None:
        pass

    def _ridge(self, step: float) -> float:
        # The features of a filled row k are (F^T F + gamma I)^-1 F^T k.
        return step

    def _stats(self, step: float) -> dict[str, float]:
        return {"gamma": step}
