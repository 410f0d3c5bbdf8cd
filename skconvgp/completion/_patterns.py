"""Patterns of the entries of a Gram matrix that are evaluated or held out.

A pattern divides the samples, in random order, into groups. The entries between two
groups are a tile, evaluated as a whole or not at all; prior variances always are.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from skconvgp._protocols import GramOracle
from skconvgp._tensors import int_range, integers, permutation
from skconvgp.completion._finite import check_finite
from skconvgp.exceptions import CompletionError

__all__ = ["PATTERNS", "Entries", "Pattern", "draw_pattern", "evaluate"]

PATTERNS = ("landmarks", "blocks", "random")

# Tiles of this side keep a CPU or GPU busy. They are smaller if the held-out entries
# would be fewer than LEAST_CHECK_TILES tiles, or if the tiles that connect all samples
# would be more than half of all tiles.
LARGEST_SIDE = 32
LEAST_CHECK_TILES = 20
LARGEST_SHARE_OF_CHAIN = 0.5


@dataclass(frozen=True)
class Pattern:
    """Groups of samples, and the tiles between them that are evaluated."""

    order: Tensor  # indices (n,) of the samples, ordered by group
    sizes: Tensor  # (g,), of the groups
    observed: Tensor  # (g, g), whether a tile is evaluated; symmetric
    # Whether (g, g) a tile is held out for checks; symmetric, part of `observed`.
    held_out: Tensor
    # Size of the first group if all other samples are compared only with it, apart from
    # checks; otherwise 0.
    n_landmarks: int = 0

    def requests(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield rows and columns of the entries to evaluate, one triangle of tiles."""
        groups = torch.split(self.order, self.sizes.tolist())
        for index, rows in enumerate(groups):
            tiles = self.observed[index].clone()
            tiles[:index] = False
            if len(rows) == 1:  # its only entry is a prior variance
                tiles[index] = False
            cols = self.order[tiles.repeat_interleave(self.sizes)]
            if len(rows) and len(cols):
                yield rows, cols

    def mask(self) -> Tensor:
        """Return which entries (n, n) are observed: tiles and diagonal."""
        return self._spread(self.observed).fill_diagonal_(True)

    def check(self) -> tuple[Tensor, Tensor]:
        """Return rows and columns (k,) of the held-out entries, row < column."""
        held_out = self._spread(self.held_out).triu_(1)
        rows, cols = held_out.nonzero(as_tuple=True)
        return rows, cols

    def _spread(self, tiles: Tensor) -> Tensor:
        """Return for each entry (n, n) the value of its tile (g, g)."""
        group_of = int_range(len(self.sizes)).repeat_interleave(self.sizes)
        group = torch.empty_like(self.order)
        group[self.order] = group_of
        return tiles.index_select(0, group).index_select(1, group)


@dataclass(frozen=True)
class Entries:
    """Evaluated entries of a Gram matrix."""

    values: Tensor  # (n, n); zero if they are not observed
    mask: Tensor  # (n, n), which entries are observed; symmetric, with the diagonal
    pattern: Pattern  # groups of samples
    observed_tiles: Tensor  # (g, g), which tiles of the pattern are in the mask
    # Held-out entries (k,): evaluated, but not in the mask until they are put back.
    check_rows: Tensor
    check_cols: Tensor
    check_values: Tensor
    n_evaluated: int  # distinct entries, the diagonal and the held-out ones included

    def groups(self) -> Iterator[tuple[Tensor, Tensor, bool]]:
        """Yield rows and columns of observed tiles, and if these include a diagonal."""
        order = self.pattern.order.to(self.values.device)
        groups = torch.split(order, self.pattern.sizes.tolist())
        for index, rows in enumerate(groups):
            tiles = self.observed_tiles[index]
            cols = order[tiles.repeat_interleave(self.pattern.sizes).to(order.device)]
            if len(rows):
                yield rows, cols, bool(tiles[index])

    def landmarks(self) -> Tensor | None:
        """Return the landmarks (m,) if all other samples are compared only with these.

        All other entries then follow from the columns of these samples, without the
        held-out entries and without the prior variances.
        """
        m = self.pattern.n_landmarks
        return self.pattern.order[:m].to(self.values.device) if m else None

    def hold_out_(self) -> None:
        """Remove the held-out entries from the observed ones."""
        self._set_(torch.zeros_like(self.check_values), is_observed=False)

    def put_back_(self) -> None:
        """Make the held-out entries observed."""
        self._set_(self.check_values, is_observed=True)

    def _set_(self, values: Tensor, *, is_observed: bool) -> None:
        self.observed_tiles[self.pattern.held_out] = is_observed
        one, two = self.check_rows, self.check_cols
        for rows, cols in ((one, two), (two, one)):
            self.values[rows, cols] = values
            self.mask[rows, cols] = is_observed


