"""Settings of Bayesian networks, checked before any work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral
from typing import Any, Final, Self

import numpy as np
import torch

from skconvgp._settings import is_int
from skconvgp._typing import FloatArray
from skconvgp.completion import Nystrom, RandomFeatures
from skconvgp.engine import host_values
from skconvgp.estimators._training import (
    A_MAKER,
    as_held_out,
    as_training_rate,
    makes_modules,
)
from skconvgp.estimators.settings._checks import (
    MOST_STEPS,
    Given,
    UnfitError,
    as_count,
    as_flag,
    as_kernel,
    as_positive,
    is_auto,
    word_of,
)
from skconvgp.estimators.settings._compute import Compute
from skconvgp.kernels import Kernel
from skconvgp.networks import ACTIVATIONS, Sampling, Schedule

WEIGHTS, MATCHED = "weights", "matched"
ENSEMBLE, BOOTSTRAP, SGHMC = "ensemble", "bootstrap", "sghmc"
EVIDENCE: Final = "evidence"
AMPLITUDE = "amplitude"
BATCH_SIZE, MAX_ITER, CALIBRATE = "batch_size", "max_iter", "calibrate"
# Values of a chain, traced up to one a step, which are compared in halves.
LEAST_TRACE = 4
INFERENCES = (ENSEMBLE, BOOTSTRAP, SGHMC)
# Batches by default: a share of the samples, between two sizes. Kernels as prior, and
# chains, read all samples in each step while there are few enough.
BATCHES_OF_EPOCH, LEAST_BATCH, MOST_BATCH = 50, 64, 128
MOST_AT_ONCE, KERNEL_BATCH = 5000, 512
# By default the rate of Adam, and the size of the steps of chains.
TRAINING_RATE, CHAIN_RATE = 3e-2, 1e-2
# Epochs by default: some steps, or of small batches as many as fit the number of
# samples, and epochs at least.
STEPS_OF_ALL, LEAST_EPOCHS = 1500, 60
STEPS_OF_A_SAMPLE, LEAST_STEPS, USUAL_STEPS = 7, 1000, 3000
# Fewer held-out samples than that say too little of probabilities, and of a noise.
LEAST_FOR_LABELS, LEAST_FOR_NOISE = 20, 50
LARGEST_VARIANCE = 1e30  # outputs are then still numbers in single precision


@dataclass(frozen=True)
class NetworkSettings:
    """Checked settings of Bayesian networks."""

    given: Compute  # the settings as they were given
    hidden_sizes: tuple[int, ...]  # units of the hidden layers
    activation: str
    kernel: Kernel | None  # prior of functions; None is the prior of weights
    target: Kernel | None  # kernel that a prior of weights is matched to
    # Whether each draw has random targets, and a random mean of the prior.
    is_bootstrap: bool
    # "" if nothing is learned of the kernel, "amplitude" for its mean variance, or
    # "evidence" for its hyperparameters as well.
    learned: str
    n_draws: int
    weight_variance: float  # prior variance of weights
    bias_variance: float  # prior variance of biases
    # Further points of the prior of functions, as a share of the samples; or how many
    # are given.
    extra_points: float
    n_given_points: int | None
    # Variance that is added to the prior of functions, as a share of its mean.
    function_noise: float
    # How the prior of functions becomes features, for steps on some of the samples.
    features: object
    validation_fraction: float  # share of the samples that may be held out
    stops_early: bool  # whether held-out samples decide when to stop
    calibrates: bool  # whether held-out samples tell a temperature, or a noise
    schedule: Schedule  # epochs, rate and batches
    sampling: Sampling | None  # Markov chains; None for training
    dtype: torch.dtype  # precision of the training
    # Names of settings that wait for the number of samples.
    open_choices: frozenset[str]
    verbose: int

    @property
    def make_module(self) -> Callable[[], Any] | None:
        """Function that makes a module of torch, which replaces the layers."""
        return self.given["network"]  # type: ignore[no-any-return]

    @property
    def inference(self) -> str:
        """How draws are made."""
        return str(self.given["inference"])

    @property
    def reads_features(self) -> bool:
        """Whether the prior of functions is one of features."""
        return self.kernel is not None and self.schedule.batch_size is not None

    @property
    def draws_features(self) -> bool:
        """Whether these features are random, and not made from landmarks."""
        return self.reads_features and not isinstance(self.features, Nystrom)

    @property
    def has_usual_prior(self) -> bool:
        """Whether weights have the variances that are set, and no kernel is learned."""
        return self.kernel is None and self.target is None

    @property
    def held_out_share(self) -> float:
        """Share of the samples that are held out."""
        is_needed = self.stops_early or self.calibrates
        return self.validation_fraction if is_needed else 0.0

    def for_samples(self, weights: FloatArray, least_held_out: int) -> Self:
        """Return the settings with those that depend on the number of samples.

        The samples have weights (n,). `least_held_out` is the number of held-out
        samples that calibrate, if this is "auto".
        """
        n, calibrates = len(weights), self.calibrates
        if CALIBRATE in self.open_choices:
            n_told = self.validation_fraction * effective_number(weights)
            leaves_some = round(self.validation_fraction * n) < n
            calibrates = leaves_some and n_told >= least_held_out
        schedule, sampling = self.schedule, self.sampling
        n_rows = n + self.n_extra(n)
        if BATCH_SIZE in self.open_choices:
            schedule = replace(schedule, batch_size=self._batch_size(n_rows))
        if sampling is not None:
            sampling = replace(sampling, batch_size=schedule.batch_size)
        if MAX_ITER in self.open_choices:
            schedule = replace(schedule, max_iter=_epochs(schedule.batch_size, n_rows))
        return replace(
            self,
            calibrates=calibrates,
            schedule=schedule,
            sampling=sampling,
            open_choices=frozenset(),
        )

    def n_extra(self, n: int) -> int:
        """Return the number of further points of a prior of functions."""
        if self.kernel is None:
            return 0
        given = self.n_given_points
        return round(self.extra_points * n) if given is None else given

    def _batch_size(self, n_rows: int) -> int | None:
        """Return the usual size of batches; None for all samples in each step."""
        if self.kernel is not None or self.sampling is not None:
            return None if n_rows <= MOST_AT_ONCE else KERNEL_BATCH
        return min(max(n_rows // BATCHES_OF_EPOCH, LEAST_BATCH), MOST_BATCH)


def _epochs(batch_size: int | None, n_rows: int) -> int:
    """Return the usual number of epochs."""
    if batch_size is None or batch_size >= n_rows:
        return STEPS_OF_ALL
    n_batches = -(-n_rows // batch_size)
    n_steps = min(max(STEPS_OF_A_SAMPLE * n_rows, LEAST_STEPS), USUAL_STEPS)
    return max(-(-n_steps // n_batches), LEAST_EPOCHS)


def effective_number(weights: FloatArray) -> float:
    """Return the effective sample size of weights (n,), by Kish's formula."""
    if not len(weights):
        return 0.0
    shares = weights / weights.max()
    return float(shares.sum() ** 2 / np.square(shares).sum())


