"""Networks, images and bounds for the tests of the fused backend."""

from functools import lru_cache

import pytest
import torch

from skconvgp.backends import ReferenceBackend
from skconvgp.backends._fused import FusedBackend, FusedTangentBackend
from skconvgp.backends._fused_cpu import (
    Extension,
    instruction_sets,
    missing_extension,
)
from skconvgp.backends._program import lower, lower_with_tangents
from skconvgp.kernels import (
    Abs,
    Conv2d,
    Dense,
    Erf,
    Flatten,
    Identity,
    LeakyReLU,
    MaxNormalization,
    ReLU,
    Residual,
    Scale,
    Sequential,
    Sum,
    convnet,
    dense,
    residual_convnet,
    resnet32,
    three_layer_convnet,
)
from tests.helpers.estimators import digits

needs_extension = pytest.mark.skipif(
    bool(missing_extension()), reason=missing_extension() or "the extension is there"
)
DTYPES = [torch.float32, torch.float64]
# Of a value, relative to sqrt(K_ii K_jj); of a variance, relative to itself.
BOUNDS = {torch.float32: 2e-6, torch.float64: 1e-11}
DIAG_BOUND = 1e-13
# Derivatives by the logarithm of a variance add up over the layers; in single precision
# so do their errors.
TANGENT_BOUNDS = {torch.float32: 1e-5, torch.float64: 1e-11}
LANES = "lanes"  # the arithmetic of the GPU on this processor
VECTOR_BYTES = {
    "avx512": 64,
    "avx512_newton": 64,
    "avx2": 32,
    "baseline": 16,
    LANES: 16,
}

