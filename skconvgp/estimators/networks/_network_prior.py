"""The kernel and the noise of a Bayesian network: given, or chosen by the evidence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from skconvgp._settings import is_number
from skconvgp._typing import FloatArray, ImageShape
from skconvgp.engine import rows_to_tensor, to_numpy
from skconvgp.estimators._classification import ConvNetGPClassifier
from skconvgp.estimators._regression import ConvNetGPRegressor
from skconvgp.estimators._warn import warn_caller, warnings_concern
from skconvgp.estimators.compute._progress import progress_of
from skconvgp.estimators.functions._gradients import gram_gradient
from skconvgp.estimators.functions._gram import gram_diag, gram_matrix
from skconvgp.estimators.networks._network_samples import NetworkSamples
from skconvgp.estimators.networks._network_settings import (
    EVIDENCE,
    LEAST_FOR_NOISE,
    NetworkSettings,
)
from skconvgp.estimators.settings._checks import AUTO
from skconvgp.estimators.settings._gp import can_choose_noise, usual_noise
from skconvgp.exceptions import ScaleWarning
from skconvgp.inference import informative
from skconvgp.kernels import Dense, Erf, Flatten, Kernel, Layer, ReLU, Sequential, Tanh
from skconvgp.kernels._feature_maps import feature_map
from skconvgp.networks import match_covariance
from skconvgp.processes import KernelBasis, Problem

LAYERS: dict[str, type[Layer]] = {"tanh": Tanh, "relu": ReLU, "erf": Erf}
# Samples from which the evidence chooses hyperparameters and noise.
MOST_ROWS = 1000
PRIOR = "prior"  # a stage
# What the noise must be where no evidence and no held-out samples tell it.
WITHOUT_KERNEL = (
    "a number if a `network` is given and prior='weights', or 'auto' with samples of "
    f"which {LEAST_FOR_NOISE} can be held out"
)
# Enough to see that a kernel has random features.
FEW_FEATURES = 64
# Points at which wide networks are compared with a kernel (Tran et al., 2022).
MATCHED_SAMPLES, MATCHED_UNIFORM = 70, 30


@dataclass(frozen=True)
class NetworkPrior:
    """Prior covariance of a network's outputs, and prior variances of its weights."""

    # Covariance of the outputs in units of the scaled targets; for a prior of weights
    # that of wide networks; None for a prior of the weights of a given module.
    kernel: Kernel | None
    variances: tuple[tuple[float, float], ...]  # of weights and biases, for each layer
    # Squared distance to the kernel that they are matched to, for each point.
    distance: float = math.nan