def read_settings(given: Compute, *, calibrate: object = False) -> NetworkSettings:
    """Return the settings of an estimator; raise a ValueError for wrong ones.

    `calibrate` says whether held-out samples tell a temperature, or a noise; it may be
    "auto".
    """
    is_open = {
        CALIBRATE: is_auto(calibrate),
        BATCH_SIZE: is_auto(given[BATCH_SIZE]),
        MAX_ITER: is_auto(given[MAX_ITER]),
    }
    # Raises for a device that is not there.
    device = given.placement().device
    kernel, target = _prior(given)
    schedule = _schedule(given)
    if given["network"] is not None and not makes_modules(given["network"]):
        given.reject("network", f"None or {A_MAKER}")
    as_variance = partial(as_positive, most=LARGEST_VARIANCE)
    return NetworkSettings(
        given=given,
        hidden_sizes=given.read("hidden_layer_sizes", _as_sizes),
        activation=given.read("activation", word_of(ACTIVATIONS)),
        kernel=kernel,
        target=target,
        is_bootstrap=_inference(given) == BOOTSTRAP,
        learned=_learned(given, kernel or target),
        n_draws=given.read("n_draws", as_count),
        weight_variance=given.read("weight_variance", as_variance),
        bias_variance=given.read("bias_variance", as_variance, allows_zero=True),
        extra_points=given.read("extra_points", _as_share),
        n_given_points=_n_given_points(given, has_kernel=bool(kernel or target)),
        function_noise=given.read("function_noise", as_positive),
        features=_features(given),
        validation_fraction=given.read("validation_fraction", as_held_out),
        stops_early=given.read("early_stopping", as_flag),
        calibrates=is_open[CALIBRATE] or _calibrates(given, calibrate),
        schedule=schedule,
        sampling=_sampling(given, schedule),
        dtype=given.dtype(device, "fused"),
        open_choices=frozenset(name for name, value in is_open.items() if value),
        verbose=given.verbose,
    )


