"""Settings of Bayesian networks, checked before any work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, Self

import numpy as np
import torch

from skconvgp._settings import is_int, is_number
from skconvgp._typing import FloatArray
from skconvgp.completion import Nystrom, RandomFeatures
from skconvgp.estimators._resolve import (
    MOST_STEPS,
    is_auto,
    reject,
    require_kernel,
    resolve_count,
    resolve_dtype,
    resolve_flag,
    resolve_verbose,
    resolve_word,
)
from skconvgp.estimators._training import (
    A_MAKER,
    makes_modules,
    resolve_held_out,
    resolve_positive,
)
from skconvgp.estimators.compute._resources import find_device
from skconvgp.kernels import Kernel
from skconvgp.networks import ACTIVATIONS, Sampling, Schedule

WEIGHTS, MATCHED = "weights", "matched"
ENSEMBLE, BOOTSTRAP, SGHMC = "ensemble", "bootstrap", "sghmc"
EVIDENCE, AMPLITUDE = "evidence", "amplitude"
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

    hidden_sizes: tuple[int, ...]  # units of the hidden layers
    activation: str
    # Makes a module of torch, which replaces the layers.
    make_module: Callable[[], Any] | None
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
    # Further points of the prior of functions, as a share of the samples.
    extra_points: float
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
        n_rows = n + round(self.extra_points * n) if self.kernel is not None else n
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


def read_settings(owner: Any, *, calibrate: object = False) -> NetworkSettings:
    """Return the settings of an estimator; raise a ValueError for wrong ones.

    `calibrate` says whether held-out samples tell a temperature, or a noise; it may be
    "auto".
    """
    is_open = {
        CALIBRATE: is_auto(calibrate),
        BATCH_SIZE: is_auto(owner.batch_size),
        MAX_ITER: is_auto(owner.max_iter),
    }
    # Raises for a device that is not there.
    device = find_device(owner, is_fitted=False).device
    kernel, target = _prior(owner)
    schedule = _schedule(owner)
    if owner.network is not None and not makes_modules(owner.network):
        reject(owner, "network", f"None or {A_MAKER}", owner.network)
    return NetworkSettings(
        hidden_sizes=_hidden_sizes(owner),
        activation=resolve_word(owner, "activation", owner.activation, ACTIVATIONS),
        make_module=owner.network,
        kernel=kernel,
        target=target,
        is_bootstrap=_inference(owner) == BOOTSTRAP,
        learned=_learned(owner, kernel or target),
        n_draws=resolve_count(owner, "n_draws", owner.n_draws),
        weight_variance=resolve_positive(
            owner, "weight_variance", most=LARGEST_VARIANCE
        ),
        bias_variance=resolve_positive(
            owner, "bias_variance", allows_zero=True, most=LARGEST_VARIANCE
        ),
        extra_points=resolve_positive(owner, "extra_points", allows_zero=True),
        function_noise=resolve_positive(owner, "function_noise"),
        features=_features(owner),
        validation_fraction=resolve_held_out(owner),
        stops_early=resolve_flag(owner, "early_stopping", owner.early_stopping),
        calibrates=is_open[CALIBRATE] or _calibrates(owner, calibrate),
        schedule=schedule,
        sampling=_sampling(owner, schedule),
        dtype=resolve_dtype(owner, owner.dtype, device, backend="fused"),
        open_choices=frozenset(name for name, value in is_open.items() if value),
        verbose=resolve_verbose(owner, owner.verbose),
    )


def _prior(owner: Any) -> tuple[Kernel | None, Kernel | None]:
    """Return the prior of functions, and the kernel that weights are matched to."""
    word = owner.prior if isinstance(owner.prior, str) else ""
    if word == MATCHED:
        expected = "a kernel of skconvgp.kernels with prior='matched'"
        target = require_kernel(owner, "kernel", owner.kernel, expected)
        if owner.network is not None:
            expected = "None with prior='matched', which is for layers"
            reject(owner, "network", expected, owner.network)
        return None, target
    if owner.kernel is not None:
        expected = "None unless prior='matched'"
        reject(owner, "kernel", expected, owner.kernel)
    if word == WEIGHTS:
        return None, None
    expected = "'weights', 'matched' or a kernel of skconvgp.kernels"
    return require_kernel(owner, "prior", owner.prior, expected), None


def _inference(owner: Any) -> str:
    return resolve_word(owner, "inference", owner.inference, INFERENCES)


def _learned(owner: Any, kernel: Kernel | None) -> str:
    optimizer = owner.optimizer
    if optimizer is None:
        return ""
    words = EVIDENCE, AMPLITUDE
    if not (isinstance(optimizer, str) and optimizer in words):
        reject(owner, "optimizer", f"None, {AMPLITUDE!r} or {EVIDENCE!r}", optimizer)
    return "" if kernel is None else optimizer


def _features(owner: Any) -> object:
    given = owner.features
    if not (is_int(given, least=2) or isinstance(given, RandomFeatures | Nystrom)):
        reject(owner, "features", "an int >= 2, RandomFeatures or Nystrom", given)
    return given


def _hidden_sizes(owner: Any) -> tuple[int, ...]:
    given = owner.hidden_layer_sizes
    sizes = (given,) if isinstance(given, Integral) else given
    is_sizes = isinstance(sizes, tuple | list) and all(is_int(size) for size in sizes)
    if not is_sizes:
        reject(owner, "hidden_layer_sizes", "a tuple of ints >= 1", given)
    return tuple(int(size) for size in sizes)


def _calibrates(owner: Any, calibrate: object) -> bool:
    if not isinstance(calibrate, bool | np.bool_):
        reject(owner, CALIBRATE, "'auto', True or False", calibrate)
    return bool(calibrate)


def _schedule(owner: Any) -> Schedule:
    """Return the schedule; all samples at once where a choice is open."""
    batch_size, max_iter = owner.batch_size, owner.max_iter
    if is_auto(batch_size):
        batch_size = None
    elif batch_size is not None:
        batch_size = resolve_count(owner, BATCH_SIZE, batch_size, "'auto', None or ")
    if is_auto(max_iter):
        max_iter = STEPS_OF_ALL
    n_epochs = resolve_count(owner, MAX_ITER, max_iter, "'auto' or ")
    return Schedule(n_epochs, _rate(owner), batch_size)


def _rate(owner: Any) -> float:
    """Return the rate of Adam, or the size of the steps of chains."""
    rate = owner.learning_rate
    if is_auto(rate):
        return CHAIN_RATE if _inference(owner) == SGHMC else TRAINING_RATE
    if not is_number(rate):
        reject(owner, "learning_rate", "'auto' or a finite number > 0", rate)
    return float(rate)


def _sampling(owner: Any, schedule: Schedule) -> Sampling | None:
    n_chains = resolve_count(owner, "n_chains", owner.n_chains)
    burn_in = resolve_count(owner, "burn_in", owner.burn_in, most=MOST_STEPS)
    if not is_int(owner.thin, least=LEAST_TRACE):
        reject(owner, "thin", f"an int >= {LEAST_TRACE}", owner.thin)
    if _inference(owner) != SGHMC:
        return None
    if owner.early_stopping:
        expected = "False with inference='sghmc', whose chains have no best step"
        reject(owner, "early_stopping", expected, owner.early_stopping)
    return Sampling(
        n_chains,
        -(-int(owner.n_draws) // n_chains),
        burn_in,
        int(owner.thin),
        schedule.learning_rate,
        schedule.batch_size,
    )
