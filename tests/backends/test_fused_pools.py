"""Averages over positions, on displaced maps."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from skconvgp.backends import choose_backend
from skconvgp.backends._displacements import passes_of
from skconvgp.backends._fused_cpu import Extension, instruction_sets
from skconvgp.backends._fused_cuda import Gpu
from skconvgp.backends._opcodes import Kind
from skconvgp.backends._program import lower
from skconvgp.exceptions import NotFusableError
from skconvgp.kernels import (
    AvgPool2d,
    Conv2d,
    Dense,
    Erf,
    Flatten,
    FlipAverage,
    GlobalAvgPool2d,
    LeakyReLU,
    MaxNormalization,
    ReLU,
    Residual,
    Sequential,
    Sum,
    convnet,
    convnet_gap,
    myrtle,
)
from tests.helpers.all_pairs import all_pairs_gram, waves
from tests.helpers.fused import (
    DTYPES,
    LANES,
    assert_values,
    assert_within,
    fused,
    fused_tangents,
    hard_images,
    images,
    lanes,
    needs_extension,
    tile,
    variances,
)
from tests.helpers.published_pools import PUBLISHED

pytestmark = needs_extension
CPU = torch.device("cpu")
SHAPE = (2, 7, 6)
THIN = Conv2d(3, weight_variance=2.0)
STEP = THIN, ReLU()


def conv(size=3, **settings):
    return Conv2d(size, weight_variance=2.0, bias_variance=0.1, **settings)


def blur(radius=1, step=1):
    return AvgPool2d(2 * radius + 1, stride=1, padding="same", dilation=step)


def closed(*layers):
    return Sequential(*layers, Dense(1.5, bias_variance=0.2))


NETWORKS = {
    "pixels": closed(GlobalAvgPool2d()),
    "all positions": closed(THIN, ReLU(), THIN, ReLU(), GlobalAvgPool2d()),
    "lattice": closed(conv(), ReLU(), conv(5), ReLU(), conv(2), GlobalAvgPool2d(2)),
    "near positions": closed(conv(), ReLU(), blur(), Flatten()),
    "near positions, scaled down": closed(*(THIN, ReLU()) * 15, blur(), Flatten()),
    "near, steps of 2": closed(conv(), ReLU(), blur(1, 2), Flatten(), Dense(), ReLU()),
    "windows apart": closed(
        *(conv((2, 4)), LeakyReLU(0.2), conv(3, padding="valid"), Erf()),
        *(AvgPool2d((3, 2), stride=(1, 2)), Flatten(), Dense(), Erf()),
    ),
    "strides": closed(
        *(conv(3, dilation=2), ReLU(), conv(3, stride=2), ReLU()),
        *(conv(2, padding="valid"), ReLU(), AvgPool2d(2, padding=1), Flatten()),
    ),
    "every second position": closed(
        *(conv(), ReLU(), AvgPool2d(1, stride=2), conv(), ReLU(), GlobalAvgPool2d()),
    ),
    "branches": closed(
        *(conv(), Residual(ReLU(), conv())),
        Sum(conv(1), Sequential(conv(3), ReLU(), conv(3))),
        *(AvgPool2d((7, 6)), ReLU()),
    ),
    "pools of 7 x 6": closed(
        *(THIN, ReLU(), AvgPool2d(2), THIN, ReLU(), AvgPool2d((1, 2)), THIN),
        *(ReLU(), GlobalAvgPool2d()),
    ),
    "pools apart": closed(
        *(conv(2, padding="valid"), LeakyReLU(0.2), AvgPool2d(2, stride=(2, 3)), Erf()),
        *(conv(), Residual(ReLU(), conv()), Flatten(), Dense(), Erf()),
    ),
    "a stride between pools": closed(
        *(conv(), ReLU(), AvgPool2d((1, 2)), conv(2, stride=2), ReLU()),
        *(AvgPool2d((2, 1)), ReLU(), conv(), blur(), Flatten()),
    ),
    "behind a sum": closed(conv(), ReLU(), Flatten(), blur(), AvgPool2d(2, padding=1)),
}
# Windows between convolutions that overlap or reach beyond the map: not on a GPU.
OVERLAPPING = {
    "windows of 3, steps of 2": closed(
        *(conv(), ReLU(), AvgPool2d(3, stride=2), conv(2), ReLU(), GlobalAvgPool2d()),
    ),
    "padded windows": closed(
        *(conv(), ReLU(), AvgPool2d(3, stride=2, padding=1), conv(), ReLU()),
        *(AvgPool2d(2, padding=1), conv(), Erf(), Flatten()),
    ),
    "padding at the end": closed(
        *(conv(), LeakyReLU(0.2), AvgPool2d(2, padding="same"), conv(), ReLU()),
        GlobalAvgPool2d(),
    ),
    "blurred maps": closed(
        *(conv(), ReLU(), blur(), conv(), ReLU(), blur(1, 2), ReLU()),
        *(conv(2), ReLU(), Flatten()),
    ),
    "apart down, not across": closed(
        *(conv(), ReLU(), AvgPool2d((2, 3), stride=(3, 1)), conv(), ReLU()),
        GlobalAvgPool2d(2),
    ),
    "windows with gaps": closed(
        *(conv(), ReLU(), AvgPool2d(2, stride=1, dilation=(3, 2)), conv(), ReLU()),
        *(AvgPool2d((2, 3), stride=(2, 1), padding=(0, 1), dilation=(1, 2)), ReLU()),
        *(conv(1), GlobalAvgPool2d()),
    ),
    "gaps of 4": closed(
        *(conv(), ReLU(), AvgPool2d(3, stride=1, padding="same", dilation=4), conv()),
        *(ReLU(), Flatten()),
    ),
    "a stride in front": closed(
        *(conv(), ReLU(), AvgPool2d(3, stride=1), conv(2, stride=2), ReLU()),
        *(AvgPool2d(2, stride=1), conv(), ReLU(), blur(), Flatten()),
    ),
}


def exact(kernel, given):
    """Return covariances and variances by the covariances of all positions."""
    gram = torch.as_tensor(all_pairs_gram(kernel, given.double()))
    return gram, gram.diagonal()


@pytest.mark.parametrize("name", [*NETWORKS, *OVERLAPPING])
def test_all_pairs_of_positions_give_the_same_covariances(name, monkeypatch):
    kernel, given = (NETWORKS | OVERLAPPING)[name], images(6, SHAPE).float()
    kernel.check(SHAPE)
    expected = exact(kernel, given)
    of_gpus = [LANES] if name in NETWORKS else []
    for isa in [*instruction_sets(), *of_gpus]:
        monkeypatch.setattr("skconvgp.backends._fused_cpu.INSTRUCTION_SET", isa)
        for dtype in DTYPES:
            assert_values(fused(kernel, SHAPE), given.to(dtype), *expected)


@pytest.mark.parametrize("pool", [blur(2), AvgPool2d(2, stride=1, padding=1)])
def test_images_of_one_position(pool):
    kernel, shape = closed(conv(), ReLU(), pool, Flatten()), (3, 1, 1)
    given = images(6, shape)
    assert_values(fused(kernel, shape), given, *exact(kernel, given))


@pytest.mark.parametrize("size", [{}, {"kernel_size": 3}], ids=["default", "3"])
@pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32)])
def test_local_pools_of_any_depth_are_lowered(shape, size):
    for depth in range(1, 21):
        program = lower(convnet(depth, pooling="local", **size), shape)
        assert Kind.AVERAGE in program.kinds


@pytest.mark.parametrize(
    ("name", "isa"),
    [(name, "") for name in PUBLISHED]
    + [(name, LANES) for name in PUBLISHED if name not in OVERLAPPING],
)
def test_values_that_were_published(name, isa, monkeypatch):
    monkeypatch.setattr("skconvgp.backends._fused_cpu.INSTRUCTION_SET", isa)
    kernel, expected, size = PUBLISHED[name]
    given = waves(3, 3, size, size)
    found = tile(fused(kernel, (3, size, size)), given)[0]
    assert found.tolist() == pytest.approx(expected, rel=1e-12)


def test_images_that_are_hard_for_single_precision():
    shape = (1, 4, 4)
    kernel, given = NETWORKS["near positions"], hard_images(shape).float()
    expected = exact(kernel, given)
    for dtype in DTYPES:
        assert_values(fused(kernel, shape), given.to(dtype), *expected)


DERIVED = ["windows apart", "strides", "branches", "pools apart"]


@pytest.mark.parametrize(
    ("name", "isa"),
    [(name, isa) for name in DERIVED for isa in ("", LANES)]
    + [("padded windows", ""), ("windows with gaps", "")],
)
def test_derivatives_are_finite_differences(name, isa, monkeypatch):
    monkeypatch.setattr("skconvgp.backends._fused_cpu.INSTRUCTION_SET", isa)
    kernel, given = (NETWORKS | OVERLAPPING)[name], images(4, SHAPE).float()
    theta, step = kernel.theta, 1e-4

    def both(change):
        backend = fused(kernel.with_theta(theta + change), SHAPE)
        first = backend.prepare(given.double())
        return torch.cat([backend.cross(first, first), backend.diag(first)[None]])

    steps = step * np.eye(len(theta))
    slopes = [(both(change) - both(-change)) / (2.0 * step) for change in steps]
    expected = torch.stack([both(0.0 * theta), *slopes], dim=-1)
    backend = fused_tangents(kernel, SHAPE, 3)
    assert len(backend.programs) > 1
    diag = expected[-1, :, 0]
    for dtype, bound in {torch.float32: 1e-5, torch.float64: 1e-7}.items():
        assert_within(tile(backend, given.to(dtype)), expected[:-1], diag, bound)
        error = (variances(backend, given.to(dtype)) - expected[-1]).abs()
        assert bool((error <= bound * diag[:, None]).all())


@pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])
@pytest.mark.parametrize(
    ("name", "isa"),
    [
        (name, isa)
        for name in ["near positions", "pools of 7 x 6"]
        for isa in ("", LANES)
    ]
    + [("padded windows", "")],
)
@pytest.mark.parametrize("build", [fused, fused_tangents])
def test_a_pair_has_the_same_bits_in_every_tile(isa, build, name, dtype, monkeypatch):
    monkeypatch.setattr("skconvgp.backends._fused_cpu.INSTRUCTION_SET", isa)
    backend = build((NETWORKS | OVERLAPPING)[name], SHAPE)
    given = images(19, SHAPE).to(dtype)
    given[7] = given[2]
    whole = tile(backend, given)
    for i, j in [(0, 3), (2, 11), (5, 0), (18, 18)]:
        part = tile(backend, given[i : i + 2], given[j : j + 3])
        assert torch.equal(part, whole[i : i + 2, j : j + 3])
    prepared = backend.prepare(given)
    diag = backend.diag(prepared)
    assert torch.equal(whole[7, 2], diag[2])
    upper = backend.gram(prepared)
    rows, cols = torch.triu_indices(19, 19)
    assert torch.equal(upper[rows, cols], whole[rows, cols])
    assert torch.equal(whole[range(19), range(19)], diag)


def test_a_lattice_wider_than_the_map_is_no_average():
    kernel = closed(conv(), ReLU(), GlobalAvgPool2d(7))
    flat = lower(closed(conv(), ReLU(), Flatten()), SHAPE)
    assert (lower(kernel, SHAPE).codes == flat.codes).all()
    assert Kind.AVERAGE not in flat.kinds


def test_padding_that_no_window_reaches_is_left_out():
    same, plain = (
        lower(closed(conv(), pool, conv(), Flatten()), (1, 6, 6)).codes
        for pool in (AvgPool2d(2, padding="same"), AvgPool2d(2))
    )
    assert (same == plain).all()


BLURS = (
    AvgPool2d(3, stride=2, padding=1),
    AvgPool2d(3, stride=1, padding="same", dilation=2),
    blur(2),
)


@pytest.mark.parametrize(
    ("shape", "pool"),
    [(shape, pool) for shape in [(2, 1, 9), (2, 8, 1)] for pool in BLURS]
    + [(shape, blur()) for shape in [(2, 1, 2), (2, 2, 1), (2, 1, 1)]],
)
def test_square_windows_on_maps_of_one_row_or_column(shape, pool):
    kernel, given = closed(conv(), ReLU(), pool, conv(), Flatten()), images(5, shape)
    kernel.check(shape)
    assert_values(fused(kernel, shape), given, *exact(kernel, given))


REFUSED = {
    "many pools": (
        closed(*(conv(), ReLU(), blur()) * 17, Flatten()),
        "at most 16 averages",
    ),
    "a term that wraps around": (
        closed(conv(), Flatten())
        + closed(conv(padding="circular"), ReLU(), GlobalAvgPool2d()),
        "of which one averages",
    ),
    "windows that wrap around": (
        closed(conv(padding="circular"), ReLU(), GlobalAvgPool2d()),
        "wrap around",
    ),
    "windows behind an average": (
        closed(conv(), GlobalAvgPool2d(), conv(2, padding=1), ReLU(), Flatten()),
        "windows behind an average",
    ),
    "a pool behind an average": (
        closed(conv(), GlobalAvgPool2d(), AvgPool2d(2, stride=1, padding=1), Flatten()),
        "windows behind an average",
    ),
    "an average behind a sum": (
        closed(conv(), Flatten(), AvgPool2d(2, stride=1, padding=1), Flatten()),
        "behind a sum",
    ),
    "no sum behind a pool": (
        closed(conv(), AvgPool2d(3), conv(2, stride=2, padding="valid"), ReLU()),
        "without a sum",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_torch_computes_other_averages(name):
    kernel, reason = REFUSED[name]
    kernel.check(SHAPE)
    choice = choose_backend(kernel, SHAPE, "auto", CPU)
    assert choice.name == "torch"
    assert reason in choice.reason


SUMS = {
    "two averages": closed(conv(), ReLU(), GlobalAvgPool2d()) + myrtle(),
    "an average and none": closed(conv(), ReLU(), Flatten())
    + closed(conv(), ReLU(), blur(), Flatten()),
    "scaled terms": 0.3 * closed(conv(), GlobalAvgPool2d()) + 2.0 * myrtle(),
    "flips": FlipAverage(convnet_gap(2) + convnet(1, 3)),
    "one flipped": FlipAverage(convnet_gap(1)) + convnet(1, 3),
    "correlations": MaxNormalization(convnet_gap(1) + convnet(1, 3)),
    "three terms": Sum(convnet_gap(1), convnet_gap(2, lattice=2), convnet(1, 3)),
}


@pytest.mark.parametrize("name", SUMS)
def test_terms_of_sums_are_compiled_one_by_one(name):
    kernel, given = SUMS[name], images(6, (2, 6, 8))
    kernel.check((2, 6, 8))
    choice = choose_backend(kernel, (2, 6, 8), "fused", CPU)
    assert (choice.name, choice.reason) == ("fused", "")
    assert choice.program is None
    assert choice.has_tangents
    plain = choose_backend(kernel, (2, 6, 8), "torch", CPU)
    for mine, theirs in ((choice.tiles(), plain.tiles()),
                         (choice.tangents(), plain.tangents())):  # fmt: skip
        one, two = mine.prepare(given[:4]), mine.prepare(given[3:])
        first, second = theirs.prepare(given[:4]), theirs.prepare(given[3:])
        expected = theirs.cross(first, second)
        torch.testing.assert_close(
            mine.cross(one, two), expected, rtol=1e-10, atol=1e-10
        )
        torch.testing.assert_close(
            mine.diag(one), theirs.diag(first), rtol=1e-10, atol=1e-10
        )
        upper = torch.ones(4, 4, dtype=torch.bool).triu(1)
        torch.testing.assert_close(
            mine.gram(one)[upper], theirs.gram(first)[upper], rtol=1e-10, atol=1e-10
        )
        costs = mine.measure(given[:1])
        assert costs.value_shape == expected.shape[2:]
        assert costs.value_bytes == 8 * max(1, *expected.shape[2:], 1)
        assert costs.n_passes > 1


def test_a_sum_of_both_kinds_of_kernel_is_compiled():
    kernel = convnet(1, 3) + convnet(1, 3, kind="ntk")
    choice = choose_backend(kernel, SHAPE, "fused", CPU)
    assert not choice.has_tangents
    given = images(5, SHAPE)
    torch.testing.assert_close(
        tile(choice.tiles(), given), kernel.cross(*[kernel.prepare(given)] * 2),
        rtol=1e-7, atol=1e-10,
    )  # fmt: skip


# Rows that are narrower than a warp, as wide and wider, with seams and without; windows
# of more rows than are summed at once; and images that lose columns in pools.
WIDTHS = {
    "a warp": (closed(*STEP, *STEP, GlobalAvgPool2d(4)), (1, 5, 32)),
    "33 columns": (closed(*STEP, conv(5), ReLU(), blur(1, 3), Flatten()), (1, 4, 33)),
    "70 columns": (
        closed(*STEP, AvgPool2d((1, 2)), *STEP, AvgPool2d((2, 3)), Flatten()),
        (2, 4, 70),
    ),
    "large windows": (
        closed(conv(7), ReLU(), conv((4, 6)), blur(2), Flatten()),
        (1, 9, 12),
    ),
    "odd sizes": (
        closed(*STEP, AvgPool2d(2, stride=3), *STEP, AvgPool2d(2), Flatten()),
        (1, 11, 13),
    ),
}


@pytest.mark.parametrize("name", WIDTHS)
def test_rows_of_a_gpu(name, monkeypatch):
    kernel, shape = WIDTHS[name]
    given = images(5, shape).float()
    expected = exact(kernel, given)
    monkeypatch.setattr("skconvgp.backends._fused_cpu.INSTRUCTION_SET", LANES)
    for dtype in DTYPES:
        assert_values(fused(kernel, shape), given.to(dtype), *expected)


@pytest.mark.parametrize("name", [*NETWORKS, "two pools"])
def test_a_gpu_works_out_the_same_displacements(name):
    kernel, shape = NETWORKS.get(name), SHAPE
    if name == "two pools":
        kernel, shape = PUBLISHED[name][0], (3, 8, 8)
    kernel.check(shape)
    program = lower(kernel, shape, roots=1)
    passes = passes_of(program)
    ends = np.flatnonzero(np.isin(program.kinds, (Kind.POOL, Kind.AVERAGE)))
    assert bool(passes) == (name != "behind a sum")
    assert [item.end for item in passes] == (ends + 1).tolist()
    assert [item.end for item in passes[:-1]] == [item.begin for item in passes[1:]]
    for one, two in pairwise(passes):
        numbers = {number for number in one.down if number >= 0}
        assert numbers == set(range(len(two.rows)))
        numbers = {number for number in one.across if number >= 0}
        assert numbers == set(range(len(two.cols)))
    Gpu(torch.device("cuda")).require_accepted(program)


@pytest.mark.parametrize("name", OVERLAPPING)
def test_a_gpu_has_no_windows_that_overlap(name):
    program = lower(OVERLAPPING[name], SHAPE, roots=1)
    with pytest.raises(NotFusableError, match="windows that do not overlap"):
        Gpu(torch.device("cuda")).require_accepted(program)


def test_memory_of_displaced_maps_is_counted():
    # Two rows of displacements of maps of 16 x 16 are held, 2 x 31 x 256 numbers of
    # each pair.
    layers = THIN, ReLU(), AvgPool2d(2), THIN, ReLU()
    whole, flat = (
        lower(Sequential(*layers, end), (1, 32, 32))
        for end in (GlobalAvgPool2d(), Flatten())
    )
    image = torch.zeros(1, 1, 32, 32)
    width = lanes(instruction_sets()[0], image.dtype)
    held, less = (Extension().worker_bytes(item, image) for item in (whole, flat))
    assert held - less >= 2 * 30 * 256 * width * image.itemsize
    # Windows of 3 in steps of 1 overlap: five rows are held, of maps of 30 x 30.
    layers = THIN, ReLU(), AvgPool2d(3, stride=1), THIN, ReLU(), GlobalAvgPool2d()
    held = Extension().worker_bytes(lower(Sequential(*layers), (1, 32, 32)), image)
    assert held - less >= 5 * 58 * 900 * width * image.itemsize
