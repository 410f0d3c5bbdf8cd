"""Parts that users give: their views, names and shares, beside the usual parts."""

import pickle

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import FunctionTransformer

from skconvgp import ImageClassifier, ImagePart, ImageRegressor
from skconvgp.estimators._image_parts import as_shares
from skconvgp.estimators.settings._checks import UnfitError
from skconvgp.kernels import convnet, rbf
from tests.helpers.estimators import digits

NETWORK, VECTORS = convnet(1, 3), rbf(2.0)
N, N_NEW = 20, 6


class Corner(TransformerMixin, BaseEstimator):
    """Shows the first three values of the last row."""

    def fit(self, X, y=None):
        self.count_ = len(X)
        return self

    def transform(self, X):
        return 1e3 * X[:, 0, -1, :3]


def data():
    images, labels = digits(N + N_NEW)
    targets = np.stack([labels, images.mean((1, 2, 3))], 1)
    return images[:N], targets[:N], images[N:]


def shown_as(function):
    return FunctionTransformer(function)


def test_forbidden_parts_are_not_built():
    images, targets, _ = data()
    bad = ImagePart("bad", shown_as(lambda x: x * np.nan), VECTORS)
    gp = ImageRegressor([NETWORK, VECTORS, bad], part_weights={"bad": 0.0})
    assert gp.fit(images, targets).fit_report_.part_weights[2] == 0.0
    with pytest.raises(ValueError, match="not finite"):
        gp.set_params(part_weights="auto").fit(images, targets)


def test_a_view_may_write_into_what_it_is_given():
    images, targets, new = data()

    def written(x):
        x -= x.mean((1, 2, 3), keepdims=True)
        return x

    found = []
    for view in (written, lambda x: x - x.mean((1, 2, 3), keepdims=True)):
        parts = [(shown_as(view), VECTORS), NETWORK]
        gp = ImageRegressor(parts, part_weights=[0.5, 0.5], flips=False)
        found.append(gp.fit(images, targets).predict(new))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("view", "message"),
    [
        (lambda x: x[:-1], r"here with n=\d+, and returned float64 of shape"),
        (lambda x: x.astype(str), "must return numbers"),
        (lambda x: np.full_like(x, np.inf), "not finite"),
        (lambda x: x.reshape(len(x), -1)[:, :0], "or none"),
    ],
)
def test_what_a_view_returns_is_checked(view, message):
    images, targets, _ = data()
    with pytest.raises(ValueError, match=f"FunctionTransformer.*{message}"):
        ImageRegressor([(shown_as(view), VECTORS)]).fit(images, targets)


def test_a_view_of_one_channel_may_leave_it_out():
    images, targets, new = data()
    found = []
    for view in (lambda x: x[:, 0] ** 2, lambda x: x**2):
        gp = ImageRegressor([(shown_as(view), NETWORK)], flips=False)
        found.append(gp.fit(images, targets).predict(new))
    np.testing.assert_array_equal(*found)


def test_predictions_are_the_same_bits_after_pickling():
    images, labels = digits(60)
    gp = ImageClassifier(part_weights=[1.0] * 8, flips=True, random_state=0)
    gp.fit(images[:50], labels[:50])
    again = pickle.loads(pickle.dumps(gp))
    one, two = (model.predict_proba(images[50:]) for model in (gp, again))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    "parts", [["auto", "auto"], [ImagePart("one", None, VECTORS)] * 2]
)
def test_parts_are_not_given_twice(parts):
    images, targets, _ = data()
    with pytest.raises(ValueError, match="with different names"):
        ImageRegressor(parts).fit(images, targets)


def test_forbidden_patches_are_not_fitted_alone(monkeypatch):
    images, targets, _ = data()
    monkeypatch.setattr(
        "skconvgp.estimators._image_landmarks.missing_memory", lambda *_: "no room"
    )
    gp = ImageRegressor(random_state=0).fit(images, targets)
    assert "patches alone: no room" in gp.fit_report_.parts_reason
    shares = {"patches of pixels": 0.0}
    gp = ImageRegressor(part_weights=shares, random_state=0).fit(images, targets)
    assert gp.fit_report_.part_weights[0] == 0.0


def test_shares_of_named_parts():
    def shares(given, names=("one", "two", "three")):
        return as_shares(given, names)

    np.testing.assert_allclose(
        shares({"one": 0.33, "two": 0.56, "three": 0.11}).sum(), 1
    )
    np.testing.assert_array_equal(shares({"two": 0.5}), [np.nan, 0.5, np.nan])
    for given, message in (
        ({"four": 0.1}, "names of parts, which are 'one', 'two', 'three'"),
        ({"one": 1.5}, "from 0 to 1"),
        ({"one": np.nan}, "from 0 to 1"),
        ({"one": 0.7, "two": 0.7}, "at most 1"),
        ({"one": 0.5, "two": 0.5}, "below 1, as others are chosen"),
        ({"one": 0.0, "two": 0.0, "three": 0.0}, "does not forbid every part"),
    ):
        with pytest.raises(UnfitError, match=message):
            shares(given)
    with pytest.raises(UnfitError, match="several are called 'rbf'"):
        shares({"rbf": 0.5}, ("rbf", "rbf"))


def test_parts_of_users_join_the_usual_ones_and_some_are_fixed_or_forbidden():
    images, labels = digits(120)
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(10, 3))[labels] + 0.1 * rng.normal(size=(120, 3))
    # The labels stand in a corner, where no other part can read them.
    images = np.pad(images, ((0, 0), (0, 0), (0, 1), (0, 0)))
    images[:, 0, -1, :3] = 1e-3 * codes
    corner = ImagePart("corner", Corner(), VECTORS, cost=0.0)
    gp = ImageClassifier(["auto", corner], flips=False, random_state=0)
    gp.fit(images[:80], labels[:80])
    weights = dict(
        zip(gp.fit_report_.part_names, gp.fit_report_.part_weights, strict=True)
    )
    assert weights["corner"] == max(weights.values())
    assert gp.score(images[80:], labels[80:]) == 1.0
    given = {"corner": 0.25, "patches of pixels": 0.0}
    gp.set_params(part_weights=given).fit(images[:80], labels[:80])
    weights = dict(
        zip(gp.fit_report_.part_names, gp.fit_report_.part_weights, strict=True)
    )
    assert weights["corner"] == pytest.approx(0.25)
    assert weights["patches of pixels"] == 0.0
    assert sum(weights.values()) == pytest.approx(1.0)