SHAPE = (2, 9, 7)
BLANK_FREE = {"bias_variance": 0.0}
NETWORKS = {
    "convnet": (convnet(depth=3, kernel_size=3), SHAPE),
    "convnet, even window": (convnet(depth=3, kernel_size=4), SHAPE),
    "convnet, window wider than the map": (convnet(depth=2), (1, 5, 5)),
    "convnet, one position": (convnet(depth=3), (5, 1, 1)),
    "convnet, no bias": (convnet(depth=4, kernel_size=3, **BLANK_FREE), SHAPE),
    "convnet, one row": (convnet(depth=2, kernel_size=3), (1, 1, 12)),
    "convnet, many channels": (convnet(depth=2, kernel_size=3), (37, 4, 3)),
    "many channels of a position": (
        Sequential(Conv2d(1), Sum(ReLU(), Abs()), Flatten()),
        (129, 1, 1),
    ),
    "residual convnet": (residual_convnet(depth=4), SHAPE),
    "residual convnet, many channels": (residual_convnet(depth=2), (9, 3, 4)),
    "resnet32": (resnet32(), (1, 8, 8)),
    "resnet32, bias": (resnet32(bias_variance=0.2), (3, 5, 6)),
    "three layers": (three_layer_convnet(), SHAPE),
    "dense": (dense(), (7, 1, 1)),
    "dense, many numbers": (dense(), (900, 1, 1)),
    "dense, images": (dense(depth=2), SHAPE),
    "dense, no bias": (dense(**BLANK_FREE), SHAPE),
    "windows of all kinds": (
        Sequential(
            Conv2d(3, padding="valid", bias_variance=0.1),
            LeakyReLU(0.2),
            Conv2d((2, 3), stride=2, padding=2),
            Abs(),
            Conv2d(3, dilation=2, padding="circular"),
            ReLU(),
            Flatten(),
            Dense(bias_variance=0.3),
        ),
        SHAPE,
    ),
    "windows of 3, 5 and 7": (
        Sequential(
            Conv2d(7, bias_variance=0.1),
            ReLU(),
            Conv2d(5, padding="valid"),
            LeakyReLU(0.3),
            Conv2d(3),
            ReLU(),
            Conv2d(7, padding=5),
            ReLU(),
            Conv2d(5),
            ReLU(),
            Conv2d(3, padding="valid"),
            ReLU(),
            Flatten(),
            Dense(),
        ),
        (1, 16, 23),
    ),
    "other slopes in turn": (
        Sequential(
            *(Conv2d(3, bias_variance=0.1), LeakyReLU(0.3)),
            *(Conv2d(3, bias_variance=0.1), LeakyReLU(0.1)),
            *(Conv2d(3, bias_variance=0.1), LeakyReLU(0.3)),
            *(Conv2d(3, bias_variance=0.1), Abs()),
            Flatten(),
        ),
        SHAPE,
    ),
    "maps that get narrow": (
        Sequential(
            *(Conv2d(3), ReLU(), Conv2d(5, padding="valid"), ReLU()),
            *(Conv2d(3, bias_variance=0.1), LeakyReLU(0.1), Conv2d(3), Flatten()),
        ),
        (1, 8, 36),
    ),
    "strides from 70 columns": (
        Sequential(
            *(Conv2d(3), ReLU(), Conv2d(3, stride=2), ReLU()),
            *(Conv2d(3, bias_variance=0.2), ReLU(), Conv2d(3, stride=2), Erf()),
            *(Conv2d(3), Flatten()),
        ),
        (2, 5, 70),
    ),
    "128 columns": (
        Sequential(
            *(Conv2d((2, 7)), ReLU(), Conv2d((1, 40), padding="valid"), ReLU()),
            *(Conv2d((1, 2), stride=2, dilation=3), Abs(), Flatten()),
        ),
        (1, 3, 128),
    ),
    "window of 1x5": (
        Sequential(Conv2d((1, 5)), ReLU(), Conv2d((4, 1)), ReLU(), Flatten(), Dense()),
        SHAPE,
    ),
    "maps that grow": (
        Sequential(
            Conv2d(3, padding=2),
            ReLU(),
            Conv2d(5, padding=4, bias_variance=0.2),
            ReLU(),
            Conv2d(3, padding="valid"),
            LeakyReLU(0.1),
            Flatten(),
        ),
        SHAPE,
    ),
    "more padding than window": (
        Sequential(Conv2d(2, padding=5, bias_variance=0.1), ReLU(), Flatten(), Dense()),
        SHAPE,
    ),
    "leaky": (
        Sequential(
            Conv2d(3, padding=1),
            LeakyReLU(-0.5),
            Conv2d(3, padding=2, bias_variance=0.1),
            LeakyReLU(1.0),
            Conv2d(1),
            LeakyReLU(3.0),
            Conv2d(3),
            LeakyReLU(-1.0),
            Flatten(),
            LeakyReLU(0.2),
            Dense(),
        ),
        SHAPE,
    ),
    "erf": (
        Sequential(
            Conv2d(3, bias_variance=0.1),
            Erf(),
            Conv2d(3, weight_variance=5.0),
            Erf(),
            Flatten(),
            Dense(),
            Erf(),
            Dense(weight_variance=2.0),
        ),
        SHAPE,
    ),
    "erf, vectors": (
        Sequential(Dense(), Erf(), Dense(bias_variance=0.2), ReLU(), Dense()),
        (9, 1, 1),
    ),
    "one position that wraps around": (
        Sequential(
            Conv2d((3, 2), padding="circular", bias_variance=0.1),
            ReLU(),
            Conv2d(2, padding="circular", dilation=2),
            Abs(),
            Dense(),
        ),
        (4, 1, 1),
    ),
    "linear": (Sequential(Flatten(), Dense(bias_variance=0.2)), SHAPE),
    "inner product": (Flatten(), SHAPE),
    "sum of networks": (
        2.0 * convnet(depth=1, kernel_size=2)
        + dense(depth=1)
        + 0.5 * Sequential(Flatten(), Dense()),
        SHAPE,
    ),
    "branches": (
        Sequential(
            Residual(Identity()),
            Residual(),
            Sum(Conv2d(3), Conv2d(1, weight_variance=0.3), Identity()),
            ReLU(),
            Residual(
                ReLU(),
                Conv2d(3),
                Residual(Conv2d(3, bias_variance=0.1), Abs()),
                Conv2d(1, bias_variance=1.0),
            ),
            Scale(ReLU(), 3.0),
            Sum(
                Conv2d(1, stride=2, weight_variance=0.7),
                Sequential(Conv2d(3, stride=2), ReLU(), Conv2d(3)),
            ),
            Flatten(),
            Dense(),
        ),
        SHAPE,
    ),
    "fixed scales": (
        Sequential(
            MaxNormalization(Conv2d(3, bias_variance=0.3), mode="fixed", scale=5.0),
            ReLU(),
            MaxNormalization(Conv2d(3), mode="fixed", scale=0.1),
            Erf(),
            Flatten(),
            Dense(bias_variance=0.1),
        ),
        SHAPE,
    ),
    "exact scale": (
        MaxNormalization(convnet(depth=2, kernel_size=3), mode="exact", scale=4.0**20),
        SHAPE,
    ),
    "sum of networks on vectors": (dense(depth=1) + dense(depth=2), (7, 1, 1)),
    "sum on one position": (Sequential(Sum(Conv2d(1), Conv2d(1), ReLU())), (1, 1, 1)),
    "branches of whole images": (
        Sequential(
            Flatten(),
            Sum(ReLU(), Abs(), Sequential(Dense(bias_variance=0.1), Erf())),
        ),
        (3, 16, 16),
    ),
    "scaled input": (
        Sum(Scale(Sequential(Flatten()), 2.0), Sequential(Conv2d(3), Abs(), Flatten())),
        SHAPE,
    ),
}
MNIST_NETWORKS = {
    "convnet": convnet(),
    "residual_convnet": residual_convnet(),
    "resnet32": resnet32(),
}
every_network = pytest.mark.parametrize("name", NETWORKS)
both_dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])


