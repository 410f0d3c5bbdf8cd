"""Finite networks on tables of numbers, by all priors and inferences."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.data import Samples
from benchmarks.finite_networks import bagged
from benchmarks.finite_networks.bagged import scaled
from benchmarks.measure import Stopwatch, judge_numbers, ran_on, unwarned
from benchmarks.report import Figures
from skconvgp import BayesianNetworkRegressor, gram_matrix
from skconvgp.kernels import rbf
from skconvgp.networks import (
    GaussianData,
    LayeredNetwork,
    Parameters,
    Potential,
    Schedule,
    initial_parameters,
    sample_functions,
    train,
)

CHAINS, PRINTED = "functions, chains", "functions, bootstrap as printed"
CORRECTED, MATCHED = "functions, bootstrap", "matched, chains"
ENSEMBLE, BOOTSTRAP = "ensemble", "weights, bootstrap"
SIZES = (100, 100)
KERNEL = rbf(2.0)  # whose lengthscale the evidence learns
# On Energy it would be so long that no layers have the variance of the kernel.
BOUNDED = rbf(2.0, lengthscale_bounds=(1e-2, 6.0))
STEPS = {"max_iter": 500, "learning_rate": 0.02}
SAMPLING = {
    "inference": "sghmc",
    "n_draws": 40,
    "n_chains": 4,
    "burn_in": 1000,
    "thin": 100,
    "learning_rate": 0.01,
}
# Larger sets: steps read some of the samples, as in the source.
LARGE, MOST_PRINTED = 5000, 2000
MOST_TRIALS = 4  # learning rates, if all draws diverge
BATCH = {"batch_size": 512, "features": 1000}
WIDER = {"protein": (200, 200)}
# The source: tanh for chains, and ReLU for the bootstrap of functions, with 20 draws.
MODELS: dict[str, dict[str, Any]] = {
    CHAINS: {"prior": KERNEL} | SAMPLING,
    CORRECTED: {"prior": KERNEL, "activation": "relu", "n_draws": 20} | STEPS,
    MATCHED: {"prior": "matched", "kernel": BOUNDED} | SAMPLING,
    BOOTSTRAP: {},  # as it is by default, whatever the effort
    ENSEMBLE: {"inference": "ensemble"},
}
USUAL = (BOOTSTRAP, ENSEMBLE)
EXTRA, JITTER = 0.1, 1e-10


@dataclass(frozen=True)
class PrintedPrior:
    """The prior of functions with the penalty as the source prints it."""

    root: Tensor  # K^1/2 (K + gamma I)^-1
    means: Tensor  # draws from the Gaussian process of K

    def __call__(self, _parameters: Parameters, outputs: Tensor) -> Tensor:
        """Return half the quadratic forms (k,)."""
        gaps = self.root @ (outputs - self.means)
        return 0.5 * gaps.square().sum(dim=(1, 2))


def measure(
    name: str, table: Samples, device: str, effort: float, methods: list[str]
) -> Iterator[tuple[str, Figures]]:
    """Yield name and scores of each method on a set; no method named is all."""
    if not methods or bagged.BAG in methods:
        yield bagged.BAG, bagged.numbers(table, WIDER.get(name, SIZES))
    for method, settings in MODELS.items():
        wanted = {method}
        if method == CORRECTED and len(table.y) <= MOST_PRINTED:
            wanted.add(PRINTED)
        if methods and not wanted & set(methods):
            continue
        watch = Stopwatch()
        usual = {"activation": "tanh", "random_state": 0, "device": device}
        scaled_settings = scaled(settings, effort)
        if len(table.y) > LARGE and method not in USUAL:
            scaled_settings = in_batches(scaled_settings, len(table.y))
        model = BayesianNetworkRegressor(
            WIDER.get(name, SIZES), **usual | scaled_settings
        )
        fit_slower(model, table)
        seconds = watch.read("fit_")
        mean, std = model.predict_latent(table.X_test, return_std=True, noise=True)
        rhat = float(np.nanmax(model.rhat_)) if hasattr(model, "rhat_") else None
        row = {
            **seconds,
            "rhat": rhat,
            "n_diverged": model.fit_report_.n_diverged,
            "learning_rate": model.learning_rate,
            "device": model.device_,
        } | ran_on(model.device_)
        yield method, row | judge_numbers(table.y_test, mean, std)
        if PRINTED in wanted:
            where = {"device": model.device_} | ran_on(model.device_)
            yield PRINTED, printed(table, model) | where


def fit_slower(model: BayesianNetworkRegressor, table: Samples) -> None:
    """Fit, at a lower learning rate if all draws diverge, as the error advises.

    The rate by default must not diverge.
    """
    with unwarned():
        for _ in range(MOST_TRIALS):
            try:
                model.fit(table.X, table.y)
            except FloatingPointError:
                rate = model.learning_rate
                if isinstance(rate, str):
                    raise
                model.set_params(learning_rate=rate / 4.0)
            else:
                return
    raise FloatingPointError(f"All draws diverged at {model.learning_rate:.1e}.")


def in_batches(settings: dict[str, Any], n: int) -> dict[str, Any]:
    """Return settings with as many steps, each of which reads some of n samples."""
    per_epoch = -(-n // BATCH["batch_size"])
    epochs = {"max_iter": max(4, settings.get("max_iter", 0) // per_epoch)}
    return settings | BATCH | (epochs if "max_iter" in settings else {})


def printed(table: Samples, model: BayesianNetworkRegressor) -> Figures:
    """Return the scores of the printed form, with the kernel and noise of a model."""
    generator = torch.Generator().manual_seed(0)
    centre, unit = table.y.mean(), table.y.std()
    n, n_draws = len(table.y), model.n_draws
    low, high = table.X.min(0), table.X.max(0)
    size = round(EXTRA * n), table.X.shape[1]
    uniform = torch.rand(*size, generator=generator, dtype=torch.float64).numpy()
    inputs = np.concatenate([table.X, low + (high - low) * uniform])
    K = torch.from_numpy(gram_matrix(model.kernel_, inputs, dtype="float64"))
    device = torch.device(model.device_)
    values, vectors = torch.linalg.eigh(K.to(device))
    values = values.clamp(min=JITTER)
    gamma = model.function_noise * float(K.diagonal().mean())
    draws = sample_functions(vectors * values.sqrt(), n_draws, 1, generator)
    prior = PrintedPrior((vectors * values.sqrt() / (values + gamma)).mT, draws)
    sizes = (table.X.shape[1], *SIZES, 1)
    layers = ((model.weight_variance, model.bias_variance),) * (len(sizes) - 1)
    network = LayeredNetwork(sizes, "relu", layers)
    X = torch.from_numpy(inputs).to(device)
    y = torch.from_numpy((table.y - centre) / unit)[None, :, None].to(X)
    noise = X.new_full((n, 1), float(model.noise_variance_))
    data = GaussianData(y, noise).perturbed(n_draws, generator)
    start = initial_parameters(network, n_draws, generator, X)
    potential = Potential(network, X, n, data, prior)
    schedule = Schedule(model.max_iter, model.learning_rate)
    trained = train(potential, start, schedule, generator, lambda _epoch: False)
    with torch.no_grad():
        rows = torch.from_numpy(table.X_test).to(X)
        new = network.outputs(trained.parameters, rows)
    outputs = new[trained.is_finite, :, 0].cpu().numpy()
    var = outputs.var(axis=0, ddof=1) + float(model.noise_variance_)
    mean = centre + unit * outputs.mean(0)
    return judge_numbers(table.y_test, mean, unit * np.sqrt(var))
