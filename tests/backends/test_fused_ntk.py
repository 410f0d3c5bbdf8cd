"""The neural tangent kernel in the compiled extension: a second map of a pair."""

import pytest
import torch

from skconvgp.backends import (
    ReverseTangentBackend,
    TangentBackend,
    choose_backend,
    choose_pullback,
)
from skconvgp.backends._fused_cpu import instruction_sets
from skconvgp.backends._program import lower
from skconvgp.exceptions import NotFusableError
from skconvgp.kernels import (
    Dense,
    Flatten,
    LeakyReLU,
    MaxNormalization,
    ReLU,
    Sequential,
    convnet,
    convnet_gap,
    dense,
    myrtle,
    residual_convnet,
    resnet32,
)
from tests.backends import test_fused_pools as pools
from tests.helpers import fused as flat
from tests.helpers.all_pairs import tangent_gram, waves
from tests.helpers.fused import (
    DTYPES,
    LANES,
    SHAPE,
    assert_within,
    fused,
    hard_images,
    images,
    lanes,
    needs_extension,
    reference,
    tile,
    variances,
)
from tests.helpers.published_pools import PUBLISHED, TANGENTS

pytestmark = needs_extension
CPU = torch.device("cpu")
BOUNDS = {torch.float32: 2e-5, torch.float64: 1e-9}
DIAG_BOUND = 1e-11


def of_kind_ntk(kernel):
    return Sequential(*kernel.layers, kind="ntk")


FLAT = {
    name: (of_kind_ntk(kernel), shape)
    for name, (kernel, shape) in flat.NETWORKS.items()
    if isinstance(kernel, Sequential)
}
NAMED = {
    "convnet": (convnet(3, 3, kind="ntk"), SHAPE),
    "convnet of windows of 7": (convnet(2, 7, kind="ntk"), SHAPE),
    "dense": (dense(kind="ntk"), (9, 1, 1)),
    "residual convnet": (residual_convnet(4, kind="ntk"), SHAPE),
    "resnet32": (resnet32(bias_variance=0.2, kind="ntk"), (3, 5, 6)),
    "gap": (convnet_gap(3, lattice=2, kind="ntk"), SHAPE),
    "myrtle": (myrtle(kind="ntk"), (3, 8, 8)),
    "nothing before activations": (
        Sequential(ReLU(), Flatten(), Dense(), Dense(), LeakyReLU(0.3), kind="ntk"),
        SHAPE,
    ),
    "nothing trained": (Sequential(ReLU(), Flatten(), kind="ntk"), SHAPE),
    "scaled sum": (
        2.0 * convnet(1, 3, kind="ntk") + dense(1, bias_variance=0.5, kind="ntk"),
        SHAPE,
    ),
    "exact scale": (
        MaxNormalization(convnet(1, 3, kind="ntk"), mode="exact", scale=4.0),
        SHAPE,
    ),
}
POOLED, OVERLAPPING = (
    {name: (of_kind_ntk(kernel), pools.SHAPE) for name, kernel in networks.items()}
    for networks in (pools.NETWORKS, pools.OVERLAPPING)
)
NETWORKS = FLAT | {f"named {name}": item for name, item in NAMED.items()}


def assert_tangents(kernel, shape, given):
    """Compare with torch in double precision, with all instruction sets."""
    expected, diag = reference(kernel, given)
    for dtype in DTYPES:
        backend = fused(kernel, shape)
        assert_within(tile(backend, given.to(dtype)), expected, diag, BOUNDS[dtype])
        error = (variances(backend, given.to(dtype)) - diag).abs()
        assert bool((error <= DIAG_BOUND * diag).all()), (error / diag).max()


@pytest.fixture(params=[*instruction_sets(), LANES])
def isa(request, monkeypatch):
    """Compute with each instruction set of this processor, and as a GPU does."""
    monkeypatch.setattr("skconvgp.backends._fused_cpu.INSTRUCTION_SET", request.param)
    return request.param


@pytest.mark.parametrize("name", NETWORKS)
def test_torch_gives_the_same_values(name, isa):
    kernel, shape = NETWORKS[name]
    assert_tangents(kernel, shape, images(6, shape).float())


@pytest.mark.parametrize("name", POOLED)
def test_torch_gives_the_same_averages(name, isa):
    kernel, shape = POOLED[name]
    assert_tangents(kernel, shape, images(6, shape).float())


