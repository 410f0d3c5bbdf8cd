"""Sums over the responses of patches, with derivatives that hold one tile at a time.

Derivatives of the squared exponential need no distances: with H the responses times the
derivatives by them, and patches x and z in units of the lengthscale,
sum_pm H_pm (x_p - z_m) = H^T x - (H^T 1) z, and squares follow in the same way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from skconvgp._tensors import reals
from skconvgp.kernels import rbf
from skconvgp.kernels._checks import as_items

__all__ = ["own_sums", "pooled_sums"]

ENTRIES_AT_ONCE = {"cpu": 2**21, "cuda": 2**26}  # responses of a tile


def pooled_sums(
    responses: Any,
    patches: Tensor,
    weights: Tensor,
    rows: Tensor,
    columns: Tensor,
) -> Tensor:
    """Return the sums (n, k, l, m) of `Responses.pooled`, with derivatives.

    The base kernel is `rbf`. They are differentiable by its lengthscale, by inducing
    patches, and by all factors, and computed in the precision of the patches
    (n, y, x, d), which stay.
    """
    lengths = _lengths(responses.base, patches)
    given = responses.inducing.flatten(1), lengths, weights, rows, columns
    return _Pooled.apply(responses, patches, *given)  # type: ignore[no-any-return, no-untyped-call]


def own_sums(base: rbf, patches: Tensor, factors: Tensor) -> Tensor:
    """Return the sum of the covariances of an image's patches, times factors.

    The patches are (n, p, d), factors are (p, p). The sums (n,) are differentiable by
    factors, and by the lengthscale of the base kernel.
    """
    lengths = _lengths(base, patches)
    return _Own.apply(patches, lengths, factors)  # type: ignore[no-any-return, no-untyped-call]


def _lengths(base: rbf, like: Tensor) -> Tensor:
    """Return the lengthscales (1,) or (d,) of a kernel, differentiable."""
    items = as_items(base.lengthscale)
    if isinstance(base.lengthscale, Tensor):
        return base.lengthscale.reshape(-1)
    tensors = [one if isinstance(one, Tensor) else reals(one) for one in items]
    return torch.stack([one.to(like.device) for one in tensors])


class _Pooled(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        responses: Any,
        patches: Tensor,
        inducing: Tensor,
        lengths: Tensor,
        weights: Tensor,
        rows: Tensor,
        columns: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(patches, inducing, lengths, weights, rows, columns)
        factors = (one.to(patches) for one in (weights, rows, columns))
        sums: Tensor = responses.pooled(patches, *factors)
        return sums

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_sums: Tensor) -> tuple[Tensor | None, ...]:
        patches, *saved = ctx.saved_tensors
        inducing, lengths, weights, rows, columns = (one.to(patches) for one in saved)
        centre = inducing.mean(0)
        z = (inducing - centre) / lengths
        half = z.square().sum(1) / 2.0
        totals = [torch.zeros_like(one) for one in (z, weights, rows, columns)]
        by_z, by_weights, by_rows, by_columns = totals
        by_length, weighed = torch.zeros_like(z[0]), weights[:, :, None]
        for part in _images_at_once(patches, len(z)):
            own, slope = patches[part], by_sums[part].to(patches)
            x = ((own - centre) / lengths).flatten(0, 2)
            found = _responses(x, z, half).reshape(*own.shape[:3], len(z))
            in_row = torch.einsum("ky,nklm->nylm", rows, slope)
            if ctx.needs_input_grad[5]:
                along = torch.einsum("yx,lx,nyxm->nylm", weights, columns, found)
                by_rows += torch.einsum("nylm,nklm->ky", along, slope)
            if ctx.needs_input_grad[6]:
                weighted = torch.einsum("nylm,nyxm->lyx", in_row, found) * weights
                by_columns += weighted.sum(1)
            found *= torch.einsum("lx,nylm->nyxm", columns, in_row)
            if ctx.needs_input_grad[4]:
                by_weights += found.sum((0, 3))
            found *= weighed
            flat = found.flatten(0, 2)
            products, sums = flat.mT @ x, flat.sum(0)
            by_z += products - sums[:, None] * z
            squares = flat.sum(1) @ x.square() + sums @ z.square()
            by_length += squares - 2.0 * (products * z).sum(0)
        return (
            None,
            None,
            _like(by_z / lengths, saved[0]),
            _like(_of_lengths(by_length, lengths), saved[1]),
            *(_like(*pair) for pair in zip(totals[1:], saved[2:], strict=True)),
        )


class _Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, patches: Tensor, lengths: Tensor, factors: Tensor) -> Tensor:
        ctx.save_for_backward(patches, lengths, factors)
        plain = factors.to(patches)
        sums = [
            torch.einsum("npq,pq->n", _own_responses(x), plain)
            for _, x in _scaled(patches, lengths)
        ]
        return torch.cat(sums)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_sums: Tensor) -> tuple[Tensor | None, ...]:
        patches, lengths, factors = ctx.saved_tensors
        plain, by_factors = factors.to(patches), torch.zeros_like(factors).to(patches)
        by_length = torch.zeros_like(patches[0, 0])
        for part, x in _scaled(patches, lengths):
            found = _own_responses(x)
            found *= by_sums[part].to(found)[:, None, None]
            by_factors += found.sum(0)
            found *= plain
            sums = found.sum(1) + found.sum(2)
            by_length += torch.einsum("np,npk->k", sums, x.square())
            by_length -= 2.0 * ((found @ x) * x).sum((0, 1))
        by_lengths = _of_lengths(by_length, lengths.to(patches))
        return None, _like(by_lengths, lengths), _like(by_factors, factors)


def _scaled(patches: Tensor, lengths: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Yield images of a tile with patches (n, p, d) in units of the lengthscale."""
    for part in _images_at_once(patches[:, None], patches.shape[1]):
        own = patches[part]
        yield part, (own - own.mean((0, 1))) / lengths.to(patches)


def _own_responses(x: Tensor) -> Tensor:
    """Return the squared exponential (n, p, p) of patches of the same image."""
    half = x.square().sum(2) / 2.0
    found = torch.baddbmm(half[:, None, :], x, x.mT, alpha=-1.0)
    found += half[:, :, None]
    return found.clamp_(min=0.0).neg_().exp_()


def _responses(x: Tensor, z: Tensor, half: Tensor) -> Tensor:
    """Return the squared exponential (p, m), given half the squared norms of z."""
    found = torch.addmm(half, x, z.mT, alpha=-1.0)
    found += x.square().sum(1, keepdim=True) / 2.0
    return found.clamp_(min=0.0).neg_().exp_()


def _of_lengths(by_length: Tensor, lengths: Tensor) -> Tensor:
    """Return derivatives by lengthscales; one may hold for all numbers (d,)."""
    return (by_length if len(lengths) > 1 else by_length.sum()[None]) / lengths


def _like(slope: Tensor, given: Tensor) -> Tensor:
    return slope.to(given)


def _images_at_once(patches: Tensor, n_inducing: int) -> Iterator[slice]:
    """Yield the images of a tile, whose responses are held."""
    entries = ENTRIES_AT_ONCE.get(patches.device.type, ENTRIES_AT_ONCE["cuda"])
    n = max(1, entries // (patches.shape[1] * patches.shape[2] * n_inducing))
    for first in range(0, len(patches), n):
        yield slice(first, first + n)
