"""The posterior of coefficients if a label gives each function targets and noise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from skconvgp._typing import FloatArray
from skconvgp.engine import freeze, thaw, to_numpy, to_tensor
from skconvgp.inference import (
    ClassSums,
    Coefficients,
    FeaturePosterior,
    FeatureSums,
    LabelCode,
    Sites,
    feature_evidence,
    feature_posterior,
)
from skconvgp.linalg import cholesky_inverse, shifted_cholesky_
from skconvgp.processes._grown import coded_labels
from skconvgp.processes._process import CodedLabels, Labels, Process
from skconvgp.processes.fits._feature_rows import EVERY, FeatureRows, Observed
from skconvgp.processes.fits._label_models import NoisyModel
from skconvgp.processes.posterior._coefficients import CoefficientState, coefficients_of

LEAST_FOR_MEAN = 3  # functions; the factor of two takes longer than it saves


@dataclass(frozen=True)
class CodedTargets:
    """Targets and noise that labels give latent functions of an amplitude."""

    likelihood: Any
    offset: Any  # (n_outputs,), prior means
    code: LabelCode
    amplitude: float  # mean prior variance of the functions

    @classmethod
    def of(
        cls, model: NoisyModel, amplitude: float, noise: float, device: torch.device
    ) -> CodedTargets:
        """Return the targets of the model of a sample of each class.

        The noise is added to that of the labels, as a share of the amplitude.
        """
        code = LabelCode.of(model.targets, amplitude, noise)
        code = code.of_second() if model.has_one_latent else code
        return cls(model.likelihood, model.offset, code.to(device), amplitude)

    @property
    def n_outputs(self) -> int:
        """Number of outputs: there may be one function for two."""
        return len(self.code.noise)

    @property
    def has_one_latent(self) -> bool:
        """Whether two outputs are one function and its negative."""
        return int(self.code.noise.shape[1]) < self.n_outputs

    def each(self, sums: ClassSums, whole: Tensor) -> Iterator[FeatureSums]:
        """Yield the sums of each function, given the sums of each class and of all."""
        for i in range(self.code.noise.shape[1]):
            yield sums.of_function(i, self.code, whole)

    def leaving(self, observed: Observed) -> Sites:
        """Return the likelihoods that leave with each sample."""
        codes, weights = observed.codes, observed.weights.to(self.code.noise)
        noise = self.code.noise[codes] / weights[:, None]
        return Sites.of(self.code.values[codes], noise, weights, observed.inputs)

    def left_out(
        self,
        found: tuple[Tensor, Tensor],
        residual_diag: Tensor,
        leaving: Sites,
        of: Any,
    ) -> tuple[FloatArray, FloatArray]:
        """Return leave-one-out means and variances (s, n_outputs) of samples.

        Means and variances (m, k) of the functions at rows are found. `of` is as in
        `Observed`, and `residual_diag` (m,) as in `FeatureRows`.
        """
        mean, var = leaving.leave_out(found[0][of], found[1][of])
        var = self.amplitude * (var + residual_diag.to(var)[of][:, None])
        return self.of_outputs(mean), to_numpy(var.expand(-1, self.n_outputs))

    def of_outputs(self, values: Tensor) -> FloatArray:
        """Return values (n, k) of the functions for all outputs."""
        if self.has_one_latent:  # the function of the second of two classes
            values = torch.cat([-values, values], dim=1)
        return to_numpy(values)


@dataclass(frozen=True)
class Coded(CodedTargets):
    """The posterior of latent functions if a label gives each targets and noise."""

    noise: float  # as in `Model`
    coefficients: Tensor  # (r, k), posterior means
    factors: Tensor  # (k, r, r), of the precisions of the coefficients
    jitters: FloatArray  # (k,), that had to be added to the diagonals of the precisions
    evidence: float  # log density of the targets

    has_noise: ClassVar[bool] = False  # in left-out variances

    @classmethod
    def fitted(
        cls,
        targets: CodedTargets,
        noise: float,
        each: Iterable[FeatureSums],
        sums: ClassSums,
    ) -> Self:
        """Return the posterior, whose factors overwrite moments of the sums.

        The sums of each function are made one after the other, from those of each class
        and perhaps others.
        """
        factors, means, jitters, evidence = sums.factors(targets.code), [], [], 0.0
        for i, (posterior, own) in enumerate(posteriors(each, targets.amplitude)):
            means.append(posterior.mean[:, 0])
            jitters.append(posterior.jitter)
            evidence += own
            factors[i] = posterior.factor
        found = torch.stack(means, 1), factors, np.array(jitters), evidence
        given = targets.likelihood, targets.offset, targets.code, targets.amplitude
        return cls(*given, noise, *found)

    @classmethod
    def of_process(cls, process: Process, device: torch.device) -> Self:
        """Return the posterior of a process of labels."""
        own, model, labels = (
            coefficients_of(process),
            process.model,
            coded_labels(process),
        )
        code, growth = thaw(labels.code, device), process.growth
        if growth is not None and growth.coefficients is not None:
            means = to_tensor(growth.coefficients, device)
        else:
            means = to_tensor(own.dual, device)[:, code.label_of(0) :]
        found = means, thaw(own.state, device).factors, own.state.jitters, math.nan
        targets = labels.likelihood, labels.offset, code, float(model.amplitude[0])
        return cls(*targets, model.noise, *found)

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the parts that leave with samples."""
        dtype: torch.dtype = self.code.noise.dtype
        return dtype

    @property
    def amplitudes(self) -> FloatArray:
        """The amplitude, for each output."""
        return np.full(self.n_outputs, self.amplitude)

    @property
    def jitter(self) -> tuple[float, float]:
        """The noise with the effect of the largest jitter, and the least noise."""
        least_noise = float(self.code.noise.min())
        return float(self.jitters.max()) * least_noise, least_noise

    @property
    def growth(self) -> dict[str, Any]:
        """Coefficients to keep if dual coefficients are of anchors."""
        return {"coefficients": to_numpy(self.coefficients)}

    def state(self, lift_map: Any) -> CoefficientState:
        """Return the factors, as arrays.

        Factors of the second of two classes alone are copied, so that the moments of
        the first, which lie beside them, are freed. From three functions on, their mean
        covariance has a factor as well.
        """
        factors = self.factors
        kept = factors.clone() if self.has_one_latent else factors
        has_mean = len(factors) >= LEAST_FOR_MEAN
        mean_factor = _mean_factor(factors)[None] if has_mean else None
        return freeze(CoefficientState(kept, lift_map, self.jitters, mean_factor))

    def labels(self, codes: Any, before: Labels | None) -> CodedLabels:
        """Return the labels of samples (n,) that follow those before."""
        if isinstance(before, CodedLabels):
            return before.with_more(codes)
        own = self.likelihood, to_numpy(self.offset), freeze(self.code)
        return CodedLabels(*own, np.asarray(codes))

    def at_rows(
        self,
        rows: FeatureRows,
        leaving: Sites,  # noqa: ARG002  (the posterior has all samples)
        part: slice = EVERY,  # noqa: ARG002  (the posterior has all samples)
    ) -> tuple[Tensor, Tensor]:
        """Return means and variances (b, k) of the functions at rows."""
        means = self.coefficients.mT.contiguous()
        each = map(Coefficients, self.factors, means)
        return marginals(each, rows.features)


def posteriors(
    each: Iterable[FeatureSums], amplitude: float
) -> Iterator[tuple[FeaturePosterior, float]]:
    """Yield the posterior of each latent function, and its log evidence."""
    for sums in each:
        posterior = feature_posterior(sums)
        fixed = sums.energy.new_tensor([amplitude])
        yield posterior, float(feature_evidence(sums, posterior, fixed)[0])


def marginals(each: Iterable[Coefficients], features: Tensor) -> tuple[Tensor, Tensor]:
    """Return means and variances (b, k) of latent functions, given features (b, r)."""
    found = [one.marginals(features) for one in each]
    mean, var = (torch.stack(part, 1) for part in zip(*found, strict=True))
    return mean, var


def _mean_factor(factors: Tensor) -> Tensor:
    """Return the factor of the inverse of the mean of (L L^T)^-1 over factors L."""
    no_shift = factors.new_zeros(factors.shape[1])
    work = torch.zeros_like(factors[0])
    for factor in factors:
        work += cholesky_inverse(factor)
    work = shifted_cholesky_(work.div_(len(factors)), no_shift)[0]
    work = cholesky_inverse(work)
    return shifted_cholesky_(work, no_shift)[0]
