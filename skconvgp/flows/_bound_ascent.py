"""Ascent: steps on batches of images that maximise the variational bound.

The formulas: docs/maths.rst, "Learning by the bound".
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch
from torch import Generator, Tensor

from skconvgp._protocols import Step
from skconvgp._tensors import permutation, random_ints, reals
from skconvgp._typing import FloatArray
from skconvgp.engine import read_tile, to_numpy, write_tile
from skconvgp.flows._bound_latents import BoundLatents
from skconvgp.flows._bound_state import BoundState
from skconvgp.flows._bound_task import BoundTask, LearnedBound
from skconvgp.flows._descent import Moments
from skconvgp.flows._history import FlowResult
from skconvgp.flows._patch_parameters import PatchParameters, starts_of
from skconvgp.flows._patch_task import PatchPoint, images_at_once
from skconvgp.flows._search import ALL_DONE, STOPPED
from skconvgp.linalg import smooth_root
from skconvgp.processes import (
    KernelBasis,
    LearnedPosterior,
    Observations,
    PatchBasis,
    Problem,
    Process,
    Run,
    TermChoice,
    start_posterior,
)

HELD_SHARE = 0.1  # of the steps, in which the posterior moves alone
# Share of the length of a step in hyperparameters that values of patches move. All of
# them move at once, and the posterior has to follow.
PATCH_SHARE = 0.3
RISE = 0.05  # share of the steps after that, in which lengths rise from 0
# Images for each feature that the posterior remembers, about, and its fastest rates: of
# one of many batches, and of a single one.
REMEMBERED, FASTEST, ALONE = 10, 0.1, 0.5
LAST_RATE = 0.1  # share of the rate of the posterior at the end
FEW = 50  # steps whose mean is told of start and end
DIVERGENCES = 60  # about so many are computed
SAVE_EVERY = 60.0  # seconds between two files of the state


@dataclass(frozen=True)
class Ascent:
    """Maximises the bound by steps on batches of images."""

    search: BoundTask
    problem: Problem
    basis: KernelBasis
    parameters: PatchParameters
    choices: tuple[TermChoice, ...]
    observed: Observations
    unit: float  # mean prior variance at the start, of which amplitudes are multiples
    bounds: FloatArray  # (p, 2)
    labels: tuple[str, ...]  # of the first parameters, which are logarithms
    n_images: int  # of a tile
    dtype: torch.dtype  # of responses
    state: BoundState
    run: Run

    @classmethod
    def of(
        cls,
        search: BoundTask,
        problem: Problem,
        basis: KernelBasis,
        choices: tuple[TermChoice, ...],
        collapsed: Process,
        run: Run,
    ) -> Ascent:
        """Return the ascent from a collapsed process."""
        features: Any = collapsed.basis
        patches: PatchBasis = features
        observed = search.variational.observed(problem, collapsed)
        is_of_targets = search.variational.likelihood is None
        device = run.config.device
        parameters = PatchParameters(
            basis.kernel,
            basis.image_shape,
            starts_of(patches.inducing, choices, device),
            collapsed.model.noise,
            learns_noise=is_of_targets and search.noise is None,
            learns_kernel=search.learns_kernel,
            root=smooth_root,
        )
        start, bounds, labels = parameters.start()
        steps = search.bound.max_iter
        state = BoundState(
            0,
            np.append(start, 0.0),
            Moments(1.0),
            start_posterior(collapsed, observed.start, device),
            0.0,
            np.zeros((steps, 2 + len(labels))),
        )
        unit = collapsed.model.mean_diag
        return cls(
            search,
            problem,
            basis,
            parameters,
            choices,
            observed,
            unit,
            bounds,
            labels,
            images_at_once(patches.inducing, run),
            patches.tile_dtype,
            state,
            run,
        )

    def climb(self, generator: Generator) -> tuple[LearnedBound, FlowResult]:
        """Take all steps, from those on that a file has."""
        bound, state = self.search.bound, self.state
        n, start = len(self.problem.rows), state.theta.copy()
        n_batches = -(-n // bound.batch_size)
        seed = int(random_ints(2**62, (1,), generator))
        path = self._path(seed)
        kept = read_tile(path, tuple(state.packed().shape)) if path else None
        if kept is not None:
            state.unpack(kept)
        begun = saved = time.perf_counter()
        before = state.trace[state.index - 1, 1] if state.index else 0.0
        stops, every = False, max(1, bound.max_iter // DIVERGENCES)
        while state.index < bound.max_iter and not stops:
            index = state.index
            epoch, place = divmod(index, n_batches)
            order = permutation(n, torch.Generator().manual_seed(seed + epoch))
            batch = order.tensor_split(n_batches)[place]
            if index % every == 0 or index == bound.max_iter - 1:
                state.divergence = self.divergence()
            value = state.divergence / n - self._step_(batch, index)
            now = time.perf_counter()
            theta = state.theta[: len(self.labels)].copy()
            state.trace[index] = value, before + now - begun, *theta
            state.index = index + 1
            stops = self.search.watch(Step(index, bound.max_iter, theta, value))
            is_last = stops or state.index == bound.max_iter
            if path is not None and (is_last or now - saved > SAVE_EVERY):
                write_tile(path, state.packed())
                saved = now
        return self._learned(), self._result(start, STOPPED if stops else ALL_DONE)

    def _path(self, seed: int) -> Path | None:
        """Return the file of the state, by everything that the steps depend on."""
        if self.search.folder is None:
            return None
        parameters, start = self.parameters, self.observed.start
        parts = (
            version("skconvgp"),
            repr(parameters.kernel),
            repr(replace(self.search.bound, cache_dir=None)),
            repr(self.search.variational),
            [(one.n_locations, one.learns_patches) for one in parameters.starts],
            [to_numpy(one.patches) for one in parameters.starts],
            (parameters.noise, parameters.learns_noise, parameters.learns_kernel),
            (self.unit, to_numpy(start.amplitude), start.noise, self.bounds),
            (parameters.image_shape, str(self.dtype), seed),
            to_numpy(self.state.packed()),
            self.problem.rows,
            self.problem.targets,
        )
        return self.search.folder / f"bound-{joblib.hash(parts)}"

    def divergence(self) -> float:
        """Return the divergence of the posterior from the prior."""
        each = [one.divergence() for one in self.state.posterior.coefficients()]
        return float(torch.stack(each).sum())

    def _step_(self, batch: Tensor, index: int) -> float:
        """Take a step; return the expected log likelihood before it, for each image."""
        state, at = self.state, self.latents(batch)
        if index >= self._n_held:
            self._move_(self.slope(at) / len(batch), self._first_rate(len(batch)))
        scale = len(self.problem.rows) / len(batch)
        state.posterior.step_(
            at.features,
            at.mean,
            at.root * at.sites.gradient * scale,
            at.root.square() * at.sites.curvature.clamp(min=0.0) * scale,
            rate=self._rate(index, len(batch)),
        )
        return float(at.sites.log_prob.mean())

    def slope(self, at: BoundLatents) -> FloatArray:
        """Return derivatives (p + 1,) of the expected log likelihood of a batch."""
        of_targets = self.search.variational.likelihood is None
        return at.slope(self.parameters, of_targets=of_targets)

    def latents(self, batch: Tensor) -> BoundLatents:
        """Return the latent functions of a batch, given its indices (b,)."""
        images, point = self.images(batch), self.point()
        features, prior = point.features(images), point.variances(images)
        return self.latents_of(images, point, features, prior, batch)

    def images(self, batch: Tensor) -> Tensor:
        """Return the images (b, c, h, w) at indices (b,)."""
        rows = self.problem.rows[to_numpy(batch)]
        return self.basis.images(rows).to(self.run.config.device, self.dtype)

    def point(self) -> PatchPoint:
        """Return features and variances at the present parameters."""
        theta, backend = self.state.theta[:-1], self.run.backend
        return PatchPoint.at(self.parameters, theta, self.run, self.n_images, backend)

    def latents_of(
        self,
        images: Tensor,
        point: PatchPoint,
        features: Tensor,
        prior: Tensor,
        batch: Tensor,
    ) -> BoundLatents:
        """Return the latent functions of images with features and prior variances."""
        coefficients = list(self.state.posterior.coefficients())
        marginals = [one.marginals(features) for one in coefficients]
        mean, var = (torch.stack(parts, 1) for parts in zip(*marginals, strict=True))
        rest = (prior.to(features) - features.square().sum(1)).clamp(min=0.0)[:, None]
        observed, root = self._observed()
        var = root.square() * (var + rest)
        sites = observed.sites(root * mean, var, batch)
        return BoundLatents(
            images, point, features, coefficients, root, mean, var, sites
        )

    @property
    def _n_held(self) -> int:
        """Number of steps in which the posterior moves alone."""
        return int(HELD_SHARE * self.search.bound.max_iter)

    def _observed(self) -> tuple[Observations, Tensor]:
        """Return the observations with the present scale and noise.

        Also the deviations (k,) of latent functions where the kernel is 1.
        """
        theta, start = self.state.theta, self.observed.start
        amplitude = start.amplitude * math.exp(theta[-1])
        observed = self.observed.at(amplitude, self.parameters.noise_at(theta[:-1]))
        root = (amplitude / self.unit).sqrt()
        return observed, root.to(self.state.posterior.shift)

    def _first_rate(self, n_batch: int) -> float:
        """Return the rate of the posterior at the beginning."""
        rate = min(
            FASTEST, n_batch / (REMEMBERED * self.state.posterior.shift.shape[1])
        )
        return max(ALONE * n_batch / len(self.problem.rows), rate)

    def _rate(self, index: int, n_batch: int) -> float:
        """Return the rate of the posterior at a step."""
        n_steps, n_held = self.search.bound.max_iter, self._n_held
        share = max(0.0, (index - n_held) / (n_steps - n_held))
        return self._first_rate(n_batch) * (1.0 - (1.0 - LAST_RATE) * share)

    def _move_(self, by_theta: FloatArray, first_rate: float) -> None:
        """Move parameters up a slope (p + 1,), as far as the posterior can follow."""
        state, parameters = self.state, self.parameters
        n_steps, n_held = self.search.bound.max_iter, self._n_held
        share = (state.index - n_held) / (n_steps - n_held)
        rate = self.search.bound.learning_rate * min(1.0, share / RISE)
        rate *= min(1.0, first_rate / FASTEST)
        rate *= (1.0 + math.cos(math.pi * share)) / 2.0
        rates = np.full(len(by_theta), rate)
        n_patches = sum(start.n_values for start in parameters.starts)
        rates[len(rates) - 1 - n_patches : -1] *= PATCH_SHARE
        state.theta = state.theta - rates * state.moments.move(-by_theta)
        state.theta[:-1] = state.theta[:-1].clip(*self.bounds.T)

    def _learned(self) -> LearnedBound:
        """Return what has been learned."""
        theta = reals(self.state.theta[:-1])
        _, root = self._observed()
        amplitude = root.square()
        weights = self.parameters.weights_at(theta)
        if len(weights) == 1 and len(weights[0]):  # those kept have a square of 1
            amplitude = amplitude * weights[0].square().mean().to(amplitude)
        return LearnedBound(
            self.parameters.learned(theta, self.choices),
            LearnedPosterior(amplitude, self.state.posterior),
        )

    def _result(self, start: FloatArray, message: str) -> FlowResult:
        """Return the trace of the search, which began at `start`."""
        state, p, n = self.state, len(self.labels), self.state.index
        values, seconds, *logs = state.trace[:n].T
        few = max(1, min(FEW, n // 5))  # batches differ
        return FlowResult(
            theta=state.theta[:p],
            labels=self.labels,
            rho=float(values[-few:].mean()),
            start_theta=start[:p],
            start_rho=float(values[:few].mean()),
            message=message,
            theta_trace=np.array(logs).reshape(p, n).T,
            rho_trace=values,
            seconds=seconds,
            evaluations=np.arange(1.0, n + 1.0),
            n_evaluations=n,
            n_derivatives=max(0, n - self._n_held),
            stats={"n_steps": float(n)},
            bounds=np.exp(self.bounds[:p]),
        )
