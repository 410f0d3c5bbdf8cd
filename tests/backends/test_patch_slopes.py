"""Sums of responses with derivatives in closed form, beside torch's own graphs."""

import pytest
import torch

from skconvgp.backends._patch_responses import Responses
from skconvgp.backends._patch_slopes import own_sums, pooled_sums
from skconvgp.kernels import rbf

N, HEIGHT, WIDTH, M, SHAPE = 3, 4, 5, 6, (2, 2, 3)
SIZE = 12
EACH = torch.linspace(0.8, 1.6, SIZE, dtype=torch.float64)


def random(*size, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(*size, dtype=torch.float64, generator=generator)


def leaves(lengths, places):
    """Return inducing patches, lengthscales and factors, to be differentiated."""
    rows, columns = random(places, HEIGHT, seed=2), random(places, WIDTH, seed=3)
    weights = random(HEIGHT, WIDTH, seed=4) - 0.4
    given = random(M, *SHAPE, seed=1), lengths, weights, rows, columns
    return [one.clone().requires_grad_() for one in given]


def plain(x, z, lengths):
    difference = (x[..., None, :] - z) / lengths
    return torch.exp(-difference.square().sum(-1) / 2.0)


def kernel_of(lengths):
    return rbf(lengths if lengths.ndim == 0 else tuple(lengths.unbind()))


@pytest.mark.parametrize("places", [1, 3])
@pytest.mark.parametrize("lengths", [torch.tensor(1.2).double(), EACH])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_sums_of_responses(places, lengths, dtype):
    patches = random(N, HEIGHT, WIDTH, SIZE)
    given, slopes = leaves(lengths, places), random(N, places, places, M, seed=5) - 0.5
    z, length, weights, rows, columns = given
    found = plain(patches, z.flatten(1), length)
    expected = torch.einsum("nyxm,yx,ky,lx->nklm", found, weights, rows, columns)
    by_graph = torch.autograd.grad(expected, given, slopes)
    responses = Responses(kernel_of(length), z.to(dtype), "torch")
    sums = pooled_sums(responses, patches.to(dtype), weights, rows, columns)
    near = (
        {"rtol": 1e-10, "atol": 1e-12}
        if dtype == torch.float64
        else {"rtol": 1e-4, "atol": 1e-4}
    )
    torch.testing.assert_close(sums.double(), expected, **near)
    in_closed_form = torch.autograd.grad(sums, given, slopes.to(dtype))
    for one, other in zip(in_closed_form, by_graph, strict=True):
        torch.testing.assert_close(one, other, **near)


@pytest.mark.parametrize("lengths", [torch.tensor(1.2).double(), EACH])
def test_sums_over_pairs_of_an_image(lengths):
    patches, p = random(N, HEIGHT * WIDTH, SIZE), HEIGHT * WIDTH
    length = lengths.clone().requires_grad_()
    factors = random(p, p, seed=6)
    factors = (factors + factors.mT).requires_grad_()
    slopes = random(N, seed=7) - 0.5
    found = torch.stack([plain(one, one, length) for one in patches])
    expected = (found * factors).sum((1, 2))
    by_graph = torch.autograd.grad(expected, [length, factors], slopes)
    sums = own_sums(kernel_of(length), patches, factors)
    torch.testing.assert_close(sums, expected, rtol=1e-10, atol=1e-12)
    in_closed_form = torch.autograd.grad(sums, [length, factors], slopes)
    for one, other in zip(in_closed_form, by_graph, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


def test_tiles_change_nothing(monkeypatch):
    given = leaves(torch.tensor(1.2).double(), 2)
    z, length, *factors = given
    patches = random(N, HEIGHT, WIDTH, SIZE)

    def slopes():
        responses = Responses(rbf(length), z, "torch")
        sums = pooled_sums(responses, patches, *factors).square().sum()
        own = own_sums(rbf(length), patches.flatten(1, 2), torch.ones(20, 20).double())
        return torch.autograd.grad(sums + own.square().sum(), given)

    whole = slopes()
    module = "skconvgp.backends._patch_slopes.ENTRIES_AT_ONCE"
    monkeypatch.setattr(module, {"cpu": 1, "cuda": 1})
    for one, other in zip(slopes(), whole, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_derivatives_by_images_are_those_of_the_graph():
    patches = random(1, HEIGHT, WIDTH, *SHAPE).requires_grad_()
    responses = Responses(rbf(1.2), random(M, *SHAPE, seed=1), "torch")
    rows, columns = random(1, HEIGHT), random(1, WIDTH)

    def sums(given):
        return responses.pooled(given, None, rows, columns)

    assert torch.autograd.gradcheck(sums, [patches])
