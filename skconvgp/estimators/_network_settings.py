"""Settings of Bayesian networks, checked before any work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from skconvgp._settings import is_int
from skconvgp.completion import Nystrom, RandomFeatures
from skconvgp.estimators._resolve import (
    reject,
    require_kernel,
    resolve_count,
    resolve_verbose,
    resolve_word,
)
from skconvgp.estimators._training import (
    A_MAKER,
    makes_modules,
    resolve_positive,
    resolve_validation,
)
from skconvgp.estimators.compute._resources import find_device
from skconvgp.kernels import Kernel
from skconvgp.networks import ACTIVATIONS, Sampling, Schedule

__all__ = ["EVIDENCE", "LEAST_TRACE", "NetworkSettings", "read_settings"]

WEIGHTS, MATCHED = "weights", "matched"
BOOTSTRAP, SGHMC = "bootstrap", "sghmc"
EVIDENCE, AMPLITUDE = "evidence", "amplitude"
# Values of a chain, traced up to one a step, which are compared in halves.
LEAST_TRACE = 4
INFERENCES = ("ensemble", BOOTSTRAP, SGHMC)


@dataclass(frozen=True)
class NetworkSettings:
    """Checked settings.

    Parameters
    ----------
    hidden_sizes : tuple of int
        Units of the hidden layers.
    activation : str
        Name of the activation.
    make_module : callable or None
        Makes a module of torch, which replaces the layers.
    kernel : Kernel or None
        Prior of functions; None is the prior of weights.
    target : Kernel or None
        Kernel that a prior of weights is matched to.
    is_bootstrap : bool
        Whether each draw has random targets, and a random mean of the prior.
    learned : "", "amplitude" or "evidence"
        What is learned of the kernel: nothing, its mean variance, or also its
        hyperparameters.
    n_draws : int
        Number of draws.
    weight_variance, bias_variance : float
        Prior variances.
    extra_points : float
        Further points of the prior of functions, as a share of the samples.
    function_noise : float
        Variance that is added to the prior of functions, as a share of its mean.
    features : object
        How the prior of functions becomes features, for steps on some of the samples.
    validation_fraction : float
        Share of the samples that decide when to stop; 0 for no early stopping.
    schedule : Schedule
        Epochs, rate and batches.
    sampling : Sampling or None
        Markov chains; None for training.
    verbose : int
        How much progress is shown.
    """

    hidden_sizes: tuple[int, ...]
    activation: str
    make_module: Callable[[], Any] | None
    kernel: Kernel | None
    target: Kernel | None
    is_bootstrap: bool
    learned: str
    n_draws: int
    weight_variance: float
    bias_variance: float
    extra_points: float
    function_noise: float
    features: object
    validation_fraction: float
    schedule: Schedule
    sampling: Sampling | None
    verbose: int

    @property
    def reads_features(self) -> bool:
        """Whether the prior of functions is one of features."""
        return self.kernel is not None and self.schedule.batch_size is not None

    @property
    def draws_features(self) -> bool:
        """Whether these features are random, and not those of landmarks."""
        return self.reads_features and not isinstance(self.features, Nystrom)


def read_settings(owner: Any) -> NetworkSettings:
    """Return the settings of an estimator; raise a ValueError for wrong ones."""
    find_device(owner, is_fitted=False)  # raises for one that is not there
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
        weight_variance=resolve_positive(owner, "weight_variance"),
        bias_variance=resolve_positive(owner, "bias_variance", allows_zero=True),
        extra_points=resolve_positive(owner, "extra_points", allows_zero=True),
        function_noise=resolve_positive(owner, "function_noise"),
        features=_features(owner),
        validation_fraction=resolve_validation(owner),
        schedule=schedule,
        sampling=_sampling(owner, schedule),
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


def _schedule(owner: Any) -> Schedule:
    batch_size = owner.batch_size
    if batch_size is not None:
        batch_size = resolve_count(owner, "batch_size", batch_size)
    return Schedule(
        resolve_count(owner, "max_iter", owner.max_iter),
        resolve_positive(owner, "learning_rate"),
        batch_size,
    )


def _sampling(owner: Any, schedule: Schedule) -> Sampling | None:
    n_chains = resolve_count(owner, "n_chains", owner.n_chains)
    burn_in = resolve_count(owner, "burn_in", owner.burn_in)
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
