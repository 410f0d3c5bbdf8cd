"""Derivatives that a GPU computes, against those of the processor."""

import numpy as np
import pytest
import torch

from skconvgp import gram_gradient
from skconvgp.kernels import convnet
from tests.helpers.fused import NETWORKS, both_dtypes, every_network, hard_images
from tests.helpers.gpu import GPU, GPU_BOUNDS

pytestmark = pytest.mark.gpu


def assert_gradients(kernel, given, dtype):
    """Compare values and derivatives with the processor's in double precision."""
    X = given.to(dtype).numpy()
    settings = {"image_shape": X.shape[1:]}
    value, gradient = gram_gradient(
        kernel, X, device="cpu", dtype="float64", **settings
    )
    settings |= {"dtype": str(dtype).removeprefix("torch."), "backend": "fused"}
    found = gram_gradient(kernel, X, device=str(GPU), **settings)
    assert found[1].shape == (len(X), len(X), len(kernel.theta))
    deviation = np.sqrt(np.diag(value))
    limit = GPU_BOUNDS[dtype] * np.outer(deviation, deviation)
    assert bool((np.abs(found[0] - value) <= limit).all())
    assert bool((np.abs(found[1] - gradient) <= limit[..., None]).all())


@both_dtypes
@every_network
def test_derivatives_are_those_of_the_processor(name, dtype):
    kernel, shape = NETWORKS[name]
    assert_gradients(kernel, hard_images(shape)[:12], dtype)


@both_dtypes
def test_more_derivatives_than_one_pass_takes(dtype):
    kernel = convnet(kernel_size=3).unshared()
    assert len(kernel.theta) == 16
    assert_gradients(kernel, hard_images((1, 9, 8))[:7], dtype)


@both_dtypes
def test_derivatives_on_images_of_the_size_of_mnist(dtype):
    assert_gradients(convnet(), hard_images((1, 28, 28))[:8], dtype)


def test_derivatives_do_not_depend_on_the_number_of_images():
    kernel, X = convnet(3, 3), hard_images((1, 9, 8)).float().numpy()
    settings = {"device": str(GPU), "backend": "fused", "dtype": "float32"}
    _, whole = gram_gradient(kernel, X, **settings)
    for n in (1, 2, 7):
        _, part = gram_gradient(kernel, X[:n], **settings)
        assert torch.equal(torch.from_numpy(part), torch.from_numpy(whole[:n, :n]))
