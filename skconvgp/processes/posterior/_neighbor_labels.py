"""Labels that each give targets and noise, in processes of nearest neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from torch import Tensor

from skconvgp._typing import FloatArray
from skconvgp.processes._process import Labels
from skconvgp.processes.posterior._neighbor_solver import (
    LocalPosterior,
    Neighborhoods,
    NeighborSolver,
)


@dataclass(frozen=True)
class LocalLabels(Labels):
    """Targets and noise of labels, of which each class has its own."""

    # (n, k), noise variances of single observations, in squared units of the targets.
    noise: FloatArray = field(repr=False)
    # How many of the latent functions differ: one of two that are negatives.
    n_functions: int

    def solve(self, solver: NeighborSolver, around: Neighborhoods) -> LocalPosterior:
        """Return the posterior of samples, with variances (m, k) of all functions."""
        return solver.solve_each(around, self._each(solver))

    def left_out(
        self, solver: NeighborSolver, indices: Tensor
    ) -> tuple[LocalPosterior, Tensor, Tensor]:
        """Return the posterior of functions without samples, means, and variances.

        Means and variances are (m, k); the posterior is without all of their inputs.
        """
        each = self._each(solver)
        found = self.solve(solver, solver.without_equal_inputs(indices))
        y, w = solver.observations()
        inputs, at = solver.inputs.to(y.device), indices.to(y.device)
        precision, shift = (
            (inputs.sum(one)[inputs.of] - inputs.leaving(one, w))[at]
            for one in (1.0 / each, y / each)
        )
        kept = 1.0 + precision.clamp(min=0.0) * found.var
        return found, (found.mean + found.var * shift) / kept, found.var / kept

    def columns(self, solver: NeighborSolver) -> Iterator[NeighborSolver]:
        """Yield the samples as observations of each function, of mean noise 1."""
        for c in range(self.n_functions):
            targets, noise = solver.targets[:, c : c + 1], self.noise[:, c]
            yield replace(solver, targets=targets, shares=noise)

    def _each(self, solver: NeighborSolver) -> Tensor:
        """Return the noise variances (n, k) of samples with their weights."""
        noise, weights = solver.run.tensor(self.noise), solver.observations()[1]
        each: Tensor = noise / weights[:, None]
        return each
