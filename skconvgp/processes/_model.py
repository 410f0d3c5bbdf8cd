"""Model: the numbers that every fitted process has."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from skconvgp._typing import FloatArray
from skconvgp.processes._problem import Problem


@dataclass(frozen=True)
class Model:
    """Numbers that every fitted process has."""

    targets: FloatArray  # (n, k), targets divided by `scale`
    weights: FloatArray  # (n,), sample weights
    # (n_samples,), weight that leave-one-out removes with each sample.
    left_out_weights: FloatArray
    # (n_samples,), weight of its own class that leave-one-out removes with each sample.
    class_left_out: FloatArray
    scale: FloatArray  # (k,), units of the targets
    # Weighted mean of the kernel's prior variances, by which they are divided.
    mean_diag: float
    noise: float  # noise variance, as a share of the mean prior variance
    # (k,), mean prior variance of the latent function of each scaled target.
    amplitude: FloatArray
    # Log density of the targets; None if it is computed on demand.
    log_evidence: float | None
    n_versions: int = 1  # how many rows each sample is, as in `EqualInputs`
    # How much larger errors of new samples are than left-out ones, which have chosen.
    error_factor: float = 1.0
    # (k,), factor of the deviations of each function; None for 1.
    deviation_factors: FloatArray | None = None
    # (k,), noise of observations beside `noise`, in deviations only; None for none.
    added_noise: FloatArray | None = None
    n_groups: int = 0  # that are left out as a whole; 0 without groups
    # (n_samples, c), as in `EqualInputs.class_factors`; None without groups or classes.
    class_factors: FloatArray | None = None
    # (n,), noise variances of the targets as shares of `noise`, their mean; None for 1.
    noise_shares: FloatArray | None = None

    @property
    def unit_noise(self) -> FloatArray:
        """Noise variances (n,) of single observations of the rows."""
        noise = np.full(len(self.weights), self.noise)
        return noise if self.noise_shares is None else noise * self.noise_shares

    @property
    def row_noise(self) -> FloatArray:
        """Noise variances (n,) of the rows, on the diagonal of the matrix."""
        return self.unit_noise / self.weights

    @property
    def precisions(self) -> FloatArray:
        """How many observations of the mean noise each row is worth (n,)."""
        if self.noise_shares is None:
            return self.weights
        precisions: FloatArray = self.weights / self.noise_shares
        return precisions

    @property
    def left_out_noise(self) -> FloatArray:
        """Noise variances (n_samples,) of targets that are left out."""
        unit = self.unit_noise[: self.n_samples]
        noise: FloatArray = unit / np.minimum(self.left_out_weights, 1.0)
        return noise

    @property
    def function_variances(self) -> FloatArray:
        """Mean prior variances (k,), by which variances are multiplied."""
        if self.deviation_factors is None:
            return self.amplitude
        variances: FloatArray = self.amplitude * self.deviation_factors**2
        return variances

    @property
    def observation_noise(self) -> FloatArray:
        """Noise variances (k,) of observations, as shares of mean prior variances."""
        noise = np.full(len(self.scale), self.noise)
        return noise if self.added_noise is None else noise + self.added_noise

    @property
    def n_samples(self) -> int:
        """Number of samples, each of which may be several rows."""
        return len(self.targets) // self.n_versions

    @property
    def sample_targets(self) -> FloatArray:
        """Targets (n_samples, k) of the samples."""
        return self.targets[: self.n_samples]

    @property
    def sample_weights(self) -> FloatArray:
        """Weights (n_samples,) of the samples, of which each row has a share."""
        return self.weights[: self.n_samples] * self.n_versions

    @classmethod
    def of(
        cls,
        problem: Problem,
        *,
        mean_diag: float,
        noise: float,
        amplitude: FloatArray,
        evidence: float | None,
    ) -> Self:
        """Return the model of a problem.

        Amplitude (k,) and evidence, the log density, are of the scaled targets.
        """
        amplitudes = np.full(problem.scale.shape, amplitude, dtype=np.float64)
        model = cls(
            problem.targets,
            problem.weights,
            problem.left_out_weights,
            problem.class_left_out,
            problem.scale,
            mean_diag,
            noise,
            amplitudes,
            None,
            problem.n_versions,
            n_groups=problem.inputs.n_groups,
            class_factors=problem.class_factors,
            noise_shares=problem.noise_shares,
        )
        if evidence is None:
            return model
        return replace(model, log_evidence=model.unscaled(evidence))

    def extended(
        self, problem: Problem, *, amplitude: FloatArray, evidence: float
    ) -> Self:
        """Return the model of these samples and of the samples of another problem.

        Amplitude (k,) and evidence, the log density, are of all scaled targets.
        """
        further = self.of(
            problem,
            mean_diag=self.mean_diag,
            noise=self.noise,
            amplitude=amplitude,
            evidence=None,
        )
        model = replace(
            further,
            error_factor=self.error_factor,
            targets=np.vstack([self.targets, further.targets]),
            weights=np.concatenate([self.weights, further.weights]),
            left_out_weights=np.concatenate(
                [self.left_out_weights, further.left_out_weights]
            ),
            class_left_out=np.concatenate(
                [self.class_left_out, further.class_left_out]
            ),
        )
        return replace(model, log_evidence=model.unscaled(evidence))

    def unscaled(self, evidence: float) -> float:
        """Return the log density of the targets, from the scaled targets' own."""
        shift = self.weights.sum() * np.log(self.scale).sum()
        return evidence - float(shift)
