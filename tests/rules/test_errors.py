"""What is wrong is said before work starts, and leaves a fitted model as it was."""

import inspect

import numpy as np
import pytest
from sklearn.base import is_classifier

from tests.helpers.public import CASES, fitted_and_results, offers
from tests.helpers.work import no_work

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore:.* explains .*:UserWarning",
    "ignore:Features of the completion exceed:UserWarning",
)
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


class Nonsense:
    """What no setting may be."""

    def __repr__(self):
        return "Nonsense()"


def assert_refused(what, call, *args, told="", **options):
    """Check that a call raises, with some words, before it works."""
    with no_work():
        try:
            result = call(*args, **options)
            if inspect.isgenerator(result):
                list(result)
        except (ValueError, TypeError) as error:
            message = str(error)
        else:
            pytest.fail(f"{what} was taken")
    assert told in message


@every_case
def test_settings_that_mean_nothing_are_named_before_work(case):
    X, y, _ = case.data()
    for name in case.new().get_params(deep=False):
        assert_refused(name, case.new(**{name: Nonsense()}).fit, X, y, told=name)


def bad_images(X):
    """Yield what no estimator takes as images, and what it is."""
    for value in (np.nan, np.inf):
        with_one = X.copy()
        with_one[-1, 0, 1, 1] = value
        yield value, with_one
    yield "no samples", X[:0]
    yield "no pixels", X[:, :, :0]
    yield "text", np.full(X.shape, "a")
    yield "a number", X[0, 0, 0, 0]


def bad_targets(y, *, has_classes):
    """Yield what no estimator takes as labels or targets, and what it is."""
    yield "one less", y[:-1]
    yield "none", None
    yield "three axes", np.zeros((len(y), 2, 2))
    yield "nan", np.where(np.arange(len(y)) == 2, np.nan, y)
    if has_classes:
        yield "one class", np.zeros(len(y))


def bad_weights(n):
    """Yield what no estimator takes as weights, and what it is."""
    ones = np.ones(n)
    yield "one less", ones[1:]
    yield "two columns", np.ones((n, 2))
    yield "text", ["a"] * n
    for value in (-1.0, np.nan, np.inf):
        yield value, np.where(np.arange(n) == n - 1, value, ones)
    yield "all zero", np.zeros(n)


@every_case
def test_data_that_cannot_be_fitted_are_refused_before_work(case):
    X, y, _ = case.data()
    for what, bad in bad_images(X):
        assert_refused(what, case.new().fit, bad, y[: len(np.atleast_1d(bad))])
    if case.estimator.__sklearn_tags__().target_tags.required:
        for what, bad in bad_targets(y, has_classes=is_classifier(case.estimator)):
            assert_refused(what, case.new().fit, X, bad)
    if "sample_weight" in inspect.signature(case.estimator.fit).parameters:
        for what, bad in bad_weights(len(X)):
            assert_refused(what, case.new().fit, X, y, sample_weight=bad)


OF_IMAGES = ("predict", "predict_proba", "predict_log_proba", "decision_function")
OF_IMAGES += ("predict_latent", "predict_interval", "transform", "latent_gradient")
OF_IMAGES += ("sample_y", "staged_transform", "bit_probabilities")


@every_case
def test_images_that_cannot_be_predicted_are_refused_before_work(case):
    fitted, _ = fitted_and_results(case)
    _, _, new = case.data()
    bad = [*bad_images(new), ("one column less", new[:, :, :, 1:])]
    for name in OF_IMAGES:
        if offers(fitted, name):
            for what, images in bad:
                assert_refused(what, getattr(fitted, name), images)


@every_case
def test_a_fit_that_fails_changes_nothing(case):
    X, y, _ = case.data()
    fitted, _ = fitted_and_results(case)
    before = dict(vars(fitted))
    for _, bad in bad_images(X):
        with pytest.raises((ValueError, TypeError)):
            fitted.fit(bad, y[: len(np.atleast_1d(bad))])
        assert vars(fitted).keys() == before.keys()
        assert all(value is before[name] for name, value in vars(fitted).items())
