"""Kernels for a GPU, whole, on the processor: generated source, launches, grid.

The arithmetic is that of the instruction set "lanes", and so are the values, to the
last bit.
"""

import pytest
import torch

from skconvgp.backends._cuda_source import cuda_source, layout_of
from skconvgp.backends._fused import FusedBackend, FusedTangentBackend
from skconvgp.backends._fused_cpu import Extension
from skconvgp.backends._fused_cuda import Gpu
from skconvgp.backends._program import lower, lower_with_tangents
from skconvgp.engine import KernelOracle
from skconvgp.kernels import convnet
from tests.backends.test_fused_ntk import NETWORKS as TANGENTS
from tests.backends.test_fused_pools import NETWORKS as POOLED
from tests.backends.test_fused_pools import SHAPE, WIDTHS
from tests.helpers.fused import (
    LANES,
    MNIST_NETWORKS,
    NETWORKS,
    assert_within,
    hard_images,
    images,
    large_digits,
    needs_extension,
    reference,
    tile,
)
from tests.helpers.gpu import GPU_BOUNDS
from tests.helpers.host_kernel import HostKernel, has_no_compiler, on_host
from tests.helpers.tiles import config, small_tiles

HOST = Gpu(torch.device("cpu"))
pytestmark = [
    needs_extension,
    pytest.mark.skipif(has_no_compiler, reason="there is no C++ compiler here"),
]


@pytest.fixture(autouse=True)
def host(monkeypatch, tmp_path):
    """Compile kernels for the processor, and compute tables as "lanes" does."""
    monkeypatch.setattr("skconvgp.backends._fused_cpu.INSTRUCTION_SET", LANES)
    on_host(monkeypatch, tmp_path)


# A compiler runs for each network.
IN_SINGLE = [name for i, name in enumerate(NETWORKS) if i % 3 == 0 or "erf" in name]
IN_DOUBLE = ["erf", "branches", "windows of all kinds"]
WITH_DERIVATIVES = ["branches", "sum of networks", "erf", "resnet32, bias", "leaky"]


def first_of(*names):
    """Let the gate compile these, and the slow tests all other networks."""
    others = [name for name in NETWORKS if name not in names]
    slow = [pytest.param(name, marks=pytest.mark.slow) for name in others]
    return pytest.mark.parametrize("name", [*names, *slow])


@first_of(*IN_SINGLE)
def test_values_are_those_of_the_lanes(name):
    assert_values_of_lanes(name, torch.float32)


@first_of(*IN_DOUBLE)
def test_values_in_double_precision(name):
    assert_values_of_lanes(name, torch.float64)


def assert_values_of_lanes(name, dtype):
    kernel, shape = NETWORKS[name]
    kernel.check(shape)
    assert_equal_values(kernel, shape, hard_images(shape).to(dtype))


def assert_equal_values(kernel, shape, given):
    """Compare the generated kernel with the lanes, to the last bit."""
    one, two = (
        FusedBackend(lower(kernel, shape, processor.roots), processor)
        for processor in (HOST, Extension())
    )
    assert torch.equal(tile(one, given), tile(two, given))


@first_of(*WITH_DERIVATIVES)
def test_derivatives_are_those_of_the_lanes(name):
    kernel, shape = NETWORKS[name]
    kernel.check(shape)
    given = images(5, shape).float()
    one, two = (
        FusedTangentBackend(
            *lower_with_tangents(kernel, shape, HOST.tangents_at_once, processor.roots),
            processor,
        )
        for processor in (HOST, Extension())
    )
    assert torch.equal(tile(one, given), tile(two, given))


AVERAGES = {name: (kernel, SHAPE) for name, kernel in POOLED.items()} | WIDTHS
FEW_AVERAGES = ["lattice", "strides", "branches", "pools of 7 x 6", "70 columns"]
OTHER_AVERAGES = [
    pytest.param(name, marks=pytest.mark.slow)
    for name in AVERAGES
    if name not in FEW_AVERAGES
]


@pytest.mark.parametrize("name", [*FEW_AVERAGES, *OTHER_AVERAGES])
def test_averages_over_positions(name):
    kernel, shape = AVERAGES[name]
    kernel.check(shape)
    assert_equal_values(kernel, shape, images(5, shape).float())


@pytest.mark.parametrize("name", ["named residual convnet", "erf", "named myrtle"])
def test_tangent_kernels(name):
    kernel, shape = TANGENTS[name]
    kernel.check(shape)
    assert_equal_values(kernel, shape, images(5, shape).float())


