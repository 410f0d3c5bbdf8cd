"""A lengthscale that `fit` takes from training samples."""

import io
import pickle

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    KernelEnsembleClassifier,
    KernelFlowsClassifier,
    KernelFlowsRegressor,
    KernelFlowsWarp,
    NystromCompletedGP,
    NystromCompletedGPRegressor,
    as_sklearn_kernel,
    gram_diag,
    gram_gradient,
    gram_matrix,
    gram_vjp,
    selection_report,
)
from skconvgp.completion import CoarseKernel, SubsetOfData
from skconvgp.flows import Adam
from skconvgp.kernels import convnet, matern, rbf
from tests.helpers.estimators import blobs, digits

X, y = blobs(60)
MEDIAN = float(np.median(pdist(X)))
RBF = rbf().resolve(X)
WITH_Y = r"follow from training samples, and with Y.*kernel\.resolve\(X_train\)"


def near(kernel) -> object:
    return pytest.approx(MEDIAN, rel=1e-13) == kernel.lengthscale


@pytest.mark.parametrize(
    "estimator",
    [
        ConvNetGPClassifier(rbf()),
        ConvNetGPClassifier(matern(), likelihood="laplace"),
        ConvNetGPRegressor(rbf()),
        ConvNetGPClassifier(rbf(), completion=SubsetOfData(20), random_state=0),
        NystromCompletedGP(rbf(), n_landmarks=20, random_state=0),
        NystromCompletedGPRegressor(rbf(), n_landmarks=20, random_state=0),
    ],
    ids=repr,
)
def test_a_fit_is_that_with_the_number(estimator):
    given = estimator.kernel
    fitted = estimator.fit(X, y)
    assert near(fitted.kernel_)
    assert estimator.kernel is given
    assert given.lengthscale == "median"
    expected = type(estimator)(**estimator.get_params(deep=False))
    expected.set_params(kernel=fitted.kernel_).fit(X, y)
    np.testing.assert_array_equal(fitted.predict(X[:9]), expected.predict(X[:9]))


@pytest.mark.parametrize("cls", [KernelFlowsClassifier, KernelFlowsRegressor])
def test_flows_start_there(cls):
    # An objective that is named decides alone, and not the left-out samples.
    settings = {"optimizer": Adam(max_iter=2), "objective": "l2", "random_state": 0}
    usual, given = (cls(k, **settings).fit(X, y) for k in (None, RBF))
    np.testing.assert_allclose(usual.kernel_.theta, given.kernel_.theta, rtol=1e-9)
    assert not near(usual.kernel_)


def test_a_search_starts_there():
    found = ConvNetGPRegressor(rbf(), optimizer="evidence").fit(X, y)
    expected = ConvNetGPRegressor(RBF, optimizer="evidence").fit(X, y)
    np.testing.assert_allclose(found.kernel_.theta, expected.kernel_.theta, rtol=1e-6)


def test_both_kernels_of_a_warp_take_it():
    warp = KernelFlowsWarp(field_kernel=matern(), n_steps=1, random_state=0).fit(X, y)
    assert near(warp.kernel_)
    assert near(warp.field_kernel_)


def test_samples_without_weight_do_not_count():
    far = np.vstack([X, 1e3 + X])
    weights = np.repeat([1.0, 0.0], len(X))
    gp = ConvNetGPClassifier(rbf()).fit(far, np.tile(y, 2), weights)
    assert near(gp.kernel_)


def test_a_weight_is_a_repetition():
    counts = 1 + np.arange(len(X)) % 3
    weighted = ConvNetGPRegressor(rbf()).fit(X, y, counts)
    many = ConvNetGPRegressor(rbf()).fit(np.repeat(X, counts, 0), np.repeat(y, counts))
    assert weighted.kernel_ == many.kernel_


def test_further_samples_leave_it():
    gp = NystromCompletedGP(rbf(), n_landmarks=20, random_state=0)
    gp.partial_fit(X, y, classes=np.unique(y)).partial_fit(10.0 * X, y)
    assert near(gp.kernel_)


