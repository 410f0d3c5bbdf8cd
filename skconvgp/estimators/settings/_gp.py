"""Settings of Gaussian processes: noise, amplitude and parts."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from skconvgp.estimators._doors import Training
from skconvgp.estimators._warn import warn_caller
from skconvgp.estimators.settings._checks import (
    AUTO,
    as_amplitude,
    as_completion,
    as_fraction,
    as_noise,
    as_solver,
)
from skconvgp.estimators.settings._compute import Compute
from skconvgp.flows._kernel_search import Learned
from skconvgp.inference import FEWEST_INPUTS, UNINFORMED
from skconvgp.processes import LabelModel, Parts, Problem, Settings

CLASSIFIER_NOISE, REGRESSOR_NOISE = 1e-4, 1e-2
# Targets are constant if they differ by less than this share of the largest.
LEAST_SPREAD = 1e-12
# Share of the samples that are copies of others, up to which a search by
# leave-one-out ends near where it would without them (docs/adr/equal-inputs.md).
MOST_COPIED = 0.05


class GPSettings(Compute):
    """Settings of a Gaussian process, and of how it is computed."""

    @cached_property
    def noise(self) -> float | str:
        """The relative noise variance, or the word for how it is chosen."""
        return self.read("noise_variance", as_noise)

    @cached_property
    def amplitude(self) -> float | str | None:
        """The amplitude, "profile" or None."""
        return self.read("amplitude", as_amplitude)

    def amplitude_for(self, training: Training) -> float | str | None:
        """Return the amplitude; it is not profiled if the targets determine none."""
        amplitude = self.amplitude
        is_unknown = amplitude == "profile" and not training.is_informed
        return UNINFORMED if is_unknown else amplitude

    def for_problem(
        self,
        problem: Problem,
        training: Training,
        *,
        has_labels: bool,
        affords_choice: Callable[[], bool] = lambda: True,
        learned: Learned | None = None,
    ) -> tuple[Settings, str]:
        """Return noise and amplitude, from a search or from the settings.

        The second result is why the data choose no noise, for the report.
        `has_labels` says whether the labels determine a noise, and `affords_choice`
        whether choosing one costs at most as much as the fit itself. `learned` is from
        a search for the kernel.
        """
        amplitude = self.amplitude_for(training)
        if learned is not None and learned.amplitude is not None:
            amplitude = learned.amplitude
        if problem.noise_variances is not None:
            return Settings(problem.mean_noise, amplitude, is_known=True), ""
        if learned is not None and learned.noise is not None:
            return Settings(learned.noise, amplitude), ""
        noise, why_not = self.noise, ""
        if noise != AUTO:
            return Settings(noise, amplitude), ""
        if not has_labels:
            why_not = why_no_choice(problem)
            if not why_not and affords_choice():
                return Settings("loo", amplitude), ""
            if learned is not None and learned.usual_noise is not None:
                return Settings(learned.usual_noise, amplitude), ""
        usual = usual_noise(has_classes=problem.codes is not None)
        return Settings(usual, amplitude), why_not

    def parts(
        self,
        models_of: Callable[[Problem], list[LabelModel]] = lambda _: [],
        *,
        keeps_left_out: bool = False,
    ) -> Parts:
        """Return the checked parts of a process; parameters are as in `Parts`.

        By default all targets share one noise variance.
        """
        return Parts(
            self.read("solver", as_solver),
            self["solver"],
            self.read("completion", as_completion),
            self.read("observed_fraction", as_fraction),
            models_of,
            keeps_left_out,
        )


def usual_noise(*, has_classes: bool) -> float:
    """Return the relative noise variance if no criterion chooses it."""
    return CLASSIFIER_NOISE if has_classes else REGRESSOR_NOISE


def can_choose_noise(problem: Problem) -> bool:
    """Return whether inputs and targets suffice to choose the noise."""
    return not why_no_choice(problem)


def why_no_choice(problem: Problem) -> str:
    """Return why a noise cannot be chosen; empty if it can (docs/adr/noise.md)."""
    targets, n_inputs = problem.targets, problem.inputs.n_left_out
    spread = float(np.ptp(targets, axis=0).max())
    if n_inputs < FEWEST_INPUTS:
        return f"{n_inputs} different inputs, and a choice takes {FEWEST_INPUTS}"
    if problem.inputs.n_groups == 1:
        return "all samples are in one group, which has no others to be predicted from"
    if spread <= LEAST_SPREAD * float(np.abs(targets).max()):
        return "all targets are equal"
    n_judged, least = problem.n_judged, max(FEWEST_INPUTS, -(-n_inputs // 2))
    if n_judged < least:
        return (
            f"only {n_judged} of {n_inputs} different inputs have another one of their "
            f"class, and a choice takes {least}"
        )
    return ""


def warn_of_copies(problem: Problem) -> None:
    """Warn if many samples have copies, from which leave-one-out predicts them."""
    n = len(problem.rows)
    pairs = zip(problem.inputs.of.tolist(), map(tuple, problem.targets), strict=True)
    share = 1.0 - len(set(pairs)) / n
    if share > MOST_COPIED:
        warn_caller(
            f"{share:.0%} of the samples are copies of others: optimizer='loo' "
            "predicts a sample that is left out from its copy, and may choose a "
            "length that is far too short. Leave repeated samples out, or use "
            "optimizer='evidence'.",
            UserWarning,
        )
