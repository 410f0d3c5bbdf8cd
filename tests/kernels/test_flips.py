"""FlipAverage: averages over flips, and the kernels that have one."""

import re
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from skconvgp import gram_gradient, gram_vjp
from skconvgp.kernels import (
    AvgPool2d,
    Conv2d,
    Dense,
    Flatten,
    FlipAverage,
    GlobalAvgPool2d,
    MaxNormalization,
    PatchContrast,
    PatchKernel,
    PatchWhitening,
    ReLU,
    Residual,
    Sequential,
    Sum,
    Tanh,
    arcsine,
    convnet,
    dense,
    dot_product,
    matern,
    polynomial,
    rbf,
    residual_convnet,
    resnet32,
    three_layer_convnet,
)
from tests.contracts.test_kernel_contract import Cosine, Square
from tests.helpers.kernels import assert_close, cross, deviations, diag, random_images

SMALL = {"weight_variance": 0.7, "bias_variance": 0.2}


def closed(*layers):
    return Sequential(*layers, ReLU(), Flatten(), Dense(bias_variance=0.1))


def lengths(width: int, *, is_mirrored: bool) -> tuple[float, ...]:
    row = torch.arange(1.0, width + 1)
    row = row + row.flip(0) if is_mirrored else row
    return tuple(row.repeat(2 * 4).tolist())


def weights(width: int, *, is_mirrored: bool) -> tuple[float, ...]:
    row = torch.arange(1.0, width + 1)
    row = row * row.flip(0) if is_mirrored else row
    return tuple(row.repeat(2).tolist())


RAW = {"patch_size": 3, "normalization": None}
KERNELS = [
    closed(Conv2d(3)),
    closed(Conv2d(4)),
    closed(Conv2d(4, padding="valid")),
    closed(Conv2d((4, 3), padding="same")),
    closed(Conv2d((3, 2))),
    closed(Conv2d(3, stride=2)),
    closed(Conv2d(1, stride=2)),
    closed(Conv2d(2, stride=2, padding="valid")),
    closed(Conv2d(3, stride=3, padding=1)),
    closed(Conv2d(3, stride=2, padding="circular")),
    closed(Conv2d(3, dilation=2, padding=1)),
    closed(Conv2d(3), AvgPool2d(1), Tanh(), Square()),
    closed(Conv2d(3), Sum(Conv2d(1, **SMALL), 2.0 * Conv2d((3, 2), **SMALL))),
    closed(Conv2d(3, stride=2), Residual(ReLU(), Conv2d(3, **SMALL))),
    closed(MaxNormalization(Conv2d(3, stride=2), mode="fixed", scale=2.0)),
    Sequential(Flatten(), Dense(), GlobalAvgPool2d()),
    convnet(depth=2, kernel_size=3),
    residual_convnet(depth=2),
    residual_convnet(depth=2, kernel_size=3),
    resnet32(bias_variance=0.1),
    three_layer_convnet(),
    dense(depth=1),
    rbf(lengthscale=3.0),
    matern(lengthscale=3.0),
    dot_product(),
    polynomial(),
    arcsine(),
    rbf(3.0) * closed(Conv2d(3, stride=2)) + 2.0 * MaxNormalization(dense(depth=1)),
    FlipAverage(convnet(depth=1, kernel_size=3)),
    PatchKernel(rbf(2.0), location_lengthscale=None, **RAW),
    PatchKernel(rbf(2.0), stride=2, location_lengthscale=1.5, **RAW),
    PatchKernel(convnet(depth=1, kernel_size=2), location_lengthscale=None, **RAW),
    PatchKernel(
        convnet(depth=1, kernel_size=3),
        color="stacked",
        location_lengthscale=None,
        **RAW,
    ),
    PatchKernel(
        rbf(2.0), patch_size=3, normalization="center", location_lengthscale=None
    ),
    PatchKernel(
        rbf(2.0),
        patch_size=3,
        normalization=PatchContrast(floor=0.1),
        location_lengthscale=None,
    ),
]


def is_accepted(kernel, shape) -> bool:
    try:
        FlipAverage(kernel).check(shape)
    except ValueError:
        return False
    return True


def is_invariant(kernel, shape) -> bool:
    images = random_images(4, *shape)
    gram = cross(kernel, images)
    error = (cross(kernel, images.flip(-1)) - gram).abs() / deviations(gram)
    return float(error.max()) < 1e-12


