"""Choice of a model of the labels, and of its amplitude."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from skconvgp.engine import rows_to_tensor
from skconvgp.inference import EqualInputs, choose_amplitude
from skconvgp.processes._facts import Fact, NewtonStopped
from skconvgp.processes._problem import Problem
from skconvgp.processes.fits._label_models import (
    LabelModel,
    LabelPosterior,
    NoisyModel,
    left_out_loss,
    spread_over_classes,
)

# Samples on which the amplitude is chosen: one number needs few.
CHOOSING = 1000


def best_model(
    models: list[LabelModel],
    gram: Tensor,
    mean_diag: float,
    problem: Problem,
    prior_amplitude: float | str | None,
    noise: float,
    knows_variances: bool,
) -> tuple[LabelModel, float, LabelPosterior, list[Fact]]:
    """Return the model with the least leave-one-out log loss, fitted."""
    best: tuple[LabelModel, float, LabelPosterior] | None = None
    least, facts = math.inf, list[Fact]()
    codes = rows_to_tensor(problem.class_codes)
    for model in models:
        amplitude = amplitude_of_model(
            model, gram, mean_diag, problem.class_codes, prior_amplitude, noise
        )
        posterior = model.fit(gram * amplitude, noise * amplitude)
        if not posterior.converged:
            facts.append(NewtonStopped(model.likelihood))
        if len(models) == 1:
            return model, amplitude, posterior, facts
        weights = rows_to_tensor(problem.weights)
        left_out = posterior.loo_mean, posterior.loo_cov
        loss = left_out_loss(model, *left_out, codes, weights, knows_variances)
        if best is None or loss < least:
            best, least = (model, amplitude, posterior), loss
        del posterior  # before the next one needs its memory
    assert best is not None
    return *best, facts


def amplitude_of_model(
    model: LabelModel,
    gram: Tensor,
    mean_diag: float,
    codes: NDArray[Any],
    amplitude: float | str | None,
    noise: float,
) -> float:
    """Return the amplitude of a setting, which the evidence of samples may choose.

    Parameters
    ----------
    model : LabelModel
        Model of the labels of n samples.
    gram : Tensor of shape (n, n)
        Prior covariances, of mean variance 1.
    mean_diag : float
        Their unit: the amplitude, if the setting is None.
    codes : ndarray of shape (n,)
        Class codes.
    amplitude : float, str or None
        The setting.
    noise : float
        Noise variance that is added to that of the labels, as a share of the amplitude.
    """
    if amplitude is None:
        return mean_diag
    if not isinstance(amplitude, str):
        return amplitude
    subset = spread_over_classes(codes, CHOOSING).to(gram.device)
    if len(subset) < len(gram):
        model, gram = model.take(subset), gram[subset][:, subset]
    return choose_amplitude(lambda a: model.evidence(gram * a, noise * a))


@dataclass(frozen=True)
class LabelledRows:
    """Rows with labels, on which an amplitude is chosen."""

    features: Tensor  # (f, r)
    codes: NDArray[Any]  # (f,), of classes
    weights: Tensor  # (f,)
    inputs: EqualInputs

    @cached_property
    def gram(self) -> Tensor:
        """Products (f, f) of the features."""
        return self.features @ self.features.mT

    def amplitude(
        self,
        model: NoisyModel,
        mean_diag: float,
        setting: float | str | None,
        noise: float,
    ) -> float:
        """Return the amplitude of a model of a sample of each class.

        Other parameters are those of `amplitude_of_model`.
        """
        if not isinstance(setting, str):
            return mean_diag if setting is None else setting
        own = replace(
            model.take(rows_to_tensor(self.codes)),
            weights=self.weights,
            inputs=self.inputs,
        )
        given = self.gram, mean_diag, self.codes, setting, noise
        return amplitude_of_model(own, *given)
