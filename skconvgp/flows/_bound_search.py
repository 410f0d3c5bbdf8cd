"""BoundSearch: learns a patch process by the variational bound over all images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from skconvgp._tensors import permutation
from skconvgp.engine import Placement, compute_at
from skconvgp.flows._bound_ascent import Ascent
from skconvgp.flows._bound_task import BoundTask, LearnedBound
from skconvgp.flows._history import FlowResult
from skconvgp.processes import KernelBasis, Problem, Process, Resources, TermChoice

JUDGES = 1000  # images that judge a start


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
        needed = (k + 3) * r**2 * torch.float64.itemsize

        def learn_at(placement: Placement) -> tuple[LearnedBound, FlowResult]:
            run = resources.run(placement, needed)
            ascent = Ascent.of(self, problem, basis, choices, collapsed, run)
            generator = resources.generator()
            judges = permutation(len(problem.rows), generator)[:JUDGES]
            if self.variational.likelihood is not None:
                ascent.start_at_best_scale(collapsed, judges)
            return ascent.climb(generator)

        return compute_at(resources.placement(needed), learn_at)
