"""Posterior covariances of samples without labels, for choices among them.

The formulas: docs/maths.rst, "Which samples to label next".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._tensors import int_range, nothing, reals
from skconvgp.engine import (
    Placement,
    compute_at,
    frozen_bytes,
    to_numpy,
    to_tensor,
)
from skconvgp.inference import CovarianceUpdate, LabelCode, Pool, posterior_mean
from skconvgp.processes._facts import Fact
from skconvgp.processes._problem import Latent
from skconvgp.processes._process import Process, rounding_facts
from skconvgp.processes._run import Resources, Run, run_of_fit
from skconvgp.processes.basis._basis import NewRows
from skconvgp.processes.posterior._shared import unit_noise

REMEDY = "choose from fewer images."

NO_MATRIX = (
    "its matrix tells no covariances of new samples with each other: fit with a kernel "
    "object"
)


@dataclass(frozen=True)
class Choice:
    """How samples are chosen."""

    # Returns which samples are chosen, given their covariances and the posterior.
    choose: Callable[[Pool, Latent], Tensor]
    needs_var: bool  # whether variances of the posterior are read


def why_no_matrix(process: Process) -> str:
    """Return why new samples have no covariances; empty if they do."""
    return "" if process.basis.is_joined else NO_MATRIX


def choose_solved(
    process: Process,
    rows: NDArray[Any],
    resources: Resources,
    choice: Choice,
) -> NDArray[Any]:
    """Return which of rows (r, d) are chosen, by a posterior by solves.

    If images have versions in the fit, rows are followed by those of all of them, and
    choices are of images.
    """
    r, n = len(rows), process.basis.n_samples
    numbers = r**2 + 3 * n * r + (n + r) ** 2

    def pool_at(run: Run) -> tuple[Pool, Latent]:
        posterior: Any = process.posterior.at(process.basis, run)
        # What an image takes to be compared is computed once for all its covariances.
        _, own = process.basis.joined(rows, run)
        variances = own[:, n:].diagonal().clone()
        covariance = own[:, n:] / posterior.unit
        update, _ = posterior.part(own[:, :n], variances)
        half = update.minus
        mean = posterior_mean(own[:, :n], run.tensor(process.dual))
        var, prior, clipped = None, None, 0.0
        if choice.needs_var:
            prior = variances / posterior.unit
            var, below = CovarianceUpdate(half).variance(prior)
            clipped = float(below)
        facts = rounding_facts(process.basis, 0.0, clipped)
        latent = _latent(mean, var, prior, facts)
        covariance.addmm_(half.mT, half, alpha=-1.0)
        # Each version of an image has an equal share of its weight.
        n_versions = process.model.n_versions
        noise = process.model.noise * n_versions + float(posterior.state.jitter)
        noises = covariance.new_full((1, 1, 1), noise)
        return Pool(covariance[None], noises, n_versions), latent

    return _choose(process, numbers, r, resources, pool_at, choice)


def choose_labelled(
    process: Process,
    rows: NDArray[Any],
    resources: Resources,
    choice: Choice,
) -> NDArray[Any]:
    """Return which of rows (r, d) are chosen, if labels decide the noise of a sample.

    The posterior is by the whole matrix.
    """
    r, n = len(rows), process.basis.n_samples
    k = len(cast(Any, process.labels).offset)
    numbers = 2 * k * r**2 + 3 * n * r + (n + r) ** 2

    def pool_at(run: Run) -> tuple[Pool, Latent]:
        own: Any = process.posterior.at(process.basis, run)
        _, prior = process.basis.joined(rows, run)
        covariance = own.function_covariances(prior[:, :n], prior[:, n:])
        latent = _latent(nothing(0), None, None, [])
        return Pool(covariance, _label_noise(process, covariance)), latent

    return _choose(process, numbers, r, resources, pool_at, choice)


def choose_by_features(
    process: Process,
    rows: NDArray[Any],
    resources: Resources,
    choice: Choice,
) -> NDArray[Any]:
    """Return which of rows (r, d) are chosen, by a posterior of features.

    What features leave out of the prior variance stays as it is, whatever is observed.
    """
    r, posterior = len(rows), cast(Any, process.posterior)
    n_functions, n_features = posterior.state.factors.shape[:2]
    numbers = n_functions * (3 * n_features * r + r**2)
    model, variance = process.model, posterior.variance

    def pool_at(run: Run) -> tuple[Pool, Latent]:
        own, dual = posterior.at(process.basis, run), run.tensor(process.dual)
        has_own_noise = variance == "fitc"
        needs_diag = has_own_noise or (choice.needs_var and variance != "sor")
        halves, beyond, means, priors, spreads = [], [], [], [], []
        new, excess = NewRows(rows), 0.0
        stream = process.basis.stream(new, run, own.width, needs_diag=needs_diag)
        for values, variances in stream:
            prior = variances / model.mean_diag
            updates, _ = own.part(values, prior)
            update = updates[0]  # of all functions, if labels do not matter
            halves.append([one.plus for one in updates])
            means.append(posterior_mean(values, dual))
            unexplained = torch.zeros_like(update.plus[0])
            if has_own_noise:
                explained = update.minus.square().sum(0)
                unexplained = (prior - explained).clamp(min=0.0)
            beyond.append(unexplained)
            if choice.needs_var:
                var, of_block = update.variance(prior)
                spreads.append(var)
                priors.append(prior)
                excess = max(excess, of_block)
        covariance = dual.new_empty(n_functions, r, r, dtype=halves[0][0].dtype)
        for target, blocks in zip(covariance, zip(*halves, strict=True), strict=True):
            half = torch.cat(blocks, dim=1)
            torch.mm(half.mT, half, out=target)
        if process.labels is None:
            noise = unit_noise(torch.cat(beyond), model.noise, variance)[None, :, None]
        else:
            noise = _label_noise(process, covariance)
        latent = _latent(
            torch.cat(means),
            torch.cat(spreads) if spreads else None,
            torch.cat(priors) if priors and variance != "sor" else None,
            rounding_facts(process.basis, excess, 0.0),
        )
        return Pool(covariance, noise), latent

    return _choose(process, numbers, r, resources, pool_at, choice)


def _label_noise(process: Process, like: Tensor) -> Tensor:
    """Return the noise (f, 1, c) that c labels give an observation of f functions.

    It is in units of the prior. If all labels give the same, c is 1.
    """
    labels, model = cast(Any, process.labels), process.model
    code = getattr(labels, "code", None)
    if code is None:
        k = len(labels.offset)
        targets = labels.likelihood.targets(int_range(k), k, reals([1.0] * k))
        code = LabelCode.of(targets, float(model.amplitude[0]), model.noise)
        code = code.of_second() if process.has_one_latent else code
    noise = to_tensor(code.noise, like.device, like.dtype).mT[:, None]
    return noise[..., :1] if bool((noise == noise[..., :1]).all()) else noise


def _latent(
    mean: Tensor, var: Tensor | None, prior: Tensor | None, facts: list[Fact]
) -> Latent:
    """Return the posterior at samples, given means (r, k) and what is known (r,)."""
    none = nothing(0)
    return Latent(
        to_numpy(mean),
        to_numpy(nothing(0, 1) if var is None else var[:, None]),
        to_numpy(none),
        prior=to_numpy(none if prior is None else prior),
        facts=facts,
    )


def _choose(
    process: Process,
    numbers: int,
    n_samples: int,
    resources: Resources,
    pool_at: Callable[[Run], tuple[Pool, Latent]],
    choice: Choice,
) -> NDArray[Any]:
    """Return which samples are chosen, where so many numbers are held."""
    needed = numbers * resources.solve_dtype.itemsize

    def chosen_at(placement: Placement) -> NDArray[Any]:
        user = f"A choice among {n_samples} images"
        run = run_of_fit(0, needed, placement, resources, REMEDY, user)
        return to_numpy(choice.choose(*pool_at(run)))

    placement = resources.placement(needed + frozen_bytes(process.state))
    return compute_at(placement, chosen_at)
