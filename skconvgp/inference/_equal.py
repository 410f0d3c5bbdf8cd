"""Samples that leave-one-out leaves out together (docs/adr/equal-inputs.md).

Samples with equal inputs are, for a process, several observations of the same value of
the function. Rows that were made of one image belong to it. Users name further groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from skconvgp._tensors import int_range

__all__ = ["FEWEST_INPUTS", "EqualInputs", "LeftOutBlocks", "MergedSamples"]

# With fewer distinct inputs, a prediction of one from the others is chance: then only
# single observations are left out, not whole inputs (docs/adr/equal-inputs.md).
FEWEST_INPUTS = 10
EMPTY = 1e-9  # share of the weight of a class that is a rounding error of none
LARGE = 8  # rows of a group, whose block takes longer than those of smaller ones


@dataclass(frozen=True)
class EqualInputs:
    """Which samples have equal inputs, and which were made of one image."""

    # Index (n,) of the distinct input of each sample, from 0 to m - 1; each occurs.
    of: Tensor
    # How many samples each image is. The images are the first samples, and then come
    # further versions of all of them, in the same order.
    n_versions: int = 1
    # Number of samples that were added before these, with inputs of their own.
    n_before: int = 0
    # Group (n_images,) of each image, from 0 on; images of equal inputs share theirs.
    # None: each image is left out without others, but those with equal inputs.
    groups: Tensor | None = None

    @classmethod
    def none_of(cls, samples: Tensor) -> EqualInputs:
        """Return an object that says that no two of the samples (n, ...) are equal."""
        return cls(int_range(len(samples), samples.device))

    @classmethod
    def numbered(cls, of: Tensor) -> EqualInputs:
        """Return the equal inputs of samples (n,) that share numbers of any kind."""
        return cls(_numbered(of))

    @cached_property
    def n_inputs(self) -> int:
        """Number m of distinct inputs."""
        return int(self.of.max()) + 1

    @property
    def are_few(self) -> bool:
        """Whether a prediction of an input from the others would be chance."""
        return self.n_inputs + self.n_before < FEWEST_INPUTS

    def to(self, device: torch.device) -> EqualInputs:
        """Return the same on a device."""
        groups = None if self.groups is None else self.groups.to(device)
        return replace(self, of=self.of.to(device), groups=groups)

    @property
    def n_images(self) -> int:
        """Number of samples, without further versions of them."""
        return len(self.of) // self.n_versions

    @property
    def left_out_with(self) -> Tensor:
        """Number (n_images,) that images share which are left out together."""
        return self.of[: self.n_images] if self.groups is None else self.groups

    @property
    def input_groups(self) -> Tensor | None:
        """Group (m,) of each input of images; None without groups."""
        return None if self.groups is None else self.groups[self.first()]

    @property
    def has_blocks(self) -> bool:
        """Whether several inputs are left out together."""
        return self.n_versions > 1 or self.groups is not None

    @property
    def n_groups(self) -> int:
        """Number of groups; 0 without groups."""
        return 0 if self.groups is None else int(self.groups.max()) + 1

    @property
    def has_large_blocks(self) -> bool:
        """Whether many inputs are left out together."""
        if self.groups is None:
            return False
        return int(self.groups.bincount().max()) * self.n_versions > LARGE

    def with_groups(self, groups: Tensor) -> EqualInputs:
        """Return it with groups (n_images,) of images, numbered in any way.

        Groups that share an input become one. If each group is one input then, the
        groups say nothing new.
        """
        of, known = _numbered(self.of[: self.n_images]), None
        groups = _numbered(groups)
        while known is None or not torch.equal(groups, known):
            known = groups
            for shared in (of, known):  # the least group that each of these has
                least = torch.full_like(shared, len(shared))
                groups = least.scatter_reduce(0, shared, groups, "amin")[shared]
        groups = _numbered(groups)
        n_inputs = int(of.max()) + 1
        is_new = int(groups.max()) + 1 < n_inputs
        return replace(self, groups=groups if is_new else None)

    @cached_property
    def n_left_out(self) -> int:
        """How many samples with distinct inputs are left out, one at a time."""
        return len(torch.unique(self.of[: self.n_images]))

    def versions(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield images (g,) with equally many distinct inputs, and these (g, s)."""
        each = self.of.reshape(self.n_versions, -1).mT.sort(dim=1).values
        is_new = torch.ones_like(each, dtype=torch.bool)
        is_new[:, 1:] = each[:, 1:] != each[:, :-1]
        sizes = is_new.sum(1)
        for size in sorted(set(sizes.tolist())):
            images = (sizes == size).nonzero()[:, 0]
            yield images, each[images][is_new[images]].reshape(-1, size)

    def blocks(self) -> Iterator[LeftOutBlocks]:
        """Yield images that are left out with equally many distinct inputs."""
        if self.groups is None:
            for images, members in self.versions():
                which = int_range(len(images), images.device)
                yield LeftOutBlocks(images, which, members)
            return
        # Pairs of a group and an input that it has, each once, in the order of groups.
        of_rows = self.groups.repeat(self.n_versions)
        pairs = torch.unique(of_rows * self.n_inputs + self.of)
        owner, inputs = pairs // self.n_inputs, pairs % self.n_inputs
        sizes = owner.bincount()
        for size in sorted(set(sizes.tolist())):
            is_size = sizes == size
            images = is_size[self.groups].nonzero()[:, 0]
            which = (is_size.cumsum(0) - 1)[self.groups[images]]
            yield LeftOutBlocks(images, which, inputs[is_size[owner]].reshape(-1, size))

    def take(self, indices: Tensor) -> EqualInputs:
        """Return the equal inputs among the samples at these indices."""
        groups = None if self.groups is None else _numbered(self.groups[indices])
        of = _numbered(self.of[indices])
        return EqualInputs(of, n_before=self.n_before, groups=groups)

    def first(self) -> Tensor:
        """Return the index (m,) of the first sample with each input."""
        indices = int_range(len(self.of), self.of.device)
        last = torch.full_like(indices[: self.n_inputs], len(self.of))
        return last.scatter_reduce(0, self.of, indices, "amin")

    def most_samples(self, n_inputs: int) -> int:
        """Return how many samples so many different inputs have at most."""
        counts = self.of.bincount().sort(descending=True).values
        return int(counts[:n_inputs].sum())

    def counts(self) -> Tensor:
        """Return, for each sample (n,), the number of samples with its input."""
        return self.of.bincount()[self.of]

    def sum(self, values: Tensor) -> Tensor:
        """Return sums (m, ...), over the samples of each input, of values (n, ...)."""
        sums = values.new_zeros(self.n_inputs, *values.shape[1:])
        return sums.index_add_(0, self.of, values)

    def staying(self, weights: Tensor, shares: Tensor | None = None) -> Tensor:
        """Return the weight (n,) that stays at its input when a sample is left out.

        It is 0 if whole inputs are left out. If there are fewer than `FEWEST_INPUTS`,
        only one unit of the weight of the sample is left out, and the others stay. With
        further versions of images, or groups, these are always left out as a whole.
        Shares (n,) of samples in a mean noise, if given, divide the weights.
        """
        if self.has_blocks or not self.are_few:
            return torch.zeros_like(weights)
        unit = weights.clamp(max=1.0)
        if shares is not None:
            weights, unit = weights / shares, unit / shares
        return self.sum(weights)[self.of] - unit

    def removed(self, weights: Tensor) -> Tensor:
        """Return the weight (n_images,) of a sample that leaves when it is left out.

        It does not count other samples of its group.
        """
        totals = self.sum(weights)
        if self.n_versions == 1:
            return totals[self.of] - self.staying(weights)
        removed = torch.zeros_like(weights[: self.n_images])
        for images, members in self.versions():
            removed[images] = totals[members].sum(1)
        return removed

    def removed_of_class(self, weights: Tensor, codes: Tensor) -> Tensor:
        """Return the weight (n_images,) of its own class that leaves with a sample.

        Sample weights and class codes are (n,).
        """
        n_codes = int(codes.max()) + 1
        if self.groups is not None:
            of_rows = self.groups.repeat(self.n_versions)
            own = _numbered(of_rows * n_codes + codes.to(self.of))
            return own.bincount(weights)[own][: self.n_images]
        if self.n_versions == 1 and self.are_few:
            return weights.clamp(max=1.0)
        own = self.of * n_codes + codes.to(self.of)
        return replace(self, of=_numbered(own)).removed(weights)

    def class_factors(
        self, weights: Tensor, codes: Tensor, n_classes: int
    ) -> Tensor | None:
        """Return how much more of each class a sample alone would leave (n_images, c).

        A group takes its share of a class away: others then say less of that class.
        The factors are what is left of the class without the sample, over what is left
        without its group; 1 if nothing is left. None without groups.
        """
        if self.groups is None:
            return None
        n = self.n_images
        every = weights.reshape(self.n_versions, n).sum(0)
        own = torch.nn.functional.one_hot(codes[:n].to(self.of), n_classes)
        own = own * every[:, None]
        total = own.sum(0)
        of, groups = self.of[:n], self.groups
        of_input = torch.zeros_like(own).index_add_(0, of, own)[of]
        of_group = torch.zeros_like(own).index_add_(0, groups, own)[groups]
        left = total - of_group
        is_left = left > EMPTY * total
        return torch.where(is_left, (total - of_input) / left, 1.0)

    def leaving(self, values: Tensor, weights: Tensor) -> Tensor:
        """Return the parts (n, ...) of sums that leave with each left-out sample.

        The values (n, ...) are what each sample adds to a sum over observations at its
        input. The weights (n,) say how many observations a sample is.
        """
        if not self.are_few:
            return self.sum(values)[self.of]
        units = weights.clamp(min=1.0).reshape(-1, *[1] * (values.ndim - 1))
        return values / units

    def merge(self, targets: Tensor, weights: Tensor) -> MergedSamples:
        """Return one sample for each input, with the same posterior of the function.

        Targets are (n, k), sample weights (n,).
        """
        total = self.sum(weights)
        mean = self.sum(targets * weights[:, None]) / total[:, None]
        scatter = self.sum((targets - mean[self.of]).square() * weights[:, None])
        return MergedSamples(mean, total, scatter)


