"""Correlations from tiles of the fused backend."""

import pytest
import torch

from skconvgp.backends import TangentBackend, choose_backend
from skconvgp.backends._correlation import CorrelationBackend
from skconvgp.kernels import MaxNormalization, convnet, residual_convnet
from tests.helpers.fused import (
    BOUNDS,
    TANGENT_BOUNDS,
    assert_within,
    both_dtypes,
    hard_images,
    needs_extension,
    reference,
    tile,
    variances,
)

pytestmark = needs_extension
SHAPE = (1, 9, 7)
ONES = torch.ones(15, dtype=torch.float64)
KERNELS = [
    MaxNormalization(convnet(depth=3, kernel_size=3)),
    MaxNormalization(residual_convnet(depth=2).unshared()),
]
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)


def choose(kernel):
    kernel.check(SHAPE)
    choice = choose_backend(kernel, SHAPE, "fused", torch.device("cpu"))
    assert (choice.name, choice.kernel) == ("fused", kernel)
    return choice


@both_dtypes
@every_kernel
def test_values_are_those_of_torch(kernel, dtype):
    given = hard_images(SHAPE).to(dtype)
    backend = choose(kernel).tiles()
    assert isinstance(backend, CorrelationBackend)
    expected, _ = reference(kernel, given)
    assert_within(tile(backend, given), expected, ONES, BOUNDS[dtype])
    assert torch.equal(variances(backend, given), ONES)
    upper = backend.gram(backend.prepare(given)).triu(1)
    assert_within(upper, expected.triu(1), ONES, BOUNDS[dtype])


@both_dtypes
@every_kernel
def test_derivatives_are_those_of_torch(kernel, dtype):
    given = hard_images(SHAPE).to(dtype)
    backend = choose(kernel).tangents()
    exact = TangentBackend(kernel)
    expected = tile(exact, given.double())
    assert expected.shape == (15, 15, 1 + len(kernel.theta))
    assert_within(tile(backend, given), expected, ONES, 2.0 * TANGENT_BOUNDS[dtype])
    diag = variances(backend, given)
    assert torch.equal(diag, variances(exact, given.double()))
    assert float(diag[:, 1:].abs().max()) == 0.0


def test_image_without_variance():
    kernel = MaxNormalization(convnet(depth=2, bias_variance=0.0))
    given = hard_images(SHAPE)  # the eighth is blank
    expected, expected_diag = reference(kernel, given)
    backend = choose(kernel).tiles()
    assert_within(tile(backend, given), expected, ONES, BOUNDS[torch.float64])
    assert torch.equal(variances(backend, given), expected_diag)
    assert float(expected_diag[7]) == 0.0


def test_bytes_of_the_scales_are_counted():
    for kind in ("tiles", "tangents"):
        backend = getattr(choose(KERNELS[0]), kind)()
        image = hard_images(SHAPE)[:1]
        inner, costs = backend.backend.measure(image), backend.measure(image)
        _, scales = backend.prepare(image)
        assert costs.image_bytes - inner.image_bytes == scales.nbytes
        assert costs.pair_bytes > inner.pair_bytes
        assert costs.value_shape == inner.value_shape
