"""Logarithms of probabilities, of every classifier."""

import numpy as np
import pytest
from sklearn.base import is_classifier
from sklearn.model_selection import cross_val_predict

from skconvgp import ConvNetGPClassifier
from skconvgp.kernels import rbf
from tests.helpers.estimators import digits
from tests.helpers.public import CASES

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore:.* explains .*:UserWarning",
    "ignore:Features of the completion exceed:UserWarning",
)
CLASSIFIERS = [case for case in CASES if is_classifier(case.estimator)]


@pytest.mark.parametrize("case", CLASSIFIERS, ids=lambda case: case.name)
def test_they_are_those_of_the_probabilities(case):
    (_, _, new), fitted = case.data(), case.fit()
    with np.errstate(divide="ignore"):
        expected = np.log(fitted.predict_proba(new))
    np.testing.assert_array_equal(fitted.predict_log_proba(new), expected)


@pytest.mark.parametrize(
    "cls",
    dict.fromkeys(type(case.estimator) for case in CLASSIFIERS),
    ids=lambda cls: cls.__name__,
)
def test_a_probability_of_zero_has_the_logarithm_minus_infinity(cls, monkeypatch):
    certain = np.array([[0.0, 1.0], [1.0, 0.0]])
    monkeypatch.setattr(cls, "predict_proba", lambda self, X: certain)
    (case, *_) = [one for one in CLASSIFIERS if type(one.estimator) is cls]
    with np.errstate(all="raise"):
        found = case.estimator.predict_log_proba(None)
    np.testing.assert_array_equal(found, [[-np.inf, 0.0], [0.0, -np.inf]])


def test_cross_validation_asks_for_them():
    X, y = digits(24)
    gp, settings = ConvNetGPClassifier(rbf()), {"cv": 2, "method": "predict_log_proba"}
    found = cross_val_predict(gp, X, y % 3, **settings)
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1.0)