def draw_pattern(
    name: str, n: int, fraction: float, check_fraction: float, generator: Generator
) -> Pattern:
    """Draw a pattern of a name in `PATTERNS` for n samples.

    Every sample is connected with every other by observed entries. `fraction` is the
    share of the n (n - 1) / 2 entries above the diagonal, which is never exceeded;
    `check_fraction` of them are held out. Raises a `CompletionError` if the entries are
    too few to connect all samples.
    """
    budget = int(fraction * (n * (n - 1) // 2) * (1 + 1e-12))
    n_check = int(check_fraction * budget)
    if budget - n_check < n - 1:
        _refuse(name, n, fraction, check_fraction)
    order = permutation(n, generator)
    if name == "landmarks":
        return _landmarks(order, budget, n_check)
    side = 1 if name == "random" else _side(n, budget, n_check)
    return _tiles(order, side, budget, n_check, generator)


def evaluate(oracle: GramOracle, pattern: Pattern) -> Entries:
    """Evaluate the entries of a pattern; held-out entries are kept separately."""
    variances = oracle.diag()
    check_finite(variances)
    n = oracle.n_samples
    values = torch.zeros(n, n, dtype=variances.dtype, device=variances.device)
    for rows, cols in pattern.requests():
        block = oracle.block(rows, cols)
        check_finite(block)
        one, two = rows.to(values.device), cols.to(values.device)
        values[one[:, None], two] = block
        values[two[:, None], one] = block.mT
    values.diagonal().copy_(variances)
    rows, cols = (index.to(values.device) for index in pattern.check())
    mask = pattern.mask().to(values.device)
    n_evaluated = (int(mask.sum()) + n) // 2
    observed_tiles, check_values = pattern.observed.clone(), values[rows, cols]
    entries = Entries(
        values, mask, pattern, observed_tiles, rows, cols, check_values, n_evaluated
    )
    entries.hold_out_()
    return entries


def _refuse(name: str, n: int, fraction: float, check_fraction: float) -> None:
    needed = next(
        count
        for count in itertools.count(n - 1)
        if count - int(check_fraction * count) >= n - 1
    )
    smallest = needed / (n * (n - 1) // 2)
    digits = 2 - math.floor(math.log10(smallest))
    shown = math.ceil(smallest * 10**digits) / 10**digits
    raise CompletionError(
        f"`observed_fraction`={fraction!r} of the entries of {n} samples is too small "
        f"for pattern={name!r} with check_fraction={check_fraction!r}: some samples "
        f"would not be compared with any other. The smallest usable fraction is "
        f"{shown:.{max(digits, 0)}f}."
    )


def _landmarks(order: Tensor, budget: int, n_check: int) -> Pattern:
    """Return the rows and columns of landmarks, and a held-out block of the others."""
    n = len(order)
    n_others_checked = _side_of_triangle(n_check)
    # Samples that are no landmarks: so many that the entries between them, but for the
    # held-out ones, are those that the budget does not allow.
    missing = n * (n - 1) // 2 - budget + _triangle(n_others_checked)
    n_others = _side_of_triangle(missing)
    n_others += _triangle(n_others) < missing
    sizes = [n - n_others, n_others_checked, n_others - n_others_checked]
    held_out = torch.zeros(3, 3, dtype=torch.bool, device="cpu")
    held_out[1, 1] = True
    observed = held_out.clone()
    observed[0, :] = observed[:, 0] = True
    return Pattern(
        order,
        integers(sizes),
        observed,
        held_out,
        sizes[0],
    )


def _triangle(side: int) -> int:
    return side * (side - 1) // 2


def _side_of_triangle(n_entries: int) -> int:
    """Return the largest side whose triangle has no more entries."""
    return (1 + math.isqrt(1 + 8 * n_entries)) // 2


def _side(n: int, budget: int, n_check: int) -> int:
    """Return the side of blocks, within the bounds that the constants describe.

    Diagonal tiles and the chain together have n (3 side - 1) / 2 entries.
    """
    for_chain = int(LARGEST_SHARE_OF_CHAIN * (budget - n_check))
    for_check = math.isqrt(n_check // LEAST_CHECK_TILES)
    return max(min(LARGEST_SIDE, for_check, 2 * for_chain // (3 * n)), 1)


def _tiles(
    order: Tensor, side: int, budget: int, n_check: int, generator: Generator
) -> Pattern:
    """Return diagonal tiles, a chain of tiles that connects all, and random tiles."""
    n = len(order)
    n_groups = -(-n // side)
    sizes = torch.full((n_groups,), side, dtype=torch.int64, device="cpu")
    sizes[-1] = n - side * (n_groups - 1)
    observed = torch.eye(n_groups, dtype=torch.bool, device="cpu")
    observed.diagonal(1).fill_(True)
    observed.diagonal(-1).fill_(True)
    rows, cols = torch.ones_like(observed).triu_(2).nonzero(as_tuple=True)
    shuffled = permutation(len(rows), generator)
    rows, cols = rows[shuffled], cols[shuffled]
    n_entries = (sizes[rows] * sizes[cols]).cumsum(0)
    n_chained = int((sizes * (sizes - 1) // 2).sum() + (sizes[1:] * sizes[:-1]).sum())
    # Both take random tiles in the same order, so that held-out ones are observed.
    held_out = torch.zeros_like(observed)
    for tiles, most in ((observed, budget - n_chained), (held_out, n_check)):
        taken = n_entries <= most
        tiles[rows[taken], cols[taken]] = True
        tiles[cols[taken], rows[taken]] = True
    return Pattern(order, sizes, observed, held_out)
