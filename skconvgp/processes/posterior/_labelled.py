"""Labelled: the posterior of functions whose noise, if any, follows from labels."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._protocols import FeatureMap, lift
from skconvgp._tensors import normals
from skconvgp._typing import FloatArray
from skconvgp.engine import (
    Placement,
    compute_at,
    frozen_bytes,
    thaw,
    to_numpy,
)
from skconvgp.inference import LabelState as NoisyState
from skconvgp.inference import left_out_covariance, posterior_mean
from skconvgp.kernels._feature_maps import feature_map
from skconvgp.processes._facts import Fact
from skconvgp.processes._model import Model
from skconvgp.processes._process import run_beside
from skconvgp.processes._run import Resources, Run
from skconvgp.processes.basis._basis import Basis, NewRows
from skconvgp.processes.basis._feature_room import require_features
from skconvgp.processes.basis._plain import KernelBasis
from skconvgp.processes.fits._label_models import with_variances
from skconvgp.processes.posterior._drawing import (
    NO_BOOTSTRAP,
    NO_PATHWISE,
    prior_values,
)
from skconvgp.processes.posterior._posterior import Draws, Spread


@dataclass(frozen=True)
class LabelState:
    """State of a process of labels, for the uncertainty of predictions."""

    posterior: Any  # has ``covariance`` and ``joint_covariance`` of new samples
    # (n, r), features of the training samples; (0, 0) without a completion.
    features: Any
    # (m, r) or (), takes covariances with the anchors to features, a number if there
    # are no anchors; (0, 0) without a completion.
    lift_map: Any
    jitter: float  # largest jitter that had to be added to a diagonal; 0 if none

    def explained(self, cross: Tensor, prior: Tensor) -> tuple[Tensor, Tensor]:
        """Return the explained part of prior variances, and the unexplained part."""
        if not self.features.numel():
            return prior, torch.zeros_like(prior)
        lifted = lift(cross, self.lift_map)
        explained = (lifted * lifted).sum(1)
        return explained, prior - explained

    def with_training(self, cross: Tensor, mean_diag: float) -> Tensor:
        """Return prior covariances (b, n) with training samples, of mean variance 1."""
        if not self.features.numel():
            return cross / mean_diag
        lifted: Tensor = lift(cross, self.lift_map) @ self.features.mT
        return lifted


@dataclass(frozen=True)
class Labelled:
    """The posterior of functions that share no common noise, by the whole matrix."""

    dual: FloatArray  # (m, k)
    state: LabelState
    unit: float  # mean prior variance, by which the matrix was divided
    amplitude: float  # prior variance of the latent functions
    # (n): features give covariances with all training samples, not only anchors.
    width: int
    has_one_latent: bool

    is_accurate: ClassVar[bool] = True  # factors solve exactly
    draws_coefficients: ClassVar[bool] = False

    @property
    def n_covariances(self) -> int:
        """Number of latent functions that differ in their covariances."""
        return 1 if self.has_one_latent else self.dual.shape[1]

    def at(self, basis: Basis, run: Run) -> Self:  # noqa: ARG002  (whatever it is)
        """Return it with the state on a device."""
        return replace(self, state=thaw(self.state, run.config.device))

    def reads_variances(
        self,
        basis: Basis,  # noqa: ARG002  (whatever it is)
        *,
        needs_var: bool,
    ) -> bool:
        """Return whether variances are wanted, or show an excess of features."""
        return needs_var or self._has_features

    def spread(self, values: Tensor, prior: Tensor) -> Spread:
        """Return variances (b, k), and covariances (b, k, k) if outputs have some."""
        explained, residual = self.state.explained(values, prior)
        training = self.state.with_training(values, self.unit)
        cov: Tensor = self.state.posterior.covariance(
            self.amplitude * training.mT, self.amplitude * explained
        )
        cov = with_variances(cov / self.amplitude, residual.clamp(min=0.0))
        var, between = cov, None
        if cov.ndim == 3:
            var = cov.diagonal(dim1=1, dim2=2)
            between = cov if var.shape[1] > 1 else None
        clipped = (-var).clamp(min=0.0).max()
        return Spread(var.clamp(min=0.0), between, clipped, -residual.min())

    def part(self, values: Tensor, prior: Tensor) -> tuple[Tensor, Tensor]:
        """Return the values themselves."""
        return values, -self.state.explained(values, prior)[1].min()

    def joint(self, parts: list[Tensor], prior: Tensor) -> Tensor:
        """Return covariances (n, n, k) between samples."""
        values, state = torch.cat(parts), self.state
        explained, residual = prior, torch.zeros_like(prior)
        if self._has_features:
            lifted = lift(values, state.lift_map)
            explained = lifted @ lifted.mT
            residual = left_out_covariance(prior - explained)
        training = state.with_training(values, self.unit)
        cov: Tensor = state.posterior.joint_covariance(
            self.amplitude * training.mT, self.amplitude * explained
        )
        joint: Tensor = cov / self.amplitude + residual[:, :, None]
        return joint

    def function_covariances(self, values: Tensor, prior: Tensor) -> Tensor:
        """Return covariances (f, n, n) of samples for amplitude 1, of each function.

        They follow from all training samples, and from targets with noise. `values` and
        `prior` are prior covariances, with training samples and with each other.
        """
        factor = self.amplitude / self.unit
        given = factor * values.mT, factor * prior
        each = list(self.state.posterior.joint_covariances(*given))
        # The function of the second of two classes is that of the first, but for sign.
        return torch.stack(each[-self.n_covariances :]).div_(self.amplitude)

    def facts(self) -> list[Fact]:
        """Return nothing: factors solve exactly."""
        return []

    @property
    def is_of_features(self) -> bool:
        """Whether it follows from targets with noise, and features of all samples."""
        return self._has_targets and self._has_features

    def has_whole_draws(self, basis: Basis) -> bool:
        """Return whether features, given or random ones, have all of the variance."""
        if self.is_of_features:
            return basis.gives_features
        return self._has_targets and basis.has_random_features

    def draws(
        self,
        model: Model,  # noqa: ARG002  (all functions have one amplitude)
        basis: Any,
        rows: NDArray[Any],
        wanted: Draws,
        resources: Resources,
    ) -> tuple[FloatArray, list[Fact]]:
        r"""Return draws: each one of the prior, plus the effect of the data.

        For each class a function f of the prior and noise of its targets are drawn, and
        :math:`f(x) - K_{xX} (K + N_c)^{-1} (f(X) + \varepsilon_c)` is added to the
        mean. If the basis has features, f is a sum of them: a bootstrap of their
        coefficients gives the same, by the identity of the two forms of ridge
        regression.
        """
        if self.is_of_features:
            return self._draws(None, None, basis, rows, wanted, resources), []
        if wanted.is_bootstrap:
            raise ValueError(NO_BOOTSTRAP)
        if not (basis.is_kernel and self._has_targets):
            raise ValueError(NO_PATHWISE)
        require_features(basis.kernel, basis.map_shape, wanted.n_features)
        features = feature_map(
            basis.kernel, basis.map_shape, wanted.n_features, wanted.generator
        )
        return self._draws(features, basis, basis, rows, wanted, resources), []

    def _draws(
        self,
        features: FeatureMap | None,
        kernel: KernelBasis | None,
        basis: Basis,
        rows: NDArray[Any],
        wanted: Draws,
        resources: Resources,
    ) -> FloatArray:
        """Return draws (n, k, s); features of the kernel, unless the basis has some."""
        k, n_draws, generator = self.dual.shape[1], wanted.count, wanted.generator
        needed, begin = frozen_bytes(self.state), generator.get_state()
        width = (
            self.state.features.shape[1] if features is None else features.n_features
        )

        def draws_at(placement: Placement) -> FloatArray:
            generator.set_state(begin)  # for the same draws if a GPU has no room
            run = run_beside(resources, placement, needed)
            own = self.at(basis, run)
            state, posterior = own.state, own.state.posterior
            normal, errors = (
                normals((size, k * n_draws), generator)
                for size in (width, len(posterior.noise))
            )
            weights = math.sqrt(self.amplitude) * normal.to(posterior.noise)
            if features is None or kernel is None:
                solved = own._solved(state.features @ weights, errors)
                weights = weights - state.features.mT @ solved
                means, change = own._streamed(
                    basis, rows, run, lambda one: lift(one, state.lift_map) @ weights
                )
            else:
                weights /= math.sqrt(self.unit)
                drawn = prior_values(features, kernel.images(), weights, run)
                solved = own._solved(drawn, errors)
                means, change = own._streamed(
                    basis,
                    rows,
                    run,
                    lambda one: -state.with_training(one, self.unit) @ solved,
                )
                change += prior_values(features, kernel.images(rows), weights, run)
            functions: FloatArray = to_numpy(change).reshape(len(rows), k, n_draws)
            functions += to_numpy(means)[:, :, None]
            return functions

        return compute_at(resources.placement(needed), draws_at)

    def _solved(self, drawn: Tensor, errors: Tensor) -> Tensor:
        """Return (K + N_c)^-1 (f(X) + e): how data condition draws (n, k s) of f."""
        noise = self.state.posterior.noise
        shape = *noise.shape, -1
        noisy = drawn.to(noise).reshape(shape)
        noisy = noisy + noise.sqrt()[:, :, None] * errors.to(noise).reshape(shape)
        solved: Tensor = self.amplitude * self.state.posterior.solve(noisy)
        return solved.flatten(1)

    def _streamed(
        self,
        basis: Basis,
        rows: NDArray[Any],
        run: Run,
        change: Callable[[Tensor], Tensor],
    ) -> tuple[Tensor, Tensor]:
        """Return means and changes of new samples, from values of the basis."""
        means, changes, dual = [], [], run.tensor(self.dual)
        new = NewRows(rows)
        for values, _ in basis.stream(new, run, self.width, needs_diag=False):
            means.append(posterior_mean(values, dual))
            changes.append(change(values))
        return torch.cat(means), torch.cat(changes)

    @property
    def _has_features(self) -> bool:
        return 0 not in self.state.features.shape

    @property
    def _has_targets(self) -> bool:
        return isinstance(self.state.posterior, NoisyState)
