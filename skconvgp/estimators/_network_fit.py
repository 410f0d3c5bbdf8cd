"""How Bayesian networks are fitted: prior, potential, training, attributes."""

from __future__ import annotations

import math
import time
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from torch import Generator, Tensor

from skconvgp._typing import FloatArray, ImageShape
from skconvgp.engine import Placement, compute_at, to_numpy, to_tensor
from skconvgp.estimators._callbacks import FitTasks
from skconvgp.estimators._kernel_features import KernelFeatures
from skconvgp.estimators._network_memory import require_room, training_bytes
from skconvgp.estimators._network_prior import NetworkPrior
from skconvgp.estimators._network_report import NetworkReport
from skconvgp.estimators._network_samples import NetworkSamples, NetworkTargets
from skconvgp.estimators._network_settings import LEAST_TRACE, NetworkSettings
from skconvgp.estimators._training import (
    EPOCH,
    hold_out,
    images_or_rows,
    made_module,
    require_outputs,
)
from skconvgp.estimators._warn import warn_caller
from skconvgp.estimators.compute._progress import ProgressLine
from skconvgp.estimators.compute._resources import find_device
from skconvgp.estimators.functions._gram import gram_diag, gram_matrix
from skconvgp.kernels import Kernel
from skconvgp.linalg import shifted_cholesky_
from skconvgp.metrics import split_rhat
from skconvgp.networks import (
    BatchedNetwork,
    Epoch,
    FunctionPrior,
    GaussianData,
    LayeredNetwork,
    ModuleNetwork,
    Parameters,
    Potential,
    PriorTerm,
    Trained,
    Validation,
    WeightPrior,
    feature_prior,
    initial_parameters,
    module_network,
    sample_chains,
    sample_functions,
    seeded,
    train,
)

__all__ = ["fit_networks", "inputs_of"]

# R-hat of chains up to which their draws are used without a warning.
LARGEST_RHAT = 1.1


def fit_networks(
    estimator: Any,
    settings: NetworkSettings,
    samples: NetworkSamples,
    targets: NetworkTargets,
    prior: NetworkPrior,
    seed: int,
) -> None:
    """Train all draws, and set the fitted attributes.

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
    """
    network = _make_network(estimator, settings, samples, targets, prior, seed)
    work = _Work(settings, samples, targets, network, prior.kernel, seed)
    n_points = len(samples.rows) + work.n_extra
    sizes = n_points, targets.n_outputs
    needed = training_bytes(settings, network, *sizes)
    placement = find_device(estimator, needed, is_fitted=False)
    start = time.perf_counter()
    tasks = FitTasks(estimator)
    verbose = 0 if tasks.is_watched else settings.verbose
    unit = "epochs" if settings.sampling is None else "steps"
    progress = ProgressLine("networks", verbose, unit)

    def watch(epoch: Epoch) -> bool:
        progress(epoch.index + 1, epoch.total)
        return tasks.step(EPOCH)

    def run(placement: Placement) -> tuple[Trained, Parameters, Placement]:
        require_room(settings, network, *sizes, placement.device)
        # A fresh generator, for the case that another device begins again.
        generator = torch.Generator().manual_seed(seed)
        return *work.train(placement.device, generator, watch), placement

    trained, draws, placement = compute_at(placement, run)
    _require_finite(estimator, trained)
    tasks.end()
    _judge_chains(estimator, trained)
    estimator.draws_ = {name: to_numpy(values) for name, values in draws.items()}
    estimator._network = network
    estimator._mean_squares = samples.mean_squares
    estimator.kernel_ = prior.kernel
    estimator.loss_curve_ = np.array(trained.losses)
    estimator.n_iter_ = len(trained.losses)
    estimator.device_ = str(placement.device)
    estimator.fit_report_ = NetworkReport(
        n_samples=len(samples.rows),
        n_points=n_points,
        n_parameters=sum(map(math.prod, network.shapes.values())),
        n_diverged=int((~trained.is_finite).sum()),
        is_stopped=trained.is_stopped,
        train_seconds=time.perf_counter() - start,
        distance=prior.distance,
        device=estimator.device_,
        device_reason=placement.reason,
    )


