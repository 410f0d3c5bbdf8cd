"""Networks lowered to programs: what is scaled out, kept, and refused."""

import re
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from skconvgp.backends._opcodes import Column, Kind
from skconvgp.backends._program import lower, lower_with_tangents
from skconvgp.exceptions import NotFusableError
from skconvgp.kernels import (
    GELU,
    Abs,
    AvgPool2d,
    Conv2d,
    Dense,
    Elementwise,
    Erf,
    Flatten,
    GlobalAvgPool2d,
    Identity,
    LeakyReLU,
    MaxNormalization,
    ReLU,
    Residual,
    Scale,
    Sequential,
    Sin,
    Sum,
    convnet,
    dense,
    rbf,
    residual_convnet,
    resnet32,
    three_layer_convnet,
)
from tests.helpers.fused import tiny_weights
from tests.helpers.memory import needs_peak, peak_memory

SHAPE = (1, 12, 10)


def lowered(kernel, shape=SHAPE):
    kernel.check(shape)
    return lower(kernel, shape)


def kinds(program):
    return " ".join(Kind(code).name for code in program.kinds)


def ops(program, kind):
    """Return the rows of codes and the constants of operations of a kind."""
    is_kind = program.kinds == kind
    return program.codes[is_kind], program.constants[is_kind]


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (
            convnet(depth=2),
            "INPUT BOX LOAD LEAKY BOX LOAD LEAKY SUM RESULT",
        ),
        (
            three_layer_convnet(),
            "INPUT BOX LOAD LEAKY CONV LOAD LEAKY SUM RESULT",
        ),
        (dense(depth=2), "DOT AFFINE LEAKY AFFINE LEAKY RESULT"),
        (Flatten(), "DOT RESULT"),
        (
            Sequential(Flatten(), Sum(ReLU(), Abs())),
            "INPUT STORE LEAKY STORE END LOAD LEAKY ADD RESULT",
        ),
        (Sequential(Flatten(), Dense(2.0, bias_variance=3.0)), "DOT RESULT"),
        (
            Sequential(Conv2d(3), Identity(), AvgPool2d(), Flatten(), Dense(2.0)),
            "INPUT BOX LOAD SUM RESULT",
        ),
        (
            Sequential(Conv2d(3), Erf(), Flatten(), GlobalAvgPool2d(), Dense()),
            "INPUT CONV LOAD ERF SUM RESULT",
        ),
        (
            Sequential(Conv2d(3, padding="circular"), Abs(), Conv2d((3, 2)), Flatten()),
            "INPUT CONV LOAD LEAKY BOX LOAD SUM RESULT",
        ),
        (
            Sequential(Residual(ReLU(), Conv2d(3)), Flatten()),
            "INPUT STORE LEAKY BOX LOAD ADD SUM RESULT",
        ),
    ],
)
def test_operations_of_small_networks(kernel, expected):
    program = lowered(kernel)
    assert kinds(program) == expected
    assert program.n_pixels == 120
    n_ops = len(expected.split())
    assert program.codes.shape == (n_ops, 20)
    assert program.codes.dtype == np.int32
    assert program.constants.shape == (n_ops, 2, 1)
    assert program.slopes.shape == (n_ops, 2)


def test_weights_are_scaled_out_and_biases_divided_by_them():
    layers = (Conv2d(3, weight_variance=2.0, bias_variance=0.5), ReLU())
    program = lowered(
        Sequential(*layers, Flatten(), Dense(3.0, bias_variance=0.25)), (2, 6, 5)
    )
    _, constants = ops(program, Kind.BOX)
    # c / beta with beta = 1 / channels, times weight / positions of the window
    beta = 0.5 * 2.0 / 9
    assert constants[0, :, 0] == pytest.approx([0.5 / beta, 1.0])
    _, constants = ops(program, Kind.RESULT)
    assert constants[0, :, 0] == pytest.approx([0.25, beta / 2 * 3.0 / 30])


@pytest.mark.parametrize("layer", [ReLU(), LeakyReLU(0.2), Abs(), LeakyReLU(-0.5)])
def test_activation_keeps_the_variance(layer):
    program = lowered(Sequential(layer, Flatten(), layer))
    first, second = program.slopes[program.kinds == Kind.LEAKY]
    size = 1 + layer.slope**2
    expected = [(1 - layer.slope) ** 2 / size, 2 * layer.slope / size]
    assert first == pytest.approx(expected)
    assert second == pytest.approx(expected)
    flags = ops(program, Kind.LEAKY)[0][:, Column.FLAG]
    assert flags.tolist() == [0, int(layer.slope <= 0)]  # no negative covariance left


