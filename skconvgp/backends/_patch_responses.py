"""Responses of the patches of images to inducing patches, and their weighted sums."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from skconvgp.backends._fused_cpu import (
    instruction_set,
    missing_extension,
    patch_responses,
)
from skconvgp.backends._patch_slopes import pooled_sums
from skconvgp.kernels import Kernel, matern, rbf
from skconvgp.kernels._checks import as_items

__all__ = ["Responses", "ResponsesChoice", "choose_responses"]

# Of torch: what stays in a core's cache, and what keeps a GPU busy.
ENTRIES_AT_ONCE = {"cpu": 2**18, "cuda": 2**26}


@dataclass(frozen=True)
class Responses:
    """Covariances k(x, z) of the patches x of images with inducing patches z.

    The compiled extension computes those of `rbf` and `matern` in float32 on the CPU
    if nothing is differentiated. Torch computes all others.
    """

    base: Kernel  # covariance of two patches, without settings that follow from data
    inducing: Tensor  # (m, c, h, w)
    # "torch", "fused" or "auto": the extension where it can compute them.
    backend: str = "auto"

    def pooled(
        self, patches: Tensor, weights: Tensor | None, rows: Tensor, columns: Tensor
    ) -> Tensor:
        """Add up the responses of an image's patches, weighted by their positions.

        The patches (n, y, x, c, h, w) or (n, y, x, d) of n images stand on a grid; a
        view of any strides will do. The factors are `weights` (y, x), of which None is
        1, `rows` (k, y) and `columns` (l, x). The sums (n, k, l, m) add up
        rows[k, y] columns[l, x] weights[y, x] k(x, z_m).
        """
        if weights is None:
            weights = rows.new_ones(patches.shape[1:3])
        factors = weights, rows, columns
        if self._has_slopes(patches, *factors):
            return pooled_sums(self, patches.flatten(3), *factors)
        if self.is_fused(patches, *factors):
            shape = len(patches), len(rows), len(columns)
            return self._fused(patches, shape, factors)
        by_position = weights[:, None] * columns
        found = []
        for images in self._images_at_once(patches):
            sums = [
                torch.einsum("ylx,nyxm->nylm", by_position[part], self._responses(own))
                for part, own in self._rows_at_once(images)
            ]
            found.append(torch.einsum("ky,nylm->nklm", rows, torch.cat(sums, 1)))
        return torch.cat(found)

    def by_position(
        self,
        patches: Tensor,
        weights: Tensor,
        rows: Tensor,
        columns: Tensor,
        factors: Tensor,
    ) -> Tensor:
        """Return what each patch adds (n, y, x) to the weighted sum of `pooled`.

        The weights of that sum are `factors` (k, l, m), in whose precision terms are
        added up; the others are those of `pooled`.
        """
        found = []
        for images in self._images_at_once(patches):
            terms = []
            for part, own in self._rows_at_once(images):
                at = torch.einsum("ky,lx,klm->yxm", rows[:, part], columns, factors)
                at *= weights[part, :, None]
                terms.append(torch.einsum("nyxm,yxm->nyx", self.full(own).to(at), at))
            found.append(torch.cat(terms, 1))
        return torch.cat(found)

    def full(self, patches: Tensor) -> Tensor:
        """Return the responses (n, y, x, m) of patches (n, y, x, c, h, w)."""
        if self.is_fused(patches):
            return self._fused(patches, patches.shape[:3], None)
        found = []
        for images in self._images_at_once(patches):
            parts = self._rows_at_once(images)
            found.append(torch.cat([self._responses(own) for _, own in parts], 1))
        return torch.cat(found)

    def why_torch(self, *given: Tensor) -> str:
        """Say why torch computes from these tensors; empty if the extension does."""
        tensors = *given, self.inducing
        if any(one.device.type != "cpu" for one in tensors):
            return "the device is not the CPU"
        if any(one.dtype != torch.float32 for one in tensors):
            return "the precision is not float32"
        if not isinstance(self.base, rbf | matern):
            return f"the kernel of patches is {self.base!r}, neither rbf nor matern"
        settings = as_items(self.base.lengthscale)
        differentiable = [*tensors, *filter(torch.is_tensor, settings)]
        if torch.is_grad_enabled() and any(one.requires_grad for one in differentiable):
            return "derivatives are asked for"
        return missing_extension()

    def _has_slopes(self, patches: Tensor, *factors: Tensor) -> bool:
        """Return whether derivatives are wanted, and known in closed form."""
        if type(self.base) is not rbf or patches.requires_grad:
            return False
        given = *factors, self.inducing, *as_items(self.base.lengthscale)
        tensors = filter(torch.is_tensor, given)
        return torch.is_grad_enabled() and any(one.requires_grad for one in tensors)

    def is_fused(self, *given: Tensor) -> bool:
        """Return whether the extension computes; raise if it was asked for and cannot.

        The arguments are the patches and the factors.
        """
        if self.backend == "torch":
            return False
        reason = self.why_torch(*given)
        if reason and self.backend == "fused":
            raise ValueError(
                f"backend='fused' cannot compute the responses of these patches: "
                f"{reason}. Use backend='auto' or 'torch'."
            )
        return not reason

    def _fused(
        self,
        patches: Tensor,
        shape: tuple[int, ...],
        factors: tuple[Tensor, Tensor, Tensor] | None,
    ) -> Tensor:
        assert isinstance(self.base, rbf | matern)
        return patch_responses(self.base, self.inducing, patches, shape, factors)

    def _entries_at_once(self, patches: Tensor) -> int:
        """Return how many responses to a patch of each position torch computes."""
        _, c, h, w = self.inducing.shape
        entries = ENTRIES_AT_ONCE.get(patches.device.type, ENTRIES_AT_ONCE["cuda"])
        a_position = self.base.n_positions((c, h, w)) * len(self.inducing)
        return entries // (a_position * patches.shape[2])

    def _images_at_once(self, patches: Tensor) -> Iterator[Tensor]:
        """Split patches into images whose responses stay in cache together."""
        n = max(1, self._entries_at_once(patches) // patches.shape[1])
        for first in range(0, len(patches), n):
            yield patches[first : first + n]

    def _rows_at_once(self, patches: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Split the rows of the grid of a few images, if one image is too large."""
        n = max(1, self._entries_at_once(patches))
        for first in range(0, patches.shape[1], n):
            part = slice(first, first + n)
            yield part, patches[:, part]

    def _responses(self, patches: Tensor) -> Tensor:
        """Return the responses (n, y, x, m) as torch computes them, all at once."""
        images = patches.reshape(-1, *self.inducing.shape[1:])
        # The first side is what distances are centred at: it must not be the batch.
        prepared = self.base.prepare(self.inducing), self.base.prepare(images)
        values = self.base.cross(*prepared)
        # Networks add up their means over positions in double precision.
        values = values.to(patches.dtype)
        return values.mT.reshape(*patches.shape[:3], len(self.inducing))


@dataclass(frozen=True)
class ResponsesChoice:
    """Backend of responses to patches, and the reason if it is not the fused one."""

    name: str  # "fused" or "torch"
    reason: str = ""  # why torch computes; empty if it does not, or was asked for
    instruction_set: str = ""  # of the extension; empty for torch


def choose_responses(
    base: Kernel, backend: str, device: torch.device, dtype: torch.dtype
) -> ResponsesChoice:
    """Return the backend of responses to patches, with the words of `Responses`.

    With "fused", raises a `ValueError` if the extension cannot compute them.
    """
    like = torch.empty(0, dtype=dtype, device=device)
    responses = Responses(base, like, backend)
    with torch.no_grad():
        if responses.is_fused():
            return ResponsesChoice("fused", instruction_set=instruction_set())
        reason = "" if backend == "torch" else responses.why_torch()
    return ResponsesChoice("torch", reason)