@pytest.mark.parametrize("isa", instruction_sets())
@pytest.mark.parametrize("name", OVERLAPPING)
def test_torch_gives_the_same_averages_of_windows_that_overlap(name, isa, monkeypatch):
    monkeypatch.setattr("skconvgp.backends._fused_cpu.INSTRUCTION_SET", isa)
    kernel, shape = OVERLAPPING[name]
    assert_tangents(kernel, shape, images(6, shape).float())


@pytest.mark.parametrize("name", ["pools apart", "branches"])
def test_kernel_is_the_change_when_weights_become_less_alike(name):
    kernel, shape = POOLED[name]
    given = images(3, shape)
    found = tile(fused(kernel, shape), given)
    expected = torch.as_tensor(tangent_gram(kernel, given))
    away = ~torch.eye(3, dtype=torch.bool)
    torch.testing.assert_close(found[away], expected[away], rtol=1e-6, atol=0.0)


@pytest.mark.parametrize("name", PUBLISHED)
def test_values_that_were_published(name):
    network, _, size = PUBLISHED[name]
    kernel = Sequential(*network.layers, kind="ntk")
    backend = fused(kernel, (3, size, size))
    given, expected = waves(3, 3, size, size), TANGENTS[name]
    assert tile(backend, given)[0].tolist() == pytest.approx(expected, rel=1e-11)
    found = variances(backend, given[:1])
    assert found.tolist() == pytest.approx(expected[:1], rel=1e-11)


@pytest.mark.parametrize("name", ["named convnet", "leaky", "named gap"])
def test_equal_and_similar_images(name, isa):
    kernel, shape = NETWORKS[name]
    given = hard_images(shape)[[0, 1, 2, 3, 8, 9, 10, 11]]
    expected, diag = reference(kernel, given)
    for dtype, bound in {torch.float32: 3e-4, torch.float64: 1e-7}.items():
        found = tile(fused(kernel, shape), given.to(dtype))
        assert_within(found, expected, diag, bound)
        assert torch.equal(found[0, 1], found[0, 0])
        torch.testing.assert_close(found[0, 1], expected[0, 1], rtol=1e-6, atol=0.0)


@pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])
@pytest.mark.parametrize(
    "name", ["named convnet", "branches", "erf", "named dense", "named myrtle"]
)
def test_a_pair_has_the_same_bits_in_every_tile(name, dtype, isa):
    kernel, shape = NETWORKS[name]
    n = lanes(isa, dtype) + 3
    backend, given = fused(kernel, shape), images(n, shape).to(dtype)
    given[n - 1] = given[2]
    whole = tile(backend, given)
    for i, j in [(0, n - 3), (2, 1), (n - 2, 0)]:
        part = tile(backend, given[i : i + 2], given[j : j + 3])
        assert torch.equal(part, whole[i : i + 2, j : j + 3])
    prepared = backend.prepare(given)
    diag, upper = backend.diag(prepared), backend.gram(prepared)
    assert torch.equal(whole[n - 1, 2], diag[2])
    rows, cols = torch.triu_indices(n, n)
    assert torch.equal(upper[rows, cols], whole[rows, cols])
    assert torch.equal(whole[range(n), range(n)], diag)


def test_torch_computes_derivatives():
    kernel, given = convnet(1, 3, kind="ntk"), images(3, (1, 4, 4))
    choice = choose_backend(kernel, (1, 4, 4), "auto", CPU)
    assert (choice.name, choice.has_tangents) == ("fused", False)
    assert isinstance(choice.tangents(), ReverseTangentBackend)
    weights = torch.ones(3, 3, dtype=torch.float64)
    pulled = choose_pullback(choice, has_inputs=False).pull(given, None, weights)
    by_theta = tile(TangentBackend(kernel), given)[..., 1:]
    total = by_theta[*torch.triu_indices(3, 3)].sum(0)
    torch.testing.assert_close(pulled.by_theta, total, rtol=1e-10, atol=0.0)


def test_sums_of_both_kinds_are_not_lowered():
    mixed = convnet(1, 3, kind="ntk") + convnet(1, 3)
    with pytest.raises(NotFusableError, match="sums of both kinds"):
        lower(mixed, (1, 4, 4))
