"""How Bayesian networks are fitted: held-out samples, training, attributes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from skconvgp._typing import FloatArray
from skconvgp.engine import to_numpy
from skconvgp.estimators._training import EPOCH
from skconvgp.estimators._warn import warn_caller
from skconvgp.estimators.compute._progress import progress_of
from skconvgp.estimators.networks._network_calibration import (
    calibrated_noise,
    calibrated_temperature,
)
from skconvgp.estimators.networks._network_report import NetworkReport
from skconvgp.estimators.networks._network_samples import NumberTargets
from skconvgp.estimators.networks._network_settings import (
    ENSEMBLE,
    LEAST_FOR_NOISE,
    LEAST_TRACE,
    effective_number,
)
from skconvgp.estimators.networks._network_training import (
    SEARCH_EPOCH,
    STAGES,
    NetworkTraining,
    TrainedNetworks,
)
from skconvgp.metrics import split_rhat
from skconvgp.networks import Trained
from skconvgp.processes import Stage

# R-hat of chains up to which their draws are used without a warning.
LARGEST_RHAT = 1.1
# Draws of a search on held-out samples: they have about the errors of all draws.
FEW_DRAWS = 5


@dataclass(frozen=True)
class FittedNetworks:
    """Trained networks that become the draws of an estimator."""

    training: NetworkTraining
    result: TrainedNetworks
    rhat: FloatArray | None  # how far chains agree; None without chains
    report: NetworkReport


def fit_networks(training: NetworkTraining) -> FittedNetworks:
    """Return all draws, trained."""
    result = training.run(EPOCH)
    _warn_of_diverged(training, result.trained, EPOCH)
    return _fitted(training, result)


def _fitted(training: NetworkTraining, result: TrainedNetworks) -> FittedNetworks:
    """Return draws with the report of their training; warn if chains disagree."""
    trained, n_held_out = result.trained, len(result.held_out)
    report = NetworkReport(
        n_samples=len(training.samples.rows) - n_held_out,
        n_points=training.n_points - n_held_out,
        n_parameters=sum(map(math.prod, training.network.shapes.values())),
        n_diverged=int((~trained.is_finite).sum()),
        is_stopped=trained.is_stopped,
        train_seconds=time.perf_counter() - training.begun,
        distance=training.prior.distance,
        device=str(result.placement.device),
        device_reason=result.placement.reason,
    )
    return FittedNetworks(training, result, _judge_chains(trained), report)


def held_out_noise(
    training: NetworkTraining,
    targets: NumberTargets,
    noise: float,
) -> tuple[float, FittedNetworks | None]:
    """Return the noise of samples that a few networks have not learned from.

    The second result is these networks if a callback has stopped `fit`: they are its
    draws then. They are trained with the variance `noise`, which is returned, with a
    warning, if the held-out samples have too little weight.
    """
    few = training.of_few(FEW_DRAWS, is_bootstrap=False)
    weights = few.samples.weights[few.split(few.generator())[1]]
    # The weights of all samples suffice; those of the held-out ones differ by chance.
    if effective_number(weights) < LEAST_FOR_NOISE / 2:
        warn_caller(
            "The samples that were held out have too little weight to tell a noise: "
            f"noise_variance_ is {noise:.3g}. Set `noise_variance` to a number.",
            UserWarning,
        )
        return noise, None
    result, stopped, outputs = _hold_out(few, training.settings.n_draws)
    values = targets.values[result.held_out]
    found = calibrated_noise(outputs, values, weights, noise)
    return found, stopped


def held_out_temperature(
    training: NetworkTraining,
    codes: NDArray[np.intp],
    log_proba: Callable[[FloatArray], Tensor],
) -> tuple[float, FittedNetworks | None]:
    """Return the temperature of samples that a few networks have not learned from.

    The second result is as in `held_out_noise`. The codes (n,) are the classes of the
    samples of the training. `log_proba` returns logarithms (m, n_classes) of the mean
    probabilities of outputs (k, m, n_outputs).
    """
    few = training.of_few(FEW_DRAWS, is_bootstrap=training.settings.is_bootstrap)
    result, stopped, outputs = _hold_out(few, training.settings.n_draws)
    weights = few.samples.weights[result.held_out]
    told = log_proba(outputs), codes[result.held_out], weights
    return calibrated_temperature(*told), stopped


def _hold_out(
    few: NetworkTraining, n_draws: int
) -> tuple[TrainedNetworks, FittedNetworks | None, FloatArray]:
    """Train a few networks, before the training of `n_draws` of them.

    Returns what the training gives, the draws of `fit` if a callback stops it, and
    outputs (k, m, n_outputs) at the samples that were held out.
    """
    draws = {SEARCH_EPOCH: few.settings.n_draws, EPOCH: n_draws}
    progress_of(few.settings.verbose).expect(
        *(Stage(STAGES[task][0], n, "draws") for task, n in draws.items())
    )
    result = few.run(SEARCH_EPOCH)
    _warn_of_diverged(few, result.trained, SEARCH_EPOCH)
    stopped = None
    if result.trained.is_stopped:
        n, n_found = len(few.samples.rows), int(result.trained.is_finite.sum())
        asked = few.settings.inference
        is_other = asked != ENSEMBLE and not few.settings.is_bootstrap
        spread = f" They are an ensemble, of less spread than {asked!r}."
        warn_caller(
            f"A callback stopped `fit` in {STAGES[SEARCH_EPOCH][1]}: the draws are its "
            f"networks ({n_found}), which have learned {n - len(result.held_out)} of "
            f"{n} samples.{spread if is_other else ''}",
            UserWarning,
        )
        stopped = _fitted(few, result)
    return result, stopped, few.outputs(result, few.samples.rows[result.held_out])


def _warn_of_diverged(training: NetworkTraining, trained: Trained, task: str) -> None:
    """Warn of draws that diverged."""
    n_diverged, n = int((~trained.is_finite).sum()), len(trained.is_finite)
    if n_diverged:
        warn_caller(
            f"{n_diverged} of {n} draws diverged in {STAGES[task][1]} and are left "
            f"out: {training.remedy}.",
            ConvergenceWarning,
        )


def _judge_chains(trained: Trained) -> FloatArray | None:
    """Return how far chains agree, if there are chains; warn if they do not."""
    if trained.trace is None or trained.trace.shape[1] < LEAST_TRACE:
        return None
    rhat = split_rhat(to_numpy(trained.trace.double()))
    largest = float(np.max(rhat, initial=1.0, where=rhat >= 1.0))
    if largest > LARGEST_RHAT:
        warn_caller(
            "The chains disagree, or the halves of a chain: R-hat of a prediction is "
            f"{largest:.2f}, and should be below {LARGEST_RHAT}. Raise `burn_in` and "
            "`thin`; raise `learning_rate` if the chains move slowly, or lower it if "
            "they leave the range of the targets.",
            ConvergenceWarning,
        )
    return rhat