def inputs_of(
    network: BatchedNetwork, rows: NDArray[Any], shape: ImageShape, device: torch.device
) -> Tensor:
    """Return samples as a network reads them: images for a module, otherwise rows."""
    is_image = isinstance(network, ModuleNetwork) and max(shape[1:]) > 1
    inputs = images_or_rows(np.asarray(rows, np.float64), shape, is_image=is_image)
    return inputs.to(device)


class _Work:
    """Everything that a training reads, on the host."""

    def __init__(
        self,
        settings: NetworkSettings,
        samples: NetworkSamples,
        targets: NetworkTargets,
        network: BatchedNetwork,
        kernel: Kernel | None,
        seed: int,
    ) -> None:
        self._settings, self._samples, self._targets = settings, samples, targets
        self._network, self._kernel, self._seed = network, kernel, seed % 2**32
        has_extra = settings.kernel is not None
        share = settings.extra_points if has_extra else 0.0
        self.n_extra = round(share * len(samples.rows))

    def train(
        self, device: torch.device, generator: Generator, watch: Any
    ) -> tuple[Trained, Parameters]:
        """Return the result of the training, and the draws that are finite."""
        settings, network, targets = self._settings, self._network, self._targets
        learned, held_out = hold_out(
            len(self._samples.rows), settings.validation_fraction, generator
        )
        rows = np.concatenate([self._samples.rows[learned], self._extra(generator)])
        inputs = inputs_of(network, rows, self._samples.image_shape, device)
        chains = settings.sampling
        n_begun = settings.n_draws if chains is None else chains.n_chains
        start = initial_parameters(network, n_begun, generator, inputs)
        data = targets.term(learned, inputs)
        if settings.is_bootstrap and isinstance(data, GaussianData):
            data = data.perturbed(settings.n_draws, generator)
        prior = self._prior(rows, start, generator)
        potential = Potential(network, inputs, len(learned), data, prior)
        validation = None
        if len(held_out):
            apart = inputs_of(
                network, self._samples.rows[held_out], self._samples.image_shape, device
            )
            validation = Validation(network, apart, targets.term(held_out, inputs))
        schedule, sampling = settings.schedule, settings.sampling
        n_rows = schedule.batch_size or len(rows)
        renew = partial(potential.renew, n_rows=n_rows)
        trained = (
            sample_chains(potential, start, sampling, generator, watch)
            if sampling is not None
            else train(potential, start, schedule, generator, watch, validation, renew)
        )
        kept = trained.is_finite
        draws = {name: values[kept] for name, values in trained.parameters.items()}
        return trained, draws

    def _extra(self, generator: Generator) -> FloatArray:
        """Return further inputs (m, d): uniform in the box of X, or Gaussian images."""
        rows = np.asarray(self._samples.rows, dtype=np.float64)
        size = (self.n_extra, rows.shape[1])
        if max(self._samples.image_shape[1:]) > 1:
            normal = torch.randn(*size, generator=generator, dtype=torch.float64)
            gaussian: FloatArray = rows.mean(0) + rows.std(0) * to_numpy(normal)
            return gaussian
        uniform = torch.rand(*size, generator=generator, dtype=torch.float64)
        low, high = rows.min(0), rows.max(0)
        inside: FloatArray = low + (high - low) * to_numpy(uniform)
        return inside

    def _prior(
        self, rows: NDArray[Any], start: Parameters, generator: Generator
    ) -> PriorTerm:
        """Return the term of the prior, with random means for "bootstrap"."""
        settings, is_bootstrap = self._settings, self._settings.is_bootstrap
        if settings.kernel is None or self._kernel is None:
            return WeightPrior(start if is_bootstrap else None)
        like = next(iter(start.values()))
        device, n_outputs = like.device, self._targets.n_outputs
        if settings.reads_features:
            return feature_prior(
                to_tensor(self._features(rows, self._kernel, device), device),
                settings.function_noise * self._mean_variance(rows, self._kernel),
                n_outputs,
                n_draws=settings.n_draws if is_bootstrap else 0,
                generator=generator,
            )
        gram = gram_matrix(
            self._kernel,
            rows,
            image_shape=self._samples.image_shape,
            device=str(device),
            dtype="float64",
            verbose=settings.verbose,
        )
        covariance = to_tensor(gram, device)
        noise = settings.function_noise * covariance.diagonal().mean()
        factor, _ = shifted_cholesky_(covariance, noise.expand(len(covariance)))
        if not is_bootstrap:
            return FunctionPrior(factor, factor.new_zeros(1, 1, n_outputs))
        draws = sample_functions(factor, settings.n_draws, n_outputs, generator)
        return FunctionPrior(factor, draws)

    def _features(
        self, rows: NDArray[Any], kernel: Kernel, device: torch.device
    ) -> FloatArray:
        """Return features (m, r) of inputs, whose products approximate a kernel."""
        phi = KernelFeatures(
            kernel,
            self._settings.features,
            image_shape=self._samples.image_shape,
            device=str(device),
            dtype="float64",
            random_state=self._seed,
        )
        inputs = np.asarray(rows, dtype=np.float64)
        features: FloatArray = phi.fit(inputs).transform(inputs)
        return features

    def _mean_variance(self, rows: NDArray[Any], kernel: Kernel) -> float:
        """Return the mean variance of the prior."""
        shape = self._samples.image_shape
        return float(np.mean(gram_diag(kernel, rows, image_shape=shape)))


