"""Tangent kernels that a GPU computes: a second map of a pair."""

import pytest
import torch

from skconvgp import ConvNetGPRegressor, gram_matrix
from skconvgp.kernels import Sequential, convnet, myrtle
from tests.backends.test_fused_ntk import BOUNDS, NETWORKS, POOLED
from tests.gpu.test_pools import OVERLAPPING
from tests.helpers.all_pairs import waves
from tests.helpers.fused import (
    assert_within,
    both_dtypes,
    hard_images,
    images,
    reference,
    tile,
)
from tests.helpers.gpu import GPU, chosen, on_gpu
from tests.helpers.published_pools import PUBLISHED, TANGENTS

pytestmark = pytest.mark.gpu
ALL = NETWORKS | {f"pooled {name}": item for name, item in POOLED.items()}


@both_dtypes
@pytest.mark.parametrize("name", ALL)
def test_torch_gives_the_same_values(name, dtype):
    kernel, shape = ALL[name]
    given = images(6, shape).to(dtype)
    found = tile(on_gpu(kernel, shape), given)
    assert_within(found, *reference(kernel, given), BOUNDS[dtype])


@pytest.mark.parametrize(
    "name", [name for name in PUBLISHED if name not in OVERLAPPING]
)
def test_values_that_were_published(name):
    network, _, size = PUBLISHED[name]
    kernel = Sequential(*network.layers, kind="ntk")
    found = tile(on_gpu(kernel, (3, size, size)), waves(3, 3, size, size))[0]
    assert found.tolist() == pytest.approx(TANGENTS[name], rel=1e-11)


@both_dtypes
@pytest.mark.parametrize("name", ["named convnet", "named myrtle"])
def test_a_pair_has_the_same_bits_in_every_tile(name, dtype):
    kernel, shape = NETWORKS[name]
    backend, given = on_gpu(kernel, shape), images(37, shape).to(dtype)
    given[7] = given[2]
    whole = tile(backend, given)
    for i, j, n in [(0, 3, 1), (2, 11, 3), (18, 18, 19)]:
        part = tile(backend, given[i : i + n], given[j : j + 2 * n])
        assert torch.equal(part, whole[i : i + n, j : j + 2 * n])
    diag = backend.diag(backend.prepare(given))
    assert torch.equal(whole[2, 7], diag[2])


def test_values_are_those_of_the_processor():
    kernel, X = myrtle(kind="ntk"), images(7, (3, 32, 32)).float().numpy()
    settings = {"backend": "fused", "image_shape": X.shape[1:], "dtype": "float32"}
    expected = gram_matrix(kernel, X, device="cpu", **settings)
    found = gram_matrix(kernel, X, device=str(GPU), **settings)
    scale = expected.diagonal() ** 0.5
    error = abs(found - expected) / (scale[:, None] * scale)
    assert error.max() <= BOUNDS[torch.float32]


def test_an_estimator_uses_it():
    kernel, shape = convnet(2, 3, kind="ntk"), (1, 9, 8)
    assert chosen(kernel, shape, "auto").name == "fused"
    X = hard_images(shape)[4:].float().numpy()
    y = X.sum((1, 2, 3))
    gp = ConvNetGPRegressor(kernel, device=str(GPU)).fit(X, y)
    assert (gp.backend_, gp.device_) == ("fused", str(GPU))
    slow = ConvNetGPRegressor(kernel, device="cpu", dtype="float64").fit(X, y)
    assert gp.predict(X) == pytest.approx(slow.predict(X), rel=1e-2, abs=1e-2)
