"""Labels as counts: the prior count is a number, or chosen by the data."""

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Self

from skconvgp._parts import Part
from skconvgp._settings import is_number, require

__all__ = ["Counting"]

LOO = "loo"
SMALLEST = 1e-12  # below, one less the share of a class is rounded away


class Counting(Part):
    """A likelihood with a count of each class before a label is seen."""

    tried: ClassVar[tuple[float, ...]]  # where the data choose
    alpha_eps: float | str

    def candidates(self) -> Sequence[Self]:
        """Return the likelihoods to choose from: this one, or one for each count."""
        if isinstance(self.alpha_eps, str) and self.alpha_eps == LOO:
            return [replace(self, alpha_eps=count) for count in self.tried]  # type: ignore[type-var]
        self._count()
        return [self]

    def _count(self) -> float:
        """Return the count; raise unless it is a number by now."""
        count = self.alpha_eps
        is_count = is_number(count) and float(count) >= SMALLEST
        expected = f"a finite number >= {SMALLEST} or {LOO!r}"
        require(self, "alpha_eps", is_count, expected)
        return float(count)