class PriorChoice:
    """The choice of a prior for training samples, by checked settings of an estimator.

    The seed is for the choice of samples for the evidence.
    """

    def __init__(
        self,
        settings: NetworkSettings,
        samples: NetworkSamples,
        seed: int,
    ) -> None:
        self._given, self._settings = settings.given, settings
        self._few, self._seed = _few(samples, seed), seed
        self._given_points = samples.points
        self._variances = ((settings.weight_variance, settings.bias_variance),) * (
            len(settings.hidden_sizes) + 1
        )
        self._start = self._known_kernel(samples)

    def for_numbers(self, values: FloatArray) -> tuple[NetworkPrior, float]:
        """Return the prior of a regression, and the variance of its noise.

        The noise is in squared units of the scaled targets (n, k). Where held-out
        samples will tell it, this is the one to begin with.
        """
        noise = self._given["noise_variance"]
        is_chosen = isinstance(noise, str) and noise in (AUTO, EVIDENCE)
        if not (is_chosen or is_number(noise)):
            expected = "'auto', 'evidence' or a finite number > 0"
            self._given.reject("noise_variance", expected)
        if self._start is None and is_chosen:
            if not self._settings.calibrates:
                self._given.reject("noise_variance", WITHOUT_KERNEL)
            noise = usual_noise(has_classes=False)
        if self._start is None or not (is_chosen or self._settings.learned):
            prior = NetworkPrior(self._start, self._variances)
            return self._matched(prior), float(noise)
        prior, chosen = self._by_evidence(self._start, values[self._few.indices])
        prior = self._matched(prior)
        return prior, (chosen if is_chosen else float(noise))

    def for_labels(self, targets: FloatArray | None, scale: float) -> NetworkPrior:
        """Return the prior of a classification; labels determine its noise.

        The targets (n, k) are those of the labels, if the likelihood makes some. The
        scale is the unit of the scaled targets.
        """
        return self._matched(self._of_labels(targets, scale))

    def _of_labels(self, targets: FloatArray | None, scale: float) -> NetworkPrior:
        """Return the prior of a classification before it is matched."""
        kernel, few, learned = self._start, self._few, self._settings.learned
        if kernel is None or targets is None or not learned:
            return NetworkPrior(kernel, self._variances)
        if not self._can_learn(targets[few.indices]):
            return NetworkPrior(kernel, self._variances)
        gp = ConvNetGPClassifier(
            kernel,
            optimizer=EVIDENCE if learned == EVIDENCE else None,
            likelihood=self._given["likelihood"],
            image_shape=few.image_shape,
            device=self._given["device"],
            random_state=self._seed,
        )
        self._fit(gp, few.y)
        return self._learned(gp.kernel_, float(np.mean(gp.amplitude_)) / scale**2)

    def _by_evidence(
        self, kernel: Kernel, values: FloatArray
    ) -> tuple[NetworkPrior, float]:
        """Return the prior and the noise of the largest evidence."""
        few, learned = self._few, self._settings.learned
        values = values[:, to_numpy(informative(rows_to_tensor(values)))]
        if not self._can_learn(values):
            return NetworkPrior(kernel, self._variances), usual_noise(has_classes=False)
        gp = ConvNetGPRegressor(
            kernel,
            optimizer=EVIDENCE if learned == EVIDENCE else None,
            noise_variance=EVIDENCE,
            amplitude="profile" if learned else None,
            normalize_y=False,
            image_shape=few.image_shape,
            device=self._given["device"],
            random_state=self._seed,
        )
        self._fit(gp, values)
        amplitude = float(np.mean(gp.amplitude_))
        noise = gp.noise_variance_ * amplitude
        if not learned:
            return NetworkPrior(kernel, self._variances), noise
        return self._learned(gp.kernel_, amplitude), noise

    def _fit(self, gp: Any, y: NDArray[Any]) -> None:
        """Fit a Gaussian process to targets (m,) or (m, k) of the few samples."""
        few = self._few
        name, owner = type(gp).__name__, self._given.owner
        part = f"the {name} of {len(few.rows)} samples that chooses the prior of"
        stage = progress_of(self._settings.verbose).inside(PRIOR)
        with stage, warnings_concern(f"{part} {owner}", told=(ScaleWarning,)):
            gp.fit(few.rows, y, few.weights)

    def _matched(self, prior: NetworkPrior) -> NetworkPrior:
        """Return the prior of weights that resembles a kernel, if this is asked for."""
        shape = self._few.image_shape
        if self._settings.target is None or prior.kernel is None:
            return prior
        points, limit = self._points(), self._wide_limit()

        def evaluate(theta: FloatArray) -> tuple[FloatArray, FloatArray]:
            layers = limit.with_theta(theta)
            return gram_gradient(layers, points, image_shape=shape, device="cpu")

        target = gram_matrix(
            prior.kernel, points, image_shape=shape, dtype="float64", device="cpu"
        )
        theta, distance = match_covariance(
            evaluate, rows_to_tensor(target), limit.theta, limit.bounds
        )
        if bool(np.any(theta >= limit.bounds[:, 1])):
            _warn_of_bounds(limit.bounds, target)
        matched: Any = limit.with_theta(theta)
        variances = tuple(
            (float(layer.common_weight), float(layer.bias_variance))
            for layer in matched.layers
            if isinstance(layer, Dense)
        )
        return NetworkPrior(matched, variances, distance)

    def _points(self) -> FloatArray:
        """Return given points, or samples and inputs that are uniform in their box."""
        if self._given_points is not None:
            return self._given_points
        rows = np.asarray(self._few.rows, dtype=np.float64)
        random = np.random.RandomState(self._seed)
        some = rows[random.permutation(len(rows))[:MATCHED_SAMPLES]]
        size = (MATCHED_UNIFORM, rows.shape[1])
        uniform = random.uniform(rows.min(0), rows.max(0), size)
        return np.concatenate([some, uniform])

    def _can_learn(self, values: FloatArray) -> bool:
        """Return whether targets (m, k) of the few samples can choose anything."""
        rows, n_outputs = self._few.rows, values.shape[1]
        problem = Problem(rows, values, np.ones(len(rows)), np.ones(n_outputs))
        return can_choose_noise(problem)

    def _learned(self, kernel: Any, amplitude: float) -> NetworkPrior:
        """Return the prior with a learned kernel, whose mean variance is given."""
        few = self._few
        diag = gram_diag(kernel, few.rows, image_shape=few.image_shape)
        factor = amplitude / float(np.mean(diag))
        return NetworkPrior(factor * kernel, self._variances)

    def _known_kernel(self, samples: NetworkSamples) -> Kernel | None:
        """Return the kernel to begin with; None for a module and a prior of weights."""
        settings, n = self._settings, len(samples.rows)
        given = settings.kernel or settings.target
        if given is None:
            is_module = settings.make_module is not None
            return None if is_module else self._wide_limit()
        prior = KernelBasis(given, samples.rows, np.arange(n), samples.image_shape)
        given.check(prior.map_shape)
        kernel = prior.resolved().kernel
        if settings.draws_features:  # a kernel without them is refused before any work
            feature_map(kernel, prior.map_shape, FEW_FEATURES, torch.Generator())
        return kernel

    def _wide_limit(self) -> Kernel:
        """Return the covariance of wide networks."""
        layers: list[Layer] = [Flatten()]
        for i, (of_weights, of_biases) in enumerate(self._variances):
            layers += [LAYERS[self._settings.activation]()] if i else []
            layers += [Dense(of_weights, bias_variance=of_biases)]
        return Sequential(*layers)


