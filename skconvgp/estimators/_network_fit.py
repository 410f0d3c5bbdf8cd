"""How Bayesian networks are fitted: held-out samples, training, attributes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from skconvgp._typing import FloatArray
from skconvgp.engine import to_numpy
from skconvgp.estimators._callbacks import FitTasks
from skconvgp.estimators._network_calibration import (
    calibrated_noise,
    calibrated_temperature,
)
from skconvgp.estimators._network_report import NetworkReport
from skconvgp.estimators._network_samples import NumberTargets
from skconvgp.estimators._network_settings import (
    ENSEMBLE,
    LEAST_FOR_NOISE,
    LEAST_TRACE,
    effective_number,
)
from skconvgp.estimators._network_training import (
    SEARCH_EPOCH,
    STAGES,
    NetworkTraining,
    TrainedNetworks,
)
from skconvgp.estimators._training import EPOCH
from skconvgp.estimators._warn import warn_caller
from skconvgp.metrics import split_rhat
from skconvgp.networks import Trained

# R-hat of chains up to which their draws are used without a warning.
LARGEST_RHAT = 1.1
# Draws of a search on held-out samples: they have about the errors of all draws.
FEW_DRAWS = 5


def fit_networks(
    training: NetworkTraining, tasks: FitTasks, begun: float
) -> NDArray[np.intp]:
    """Train all draws, set the fitted attributes, and return the held-out samples.

    The result is the indices (m,) of the samples that no draw has learned from. The
    estimator of the training gets the attributes. The tasks are told of each epoch.
    `begun` is when the work began, by :func:`time.perf_counter`.
    """
    result = training.run(tasks, EPOCH)
    _warn_of_diverged(training, result.trained, EPOCH)
    _keep(training, result, begun)
    return result.held_out


def _keep(training: NetworkTraining, result: TrainedNetworks, begun: float) -> None:
    """Set the fitted attributes."""
    estimator, trained = training.estimator, result.trained
    n_held_out = len(result.held_out)
    network, prior = training.network, training.prior
    _judge_chains(estimator, trained)
    estimator.draws_ = result.draws
    estimator._network = network
    estimator._mean_squares = training.samples.mean_squares
    estimator.kernel_ = prior.kernel
    estimator.loss_curve_ = np.array(trained.losses)
    estimator.n_iter_ = len(trained.losses)
    estimator.device_ = str(result.placement.device)
    estimator.fit_report_ = NetworkReport(
        n_samples=len(training.samples.rows) - n_held_out,
        n_points=training.n_points - n_held_out,
        n_parameters=sum(map(math.prod, network.shapes.values())),
        n_diverged=int((~trained.is_finite).sum()),
        is_stopped=trained.is_stopped,
        train_seconds=time.perf_counter() - begun,
        distance=prior.distance,
        device=estimator.device_,
        device_reason=result.placement.reason,
    )


def held_out_noise(
    training: NetworkTraining,
    targets: NumberTargets,
    noise: float,
    tasks: FitTasks,
    begun: float,
) -> tuple[float, bool]:
    """Return the noise of samples that a few networks have not learned from.

    The second result is whether a callback has stopped `fit`: the few networks are its
    draws then. They are trained with the variance `noise`, which is returned, with a
    warning, if the held-out samples have too little weight. `tasks` and `begun` are as
    in `fit_networks`.
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
        return noise, False
    result, outputs = _hold_out(few, tasks, begun)
    values = targets.values[result.held_out]
    found = calibrated_noise(outputs, values, weights, noise)
    return found, result.trained.is_stopped


def held_out_temperature(
    training: NetworkTraining,
    codes: NDArray[np.intp],
    log_proba: Callable[[FloatArray], Tensor],
    tasks: FitTasks,
    begun: float,
) -> tuple[float, bool]:
    """Return the temperature of samples that a few networks have not learned from.

    The second result is as in `held_out_noise`. The codes (n,) are the classes of the
    samples of the training. `log_proba` returns logarithms (m, n_classes) of the mean
    probabilities of outputs (k, m, n_outputs).
    """
    few = training.of_few(FEW_DRAWS, is_bootstrap=training.settings.is_bootstrap)
    result, outputs = _hold_out(few, tasks, begun)
    weights = few.samples.weights[result.held_out]
    told = log_proba(outputs), codes[result.held_out], weights
    return calibrated_temperature(*told), result.trained.is_stopped


def _hold_out(
    few: NetworkTraining, tasks: FitTasks, begun: float
) -> tuple[TrainedNetworks, FloatArray]:
    """Train a few networks, and set the fitted attributes if a callback stops them.

    Returns what the training gives, and outputs (k, m, n_outputs) at the samples that
    were held out.
    """
    result = few.run(tasks, SEARCH_EPOCH)
    _warn_of_diverged(few, result.trained, SEARCH_EPOCH)
    if result.trained.is_stopped:
        n, n_found = len(few.samples.rows), int(result.trained.is_finite.sum())
        asked = few.estimator.inference
        is_other = asked != ENSEMBLE and not few.settings.is_bootstrap
        spread = f" They are an ensemble, of less spread than {asked!r}."
        warn_caller(
            f"A callback stopped `fit` in {STAGES[SEARCH_EPOCH][1]}: the draws are its "
            f"networks ({n_found}), which have learned {n - len(result.held_out)} of "
            f"{n} samples.{spread if is_other else ''}",
            UserWarning,
        )
        _keep(few, result, begun)
    return result, few.outputs(result, few.samples.rows[result.held_out])


def _warn_of_diverged(training: NetworkTraining, trained: Trained, task: str) -> None:
    """Warn of draws that diverged."""
    n_diverged, n = int((~trained.is_finite).sum()), len(trained.is_finite)
    if n_diverged:
        warn_caller(
            f"{n_diverged} of {n} draws diverged in {STAGES[task][1]} and are left "
            f"out: {training.remedy}.",
            ConvergenceWarning,
        )


def _judge_chains(estimator: Any, trained: Trained) -> None:
    """Set how far chains agree, if there are chains; warn if they do not."""
    estimator.__dict__.pop("rhat_", None)  # of another fit
    if trained.trace is None or trained.trace.shape[1] < LEAST_TRACE:
        return
    estimator.rhat_ = split_rhat(to_numpy(trained.trace.double()))
    largest = float(np.max(estimator.rhat_, initial=1.0, where=estimator.rhat_ >= 1.0))
    if largest > LARGEST_RHAT:
        warn_caller(
            "The chains disagree, or the halves of a chain: R-hat of a prediction is "
            f"{largest:.2f}, and should be below {LARGEST_RHAT}. Raise `burn_in` and "
            "`thin`; raise `learning_rate` if the chains move slowly, or lower it if "
            "they leave the range of the targets.",
            ConvergenceWarning,
        )