@pytest.fixture(params=[*instruction_sets(), LANES] if instruction_sets() else [])
def every_instruction_set(request, monkeypatch):
    """Compute with each instruction set that this machine has; return its name."""
    monkeypatch.setattr("skconvgp.backends._fused_cpu.INSTRUCTION_SET", request.param)
    return request.param


def lanes(name, dtype):
    """Return how many pairs an instruction set takes at once."""
    return VECTOR_BYTES[name] // dtype.itemsize


def images(n, shape, seed=0):
    """Return n random images (n, c, h, w), half of them without negative pixels."""
    generator = torch.Generator().manual_seed(seed)
    pixels = torch.randn(n, *shape, generator=generator, dtype=torch.float64)
    pixels[1::2] = pixels[1::2].abs()
    return pixels


def large_digits(n):
    """Return digits as images (n, 1, 28, 28): each pixel three times, and a frame."""
    small = torch.as_tensor(digits(n)[0])
    large = small.repeat_interleave(3, 2).repeat_interleave(3, 3)
    return torch.nn.functional.pad(large, (2, 2, 2, 2))


def strokes(n):
    """Return bright boxes of random brightness on a blank background."""
    drawn = images(n, (1, 28, 28), seed=5).abs()
    is_blank = torch.ones(n, 1, 28, 28, dtype=torch.bool)
    for i in range(n):
        is_blank[i, :, 4 + i : 12, 6 : 10 + i] = False
        is_blank[i, :, 9 : 15 + i, 15 - i : 19] = False
    return drawn.masked_fill(is_blank, 0.0)


def noise(n):
    """Return random images, of either sign and positive."""
    return images(n, (1, 28, 28))


MNIST_SOURCES = [large_digits, strokes, noise]


