"""Neural tangent kernels in estimators and functions."""

import warnings

import numpy as np
import pytest
import torch

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    KernelFlowsRegressor,
    NystromCompletedGP,
    as_sklearn_kernel,
    gram_diag,
    gram_matrix,
)
from skconvgp.estimators._searches import warn_of_slow_derivatives
from skconvgp.estimators.settings._gp import GPSettings
from skconvgp.flows import Adam
from skconvgp.kernels import FlipAverage, convnet, convnet_gap
from skconvgp.processes import KernelBasis
from tests.helpers.fused import needs_extension
from tests.helpers.kernels import cross

NETWORK = convnet(1, 3, 0.3, 0.2, kind="ntk")
X = np.random.default_rng(0).normal(size=(12, 1, 4, 4))
Y = X.mean((1, 2, 3))
GRAM = cross(NETWORK, torch.tensor(X)).numpy()


def test_functions():
    gram = gram_matrix(NETWORK, X, dtype="float64")
    np.testing.assert_allclose(gram, GRAM, rtol=1e-12)
    diag = gram_diag(NETWORK, X, dtype="float64")
    np.testing.assert_allclose(diag, np.diag(GRAM), rtol=1e-12)
    flat = as_sklearn_kernel(NETWORK, image_shape=(1, 4, 4))(X.reshape(12, -1))
    np.testing.assert_allclose(flat, GRAM, rtol=1e-5)


def test_landmarks_and_flows_and_classes():
    settings = {"noise_variance": 0.1, "random_state": 0, "dtype": "float64"}
    exact = ConvNetGPClassifier(NETWORK, **settings).fit(X, Y > 0.0)
    few = NystromCompletedGP(NETWORK, n_landmarks=12, **settings).fit(X, Y > 0.0)
    np.testing.assert_allclose(few.predict_proba(X), exact.predict_proba(X), rtol=1e-3)
    flow = KernelFlowsRegressor(NETWORK, optimizer=Adam(max_iter=3), **settings)
    learned = flow.fit(X, Y).kernel_
    assert learned.kind == "ntk"
    assert (learned.theta != NETWORK.theta).all()


@needs_extension
def test_compiled_code_computes_it():
    settings = {"noise_variance": 0.1, "dtype": "float64"}
    fused, torch_only = (
        ConvNetGPRegressor(NETWORK, backend=backend, **settings).fit(X, Y)
        for backend in ("fused", "torch")
    )
    assert fused.backend_ == "fused"
    np.testing.assert_allclose(fused.predict(X), torch_only.predict(X), rtol=1e-8)


@needs_extension
@pytest.mark.parametrize("kind", ["ntk", "nngp"])
def test_slow_derivatives_are_told(kind):
    network = convnet_gap(1, bias_variance=0.1, kind=kind)
    flow = KernelFlowsRegressor(network, optimizer=Adam(max_iter=1), random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        flow.fit(X[:, :, :2, :2], Y)
    told = [one for one in caught if "derivatives of tangent" in str(one.message)]
    assert len(told) == (kind == "ntk")


@needs_extension
def test_sums_of_networks_that_flatten_are_not_called_slow():
    kernel = FlipAverage(NETWORK + convnet(2, 3, kind="ntk"))
    basis = KernelBasis(kernel, np.zeros((2, 16)), np.arange(2), (1, 4, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_slow_derivatives(GPSettings.of(ConvNetGPRegressor(kernel)), basis)


@needs_extension
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_derivatives_on_a_gpu_are_as_fast_as_values(device):
    # Torch has both there, so that only a CPU is worth a warning.
    network = convnet_gap(1, bias_variance=0.1, kind="ntk")
    estimator = ConvNetGPRegressor(network, device=device)
    basis = KernelBasis(network, np.zeros((2, 16)), np.arange(2), (1, 4, 4))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_slow_derivatives(GPSettings.of(estimator), basis)
    assert len(caught) == (device == "cpu")
