"""Kernels of scikit-learn inside our estimators, against scikit-learn's own."""

import copy
import pickle
import re

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk
from sklearn.model_selection import GridSearchCV

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    KernelFlowsRegressor,
    NystromCompletedGPRegressor,
    as_sklearn_kernel,
    from_sklearn_kernel,
    gram_diag,
    gram_gradient,
    gram_matrix,
    gram_vjp,
)
from skconvgp.flows import Adam
from skconvgp.kernels import convnet_gap, rbf

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(9, 3)), RNG.normal(size=(5, 3))
PERIODIC = sk.ExpSineSquared(1.3, 0.7, periodicity_bounds=(0.1, 9.0))
THEIRS = [
    PERIODIC,
    sk.RationalQuadratic(1.2, 0.6),
    sk.RBF([0.7, 3.0, 1.5]),
    sk.Matern(1.4, nu=2.5),
    2.0 * sk.DotProduct(0.4) ** 2 + PERIODIC * sk.RBF(3.0, "fixed"),
]
each = pytest.mark.parametrize("theirs", THEIRS, ids=repr)


@each
def test_values_are_those_of_scikit_learn(theirs):
    kernel = from_sklearn_kernel(theirs)
    np.testing.assert_allclose(gram_matrix(kernel, X), theirs(X), rtol=1e-13)
    np.testing.assert_allclose(gram_matrix(kernel, X, Y), theirs(X, Y), rtol=1e-13)
    np.testing.assert_allclose(gram_diag(kernel, X), theirs.diag(X), rtol=1e-13)
    single = gram_matrix(kernel, X, Y, dtype="float32")
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, theirs(X, Y), rtol=1e-5)


@each
def test_hyperparameters_are_those_of_scikit_learn(theirs):
    kernel = from_sklearn_kernel(theirs)
    np.testing.assert_allclose(kernel.theta, theirs.theta)
    np.testing.assert_allclose(kernel.bounds, theirs.bounds)
    names = [one.name for one in theirs.hyperparameters]
    assert list(dict.fromkeys(one.name for one in kernel.hyperparameters)) == names
    moved = kernel.with_theta(kernel.theta + 0.1)
    np.testing.assert_allclose(moved.theta, theirs.theta + 0.1)
    twin = theirs.clone_with_theta(theirs.theta + 0.1)
    np.testing.assert_allclose(moved.sklearn_kernel(X), twin(X))
    assert kernel.sklearn_kernel == theirs


@each
def test_derivatives_are_finite_differences(theirs, monkeypatch):
    monkeypatch.setattr("skconvgp.estimators.functions._from_sklearn.STRIP", 2)
    kernel, step = 0.5 * from_sklearn_kernel(theirs), 1e-5
    theta, weights = kernel.theta, RNG.normal(size=(9, 5))
    gradient = gram_gradient(kernel, X, Y)[1]
    for i, shift in enumerate(step * np.eye(len(theta))):
        high, low = (
            gram_matrix(kernel.with_theta(theta + s), X, Y) for s in (shift, -shift)
        )
        slopes = (high - low) / (2 * step)
        np.testing.assert_allclose(gradient[..., i], slopes, atol=1e-8)
    inner = from_sklearn_kernel(theirs)
    np.testing.assert_allclose(
        gram_gradient(inner, X)[1], theirs(X, eval_gradient=True)[1], rtol=1e-12
    )
    traced = torch.as_tensor(theta).requires_grad_()
    moving = kernel.with_theta(traced)
    sides = [moving.prepare(torch.as_tensor(one)[:, :, None, None]) for one in (X, Y)]
    total = (moving.cross(*sides) * torch.as_tensor(weights)).sum()
    (pulled,) = torch.autograd.grad(total + moving.diag(sides[0]).sum(), traced)
    expected = np.einsum("ij,ijp->p", weights, gradient)
    expected += np.einsum("iip->p", gram_gradient(kernel, X)[1])
    np.testing.assert_allclose(pulled.numpy(), expected, rtol=1e-9)


def test_forward_mode_has_the_same_derivatives():
    images = RNG.normal(size=(4, 1, 3, 3))
    network = convnet_gap(depth=1, kernel_size=3)
    theirs = from_sklearn_kernel(PERIODIC)
    slopes = gram_gradient(network + theirs, images)[1]
    expected = gram_gradient(theirs, images.reshape(4, 9))[1]
    np.testing.assert_allclose(slopes[..., -2:], expected, rtol=1e-12)
    np.testing.assert_allclose(
        slopes[..., :-2], gram_gradient(network, images)[1], rtol=1e-12
    )