def _make_network(
    estimator: Any,
    settings: NetworkSettings,
    samples: NetworkSamples,
    targets: NetworkTargets,
    prior: NetworkPrior,
    seed: int,
) -> BatchedNetwork:
    n_inputs, n_outputs = samples.rows.shape[1], targets.n_outputs
    if settings.make_module is None:
        sizes = (n_inputs, *settings.hidden_sizes, n_outputs)
        return LayeredNetwork(sizes, settings.activation, prior.variances)
    make = partial(seeded, settings.make_module, seed)
    module = made_module(estimator, "network", make)
    module = module.to(torch.float64).eval()
    rows, shape = np.asarray(samples.rows[:2], np.float64), samples.image_shape
    inputs = images_or_rows(rows, shape, is_image=max(shape[1:]) > 1)
    require_outputs(estimator, "network", module, inputs, n_outputs, "output or class")
    variances = settings.weight_variance, settings.bias_variance
    return module_network(module, inputs[:1], *variances)


def _require_finite(estimator: Any, trained: Trained) -> None:
    """Warn of draws that diverged; raise if all did."""
    n_diverged, n = int((~trained.is_finite).sum()), len(trained.is_finite)
    remedy = (
        f"lower `learning_rate` ({estimator.learning_rate!r}), or scale X to numbers "
        "near 1"
    )
    if n_diverged == n:
        raise FloatingPointError(f"All {n} draws diverged in training: {remedy}.")
    if n_diverged:
        warn_caller(
            f"{n_diverged} of {n} draws diverged in training and are left out: "
            f"{remedy}.",
            ConvergenceWarning,
        )


def _judge_chains(estimator: Any, trained: Trained) -> None:
    """Set how far chains agree, if there are chains; warn if they do not."""
    estimator.__dict__.pop("rhat_", None)  # of another fit
    if trained.trace is None or trained.trace.shape[1] < LEAST_TRACE:
        return
    estimator.rhat_ = split_rhat(to_numpy(trained.trace))
    largest = float(np.max(estimator.rhat_, initial=1.0, where=estimator.rhat_ >= 1.0))
    if largest > LARGEST_RHAT:
        warn_caller(
            f"The chains disagree: R-hat of a prediction is {largest:.2f}, and should "
            f"be below {LARGEST_RHAT}. Raise `burn_in` and `thin`; raise "
            "`learning_rate` if the chains move slowly, or lower it if they leave the "
            "range of the targets.",
            ConvergenceWarning,
        )