def test_branches_are_added_in_units_of_the_largest():
    kernel = Sequential(
        Sum(Conv2d(1, weight_variance=0.5), Conv2d(1, weight_variance=4.0)), Flatten()
    )
    _, constants = ops(lowered(kernel), Kind.ADD)
    assert constants[0, 1, 0] == pytest.approx(0.5 / 4.0)


def test_maps_that_grow_are_scaled_down_before_they_overflow():
    layers = [Conv2d(5, bias_variance=0.1), ReLU()] * 30
    program = lowered(Sequential(*layers, Flatten(), Dense()))
    _, constants = ops(program, Kind.AFFINE)
    powers = np.log2(constants[:, 1, 0])
    assert (powers == np.round(powers)).all()
    assert len(powers) == 3  # windows of 25 positions, 30 times, and as many biases
    assert (powers <= -50).all()
    assert "AFFINE" not in kinds(lowered(Sequential(*layers[:16], Flatten())))
    slim = lowered(Sequential(*[Conv2d(1), ReLU()] * 90, Flatten(), Dense()))
    assert "AFFINE" not in kinds(slim)


def test_sums_of_pools_are_scaled_down_before_they_overflow():
    # Sums over 9 positions, and over 81 pairs of them in each pool.
    block = [Conv2d(3), ReLU(), AvgPool2d(3, stride=1, padding=1)]
    _, constants = ops(lowered(Sequential(*block * 12, Flatten())), Kind.AFFINE)
    assert len(constants) == 2
    assert (constants[:, 1, 0] <= 2.0**-50).all()


@pytest.mark.parametrize("weight", [1e-4, 1e-40, 1e-100])
@pytest.mark.parametrize("activation", [ReLU(), Erf()])
def test_constants_of_maps_are_held_by_single_precision(activation, weight):
    for kernel in tiny_weights(weight, activation).values():
        constants = lowered(kernel).constants[:-1, :, 0]  # the end is in float64
        assert (constants <= 2.0**51).all()
        sizes = constants[constants > 0.0]
        assert (sizes >= 2.0**-101).all()


@pytest.mark.parametrize(
    ("shape", "kind"),
    [
        ((1, 4, 1024), "BOX"),
        ((1, 1024, 4), "BOX"),
        ((1, 4, 1025), "CONV"),
        ((1, 1025, 4), "CONV"),
    ],
)
def test_windows_over_long_axes_are_added_up(shape, kind):
    program = lowered(Sequential(Conv2d(3), ReLU(), Flatten()), shape)
    assert kinds(program) == f"INPUT {kind} LOAD LEAKY SUM RESULT"


@needs_peak
def test_lowering_takes_no_memory_for_pairs_of_positions():
    setup = """
from skconvgp.backends._program import lower
from skconvgp.kernels import Conv2d, Flatten, ReLU, Sequential
kernel = Sequential(Conv2d((1, 3)), ReLU(), Conv2d((1, 3), stride=2), Flatten())
lower(kernel, (1, 1, 9))
"""
    assert peak_memory(setup, "lower(kernel, (1, 1, 20000))") < 2**23


@pytest.mark.parametrize(
    ("kernel", "n_registers"),  # at most
    [
        (convnet(), 1),
        (convnet(depth=40), 1),
        (three_layer_convnet(), 1),
        (dense(), 0),
        (residual_convnet(), 2),
        (residual_convnet(depth=40), 2),
        (resnet32(), 2),
        (Sequential(*[Residual(ReLU(), Conv2d(3))] * 20, Flatten()), 2),
        (Sequential(Sum(Conv2d(3), Conv2d(2)), ReLU(), Flatten()), 2),
    ],
)
def test_few_maps_are_kept_at_a_time(kernel, n_registers):
    assert lowered(kernel).n_registers <= n_registers


@pytest.mark.parametrize(
    ("kernel", "shape", "is_dot"),
    [
        (dense(), (7, 1, 1), True),
        (dense(), (3, 8, 8), True),
        (convnet(), (5, 1, 1), True),
        (convnet(), (5, 1, 2), False),
        (residual_convnet(), (5, 1, 1), True),
        (resnet32(bias_variance=0.1), (5, 1, 1), False),
        (dense() + Sequential(Flatten(), Dense()), (1, 4, 4), True),
        (dense() + convnet(depth=1), (1, 4, 4), False),
        (dense(depth=1) + dense(depth=2), (7, 1, 1), False),
        (Sequential(ReLU(), Flatten()), (1, 4, 4), False),
        (Sequential(Conv2d(3, stride=2, padding=1), Flatten()), (2, 1, 1), True),
        (Sequential(Conv2d(4, padding="valid"), Flatten()), (2, 4, 4), False),
        (Sequential(Conv2d(2, padding=2), ReLU(), Flatten()), (2, 1, 1), False),
    ],
)
def test_inner_products_are_taken_where_all_maps_have_one_position(
    kernel, shape, is_dot
):
    program = lowered(kernel, shape)
    assert (program.kinds[0] == Kind.DOT) == is_dot
    assert ("DOT" in kinds(program)) == is_dot
    if is_dot:
        assert program.codes[0, Column.FLAG] == program.n_pixels == np.prod(shape)


