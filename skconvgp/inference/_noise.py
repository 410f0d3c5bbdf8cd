"""Choice of the noise variance on a grid, mostly by one eigendecomposition."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property

import torch
from torch import Tensor

from skconvgp.inference._equal import EqualInputs, MergedSamples
from skconvgp.inference._evidence import (
    LeaveOneOut,
    informative,
    leave_one_out,
    log_marginal_likelihood,
    profiled_amplitudes,
)
from skconvgp.inference._features import (
    feature_evidence,
    feature_leave_one_out,
    feature_posterior,
    sum_features,
)
from skconvgp.inference._spectrum import Spectrum
from skconvgp.inference._versions import Blocks, images_out
from skconvgp.linalg import eigen_with_rounding, symmetric_eigen

__all__ = [
    "log_density",
    "noise_grid",
    "score_noise",
    "select_feature_noise",
    "select_fitc_noise",
    "select_noise",
]

# The grid of relative noise variances, with eight values to a factor of ten.
LARGEST, SMALLEST_DECADES, PER_DECADE = 1e1, {torch.float64: 10, torch.float32: 6}, 8
COARSE = 4  # values of the grid for one of a coarse grid
PIECE = 2**17  # numbers of a kind, of several noises at a time: a MiB


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

    `gram` (n, n) has mean diagonal 1; targets are (n, k) and weights (n,). The
    criterion is "loo", the leave-one-out log predictive density, or "evidence", the log
    evidence. There is one amplitude for each output (k,); None profiles it out for each
    noise. Samples with equal inputs are left out together; by default none are equal.

    `precision` is the coarsest precision that `gram` has gone through. It limits the
    noise: only values of at least twice the largest rounding error of an eigenvalue
    count, as smaller ones are lost in a factorisation.
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
    """Choose the noise variance from a list of values > 0, the largest first.

    The second result is its leave-one-out log predictive density, or log evidence. The
    other settings are as in `select_noise`.
    """
    inputs = inputs or EqualInputs.none_of(targets)
    targets, amplitude = _informative(targets, amplitude)
    samples, first = _Samples(targets, weights, inputs), inputs.first()
    root = samples.merged.weights.sqrt()
    scaled = gram[first[:, None], first]
    scaled *= root[:, None]
    scaled *= root
    values, vectors, error = eigen_with_rounding(scaled)
    spectrum = Spectrum(values, vectors, least=2.0 * error)
    return _best_of(spectrum, samples, criterion, amplitude, grid)


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
    """Choose the noise as in `select_noise`, for the matrix F F^T given by F (n, r).

    F F^T has a mean diagonal near 1.
    """
    inputs = inputs or EqualInputs.none_of(targets)
    targets, amplitude = _informative(targets, amplitude)
    samples = _Samples(targets, weights, inputs)
    data = samples.merged
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
    spectrum = Spectrum(values, vectors)
    return _best_of(spectrum, samples, criterion, amplitude, noise_grid(precision))[0]


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

    The residual (n,) is the prior variances minus the diagonal of F F^T, >= 0; F is
    (n, r). Each value takes a factorisation. A coarse grid is therefore tried first,
    with one value to a decade, and then the values of the fine grid near its local
    maxima.
    """
    inputs = inputs or EqualInputs.none_of(targets)
    targets, amplitude = _informative(targets, amplitude)
    data = inputs.merge(targets, weights)
    if inputs.n_inputs < len(features):
        first = inputs.first()
        features, residual = features[first], residual[first]
    groups = inputs.input_groups

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
            features, data.targets, unit, data.weights, posterior, groups
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
class _Samples:
    """Samples of which the noise is chosen."""

    targets: Tensor  # (n, k)
    weights: Tensor  # (n,)
    inputs: EqualInputs  # which samples are left out together

    @cached_property
    def merged(self) -> MergedSamples:
        """One sample for each distinct input."""
        return self.inputs.merge(self.targets, self.weights)

    @cached_property
    def judged(self) -> MergedSamples:
        """Samples to predict by leave-one-out: merged inputs, or images of versions."""
        n, n_versions = self.inputs.n_images, self.inputs.n_versions
        if n_versions == 1:
            return self.merged
        targets = self.targets[:n]
        weights = self.weights[:n] * n_versions
        return MergedSamples(targets, weights, torch.zeros_like(targets))

    def left_out(
        self, spectrum: Spectrum, noises: Tensor
    ) -> Callable[[slice, Tensor], LeaveOneOut]:
        """Return a function that predicts the judged samples, for each of some noises.

        It is called with indices of noises and M^-1 Y (b, m, k) of the merged inputs.
        """
        data, inputs = self.merged, self.inputs
        if not inputs.has_blocks:
            diags = spectrum.inverse_diags(noises) * data.weights[:, None]

            def at(some: slice, duals: Tensor) -> LeaveOneOut:
                diag, noise = diags[:, some].mT, noises[some, None]
                return leave_one_out(data.targets, duals, diag, noise, data.weights)

            return at
        root, every = data.weights.sqrt(), list(inputs.blocks())
        # For all noises at once if there is room, so that vectors are read once.
        n_values = sum(one.members.numel() * one.members.shape[1] for one in every)
        at_once: list[Tensor] = []
        if n_values * len(noises) <= max(len(root) ** 2, PIECE):
            at_once = [spectrum.inverse_blocks(one.members, noises) for one in every]
        # Of images in groups, one stands for all that have its input.
        first = inputs.first() if inputs.n_versions == 1 else slice(None)
        own = self.weights, inputs

        def blocks_at(i: int) -> Iterator[Blocks]:
            for place, left in enumerate(every):
                part = root[left.members]
                if at_once:
                    block = at_once[place][..., i]
                else:
                    one = noises[i : i + 1]
                    block = spectrum.inverse_blocks(left.members, one)[..., 0]
                yield left, block * part[:, :, None] * part[:, None]

        def whole_at(some: slice, duals: Tensor) -> LeaveOneOut:
            found = [
                images_out(data.targets, dual, *own, blocks_at(i), float(noises[i]))
                for i, dual in zip(range(some.start, some.stop), duals, strict=True)
            ]
            means = [one.mean[first] for one in found]
            variances = [one.var[first] for one in found]
            return LeaveOneOut(torch.stack(means), torch.stack(variances))

        return whole_at


