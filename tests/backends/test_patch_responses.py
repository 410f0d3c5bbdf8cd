"""Responses of patches: what the extension and torch compute, against plain sums."""

import threading

import pytest
import torch

from skconvgp.backends import _fused_cpu, _patch_responses
from skconvgp.backends._patch_responses import Responses
from skconvgp.kernels import (
    Conv2d,
    Dense,
    Flatten,
    ReLU,
    Sequential,
    arcsine,
    matern,
    rbf,
)
from tests.helpers.fused import every_instruction_set, needs_extension

__all__ = ["every_instruction_set"]

BOUND = 2e-6  # of a response in single precision
NETWORK = Sequential(Conv2d(2, bias_variance=0.1), ReLU(), Flatten(), Dense())
STATIONARY = [rbf(1.3), matern(1.1, nu=0.5), matern(0.9, nu=1.5), matern(1.0, nu=2.5)]
# n, height and width of the grid, inducing patches, (c, h, w) of a patch
SIZES = [
    (1, 1, 1, 1, (1, 1, 1)),
    (2, 3, 7, 17, (3, 1, 1)),
    (1, 7, 2, 33, (2, 1, 13)),
    (3, 2, 5, 16, (1, 4, 4)),
    (2, 6, 6, 65, (1, 5, 5)),
]
every_base = pytest.mark.parametrize("base", STATIONARY, ids=repr)


def problem(n=2, height=3, width=7, m=17, shape=(1, 3, 3), dtype=torch.float32):
    """Return patches, among them equal ones, inducing patches and factors."""
    generator = torch.Generator().manual_seed(m)

    def random(*size):
        return torch.rand(*size, generator=generator, dtype=torch.float64).to(dtype)

    patches, inducing = random(n, height, width, *shape), random(m, *shape)
    patches[:, :, width // 2 :: 2] = 0.25
    patches[-1, -1] = patches[0, 0]
    inducing[0] = patches[0, 0, 0]
    inducing[-1] = 0.25
    near = patches[0, 0, 0] + 1e-3 * random(*shape)
    inducing[m // 2] = near.to(dtype)
    factors = random(height, width) - 0.3, random(2, height), random(5, width)
    return patches, inducing, *factors


def plain(base, patches, inducing):
    """Return the responses (n, y, x, m) in double precision, from differences."""
    difference = patches.double()[..., None, :, :, :] - inducing.double()
    difference = difference.flatten(-3)
    lengths = torch.as_tensor(base.lengthscale, dtype=torch.float64)
    r = (difference / lengths).square().sum(-1).sqrt()
    if isinstance(base, rbf):
        return torch.exp(-r * r / 2)
    s = (2 * base.nu) ** 0.5 * r
    tail = {0.5: 0 * s, 1.5: s, 2.5: s + s * s / 3}[base.nu]
    return (1 + tail) * torch.exp(-s)


def summed(values, weights, rows, columns):
    """Return the sums of responses, position after position."""
    total = 0.0
    for y in range(values.shape[1]):
        for x in range(values.shape[2]):
            place = rows[:, y, None].double() * columns[:, x].double()
            response = values[:, y, x, None, None] * weights[y, x].double()
            total = total + place[..., None] * response
    return total


def assert_near(found, expected, bound=BOUND):
    assert found.dtype == torch.float32
    assert found.shape == expected.shape
    assert (found - expected).abs().max() <= bound


def magnitude(weights, rows, columns):
    """Return the largest sum of the magnitudes of factors, (k, l) is the largest."""
    return (rows.abs() @ weights.abs() @ columns.abs().T).max().item()


@needs_extension
@every_base
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_responses_of_the_extension(base, size, every_instruction_set):
    patches, inducing, *factors = problem(*size)
    responses = Responses(base, inducing, "fused")
    expected = plain(base, patches, inducing)
    assert_near(responses.full(patches), expected)
    found = responses.pooled(patches, *factors)
    assert_near(found, summed(expected, *factors), BOUND * max(1, magnitude(*factors)))


@needs_extension
@every_base
@pytest.mark.parametrize("scale", [0.03, 0.3, 3.0, 30.0, 1e4])
def test_patches_of_any_size(base, scale, every_instruction_set):
    patches, inducing, *_ = problem()
    given = 100.0 + scale * patches, 100.0 + scale * inducing
    found = Responses(base, given[1], "fused").full(given[0])
    assert_near(found, plain(base, *given))


@needs_extension
@every_base
def test_value_of_equal_patches_is_one(base, every_instruction_set):
    _, inducing, *_ = problem(m=5)
    inducing[:] = 40.0 * inducing
    given = inducing[None, None]
    values = Responses(base, inducing, "fused").full(given)[0, 0]
    assert torch.equal(values.diagonal(), torch.ones(5))


@needs_extension
@pytest.mark.parametrize("kind", [rbf, matern])
def test_each_feature_has_a_lengthscale(kind, every_instruction_set):
    patches, inducing, *_ = problem()
    base = kind([0.5 + 0.2 * i for i in range(9)])
    found = Responses(base, inducing, "fused").full(patches)
    assert_near(found, plain(base, patches, inducing))


@needs_extension
def test_windows_need_not_be_copied(every_instruction_set):
    _, inducing, *factors = problem(height=6, width=7, shape=(2, 3, 2))
    images = torch.rand(3, 2, 8, 8, generator=torch.Generator().manual_seed(0))
    view = images.unfold(2, 3, 1).unfold(3, 2, 1).permute(0, 2, 3, 1, 4, 5)
    responses = Responses(rbf(1.0), inducing, "fused")
    copied = view.contiguous()
    assert torch.equal(responses.full(view), responses.full(copied))
    expected = responses.pooled(copied, *factors)
    assert torch.equal(responses.pooled(view, *factors), expected)
    assert torch.equal(responses.pooled(copied.flatten(3), *factors), expected)


@needs_extension
@pytest.mark.parametrize("n_blank", [0, 1, 40])
def test_repeated_patches_change_no_bit(n_blank, every_instruction_set):
    _, inducing, *factors = problem(height=5, width=9)
    generator = torch.Generator().manual_seed(n_blank)
    distinct = torch.rand(50, 1, 3, 3, generator=generator)
    distinct[0] = 0.0
    distinct[1] = -0.0
    chosen = torch.randint(50, (12, 5, 9), generator=generator)
    chosen[torch.rand(12, 5, 9, generator=generator) < n_blank / 50] = 0
    patches = distinct[chosen]
    responses = Responses(rbf(1.0), inducing, "fused")
    alone = torch.stack(
        [responses.full(one[None, None, None])[0, 0, 0] for one in distinct]
    )
    assert torch.equal(responses.full(patches), alone[chosen])
    together = responses.pooled(patches, *factors)
    each = [responses.pooled(own[None], *factors) for own in patches]
    assert torch.equal(together, torch.cat(each))


@needs_extension
def test_patches_of_equal_norm_are_told_apart(every_instruction_set):
    inducing = torch.tensor([[1.0, 0.0], [-1.0, 0.0]]).reshape(2, 2, 1, 1)
    patches = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [-1.0, 0.0]])
    patches = patches.repeat(6, 1).reshape(1, 6, 4, 2, 1, 1)
    found = Responses(rbf(1.0), inducing, "fused").full(patches)
    assert_near(found, plain(rbf(1.0), patches, inducing))


