"""Numbers of columns and entries that a share of a symmetric matrix allows."""

import math

from skconvgp._settings import is_number
from skconvgp.exceptions import CompletionError

__all__ = [
    "column_entries",
    "columns_within",
    "count_landmarks",
    "entry_budget",
    "too_few",
]

BUDGET_ROUNDING = 1e-12  # share that is added before a budget is rounded down


def entry_budget(observed_fraction: float, n: int) -> int:
    """Return how many of the n (n + 1) / 2 distinct entries may be evaluated."""
    if not (is_number(observed_fraction) and observed_fraction <= 1.0):
        raise ValueError(
            "`observed_fraction` must be a number > 0 and <= 1, got "
            f"{observed_fraction!r}."
        )
    total = n * (n + 1) // 2
    return min(total, int(observed_fraction * total * (1.0 + BUDGET_ROUNDING)))


def column_entries(n_landmarks: int, n: int) -> int:
    """Return the number of distinct entries in columns of a symmetric matrix (n, n)."""
    return n_landmarks * n - n_landmarks * (n_landmarks - 1) // 2


def columns_within(budget: int, n: int) -> int:
    """Return the largest m <= n with ``column_entries(m, n) <= budget``."""
    side = 2 * n + 1  # m (side - m) <= 2 budget
    return (side - math.isqrt(side * side - 8 * budget - 1) - 1) // 2


def count_landmarks(
    n_landmarks: int | None, observed_fraction: float, n: int, least: int = 1
) -> int:
    """Return the number of landmarks: `n_landmarks`, or as many as the share allows.

    At most n landmarks are used, n being the number of samples. The share is that of
    the n (n + 1) / 2 distinct entries that may be evaluated; the diagonal outside the
    columns does not count (docs/maths.rst, "Entries that are known"). Raises a
    `CompletionError` if the share is too small for `least` landmarks, at most n, the
    smallest useful number.
    """
    budget = entry_budget(observed_fraction, n)
    if n_landmarks is not None:
        return min(n_landmarks, n)
    m = columns_within(budget, n)
    if m < least:
        least_part = f"{least} landmark column{'s' if least > 1 else ''}"
        needed = column_entries(least, n)
        advice = "set `n_landmarks`" if least == 1 else "lower `n_members`"
        raise too_few(observed_fraction, n, least_part, needed, advice)
    return m


def too_few(
    observed_fraction: float, n: int, least_part: str, needed: int, advice: str
) -> CompletionError:
    """Return the error about a share that is less than the least useful part."""
    smallest = 2 * needed / (n * (n + 1))
    return CompletionError(
        f"observed_fraction={observed_fraction!r} of {n} samples is less than "
        f"{least_part}; "
        f"the smallest usable value is {_rounded_up(smallest):.3g}. Raise "
        f"`observed_fraction` or {advice}."
    )


def _rounded_up(value: float) -> float:
    """Return a positive number, rounded up to three digits."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return math.ceil(value / unit) * unit
