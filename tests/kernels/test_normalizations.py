"""Normalization: what each mode is, and what the literal one of the source is not."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from skconvgp import gram_diag, gram_gradient, gram_matrix
from skconvgp.datasets import fetch_mnist
from skconvgp.kernels import (
    GELU,
    Conv2d,
    Dense,
    Erf,
    Flatten,
    LeakyReLU,
    MaxNormalization,
    ReLU,
    Residual,
    Sequential,
    Sum,
    convnet,
    literal_max_normalization,
    rbf,
    residual_convnet,
)
from tests.helpers.estimators import digits
from tests.helpers.kernels import (
    assert_close,
    cross,
    deviations,
    diag,
    last_maps,
    name,
    random_images,
)

FOLDER = os.environ.get("SKCONVGP_DATA")
needs_mnist = pytest.mark.skipif(
    FOLDER is None or not (Path(FOLDER) / "mnist.npz").is_file(),
    reason="SKCONVGP_DATA names no folder with mnist.npz",
)
VARIANCES = {"weight_variance": 1.7, "bias_variance": 0.3}
NETWORK = Sequential(
    Conv2d(3, **VARIANCES),
    ReLU(),
    Residual(LeakyReLU(0.2), Conv2d(2, **VARIANCES)),
    Sum(Conv2d(1, **VARIANCES), 2.0 * Conv2d(3)),
    ReLU(),
    Flatten(),
    Dense(bias_variance=0.2),
)
HOMOGENEOUS = [
    NETWORK,
    convnet(depth=2, kernel_size=3),
    convnet(depth=2, kernel_size=3).unshared(),
    residual_convnet(depth=2) + 0.5 * NETWORK,
    MaxNormalization(NETWORK, mode="fixed", scale=3.0),
    MaxNormalization(NETWORK, mode="exact", scale=3.0),
]
IMAGES = random_images(5, 2, 4, 3)
OTHERS = random_images(3, 2, 4, 3, seed=1)
# Maps of this network reach 1e47: float32 ends at 3e38.
LARGE = convnet(depth=7, kernel_size=3, weight_variance=1e6)


def fixed(kernel, scale):
    return MaxNormalization(kernel, mode="fixed", scale=scale)


def exact(kernel, scale=4.0**32):
    return MaxNormalization(kernel, mode="exact", scale=scale)


@pytest.mark.parametrize("conv", [Conv2d(3, **VARIANCES), Conv2d(2, stride=2)])
def test_fixed_scale_after_a_layer_divides_its_variances(conv):
    scale = 2.5
    divided = conv.replace(
        weight_variance=conv.weight_variance / scale,
        bias_variance=conv.bias_variance / scale,
    )
    layers = ReLU(), Conv2d(2, **VARIANCES), Erf(), Flatten(), Dense()
    kernel = Sequential(fixed(conv, scale), *layers)
    same = Sequential(divided, *layers)
    assert_close(cross(kernel, IMAGES, OTHERS), cross(same, IMAGES, OTHERS))
    assert_close(diag(kernel, IMAGES), diag(same, IMAGES))
    assert_close(last_maps(fixed(conv, scale), IMAGES), last_maps(divided, IMAGES))
    plain = cross(Sequential(conv, *layers), IMAGES, OTHERS)
    assert not torch.allclose(cross(kernel, IMAGES, OTHERS) * scale, plain, rtol=0.01)


def test_fixed_scale_of_a_finished_kernel():
    kernel = convnet(depth=1) + rbf(4.0)
    gram = cross(kernel, IMAGES, OTHERS)
    assert_close(cross(fixed(kernel, 7.0), IMAGES, OTHERS), gram / 7.0)
    assert_close(diag(fixed(kernel, 7.0), IMAGES), diag(kernel, IMAGES) / 7.0)


@pytest.mark.parametrize("kernel", HOMOGENEOUS, ids=name)
@pytest.mark.parametrize("scale", [4.0**32, 1e-3, 7.7])
def test_exact_mode_changes_nothing(kernel, scale):
    gram = cross(kernel, IMAGES, OTHERS)
    assert_close(cross(exact(kernel, scale), IMAGES, OTHERS), gram)
    assert_close(diag(exact(kernel, scale), IMAGES), diag(kernel, IMAGES))
    assert exact(kernel).theta.tolist() == kernel.theta.tolist()


def test_exact_mode_holds_maps_that_overflow():
    images = random_images(4, 1, 6, 5).float()
    expected = cross(LARGE, images.double())
    assert float(expected.max()) > 1e40
    plain = cross(LARGE, images)
    assert not bool(torch.isfinite(plain).all())
    stable = cross(exact(LARGE), images)
    assert_close(stable, expected, rtol=1e-5, scale=deviations(expected))
    assert_close(diag(exact(LARGE), images), diag(LARGE, images.double()), rtol=1e-5)


def test_exact_mode_holds_maps_of_a_network_without_flatten():
    network = Sequential(*[Conv2d(1, weight_variance=1e15), ReLU()] * 3)
    images = random_images(3, 2, 1, 1).float()
    expected = cross(network, images.double())
    stable = cross(exact(network), images)
    assert_close(stable, expected, rtol=1e-5, scale=deviations(expected))


@pytest.mark.parametrize("kernel", [NETWORK, rbf(4.0), NETWORK * rbf(4.0)], ids=name)
def test_correlation(kernel):
    whole = torch.cat([IMAGES, OTHERS])
    gram = cross(kernel, whole)
    correlation = MaxNormalization(kernel)
    assert_close(cross(correlation, whole), gram / deviations(gram))
    assert_close(cross(correlation, IMAGES, OTHERS), cross(correlation, whole)[:5, 5:])
    assert torch.equal(diag(correlation, whole), torch.ones(8, dtype=torch.float64))


def test_correlation_of_an_image_without_variance_is_zero():
    images = IMAGES.clone()
    images[1] = 0.0
    kernel = MaxNormalization(convnet(depth=1, bias_variance=0.0))
    gram = cross(kernel, images)
    assert bool(torch.isfinite(gram).all())
    assert float(gram[1].abs().max()) == 0.0
    assert diag(kernel, images).tolist() == [1.0, 0.0, 1.0, 1.0, 1.0]


def test_correlation_of_variances_that_overflow_is_no_number():
    images = random_images(4, 1, 6, 5).float()
    kernel = MaxNormalization(LARGE)
    assert bool(diag(kernel, images).isnan().all())
    with pytest.raises(ValueError, match="variance of 4 of 4 samples is not finite"):
        gram_matrix(kernel, images.numpy(), backend="torch", dtype="float32")
    stable = cross(MaxNormalization(exact(LARGE)), images)
    assert_close(
        stable, cross(kernel, images.double()), rtol=1e-5, scale=torch.ones(4, 4)
    )


@pytest.mark.parametrize("backend", ["torch", "auto"])
def test_gram_matrix_of_correlations_has_a_unit_diagonal(backend):
    X, _ = digits(30)
    kernel = MaxNormalization(convnet(depth=2, kernel_size=3))
    gram = gram_matrix(kernel, X, backend=backend)
    assert (gram.diagonal() == 1.0).all()
    assert (gram_diag(kernel, X, backend=backend) == 1.0).all()
    assert (abs(gram) <= 1.0).all()
    assert np.linalg.eigvalsh(gram)[0] > 0.0


@pytest.mark.parametrize(
    "kernel",
    [
        MaxNormalization(NETWORK),
        MaxNormalization(rbf(4.0) + NETWORK),
        exact(NETWORK),
        exact(convnet(depth=2, kernel_size=2).unshared()),
        fixed(NETWORK, 3.0),
        Sequential(fixed(Conv2d(3, **VARIANCES), 3.0), Erf(), Flatten(), Dense()),
    ],
    ids=name,
)
@pytest.mark.parametrize(
    "backend", [pytest.param("torch", marks=pytest.mark.slow), "auto"]
)
def test_derivatives_are_finite_differences(kernel, backend):
    X, step = IMAGES.numpy(), 1e-5
    settings = {"backend": backend, "dtype": "float64"}
    _, gradient = gram_gradient(kernel, X, **settings)
    assert gradient.shape[-1] == len(kernel.theta) > 0
    for i, direction in enumerate(np.eye(len(kernel.theta)) * step):
        above, below = (
            gram_matrix(
                kernel.with_theta(kernel.theta + sign * direction), X, **settings
            )
            for sign in (1.0, -1.0)
        )
        difference = (above - below) / (2.0 * step)
        np.testing.assert_allclose(gradient[..., i], difference, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (MaxNormalization(NETWORK, mode="max"), "`mode` must be one of ('fixed', "),
        (fixed(NETWORK, 0.0), "`scale` must be a finite number > 0, from 1e-100"),
        (
            exact(NETWORK, "large"),
            "`scale` must be a finite number > 0, from",
        ),
        (MaxNormalization(3), "must be made of kernels, got 3"),
        (
            exact(rbf(1.0)),
            "mode='exact' needs a network of piecewise linear activations",
        ),
        (
            exact(Sequential(Conv2d(3), GELU(), Flatten())),
            "and GELU() does not belong",
        ),
        (exact(NETWORK + MaxNormalization(NETWORK)), "and MaxNormalization(kernel=Seq"),
        (exact(NETWORK * NETWORK), "and Product("),
        (
            Sequential(MaxNormalization(Conv2d(3)), Flatten()),
            "normalizes a finished kernel and cannot be a layer",
        ),
        (
            Sequential(exact(Conv2d(3)), Flatten()),
            "normalizes a finished kernel and cannot be a layer",
        ),
        (Sequential(fixed(rbf(2.0), 2.0)), "is a complete kernel and cannot be"),
        (fixed(Conv2d(3), 2.0), "end the network with `Flatten()`"),
    ],
)
def test_wrong_settings_are_named(kernel, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        kernel.check((1, 4, 4))


DIGITS = torch.as_tensor(digits(120)[0])
LAYERS = convnet(depth=4, kernel_size=3).layers


def literal_gram(tile, network=LAYERS, images=DIGITS):
    """Return a matrix of images, each tile on its own, as the source does."""
    tiles = images.split(tile)
    rows = [
        torch.cat([literal_max_normalization(network, one, two) for two in tiles], 1)
        for one in tiles
    ]
    return torch.cat(rows)


def test_literal_version_is_indefinite():
    gram = literal_gram(20)
    assert_close(gram, gram.T)
    assert int((torch.linalg.eigvalsh(gram) < -1e-3).sum()) >= 5


def test_literal_version_depends_on_the_tile():
    ratio = literal_gram(20) / literal_gram(60)
    off_diagonal = ratio[:20, 20:]
    assert float(off_diagonal.max() / off_diagonal.min()) > 1.001  # no common factor


def test_literal_version_in_one_block_is_a_fixed_scale_for_each_layer():
    """Largest covariances are then variances, and all three divisors are equal."""
    layers, images = [], DIGITS.permute(2, 3, 1, 0)
    var = images.square().mean(2)
    for layer in LAYERS.layers:
        var, _ = layer.image_pass(var)
        if isinstance(layer, Conv2d | Dense):
            scale = float(var.max())
            layer, var = fixed(layer, scale), var / scale  # noqa: PLW2901
        layers.append(layer)
    gram = literal_gram(len(DIGITS))
    assert_close(gram, cross(Sequential(*layers), DIGITS))
    assert float(torch.linalg.eigvalsh(gram)[0]) > 0.0
    plain = MaxNormalization(convnet(depth=4, kernel_size=3))
    assert float((gram / deviations(gram) - cross(plain, DIGITS)).abs().max()) > 1e-3


def test_literal_version_has_correlations_above_one():
    one, two = DIGITS[:20], DIGITS[20:40]
    conv = Conv2d(3, weight_variance=9.0, bias_variance=1.0)
    maps = last_maps(conv, DIGITS[:40])
    var1, var2 = maps.diagonal(dim1=2, dim2=3).split([20, 20], dim=2)
    cov, var1, var2 = (part / part.max() for part in (maps[:, :, :20, 20:], var1, var2))
    assert float((cov / (var1[..., None] * var2[:, :, None]).sqrt()).max()) > 1.01
    block = literal_max_normalization(Sequential(conv, Flatten()), one, two)
    assert_close(block, cov.mean((0, 1)))


@pytest.mark.slow
@needs_mnist
@pytest.mark.parametrize(("tile", "n_negative"), [(80, 17), (20, 36)])
def test_literal_version_on_mnist_has_the_negative_eigenvalues_of_the_docs(
    tile, n_negative
):
    X = fetch_mnist(n_samples=240).data
    images = torch.as_tensor(X, dtype=torch.float32).reshape(-1, 1, 28, 28)
    values = torch.linalg.eigvalsh(literal_gram(tile, convnet().layers, images))
    assert float(values[0]) < -0.1
    assert int((values < 0.0).sum()) == pytest.approx(n_negative, abs=1)