@needs_extension
@every_base
@pytest.mark.parametrize("size", [1.0, 1e3])
def test_nan_stays(base, size, every_instruction_set):
    patches, inducing, weights, rows, columns = problem()
    patches, inducing = size * patches, size * inducing
    patches[1, 2, 3, 0, 1, 1] = torch.nan
    values = Responses(base, inducing, "fused").full(patches)
    expected = torch.zeros(2, 3, 7, dtype=torch.bool)
    expected[1, 2, 3] = True
    assert torch.equal(values.isnan().all(-1), expected)
    assert torch.equal(values.isnan().any(-1), expected)
    sums = Responses(base, inducing, "fused").pooled(patches, weights, rows, columns)
    assert not sums[0].isnan().any()
    assert sums[1].isnan().all()
    weights[0, 0] = torch.nan
    patches[1, 2, 3] = 0.0
    sums = Responses(base, inducing, "fused").pooled(patches, weights, rows, columns)
    assert sums.isnan().all()


@needs_extension
@pytest.mark.parametrize("m", [96, 97])
def test_many_responses_go_past_the_cache(m, every_instruction_set):
    patches = torch.rand(
        1, 200, 55, 2, 1, 1, generator=torch.Generator().manual_seed(0)
    )
    inducing = patches[0, 0, :1].expand(m, 2, 1, 1) + torch.arange(m).view(m, 1, 1, 1)
    found = Responses(rbf(9.0), inducing, "fused").full(patches)
    assert found.numel() > 2**20
    assert_near(found, plain(rbf(9.0), patches, inducing))


