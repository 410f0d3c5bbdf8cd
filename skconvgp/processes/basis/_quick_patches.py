"""QuickPatches: covariances by features in the precision of responses.

The formulas: docs/maths.rst, "Sums of parts".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from skconvgp._typing import FloatArray
from skconvgp.processes._run import Run
from skconvgp.processes.basis._inducing import InducingSet, lifted, pooled_together
from skconvgp.processes.basis._parts import Seen, in_dtype
from skconvgp.processes.basis._sight import Sight, seen_rows


@runtime_checkable
class Joining(Protocol):
    """A part that may share work with others."""

    def join(self, other: Any, factor: float) -> Self | None:
        """Return the sum with such a part times a factor; None: nothing is shared."""
        ...


@dataclass(frozen=True)
class QuickPatches(Seen):
    """A sum of parts by the same inducing patches of the same images through a view.

    Responses are computed once. Features are whitened and multiplied in their
    precision: for probabilities, whose digits are fewer.
    """

    members: tuple[Any, ...]  # the parts; the first one has this view and this basis
    factors: tuple[float, ...] = (1.0,)  # of each part in the sum

    compares_images: ClassVar[bool] = False

    @property
    def n_values(self) -> int:
        """How many numbers are held for each new image, beside its covariances."""
        return sum(member.n_values for member in self.members)

    def join(self, other: Any, factor: float) -> Self | None:
        """Return the sum with such a part times a factor; None: nothing is shared."""
        mine, theirs = self.members[0], other.members[0]
        are_alike = mine.view is theirs.view and mine.is_averaged == theirs.is_averaged
        if not are_alike or mine.kernel_basis.pool != theirs.kernel_basis.pool:
            return None
        sets = mine.basis.inducing.terms, theirs.basis.inducing.terms
        if max(map(len, sets)) > 1 or not sets[0][0].shares_responses(sets[1][0]):
            return None
        factors = *self.factors, *(factor * own for own in other.factors)
        return replace(self, members=self.members + other.members, factors=factors)

    def cross(
        self,
        sight: Sight,
        run: Run,
        *,
        needs_diag: bool,  # noqa: ARG002  (they cost little beside covariances)
    ) -> tuple[Tensor, Tensor]:
        """Return covariances (b, n) and prior variances (b,) of new images."""
        wanted = run.config.solve_dtype
        run = in_dtype(run, self.basis.tile_dtype)
        of_versions = [sight, sight.flipped][: 1 + self.members[0].is_averaged]
        versions = [seen_rows(self, one, run) for one in of_versions]
        tiles = self.basis.in_tiles(self._evaluator(run), versions, run.quiet())
        *features, diag = map(torch.cat, zip(*tiles, strict=True))
        total = features[0].new_zeros(len(diag), len(self.members[0].features))
        for member, own, factor in zip(
            self.members, features, self.factors, strict=True
        ):
            total.add_(member.products(own, run), alpha=factor)
        return total.to(wanted), diag.to(wanted)

    def _evaluator(self, run: Run) -> Callable[..., tuple[Tensor, ...]]:
        """Return what gives the features of each part, and the variances of the sum."""
        terms = [member.basis.inducing.terms for member in self.members]
        sets: tuple[InducingSet, ...] = tuple(chain.from_iterable(terms))
        lifts = [one.lift_at(run.config.device, run.config.solve_dtype) for one in sets]

        def evaluate(*versions: Tensor, backend: str) -> tuple[Tensor, ...]:
            if len(self.members) > 1:
                sums = pooled_together(sets, *versions, backend=backend, like=lifts[0])
            else:
                sums = [
                    one.pooled(*versions, backend=backend, like=lift)
                    for one, lift in zip(sets, lifts, strict=True)
                ]
            ours = [lifted(*pair) for pair in zip(sums, lifts, strict=True)]
            of_members = [torch.cat(ours, 1)] if len(self.members) == 1 else ours
            diag = of_members[0].new_zeros(len(of_members[0]))
            for own, factor in zip(of_members, self.factors, strict=True):
                diag.add_(own.square().sum(1), alpha=factor)
            return *of_members, diag

        return evaluate


def quick_parts(
    parts: tuple[Any, ...], factors: FloatArray
) -> tuple[tuple[Any, ...], FloatArray]:
    """Return parts for probabilities, with their factors; those that can are joined."""
    found: list[tuple[Any, float]] = []
    for part, factor in zip(parts, factors.tolist(), strict=True):
        own = part.quick()
        for i, (before, theirs) in enumerate(found):
            both = _joined(before, own, factor / theirs) if theirs else None
            if both is not None:
                found[i] = both, theirs
                break
        else:
            found.append((own, factor))
    joined, their_factors = zip(*found, strict=True)
    return joined, np.array(their_factors)


def _joined(one: Any, other: Any, factor: float) -> Any:
    """Return the sum of a part and another, times a factor; None: nothing is shared."""
    if isinstance(one, Joining) and isinstance(other, Joining):
        return one.join(other, factor)
    return None
