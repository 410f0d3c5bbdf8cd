"""Samples of weight 0, in batches of which some count or none."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone, is_classifier

import skconvgp as sk
from skconvgp import completion, kernels, likelihoods
from tests.helpers.estimators import digits

rbf = kernels.rbf
FEATURES = completion.RandomFeatures(40)
PATCHES = kernels.PatchKernel(rbf(1.0), patch_size=3)
# Every class with `partial_fit`, and likelihoods that have sums of their own.
GROWING = [
    sk.ConvNetGPClassifier(rbf(2.0), completion=FEATURES, random_state=0),
    sk.ConvNetGPClassifier(
        rbf(2.0), completion=FEATURES, likelihood="dirichlet", random_state=0
    ),
    sk.ConvNetGPRegressor(rbf(2.0), completion=FEATURES, random_state=0),
    sk.NystromCompletedGP(rbf(2.0), n_landmarks=12, random_state=0),
    sk.NystromCompletedGPRegressor(rbf(2.0), n_landmarks=12, random_state=0),
    sk.NystromCompletedGPRegressor(
        rbf(2.0), n_landmarks=12, variance="fitc", random_state=0
    ),
    sk.PatchGPClassifier(PATCHES, n_inducing=8, random_state=0),
    sk.PatchGPClassifier(
        PATCHES, n_inducing=8, likelihood=likelihoods.Dirichlet(), random_state=0
    ),
    sk.PatchGPRegressor(PATCHES, n_inducing=8, random_state=0),
    sk.ImageClassifier("patches", flips=False, random_state=0),
    sk.ImageRegressor("patches", flips=False, random_state=0),
]
every = pytest.mark.parametrize("estimator", GROWING, ids=repr)
pytestmark = pytest.mark.filterwarnings("ignore:Features of the completion exceed")
X, LABELS = digits(48)
FIRST, SECOND = slice(0, 30), slice(30, 48)


def labelled(estimator, part):
    """Return images with labels or targets, and what `partial_fit` needs besides."""
    if is_classifier(estimator):
        return (X[part], LABELS[part] % 3), {"classes": [0, 1, 2]}
    return (X[part], LABELS[part].astype(float)), {}


def begun(estimator):
    """Return a copy that is fitted to a first batch."""
    samples, settings = labelled(estimator, FIRST)
    return clone(estimator).partial_fit(*samples, **settings)


def results(fitted):
    """Return what users see of a model."""
    name = "predict_proba" if is_classifier(fitted) else "predict"
    left_out = "loo_predict_proba" if is_classifier(fitted) else "loo_predict"
    return [
        getattr(fitted, name)(X[:5]),
        *fitted.predict_latent(X[:5], return_std=True),
        getattr(fitted, left_out)(),
        np.asarray(fitted.fit_report_.n_samples),
    ]


def assert_same(found, expected):
    for one, other in zip(results(found), results(expected), strict=True):
        np.testing.assert_array_equal(one, other)


@every
def test_a_batch_of_which_nothing_counts_changes_nothing(estimator):
    fitted = begun(estimator)
    before, state = results(fitted), pickle.dumps(fitted)
    (images, targets), settings = labelled(estimator, SECOND)
    again = fitted.partial_fit(
        images, targets, **settings, sample_weight=np.zeros(len(targets))
    )
    assert again is fitted
    assert pickle.dumps(fitted) == state
    for one, other in zip(results(fitted), before, strict=True):
        np.testing.assert_array_equal(one, other)


@every
def test_samples_of_no_weight_are_left_out_of_a_batch(estimator):
    weights = (np.arange(18) % 3 > 0).astype(float)
    (images, targets), settings = labelled(estimator, SECOND)
    spoilt = images.copy()
    spoilt[weights == 0.0] *= 1e6  # of another scale, which nobody is told of
    found = begun(estimator).partial_fit(
        spoilt, targets, **settings, sample_weight=weights
    )
    counts = weights > 0.0
    expected = begun(estimator).partial_fit(images[counts], targets[counts], **settings)
    assert_same(found, expected)


@every
def test_batches_go_on_after_one_of_nothing(estimator):
    (images, targets), settings = labelled(estimator, SECOND)
    found, expected = begun(estimator), begun(estimator)
    found.partial_fit(images, targets, **settings, sample_weight=np.zeros(18))
    for fitted in (found, expected):
        fitted.partial_fit(images, targets, **settings)
    assert_same(found, expected)


@every
def test_a_first_batch_has_a_sample_that_counts(estimator):
    samples, settings = labelled(estimator, FIRST)
    new = clone(estimator)
    with pytest.raises(ValueError, match=r"`sample_weight` .*zero.*: begin with"):
        new.partial_fit(*samples, **settings, sample_weight=np.zeros(30))
    assert not hasattr(new, "classes_")
    assert not hasattr(new, "n_features_in_")


@every
def test_a_batch_of_which_nothing_counts_is_checked(estimator):
    fitted = begun(estimator)
    (images, targets), settings = labelled(estimator, SECOND)
    zeros = np.zeros(18)
    for bad_images, bad_targets, bad_weights in (
        (images[:, :, :-1], targets, zeros),
        (images, targets[:-1], zeros),
        (images, targets, zeros[:-1]),
        (images, targets, zeros - 1.0),
        (np.full_like(images, np.nan), targets, zeros),
    ):
        with pytest.raises(ValueError, match=r"shape|features|samples|>= 0|NaN"):
            fitted.partial_fit(
                bad_images, bad_targets, **settings, sample_weight=bad_weights
            )