def test_the_evidence_learns_what_scikit_learn_learns():
    x = np.linspace(0.0, 6.0, 30)[:, None]
    y = np.sin(2.0 * np.pi * x[:, 0]) + 0.5 * np.sin(4.0 * np.pi * x[:, 0])
    theirs = sk.ExpSineSquared(1.2, 1.01)
    noisy = sk.ConstantKernel() * (theirs + sk.WhiteKernel(1e-3, "fixed"))
    twin = GaussianProcessRegressor(noisy, alpha=1e-15).fit(x, y)
    gp = ConvNetGPRegressor(
        from_sklearn_kernel(theirs),
        optimizer="evidence",
        noise_variance=1e-3,
        normalize_y=False,
    ).fit(x, y)
    assert gp.log_marginal_likelihood() == pytest.approx(
        twin.log_marginal_likelihood_value_, abs=0.01
    )
    np.testing.assert_allclose(gp.kernel_.theta, twin.kernel_.theta[1:], atol=0.02)
    far = np.linspace(20.0, 21.0, 7)[:, None]
    np.testing.assert_allclose(gp.predict(far), twin.predict(far), atol=0.01)
    assert gp.kernel_.sklearn_kernel.periodicity == pytest.approx(1.0, abs=1e-2)
    assert theirs == sk.ExpSineSquared(1.2, 1.01)


def test_estimators_take_it_alone_and_in_sums():
    y = np.sin(X[:, 0])
    kernel = from_sklearn_kernel(sk.RationalQuadratic()) + 0.5 * rbf().on(1)
    for gp in (
        ConvNetGPRegressor(kernel),
        NystromCompletedGPRegressor(kernel, n_landmarks=5),
        KernelFlowsRegressor(kernel, optimizer=Adam(3), random_state=0),
    ):
        fitted = gp.fit(X, y)
        assert np.isfinite(fitted.predict(Y)).all()
        again = pickle.loads(pickle.dumps(fitted))
        np.testing.assert_array_equal(again.predict(Y), fitted.predict(Y))
    labels = ConvNetGPClassifier(kernel).fit(X, X[:, 0] > 0.0)
    assert labels.predict(Y).shape == (5,)


def test_settings_are_those_of_scikit_learn():
    kernel = from_sklearn_kernel(THEIRS[-1])
    assert repr(kernel) == f"from_sklearn_kernel({THEIRS[-1]!r})"
    for twin in (clone(kernel), copy.deepcopy(kernel), kernel.replace()):
        assert twin == kernel
    moved = kernel.replace(k2__k1__periodicity=2.0, k2__k2__length_scale_bounds=(1, 2))
    assert moved != kernel
    assert moved.sklearn_kernel.k2.k1.periodicity == 2.0
    assert len(moved.theta) == len(kernel.theta) + 1
    with pytest.raises(ValueError, match="Invalid parameter"):
        kernel.replace(lengthscale=2.0)
    grid = {"kernel__length_scale": [0.01, 1.0]}
    gp = ConvNetGPRegressor(from_sklearn_kernel(sk.RationalQuadratic()))
    search = GridSearchCV(gp, grid, cv=2).fit(X, X[:, 0])
    assert search.best_params_["kernel__length_scale"] == 1.0
    other = kernel.replace(sklearn_kernel=sk.RBF(2.0))
    assert other == from_sklearn_kernel(sk.RBF(2.0))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (rbf(), "kernel of rows from sklearn.gaussian_process.kernels, got rbf()"),
        (sk.RBF, "got <class"),
        ("rbf", "got 'rbf'"),
        (as_sklearn_kernel(rbf(1.0)), "got as_sklearn_kernel"),
        (sk.ConstantKernel(), "combine it with one that does, as in ConstantKernel()"),
        (sk.WhiteKernel(), "WhiteKernel does not look at them"),
        (sk.WhiteKernel() + 1.0, "`noise_variance` of the estimator"),
        (
            sk.RBF([1.0, 2.0], [(1e-3, 1.0), (1e-3, 2.0)]),
            "elements of `length_scale` must have the same bounds, got [[0.001, 1.0]",
        ),
    ],
    ids=str,
)
def test_what_is_no_such_kernel_is_named(given, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        from_sklearn_kernel(given)


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        (sk.RBF() + sk.WhiteKernel(0.1), "has noise.*`noise_variance`"),
        (sk.RBF([1.0, 2.0]), r"no samples with 3 features.*\(2!=3\)"),
        (sk.CompoundKernel([sk.RBF(), sk.RBF()]), "no number for a pair"),
    ],
    ids=repr,
)
def test_kernels_that_do_not_fit_are_named(theirs, words):
    with pytest.raises(ValueError, match=words):
        ConvNetGPRegressor(from_sklearn_kernel(theirs)).fit(X, X[:, 0])


def test_derivatives_by_samples_are_refused():
    kernel = from_sklearn_kernel(sk.RationalQuadratic())
    gp = ConvNetGPRegressor(kernel).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="no derivatives by samples"):
        gp.latent_gradient(Y)
    with pytest.raises(ValueError, match="no derivatives by samples"):
        gram_vjp(kernel, X, Y, np.ones((9, 5)))


def test_estimators_name_the_function():
    with pytest.raises(ValueError, match="`from_sklearn_kernel` makes one"):
        ConvNetGPRegressor(sk.RBF()).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="`from_sklearn_kernel` makes one"):
        gram_matrix(sk.RBF(), X)
