"""Settings that cannot be used: which one, and what is allowed."""

import inspect
import math
import re

import pytest
import torch

from skconvgp.kernels import (
    Abs,
    AvgPool2d,
    Conv2d,
    Dense,
    Elementwise,
    Flatten,
    LeakyReLU,
    MaxNormalization,
    Product,
    ReLU,
    Residual,
    Scale,
    Sequential,
    Sum,
    arcsine,
    convnet,
    dense,
    dot_product,
    matern,
    polynomial,
    rbf,
    residual_convnet,
    three_layer_convnet,
)

SHAPE = (2, 6, 6)
NOT_VARIANCES = [-1.0, math.nan, math.inf, "one", None]
NOT_SIZES = [0, -1, 1.5, "two", None, True]


def closed(*layers) -> Sequential:
    return Sequential(*layers, Flatten(), Dense())


def refuses(kernel, *words: str) -> None:
    """The message has all these words, in this order."""
    with pytest.raises(ValueError, match=".*".join(re.escape(word) for word in words)):
        kernel.check(SHAPE)


@pytest.mark.parametrize("value", NOT_VARIANCES)
@pytest.mark.parametrize("name", ["weight_variance", "bias_variance"])
def test_variances(name, value):
    words = f"`{name}` is a variance and must be a finite number >= 0", repr(value)
    setting = {name: value}
    refuses(closed(Conv2d(3, **setting)), "layer0, Conv2d(", *words)
    refuses(Sequential(Flatten(), Dense(**setting)), "layer1, Dense(", *words)
    for named in (convnet, residual_convnet, three_layer_convnet, dense):
        refuses(named(**setting), *words)
    refuses(polynomial(**setting), *words)
    refuses(arcsine(**setting), *words)


def test_a_tensor_of_several_numbers_is_named():
    several, remedy = torch.ones(2), "as by tensor.tolist()"
    refuses(
        dot_product(weight_variance=several), "`weight_variance`", repr(several), remedy
    )
    refuses(
        Sequential(Flatten(), Dense(weight_variance=several)),
        "`weight_variance`",
        remedy,
    )
    refuses(rbf(several), "`lengthscale`", repr(several), remedy)
    rbf(torch.tensor(2.0)).check(SHAPE)


@pytest.mark.parametrize("value", NOT_VARIANCES)
def test_variances_of_layers(value):
    kernel = dense(depth=1).unshared().replace(weight_variance=(1.0, value))
    refuses(kernel, "`weight_variance` is a variance", repr((1.0, value)))


@pytest.mark.parametrize("value", NOT_VARIANCES)
def test_offset_of_dot_product(value):
    refuses(dot_product(bias_variance=value), "`bias_variance`", repr(value))


@pytest.mark.parametrize("value", NOT_VARIANCES)
def test_factor(value):
    words = "`factor`", "must be a finite number", repr(value)
    refuses(Scale(rbf(1.0), factor=value), *words)
    refuses(closed(Scale(Conv2d(3), factor=value)), "layer0", *words)


@pytest.mark.parametrize("value", [1e101, -1e160, math.inf, math.nan, None])
def test_slope(value):
    words = "`slope` must be a finite number from -1e+100 to 1e+100", repr(value)
    refuses(closed(LeakyReLU(value)), "layer0", *words)


@pytest.mark.parametrize("value", [0.0, *NOT_VARIANCES])
@pytest.mark.parametrize("kernel", [rbf, matern])
def test_lengthscale(kernel, value):
    words = "`lengthscale` must be a finite number > 0", repr(value)
    refuses(kernel(lengthscale=value), *words)


@pytest.mark.parametrize("value", NOT_SIZES)
@pytest.mark.parametrize("name", ["kernel_size", "stride", "dilation"])
def test_whole_numbers_of_convolutions(name, value):
    kernel = closed(Conv2d(**{"kernel_size": 3, name: value}))
    words = f"`{name}` must be an int from 1 to 65536"
    refuses(kernel, "layer0, Conv2d(", words, repr(value))


@pytest.mark.parametrize("value", NOT_SIZES)
@pytest.mark.parametrize("name", ["depth", "kernel_size"])
def test_whole_numbers_of_networks(name, value):
    for named in (convnet, residual_convnet):
        refuses(named(**{name: value}), f"`{name}` must be an int from 1", repr(value))


@pytest.mark.parametrize("size", [(3,), (3, 3, 3), ()])
def test_windows_have_two_sides(size):
    words = "`kernel_size` must be an int or a pair", repr(size)
    refuses(closed(Conv2d(size)), *words)


@pytest.mark.parametrize("padding", ["full", -1, 1.5, None, (1, 1)])
def test_padding(padding):
    words = "`padding` must be one of ('same', 'valid', 'circular') or an int from 0 to"
    refuses(closed(Conv2d(3, padding=padding)), words, f"got {padding!r}")


@pytest.mark.parametrize(
    "conv",
    [
        Conv2d(7, padding="valid"),
        Conv2d((2, 7), padding="valid", stride=3),
        Conv2d(3, padding="valid", dilation=3),
        Conv2d(9, padding=1),
    ],
    ids=repr,
)
def test_windows_larger_than_the_map(conv):
    words = "does not fit into a map of size 6x6", "padding='same'"
    refuses(closed(conv), "layer0", *words)


def test_windows_larger_than_a_later_map():
    second = Conv2d(4, padding="valid")
    refuses(closed(Conv2d(3, stride=2), ReLU(), second), "layer2", "map of size 3x3")