def _prior(given: Given) -> tuple[Kernel | None, Kernel | None]:
    """Return the prior of functions, and the kernel that weights are matched to."""
    prior = given["prior"]
    if isinstance(prior, str) and prior == MATCHED:
        expected = "a kernel of skconvgp.kernels with prior='matched'"
        target = given.read("kernel", as_kernel, expected=expected)
        if given["network"] is not None:
            given.reject("network", "None with prior='matched', which is for layers")
        return None, target
    if given["kernel"] is not None:
        given.reject("kernel", "None unless prior='matched'")
    if isinstance(prior, str) and prior == WEIGHTS:
        return None, None
    expected = "'weights', 'matched' or a kernel of skconvgp.kernels"
    return given.read("prior", as_kernel, expected=expected), None


def _as_share(value: object) -> float:
    """Return further points as a share of the samples; 0 if they are given."""
    if not isinstance(value, str) and np.ndim(host_values(value, "extra_points")):
        return 0.0
    try:
        return as_positive(value, allows_zero=True)
    except UnfitError as unfit:
        raise UnfitError(f"{unfit}, or an array of images or vectors") from None


def _n_given_points(given: Given, *, has_kernel: bool) -> int | None:
    """Return how many further points are given, if they are."""
    points = host_values(given["extra_points"], "extra_points")
    if isinstance(points, str) or not np.ndim(points):
        return None
    if not has_kernel:
        raise ValueError(
            "`extra_points` are inputs at which a kernel is the prior, and "
            "prior='weights' has none: use a kernel as `prior`, or prior='matched', or "
            "leave `extra_points` out."
        )
    return len(points)


def _inference(given: Given) -> str:
    return given.read("inference", word_of(INFERENCES))


def _learned(given: Given, kernel: Kernel | None) -> str:
    optimizer = given["optimizer"]
    if optimizer is None:
        return ""
    words = EVIDENCE, AMPLITUDE
    if not (isinstance(optimizer, str) and optimizer in words):
        given.reject("optimizer", f"None, {AMPLITUDE!r} or {EVIDENCE!r}")
    return "" if kernel is None else optimizer


def _features(given: Given) -> object:
    features = given["features"]
    is_part = isinstance(features, RandomFeatures | Nystrom)
    if not (is_part or is_int(features, least=2)):
        given.reject("features", "an int >= 2, RandomFeatures or Nystrom")
    return features


def _as_sizes(value: object) -> tuple[int, ...]:
    """Return the numbers of units of hidden layers."""
    sizes = (value,) if isinstance(value, Integral) else value
    if isinstance(sizes, tuple | list) and all(is_int(size) for size in sizes):
        return tuple(int(size) for size in sizes)
    raise UnfitError("a tuple of ints >= 1")


def _calibrates(given: Given, calibrate: object) -> bool:
    if not isinstance(calibrate, bool | np.bool_):
        given.reject(CALIBRATE, "'auto', True or False")
    return bool(calibrate)


def _schedule(given: Given) -> Schedule:
    """Return the schedule; all samples at once where a choice is open."""
    batch_size, n_epochs = None, STEPS_OF_ALL
    if not (is_auto(given[BATCH_SIZE]) or given[BATCH_SIZE] is None):
        batch_size = given.read(BATCH_SIZE, as_count, also="'auto', None or ")
    if not is_auto(given[MAX_ITER]):
        n_epochs = given.read(MAX_ITER, as_count, also="'auto' or ")
    return Schedule(n_epochs, _rate(given), batch_size)


def _rate(given: Given) -> float:
    """Return the rate of Adam, or the size of the steps of chains."""
    usual = CHAIN_RATE if _inference(given) == SGHMC else TRAINING_RATE
    return given.read("learning_rate", as_training_rate, usual=usual)


def _sampling(given: Given, schedule: Schedule) -> Sampling | None:
    n_chains = given.read("n_chains", as_count)
    burn_in = given.read("burn_in", as_count, most=MOST_STEPS)
    thin = given.read("thin", as_count, least=LEAST_TRACE)
    if _inference(given) != SGHMC:
        return None
    if given["early_stopping"]:
        expected = "False with inference='sghmc', whose chains have no best step"
        given.reject("early_stopping", expected)
    return Sampling(
        n_chains,
        -(-int(given["n_draws"]) // n_chains),
        burn_in,
        thin,
        schedule.learning_rate,
        schedule.batch_size,
    )