def test_window_that_sees_one_position_is_a_factor():
    program = lowered(convnet(depth=1, kernel_size=3, bias_variance=0.0), (2, 1, 1))
    assert kinds(program) == "DOT LEAKY RESULT"
    weights = 2.79**2  # each window sees one of nine positions
    expected = 0.5 * weights / 2
    assert program.constants[-1, 1, 0] == pytest.approx(expected)


def test_sums_over_many_channels_are_left_to_torch():
    kernel = Sequential(Conv2d(1), Sum(ReLU(), Abs()))
    assert lowered(kernel, (8192, 1, 1)).n_pixels == 8192
    with pytest.raises(NotFusableError, match="a position has 8193 channels"):
        lowered(kernel, (8193, 1, 1))


@pytest.mark.parametrize(
    ("n_channels", "roots", "side_by_side"), [(7, 2, 0), (8, 2, 8), (8, 1, 0)]
)
def test_many_channels_lie_side_by_side_on_a_cpu(n_channels, roots, side_by_side):
    program = lower(convnet(depth=2, kernel_size=3), (n_channels, 4, 3), roots)
    assert program.codes[0, Column.ROOTS] == side_by_side
    is_table = program.kinds == Kind.LEAKY
    assert program.codes[is_table, Column.TABLE][0] == program.n_pixels


@dataclass(repr=False)
class OwnConv(Conv2d):
    """A layer of a user, derived from one of ours."""


@dataclass(repr=False)
class OwnReLU(ReLU):
    """An activation of a user, derived from one of ours."""


@dataclass(repr=False)
class own_net(convnet):
    """A network of a user, derived from one of ours."""


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (
            Sequential(Conv2d(3), GELU(), Flatten()),
            "layer1 of a Sequential: there are no fused kernels for GELU()",
        ),
        (
            Sequential(Flatten(), Dense(), ReLU(), Sin()),
            "layer3 of a Sequential: there are no fused kernels for Sin()",
        ),
        (
            Sequential(Elementwise(torch.tanh, n_nodes=8), Flatten()),
            "layer0 of a Sequential: there are no fused kernels for Elementwise(",
        ),
        (
            Sequential(Conv2d(3), Residual(ReLU(), Residual(GELU())), Flatten()),
            "layer1 of a Sequential: layer1 of a Residual: layer0 of a Residual: "
            "there are no fused kernels for GELU()",
        ),
        (
            Sequential(*[ReLU()] * 3, Scale(Sum(Abs(), Sequential(GELU()))), Flatten()),
            "layer3 of a Sequential: layer0 of a Sequential: there are no fused "
            "kernels for GELU()",
        ),
        (convnet(depth=1) + rbf(2.0), "there are no fused kernels for rbf("),
        (2.0 * rbf(2.0), "there are no fused kernels for rbf("),
        (
            convnet(depth=1) * dense(),
            "there are no fused kernels for Product(convnet(depth=1), dense())",
        ),
        (
            Sequential(OwnConv(3), Flatten()),
            "layer0 of a Sequential: there are no fused kernels for OwnConv(",
        ),
        (
            Sequential(Conv2d(3), OwnReLU(), Flatten()),
            "layer1 of a Sequential: there are no fused kernels for OwnReLU()",
        ),
        (
            2.0 * MaxNormalization(convnet(depth=1)),
            "MaxNormalization(kernel=convnet(depth=1)) is only fused if it is the "
            "whole kernel",
        ),
        (own_net(depth=1), "there are no fused kernels for own_net("),
        (
            Sequential(Conv2d(3, weight_variance=0.0, bias_variance=1.0), Flatten()),
            "layer0 of a Sequential: a factor of 0 in Conv2d(kernel_size=3, "
            "weight_variance=0.0, bias_variance=1.0) leaves nothing of the "
            "images",
        ),
        (
            Sequential(Flatten(), Dense(0.0, bias_variance=1.0)),
            "layer1 of a Sequential: a factor of 0 in Dense(weight_variance=0.0, ",
        ),
        (
            0.0 * convnet(depth=1),
            "a factor of 0 in Scale(kernel=convnet(depth=1), factor=0.0) leaves",
        ),
        (
            Sequential(
                Conv2d(3, weight_variance=1e-200), Conv2d(1, weight_variance=1e-200)
            ),
            "layer1 of a Sequential: the variances up to Conv2d(kernel_size=1, "
            "weight_variance=1e-200) multiply to 0, which double precision does not",
        ),
        (
            Sequential(Dense(1e-200), ReLU(), Dense(1e-200, bias_variance=1.0)),
            "layer2 of a Sequential: the variances up to Dense(weight_variance=1e-200",
        ),
        (
            Sequential(*[Conv2d(3), ReLU()] * 3, Flatten(), Dense(1e200), Dense(1e200)),
            "layer8 of a Sequential: the variances up to Dense(weight_variance=1e+200) "
            "multiply to inf, which double precision does not hold",
        ),
        (
            Sequential(LeakyReLU(1e90), LeakyReLU(1e90), Flatten()),
            "layer1 of a Sequential: the variances up to LeakyReLU(slope=1e+90)",
        ),
    ],
)
def test_what_cannot_be_fused_is_named_with_its_place(kernel, message):
    with pytest.raises(NotFusableError, match=rf"^{re.escape(message)}"):
        lower(kernel, SHAPE)
    with pytest.raises(NotFusableError, match=rf"^{re.escape(message[:40])}"):
        lower_with_tangents(kernel, SHAPE, 8)