@pytest.mark.parametrize("name", ["near positions", "pools apart"])
def test_derivatives_of_averages(name):
    kernel, given = POOLED[name], images(3, SHAPE)
    kernel.check(SHAPE)
    one, two = (
        FusedTangentBackend(
            *lower_with_tangents(kernel, SHAPE, 2, processor.roots), processor
        )
        for processor in (HOST, Extension())
    )
    assert torch.equal(tile(one, given), tile(two, given))


@pytest.mark.parametrize(("n_one", "n_two"), [(1, 1), (131, 7), (5, 131), (131, 67)])
def test_every_pair_is_computed(n_one, n_two):
    backend = network_of(2)
    one, two = images(n_one, (1, 3, 4)), images(n_two, (1, 3, 4), seed=1)
    whole = tile(backend, one.float(), two.float())
    lanes = tile(network_of(2, Extension()), one.float(), two.float())
    assert torch.equal(whole, lanes)


def test_blocks_and_tiles_of_the_engine():
    given = images(131, (1, 3, 4))
    grams = []
    for processor, sides in ((HOST, (33, 13)), (Extension(), (200, 200))):
        backend = network_of(2, processor)
        with small_tiles(*sides, backend.measure(given[:1]).pair_bytes):
            oracle = KernelOracle(backend, given, config(dtype=torch.float32))
            grams.append(oracle.gram())
    assert torch.equal(*grams)


@pytest.mark.parametrize("n", [1, 2, 130, 131])
def test_every_pair_of_the_upper_triangle_is_computed(n):
    backend = network_of(2)
    prepared = backend.prepare(images(n, (1, 3, 4)).float())
    above = backend.gram(prepared).triu()
    assert torch.equal(above, backend.cross(prepared, prepared).triu())


# A card's roots and reciprocals in single precision are wrong by a unit or two in the
# last place.
EXACT = ("T(__builtin_sqrt(double(x.at[l])))", "T(1) / x.at[l]")
ROUGH = """
template <class T>
static T rough(T x, int lane) { return x * (T(1) + T(lane % 5 - 2) * T(1.2e-7)); }
"""
ALL = NETWORKS | {name: (each, (1, 28, 28)) for name, each in MNIST_NETWORKS.items()}


@pytest.mark.parametrize("name", [*MNIST_NETWORKS, "erf", "leaky", "branches"])
def test_rough_roots_and_reciprocals_are_good_enough(name, monkeypatch):
    kernel, shape = ALL[name]
    kernel.check(shape)

    def rough_source(program, *, is_double):
        source = ROUGH + cuda_source(program, is_double=is_double)
        for expression in EXACT:
            assert source.count(expression) == 1
            source = source.replace(expression, f"rough({expression}, l)")
        return source

    backend = FusedBackend(lower(kernel, shape, HOST.roots), HOST)
    given = (large_digits(10) if shape[1] == 28 else hard_images(shape)).float()
    exact = tile(backend, given)
    monkeypatch.setattr("skconvgp.backends._fused_cuda.cuda_source", rough_source)
    values = tile(backend, given)
    assert not torch.equal(values, exact)
    assert_within(values, *reference(kernel, given), GPU_BOUNDS[torch.float32])


def network_of(depth, processor=HOST):
    """Return the backend of a small network."""
    kernel = convnet(depth=depth, kernel_size=3)
    kernel.check((1, 3, 4))
    return FusedBackend(lower(kernel, (1, 3, 4), processor.roots), processor)


def test_pairs_that_lie_in_other_places_are_found_out(tmp_path):
    # The comparison can fail: a band of another height is the same, a block is not.
    kernel = convnet(depth=1, kernel_size=3)
    kernel.check((1, 3, 4))
    program = lower(kernel, (1, 3, 4), HOST.roots)
    source = cuda_source(program, is_double=False)
    values = []
    for number, (old, new) in enumerate(
        [("", ""), ("BAND = 16", "BAND = 3"), ("WARPS_DOWN = 2", "WARPS_DOWN = 1")]
    ):
        assert old in source
        folder = tmp_path / str(number)
        folder.mkdir()
        kernel = HostKernel(source.replace(old, new), folder)
        values.append(launched(kernel, program))
    assert torch.equal(values[0], values[1])
    assert not torch.equal(values[0], values[2])


def launched(kernel, program):
    """Return the covariances of 90 images, zero where none was computed."""
    n = 90
    tables, diag = HOST.prepare(program, images(n, (1, 3, 4)).float())
    constants = torch.from_numpy(program.constants.copy())
    out = torch.zeros(n, n, dtype=torch.float64)
    side = -(-n // (2 * layout_of(program, is_double=False).pairs[0]))
    given = [tables, tables, diag, diag, constants.float(), constants[-1].contiguous()]
    sizes = [n, n, tables.shape[1], program.n_pixels, 0]
    kernel.launch(side * side, 128, [*given, out, torch.zeros(1), *sizes])
    return out
