"""Values that go into a fit and come out of it or of a prediction."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._tensors import int_range, integers
from skconvgp._typing import FloatArray
from skconvgp.engine import rows_to_tensor, slices, to_numpy, to_tensor
from skconvgp.inference import EqualInputs, informative, mean_variance
from skconvgp.processes._facts import Fact
from skconvgp.processes._linear_trend import LinearTrend

ROUNDING = 1e-9  # of sums of weights
AT_ONCE = 256  # rows that are copied


@dataclass(frozen=True)
class Problem:
    """Training data of a process: inputs, targets of mean 0, and weights."""

    rows: NDArray[Any]  # (n, d), training inputs; the Gram matrix (n, n) if precomputed
    targets: FloatArray  # (n, k), targets divided by `scale`
    weights: FloatArray  # (n,), sample weights, > 0
    scale: FloatArray  # (k,), units of the targets
    codes: NDArray[Any] | None = None  # (n,), class codes
    n_versions: int = 1  # how many rows each sample is, as in `EqualInputs`
    n_before: int = 0  # number of samples that were fitted before
    groups: NDArray[Any] | None = None  # (n_samples,), as in `EqualInputs`
    # (n,), known noise variances of targets, in squared units of the scaled ones; None
    # if all targets share one noise, or labels determine it.
    noise_variances: FloatArray | None = None
    # A linear mean that is integrated out, with the least squares fit that was
    # subtracted from the targets; None for none.
    trend: LinearTrend | None = None

    @classmethod
    def unlabelled(cls, rows: NDArray[Any], labels: Any = None) -> Self:
        """Return samples without targets, for completions that may read labels."""
        n = len(rows)
        codes = None
        if labels is not None:
            codes = np.unique(np.asarray(labels), return_inverse=True)[1]
        return cls(rows, np.zeros((n, 1)), np.ones(n), np.ones(1), codes)

    @property
    def class_codes(self) -> NDArray[Any]:
        """Class codes (n,) of a problem of labels."""
        assert self.codes is not None
        return self.codes

    @cached_property
    def inputs(self) -> EqualInputs:
        """Which rows have equal inputs, and which are versions of one sample."""
        inputs = equal_inputs(self.rows, self.n_versions)
        inputs = replace(inputs, n_before=self.n_before)
        if self.groups is None:
            return inputs
        return inputs.with_groups(rows_to_tensor(self.groups))

    def with_different_rows(self) -> Self:
        """Return the problem, of which it is known that no two rows are equal."""
        known = replace(self)
        order = int_range(len(self.rows))
        vars(known)["inputs"] = EqualInputs(order, self.n_versions)
        return known

    @property
    def n_samples(self) -> int:
        """Number of samples, each of which may be several rows."""
        return len(self.rows) // self.n_versions

    @cached_property
    def left_out_weights(self) -> FloatArray:
        """Weight (n_samples,) that leave-one-out removes with each sample."""
        return to_numpy(self.inputs.removed(rows_to_tensor(self.weights)))

    @cached_property
    def class_left_out(self) -> FloatArray:
        """Weight (n_samples,) of its own class that is removed with each sample.

        Without classes all weights count.
        """
        if self.codes is None:
            return self.left_out_weights
        weights = rows_to_tensor(self.weights)
        codes = rows_to_tensor(self.codes)
        return to_numpy(self.inputs.removed_of_class(weights, codes))

    @cached_property
    def class_factors(self) -> FloatArray | None:
        """Factors (n_samples, c) as in `EqualInputs`; None without groups or classes.

        Classes have numbers below that of the functions, or of two.
        """
        if self.codes is None or self.inputs.groups is None:
            return None
        weights, codes = rows_to_tensor(self.weights), rows_to_tensor(self.codes)
        n_classes = max(2, len(self.scale))
        factors = self.inputs.class_factors(weights, codes, n_classes)
        return None if factors is None else to_numpy(factors)

    @cached_property
    def informative(self) -> Self:
        """The problem of the outputs that determine a kernel, noise and amplitude."""
        informs = to_numpy(informative(rows_to_tensor(self.targets)))
        if informs.all():
            return self
        scale = self.scale[informs]
        return replace(self, targets=self.targets[:, informs], scale=scale)

    @property
    def mean_noise(self) -> float:
        """Weighted mean of the known noise variances."""
        return float(np.average(self.noise_variances, weights=self.weights))  # type: ignore[arg-type]

    @property
    def noise_shares(self) -> FloatArray | None:
        """Known noise variances (n,), as shares of their mean; None for one noise."""
        if self.noise_variances is None:
            return None
        shares: FloatArray = self.noise_variances / self.mean_noise
        return shares

    def raised(self, least: float) -> Self:
        """Return the problem with no known noise variance below the least."""
        if self.noise_variances is None:
            return self
        raised = np.maximum(self.noise_variances, least)
        return replace(self, noise_variances=raised)

    @property
    def n_judged(self) -> int:
        """Number of distinct inputs that leave-one-out can predict.

        With classes these are the inputs whose class other inputs have, too.
        """
        of = to_numpy(self.inputs.of)[: self.n_samples]
        if self.codes is not None:
            weights = self.weights[: self.n_samples] * self.n_versions
            codes = self.codes[: self.n_samples]
            of = of[knows_class(codes, weights, self.class_left_out)]
        return len(np.unique(of))

    def mean_variance(self, diag: Tensor) -> float:
        """Return the weighted mean of the prior variances (n,) of the samples."""
        weights = to_tensor(self.weights, diag.device, diag.dtype)
        return mean_variance(diag, weights)

    def take(self, indices: NDArray[Any], *, is_precomputed: bool) -> Self:
        """Return the problem of the samples at these indices."""
        both = np.ix_(indices, indices) if is_precomputed else indices
        own = self.noise_variances
        return type(self)(
            self.rows[both],
            self.targets[indices],
            self.weights[indices],
            self.scale,
            None if self.codes is None else self.codes[indices],
            groups=None if self.groups is None else self.groups[indices],
            noise_variances=None if own is None else own[indices],
            trend=self.trend,
        )


@dataclass(frozen=True)
class Settings:
    """Settings of noise and amplitude: numbers, or how they are chosen."""

    # Noise variance, as a share of the mean prior variance, or the criterion that
    # chooses it.
    noise: float | str
    # Amplitude, "profile", or None for the amplitude of the kernel.
    amplitude: float | str | None
    # Whether the noise is the mean of known variances, in squared units of the scaled
    # targets, in place of a share.
    is_known: bool = False

    @property
    def added_noise(self) -> float:
        """Noise that is added to the noise of labels: a number."""
        assert not isinstance(self.noise, str)
        return self.noise


def fixed_amplitude(
    amplitude: float | str | None, mean_diag: float, y: Tensor
) -> Tensor | None:
    """Return the amplitude (k,) of the scaled targets; None to profile it out.

    Parameters
    ----------
    amplitude : float, str or None
        The setting.
    mean_diag : float
        Mean prior variance of the kernel: the amplitude, if the setting is None.
    y : Tensor of shape (n, k)
        Scaled targets.
    """
    if amplitude == "profile":
        return None
    value = mean_diag if amplitude is None else float(amplitude)
    # In double, as a given number may be out of the range of the targets' precision.
    return torch.full(y.shape[1:], value, dtype=torch.float64, device=y.device)


def require_finite_noise(noise: Tensor) -> None:
    """Raise if the noise of a sample is not finite."""
    if not bool(torch.isfinite(noise).all()):
        raise ValueError(
            "The noise of a sample is `noise_variance` / its weight, which is not "
            "finite for at least one sample: set tiny weights to 0."
        )


@dataclass(frozen=True)
class Latent:
    """Posterior of scaled targets; multiply variances by the amplitude."""

    mean: FloatArray  # (n, k), means, in units of the scaled targets
    # (n, 1), or (n, k) if outputs differ; empty if not asked for.
    var: FloatArray
    # (n, n, 1) or (n, n, k), between samples; empty if not asked for.
    cov: FloatArray
    # Mean prior variance at the n samples, if covariances were asked for.
    cov_scale: float = 0.0
    # (n, k, k), between the outputs of a sample; empty if there are none.
    between: FloatArray = field(default_factory=lambda: np.empty(0))
    # (n,), prior variances that were read for the variances; empty if none were.
    prior: FloatArray = field(default_factory=lambda: np.empty(0))
    # (n,), deviations of the values of each sample; empty of a given matrix.
    contrast: FloatArray = field(default_factory=lambda: np.empty(0))
    facts: Sequence[Fact] = ()


@dataclass(frozen=True)
class Record:
    """Record of a fit."""

    n_pairs: int  # distinct entries of the Gram matrix that were evaluated
    gram_seconds: float  # for the entries
    solve_seconds: float  # for everything else
    # Further fields of the report of a fit, by name.
    report: dict[str, Any] = field(default_factory=dict)
    facts: Sequence[Fact] = ()


def first_of_each(rows: NDArray[Any]) -> NDArray[np.intp]:
    """Return the indices (m,) of the first of each of the different rows (n, d)."""
    return to_numpy(equal_inputs(rows).first())


def equal_inputs(rows: NDArray[Any], n_versions: int = 1) -> EqualInputs:
    """Return which rows (n, d) are equal, numbered in the order of their first ones."""
    # Hashes are compared, as a dictionary of rows would double the memory of inputs.
    index_of: dict[int, int] = {}
    indices = []
    for part in slices(len(rows), AT_ONCE):
        for row in rows[part] + 0.0:  # which turns -0.0 into 0.0
            digest = hash(row.tobytes())
            indices.append(index_of.setdefault(digest, len(index_of)))
    return EqualInputs(integers(indices), n_versions)


def knows_class(
    codes: NDArray[Any], weights: FloatArray, left_out: FloatArray
) -> NDArray[np.bool_]:
    """Return whether each sample (n,) leaves others of its class when it is left out.

    `left_out` (n,) is the weight of its own class that is removed with each sample.
    """
    totals = np.bincount(codes, weights)[codes]
    is_known: NDArray[np.bool_] = totals - left_out > ROUNDING * totals
    return is_known


def entries(n_samples: int) -> int:
    """Return the number of distinct entries of a symmetric matrix."""
    return n_samples * (n_samples + 1) // 2
