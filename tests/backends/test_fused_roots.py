"""Roots by steps of Newton, and tables that several samples read together."""

import numpy as np
import pytest
import torch

from skconvgp.backends._fused_cpu import instruction_sets
from skconvgp.kernels import (
    AvgPool2d,
    Conv2d,
    Dense,
    Flatten,
    LeakyReLU,
    ReLU,
    Sequential,
    convnet,
    dense,
    resnet32,
)
from skconvgp.kernels._prepared import take
from tests.helpers.fused import (
    assert_values,
    assert_within,
    both_dtypes,
    every_instruction_set,
    fused,
    fused_tangents,
    hard_images,
    images,
    large_digits,
    needs_extension,
    reference,
    tile,
)

__all__ = ["every_instruction_set"]

pytestmark = needs_extension
EXACT, MIXED = "avx512", "avx512_newton"
needs_mixed = pytest.mark.skipif(
    MIXED not in instruction_sets(), reason="this processor has no AVX-512"
)
BIAS_FREE = {"bias_variance": 0.0}
LEAKY = [Conv2d(5, **BIAS_FREE), LeakyReLU(0.2)] * 2
NETWORKS = {
    "window 7": (convnet(depth=3), (1, 28, 28)),
    "window 7, no bias": (convnet(depth=3, **BIAS_FREE), (1, 28, 28)),
    "window 5, leaky": (Sequential(*LEAKY, Flatten(), Dense()), (2, 11, 13)),
    "window 3": (convnet(depth=4, kernel_size=3, **BIAS_FREE), (3, 10, 9)),
    "window 2": (convnet(depth=3, kernel_size=2), (1, 9, 12)),
    "window 1": (convnet(depth=2, kernel_size=1), (1, 6, 7)),
    "branches": (resnet32(), (1, 8, 8)),
    "displaced": (convnet(3, 3, pooling="local", radius=1), (1, 12, 10)),
}


@pytest.fixture
def use(monkeypatch):
    """Return a function that chooses an instruction set."""

    def choose(name):
        monkeypatch.setattr("skconvgp.backends._fused_cpu.INSTRUCTION_SET", name)

    return choose


@needs_mixed
@both_dtypes
@pytest.mark.parametrize("name", NETWORKS)
def test_values_are_those_of_the_reference(name, dtype, use):
    kernel, shape = NETWORKS[name]
    given = hard_images(shape)
    if shape == (1, 28, 28):
        given[-3:] = large_digits(3)
    given = given.to(dtype)
    use(MIXED)
    assert_values(fused(kernel, shape), given, *reference(kernel, given))


@needs_mixed
@both_dtypes
@pytest.mark.parametrize("size", [1e-9, 1e-3, 30.0, 1e9])
@pytest.mark.parametrize("kernel", [convnet(3, 3, **BIAS_FREE), resnet32()])
def test_images_of_any_size(kernel, size, dtype, use):
    given = (size * hard_images((1, 8, 8))).to(dtype)
    given[12] /= size
    use(MIXED)
    assert_values(fused(kernel, (1, 8, 8)), given, *reference(kernel, given))


@needs_mixed
@both_dtypes
@pytest.mark.parametrize("name", NETWORKS)
def test_values_differ_from_exact_roots_in_the_last_bits(name, dtype, use):
    kernel, shape = NETWORKS[name]
    given = hard_images(shape)[10:].to(dtype)  # different, so that roots matter
    values = {}
    for isa in (EXACT, MIXED):
        use(isa)
        backend = fused(kernel, shape)
        prepared = backend.prepare(given)
        values[isa] = backend.cross(prepared, prepared), backend.diag(prepared)
    (exact, exact_diag), (mixed, diag) = values[EXACT], values[MIXED]
    assert torch.equal(diag, exact_diag)
    error = (mixed - exact).abs() / torch.outer(diag, diag).sqrt()
    assert error.max() < 4.0 * torch.finfo(dtype).eps
    if dtype == torch.float32 or name.startswith("window 7"):
        assert error.max() > 0.0  # float64 sums of others may round to the same number


@needs_mixed
@both_dtypes
def test_roots_of_vectors_and_of_derivatives_are_exact(dtype, use):
    shape = (1, 6, 5)
    given = images(9, shape).to(dtype)
    for backend in (fused(dense(), shape), fused_tangents(convnet(2, 3), shape)):
        use(EXACT)
        expected = tile(backend, given)
        use(MIXED)
        assert torch.equal(tile(backend, given), expected)


# Tables of a group that leave the cache, with vectors of 32 bytes or more.
LONG = (1, 1, 384)
LAYERS = [Conv2d((1, 3), weight_variance=2.0, bias_variance=0.1), ReLU()]
DEEP = {
    "flat": Sequential(*LAYERS * 34, Flatten(), Dense()),
    "flat, window of 4": Sequential(
        *[Conv2d((1, 4), padding="same"), ReLU()] * 34, Flatten(), Dense()
    ),
    "average": Sequential(
        *LAYERS * 34, AvgPool2d((1, 3), stride=1), Flatten(), Dense()
    ),
    "pools": Sequential(
        *LAYERS * 33, AvgPool2d((1, 2)), *LAYERS, AvgPool2d((1, 2)), Flatten(), Dense()
    ),
    "tangent kernel": Sequential(
        *LAYERS * 34, AvgPool2d((1, 2)), Flatten(), Dense(), kind="ntk"
    ),
}


@both_dtypes
@pytest.mark.parametrize("name", DEEP)
def test_large_tables_change_no_value(name, dtype, every_instruction_set):
    if every_instruction_set == "lanes":
        pytest.skip("GPUs have maps of at most 128 columns")
    kernel = DEEP[name]
    given = images(6, LONG).to(dtype)
    backend = fused(kernel, LONG)
    prepared = backend.prepare(given)
    covariances, variances = reference(kernel, given)
    # Ten times as many layers as in other tests, and sums over positions behind them.
    bound = {torch.float32: 2e-5, torch.float64: 1e-10}[dtype]
    assert_within(backend.cross(prepared, prepared), covariances, variances, bound)
    np.testing.assert_allclose(backend.diag(prepared), variances, rtol=2e-11)


@both_dtypes
@pytest.mark.parametrize("name", DEEP)
def test_bits_of_a_pair_do_not_depend_on_those_beside_it(name, dtype):
    backend = fused(DEEP[name], LONG)
    prepared = backend.prepare(images(7, LONG).to(dtype))
    whole = backend.cross(prepared, prepared)
    for i in range(7):
        one = take(prepared, slice(i, i + 1))
        assert torch.equal(backend.cross(one, prepared), whole[i : i + 1])
