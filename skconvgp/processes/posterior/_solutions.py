"""The posterior of a process of features, and the sums that it follows from."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor

from skconvgp._typing import FloatArray
from skconvgp.engine import thaw, to_tensor
from skconvgp.inference import FeaturePosterior, FeatureSums
from skconvgp.processes._grown import coded_labels
from skconvgp.processes._process import Process
from skconvgp.processes.fits._feature_rows import EVERY, FeatureRows, Observed
from skconvgp.processes.posterior._coded import Coded
from skconvgp.processes.posterior._shared import Shared

FeatureSolution: TypeAlias = Shared | Coded


class LeavesOut(Protocol):
    """A posterior of features as left-out predictions need it."""

    def leaving(self, observed: Observed) -> Any:
        """Return the parts of the posterior that leave with each sample."""
        ...

    def at_rows(
        self, rows: FeatureRows, leaving: Any, part: slice = EVERY
    ) -> tuple[Tensor, Tensor]:
        """Return means and variances at rows, which are a part of all."""
        ...

    def left_out(
        self, found: tuple[Tensor, Tensor], residual_diag: Tensor, leaving: Any, of: Any
    ) -> tuple[FloatArray, FloatArray]:
        """Return left-out means and variances of samples, from those at rows."""
        ...


def leave_out(
    solution: LeavesOut, rows: FeatureRows, leaving: Any, of: Any
) -> tuple[FloatArray, FloatArray]:
    """Return left-out means and variances of samples; `of` is as in `Observed`."""
    at_rows = solution.at_rows(rows, leaving)
    return solution.left_out(at_rows, rows.residual_diag, leaving, of)


def solution_of(process: Process, device: torch.device) -> FeatureSolution:
    """Return the posterior that a process keeps."""
    kind = Shared if process.labels is None else Coded
    return kind.of_process(process, device)


def shared_sums(process: Process, device: torch.device) -> FeatureSums:
    """Return the sums over the samples of a process whose targets share one noise.

    They are recovered from the factor of the precision unless they are kept.
    """
    model, growth = process.model, process.growth
    if growth is not None and growth.sums is not None:
        return thaw(growth.sums, device)
    known = Shared.of_process(process, device)
    moment, response = known.posterior.sums()
    targets, weights = (to_tensor(v, device) for v in (model.targets, model.weights))
    energy = (targets.square() * weights[:, None]).sum(0) / model.noise
    total: Tensor = weights.sum()
    return FeatureSums(moment, response, energy, total * math.log(model.noise), total)


def coded_sums(process: Process, known: Coded) -> Iterator[FeatureSums]:
    """Yield the sums over the samples of a process, of each of its functions.

    They are recovered from its posterior: beside it they would double the size of a
    model.
    """
    weights = coded_labels(process).class_weights(process.model.weights)
    weights = weights.to(known.factors.device)
    energy, each = known.code.energy(weights), known.code.log_noise(weights)
    for i, jitter in enumerate(known.jitters):
        mean = known.coefficients[:, i : i + 1]
        sums = FeaturePosterior(known.factors[i], mean, float(jitter)).sums()
        yield FeatureSums(*sums, energy[i : i + 1], each[i], weights.sum())
