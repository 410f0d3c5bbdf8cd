"""Derivatives of the fused backend, against torch and finite differences."""

from functools import cache

import pytest
import torch

from skconvgp.backends import TangentBackend
from skconvgp.kernels import (
    Conv2d,
    Dense,
    Erf,
    Flatten,
    LeakyReLU,
    ReLU,
    Sequential,
    convnet,
    dense,
    resnet32,
)
from tests.helpers.fused import (
    BOUNDS,
    NETWORKS,
    TANGENT_BOUNDS,
    assert_within,
    both_dtypes,
    every_instruction_set,
    every_network,
    finite_differences,
    fused,
    fused_tangents,
    hard_images,
    hard_problem,
    images,
    needs_extension,
    reference,
    tile,
    tiny_weights,
    variances,
)

__all__ = ["every_instruction_set"]

pytestmark = needs_extension
# A layer before the first derivative takes another formula for the value.
SPLIT_BOUND = 2e-12
BLANK_FREE = {"bias_variance": 0.0}


def exact_tangents(kernel, given):
    """Return torch's values and derivatives of pairs and of images, and variances."""
    exact, doubled = TangentBackend(kernel), given.double()
    _, diag = reference(kernel, given)
    return tile(exact, doubled), variances(exact, doubled), diag


def assert_tangents(kernel, given, n_tangents=8, exact=None):
    """Compare values and derivatives, of pairs and of images, with torch."""
    backend = fused_tangents(kernel, tuple(given.shape[1:]), n_tangents)
    expected, expected_diag, diag = exact or exact_tangents(kernel, given)
    assert expected.shape[-1] == 1 + len(kernel.theta)
    bound = TANGENT_BOUNDS[given.dtype]
    assert_within(tile(backend, given), expected, diag, bound)
    actual = variances(backend, given)
    assert actual.dtype == torch.float64
    assert actual.shape == expected_diag.shape
    # Tables of derivatives are kept in the precision of the maps, sums are not.
    assert bool(((actual - expected_diag).abs() <= bound * diag[:, None]).all())


@cache
def exact_problem(name):
    """Return a network, images that both precisions hold, and what is exact of them."""
    kernel, shape = NETWORKS[name]
    # The reference takes 32 layers for each hyperparameter of "resnet32".
    given = hard_images(shape)[: 5 if "resnet32" in name else 12].float()
    return kernel, given, exact_tangents(kernel, given)


@both_dtypes
@every_network
def test_derivatives_are_those_of_torch(name, dtype):
    kernel, given, exact = exact_problem(name)
    assert_tangents(kernel, given.to(dtype), exact=exact)


@pytest.mark.parametrize(
    ("weight", "dtype"),
    [(1e-4, torch.float64), (1e-100, torch.float32)]
    + [
        pytest.param(weight, dtype, marks=pytest.mark.slow)
        for weight, dtype in [
            (1e-4, torch.float32),
            (1e-40, torch.float32),
            (1e-40, torch.float64),
            (1e-100, torch.float64),
        ]
    ],
)
@pytest.mark.parametrize(
    "activation",
    [ReLU(), Erf(), pytest.param(LeakyReLU(-0.4), marks=pytest.mark.slow)],
    ids=repr,
)
def test_derivatives_behind_tiny_weights(activation, weight, dtype):
    given = hard_images((1, 5, 4))[:7].to(dtype)
    for kernel in tiny_weights(weight, activation).values():
        assert_tangents(kernel, given)


@both_dtypes
@pytest.mark.parametrize("name", ["convnet", "windows of all kinds", "dense", "erf"])
def test_every_instruction_set(name, dtype, every_instruction_set):
    kernel, shape = NETWORKS[name]
    assert_tangents(kernel, hard_images(shape)[:10].to(dtype))


PARAMETERS = {
    0: convnet(
        depth=2,
        kernel_size=3,
        weight_variance_bounds="fixed",
        bias_variance_bounds="fixed",
    ),
    1: convnet(depth=2, kernel_size=3, bias_variance_bounds="fixed"),
    2: convnet(depth=2, kernel_size=3),
    16: convnet(kernel_size=3).unshared(),
    17: Sequential(
        *(Conv2d(3, bias_variance=0.1), LeakyReLU(0.3)) * 4,
        *(Conv2d(3, stride=2, bias_variance=0.2), Erf()) * 2,
        *(Flatten(), Dense(bias_variance=0.2), ReLU(), Dense(), ReLU()),
        Dense(bias_variance=0.1, weight_variance_bounds="fixed"),
        Dense(bias_variance_bounds="fixed"),
    ),
}


@cache
def exact_of_parameters(n_parameters):
    """Return images, and what is exact of them."""
    given = hard_images((1, 5, 4))[:7]
    return given, exact_tangents(PARAMETERS[n_parameters], given)


