"""The training of many networks at once: inputs, prior, potential, device."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from skconvgp._tensors import normals, uniforms
from skconvgp._typing import FloatArray, ImageShape
from skconvgp.engine import Placement, compute_at, slices, to_numpy, to_tensor
from skconvgp.estimators._callbacks import FitTasks
from skconvgp.estimators._kernel_features import KernelFeatures
from skconvgp.estimators._training import (
    EPOCH,
    hold_out,
    images_or_rows,
    made_module,
    require_outputs,
)
from skconvgp.estimators.compute._progress import EPOCHS, STEPS, progress_of
from skconvgp.estimators.functions._gram import gram_diag, gram_matrix
from skconvgp.estimators.networks._network_memory import require_room, training_bytes
from skconvgp.estimators.networks._network_prior import NetworkPrior
from skconvgp.estimators.networks._network_samples import NetworkSamples, NetworkTargets
from skconvgp.estimators.networks._network_settings import (
    SGHMC,
    TRAINING_RATE,
    NetworkSettings,
)
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

# By name, the parameters of all draws.
Draws: TypeAlias = dict[str, NDArray[np.floating]]
# Names of tasks that callbacks are told of, and of what they belong to: that of
# progress, and that of errors.
SEARCH_EPOCH = "search epoch"
STAGES = {
    EPOCH: ("networks", "training"),
    SEARCH_EPOCH: ("search", "the training that holds out samples"),
}
# Numbers of all draws that a layer holds at once in a prediction.
BLOCK = 2**22


def inputs_of(network: BatchedNetwork, rows: NDArray[Any], shape: ImageShape) -> Tensor:
    """Return samples as a network reads them: images for a module, otherwise rows."""
    is_image = isinstance(network, ModuleNetwork) and max(shape[1:]) > 1
    return images_or_rows(np.asarray(rows, np.float64), shape, is_image=is_image)


def draw_outputs(
    network: BatchedNetwork,
    draws: Draws,
    rows: NDArray[Any],
    shape: ImageShape,
    placement: Placement,
) -> FloatArray:
    """Return outputs (k, n, n_outputs) of draws at rows (n, d), in double precision.

    The parameters of the k draws are given by name. The shape says how a row is read.
    """
    device = placement.device
    held = {name: to_tensor(one, device, torch.float64) for name, one in draws.items()}
    n_draws = len(next(iter(held.values())))
    size = max(1, BLOCK // (n_draws * network.width))

    def blocks() -> Iterator[FloatArray]:
        for block in slices(len(rows), size):
            inputs = inputs_of(network, rows[block], shape)
            yield to_numpy(network.outputs(held, inputs.to(device)))

    with torch.no_grad():
        return np.concatenate(list(blocks()), axis=1)


@dataclass(frozen=True)
class TrainedNetworks:
    """Result of the training of networks."""

    trained: Trained  # all draws, those that diverged included
    draws: Draws  # by name, the parameters (k, ...) of the draws that are finite
    # Indices (m,) of the samples that no draw has learned from.
    held_out: NDArray[np.intp]
    placement: Placement  # where the training was done


@dataclass(frozen=True)
class NetworkTraining:
    """A training of networks: everything that it reads, on the host."""

    settings: NetworkSettings
    samples: NetworkSamples
    targets: NetworkTargets
    prior: NetworkPrior  # the kernel, and the variances of layers
    seed: int  # of everything that is random
    tasks: FitTasks  # of the estimator, which are told of each epoch
    # By the clock, when the work began.
    begun: float = field(default_factory=time.perf_counter)

    @cached_property
    def network(self) -> BatchedNetwork:
        """The network."""
        return _make_network(
            self.settings, self.samples, self.targets, self.prior, self.seed
        )

    @property
    def n_points(self) -> int:
        """Number of the samples, and of further points of a prior of functions."""
        return len(self.samples.rows) + self._n_extra

    @property
    def _n_extra(self) -> int:
        return self.settings.n_extra(len(self.samples.rows))

    @property
    def remedy(self) -> str:
        """Remedy if draws diverge."""
        rate = self.settings.schedule.learning_rate
        first = f"lower `learning_rate` ({rate:g})"
        if self.settings.inference == SGHMC and self.settings.sampling is None:
            first = "set `noise_variance` to a number"  # nobody chose this rate
        return f"{first}, or scale X to numbers near 1"

    def of_few(self, n_draws: int, *, is_bootstrap: bool) -> NetworkTraining:
        """Return the training of at most `n_draws` draws, which hold out samples.

        `is_bootstrap` says whether they have random targets, and a random mean of the
        prior.
        """
        schedule = self.settings.schedule
        if self.settings.sampling is not None:  # whose rate is the size of a step
            schedule = replace(schedule, learning_rate=TRAINING_RATE)
        few = replace(
            self.settings,
            n_draws=min(self.settings.n_draws, n_draws),
            is_bootstrap=is_bootstrap,
            stops_early=False,
            calibrates=True,
            sampling=None,
            schedule=schedule,
        )
        return replace(self, settings=few)

    def of_all(self) -> NetworkTraining:
        """Return the training that holds out samples for early stopping alone."""
        return replace(self, settings=replace(self.settings, calibrates=False))

    def generator(self) -> Generator:
        """Return the source of all that is random, as it is when a training begins."""
        return torch.Generator().manual_seed(self.seed)

    def split(self, generator: Generator) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the indices of samples to learn from, and of those held out."""
        n, share = len(self.samples.rows), self.settings.held_out_share
        return hold_out(n, share, generator, self.targets.codes)

    def require_room(self, device: torch.device | None = None) -> Placement:
        """Return where there is room; raise a TileMemoryError if there is none.

        Without a device, there must be room where the estimator may compute.
        """
        sizes = self.n_points, self.targets.n_outputs
        needed = training_bytes(self.settings, self.network, *sizes)
        placement = self.settings.given.placement(needed)
        require_room(self.settings, self.network, *sizes, device or placement.device)
        return placement

    def run(self, task: str) -> TrainedNetworks:
        """Train where there is room; raise if all draws diverge.

        `task`, a key of `STAGES`, is the name of an epoch.
        """
        settings, tasks = self.settings, self.tasks
        unit = EPOCHS if settings.sampling is None else STEPS
        name, stage = STAGES[task]
        show = progress_of(settings.verbose)(name, unit=unit)

        def watch(epoch: Epoch) -> bool:
            show(epoch.index + 1, epoch.total)
            return tasks.step(task)

        def run(placement: Placement) -> TrainedNetworks:
            self.require_room(placement.device)
            # A fresh generator, for the case that another device begins again.
            generator = self.generator()
            trained, held_out = self._train(placement.device, generator, watch)
            kept = trained.is_finite
            draws = {
                name: to_numpy(values[kept])
                for name, values in trained.parameters.items()
            }
            return TrainedNetworks(trained, draws, held_out, placement)

        result = compute_at(self.require_room(), run)
        n_draws = len(result.trained.is_finite)
        if not bool(result.trained.is_finite.any()):
            raise FloatingPointError(
                f"All {n_draws} draws diverged in {stage}: {self.remedy}."
            )
        return result

    def outputs(self, result: TrainedNetworks, rows: NDArray[Any]) -> FloatArray:
        """Return the outputs (k, n, n_outputs) of trained draws at samples."""

        def outputs_at(placement: Placement) -> FloatArray:
            shape = self.samples.image_shape
            return draw_outputs(self.network, result.draws, rows, shape, placement)

        return compute_at(result.placement, outputs_at)

    def _train(
        self, device: torch.device, generator: Generator, watch: Any
    ) -> tuple[Trained, NDArray[np.intp]]:
        """Train, with a generator that is the source of all that is random.

        Returns all draws, and the indices of the samples that were held out.
        """
        settings, network, targets = self.settings, self.network, self.targets
        learned, held_out = self.split(generator)
        rows = np.concatenate([self.samples.rows[learned], self._extra(generator)])
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
            apart = self._inputs(self.samples.rows[held_out], device)
            held_out_data = targets.term(held_out, inputs)
            n_at_once = settings.schedule.batch_size or len(rows)
            validation = Validation(network, apart, held_out_data, n_at_once)
        schedule, sampling = settings.schedule, settings.sampling
        n_rows = schedule.batch_size or len(rows)
        renew = partial(potential.renew, n_rows=n_rows)
        trained = (
            sample_chains(potential, start, sampling, generator, watch)
            if sampling is not None
            else train(potential, start, schedule, generator, watch, validation, renew)
        )
        return trained, held_out

    def _inputs(self, rows: NDArray[Any], device: torch.device) -> Tensor:
        """Return samples as the network reads them, in the precision of training."""
        inputs = inputs_of(self.network, rows, self.samples.image_shape)
        return inputs.to(device, self.settings.dtype)

    def _extra(self, generator: Generator) -> FloatArray:
        """Return further inputs (m, d): those given, or drawn ones.

        They are uniform in the box of X, or Gaussian images.
        """
        if self.settings.kernel is not None and self.samples.points is not None:
            return self.samples.points
        rows = np.asarray(self.samples.rows, dtype=np.float64)
        size = (self._n_extra, rows.shape[1])
        if max(self.samples.image_shape[1:]) > 1:
            normal = normals(size, generator)
            gaussian: FloatArray = rows.mean(0) + rows.std(0) * to_numpy(normal)
            return gaussian
        uniform = uniforms(size, generator)
        low, high = rows.min(0), rows.max(0)
        inside: FloatArray = low + (high - low) * to_numpy(uniform)
        return inside

    def _prior(
        self, rows: NDArray[Any], start: Parameters, generator: Generator
    ) -> PriorTerm:
        """Return the term of the prior, with random means for "bootstrap"."""
        settings, is_bootstrap = self.settings, self.settings.is_bootstrap
        if settings.kernel is None or self.prior.kernel is None:
            return WeightPrior(start if is_bootstrap else None)
        like = next(iter(start.values()))
        device, n_outputs = like.device, self.targets.n_outputs
        if settings.reads_features:
            return feature_prior(
                to_tensor(self._features(rows, self.prior.kernel, device), device),
                settings.function_noise * self._mean_variance(rows, self.prior.kernel),
                n_outputs,
                n_draws=settings.n_draws if is_bootstrap else 0,
                generator=generator,
            )
        gram = gram_matrix(
            self.prior.kernel,
            rows,
            image_shape=self.samples.image_shape,
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
            self.settings.features,
            image_shape=self.samples.image_shape,
            device=str(device),
            dtype="float64",
            random_state=self.seed % 2**32,
        )
        inputs = np.asarray(rows, dtype=np.float64)
        features: FloatArray = phi.fit(inputs).transform(inputs)
        return features

    def _mean_variance(self, rows: NDArray[Any], kernel: Kernel) -> float:
        """Return the mean variance of the prior."""
        shape = self.samples.image_shape
        return float(np.mean(gram_diag(kernel, rows, image_shape=shape)))


def _make_network(
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
    module = made_module(settings.given, "network", make)
    module = module.to(torch.float64).eval()
    rows, shape = np.asarray(samples.rows[:2], np.float64), samples.image_shape
    inputs = images_or_rows(rows, shape, is_image=max(shape[1:]) > 1)
    of = "output or class"
    require_outputs(settings.given, "network", module, inputs, n_outputs, of)
    variances = settings.weight_variance, settings.bias_variance
    return module_network(module, inputs[:1], *variances)