@needs_extension
@pytest.mark.parametrize(
    ("place", "shape", "what"),
    [
        (1, (17, 8), "inducing patches"),
        (2, (8,), "scale"),
        (3, (10,), "scale"),
        (5, (3, 6), "weights"),
        (5, (2, 7), "weights"),
        (6, (2, 4), "weights"),
        (7, (5, 8), "weights"),
        (7, (0, 7), "places"),
        (8, (2, 2, 5, 16), "result"),
        (8, (2, 3, 7, 17), "result"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(place, shape, what):
    patches, inducing, *factors = problem()
    given = [patches, inducing.flatten(1), torch.zeros(9), torch.ones(9), 0, *factors]
    given += [torch.empty(2, 2, 5, 17), ""]
    given[place] = torch.zeros(shape)
    with pytest.raises(ValueError, match=what):
        _fused_cpu._native.patch_responses(*given)


@needs_extension
@pytest.mark.parametrize("code", [-1, 4])
def test_a_covariance_that_there_is_not_is_refused(code):
    patches, inducing, *factors = problem()
    head = patches, inducing.flatten(1), torch.zeros(9), torch.ones(9), code
    with pytest.raises(ValueError, match="covariance"):
        _fused_cpu._native.patch_responses(
            *head, *factors, torch.empty(2, 2, 5, 17), ""
        )


@needs_extension
def test_threads_share_nothing():
    patches, inducing, *factors = problem(n=24, height=8, width=9, m=40)
    responses = Responses(rbf(1.0), inducing, "fused")
    expected = responses.pooled(patches, *factors)
    found = [None] * 8

    def work(k):
        part = slice(3 * k, 3 * k + 3)
        for _ in range(20):
            found[k] = responses.pooled(patches[part], *factors)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torch.equal(torch.cat(found), expected)


@pytest.mark.parametrize("entries", [1, 200, 400, 10**6])
@every_base
def test_torch_computes_in_pieces_of_any_size(base, entries, monkeypatch):
    monkeypatch.setitem(_patch_responses.ENTRIES_AT_ONCE, "cpu", entries)
    patches, inducing, *factors = problem(5, dtype=torch.float64)
    responses = Responses(base, inducing)
    values = plain(base, patches, inducing)
    torch.testing.assert_close(responses.full(patches), values, atol=3e-8, rtol=0)
    found = responses.pooled(patches, *factors)
    torch.testing.assert_close(found, summed(values, *factors), atol=3e-7, rtol=0)
    weightless = responses.pooled(patches.flatten(3), None, *factors[1:])
    ones = torch.ones_like(factors[0])
    torch.testing.assert_close(
        weightless, responses.pooled(patches, ones, *factors[1:])
    )


@pytest.mark.parametrize("base", [NETWORK, arcsine(), rbf(0.7) + arcsine()], ids=repr)
def test_torch_computes_those_of_any_kernel(base):
    patches, inducing, *_ = problem(dtype=torch.float64)
    images = patches.flatten(0, 2)
    expected = base.cross(base.prepare(images), base.prepare(inducing))
    found = Responses(base, inducing).full(patches)
    torch.testing.assert_close(found.flatten(0, 2), expected)


def test_torch_is_differentiable():
    given = problem(1, 2, 3, 4, (1, 2, 2), dtype=torch.float64)
    given[1].add_(0.01)  # no root at 0
    given = [one.requires_grad_() for one in given]

    def pooled(patches, inducing, weights, rows, columns, lengthscale):
        responses = Responses(rbf(lengthscale), inducing)
        return responses.pooled(patches, weights, rows, columns)

    lengthscale = torch.tensor(0.8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(pooled, (*given, lengthscale))


@needs_extension
@pytest.mark.parametrize(
    ("base", "change", "reason"),
    [
        (arcsine(), {}, "neither rbf nor matern"),
        (rbf(torch.tensor(1.0, requires_grad=True)), {}, "derivatives"),
        (rbf(1.0), {"requires_grad": True}, "derivatives"),
        (rbf(1.0), {"dtype": torch.float64}, "not float32"),
        (rbf(1.0), {"device": "meta"}, "not the CPU"),
    ],
)
def test_why_torch_computes(base, change, reason):
    patches, inducing, *factors = problem()
    patches = torch.empty_like(patches, **change)
    assert Responses(rbf(1.0), inducing).why_torch(problem()[0], *factors) == ""
    assert reason in Responses(base, inducing).why_torch(patches)
    with pytest.raises(ValueError, match=rf"cannot compute .*{reason}"):
        Responses(base, inducing, "fused").full(patches)


def test_without_the_extension_torch_computes(monkeypatch):
    monkeypatch.setattr(_fused_cpu, "_MISSING", "the compiled extension is not there")
    patches, inducing, *_ = problem()
    values = Responses(rbf(1.3), inducing).full(patches)
    assert_near(values, plain(rbf(1.3), patches, inducing), 1e-5)
    with pytest.raises(ValueError, match="extension is not there"):
        Responses(rbf(1.3), inducing, "fused").full(patches)