@pytest.mark.parametrize("width", [6, 7, 8, 9])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_kernels_are_refused_if_and_only_if_flips_change_them(kernel, width):
    shape = (2, 4, width)
    assert is_accepted(kernel, shape) == is_invariant(kernel, shape)


@pytest.mark.parametrize("is_mirrored", [True, False])
def test_numbers_of_single_pixels_and_positions(is_mirrored):
    lengthscale = lengths(6, is_mirrored=is_mirrored)
    for kernel in (
        rbf(lengthscale=lengthscale),
        matern(lengthscale=lengthscale),
        PatchKernel(
            rbf(2.0),
            weights=weights(4, is_mirrored=is_mirrored),
            location_lengthscale=None,
            **RAW,
        ),
    ):
        shape = (2, 4, 6)
        assert is_accepted(kernel, shape) == is_invariant(kernel, shape) == is_mirrored


@pytest.mark.parametrize(
    "kernel",
    [
        convnet(depth=2, kernel_size=3),
        rbf(3.0) + 0.5 * three_layer_convnet(),
        MaxNormalization(dense(depth=1)),
        PatchKernel(rbf(2.0), location_lengthscale=1.0, **RAW),
    ],
    ids=repr,
)
def test_value_is_the_mean_over_the_flips_of_both_images(kernel):
    one, two = random_images(3, 2, 5, 7), random_images(4, 2, 5, 7, seed=1)
    four = [
        cross(kernel, first, second)
        for first in (one, one.flip(-1))
        for second in (two, two.flip(-1))
    ]
    average = FlipAverage(kernel)
    assert_close(cross(average, one, two), sum(four) / 4, rtol=1e-12)
    assert_close(
        cross(average, one.flip(-1), two), cross(average, one, two), rtol=1e-12
    )
    assert_close(diag(average, one), cross(average, one).diagonal(), rtol=1e-12)


def test_an_average_of_an_average_is_the_average():
    once = FlipAverage(convnet(depth=1, kernel_size=3))
    images = random_images(3, 1, 4, 6)
    assert_close(cross(FlipAverage(once), images), cross(once, images), rtol=1e-13)


def test_settings_and_hyperparameters_are_those_of_the_kernel():
    inner = convnet(depth=1, kernel_size=3, bias_variance_bounds="fixed")
    kernel = 2.0 * FlipAverage(inner) + rbf(2.0)
    assert repr(FlipAverage(inner)) == f"FlipAverage(kernel={inner!r})"
    assert [one.label for one in kernel.hyperparameters if one.is_free] == [
        "term0__kernel__kernel__weight_variance",
        "term0__factor",
        "term1__lengthscale",
    ]
    images = random_images(5, 1, 4, 6)
    resolved = FlipAverage(rbf()).resolve(images)
    assert resolved == FlipAverage(rbf().resolve(images.flatten(1)))
    assert cross(resolved, images).shape == (5, 5)


def test_derivatives_agree_with_finite_differences():
    kernel = FlipAverage(convnet(depth=2, kernel_size=3, **SMALL)) * rbf(4.0)
    X = np.array(random_images(3, 1, 4, 5).tolist())
    _, slopes = gram_gradient(kernel, X, dtype="float64")
    step = 1e-5
    for j in range(3):
        up, down = (
            cross(kernel.with_theta(kernel.theta + sign * step * np.eye(3)[j]), _t(X))
            for sign in (1, -1)
        )
        assert_close(slopes[..., j], (up - down) / (2 * step), rtol=1e-7, scale=up)
    weight = np.arange(9.0).reshape(3, 3)
    by_theta, by_X = gram_vjp(kernel, X, X, weight, dtype="float64")
    expected = np.einsum("ij,ijp->p", weight, slopes)
    np.testing.assert_allclose(by_theta, expected, rtol=1e-9)
    moved = []
    for index in np.ndindex(*X.shape):
        shift = np.zeros_like(X)
        shift[index] = step
        sums = [
            float((_t(weight) * cross(kernel, _t(X + sign * shift), _t(X))).sum())
            for sign in (1, -1)
        ]
        moved.append((sums[0] - sums[1]) / (2 * step))
    moved = np.reshape(moved, X.shape)
    np.testing.assert_allclose(by_X.reshape(X.shape), moved, rtol=1e-5, atol=1e-5)


def _t(array: np.ndarray) -> torch.Tensor:
    return torch.as_tensor(array, dtype=torch.float64)


