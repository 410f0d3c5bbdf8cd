"""How Bayesian networks are fitted: noise, training, attributes."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from skconvgp.engine import compute_at, to_numpy
from skconvgp.estimators._callbacks import FitTasks
from skconvgp.estimators._network_calibration import calibrated_noise
from skconvgp.estimators._network_prior import NetworkPrior
from skconvgp.estimators._network_report import NetworkReport
from skconvgp.estimators._network_samples import (
    NetworkSamples,
    NetworkTargets,
    NumberTargets,
)
from skconvgp.estimators._network_settings import LEAST_TRACE, NetworkSettings
from skconvgp.estimators._network_training import NetworkTraining, remedy
from skconvgp.estimators._warn import warn_caller
from skconvgp.metrics import split_rhat
from skconvgp.networks import Trained

__all__ = ["fit_networks", "held_out_noise"]

# R-hat of chains up to which their draws are used without a warning.
LARGEST_RHAT = 1.1
# Draws that find the noise: each has about the errors of all of them.
NOISE_DRAWS = 5


def fit_networks(
    estimator: Any,
    settings: NetworkSettings,
    samples: NetworkSamples,
    targets: NetworkTargets,
    prior: NetworkPrior,
    seed: int,
    tasks: FitTasks,
) -> NDArray[np.intp]:
    """Train all draws, set the fitted attributes, and return what was held out.

    Parameters
    ----------
    estimator : BayesianNetwork
        Gets the attributes.
    settings : NetworkSettings
        Its settings.
    samples : NetworkSamples
        The training samples.
    targets : NetworkTargets
        Their targets.
    prior : NetworkPrior
        The kernel and the noise.
    seed : int
        Seed of everything that is random.
    tasks : FitTasks
        Is told of each epoch.

    Returns
    -------
    held_out : ndarray of shape (m,)
        Indices of the samples that no draw has learned from.
    """
    start = time.perf_counter()
    work = NetworkTraining(estimator, settings, samples, targets, prior, seed)
    result, placement = work.run(tasks, "networks")
    trained, network = result.trained, work.network
    _warn_of_diverged(estimator, trained)
    _judge_chains(estimator, trained)
    estimator.draws_ = {name: to_numpy(values) for name, values in result.draws.items()}
    estimator._network = network
    estimator._mean_squares = samples.mean_squares
    estimator.kernel_ = prior.kernel
    estimator.loss_curve_ = np.array(trained.losses)
    estimator.n_iter_ = len(trained.losses)
    estimator.device_ = str(placement.device)
    estimator.fit_report_ = NetworkReport(
        n_samples=len(samples.rows),
        n_points=work.n_points,
        n_parameters=sum(map(math.prod, network.shapes.values())),
        n_diverged=int((~trained.is_finite).sum()),
        is_stopped=trained.is_stopped,
        train_seconds=time.perf_counter() - start,
        distance=prior.distance,
        device=estimator.device_,
        device_reason=placement.reason,
    )
    return result.held_out


def held_out_noise(
    estimator: Any,
    settings: NetworkSettings,
    samples: NetworkSamples,
    targets: NumberTargets,
    prior: NetworkPrior,
    noise: float,
    seed: int,
    tasks: FitTasks,
) -> float:
    """Return the noise of samples that a few networks have not learned from.

    Parameters
    ----------
    estimator, settings, samples, targets, prior, seed, tasks : object
        As in :func:`fit_networks`.
    noise : float
        Variance of the noise that these networks are trained with.
    """
    few = replace(
        settings,
        n_draws=min(settings.n_draws, NOISE_DRAWS),
        is_bootstrap=False,
        stops_early=False,
        sampling=None,
    )
    work = NetworkTraining(estimator, few, samples, targets, prior, seed)
    result, placement = work.run(tasks, "noise")
    outputs = compute_at(placement, lambda at: work.held_out_outputs(result, at))
    indices = result.held_out
    return calibrated_noise(
        outputs, targets.values[indices], samples.weights[indices], noise
    )


def _warn_of_diverged(estimator: Any, trained: Trained) -> None:
    """Warn of draws that diverged."""
    n_diverged, n = int((~trained.is_finite).sum()), len(trained.is_finite)
    if n_diverged:
        warn_caller(
            f"{n_diverged} of {n} draws diverged in training and are left out: "
            f"{remedy(estimator)}.",
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
            f"The chains disagree: R-hat of a prediction is {largest:.2f}, and should "
            f"be below {LARGEST_RHAT}. Raise `burn_in` and `thin`; raise "
            "`learning_rate` if the chains move slowly, or lower it if they leave the "
            "range of the targets.",
            ConvergenceWarning,
        )
