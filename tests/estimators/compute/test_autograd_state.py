"""Derivatives are the same whatever state torch's autograd is in."""

import numpy as np
import pytest
import torch

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    KernelEnsembleClassifier,
    PatchGPRegressor,
    gram_gradient,
    gram_vjp,
)
from skconvgp.completion import CoarseKernel, NearestNeighbors
from skconvgp.flows import LBFGS
from skconvgp.kernels import PatchKernel, rbf
from tests.helpers.estimators import blobs, digits, tiny_network, wave

BACKENDS = ["torch", "fused"]


# The stricter one in the gate, and the other one in the first test.
@pytest.fixture(
    params=[pytest.param("no_grad", marks=pytest.mark.slow), "inference_mode"]
)
def switched_off(request):
    """A function that returns a context in which autograd is switched off."""
    return {
        "no_grad": torch.no_grad,
        "inference_mode": torch.inference_mode,
    }[request.param]


def same_and_not_zero(compute, switched_off):
    """Assert that arrays are the same, but for rounding, with autograd switched off."""
    plain = compute()
    with switched_off():
        found = compute()
    for one, other in zip(plain, found, strict=True):
        assert np.abs(one).max() > 0.0
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-5 * np.abs(one).max())


def learned(gp, X, y):
    """Return by how much the first steps of a fit move what it learns."""
    gp.fit(X, y)
    result = gp.flow_result_ if hasattr(gp, "flow_result_") else gp.optimizer_result_
    return [result.theta_trace[:3] - result.start_theta]


def small_digits(n):
    """Return digits of 4 x 4 pixels, and their labels as floats."""
    X, y = digits(n)
    return X[:, :, ::2, ::2], y.astype(np.float64)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_derivatives_of_covariances(switched_off, backend, dtype):
    X, _ = digits(6)
    X = X.astype(dtype)
    weights = np.random.default_rng(0).normal(size=(6, 6))
    same_and_not_zero(
        lambda: [
            gram_gradient(tiny_network(), X, backend=backend)[1],
            *gram_vjp(tiny_network(), X, None, weights, backend=backend),
            gram_vjp(tiny_network(), X, X, weights, inputs=False, backend=backend)[0],
        ],
        switched_off,
    )


def test_derivatives_of_a_kernel_of_vectors(switched_off):
    X, _ = wave(6)
    same_and_not_zero(
        lambda: [
            gram_gradient(rbf(1.0), X)[1],
            *gram_vjp(rbf(1.0), X[:3], X, np.arange(18.0).reshape(3, 6)),
        ],
        switched_off,
    )


@pytest.mark.parametrize("completion", [None, CoarseKernel(pool=2)])
def test_derivatives_of_latent_means(switched_off, completion):
    X, y = digits(20)
    X = X.astype(np.float32)

    def compute():
        gp = ConvNetGPClassifier(tiny_network(), completion=completion).fit(X, y)
        return [gp.latent_gradient(X[:3])]

    same_and_not_zero(compute, switched_off)


def test_derivatives_of_a_model_that_was_fitted_with_autograd_switched_off(
    switched_off,
):
    X, y = digits(20)
    with switched_off():
        gp = ConvNetGPClassifier(tiny_network()).fit(X, y)
        gp.predict_proba(X)
    same_and_not_zero(lambda: [gp.latent_gradient(X[:3])], switched_off)


@pytest.mark.parametrize(
    ("optimizer", "backend"),
    [("evidence", "fused"), ("loo", "fused"), (LBFGS(max_iter=1), "torch")],
    ids=["evidence", "loo", "torch"],
)
def test_a_kernel_that_learns_on_all_samples(switched_off, backend, optimizer):
    X, y = small_digits(6)
    settings = {"noise_variance": 0.1, "optimizer": optimizer, "backend": backend}
    gp = ConvNetGPRegressor(tiny_network(), **settings)
    same_and_not_zero(lambda: learned(gp, X, y), switched_off)


def test_a_kernel_that_learns_from_products(switched_off):
    X, y = small_digits(8)
    gp = ConvNetGPRegressor(
        tiny_network(),
        optimizer=LBFGS(max_iter=2),
        solver="cg",
        noise_variance=0.1,
        random_state=0,
    )
    same_and_not_zero(lambda: learned(gp, X, y), switched_off)


@pytest.mark.parametrize("likelihood", ["laplace", "dirichlet"])
def test_a_kernel_that_learns_by_labels(switched_off, likelihood):
    X, y = blobs(12)
    gp = ConvNetGPClassifier(
        rbf(1.0), optimizer=LBFGS(max_iter=3), likelihood=likelihood
    )
    same_and_not_zero(lambda: learned(gp, X, y), switched_off)


def test_patches_that_learn(switched_off):
    X, y = small_digits(40)
    gp = PatchGPRegressor(
        PatchKernel(rbf(1.0), patch_size=2),
        n_inducing=4,
        optimizer="loo",
        random_state=0,
    )
    same_and_not_zero(lambda: [gp.fit(X, y).kernel_.theta], switched_off)


@pytest.mark.slow
def test_neighbours_that_learn(switched_off):
    X, y = wave(40)
    gp = ConvNetGPRegressor(
        rbf(1.0), completion=NearestNeighbors(5), optimizer="loo", random_state=0
    )
    same_and_not_zero(lambda: [gp.fit(X, y).predict(X)], switched_off)


def test_weights_of_an_ensemble(switched_off):
    X, y = blobs(18)

    def compute():
        members = [("short", rbf(0.5)), ("long", rbf(2.0))]
        gp = KernelEnsembleClassifier(
            [(n, ConvNetGPClassifier(k, likelihood="laplace")) for n, k in members]
        )
        return [gp.fit(X, y).predict_proba(X)]

    same_and_not_zero(compute, switched_off)


def test_what_is_called_with_autograd_switched_off_leaves_it_so(switched_off):
    X, y = wave(8)
    with switched_off():
        before = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
        gp = ConvNetGPRegressor(rbf(1.0), optimizer="evidence").fit(X, y)
        gp.latent_gradient(X)
        gram_gradient(rbf(1.0), X)
        after = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    assert before == after


class default_dtype:
    """A context with another default dtype of torch."""

    def __init__(self, dtype):
        self.dtype, self.before = dtype, torch.get_default_dtype()

    def __enter__(self):
        torch.set_default_dtype(self.dtype)

    def __exit__(self, *_):
        torch.set_default_dtype(self.before)
