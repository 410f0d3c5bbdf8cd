"""The posterior of coefficients if all targets share one noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from skconvgp._tensors import int_range
from skconvgp._typing import FloatArray
from skconvgp.engine import freeze, thaw, to_numpy, to_tensor
from skconvgp.inference import (
    EqualInputs,
    FeaturePosterior,
    FeatureSums,
    LeaveOneOut,
    feature_evidence,
    feature_leave_one_out,
    feature_posterior,
    leave_one_unit_out,
)
from skconvgp.processes._process import Labels, Process
from skconvgp.processes.fits._feature_rows import EVERY, FeatureRows, Observed
from skconvgp.processes.posterior._coefficients import CoefficientState, coefficients_of


@dataclass(frozen=True)
class Leaving:
    """Parts of a posterior of one noise that leave with each sample."""

    targets: Tensor  # (s, k)
    whole_targets: Tensor  # (m, k), mean target of all samples with the input of a row
    totals: Tensor  # (m,), their total weight
    staying: Tensor  # (s,), as in `Observed`
    # Number (m,) of the group of each row; None without groups.
    groups: Tensor | None = None
    # Number (m,) of the input of each row; None without groups, if inputs differ.
    row_inputs: Tensor | None = None
    # (s,), noise of targets that are left out less the one that follows from precisions
    # alone, over the mean noise; None for one noise of all samples.
    more_noise: Tensor | None = None


@dataclass(frozen=True)
class Shared:
    """The posterior if all targets share one noise."""

    posterior: FeaturePosterior
    noise: float
    variance: str  # of what features do not explain: "dtc", "sor" or "fitc"
    amplitudes: FloatArray
    evidence: float
    sums: FeatureSums | None = None  # from which it follows

    has_noise: ClassVar[bool] = True  # in left-out variances
    has_one_latent: ClassVar[bool] = False

    @classmethod
    def of(
        cls, sums: FeatureSums, noise: float, variance: str, fixed: Tensor | None
    ) -> Self:
        """Return the posterior; without fixed amplitudes (k,) they are profiled out."""
        posterior = feature_posterior(sums)
        evidence, amplitude = feature_evidence(sums, posterior, fixed)
        found = to_numpy(amplitude), float(evidence.sum())
        return cls(posterior, noise, variance, *found, sums)

    @classmethod
    def of_process(cls, process: Process, device: torch.device) -> Self:
        """Return the posterior of a process that does not keep its sums."""
        own, model, growth = coefficients_of(process), process.model, process.growth
        (factor,), mean = thaw(own.state, device).factors, own.dual
        if growth is not None and growth.coefficients is not None:
            mean = growth.coefficients
        posterior = FeaturePosterior(factor, to_tensor(mean, device), own.jitter)
        return cls(posterior, model.noise, own.variance, model.amplitude, math.nan)

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the posterior."""
        return self.posterior.factor.dtype

    @property
    def coefficients(self) -> Tensor:
        """Posterior means (r, k) of the coefficients."""
        return self.posterior.mean

    @property
    def jitter(self) -> tuple[float, float]:
        """The noise with the effect of the jitter, and the noise.

        With a jitter j of the precision coefficients have a prior precision of 1 + j
        instead of 1, which multiplies the noise by 1 + j.
        """
        return self.posterior.jitter * self.noise, self.noise

    @property
    def growth(self) -> dict[str, Any]:
        """The sums."""
        return {"sums": freeze(self.sums)}

    def of_outputs(self, values: Tensor) -> FloatArray:
        """Return values (..., k) as an array."""
        return to_numpy(values)

    def state(self, lift_map: Any) -> CoefficientState:
        """Return the factor, as an array."""
        jitters = np.array([self.posterior.jitter])
        return freeze(CoefficientState(self.posterior.factor[None], lift_map, jitters))

    def labels(self, codes: Any, before: Labels | None) -> None:
        """Return None: targets have no labels."""

    def leaving(self, observed: Observed) -> Leaving:
        """Return targets and weights of samples and of the inputs of rows."""
        inputs, shares = observed.inputs, observed.shares
        precisions = observed.weights if shares is None else observed.weights / shares
        whole = inputs.merge(observed.targets, precisions)
        groups, row_inputs = inputs.input_groups, None
        if groups is not None:
            row_inputs = int_range(len(groups), groups.device)
        if observed.of is EVERY:
            whole = whole.take(inputs.of)
            row_inputs = inputs.of + inputs.n_before
            if groups is not None:
                groups = groups[inputs.of]
        own = observed.targets, whole.targets, whole.weights, observed.staying
        if shares is None:
            return Leaving(*own, groups, row_inputs)
        units = shares / inputs.removed(observed.weights).clamp(max=1.0)
        removed = whole.weights[observed.of] - observed.staying
        more_noise = units - removed.clamp(max=1.0).reciprocal()
        return Leaving(*own, groups, row_inputs, more_noise)

    def at_rows(
        self, rows: FeatureRows, leaving: Leaving, part: slice = EVERY
    ) -> tuple[Tensor, Tensor]:
        """Return predictions (b, k) and (b,) of rows without all of their samples.

        The part has all rows of a group, or none.
        """
        given = (
            rows.features,
            leaving.whole_targets[part],
            unit_noise(rows.residual_diag, self.noise, self.variance),
            leaving.totals[part],
        )
        if leaving.groups is None or leaving.row_inputs is None:
            loo = feature_leave_one_out(*given, self.posterior)
            return loo.mean, loo.var
        # Rows of equal inputs are one sample of all their weight.
        inputs = EqualInputs.numbered(leaving.row_inputs[part])
        first = inputs.first()
        features, targets, noise, totals = (value[first] for value in given)
        loo = feature_leave_one_out(
            features,
            targets,
            noise,
            totals,
            self.posterior,
            leaving.groups[part][first],
        )
        return loo.mean[inputs.of], loo.var[inputs.of]

    def left_out(
        self,
        found: tuple[Tensor, Tensor],
        residual_diag: Tensor,
        leaving: Leaving,
        of: Any,
    ) -> tuple[FloatArray, FloatArray]:
        """Return leave-one-out means (s, k) and variances (s,) of samples."""
        mean, var = found
        loo = leave_one_unit_out(
            LeaveOneOut(mean[of], var[of]),
            leaving.targets,
            leaving.whole_targets[of],
            unit_noise(residual_diag, self.noise, self.variance)[of],
            leaving.totals[of],
            leaving.staying,
        )
        var = loo.var
        if self.variance == "dtc":
            var = var + residual_diag[of]
        if leaving.more_noise is not None:
            var = var + self.noise * leaving.more_noise
        return to_numpy(loo.mean), to_numpy(var)


def unit_noise(residual_diag: Tensor, noise: float, variance: str) -> Tensor:
    """Return the noise variance (m,) of a single observation at rows."""
    # FITC counts the variance that features do not explain as noise.
    is_noise = variance == "fitc"
    return (residual_diag if is_noise else torch.zeros_like(residual_diag)) + noise
