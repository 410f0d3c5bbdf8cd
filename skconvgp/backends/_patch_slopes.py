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

ENTRIES_AT_ONCE = {"cpu": 2**19, "cuda": 2**26}  # responses of a tile


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
    factors, which are symmetric, and by the lengthscale of the base kernel.
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
        totals = [torch.zeros_like(one) for one in (z, weights, rows, columns)]
        by_z, by_weights, by_rows, by_columns = totals
        by_length, right = torch.zeros_like(z[0]), _right(z)
        is_one = len(rows) == len(columns) == 1  # then derivatives are of all positions
        at = rows.mT * columns if is_one else torch.ones_like(weights)
        for part in _images_at_once(patches, len(z)):
            own, slope = patches[part], by_sums[part].to(patches)
            x = ((own - centre) / lengths).flatten(0, 2)
            found = (_left(x) @ right.mT).exp_().reshape(*own.shape[:3], len(z))
            in_row = None if is_one else torch.einsum("ky,nklm->nylm", rows, slope)
            if ctx.needs_input_grad[5]:
                along = torch.einsum("yx,lx,nyxm->nylm", weights, columns, found)
                by_rows += torch.einsum("nylm,nklm->ky", along, slope)
            if ctx.needs_input_grad[6]:
                along = torch.einsum("ky,nklm->nylm", rows, slope)
                weighted = torch.einsum("nylm,nyxm->lyx", along, found) * weights
                by_columns += weighted.sum(1)
            if in_row is None:
                found *= slope
            else:
                found *= torch.einsum("lx,nylm->nyxm", columns, in_row)
            flat = found.flatten(0, 2)
            of_patches = (flat @ torch.ones_like(right[:, 0])).reshape(found.shape[:3])
            by_weights += (of_patches * at).sum(0)
            weighed = (at * weights).expand_as(of_patches).flatten()
            products = flat.mT @ (_with_ones(x) * weighed[:, None])
            sums, products = products[:, -1], products[:, :-1]
            by_z += products - sums[:, None] * z
            squares = (of_patches.flatten() * weighed) @ x.square() + sums @ z.square()
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
        plain = factors.to(patches).flatten()
        sums = [
            _own_responses(x).flatten(1) @ plain for _, x in _scaled(patches, lengths)
        ]
        return torch.cat(sums)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_sums: Tensor) -> tuple[Tensor | None, ...]:
        patches, lengths, factors = ctx.saved_tensors
        plain, by_factors = factors.to(patches), torch.zeros_like(factors).to(patches)
        by_length = torch.zeros_like(patches[0, 0])
        for part, x in _scaled(patches, lengths):
            found, own = _own_responses(x), by_sums[part].to(patches)
            by_factors += (own @ found.flatten(1)).reshape(by_factors.shape)
            found *= plain
            products = (found @ _with_ones(x)) * own[:, None, None]
            sums, products = products[:, :, -1:], products[:, :, :-1]
            by_length += 2.0 * (sums * x.square() - products * x).sum((0, 1))
        by_lengths = _of_lengths(by_length, lengths.to(patches))
        return None, _like(by_lengths, lengths), _like(by_factors, factors)


def _scaled(patches: Tensor, lengths: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Yield images of a tile with patches (n, p, d) in units of the lengthscale."""
    for part in _images_at_once(patches[:, None], patches.shape[1]):
        own = patches[part]
        yield part, (own - own.mean((0, 1))) / lengths.to(patches)


def _own_responses(x: Tensor) -> Tensor:
    """Return the squared exponential (n, p, p) of patches of the same image."""
    return (_left(x) @ _right(x).mT).exp_()


def _left(x: Tensor) -> Tensor:
    """Return what gives -|x - z|^2 / 2 by a product with that of `_right`."""
    half = x.square().sum(-1, keepdim=True) / -2.0
    return torch.cat([x, half, torch.ones_like(half)], -1)


def _right(z: Tensor) -> Tensor:
    half = z.square().sum(-1, keepdim=True) / -2.0
    return torch.cat([z, torch.ones_like(half), half], -1)


def _with_ones(x: Tensor) -> Tensor:
    return torch.cat([x, torch.ones_like(x[..., :1])], -1)


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
