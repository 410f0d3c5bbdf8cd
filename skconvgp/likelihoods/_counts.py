"""Labels as counts: the prior count is given, or chosen by leave-one-out."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Self

from skconvgp._parts import Part
from skconvgp._settings import is_number, require

__all__ = ["Counting"]

LOO = "loo"
SMALLEST = 1e-12  # smaller counts are lost to rounding in 1 minus the share of a class


class Counting(Part):
    """Base class of likelihoods with a prior count of each class."""

    # The counts that "loo" chooses from, first the one without a choice
    tried: ClassVar[tuple[float, ...]]
    alpha_eps: float | str

    def candidates(self) -> Sequence[Self]:
        """Return the likelihoods to choose from: this one, or one for each count."""
        if isinstance(self.alpha_eps, str) and self.alpha_eps == LOO:
            return [replace(self, alpha_eps=count) for count in self.tried]  # type: ignore[type-var]
        self._count()
        return [self]

    def _count(self) -> float:
        """Return the prior count; raise unless it is an allowed number."""
        count = self.alpha_eps
        is_count = is_number(count) and float(count) >= SMALLEST
        expected = f"a finite number >= {SMALLEST} or {LOO!r}"
        require(self, "alpha_eps", is_count, expected)
        return float(count)