@pytest.mark.parametrize(
    ("kernel", "size"),
    [
        (Conv2d(3), "6x6"),
        (ReLU(), "6x6"),
        (Sequential(Conv2d((2, 3), padding="valid"), ReLU()), "5x4"),
        (Residual(Conv2d(3)), "6x6"),
    ],
    ids=repr,
)
def test_networks_that_are_not_closed(kernel, size):
    words = f"has size {size} and a kernel needs 1x1", "`Flatten()` and `Dense()`"
    refuses(kernel, "the last map of", *words)
    refuses(rbf(1.0) + kernel, *words)
    refuses(2.0 * kernel, *words)
    refuses(Product(rbf(1.0), kernel), *words)


def test_dense_layers_need_a_single_position():
    words = "Dense needs a 1x1 map and got 6x6", "`Flatten()` before it"
    refuses(Sequential(Conv2d(3), Dense()), "layer1", *words)


@pytest.mark.parametrize("value", NOT_SIZES)
def test_window_of_pooling(value):
    refuses(closed(AvgPool2d(value)), "`window` must be an int from 1", repr(value))


def test_residual_keeps_the_size():
    branch = Residual(ReLU(), Conv2d(3, stride=2))
    words = "must keep the size of the map", "makes 3x3 of 6x6", "strided 1x1 `Conv2d`"
    refuses(closed(branch), "layer0", *words)


def test_errors_name_nested_layers():
    inner = Sequential(ReLU(), Conv2d(3, stride=0))
    kernel = closed(Abs(), Sum(Conv2d(1), inner))
    refuses(kernel, "layer1, Sum(", "layer1, Conv2d(", "`stride` must be an int from 1")


@pytest.mark.parametrize("kernel", [rbf(1.0), Product(Conv2d(1), Conv2d(1))], ids=repr)
def test_kernels_are_no_layers(kernel):
    words = "must be a layer of a network", "added to or multiplied with the finished"
    refuses(closed(Conv2d(3), kernel), "layer1 of a Sequential", *words)
    refuses(closed(Residual(kernel)), "layer0", "layer0 of a Residual", *words)


@pytest.mark.parametrize("layer", [ReLU, Conv2d])
def test_classes_of_layers_are_told_from_kernels(layer):
    told = f"the class {layer.__name__}: write {layer.__name__}(...)."
    refuses(closed(Conv2d(1), layer), "layer1 of a Sequential must be a layer", told)


@pytest.mark.parametrize("wrap", [Sum, Scale])
def test_kernels_in_branches_are_no_layers(wrap):
    words = (
        "rbf(lengthscale=2.0) is a complete kernel and cannot be a layer of a network"
    )
    refuses(closed(wrap(rbf(2.0))), "layer0", words)


@pytest.mark.parametrize("thing", [3, "relu", None, math.tanh])
def test_other_things_are_no_layers(thing):
    refuses(
        closed(ReLU(), thing), "layer1 of a Sequential must be a layer", repr(thing)
    )


def test_branches_of_a_sum_give_maps_of_one_size():
    branches = Sum(Conv2d(3), Conv2d(1, stride=2))
    words = "branches of a Sum must give maps of one size", "[(6, 6), (3, 3)]"
    refuses(closed(branches), "layer0", *words)


@pytest.mark.parametrize("empty", [Sum(), Product()], ids=repr)
def test_empty_combinations(empty):
    refuses(empty, "needs at least one kernel")


def test_empty_sum_in_a_network():
    refuses(closed(Sum()), "layer0, Sum()", "needs at least one kernel")


@pytest.mark.parametrize("nu", [1.0, 0.0, math.inf, "1.5", None])
def test_smoothness(nu):
    refuses(matern(1.0, nu=nu), "`nu` must be one of (0.5, 1.5, 2.5)", repr(nu))


@pytest.mark.parametrize("degree", NOT_SIZES)
def test_degree(degree):
    refuses(polynomial(degree=degree), "`degree` must be an int from 1", repr(degree))


def test_wrong_terms_are_found_in_every_combination():
    bad = matern(1.0, nu=3.0)
    for kernel in (
        rbf(1.0) + bad,
        rbf(1.0) * bad,
        2.0 * bad,
        rbf(1.0) + 2.0 * (bad * rbf(1.0)),
    ):
        refuses(kernel, "`nu` must be one of")


@pytest.mark.parametrize("name", ["kernel_size", "stride", "padding", "dilation"])
def test_windows_too_large_for_any_map(name):
    kernel = closed(Conv2d(**{"kernel_size": 3, name: 10**20}))
    refuses(kernel, "layer0, Conv2d(", f"`{name}` must be", "to 65536", f"got {10**20}")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: Conv2d(1, 64, 3),
            [
                "Conv2d(1, 64, 3): only `kernel_size` may be given by position",
                "no in_channels and out_channels",
            ],
        ),
        (lambda: Dense(784, 10), ["Dense(784, 10): only `weight_variance`", "units"]),
        (lambda: Elementwise(torch.tanh, 16), ["only `function`", "n_nodes by name"]),
        (lambda: MaxNormalization(dense(), "fixed"), ["positional"]),
    ],
)
def test_settings_are_given_by_name(make, words):
    with pytest.raises(TypeError, match=".*".join(map(re.escape, words))):
        make()


def test_signature_says_what_is_given_by_name():
    first, *others = inspect.signature(Conv2d).parameters.values()
    assert first.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert {other.kind for other in others} == {inspect.Parameter.KEYWORD_ONLY}
