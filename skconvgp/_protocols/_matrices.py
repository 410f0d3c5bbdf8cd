"""Protocols of Gram matrices: the engine evaluates entries, completions add others."""

import math
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from torch import Generator, Tensor

__all__ = [
    "BitFeatureMap",
    "CompletedGram",
    "Completion",
    "Expansion",
    "FeatureMap",
    "FeatureSource",
    "GramOperator",
    "GramOracle",
    "Localization",
    "WeightedLocalization",
    "lift",
]


class GramOperator(Protocol):
    """A symmetric matrix, as solvers use it.

    Iterative solvers need only products, the diagonal and a few columns, so that the
    matrix need not be stored. Direct solvers call `dense`.
    """

    @property
    def n_samples(self) -> int:
        """Number n of rows."""
        ...

    def dense(self) -> Tensor:
        """Return the matrix (n, n)."""
        ...

    def diag(self) -> Tensor:
        """Return the diagonal (n,)."""
        ...

    def columns(self, indices: Tensor) -> Tensor:
        """Return the columns (n, b) at these indices."""
        ...

    def matmul(self, rhs: Tensor) -> Tensor:
        """Return the product with columns (n, k)."""
        ...


class GramOracle(Protocol):
    """Entries of a Gram matrix on demand: implemented by engine, used by completion.

    Optional method ``points() -> Tensor``: the samples (n, d), for strategies that use
    distances between samples.
    """

    @property
    def n_samples(self) -> int:
        """Number of samples n."""
        ...

    def diag(self) -> Tensor:
        """Return the prior variances (n,)."""
        ...

    def block(self, rows: Tensor | None, cols: Tensor | None) -> Tensor:
        """Return the covariances (n1, n2) of samples given by index; None is all."""
        ...


@dataclass(frozen=True)
class CompletedGram:
    """A Gram matrix completed from a part of its entries, as a product F F^T.

    Parameters
    ----------
    factor : Tensor of shape (n, r)
        F: the completed matrix is F F^T, symmetric and positive semi-definite.
    anchors : Tensor of shape (m,)
        Indices of the training samples with which new samples are compared.
    lift_map : Tensor of shape (m, r) or ()
        Matrix that maps covariances of new samples with the anchors to rows of F; a
        number if these rows are computed from the samples themselves, without anchors.
    n_evaluated : int
        Distinct entries of the matrix that were evaluated, its diagonal included.
    error : float
        Root mean square error on held-out entries, in units of the kernel; NaN if none
        were held out.
    relative_rmse : float
        `error` divided by the range of these entries.
    converged : bool
        Whether the method met its tolerance.
    stats : dict
        Figures of the computation, such as iterations and rank.

    Examples
    --------
    >>> import torch
    >>> from skconvgp.completion import CompletedGram
    >>> columns = torch.tensor([[4.0], [2.0], [1.0]])  # with the first of three samples
    >>> lift_map = torch.tensor([[0.5]])
    >>> completed = CompletedGram(columns @ lift_map, torch.tensor([0]), lift_map, 3)
    >>> completed.factor @ completed.factor.mT
    tensor([[4.0000, 2.0000, 1.0000],
            [2.0000, 1.0000, 0.5000],
            [1.0000, 0.5000, 0.2500]])
    >>> completed.lift(torch.tensor([[3.0]]))
    tensor([[1.5000]])
    """

    factor: Tensor
    anchors: Tensor
    lift_map: Tensor
    n_evaluated: int
    error: float = math.nan
    relative_rmse: float = math.nan
    converged: bool = True
    stats: dict[str, float] = field(default_factory=dict)

    def lift(self, cross: Tensor) -> Tensor:
        """Return the rows of F (n1, r) of new samples from K(X_*, anchors) (n1, m)."""
        return lift(cross, self.lift_map)


def lift(one: Tensor, two: Tensor) -> Tensor:
    """Return a product with a lift map on either side, which may be a number."""
    return one @ two if one.ndim and two.ndim else one * two


@runtime_checkable
class Completion(Protocol):
    """Completes a Gram matrix from a part of its entries."""

    def complete(
        self, oracle: GramOracle, observed_fraction: float, generator: Generator
    ) -> CompletedGram:
        """Evaluate a share of the n (n + 1) / 2 distinct entries, infer the others."""
        ...

    def n_values(self, n: int, observed_fraction: float) -> int:
        """Return the number of values that `complete` holds at once for n samples."""
        ...


@runtime_checkable
class Localization(Protocol):
    """Predicts each sample from its neighbours, the most similar training samples.

    `NearestNeighbors` is one such strategy; another measure of similarity makes
    another.
    """

    def count(self, n: int) -> int:
        """Return the number of neighbours of each sample among n training samples."""
        ...

    def similarities(self, new: Tensor, points: Tensor) -> Tensor:
        """Return the similarities (n1, n) of new points (n1, d) and others (n, d).

        Only their order within a row matters. No kernel is evaluated.
        """
        ...


@runtime_checkable
class FeatureMap(Protocol):
    """Features of samples, whose inner products approximate a kernel.

    Most maps are random: the mean of phi(x)^T phi(x') over their draws is k(x, x').
    """

    @property
    def n_features(self) -> int:
        """Number r of features of a sample."""
        ...

    @property
    def n_values(self) -> int:
        """Number of values that are held at once for each sample."""
        ...

    def __call__(self, images: Tensor) -> Tensor:
        """Return the features (n, r) of images (n, c, h, w), in their precision."""
        ...


@runtime_checkable
class BitFeatureMap(FeatureMap, Protocol):
    """Features whose mean over independent bits is known in closed form."""

    def mean_of_bits(self, probabilities: Tensor) -> Tensor | None:
        """Return the mean features (n, r) of bits that are 1 with probabilities (n, d).

        None if the settings of the map allow no closed form.
        """
        ...


class FeatureSource(Protocol):
    """A kernel of which random features are drawn."""

    def feature_map(
        self,
        n_features: int,
        generator: Generator,
        *,
        readout: str = "auto",
        width: int = 64,
        n_networks: int = 1,
        orthogonal: bool = True,
        exact_diag: bool = True,
    ) -> FeatureMap:
        """Return a map with about so many features.

        Settings are those of `RandomFeatures`; kernels for which they have no meaning
        ignore them.
        """
        ...


@runtime_checkable
class Expansion(Protocol):
    """Replaces a kernel by a product of features, without a Gram matrix."""

    def expand(self, source: FeatureSource, generator: Generator) -> FeatureMap:
        """Return the map of a kernel."""
        ...


@runtime_checkable
class WeightedLocalization(Localization, Protocol):
    """A `Localization` in which near neighbours count more than far ones.

    A neighbour of weight w has the noise variance sigma^2 / w: a weight has the effect
    of a sample weight, in the prediction of one sample.
    """

    @property
    def is_weighted(self) -> bool:
        """Whether weights differ from 1; otherwise no distances are computed."""
        ...

    def distances(self, new: Tensor, near: Tensor) -> Tensor:
        """Return distances (n1, k) of points (n1, d) to those near each (n1, k, d)."""
        ...

    def weigh(self, distances: Tensor) -> Tensor:
        """Return the weights (n1, k) of neighbours, all of them > 0.

        The last of the distances (n1, k + 1) is that of the nearest sample beyond the
        neighbours. If there is none, it is a little more than the largest of the
        others.
        """
        ...
