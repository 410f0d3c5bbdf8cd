"""Choice of the noise variance on a grid, mostly by one eigendecomposition."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor

from skconvgp.inference._equal import EqualInputs, MergedSamples
from skconvgp.inference._evidence import (
    LeaveOneOut,
    leave_one_out,
    log_marginal_likelihood,
    profiled_amplitude,
)
from skconvgp.inference._features import (
    feature_evidence,
    feature_leave_one_out,
    feature_posterior,
    sum_features,
)
from skconvgp.linalg import eigen_with_rounding, symmetric_eigen

__all__ = [
    "log_density",
    "noise_grid",
    "score_noise",
    "select_feature_noise",
    "select_fitc_noise",
    "select_noise",
]

ROWS = 4096  # rows of eigenvectors that are squared at a time
COLUMNS = 64  # columns that the eigenvectors are multiplied with at a time
# The grid of relative noise variances, with eight values to a factor of ten.
LARGEST, SMALLEST_DECADES, PER_DECADE = 1e1, {torch.float64: 10, torch.float32: 6}, 8


def select_noise(
    gram: Tensor,
    targets: Tensor,
    weights: Tensor,
    *,
    criterion: str,
    amplitude: Tensor | None,
    precision: torch.dtype,
    inputs: EqualInputs | None = None,
) -> float:
    """Choose the noise variance on a logarithmic grid.

    Parameters
    ----------
    gram : Tensor of shape (n, n)
        K with mean diagonal 1.
    targets : Tensor of shape (n, k)
        Y.
    weights : Tensor of shape (n,)
        Sample weights.
    criterion : {"loo", "evidence"}
        Leave-one-out log predictive density, or log evidence.
    amplitude : Tensor of shape (k,) or None
        Amplitude of each output; None profiles it out for each noise.
    precision : torch.dtype
        Coarsest precision that `gram` has gone through; it limits the smallest noise.
    inputs : EqualInputs, optional
        Which samples have equal inputs, and are left out together; by default none.

    Returns
    -------
    noise_variance : float
        The best value of the grid. Only values of at least twice the largest rounding
        error of an eigenvalue count, as smaller ones are lost in a factorisation.
    """
    return score_noise(
        gram,
        targets,
        weights,
        criterion=criterion,
        amplitude=amplitude,
        inputs=inputs,
        grid=noise_grid(precision),
    )[0]


def score_noise(
    gram: Tensor,
    targets: Tensor,
    weights: Tensor,
    *,
    criterion: str,
    amplitude: Tensor | None,
    inputs: EqualInputs | None,
    grid: list[float],
) -> tuple[float, float]:
    """Choose the noise variance from a list, the largest first.

    Parameters
    ----------
    gram, targets, weights, criterion, amplitude, inputs : object
        As in `select_noise`.
    grid : list of float
        The values, each > 0.

    Returns
    -------
    noise_variance : float
        The best value, as of `select_noise`.
    score : float
        Its leave-one-out log predictive density, or log evidence.
    """
    inputs = inputs or EqualInputs.none_of(targets)
    data, first = inputs.merge(targets, weights), inputs.first()
    root = data.weights.sqrt()
    scaled = gram[first[:, None], first]
    scaled *= root[:, None]
    scaled *= root
    values, vectors, error = eigen_with_rounding(scaled)
    spectrum = _Spectrum(values, vectors, least=2.0 * error)
    return _best_of(spectrum, data, criterion, amplitude, grid)


def select_feature_noise(
    features: Tensor,
    targets: Tensor,
    weights: Tensor,
    *,
    criterion: str,
    amplitude: Tensor | None,
    precision: torch.dtype,
    inputs: EqualInputs | None = None,
) -> float:
    """Choose the noise as in `select_noise`, for the matrix F F^T given by F.

    Parameters
    ----------
    features : Tensor of shape (n, r)
        F; F F^T has a mean diagonal near 1.
    targets, weights, criterion, amplitude, precision, inputs : object
        As in `select_noise`.

    Returns
    -------
    noise_variance : float
        The best value of the grid.
    """
    inputs = inputs or EqualInputs.none_of(targets)
    data = inputs.merge(targets, weights)
    if inputs.n_inputs < len(features):
        features = features[inputs.first()]
    ones = torch.ones_like(data.weights)
    moment = sum_features(features, data.targets, ones, data.weights).moment
    values, rotation = symmetric_eigen(moment)
    # Smaller eigenvalues are rounding errors of zeros; their vectors would be noise.
    is_kept = values > values[-1] * torch.finfo(values.dtype).eps * len(values)
    values, rotation = values[is_kept], rotation[:, is_kept]
    vectors = features @ (rotation / values.sqrt())
    vectors *= data.weights.sqrt()[:, None]
    spectrum = _Spectrum(values, vectors)
    return _best_of(spectrum, data, criterion, amplitude, noise_grid(precision))[0]


def select_fitc_noise(
    features: Tensor,
    residual: Tensor,
    targets: Tensor,
    weights: Tensor,
    *,
    criterion: str,
    amplitude: Tensor | None,
    precision: torch.dtype,
    inputs: EqualInputs | None = None,
) -> float:
    """Choose the noise as in `select_noise`, for F F^T + diag(residual).

    Each value takes a factorisation. A coarse grid is therefore tried first, with one
    value to a decade, and then the values of the fine grid near its local maxima.

    Parameters
    ----------
    features : Tensor of shape (n, r)
        F.
    residual : Tensor of shape (n,)
        Prior variances minus the diagonal of F F^T, >= 0.
    targets, weights, criterion, amplitude, precision, inputs : object
        As in `select_noise`.

    Returns
    -------
    noise_variance : float
        The best value that was tried.
    """
    inputs = inputs or EqualInputs.none_of(targets)
    data = inputs.merge(targets, weights)
    if inputs.n_inputs < len(features):
        first = inputs.first()
        features, residual = features[first], residual[first]

    @cache
    def score(noise: float) -> float:
        unit = residual + noise
        sums = sum_features(features, data.targets, unit, data.weights)
        scattered = (data.scatter / unit[:, None]).sum(0)
        sums = replace(sums, energy=sums.energy + scattered)
        posterior = feature_posterior(sums)
        evidence, scale = feature_evidence(sums, posterior, amplitude)
        if criterion == "evidence":
            return float(evidence.sum())
        loo = feature_leave_one_out(
            features, data.targets, unit, data.weights, posterior
        )
        return float(log_density(data, loo, scale).sum())

    grid = noise_grid(precision)
    coarse = [score(noise) for noise in grid[::PER_DECADE]]
    near: list[float] = []
    for i, height in enumerate(coarse):
        if height == max(coarse[max(0, i - 1) : i + 2]):
            start = max(0, (i - 1) * PER_DECADE + 1)
            near += grid[start : (i + 1) * PER_DECADE]
    return max(near, key=score)


@dataclass(frozen=True)
class _Spectrum:
    """Eigenvalues (r,), all or only those > 0, and vectors (n, r) of W^1/2 K W^1/2.

    A noise below `least` is lost to rounding.
    """

    values: Tensor
    vectors: Tensor
    least: float = 0.0

    @property
    def n_zeros(self) -> int:
        """Number of eigenvalues that are zero and omitted."""
        return len(self.vectors) - len(self.values)

    def squares_by(self, factors: Tensor) -> Tensor:
        """Return (n, m) sums of squared entries, each times the factors of a vector.

        Parameters
        ----------
        factors : Tensor of shape (r, m)
            Factors, by vector.
        """
        starts = range(0, len(self.vectors), ROWS)
        return torch.cat(
            [self.vectors[i : i + ROWS].square() @ factors for i in starts]
        )

    def products_with(self, columns: Tensor, factors: Tensor) -> Iterator[Tensor]:
        """Yield a product (n, k) of the vectors with scaled columns for each factor.

        The vectors are as large as the matrix, and therefore read once for several
        factors.

        Parameters
        ----------
        columns : Tensor of shape (r, k)
            Columns.
        factors : Tensor of shape (r, m)
            Factors, by vector.
        """
        n_columns = columns.shape[1]
        for block in torch.split(factors, max(1, COLUMNS // n_columns), dim=1):
            scaled = (columns[:, None] * block[:, :, None]).flatten(1)
            yield from torch.split(self.vectors @ scaled, n_columns, dim=1)


def _best_of(
    spectrum: _Spectrum,
    data: MergedSamples,
    criterion: str,
    amplitude: Tensor | None,
    grid: list[float],
) -> tuple[float, float]:
    """Return the noise variance of the largest score, and that score."""
    targets, weights, root = data.targets, data.weights, data.weights.sqrt()
    values, vectors = spectrum.values, spectrum.vectors
    whole = targets * root[:, None]
    rotated = vectors.mT @ whole
    # Part of the targets, and of each unit vector, outside of the span of the vectors:
    # there the matrix is the noise times the identity.
    outside = whole - vectors @ rotated if spectrum.n_zeros else torch.zeros_like(whole)
    share = (1.0 - spectrum.squares_by(torch.ones_like(values[:, None]))).clamp(min=0.0)
    share *= spectrum.n_zeros > 0
    noises = torch.tensor(grid, dtype=values.dtype, device=values.device)
    inverses = 1.0 / (values[:, None] + noises)
    inverse_diags = torch.zeros_like(inverses)
    if criterion == "loo":  # for all noises at once, so that the vectors are read once
        inverse_diags = spectrum.squares_by(inverses) + share / noises
        inverse_diags *= weights[:, None]
    best, best_score = grid[0], -math.inf
    inside = spectrum.products_with(rotated, inverses)
    for noise, part, inverse_diag in zip(grid, inside, inverse_diags.mT, strict=True):
        dual = (part + outside / noise) * root[:, None]
        quadratic = (targets * dual).sum(0) + data.scatter.sum(0) / noise
        scale = amplitude
        if scale is None:
            profiled = profiled_amplitude(quadratic, weights)
            scale = torch.full_like(targets[0], profiled)
        if criterion == "evidence":
            logdet = (values + noise).log().sum() - weights.log().sum()
            logdet += spectrum.n_zeros * math.log(noise)
            score = log_marginal_likelihood(quadratic, logdet, scale, noise, weights)
        else:
            loo = leave_one_out(targets, dual, inverse_diag, noise, weights)
            score = log_density(data, loo, scale)
        if noise >= spectrum.least and float(score.sum()) > best_score:
            best, best_score = noise, float(score.sum())
    return best, best_score


def log_density(data: MergedSamples, loo: LeaveOneOut, amplitude: Tensor) -> Tensor:
    """Return the log predictive density (k,) of all targets, their inputs left out."""
    weights, var = data.weights[:, None], loo.var[:, None] * amplitude
    squares = (data.targets - loo.mean).square() * weights + data.scatter
    density = squares / var + weights * torch.log(2.0 * math.pi * var)
    return -0.5 * density.sum(0)


def noise_grid(dtype: torch.dtype) -> list[float]:
    """Return the relative noise variances that are tried, the largest first."""
    decades = SMALLEST_DECADES[dtype] + 1
    return [
        LARGEST * 10.0 ** (-i / PER_DECADE) for i in range(decades * PER_DECADE + 1)
    ]
