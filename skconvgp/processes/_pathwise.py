"""Joint draws at any number of samples, without a covariance between them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from skconvgp._tensors import normals
from skconvgp._typing import FloatArray
from skconvgp.engine import (
    Placement,
    compute_at,
    frozen_bytes,
    to_numpy,
)
from skconvgp.inference import (
    CovarianceUpdate,
    bootstrap_directions,
    pathwise_coefficients,
    posterior_mean,
)
from skconvgp.kernels._feature_maps import HasFeatures, feature_map
from skconvgp.processes._coded_labels import CodedLabelProcess
from skconvgp.processes._exact import ExactProcess
from skconvgp.processes._expansion import ExpansionPrior
from skconvgp.processes._facts import Fact, Undrawn
from skconvgp.processes._feature_room import require_features
from skconvgp.processes._features import FeatureProcess
from skconvgp.processes._label_draws import can_draw, label_draws, prior_values
from skconvgp.processes._labels import LabelProcess
from skconvgp.processes._latents import run_beside
from skconvgp.processes._prior import KernelPrior
from skconvgp.processes._run import Resources

__all__ = ["bootstrap_draws", "has_whole_draws", "pathwise_draws"]

# Share of the posterior variance that draws may leave out without a warning.
LARGEST_UNDRAWN = 0.1


def _function_prior(process: object) -> KernelPrior | None:
    """Return the prior of an exact process of which functions can be drawn, or None."""
    if isinstance(process, LabelProcess) and not can_draw(process, has_features=False):
        return None
    if not isinstance(process, ExactProcess | LabelProcess):
        return None
    return process.prior if isinstance(process.prior, KernelPrior) else None


def has_whole_draws(process: object) -> bool:
    """Return whether draws of functions have all of the posterior variance."""
    if isinstance(process, FeatureProcess | CodedLabelProcess):
        return process.variance == "sor"
    if isinstance(process, LabelProcess) and can_draw(process, has_features=True):
        return isinstance(process.prior, ExpansionPrior)
    prior = _function_prior(process)
    return prior is not None and isinstance(prior.kernel, HasFeatures)


def pathwise_draws(
    process: object,
    rows: NDArray[Any],
    n_draws: int,
    n_features: int,
    resources: Resources,
    generator: Generator,
) -> tuple[FloatArray, list[Fact]]:
    """Return draws (n, k, n_draws) of the posterior at new samples, and their facts.

    A draw is one function: equal generators give equal values at equal samples,
    whatever the other samples are.

    Parameters
    ----------
    process : ExactProcess, FeatureProcess, CodedLabelProcess or LabelProcess
        The fitted process. One of features draws its coefficients, and leaves out the
        variance that the features leave out.
    rows : ndarray of shape (n, d)
        New samples.
    n_draws : int
        Number of draws.
    n_features : int
        Random features of which a draw from the prior is a sum.
    resources : Resources
        Devices and memory that may be used.
    generator : torch.Generator
        Draws the features, the functions and the noise.

    Raises
    ------
    ValueError
        For another process, or a precomputed matrix.
    TypeError
        If no random features of the kernel are known.
    """
    if isinstance(process, FeatureProcess | CodedLabelProcess):

        def directions(factor: Tensor, _jitter: float, n_columns: int) -> Tensor:
            size = len(factor), n_columns
            return normals(size, generator)

        return _coefficient_draws(
            process, rows, n_draws, resources, directions, generator
        )
    if isinstance(process, LabelProcess) and can_draw(process, has_features=True):
        return label_draws(process, rows, n_draws, None, resources, generator)
    prior = _function_prior(process)
    if prior is None:
        raise ValueError(
            "method='pathwise' draws functions of processes of features, and of exact "
            "ones with a kernel object: fit with completion=None, a kernel of "
            "skconvgp.kernels and, for classes, a likelihood that turns labels into "
            "targets, like Gaussian() or Dirichlet(), or use method='joint'."
        )
    if isinstance(process, LabelProcess):
        return label_draws(process, rows, n_draws, n_features, resources, generator)
    assert isinstance(process, ExactProcess)
    model = process.model
    require_features(prior.kernel, prior.map_shape, n_features)
    features = feature_map(prior.kernel, prior.map_shape, n_features, generator)
    k = process.dual.shape[1]
    size = features.n_features, k * n_draws
    weights = normals(size, generator)
    weights /= math.sqrt(model.mean_diag)
    needed, begin = frozen_bytes(process.state), generator.get_state()

    def draws_at(placement: Placement) -> FloatArray:
        generator.set_state(begin)  # for the same draws if a GPU has no room
        run = run_beside(resources, placement, needed)
        state = process.state_at(placement, run)

        def solve(columns: Tensor) -> Tensor:
            return process.solver.solve(state, columns).value

        noise = model.noise / run.tensor(model.weights)
        at_training = prior_values(features, prior.images(), weights, run).to(noise)
        solved = pathwise_coefficients(solve, at_training, noise, generator)
        dual = torch.cat([run.tensor(process.dual), -solved / model.mean_diag], 1)
        stream = process.stream(rows, np.zeros(len(rows)), run, needs_diag=False)
        both = to_numpy(torch.cat([posterior_mean(cross, dual) for cross, _ in stream]))
        prior_draws = to_numpy(prior_values(features, prior.images(rows), weights, run))
        changes = (both[:, k:] + prior_draws).reshape(len(rows), k, n_draws)
        draws: FloatArray = changes * np.sqrt(model.amplitude)[:, None]
        draws += both[:, :k, None]
        return draws

    drawn = compute_at(resources.placement(needed), draws_at)
    return drawn, process.facts_of(0.0, needs_var=False)


def bootstrap_draws(
    process: object,
    rows: NDArray[Any],
    n_draws: int,
    resources: Resources,
    generator: Generator,
) -> tuple[FloatArray, list[Fact]]:
    """Return draws (n, k, n_draws) of a bootstrap at new samples, and their facts.

    Parameters
    ----------
    process, rows, n_draws, resources, generator : object
        As for `pathwise_draws`, with a process of features.

    Raises
    ------
    ValueError
        For another process.
    """
    if isinstance(process, LabelProcess) and can_draw(process, has_features=True):
        return label_draws(process, rows, n_draws, None, resources, generator)
    if not isinstance(process, FeatureProcess | CodedLabelProcess):
        raise ValueError(  # noqa: TRY004  (a setting of the user does not fit)
            "method='bootstrap' draws coefficients of features: fit with "
            "completion=RandomFeatures() or Nystrom(), and for classes with a "
            "likelihood that turns labels into targets, like Gaussian() or "
            "Dirichlet(). For exact processes method='pathwise' is the same: it "
            "perturbs targets and draws a function from the prior."
        )

    def directions(factor: Tensor, jitter: float, n_columns: int) -> Tensor:
        return bootstrap_directions(factor, jitter, n_columns, generator)

    return _coefficient_draws(process, rows, n_draws, resources, directions, generator)


def _coefficient_draws(
    process: FeatureProcess | CodedLabelProcess,
    rows: NDArray[Any],
    n_draws: int,
    resources: Resources,
    directions: Callable[[Tensor, float, int], Tensor],
    generator: Generator,
) -> tuple[FloatArray, list[Fact]]:
    """Return draws of functions whose coefficients are L^-T z, and their facts.

    Given a factor L (r, r), its jitter and a number, `directions` returns as many draws
    z (r, s) of the generator.
    """
    k, needed = process.dual.shape[1], frozen_bytes(process.state)
    begin = generator.get_state()

    def draws_at(placement: Placement) -> tuple[FloatArray, list[Fact]]:
        generator.set_state(begin)  # for the same draws if a GPU has no room
        run = run_beside(resources, placement, needed)
        dual, means, changes = run.tensor(process.dual), [], []
        drawn_var = left_out = 0.0
        updates: Callable[[Tensor], Iterable[CovarianceUpdate]]
        if isinstance(process, FeatureProcess):  # all functions have one posterior
            state = process.state_at(placement, run)
            updates = partial(_one_update, process, state)
            draws = [directions(state.factor, state.jitter, k * n_draws)]
        else:
            state = process.state_at(run)
            updates = partial(process.updates, state)
            posteriors = zip(state.factors, process.jitters, strict=True)
            draws = [directions(one, float(jit), n_draws) for one, jit in posteriors]
        no_diag, unit = np.zeros(len(rows)), process.model.mean_diag
        has_more = process.variance != "sor"
        for cross, prior in process.stream(rows, no_diag, run, needs_diag=has_more):
            means.append(posterior_mean(cross, dual))
            parts = []
            for update, z in zip(updates(cross), draws, strict=True):
                assert update.plus is not None
                parts.append(update.plus.mT @ z.to(update.plus))
                if has_more:
                    kept = update.plus.square().sum(0)
                    drawn_var += float(kept.sum())
                    left_out += float((update.variance(prior / unit)[0] - kept).sum())
            changes.append(torch.cat(parts, 1))
        own = to_numpy(torch.cat(changes)).reshape(len(rows), -1, n_draws)
        drawn: FloatArray = own * np.sqrt(process.model.amplitude)[:, None]
        drawn += to_numpy(torch.cat(means))[:, :, None]
        share = left_out / (drawn_var + left_out) if left_out else 0.0
        return drawn, [Undrawn(share)] if share > LARGEST_UNDRAWN else []

    return compute_at(resources.placement(needed), draws_at)


def _one_update(
    process: FeatureProcess, state: Any, cross: Tensor
) -> list[CovarianceUpdate]:
    """Return the update that all functions share."""
    return [process.covariance_update(state, cross)]