@pytest.mark.parametrize("n_tangents", [1, 3, 8, 64])
def test_derivatives_of_constants(n_tangents):
    kernel = convnet(depth=3, kernel_size=3).unshared()
    programs, order = lower_with_tangents(kernel, SHAPE, n_tangents)
    assert sorted(order) == list(range(8))
    assert all(len(part.constants[0, 0]) <= 1 + n_tangents for part in programs)
    columns = np.concatenate([part.constants[..., 1:] for part in programs], axis=-1)
    assert columns.shape[-1] == len(kernel.theta) == 8
    value = lower(kernel, SHAPE).constants[..., 0]
    step = 1e-4
    for i, place in enumerate(order):
        direction = step * np.eye(8)[place]
        ahead = lower(kernel.with_theta(kernel.theta + direction), SHAPE).constants
        behind = lower(kernel.with_theta(kernel.theta - direction), SHAPE).constants
        slope = (ahead - behind)[..., 0] / (2 * step)
        np.testing.assert_allclose(columns[..., i], slope, rtol=1e-6, atol=1e-9)
    for part in programs:
        np.testing.assert_allclose(part.constants[..., 0], value, rtol=1e-14)
        own, plain = (p.codes[:, : Column.TABLE] for p in (part, lower(kernel, SHAPE)))
        assert np.array_equal(own, plain)


@pytest.mark.parametrize(("bias", "n_begun"), [(0.0, 0), (0.1, 2)])
def test_tables_make_room_for_derivatives_that_have_begun(bias, n_begun):
    layers = (Conv2d(3, bias_variance=bias), ReLU(), Conv2d(3), Erf(), Flatten())
    (program,), order = lower_with_tangents(Sequential(*layers, Dense()), SHAPE, 8)
    assert program.constants.shape[2] == 1 + len(order)
    n_positions = 120
    (leaky,), (erf,) = (ops(program, kind)[0] for kind in (Kind.LEAKY, Kind.ERF))
    assert leaky[Column.TABLE] == n_positions  # behind the pixels
    assert erf[Column.TABLE] == n_positions * (1 + 2 + n_begun)


def test_derivatives_of_first_layers_come_first():
    kernel = convnet(depth=3, kernel_size=3).unshared()
    programs, order = lower_with_tangents(kernel, SHAPE, 3)
    begins = []
    for program in programs:
        is_known = (program.constants[:-1, :, 1:] != 0.0).any(1)
        begins += np.where(is_known.any(0), is_known.argmax(0), 99).tolist()
    assert begins == sorted(begins)
    assert len(set(begins)) > 2
    assert order != tuple(range(8))


def test_network_with_nothing_to_learn_has_one_program_without_derivatives():
    kernel = Sequential(Conv2d(3, weight_variance_bounds="fixed"), ReLU(), Flatten())
    (program,), order = lower_with_tangents(kernel, SHAPE, 8)
    assert order == ()
    assert program.constants.shape[2] == 1
