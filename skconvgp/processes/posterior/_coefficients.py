"""Coefficients: the posterior if covariances are products of features."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from skconvgp._protocols import lift
from skconvgp._tensors import normals
from skconvgp._typing import FloatArray
from skconvgp.engine import (
    Placement,
    compute_at,
    frozen_bytes,
    thaw,
    to_numpy,
)
from skconvgp.inference import (
    CovarianceUpdate,
    bootstrap_directions,
    join_updates,
    posterior_mean,
)
from skconvgp.linalg import half_solve
from skconvgp.processes._facts import Fact, Undrawn
from skconvgp.processes._model import Model
from skconvgp.processes._process import Process, run_beside
from skconvgp.processes._run import Resources, Run
from skconvgp.processes.basis._basis import Basis, NewRows
from skconvgp.processes.posterior._drawing import NO_BOOTSTRAP, NO_PATHWISE
from skconvgp.processes.posterior._posterior import Draws, Spread

# Share of the posterior variance that draws may leave out without a warning.
LARGEST_UNDRAWN = 0.1


@dataclass(frozen=True)
class CoefficientState:
    """Factors of the precisions of coefficients, for the uncertainty of predictions."""

    # (k, r, r), lower Cholesky factors, one for each latent function; one for all, if
    # all targets share one noise.
    factors: Any
    # (m, r), takes covariances with the m anchors to features. It is a number if the
    # basis gives features, and None if it gives them in the unit of the process.
    lift_map: Any
    jitters: FloatArray  # (k,), that had to be added to the diagonals of the precisions
    # (1, r, r), factor of the inverse of the mean of the k posterior covariances: it
    # gives the mean of the k variances in the time of one. None if `factors` do.
    mean_factor: Any = None


def coefficients_of(process: Process) -> CoefficientPosterior:
    """Return the posterior of a process of features."""
    assert isinstance(process.posterior, CoefficientPosterior)
    return process.posterior


@dataclass(frozen=True)
class CoefficientPosterior:
    """The posterior of the coefficients of features.

    All outputs share one factor, or each latent function has a factor of its own.
    """

    dual: FloatArray  # (m, n_outputs)
    state: CoefficientState
    variance: str  # of what features do not explain: "dtc", "sor" or "fitc"
    # Whether the function of the first of two classes is the negative of the other's.
    has_one_latent: bool = False
    draws_coefficients: bool = True  # for draws of functions

    width: ClassVar[int] = 0
    is_accurate: ClassVar[bool] = True  # factors solve exactly

    @property
    def n_covariances(self) -> int:
        """Number of latent functions that differ in their covariances."""
        return len(self.state.factors)

    @property
    def jitter(self) -> float:
        """Largest jitter of a precision."""
        return float(self.state.jitters.max())

    def at(self, basis: Basis, run: Run) -> Self:  # noqa: ARG002  (whatever it is)
        """Return it with its state on a device, in the precision of solves."""
        state, dtype = thaw(self.state, run.config.device), run.config.solve_dtype
        lift_map = None if state.lift_map is None else state.lift_map.to(dtype)
        factors = state.factors.to(dtype)
        return replace(self, state=replace(state, factors=factors, lift_map=lift_map))

    def reads_variances(self, basis: Basis, *, needs_var: bool) -> bool:
        """Return whether prior variances count, or show an excess of features."""
        return self.variance != "sor" and (needs_var or not basis.is_projection)

    def spread(self, values: Tensor, prior: Tensor) -> Spread:
        """Return variances (b, n_outputs), or (b, 1) if all outputs share them."""
        each, excess = zip(
            *(one.variance(prior) for one in self._updates(values)), strict=True
        )
        return Spread(
            self._of_outputs(torch.stack(each, 1)), excess=torch.stack(excess).max()
        )

    def part(
        self, values: Tensor, prior: Tensor
    ) -> tuple[list[CovarianceUpdate], Tensor]:
        """Return the updates of the prior covariances by the data."""
        updates = list(self._updates(values))
        beyond = torch.stack([one.variance(prior)[1] for one in updates])
        return updates, beyond.max()

    def joint(self, parts: list[list[CovarianceUpdate]], prior: Tensor) -> Tensor:
        """Return covariances (n, n, n_outputs), or one for all outputs."""
        each = [join_updates(list(one)) for one in zip(*parts, strict=True)]
        if len(each) == 1:
            return self._of_outputs(each[0].covariance(prior)[:, :, None])
        return torch.stack([one.covariance(prior) for one in each], dim=2)

    def facts(self) -> list[Fact]:
        """Return nothing: factors solve exactly."""
        return []

    def of_mean_variance(self) -> Self:
        """Return the posterior whose one variance is the mean over latent functions.

        It is this one if that would take as long.
        """
        if self.state.mean_factor is None:
            return self
        state = replace(self.state, factors=self.state.mean_factor, mean_factor=None)
        return replace(self, state=state)

    def has_whole_draws(self, basis: Basis) -> bool:  # noqa: ARG002  (whatever it is)
        """Return whether features have all of the prior variance."""
        return self.variance == "sor" and self.draws_coefficients

    def draws(
        self,
        model: Model,
        basis: Basis,
        rows: NDArray[Any],
        wanted: Draws,
        resources: Resources,
    ) -> tuple[FloatArray, list[Fact]]:
        """Return draws of coefficients, and whether they leave variance out.

        Coefficients are L^-T z, given the factor L of a precision and draws z.
        """
        if not self.draws_coefficients:
            raise ValueError(NO_BOOTSTRAP if wanted.is_bootstrap else NO_PATHWISE)
        n_draws, generator = wanted.count, wanted.generator
        needed, begin = frozen_bytes(self.state), generator.get_state()
        n_columns = n_draws
        if len(self.state.factors) == 1 and not self.has_one_latent:
            n_columns = self.dual.shape[1] * n_draws  # all functions have one factor

        def directions(factor: Tensor, jitter: float) -> Tensor:
            if wanted.is_bootstrap:
                return bootstrap_directions(factor, jitter, n_columns, generator)
            return normals((len(factor), n_columns), generator)

        def draws_at(placement: Placement) -> tuple[FloatArray, list[Fact]]:
            generator.set_state(begin)  # for the same draws if a GPU has no room
            run = run_beside(resources, placement, needed)
            own = self.at(basis, run)
            dual, means, changes = run.tensor(self.dual), [], []
            factors = zip(own.state.factors, self.state.jitters, strict=True)
            drawn = [directions(one, float(jitter)) for one, jitter in factors]
            drawn_var, left_out, has_more = 0.0, 0.0, self.variance != "sor"
            stream = basis.stream(NewRows(rows), run, needs_diag=has_more)
            for values, prior in stream:
                means.append(posterior_mean(values, dual))
                parts = []
                for update, z in zip(own._updates(values), drawn, strict=True):
                    assert update.plus is not None
                    parts.append(update.plus.mT @ z.to(update.plus))
                    if has_more:
                        kept = update.plus.square().sum(0)
                        var = update.variance(prior / model.mean_diag)[0]
                        drawn_var += float(kept.sum())
                        left_out += float((var - kept).sum())
                changes.append(torch.cat(parts, 1))
            change = to_numpy(torch.cat(changes)).reshape(len(rows), -1, n_draws)
            functions: FloatArray = change * np.sqrt(model.function_variances)[:, None]
            functions += to_numpy(torch.cat(means))[:, :, None]
            share = left_out / (drawn_var + left_out) if left_out else 0.0
            return functions, [Undrawn(share)] if share > LARGEST_UNDRAWN else []

        return compute_at(resources.placement(needed), draws_at)

    def _updates(self, values: Tensor) -> Iterator[CovarianceUpdate]:
        """Yield the update of each factor; one is held at once."""
        lift_map = self.state.lift_map
        features = values if lift_map is None else lift(values, lift_map)
        minus = None if self.variance == "sor" else features.mT
        for factor in self.state.factors:
            yield CovarianceUpdate(minus, half_solve(factor, features.mT))

    def _of_outputs(self, values: Tensor) -> Tensor:
        """Return values (..., k) of latent functions for all outputs."""
        return values.expand(*values.shape[:-1], 2) if self.has_one_latent else values
