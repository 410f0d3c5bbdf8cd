"""Samples whose features are all held: of a completed matrix, or of further samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from skconvgp._protocols import lift
from skconvgp._tensors import int_range
from skconvgp._typing import FloatArray
from skconvgp.engine import freeze, rows_to_tensor, slices, thaw, to_numpy, to_tensor
from skconvgp.inference import (
    ClassMoments,
    ClassSums,
    FeatureSums,
    select_feature_noise,
    select_fitc_noise,
    sum_features,
)
from skconvgp.processes._grown import kept_before
from skconvgp.processes._model import Model
from skconvgp.processes._problem import Problem, require_finite_noise
from skconvgp.processes._process import Growth, KeptLeftOut, Labels, Process
from skconvgp.processes._run import Run
from skconvgp.processes.basis._basis import Basis, NewRows
from skconvgp.processes.basis._completed import Completed
from skconvgp.processes.fits._feature_rows import (
    EVERY,
    FeatureRows,
    Observed,
    Reservoir,
    draw_keys,
    joined,
    shared_keys,
    taken,
)
from skconvgp.processes.fits._known_noise import shares_of
from skconvgp.processes.fits._label_choice import CHOOSING, LabelledRows
from skconvgp.processes.fits._label_models import spread_over_classes
from skconvgp.processes.posterior._coefficients import coefficients_of
from skconvgp.processes.posterior._one_more_features import AsksFeatures, ScoredFeatures
from skconvgp.processes.posterior._shared import unit_noise
from skconvgp.processes.posterior._solutions import FeatureSolution, leave_out

# Below this noise, rounding hides the identity in I + F^T F / noise:
# docs/maths.rst, "Columns of landmarks".
SMALLEST_NOISE = {torch.float64: 1e-10, torch.float32: 1e-6}
# Samples whose features are kept. Their leave-one-out predictions are computed anew
# after more samples have been added; those of all samples would need all features.
KEPT_ROWS = 500
JUDGED_LABELS = 5000  # samples whose left-out log loss chooses a likelihood
ROWS = 4096  # of features that are summed at a time
FEATURE_COPIES = 2  # of features, and of their products
FEWER_FEATURES = (
    "fit with fewer features or landmarks, or fewer samples at once, or, if classes "
    "have a noise each, with likelihood='gaussian'."
)


@dataclass(frozen=True)
class HeldRows:
    """Samples that are kept with their features, and the parts that leave with each."""

    samples: Tensor  # (m,), indices
    rows: FeatureRows
    leaving: Any  # a dataclass of tensors

    images: ClassVar[None] = None  # none are kept

    def knows_variances(self, variance: str) -> bool:
        """Return whether prior variances beside those of features are known."""
        is_known = np.isfinite(np.asarray(self.rows.residual_diag)).all()
        return bool(is_known) and variance != "sor"

    def take(self, chosen: NDArray[np.intp]) -> Self:
        """Return some of the samples."""
        each = taken(self.rows, chosen), taken(self.leaving, chosen)
        return type(self)(self.samples[chosen], *each)

    def join(self, other: Self) -> Self:
        """Return the samples of both."""
        each = joined(self.rows, other.rows), joined(self.leaving, other.leaving)
        return type(self)(torch.cat([self.samples, other.samples]), *each)

    def scored_features(self, process: Process, run: Run) -> ScoredFeatures:  # noqa: ARG002
        """Return the samples with their features; equal ones, or groups, are a unit."""
        rows, leaving = thaw((self.rows, self.leaving), run.config.device)
        samples, groups = np.asarray(self.samples), None
        first = of = np.arange(len(samples))
        if leaving.groups is None:
            units = to_numpy(torch.unique(rows.features, dim=0, return_inverse=True)[1])
        else:
            units, own = to_numpy(leaving.groups), to_numpy(leaving.row_inputs)
            _, first, of = np.unique(own, return_index=True, return_inverse=True)
            groups = units[first]
        return ScoredFeatures(
            rows.features[first],
            rows.residual_diag[first],
            leaving.whole_targets[first],
            leaving.totals[first],
            samples,
            of.ravel(),
            units,
            groups,
            to_numpy(leaving.row_inputs),
        )

    def left_out(self, solution: FeatureSolution) -> tuple[FloatArray, FloatArray]:
        """Return left-out means and variances of the samples."""
        return leave_out(solution, self.rows, self.leaving, EVERY)


@dataclass(frozen=True)
class HeldLeftOut(AsksFeatures, KeptLeftOut):
    """Left-out predictions of samples, some of which are kept with their features."""


@dataclass(frozen=True)
class HeldReading:
    """The samples of a problem, whose features are held."""

    problem: Problem
    basis: Basis
    rows: FeatureRows  # of all samples
    lift_map: Tensor  # as in `CoefficientState`
    mean_diag: float
    variance: str  # of what features do not explain: "dtc", "sor" or "fitc"
    # The coarsest that covariances have gone through, read by `choose_noise` alone.
    precision: torch.dtype = torch.float64
    n_pairs: int = 0  # of samples, whose covariances were evaluated
    gram_seconds: float = 0.0

    keeps_sums: ClassVar[bool] = True  # else they follow from factors
    explained: ClassVar[float] = 1.0  # share of the prior variance: not estimated

    @classmethod
    def of_completed(
        cls,
        problem: Problem,
        basis: Basis,
        completed: Completed,
        variance: str,
        run: Run,
    ) -> Self:
        """Return the samples of a completed matrix, whose factor is overwritten."""
        gram = completed.gram
        mean_diag, features, residual_diag, lift_map = completed.in_units_(problem)
        if variance == "sor":
            residual_diag = torch.zeros_like(residual_diag)
        own = basis.take(to_numpy(gram.anchors))
        rows = FeatureRows(features, residual_diag)
        found = basis.precision(run.config), gram.n_evaluated, completed.seconds
        return cls(problem, own, rows, lift_map, mean_diag, variance, *found)

    @classmethod
    def of_more(cls, process: Process, problem: Problem, run: Run) -> Self:
        """Return further samples of a process."""
        basis = process.basis
        posterior, unit = coefficients_of(process), process.model.mean_diag
        lift_map = to_tensor(process.state.lift_map, run.config.device)
        lifted, residual_diags = [], []
        reads = posterior.reads_variances(basis, needs_var=True)
        new = NewRows(problem.rows)
        for cross, prior in basis.stream(new, run, needs_diag=reads):
            features = lift(cross, lift_map)
            explained = torch.einsum("ij,ij->i", features, features)
            residual_diag = (prior / unit - explained).clamp(min=0.0)
            if posterior.variance == "sor":
                residual_diag = torch.zeros_like(residual_diag)
            elif not basis.knows_variances:  # the diagonal above is all zeros
                residual_diag = torch.full_like(residual_diag, torch.nan)
            lifted.append(features)
            residual_diags.append(residual_diag)
        rows = FeatureRows(torch.cat(lifted), torch.cat(residual_diags))
        has_anchors = lift_map.ndim > 0
        n_pairs = len(problem.rows) * (basis.n_samples + 1) if has_anchors else 0
        own = basis, rows, lift_map, unit, posterior.variance
        return cls(problem, *own, n_pairs=n_pairs)

    @property
    def device(self) -> torch.device:
        """Device of the features."""
        return self.rows.features.device

    @property
    def least_noise(self) -> float:
        """Least noise that rounding of sums allows."""
        return SMALLEST_NOISE[self.rows.features.dtype]

    def observed(self, dtype: torch.dtype) -> Observed:
        """Return the observations of the samples, in a precision."""
        problem, device = self.problem, self.device
        weights = to_tensor(problem.weights, device, dtype)
        inputs, codes = problem.inputs.to(device), problem.codes
        shares = shares_of(problem, weights)
        return Observed(
            to_tensor(problem.targets, device, dtype),
            weights,
            inputs.staying(weights, shares),
            inputs,
            EVERY,
            None if codes is None else to_tensor(np.asarray(codes), device),
            shares,
        )

    def sums(self, noise: float) -> FeatureSums:
        """Return sums over the features of the samples."""
        features, residual_diag = self.rows.features, self.rows.residual_diag
        own = self.observed(features.dtype)
        unit = unit_noise(residual_diag, noise, self.variance)
        if own.shares is not None:
            unit = unit * own.shares
        require_finite_noise(unit / own.weights)
        return sum_features(features, own.targets, unit, own.weights)

    def class_sums(self) -> ClassSums:
        """Return sums over the samples of each class."""
        features, device = self.rows.features, self.device
        weights = to_tensor(self.problem.weights, device)
        require_finite_noise(1.0 / weights.to(features))
        n_classes, (n, r) = len(self.problem.scale), features.shape
        moments = ClassMoments.empty(n_classes, r, torch.float64, device)
        codes = to_tensor(np.asarray(self.problem.class_codes), device)
        labels = int_range(n_classes, device)
        for part in slices(n, ROWS):
            of_class = (codes[part, None] == labels) * weights[part, None]
            moments.add(features[part].to(torch.float64), of_class)
        return moments.finish()

    def choose_noise(self, criterion: str, amplitude: Tensor | None) -> float:
        """Return the noise that is best by a criterion, for an amplitude (k,)."""
        select = partial(select_feature_noise, self.rows.features)
        if self.variance == "fitc":
            select = partial(
                select_fitc_noise, self.rows.features, self.rows.residual_diag
            )
        own = self.observed(self.rows.features.dtype)
        return select(
            own.targets,
            own.weights,
            criterion=criterion,
            amplitude=amplitude,
            precision=self.precision,
            inputs=own.inputs,
        )

    def labelled(self) -> LabelledRows:
        """Return samples on which an amplitude is chosen."""
        problem = self.problem
        chosen = spread_over_classes(problem.class_codes, CHOOSING)
        return LabelledRows(
            self.rows.features[chosen.to(self.device)].to(torch.float64),
            problem.class_codes[to_numpy(chosen)],
            rows_to_tensor(problem.weights)[chosen],
            problem.inputs.take(chosen),
        )

    def judged(self, sums: ClassSums) -> tuple[ClassSums, FeatureRows, Any]:
        """Return sums, rows, and samples whose left-out loss chooses a likelihood."""
        chosen = spread_over_classes(self.problem.class_codes, JUDGED_LABELS).to(
            self.device
        )
        return sums, taken(self.rows, chosen), chosen

    def left_out(
        self,
        solution: FeatureSolution,
        model: Model,  # noqa: ARG002  (what leaves with the samples is known)
        labels: Labels | None,  # noqa: ARG002  (what leaves with the samples is known)
        generator: Generator | None,
        before: Process | None,
    ) -> tuple[KeptLeftOut, Growth | None]:
        """Return left-out predictions, and the sums that further samples are added to.

        A generator draws the samples that are kept for these; without one none can be
        added.
        """
        n_before = 0 if before is None else len(before.model.targets)
        samples = n_before + int_range(len(self.problem.rows), self.device)
        leaving = solution.leaving(self.observed(solution.dtype))
        held = HeldRows(samples, self.rows, leaving)
        found = held.left_out(solution)
        left_out: KeptLeftOut = HeldLeftOut(found[0], found[1], solution.has_noise)
        if generator is None:
            return left_out, None
        units = to_numpy(self.problem.inputs.left_out_with)
        keys = shared_keys(draw_keys(n_before, len(samples), generator), units)
        reservoir = Reservoir(keys, held).smallest(KEPT_ROWS, units)
        if before is not None and before.growth is not None:
            kept = before.growth.reservoir
            kept = replace(kept, rows=thaw(kept.rows, self.device))
            reservoir = kept.join(reservoir, KEPT_ROWS)
            # Features of earlier samples are kept for the reservoir only, so that only
            # its values are brought up to date.
            new = to_numpy(samples), found
            both = reservoir.rows
            again = to_numpy(both.samples), both.left_out(solution)
            left_out = kept_before(before).followed_by(len(samples), new, again)
        reservoir = replace(reservoir, rows=freeze(reservoir.rows))
        return left_out, Growth(reservoir, **solution.growth)