@pytest.mark.parametrize(
    ("kernel", "shape", "words"),
    [
        (three_layer_convnet(), (1, 8, 8), ["layer2", "stride=2", "width 8", "odd"]),
        (residual_convnet(), (1, 9, 9), ["layer0", "kernel_size=4", "width 9"]),
        (
            Sequential(Conv2d(3), ReLU(), AvgPool2d(3), Flatten(), Dense()),
            (1, 6, 8),
            ["AvgPool2d", "leave out 2 of its columns"],
        ),
        (resnet32(), (3, 32, 32), ["layer8", "width 32", "16 windows"]),
        (rbf(lengthscale=(1.0, 2.0)), (1, 1, 2), ["lengthscales", "width 2"]),
        (
            PatchKernel(patch_size=3, stride=2, location_lengthscale=None),
            (1, 8, 8),
            ["stride of 2", "width 8"],
        ),
        (
            PatchKernel(normalization=PatchWhitening(), location_lengthscale=None),
            (3, 8, 8),
            ["PatchWhitening", "(flips=True)", "'contrast'"],
        ),
        (
            PatchKernel(
                rbf(),
                patch_size=2,
                weights=(1.0, 2.0, 1.0, 2.0),
                location_lengthscale=None,
            ),
            (1, 3, 3),
            ["weights", "left"],
        ),
        (Cosine(), (1, 4, 4), ["not known", "Cosine()"]),
        (rbf(), (9, 1, 1), ["single column", "(9, 1, 1)", "image_shape"]),
        (Conv2d, (1, 4, 4), ["must be made of kernels", "Conv2d"]),
        (Conv2d(3), (1, 4, 4), ["end the network"]),
        (convnet(depth=0), (1, 4, 4), ["depth"]),
    ],
    ids=lambda value: re.sub(r"\W+", " ", str(value)),
)
def test_errors_say_which_layer_and_which_width(kernel, shape, words):
    with pytest.raises(ValueError, match=words[0]) as error:
        FlipAverage(kernel).check(shape)
    assert not [word for word in words if word not in str(error.value)]


def test_it_is_no_layer_of_a_network():
    network = Sequential(FlipAverage(Conv2d(3)), Flatten(), Dense())
    with pytest.raises(ValueError, match="layer0 of a Sequential must be a layer"):
        network.check((1, 4, 4))


def test_whitening_that_is_fitted_is_refused():
    patches = random_images(20, 2, 3, 3)
    kernel = PatchKernel(
        patch_size=3,
        normalization=PatchWhitening().fit(patches),
        location_lengthscale=None,
    )
    with pytest.raises(ValueError, match="fitted PatchWhitening"):
        FlipAverage(kernel).check((2, 6, 6))
    assert not is_invariant(kernel.replace(base=rbf(1.0)), (2, 6, 6))


def test_whitening_that_has_seen_flips_is_mirrored():
    images = random_images(9, 2, 6, 7)
    whitening = PatchWhitening(flips=True)
    kernel = PatchKernel(
        rbf(1.0), patch_size=3, normalization=whitening, location_lengthscale=None
    )
    assert is_accepted(kernel, (2, 6, 7))
    average = FlipAverage(kernel).resolve(images)
    assert "fitted PatchWhitening(flips=True)" in repr(average)
    gram = cross(average.kernel, images)
    mirrored = cross(average.kernel, images.flip(-1))
    assert_close(mirrored, gram, rtol=1e-9, scale=deviations(gram))


@pytest.mark.parametrize("channels", [1, 3])
def test_usual_whitening_is_one_that_has_seen_flips(channels):
    images = random_images(9, channels, 6, 7)
    whitening = PatchWhitening(flips=True) if channels == 3 else None
    usual, given = (
        FlipAverage(
            rbf()
            + 2.0
            * PatchKernel(
                patch_size=3, normalization=normalization, location_lengthscale=None
            )
        )
        for normalization in ("auto", whitening)
    )
    usual.check((channels, 6, 7))
    found, wanted = usual.resolve(images), given.resolve(images)
    if channels == 1:
        wanted.set_params(kernel__term1__kernel__normalization="auto")
    assert found == wanted
    assert found.resolve(images) is found
    assert cross(found, images).shape == (9, 9)


def test_normalizations_of_others_are_refused():
    @dataclass(repr=False, eq=False)
    class Half(PatchContrast):
        pass

    kernel = PatchKernel(
        rbf(1.0), patch_size=3, normalization=Half(), location_lengthscale=None
    )
    with pytest.raises(ValueError, match="Half"):
        FlipAverage(kernel).check((2, 6, 6))