def _best_of(
    spectrum: Spectrum,
    samples: _Samples,
    criterion: str,
    amplitude: Tensor | None,
    grid: list[float],
) -> tuple[float, float]:
    """Return the noise variance of the largest score, and that score.

    Large groups, whose blocks take longer than all the rest, are scored on a coarse
    grid, and on the fine one around its best value.
    """

    def scores_of(noises: list[float]) -> dict[float, float]:
        scores = _scores(spectrum, samples, criterion, amplitude, noises)
        return dict(zip(noises, scores, strict=True))

    is_dear = criterion == "loo" and samples.inputs.has_large_blocks
    usable = [value for value in grid if value >= spectrum.least]
    found = scores_of(usable[:: COARSE if is_dear else 1]) if usable else {}
    if is_dear and found:
        at = usable.index(max(found, key=lambda value: found[value]))
        around = usable[max(0, at - COARSE + 1) : at + COARSE]
        found |= scores_of([value for value in around if value not in found])
    best, best_score = grid[0], -math.inf
    for value in usable:
        if found.get(value, -math.inf) > best_score:
            best, best_score = value, found[value]
    return best, best_score


def _scores(
    spectrum: Spectrum,
    samples: _Samples,
    criterion: str,
    amplitude: Tensor | None,
    grid: list[float],
) -> list[float]:
    """Return the scores of noise variances."""
    data = samples.merged
    targets, weights, root = data.targets, data.weights, data.weights.sqrt()
    values, vectors = spectrum.values, spectrum.vectors
    whole = targets * root[:, None]
    rotated = vectors.mT @ whole
    # Part of the targets outside of the span of the vectors: there the matrix is the
    # noise times the identity.
    outside = whole - vectors @ rotated if spectrum.n_zeros else None
    noises = torch.tensor(grid, dtype=values.dtype, device=values.device)
    left_out = None  # for all noises at once, so that the vectors are read once
    if criterion == "loo":
        left_out = samples.left_out(spectrum, noises)
    scores: list[float] = []
    parts = spectrum.products_with(rotated, spectrum.inverses(noises))
    for part in _in_pieces(parts):
        some = slice(len(scores), len(scores) + len(part))
        noise = noises[some, None]
        solved = part if outside is None else part + outside / noise[:, None]
        duals = solved * root[:, None]
        quadratic = (targets * duals).sum(1) + data.scatter.sum(0) / noise
        scale = amplitude
        if scale is None:
            scale = profiled_amplitudes(quadratic, weights)[:, None]
        scale = scale.expand_as(quadratic)
        if left_out is None:
            logdet = (values + noise).log().sum(1, keepdim=True) - weights.log().sum()
            logdet += spectrum.n_zeros * noise.log()
            score = log_marginal_likelihood(quadratic, logdet, scale, noise, weights)
        else:
            loo = left_out(some, duals)
            score = log_density(samples.judged, loo, scale[:, None])
        scores += score.sum(1).tolist()
    return scores


def _informative(
    targets: Tensor, amplitude: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Return the outputs that say something about the noise."""
    informs = informative(targets)
    return targets[:, informs], None if amplitude is None else amplitude[informs]


def _in_pieces(parts: Iterable[Tensor]) -> Iterator[Tensor]:
    """Yield tensors (b, n, k) in pieces that are small, or have a single item."""
    for part in parts:
        size = max(1, PIECE // max(part[0].numel(), 1))
        for start in range(0, len(part), size):
            yield part[start : start + size]


def log_density(data: MergedSamples, loo: LeaveOneOut, amplitude: Tensor) -> Tensor:
    """Return the log predictive density (k,) of all targets, their inputs left out.

    Of several predictions (b, n, k), with amplitudes (b, 1, k), it is (b, k).
    """
    weights, var = data.weights[:, None], loo.var[..., None] * amplitude
    squares = (data.targets - loo.mean).square() * weights + data.scatter
    density = squares / var + weights * torch.log(2.0 * math.pi * var)
    return -0.5 * density.sum(-2)


def noise_grid(dtype: torch.dtype) -> list[float]:
    """Return the relative noise variances that are tried, the largest first."""
    decades = SMALLEST_DECADES[dtype] + 1
    return [
        LARGEST * 10.0 ** (-i / PER_DECADE) for i in range(decades * PER_DECADE + 1)
    ]
