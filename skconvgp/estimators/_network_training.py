"""The training of many networks at once: inputs, prior, potential, device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from skconvgp._typing import FloatArray, ImageShape
from skconvgp.engine import Placement, compute_at, to_numpy, to_tensor
from skconvgp.estimators._callbacks import FitTasks
from skconvgp.estimators._kernel_features import KernelFeatures
from skconvgp.estimators._network_memory import require_room, training_bytes
from skconvgp.estimators._network_prior import NetworkPrior
from skconvgp.estimators._network_samples import NetworkSamples, NetworkTargets
from skconvgp.estimators._network_settings import NetworkSettings
from skconvgp.estimators._training import (
    EPOCH,
    hold_out,
    images_or_rows,
    made_module,
    require_outputs,
)
from skconvgp.estimators.compute._progress import ProgressLine
from skconvgp.estimators.compute._resources import find_device
from skconvgp.estimators.functions._gram import gram_diag, gram_matrix
from skconvgp.kernels import Kernel
from skconvgp.linalg import shifted_cholesky_
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

__all__ = ["NetworkTraining", "TrainedNetworks", "inputs_of", "remedy"]


def inputs_of(network: BatchedNetwork, rows: NDArray[Any], shape: ImageShape) -> Tensor:
    """Return samples as a network reads them: images for a module, otherwise rows."""
    is_image = isinstance(network, ModuleNetwork) and max(shape[1:]) > 1
    return images_or_rows(np.asarray(rows, np.float64), shape, is_image=is_image)


@dataclass(frozen=True)
class TrainedNetworks:
    """What a training gives: all, the draws that are finite, and what it left out."""

    trained: Trained
    draws: Parameters
    held_out: NDArray[np.intp]


class NetworkTraining:
    """A training: everything that it reads, on the host."""

    def __init__(
        self,
        estimator: Any,
        settings: NetworkSettings,
        samples: NetworkSamples,
        targets: NetworkTargets,
        prior: NetworkPrior,
        seed: int,
    ) -> None:
        self._estimator, self._settings = estimator, settings
        self._samples, self._targets = samples, targets
        self._kernel, self._seed = prior.kernel, seed
        self.network = _make_network(estimator, settings, samples, targets, prior, seed)
        has_extra = settings.kernel is not None
        share = settings.extra_points if has_extra else 0.0
        self._n_extra = round(share * len(samples.rows))
        self.n_points = len(samples.rows) + self._n_extra

    def run(self, tasks: FitTasks, name: str) -> tuple[TrainedNetworks, Placement]:
        """Train where there is room; raise if all draws diverge."""
        settings, sizes = self._settings, (self.n_points, self._targets.n_outputs)
        needed = training_bytes(settings, self.network, *sizes)
        placement = find_device(self._estimator, needed, is_fitted=False)
        verbose = 0 if tasks.is_watched else settings.verbose
        unit = "epochs" if settings.sampling is None else "steps"
        progress = ProgressLine(name, verbose, unit)

        def watch(epoch: Epoch) -> bool:
            progress(epoch.index + 1, epoch.total)
            return tasks.step(EPOCH)

        def run(placement: Placement) -> tuple[TrainedNetworks, Placement]:
            require_room(settings, self.network, *sizes, placement.device)
            # A fresh generator, for the case that another device begins again.
            generator = torch.Generator().manual_seed(self._seed)
            return self._train(placement.device, generator, watch), placement

        result, placement = compute_at(placement, run)
        if not bool(result.trained.is_finite.any()):
            raise FloatingPointError(
                f"All {len(result.trained.is_finite)} draws diverged in training: "
                f"{remedy(self._estimator)}."
            )
        return result, placement

    def held_out_outputs(
        self, result: TrainedNetworks, placement: Placement
    ) -> FloatArray:
        """Return the outputs (k, m, n_outputs) of draws at what was held out."""
        rows = self._samples.rows[result.held_out]
        with torch.no_grad():
            inputs = self._inputs(rows, placement.device)
            return to_numpy(self.network.outputs(result.draws, inputs).double())

    def _train(
        self, device: torch.device, generator: Generator, watch: Any
    ) -> TrainedNetworks:
        """Train, with a generator that is the source of all that is random."""
        settings, network, targets = self._settings, self.network, self._targets
        learned, held_out = hold_out(
            len(self._samples.rows), settings.held_out_share, generator, targets.codes
        )
        rows = np.concatenate([self._samples.rows[learned], self._extra(generator)])
        inputs = self._inputs(rows, device)
        chains = settings.sampling
        n_begun = settings.n_draws if chains is None else chains.n_chains
        start = initial_parameters(network, n_begun, generator, inputs)
        data = targets.term(learned, inputs)
        if settings.is_bootstrap and isinstance(data, GaussianData):
            data = data.perturbed(settings.n_draws, generator)
        prior = self._prior(rows, start, generator)
        potential = Potential(network, inputs, len(learned), data, prior)
        validation = None
        if settings.stops_early and len(held_out):
            apart = self._inputs(self._samples.rows[held_out], device)
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
        return TrainedNetworks(trained, draws, held_out)

    def _inputs(self, rows: NDArray[Any], device: torch.device) -> Tensor:
        """Return samples as the network reads them, in the precision of training."""
        inputs = inputs_of(self.network, rows, self._samples.image_shape)
        return inputs.to(device, self._settings.dtype)

    def _extra(self, generator: Generator) -> FloatArray:
        """Return further inputs (m, d): uniform in the box of X, or Gaussian images."""
        rows = np.asarray(self._samples.rows, dtype=np.float64)
        size = (self._n_extra, rows.shape[1])
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
            random_state=self._seed % 2**32,
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


def remedy(estimator: Any) -> str:
    """Return what to do if draws diverge."""
    return (
        f"lower `learning_rate` ({estimator.learning_rate!r}), or scale X to numbers "
        "near 1"
    )
