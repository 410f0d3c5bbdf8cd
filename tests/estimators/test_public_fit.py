"""A fit that ends early leaves the estimator as it was."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    KernelEnsembleClassifier,
    KernelFlowsClassifier,
    KernelFlowsRegressor,
    KernelFlowsWarp,
    NystromCompletedGP,
    NystromCompletedGPRegressor,
)
from skconvgp.completion import Nystrom
from skconvgp.exceptions import NotPSDError, TileMemoryError
from skconvgp.flows import Adam
from skconvgp.kernels import arcsine, rbf
from tests.helpers.estimators import blobs, digits, tiny_network

MEMBERS = [
    ("near", ConvNetGPClassifier(rbf(1.0))),
    ("far", ConvNetGPClassifier(rbf(3.0))),
]
ESTIMATORS = {
    "classifier": ConvNetGPClassifier(rbf(1.0)),
    "regressor": ConvNetGPRegressor(rbf(1.0)),
    "completed": ConvNetGPClassifier(rbf(1.0), completion=Nystrom(n_landmarks=4)),
    "nystrom": NystromCompletedGP(rbf(1.0), n_landmarks=4),
    "nystrom regressor": NystromCompletedGPRegressor(rbf(1.0), n_landmarks=4),
    "flows": KernelFlowsClassifier(
        rbf(1.0), optimizer=Adam(max_iter=1), random_state=0
    ),
    "flows regressor": KernelFlowsRegressor(
        rbf(1.0), optimizer=Adam(max_iter=1), random_state=0
    ),
    "ensemble": KernelEnsembleClassifier(MEMBERS),
    "warp": KernelFlowsWarp(rbf(1.0), n_steps=2, random_state=0),
}
STRIDE = 12  # attributes between two places where a fit is interrupted


class Interrupted:
    """An estimator whose user loses patience when attribute number `last` is set."""

    def __init__(self, gp, last):
        self.gp, self.kind, self.last, self.count = gp, type(gp), last, 0

    def __enter__(self):
        outer = self

        def set_or_stop(gp, name, value):
            if outer.count == outer.last:
                raise KeyboardInterrupt
            outer.count += 1
            object.__setattr__(gp, name, value)

        body = {"__setattr__": set_or_stop}
        self.gp.__class__ = type(self.kind.__name__, (self.kind,), body)
        return self

    def __exit__(self, *_):
        self.gp.__class__ = self.kind


def other_data(X, y):
    return 2.0 * X[::-1] + 1.0, y


def assert_unchanged(gp, before):
    assert vars(gp).keys() == before.keys()
    assert all(vars(gp)[name] is value for name, value in before.items())


@pytest.mark.parametrize(
    ("name", "method"),
    [(name, "fit") for name in ESTIMATORS]
    + [("nystrom", "partial_fit"), ("nystrom regressor", "partial_fit")],
)
def test_whenever_it_is_interrupted(name, method):
    gp, (X, y) = clone(ESTIMATORS[name]), blobs(12)
    again = other_data(X, y)
    with Interrupted(gp.fit(X, y), last=-1) as whole:
        getattr(clone(gp).fit(X, y), method)
        getattr(gp, method)(*again)
    assert whole.count > 3
    gp.fit(X, y)
    before = dict(vars(gp))
    for last in {*range(0, whole.count, STRIDE), whole.count - 1}:
        with pytest.raises(KeyboardInterrupt), Interrupted(gp, last):
            getattr(gp, method)(*again)
        assert_unchanged(gp, before)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_first_fit_that_is_interrupted_is_none(name):
    gp, (X, y) = clone(ESTIMATORS[name]), blobs(12)
    with pytest.raises(KeyboardInterrupt), Interrupted(gp, 2):
        gp.fit(X, y)
    with pytest.raises(NotFittedError):
        (gp.transform if name == "warp" else gp.predict)(X)


def test_errors_of_settings_memory_and_matrices():
    X, y = digits(20)
    gp = ConvNetGPRegressor(tiny_network()).fit(X, y)
    predicted = gp.predict(X, return_std=True)
    gp.set_params(kernel=arcsine(), memory_budget=100, backend="torch")
    with pytest.raises(TileMemoryError):
        gp.fit(X, y)
    gp.set_params(memory_budget=None, backend="auto", solver="none")
    with pytest.raises(ValueError, match="solver"):
        gp.fit(X[:10], y[:10])
    gp.set_params(solver="auto")
    np.testing.assert_array_equal(gp.predict(X, return_std=True), predicted)


def test_a_matrix_that_is_no_covariance():
    gram = np.exp(-np.abs(np.subtract.outer(np.arange(5.0), np.arange(5.0))))
    gp = ConvNetGPRegressor("precomputed").fit(gram, np.arange(5.0))
    before = dict(vars(gp))
    with pytest.raises(NotPSDError):
        gp.fit(gram - 0.9, np.arange(5.0))
    assert_unchanged(gp, before)


def test_a_callback_that_fails():
    class Fails(Adam):
        def minimize(self, landscape, generator):
            super().minimize(landscape, generator)
            raise RuntimeError("no")

    X, y = blobs(12)
    gp = KernelFlowsRegressor(rbf(1.0), optimizer=Adam(max_iter=1), random_state=0)
    gp.fit(X, y).set_params(optimizer=Fails(max_iter=1))
    before = dict(vars(gp))
    with pytest.raises(RuntimeError, match="no"):
        gp.fit(*other_data(X, y))
    assert_unchanged(gp, before)
