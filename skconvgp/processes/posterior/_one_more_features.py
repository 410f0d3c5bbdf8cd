"""One more sample: what a posterior of features says of a set with it.

The formulas: docs/maths.rst, "One more sample".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._protocols import lift
from skconvgp._typing import FloatArray
from skconvgp.engine import (
    Placement,
    compute_at,
    freeze,
    frozen_bytes,
    slices,
    thaw,
    to_numpy,
    to_tensor,
)
from skconvgp.inference import (
    Addition,
    FeaturePosterior,
    FeatureSums,
    LeftOutInputs,
    feature_inverse_blocks,
    feature_inverse_diag,
    feature_posterior,
)
from skconvgp.linalg import cholesky_solve
from skconvgp.processes._process import Growth, Process, run_beside
from skconvgp.processes._run import Resources
from skconvgp.processes.basis._basis import NewRows
from skconvgp.processes.posterior._coefficients import coefficients_of
from skconvgp.processes.posterior._one_more import (
    LABELLED,
    Question,
    Scored,
    at_once,
)
from skconvgp.processes.posterior._pool import Choice, choose_by_features
from skconvgp.processes.posterior._shared import Shared, unit_noise

NOT_KEPT = (
    "it keeps no features of training samples: use NystromCompletedGP or PatchGP, or "
    "completion=None"
)
KNOWN_NOISE = (
    "each sample has a noise variance of its own, and features are not kept then: use "
    "a number v as `noise_variance` with `sample_weight`, for noise variances v / "
    "weight, or use ConvNetGPRegressor with completion=None"
)
OWN_NOISE = (
    "variance='fitc' gives each sample a noise, which is not replaced by a smaller "
    "one: fit with variance='dtc'"
)


@dataclass(frozen=True)
class ScoredFeatures:
    """Inputs that are kept with their features, and the samples that have them."""

    features: Any  # (m, r)
    residual_diag: Any  # (m,), as in `FeatureRows`
    targets: Any  # (m, k), mean targets of all samples with an input
    totals: Any  # (m,), their weight
    samples: NDArray[np.intp]  # (n,), which samples of the fit
    of: NDArray[np.intp]  # (n,), the input that each of them has
    units: NDArray[np.intp]  # (n,), numbers of samples that are one unit
    groups: Any  # (m,), of inputs that leave together; None if each leaves alone
    inputs: NDArray[np.intp]  # (n,), numbers that samples of equal inputs share

    def scored_features(self, process: Process, run: Any) -> ScoredFeatures:  # noqa: ARG002
        """Return itself."""
        return self


class AsksFeatures:
    """Left-out values of features, which take one more sample."""

    keeps_features: ClassVar[bool] = True

    def why_no_more(self, process: Process, *, other_noise: bool) -> str:
        """Return why one more sample cannot be added; empty if it can.

        `other_noise` says whether `with_noise` is needed, too.
        """
        if process.labels is not None:
            return LABELLED
        if process.growth is None:
            return NOT_KEPT if process.model.noise_shares is None else KNOWN_NOISE
        is_own = coefficients_of(process).variance == "fitc"
        return OWN_NOISE if other_noise and is_own else ""

    def ready(self, process: Process, resources: Resources) -> Process:
        """Return the process with features of kept samples, and coefficients."""
        growth: Any = process.growth
        needed = frozen_bytes(process.state)

        def read_at(placement: Placement) -> Growth:
            run, device = run_beside(resources, placement, needed), placement.device
            rows: Any = growth.reservoir.rows.scored_features(process, run)
            held = ("features", "residual_diag", "targets", "totals")
            double = {name: getattr(rows, name).to(torch.float64) for name in held}
            rows = replace(rows, **double)
            reservoir = replace(growth.reservoir, rows=freeze(rows))
            if growth.sums is None:
                return Growth(reservoir, coefficients=growth.coefficients)
            factor = double_posterior(process, device).factor
            response = thaw(growth.sums, device).response.to(factor)
            mean = cholesky_solve(factor, response)
            return Growth(reservoir, coefficients=to_numpy(mean))

        return replace(process, growth=compute_at(resources.placement(needed), read_at))

    def scored(self, process: Process) -> Scored:
        """Return the samples that a new one is compared with."""
        rows = kept_features(process)
        return Scored(rows.samples, rows.of, rows.units, len(rows.features))

    def ask(
        self,
        process: Process,
        new: NewRows,
        resources: Resources,
        question: Question,
    ) -> list[FloatArray]:
        """Return what a question says of each new sample, added by itself."""
        needed, model = frozen_bytes(process.state), process.model
        variance, basis = coefficients_of(process).variance, process.basis

        def ask_at(placement: Placement) -> list[FloatArray]:
            run = run_beside(resources, placement, needed)
            device = placement.device
            rows, posterior = (
                thaw(kept_features(process), device),
                double_posterior(process, device),
            )
            lift_map = process.state.lift_map
            if lift_map is not None:
                lift_map = to_tensor(lift_map, device, torch.float64)
            inputs, precision = _left_out(rows, posterior, model.noise, variance)
            n_scored = max(len(rows.of), len(rows.features))
            size = at_once(n_scored, inputs.mean.shape[1])
            answers: list[Sequence[Tensor]] = []
            has_more = variance != "sor"
            for values, prior in basis.stream(new, run, needs_diag=has_more):
                features = values.to(posterior.factor)
                if lift_map is not None:
                    features = lift(features, lift_map)
                half = cholesky_solve(posterior.factor, features.mT)
                solved = (rows.features @ half) * precision[:, None]
                unexplained = torch.zeros_like(half[0])
                if has_more:
                    squares = features.square().sum(1)
                    unexplained = (prior / model.mean_diag - squares).clamp(min=0.0)
                found = (
                    features @ posterior.mean,
                    (features.mT * half).sum(0),
                    unit_noise(unexplained, model.noise, variance),
                    unexplained,
                )
                for part in slices(len(features), size):
                    mean, var, noise, beyond = (one[part] for one in found)
                    columns = solved[:, part]
                    addition = Addition(inputs, columns, mean, var, noise, 0.0, beyond)
                    answers.append(question(addition))
            return [to_numpy(torch.cat(one)) for one in zip(*answers, strict=True)]

        return compute_at(resources.placement(needed), ask_at)

    def why_no_pool(self, process: Process) -> str:  # noqa: ARG002  (all can)
        """Return an empty text: samples without labels have covariances."""
        return ""

    def choose(
        self,
        process: Process,
        rows: NDArray[Any],
        resources: Resources,
        choice: Choice,
    ) -> NDArray[np.intp]:
        """Return which of rows (r, d) are chosen."""
        return choose_by_features(process, rows, resources, choice)

    def with_noise(
        self, process: Process, noise: float, resources: Resources
    ) -> Process:
        """Return the process with another noise variance, by one factorisation."""
        model, needed = process.model, frozen_bytes(process.state)

        def solved_at(placement: Placement) -> tuple[Any, FloatArray, FloatArray]:
            known = double_posterior(process, placement.device)
            share = model.noise / noise
            moment, response = (one * share for one in known.sums())
            nothing = moment.new_zeros(())
            posterior = feature_posterior(
                FeatureSums(moment, response, nothing, nothing, nothing)
            )
            lift_map = process.state.lift_map
            state = replace(
                process.state,
                factors=to_numpy(posterior.factor[None]),
                jitters=np.array([posterior.jitter]),
            )
            mean = to_numpy(posterior.mean)
            if lift_map is None:
                return state, mean, mean
            dual = lift_map @ mean if np.ndim(lift_map) else lift_map * mean
            return state, dual, mean

        state, dual, mean = compute_at(resources.placement(needed), solved_at)
        growth: Any = process.growth
        if growth.coefficients is not None:
            growth = replace(growth, coefficients=mean)
        return replace(
            process,
            posterior=replace(coefficients_of(process), state=state, dual=dual),
            model=replace(model, noise=noise),
            growth=growth,
            folded=None,
        )


def kept_features(process: Process) -> ScoredFeatures:
    growth: Any = process.growth
    rows: ScoredFeatures = growth.reservoir.rows
    return rows


def double_posterior(process: Process, device: torch.device) -> FeaturePosterior:
    """Return the posterior in double precision, whatever that of the fit is."""
    known = Shared.of_process(process, device).posterior
    factor, mean = (one.to(torch.float64) for one in (known.factor, known.mean))
    return FeaturePosterior(factor, mean, known.jitter)


def _left_out(
    rows: ScoredFeatures, posterior: FeaturePosterior, noise: float, variance: str
) -> tuple[LeftOutInputs, Tensor]:
    """Return inputs that are left out, and their precisions (m,)."""
    single = unit_noise(rows.residual_diag, noise, variance)
    own_noise = single / rows.totals
    precision = 1.0 / own_noise
    errors = rows.targets - rows.features @ posterior.mean
    given = rows.features, precision, posterior
    of_inputs, noises = (rows.targets, errors * precision[:, None]), (own_noise, single)
    if rows.groups is None:
        inverse_diag = feature_inverse_diag(*given)
        inputs = LeftOutInputs.alone(*of_inputs, inverse_diag, *noises)
    else:
        blocks = feature_inverse_blocks(*given, rows.groups)
        inputs = LeftOutInputs.together(*of_inputs, blocks, *noises)
    counted = 0.0 if variance == "sor" else 1.0
    return replace(inputs, unexplained=rows.residual_diag * counted), precision