@dataclass(frozen=True)
class LeftOutBlocks:
    """Images that are left out in blocks of equally many distinct inputs."""

    images: Tensor  # (q,)
    which: Tensor  # (q,), the block that each of them is left out with
    members: Tensor  # (b, s), inputs of the blocks

    def of_images(self, is_wanted: Tensor) -> LeftOutBlocks:
        """Return the blocks of those images that are wanted (n_images,)."""
        chosen = is_wanted[self.images]
        used, which = torch.unique(self.which[chosen], return_inverse=True)
        return LeftOutBlocks(self.images[chosen], which, self.members[used])

    def split(self, n_blocks: int) -> Iterator[LeftOutBlocks]:
        """Yield parts of at most so many blocks."""
        for start in range(0, len(self.members), n_blocks):
            is_here = (self.which >= start) & (self.which < start + n_blocks)
            which = self.which[is_here] - start
            members = self.members[start : start + n_blocks]
            yield LeftOutBlocks(self.images[is_here], which, members)


@dataclass(frozen=True)
class MergedSamples:
    """One sample for each of several inputs."""

    targets: Tensor  # (m, k), weighted means of the targets of an input
    weights: Tensor  # (m,), sums of weights
    scatter: Tensor  # (m, k), weighted sums of squares around these means

    def take(self, indices: Any) -> MergedSamples:
        """Return the samples of the inputs at these indices."""
        return MergedSamples(
            self.targets[indices], self.weights[indices], self.scatter[indices]
        )


def _numbered(indices: Tensor) -> Tensor:
    """Return indices (n,), numbered again so that each number from 0 on occurs."""
    numbers: Tensor = torch.unique(indices, return_inverse=True)[1]
    return numbers
