"""BoundSearch: learns a patch process by the variational bound over all images."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from skconvgp._tensors import permutation
from skconvgp._typing import FloatArray
from skconvgp.engine import Placement, compute_at, require_memory
from skconvgp.flows._bound_ascent import Ascent
from skconvgp.flows._bound_task import BoundTask, LearnedBound
from skconvgp.flows._history import FlowResult
from skconvgp.inference import NaturalPosterior
from skconvgp.processes import (
    KernelBasis,
    Problem,
    Process,
    Resources,
    TermChoice,
    start_posterior,
)

JUDGES = 1000  # images that judge a start
# Factors of the amplitude of label regression, of which the best one is the start, and
# of one over the noise of targets. What features leave out may hide all labels first.
START_SCALES = tuple(10.0**i for i in range(-12, 1))
COPIES = 4  # of a matrix for each latent function


@dataclass(frozen=True)
class BoundSearch(BoundTask):
    """Learns hyperparameters, weights and inducing patches by the bound."""

    def learn(
        self,
        problem: Problem,
        basis: KernelBasis,
        choices: tuple[TermChoice, ...],
        collapsed: Process,
        resources: Resources,
    ) -> tuple[LearnedBound, FlowResult]:
        """Return the learned values, and the trace of the search.

        The collapsed process has features that `smooth_root` whitens. `choices` says
        which patches are learned, for each term of the kernel.
        """
        features: Any = collapsed.basis
        r, k = features.n_samples, self.variational.n_latents
        needed = (COPIES * k + 3) * r**2 * torch.float64.itemsize

        def learn_at(placement: Placement) -> tuple[LearnedBound, FlowResult]:
            what = f"Learning {k} latent functions with {r} features"
            remedy = "lower `n_inducing` or `n_locations`."
            require_memory(needed, placement.device, what, remedy)
            run = resources.run(placement, needed)
            ascent = Ascent.of(self, problem, basis, choices, collapsed, run)
            generator = resources.generator()
            judges = permutation(len(problem.rows), generator)[:JUDGES]
            _begin_at_best(ascent, collapsed, judges)
            return ascent.climb(generator)

        return compute_at(resources.placement(needed), learn_at)


def _begin_at_best(ascent: Ascent, collapsed: Process, judges: Tensor) -> None:
    """Begin with the scale, or the noise of targets, that is best for some images.

    The images are given by their indices. A noise that is fixed stays.
    """
    state, n = ascent.state, len(ascent.problem.rows)
    point, images = ascent.point(), ascent.images(judges)
    features, prior = point.features(images), point.variances(images)
    best, start = math.inf, (state.theta.copy(), state.posterior)
    for theta, posterior in _starts(ascent, collapsed):
        state.theta, state.posterior = theta, posterior
        at = ascent.latents_of(images, point, features, prior, judges)
        value = ascent.divergence() / n - float(at.sites.log_prob.mean())
        if value < best:
            best, start = value, (theta, posterior)
    state.theta, state.posterior = start


def _starts(
    ascent: Ascent, collapsed: Process
) -> Iterator[tuple[FloatArray, NaturalPosterior]]:
    """Yield parameters and posteriors at which a search may begin."""
    parameters, place = ascent.parameters, ascent.parameters.sizes[0]
    given, posterior = ascent.state.theta, ascent.state.posterior
    device, first = ascent.run.config.device, ascent.observed.start
    if ascent.search.variational.likelihood is not None:
        for scale in START_SCALES:
            theta = given.copy()
            theta[-1] = math.log(scale)
            yield theta, start_posterior(collapsed, first, device, scale)
    elif parameters.learns_noise:
        precision = posterior.precision
        identity = torch.eye(
            precision.shape[1], dtype=precision.dtype, device=precision.device
        )
        for factor in (1.0 / scale for scale in START_SCALES):
            theta = given.copy()
            theta[place] = min(given[place] + math.log(factor), ascent.bounds[place, 1])
            # Of a Gaussian noise, precision and shift are known for any other.
            share = math.exp(given[place] - theta[place])
            yield (
                theta,
                NaturalPosterior(
                    identity + (precision - identity) * share, posterior.shift * share
                ),
            )