def test_a_cheaper_kernel_takes_it_from_the_images_that_it_sees():
    images, labels = digits(30)
    small = convnet(depth=1, kernel_size=3)
    gp = ConvNetGPClassifier(small, completion=CoarseKernel(kernel=small + rbf()))
    gp.fit(images.reshape(-1, 1, 8, 8), labels)
    pooled = images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(30, -1)
    found = gp.kernel_.parts[1].lengthscale
    assert found == pytest.approx(np.median(pdist(pooled)), rel=1e-12)


def test_a_prior_before_fit_is_that_of_its_samples():
    usual, given = (
        ConvNetGPRegressor(k, random_state=0).sample_y(X) for k in (rbf(), RBF)
    )
    np.testing.assert_allclose(usual, given, atol=1e-6)


@pytest.mark.filterwarnings("ignore:All covariances of different samples")
def test_it_can_be_searched_and_kept():
    grid = {"kernel__lengthscale": ["median", 1e-3]}
    search = GridSearchCV(ConvNetGPClassifier(rbf()), grid, cv=2).fit(X, y)
    assert search.best_params_ == {"kernel__lengthscale": "median"}
    again = pickle.load(io.BytesIO(pickle.dumps(search.best_estimator_)))
    np.testing.assert_array_equal(again.predict_proba(X), search.predict_proba(X))


def test_ensembles_and_reports_take_it():
    named = [("rbf", ConvNetGPClassifier(rbf())), ("other", ConvNetGPClassifier(RBF))]
    ensemble = KernelEnsembleClassifier(named).fit(X, y)
    assert near(ensemble.named_estimators_["rbf"].kernel_)
    report = selection_report([rbf(), matern()], X, y)
    assert report.names == ("rbf()", "matern()")
    assert all(near(gp.kernel_) for gp in report.estimators)


def test_matrices_take_it_from_their_samples():
    np.testing.assert_allclose(gram_matrix(rbf(), X), gram_matrix(RBF, X), rtol=1e-12)
    np.testing.assert_array_equal(gram_diag(2.0 * rbf(), X), np.full(len(X), 2.0))
    for got, expected in zip(
        gram_gradient(matern(), X[:9]),
        gram_gradient(matern().resolve(X[:9]), X[:9]),
        strict=True,
    ):
        np.testing.assert_array_equal(got, expected)
    G = np.ones((9, 9))
    for got, expected in zip(
        gram_vjp(matern(), X[:9], None, G),
        gram_vjp(matern().resolve(X[:9]), X[:9], None, G),
        strict=True,
    ):
        np.testing.assert_array_equal(got, expected)


def test_matrices_of_two_sets_do_not_guess():
    for call in (
        lambda: gram_matrix(rbf(), X, X[:3]),
        lambda: gram_gradient(rbf(), X, X[:3]),
        lambda: gram_vjp(rbf(), X, X[:3], np.ones((60, 3))),
    ):
        with pytest.raises(ValueError, match=WITH_Y):
            call()


def test_kernels_of_scikit_learn_have_numbers():
    kernel = as_sklearn_kernel(rbf())
    for call in (
        lambda: kernel(X),
        lambda: kernel.diag(X),
        lambda: kernel.theta,
        lambda: SVC(kernel=kernel).fit(X, y),
    ):
        with pytest.raises(ValueError, match="has not seen"):
            call()
    svc = SVC(kernel=as_sklearn_kernel(rbf().resolve(X))).fit(X, y)
    expected = SVC(gamma=0.5 / MEDIAN**2).fit(X, y)
    np.testing.assert_array_equal(svc.predict(X), expected.predict(X))


def test_lengthscale_beyond_its_bounds_is_named_before_a_search():
    gp = ConvNetGPRegressor(rbf(), optimizer="evidence")
    with pytest.raises(ValueError, match="not within its bounds"):
        gp.fit(1e6 * X, y)


def test_it_has_no_effect_of_units():
    usual, large = (
        ConvNetGPClassifier(rbf()).fit(f * X, y).predict_proba(f * X[:9])
        for f in (1.0, 1e3)
    )
    np.testing.assert_allclose(large, usual, atol=1e-8)