@pytest.mark.parametrize("n_tangents", [1, 3, 8, 64])
@pytest.mark.parametrize("n_parameters", PARAMETERS)
def test_derivatives_however_they_are_split(n_parameters, n_tangents):
    kernel, shape = PARAMETERS[n_parameters], (1, 5, 4)
    backend = fused_tangents(kernel, shape, n_tangents)
    assert len(kernel.theta) == n_parameters
    n_programs = max(-(-n_parameters // n_tangents), 1)
    assert len(backend.programs) == n_programs
    given, exact = exact_of_parameters(n_parameters)
    assert_tangents(kernel, given, n_tangents, exact)


@pytest.mark.parametrize("n_tangents", [1, 3, 8, 64])
def test_splitting_changes_no_more_than_rounding(n_tangents):
    kernel, given = PARAMETERS[16], images(19, (1, 5, 4))
    whole = tile(fused_tangents(kernel, (1, 5, 4), 16), given)
    part = tile(fused_tangents(kernel, (1, 5, 4), n_tangents), given)
    _, diag = reference(kernel, given)
    assert_within(part, whole, diag, SPLIT_BOUND)


def test_all_variances_of_a_deep_residual_network():
    kernel, shape = resnet32(bias_variance=0.1).unshared(), (1, 8, 8)
    free = len(kernel.theta)
    assert free == 2 * 36
    given = images(3, shape)
    backend = fused_tangents(kernel, shape, 64)
    together = tile(backend, given)
    alone = tile(fused_tangents(kernel, shape, 8), given)
    _, diag = reference(kernel, given)
    assert_within(alone, together, diag, SPLIT_BOUND)
    for i in (0, 1, 17, free - 1):
        step = torch.zeros(free, dtype=torch.float64)
        step[i] = 1.0

        def value(t, step=step):
            return tile(
                fused(kernel.with_theta(kernel.theta + t * step.numpy()), shape), given
            )

        slope = finite_differences(value, [0.0])
        assert_within(together[..., 1 + i], slope[..., 0], diag, 1e-10)


@every_network
def test_derivatives_are_finite_differences_of_the_value(name):
    kernel, shape = NETWORKS[name]
    given = hard_images(shape)[:8]
    if len(kernel.theta) == 0:
        assert tile(fused_tangents(kernel, shape), given).shape == (8, 8, 1)
        return

    def pairs(theta):
        return tile(fused(kernel.with_theta(theta), shape), given)

    def alone(theta):
        return variances(fused(kernel.with_theta(theta), shape), given)[..., None]

    backend = fused_tangents(kernel, shape)
    diag = variances(backend, given)
    # Truncation of order step^6; errors of the fit, 1e-13, over the step.
    bound = 1e-9
    slopes = finite_differences(pairs, kernel.theta)
    assert_within(tile(backend, given)[..., 1:], slopes, diag[:, 0], bound)
    slopes = finite_differences(alone, kernel.theta)[:, 0]
    excess = (diag[:, 1:] - slopes).abs() - bound * diag[:, :1]
    assert bool((excess <= 0.0).all())


@both_dtypes
@every_network
def test_value_beside_derivatives_is_the_value(name, dtype):
    kernel, shape = NETWORKS[name]
    given, covariances, diag = hard_problem(name, dtype)
    backend = fused_tangents(kernel, shape)
    assert_within(tile(backend, given)[..., 0], covariances, diag, BOUNDS[dtype])
    alone = variances(fused(kernel, shape), given)
    torch.testing.assert_close(
        variances(backend, given)[:, 0], alone, rtol=1e-13, atol=0.0
    )


@both_dtypes
@pytest.mark.parametrize(
    "kernel",
    [convnet(3, 3, **BLANK_FREE), resnet32(), dense(**BLANK_FREE)],
    ids=["convnet", "resnet32", "dense"],
)
def test_blank_and_equal_images_without_bias(kernel, dtype):
    shape = (1, 6, 6)
    given = hard_images(shape).to(dtype)
    given[12], given[13] = 0.0, given[0]
    backend = fused_tangents(kernel.replace(bias_variance_bounds="fixed"), shape)
    values, diag = tile(backend, given), variances(backend, given)
    assert bool(torch.isfinite(values).all())
    assert bool((values[12] == 0.0).all())
    assert bool((diag[12] == 0.0).all())
    # dK_ii of a pair of equal images is that of the image.
    error = (values[0, 13] - diag[0]).abs()
    assert bool((error <= TANGENT_BOUNDS[dtype] * diag[0, 0]).all())


def test_fixed_hyperparameters_have_no_column():
    kernel = PARAMETERS[17]
    fixed = kernel.replace(layer0__weight_variance_bounds="fixed")
    given = images(3, (1, 5, 4))
    names = [item.name for item in kernel.hyperparameters if item.is_free]
    kept = [0, *(1 + i for i, n in enumerate(names) if n != "layer0__weight_variance")]
    assert len(kept) == len(names)
    whole = tile(fused_tangents(kernel, (1, 5, 4)), given)
    part = tile(fused_tangents(fixed, (1, 5, 4)), given)
    _, diag = reference(kernel, given)
    assert_within(part, whole[..., kept], diag, SPLIT_BOUND)


def test_memory_that_is_asked_for_grows_with_the_derivatives():
    shape = (1, 5, 4)
    given = images(2, shape)
    few, many = (
        fused_tangents(PARAMETERS[p], shape).measure(given[:1]) for p in (1, 16)
    )
    assert few.pair_bytes * (1 + 16) == many.pair_bytes * (1 + 1)
    assert many.worker_bytes > few.worker_bytes
    backend = fused(PARAMETERS[1], shape)
    value = backend.measure(given[:1])
    assert value.value_bytes == tile(backend, given).nbytes // 4  # pairs
    assert few.value_bytes == 2 * value.value_bytes
