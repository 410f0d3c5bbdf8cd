"""Landmarks: the choice of the columns of a Gram matrix that are evaluated."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from skconvgp._protocols import GramOracle
from skconvgp._tensors import int_range, integers, permutation, random_ints
from skconvgp.completion._finite import check_finite
from skconvgp.exceptions import CompletionError
from skconvgp.linalg import cluster_means, pivoted_cholesky, symmetric_eigen

__all__ = [
    "LANDMARKS",
    "WITHOUT_COLUMNS",
    "Landmarks",
    "check_capability",
    "choose_landmarks",
    "choose_samples",
    "relative_cut",
    "row_blocks",
]

# Words for the choice of landmarks, and the capability of an oracle that each needs.
LANDMARKS: dict[str, str | None] = {
    "uniform": None,
    "stratified": "labels",
    "kmeans": "points",
    "greedy_pivoted": None,
    "random_pivoted": None,
    "leverage": None,
}
WITHOUT_COLUMNS = ("uniform", "stratified", "kmeans")
CAPABILITIES = {"labels": "the class codes of the samples", "points": "the samples"}

COLUMNS_AT_ONCE = 256  # evaluated by one call, so that a call holds a small part
ROWS_AT_ONCE = 1024
PIVOT_ROUNDS = 10  # of random pivots; more rounds would cost more calls of the oracle
LLOYD_ROUNDS = 10
# Relative cut of eigenvalues that were computed in single precision:
# docs/maths.rst, "Columns of landmarks"
SINGLE_CUT = 1e-6


@dataclass(frozen=True)
class Landmarks:
    """Samples whose columns were evaluated."""

    indices: Tensor  # (m,), all different, in order of choice
    # Covariances (n, m) of all samples with the landmarks, which the caller may
    # overwrite.
    columns: Tensor


def check_capability(
    owner: str, word: str, oracle: GramOracle, setting: str = "landmarks"
) -> None:
    """Raise if a choice of samples needs a capability that the oracle lacks."""
    capability = LANDMARKS[word]
    if capability is not None and not hasattr(oracle, capability):
        raise CompletionError(
            f"{setting}={word!r} of {owner} needs {CAPABILITIES[capability]}, "
            f"`{capability}()`, which {type(oracle).__name__} does not have. "
            f"Use {setting}='uniform'."
        )


def relative_cut(oracle: GramOracle, m: int) -> float:
    """Return the share of the largest eigenvalue (m, m) that may be rounding error.

    If an oracle has no attribute `precision`, its entries are float64.
    """
    eps = torch.finfo(getattr(oracle, "precision", torch.float64)).eps
    return SINGLE_CUT if eps >= torch.finfo(torch.float32).eps else m * eps


def row_blocks(n: int) -> Iterator[slice]:
    """Yield slices of n rows, each a small part of them."""
    for start in range(0, n, ROWS_AT_ONCE):
        yield slice(start, min(start + ROWS_AT_ONCE, n))


def choose_landmarks(
    word: str, oracle: GramOracle, n_landmarks: int, generator: Generator
) -> Landmarks:
    """Choose landmarks by a word of `LANDMARKS`, and evaluate their columns, each once.

    The oracle has the capability that the choice needs. There are fewer than
    `n_landmarks`, which is from 1 to n, if pivots leave no variance to explain.

    References
    ----------
    "kmeans": Zhang, Tsang and Kwok, "Improved Nyström low-rank approximation and
    error analysis", 2008. "random_pivoted": Chen, Epperly, Tropp and Webber,
    "Randomly pivoted Cholesky", 2022. "leverage": Musco and Musco, "Recursive
    sampling for the Nyström method", 2017, with one level.
    """
    columns = _Columns(oracle, n_landmarks)
    match word:
        case "greedy_pivoted":
            _pivot(columns, block=1, generator=None)
        case "random_pivoted":
            block = -(-n_landmarks // PIVOT_ROUNDS)
            _pivot(columns, block=block, generator=generator)
        case "leverage":
            _leverage(columns, generator)
        case _:
            columns.evaluate(choose_samples(word, oracle, n_landmarks, generator))
    return columns.landmarks()


def choose_samples(
    word: str, oracle: GramOracle, n_samples: int, generator: Generator
) -> Tensor:
    """Choose samples (m,) by a word of `WITHOUT_COLUMNS`, without evaluating entries.

    The oracle has the capability that the choice needs. `n_samples` is from 1 to n.
    """
    match word:
        case "stratified":
            return _stratified(_capability(oracle, "labels")(), n_samples, generator)
        case "kmeans":
            return _kmeans(_capability(oracle, "points")(), n_samples, generator)
        case _:
            return _uniform(oracle.n_samples, n_samples, generator)


class _Columns:
    """Columns of a Gram matrix, evaluated on demand into one array."""

    def __init__(self, oracle: GramOracle, n_landmarks: int) -> None:
        self.oracle = oracle
        self.diag = check_finite(oracle.diag())
        self.n_landmarks = n_landmarks
        self._values = self.diag.new_empty(oracle.n_samples, n_landmarks)
        self._indices: list[Tensor] = []
        self._filled = 0

    def evaluate(self, indices: Tensor) -> Tensor:
        """Evaluate these columns (n, b) and keep them."""
        start = self._filled
        for first in range(0, indices.shape[0], COLUMNS_AT_ONCE):
            batch = indices[first : first + COLUMNS_AT_ONCE]
            stop = self._filled + batch.shape[0]
            values = check_finite(self.oracle.block(None, batch))
            self._values[:, self._filled : stop] = values
            self._filled = stop
        self._indices.append(indices)
        return self._values[:, start : self._filled]

    def correlation_scale(self) -> Tensor:
        """Return 1 / standard deviations (n,); 0 for a zero variance."""
        return torch.where(self.diag > 0.0, self.diag.clamp(min=0.0).rsqrt(), 0.0)

    def landmarks(self) -> Landmarks:
        """Return the evaluated columns."""
        none = torch.empty(0, dtype=torch.int64, device=self.diag.device)
        indices = torch.cat([none, *self._indices])
        return Landmarks(indices, self._values[:, : self._filled])


def _uniform(n: int, m: int, generator: Generator) -> Tensor:
    return permutation(n, generator)[:m]


def _stratified(codes: Tensor, m: int, generator: Generator) -> Tensor:
    """Take samples of each class in turn; classes without samples are skipped."""
    order = permutation(codes.shape[0], generator)
    classes, counts = codes[order], codes.bincount()
    by_class = classes.argsort(stable=True)
    first = (counts.cumsum(0) - counts)[classes[by_class]]
    turn = torch.empty_like(by_class)
    turn[by_class] = int_range(codes.shape[0]) - first
    return order[turn.argsort(stable=True)[:m]]


def _pivot(columns: _Columns, block: int, generator: Generator | None) -> None:
    """Evaluate the columns of pivots of the matrix of correlations.

    A column that turns out to depend on others of its block is no pivot, but it becomes
    a landmark as well, since it has been evaluated.
    """
    scale = columns.correlation_scale()

    def correlations(indices: Tensor) -> Tensor:
        return (scale[:, None] * columns.evaluate(indices)).mul_(scale[indices])

    pivoted_cholesky(
        (scale > 0.0).to(scale.dtype),
        correlations,
        columns.n_landmarks,
        generator=generator,
        block=block,
        rtol=relative_cut(columns.oracle, columns.n_landmarks),
    )


def _leverage(columns: _Columns, generator: Generator) -> None:
    """Evaluate random columns, then as many by ridge leverage scores from these.

    The scores are those of the matrix of correlations. The ridge follows Musco and
    Musco for a rank k: the sum of the eigenvalues beyond the k largest, divided by k.
    Here k is half the size of the random pilot, and the eigenvalues are those of the
    pilot's matrix.
    """
    n, m = columns.diag.shape[0], columns.n_landmarks
    pilot = _uniform(n, (m + 1) // 2, generator)
    size, rank = pilot.shape[0], (pilot.shape[0] + 1) // 2
    values, scale = columns.evaluate(pilot), columns.correlation_scale()
    square = scale[pilot, None] * values[pilot] * scale[pilot]
    eigenvalues, vectors = symmetric_eigen(square)
    beyond = float(eigenvalues[: size - rank].sum()) / rank
    ridge = max(beyond, SINGLE_CUT)
    lift = (scale[pilot, None] * vectors) / (eigenvalues + ridge).sqrt()
    # Up to a factor: the variance, 1, less the part that the pilot explains.
    scores = (scale > 0.0).to(scale.dtype)
    for rows in row_blocks(n):
        scores[rows] -= (scale[rows, None] * (values[rows] @ lift)).square().sum(1)
    scores[pilot] = 0.0
    columns.evaluate(_draw(scores.clamp_(min=0.0), pilot, m - size, generator))


def _draw(weights: Tensor, taken: Tensor, count: int, generator: Generator) -> Tensor:
    """Draw different samples in proportion to weights, then arbitrary other ones."""
    likely = min(count, int(torch.count_nonzero(weights)))
    drawn = taken[:0]
    if likely:
        drawn = torch.multinomial(weights, likely, generator=generator)
    if likely == count:
        return drawn
    others = permutation(weights.shape[0], generator)
    others = others[~torch.isin(others, torch.cat([taken, drawn]))]
    return torch.cat([drawn, others[: count - likely]])


def _kmeans(points: Tensor, m: int, generator: Generator) -> Tensor:
    """Return the samples nearest to centres of points (n, d) of unit length."""
    smallest = torch.finfo(points.dtype).tiny
    length = points.square().sum(1).sqrt().clamp(min=smallest)
    seeds = _seeds(points, length, m, generator)
    centres = points[seeds] / length[seeds, None]
    for _ in range(LLOYD_ROUNDS):
        blocks = (points[rows] / length[rows, None] for rows in row_blocks(len(points)))
        centres = cluster_means(blocks, centres)
    return _nearest(points, length, centres)


def _seeds(points: Tensor, length: Tensor, m: int, generator: Generator) -> Tensor:
    """Draw samples (m,) in proportion to squared distances from those before."""
    seeds = random_ints(points.shape[0], (1,), generator)
    squares = torch.full_like(length, torch.inf)
    while seeds.shape[0] < m:
        newest = points[seeds[-1]] / length[seeds[-1]]
        away = (2.0 - 2.0 * (points @ newest) / length).clamp_(min=0.0)
        squares = torch.minimum(squares, away)
        seeds = torch.cat([seeds, _draw(squares, seeds, 1, generator)])
    return seeds


def _nearest(points: Tensor, length: Tensor, centres: Tensor) -> Tensor:
    """Return for each centre the nearest sample (m,) that is not yet taken."""
    taken = torch.zeros(points.shape[0], dtype=torch.bool, device="cpu")
    nearest: list[int] = []
    for first in range(0, centres.shape[0], COLUMNS_AT_ONCE):
        batch = centres[first : first + COLUMNS_AT_ONCE]
        for likeness in (batch @ points.mT) / length:
            likeness[taken] = -torch.inf
            nearest.append(int(likeness.argmax()))
            taken[nearest[-1]] = True
    return integers(nearest)


def _capability(oracle: GramOracle, name: str) -> Callable[[], Tensor]:
    method: Callable[[], Tensor] = getattr(oracle, name)
    return method