def hard_images(shape, seed=0):
    """Return 15 images: some equal, nearly equal, opposite, blank, half blank."""
    pixels = images(15, shape, seed)
    noise = images(4, shape, seed + 1)
    pixels[1] = pixels[0]
    pixels[2] = -pixels[0]
    for i, size in enumerate([1e-3, 1e-5, 1e-7]):
        pixels[3 + i] = pixels[0] * (1.0 + size * noise[i])
    pixels[6] = -pixels[0] * (1.0 + 1e-4 * noise[3])
    pixels[7] = 0.0
    pixels[8, :, : shape[1] // 2] = 0.0
    pixels[9, :, :, shape[2] // 2 :] = 0.0
    pixels[10] = 1.0
    pixels[11] = 3.0 * pixels[0]
    return pixels


def tiny_weights(weight, activation):
    """Return networks where biases come after weights that leave nearly nothing."""
    plain = [Conv2d(3, weight_variance=weight), activation]
    biased = Conv2d(3, weight_variance=weight, bias_variance=1.0)
    n_before = 2 if weight < 1e-30 else 9  # double precision holds 1e-300
    end = (activation, Flatten(), Dense())
    # What follows Erf is not scaled out: single precision holds 1e-38.
    small = max(weight, 1e-20) if isinstance(activation, Erf) else weight
    return {
        "chain": Sequential(*plain * n_before, biased, *end),
        "chain, more biases": Sequential(
            *plain, biased, activation, *plain, biased, activation, Conv2d(5), *end
        ),
        "chain, small bias": Sequential(
            *plain, biased.replace(bias_variance=small), *end
        ),
        "points": Sequential(
            Flatten(), Dense(weight), activation, Dense(weight, bias_variance=1.0), *end
        ),
        "sum": Sequential(Sum(biased, Conv2d(3)), *end),
        "residual": Sequential(Residual(activation, *plain, biased), *end),
        "shortcut": Sequential(Sum(Conv2d(1, weight_variance=weight), biased), *end),
        "scaled": Sequential(Scale(Conv2d(3), weight), activation, biased, *end),
    }


def fused(kernel, shape):
    """Return the fused backend of a kernel."""
    kernel.check(shape)
    return FusedBackend(lower(kernel, shape, Extension().roots), Extension())


def fused_tangents(kernel, shape, n_tangents=8):
    """Return the fused backend of a kernel, with derivatives."""
    kernel.check(shape)
    lowered = lower_with_tangents(kernel, shape, n_tangents, Extension().roots)
    return FusedTangentBackend(*lowered, Extension())


def tile(backend, one, two=None):
    """Return the covariances of one set of images with another, or with itself."""
    first = backend.prepare(one)
    return backend.cross(first, first if two is None else backend.prepare(two))


def variances(backend, one):
    """Return the variances of images."""
    return backend.diag(backend.prepare(one))


def reference(kernel, one):
    """Return covariances and variances in double precision, of the images given."""
    backend = ReferenceBackend(kernel)
    prepared = backend.prepare(one.double())
    return backend.cross(prepared, prepared), backend.diag(prepared)


@lru_cache
def hard_problem(name, dtype):
    """Return images for one of the networks, covariances and variances of them."""
    kernel, shape = NETWORKS[name]
    given = hard_images(shape).to(dtype)
    return given, *reference(kernel, given)


def assert_within(actual, expected, variances, bound):
    """Compare to a fraction of sqrt(K_ii K_jj); where that is 0, to the bit."""
    deviations = variances.sqrt()
    scale = deviations[:, None] * deviations[None, :]
    scale = scale.reshape(*scale.shape, *(1,) * (actual.ndim - 2))
    assert actual.dtype == torch.float64
    assert actual.shape == expected.shape
    assert bool(torch.isfinite(actual).all())
    excess = (actual - expected).abs() - bound * scale
    worst = ((actual - expected).abs() / scale.clamp(min=1e-300)).max()
    assert bool((excess <= 0.0).all()), f"off by {float(worst):.2e}"


def assert_values(backend, given, covariances, expected_variances, bounds=BOUNDS):
    """Compare covariances and variances of the fused backend with the reference."""
    bound = bounds[given.dtype]
    prepared = backend.prepare(given)
    diag = backend.diag(prepared)
    assert_within(
        backend.cross(prepared, prepared), covariances, expected_variances, bound
    )
    assert diag.dtype == torch.float64
    error = (diag - expected_variances).abs()
    assert bool((error <= DIAG_BOUND * expected_variances).all()), error


def finite_differences(function, theta, step=2e-3):
    """Return derivatives (..., p) by central differences of sixth order."""
    columns = []
    for direction in torch.eye(len(theta), dtype=torch.float64) * step:
        near, far, farther = (
            function(theta + (k * direction).numpy())
            - function(theta - (k * direction).numpy())
            for k in (1, 2, 3)
        )
        columns.append((45.0 * near - 9.0 * far + farther) / (60.0 * step))
    return torch.stack(columns, dim=-1)
