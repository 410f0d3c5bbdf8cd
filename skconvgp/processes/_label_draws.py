"""Draws of latent functions whose noise follows from the labels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from skconvgp._protocols import FeatureMap, lift
from skconvgp._tensors import normals
from skconvgp._typing import FloatArray
from skconvgp.engine import (
    Placement,
    compute_at,
    frozen_bytes,
    slices,
    stream_rows,
    thaw,
    to_numpy,
)
from skconvgp.inference import LabelState, posterior_mean
from skconvgp.kernels._feature_maps import feature_map, shared_values
from skconvgp.processes._facts import Fact
from skconvgp.processes._feature_room import require_features
from skconvgp.processes._labels import LabelProcess
from skconvgp.processes._latents import run_beside
from skconvgp.processes._prior import KernelPrior
from skconvgp.processes._run import Resources, Run

__all__ = ["can_draw", "label_draws", "prior_values"]


def can_draw(process: LabelProcess, *, has_features: bool) -> bool:
    """Return whether a process has targets with noise, and features or none."""
    state = process.state
    is_noisy = isinstance(state.posterior, LabelState)
    return is_noisy and bool(np.size(state.features)) == has_features


def label_draws(
    process: LabelProcess,
    rows: NDArray[Any],
    n_draws: int,
    n_features: int | None,
    resources: Resources,
    generator: Generator,
) -> tuple[FloatArray, list[Fact]]:
    r"""Return draws (n, k, n_draws) of the posterior at new samples, and their facts.

    For each class a function f of the prior and noise of its targets are drawn, and
    :math:`f(x) - K_{xX} (K + N_c)^{-1} (f(X) + \varepsilon_c)` is added to the mean. If
    the prior has features, f is a sum of them: a bootstrap of their coefficients gives
    the same, by the identity of the two forms of ridge regression.

    Parameters
    ----------
    process : LabelProcess
        The process, for which `can_draw` holds.
    rows : ndarray of shape (n, d)
        New samples.
    n_draws : int
        Number of draws.
    n_features : int or None
        Random features of which a draw from the prior is a sum; None if the prior has
        features itself.
    resources : Resources
        Devices and memory that may be used.
    generator : torch.Generator
        Draws the features, the functions and the noise.
    """
    k, needed = process.dual.shape[1], frozen_bytes(process.state)
    features, prior = None, process.prior
    if n_features is not None:
        assert isinstance(prior, KernelPrior)
        require_features(prior.kernel, prior.map_shape, n_features)
        features = feature_map(prior.kernel, prior.map_shape, n_features, generator)
    width = process.state.features.shape[1] if features is None else features.n_features
    begin, mean_diag = generator.get_state(), process.model.mean_diag

    def draws_at(placement: Placement) -> FloatArray:
        generator.set_state(begin)  # for the same draws if a GPU has no room
        run = run_beside(resources, placement, needed)
        state = thaw(process.state, placement.device)
        posterior = state.posterior
        normal, errors = (
            normals((size, k * n_draws), generator)
            for size in (width, len(posterior.noise))
        )
        weights = math.sqrt(process.amplitude) * normal.to(posterior.noise)
        if features is None:
            drawn = state.features @ weights
            weights = weights - state.features.mT @ _solved(
                process, state, drawn, errors
            )
            means, change = _streamed(
                process, rows, run, lambda cross: lift(cross, state.lift_map) @ weights
            )
        else:
            assert isinstance(prior, KernelPrior)
            weights /= math.sqrt(mean_diag)
            drawn = prior_values(features, prior.images(), weights, run)
            solved = _solved(process, state, drawn, errors)
            means, change = _streamed(
                process,
                rows,
                run,
                lambda cross: -state.with_training(cross, mean_diag) @ solved,
            )
            change += prior_values(features, prior.images(rows), weights, run)
        functions: FloatArray = to_numpy(change).reshape(len(rows), k, n_draws)
        functions += to_numpy(means)[:, :, None]
        return functions

    return compute_at(resources.placement(needed), draws_at), []


def _solved(process: LabelProcess, state: Any, drawn: Tensor, errors: Tensor) -> Tensor:
    """Return what data take from draws (n, k * s) of the prior, by training sample."""
    noise = state.posterior.noise
    shape = *noise.shape, -1
    noisy = drawn.to(noise).reshape(shape)
    noisy = noisy + noise.sqrt()[:, :, None] * errors.to(noise).reshape(shape)
    solved: Tensor = process.amplitude * state.posterior.solve(noisy)
    return solved.flatten(1)


def _streamed(
    process: LabelProcess,
    rows: NDArray[Any],
    run: Run,
    change: Callable[[Tensor], Tensor],
) -> tuple[Tensor, Tensor]:
    """Return means and changes of new samples, from their covariances."""
    means, changes, dual = [], [], run.tensor(process.dual)
    n, diag = len(process.model.targets), np.zeros(len(rows))
    for cross, _ in process.prior.stream(rows, diag, run, n, needs_diag=False):
        means.append(posterior_mean(cross, dual))
        changes.append(change(cross))
    return torch.cat(means), torch.cat(changes)


def prior_values(
    features: FeatureMap, images: Tensor, weights: Tensor, run: Run
) -> Tensor:
    """Return features (n, r) of images times weights (r, s), some rows at a time."""
    itemsize = weights.itemsize
    budget = run.config.memory_budget - shared_values(features) * itemsize
    n_rows = stream_rows(max(1, features.n_values), itemsize, budget)
    return torch.cat(
        [
            features(images[part]).to(weights) @ weights
            for part in slices(len(images), n_rows)
        ]
    )
