"""A linear mean that is integrated out, around a posterior by solves."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch

from skconvgp._typing import FloatArray
from skconvgp.engine import rows_to_tensor, thaw, to_numpy
from skconvgp.inference import EqualInputs, FlatTrend
from skconvgp.processes._linear_trend import LinearTrend
from skconvgp.processes._problem import Latent
from skconvgp.processes._process import LeftOutValues, Process
from skconvgp.processes._run import Resources
from skconvgp.processes.basis._basis import NewRows
from skconvgp.processes.posterior._solved import SolvedLeftOut

HOST = torch.device("cpu")
INTEGRATED = (
    "its linear mean is integrated out, with no other samples than those of the fit: "
    "fit with mean=LinearRegression() of scikit-learn, or with mean=None"
)


@dataclass(frozen=True)
class LinearMean:
    """A linear mean with a flat prior, and what the data say of it."""

    trend: LinearTrend  # with the fit of least squares
    flat: FlatTrend = field(repr=False)  # of what that leaves, as arrays
    # (n, m), dual coefficients of the basis functions: their predictions are
    # covariances times these.
    basis_dual: FloatArray = field(repr=False)

    def columns(self, dual: FloatArray) -> FloatArray:
        """Return coefficients (n, k + m) of all that is read of new samples."""
        return np.column_stack([dual, self.basis_dual])

    def added(self, found: Latent, new: NewRows) -> Latent:
        """Return the posterior of new samples with the mean, given all columns."""
        rows: Any = new.rows
        flat, values = self.at_hand(), self.trend.values(rows)
        k = flat.coefficients.shape[1]
        half = to_numpy(flat.half(rows_to_tensor(values - found.mean[:, k:])))
        coefficients = to_numpy(flat.coefficients) + self.trend.coefficients
        found = replace(found, mean=found.mean[:, :k] + values @ coefficients)
        more = (half**2).sum(0)
        if found.var.size:
            found = replace(found, var=found.var + more[:, None])
        if found.cov.size:
            cov = found.cov + (half.T @ half)[:, :, None]
            size = found.cov_scale + float(more.mean())
            found = replace(found, cov=cov, cov_scale=size)
        return found

    def at_hand(self) -> FlatTrend:
        """Return the posterior of the coefficients, as tensors."""
        found: FlatTrend = thaw(self.flat, HOST)
        return found


@dataclass(frozen=True)
class TrendedLeftOut:
    """Left-out predictions: the mean is without the sample, too."""

    # Those of the residuals of least squares, and of the basis functions (n, k + m).
    without_mean: SolvedLeftOut
    targets: FloatArray = field(repr=False)  # (n, k + m)

    keeps_features: ClassVar[bool] = False
    knows_units: ClassVar[bool] = False
    known_means: ClassVar[None] = None

    def has_gram(self, process: Process) -> bool:  # noqa: ARG002  (it is not asked)
        """Return False."""
        return False

    def why_no_more(self, process: Process, *, other_noise: bool) -> str:  # noqa: ARG002
        """Return why one more sample cannot be added."""
        return INTEGRATED

    def why_no_pool(self, process: Process) -> str:  # noqa: ARG002
        """Return why samples without labels have no covariances."""
        return INTEGRATED

    def inner(self, process: Process) -> Process:
        """Return the process without the mean, whose targets are all columns."""
        around: Any = process.around
        flat = around.at_hand()
        dual = process.dual + around.basis_dual @ to_numpy(flat.coefficients)
        posterior: Any = process.posterior
        return replace(
            process,
            model=replace(process.model, targets=self.targets),
            posterior=replace(posterior, dual=around.columns(dual)),
            left_out=self.without_mean,
            around=None,
        )

    def values(
        self, process: Process, resources: Resources, *, is_subset_enough: bool
    ) -> LeftOutValues:
        """Return the predictions; of a subset, if more cost much and it is enough."""
        inner, around = self.inner(process), process.around
        found = inner.leave_out(resources, is_subset_enough=is_subset_enough)
        model, k, at = inner.model, len(process.model.scale), found.indices
        inputs = EqualInputs.numbered(rows_to_tensor(self.without_mean.inputs))
        targets, weights = rows_to_tensor(self.targets), rows_to_tensor(model.weights)
        merged, shares = inputs.merge(targets, rows_to_tensor(model.precisions)), None
        if model.noise_shares is not None:
            shares = rows_to_tensor(model.noise_shares)
        staying = inputs.staying(weights, shares)
        whole = merged.targets[inputs.of]
        leaving = torch.where(staying[:, None] > 0.0, targets, whole)[at]
        noise = model.noise / (merged.weights[inputs.of] - staying)[at]
        own = rows_to_tensor(model.left_out_noise[at])
        errors = leaving - rows_to_tensor(found.mean)
        var = rows_to_tensor(found.var) - own + noise
        flat = around.at_hand()
        errors, var = flat.left_out(errors[:, :k], errors[:, k:], var)
        mean = to_numpy(leaving[:, :k] - errors)
        mean = mean + to_numpy(leaving[:, k:]) @ around.trend.coefficients
        return replace(found, mean=mean, var=to_numpy(var - noise + own), repeated=None)