@dataclass(frozen=True)
class _Few:
    """At most `MOST_ROWS` of the samples."""

    indices: NDArray[np.intp]
    rows: NDArray[Any]
    y: NDArray[Any]
    weights: FloatArray
    image_shape: ImageShape


def _few(samples: NetworkSamples, seed: int) -> _Few:
    n = len(samples.rows)
    indices = np.arange(n)
    if n > MOST_ROWS:
        indices = np.sort(np.random.RandomState(seed).permutation(n)[:MOST_ROWS])
    return _Few(
        indices,
        samples.rows[indices],
        samples.y[indices],
        samples.weights[indices],
        samples.image_shape,
    )


def _warn_of_bounds(bounds: FloatArray, target: FloatArray) -> None:
    """Warn that variances of layers end at bounds (p, 2), which are logarithms."""
    warn_caller(
        "The variances of layers that resemble the kernel most end at their largest "
        f"value, {math.exp(bounds[:, 1].max()):.3g}: draws may diverge, or chains not "
        f"mix. The variance of the kernel, {np.diag(target).mean():.3g} in squared "
        "units of the scaled targets, is too large for them, or its lengthscale too "
        "short. Where the evidence chooses these, bound the lengthscale, as by "
        "rbf(2.0, lengthscale_bounds=(0.5, 5.0)), or set optimizer='amplitude'; "
        "otherwise give another kernel.",
        ConvergenceWarning,
    )
