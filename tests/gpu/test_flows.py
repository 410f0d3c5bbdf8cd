"""Kernels that learn themselves on a GPU end where they do on the CPU."""

import numpy as np
import pytest

from skconvgp import KernelFlowsClassifier, KernelFlowsRegressor, KernelFlowsWarp
from skconvgp.flows import Adam, GradientDescent
from skconvgp.kernels import convnet, rbf
from tests.helpers.estimators import digits, wave

pytestmark = pytest.mark.gpu


def learned(device, gradient, kernel):
    X, y = digits(200)
    gp = KernelFlowsClassifier(
        kernel,
        optimizer=Adam(max_iter=10, gradient=gradient),
        batch_size=60,
        n_batches=2,
        dtype="float64",
        device=device,
        random_state=0,
    )
    return gp.fit(X, y).flow_result_


@pytest.mark.parametrize("gradient", ["exact", "autograd", "finite_difference"])
@pytest.mark.parametrize(
    "kernel", [convnet(depth=2, kernel_size=3), rbf(1.0)], ids=repr
)
def test_network_is_learned_as_on_the_cpu(kernel, gradient):
    found = learned("cuda", gradient, kernel)
    expected = learned("cpu", gradient, kernel)
    np.testing.assert_allclose(found.theta_trace, expected.theta_trace, rtol=1e-4)
    assert found.rho == pytest.approx(expected.rho, rel=1e-5)


def test_process_is_on_the_gpu_in_the_end():
    X, y = wave(60)
    gp = KernelFlowsRegressor(
        rbf(1.0), optimizer=GradientDescent(max_iter=5), device="cuda", random_state=0
    ).fit(X, y)
    assert gp.device_ == "cuda"
    assert gp.score(X, y) > 0.9


def test_points_move_as_on_the_cpu():
    X, y = wave(60)
    ends = [
        KernelFlowsWarp(
            rbf(1.0), n_steps=10, device=device, random_state=0
        ).fit_transform(X, y)
        for device in ("cuda", "cpu")
    ]
    np.testing.assert_allclose(*ends, rtol=1e-5)
