"""Weights of classes are sample weights, for every classifier that takes them."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils.class_weight import compute_sample_weight

import skconvgp as sk
from skconvgp import kernels
from tests.helpers.estimators import blobs, digits
from tests.helpers.public import CASES, assert_near, assert_same_bits, offers

rbf = kernels.rbf
# "laplace" and searches take no weights.
TAKING = [
    case
    for case in CASES
    if "class_weight" in case.estimator.get_params(deep=False)
    and not any(word in case.name for word in ("likelihood=Laplace", "optimizer="))
]
GROWING = [
    sk.NystromCompletedGP(rbf(2.0), n_landmarks=12, random_state=0),
    sk.PatchGPClassifier(
        kernels.PatchKernel(rbf(1.0), patch_size=3), n_inducing=8, random_state=0
    ),
    sk.ImageClassifier("patches", flips=False, random_state=0),
]
every_growing = pytest.mark.parametrize("estimator", GROWING, ids=repr)
pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning",
    "ignore:.* explains .*:UserWarning",
    "ignore:Features of the completion exceed:UserWarning",
    "ignore:Probabilities are calibrated on few:UserWarning",
)


def uneven(case):
    """Return images with labels of which some are rare, and weights."""
    X, y, new = case.data()
    y[: len(y) // 2] = 0
    return X, y, new, 1.0 + np.arange(len(y)) % 2


def test_the_rule_is_tried_with_each_class():
    names = {type(case.estimator).__name__ for case in TAKING}
    assert names == {
        "ConvNetGPClassifier",
        "NystromCompletedGP",
        "PatchGPClassifier",
        "ImageClassifier",
    }


@pytest.mark.parametrize("case", TAKING, ids=lambda case: case.name)
def test_weights_of_classes_are_sample_weights(case):
    X, y, new, weights = uneven(case)
    by_class = {0: 0.5, 1: 3.0}  # and 1 for the third, if there is one
    found = case.new(class_weight=by_class).fit(X, y, sample_weight=weights)
    factors = np.array([by_class.get(label, 1.0) for label in y.tolist()])
    expected = case.new().fit(X, y, sample_weight=weights * factors)
    data = X, y, new
    assert_same_bits(case.results(found, data), case.results(expected, data))
    plain = case.new().fit(X, y, sample_weight=weights)
    latents = [gp.predict_latent(new) for gp in (found, plain)]
    assert not np.allclose(*latents)


@pytest.mark.parametrize("case", TAKING, ids=lambda case: case.name)
def test_balanced_is_what_scikit_learn_computes(case):
    X, y, new, _ = uneven(case)
    found = case.new(class_weight="balanced").fit(X, y)
    factors = compute_sample_weight("balanced", y)
    expected = case.new().fit(X, y, sample_weight=factors)
    data = X, y, new
    assert_near(case.results(found, data), case.results(expected, data), 1e-6)


def test_balanced_classes_have_equal_sums_of_weights():
    X, y = blobs(40)
    y[:10], weights = 0, np.repeat([0.0, 1.0, 3.0, 2.0], 10)
    gp = sk.ConvNetGPClassifier(rbf(), class_weight="balanced")
    of_samples = gp.fit(X, y, weights)._process.model.weights
    sums = np.bincount(y[10:], of_samples)
    np.testing.assert_allclose(sums, weights.sum() / 3.0)
    more = np.repeat(np.arange(40), weights.astype(int))
    many = clone(gp).fit(X[more], y[more])
    np.testing.assert_allclose(
        gp.predict_proba(X), many.predict_proba(X), rtol=1e-7, atol=1e-9
    )


def test_a_class_of_weight_0_is_left_out():
    X, y = blobs(30)
    gp = sk.ConvNetGPClassifier(rbf(), class_weight={2: 0.0}).fit(X, y)
    assert gp.classes_.tolist() == [0, 1]


def test_labels_are_named_as_y_names_them():
    X, codes = blobs(30)
    y = np.array(["one", "two", "three"])[codes]
    by_label = {"one": 2.0, "two": 1.0, "three": 0.5}
    found = sk.ConvNetGPClassifier(rbf(), class_weight=by_label).fit(X, y)
    expected = sk.ConvNetGPClassifier(rbf()).fit(X, y, [by_label[one] for one in y])
    np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(X))
    # Entries for labels that a fold lacks are of no matter.
    found.set_params(class_weight=by_label | {"four": 1.0}).fit(X, y)
    found.set_params(class_weight={"One": 2.0, "two": 1.0, "three": 1.0})
    with pytest.raises(ValueError, match=r"weights of \['One'\].* none of .*\['one'\]"):
        found.fit(X, y)


@pytest.mark.parametrize("bad", [{0: -1.0}, {0: np.nan}, {0: "a"}, {}, [1.0, 2.0], 2])
def test_wrong_weights_are_refused_before_work(bad):
    X, y = blobs(30)
    with pytest.raises(ValueError, match="The 'class_weight' parameter of ConvNetGP"):
        sk.ConvNetGPClassifier(rbf(), class_weight=bad).fit(X, y)
    with pytest.raises(ValueError, match="`class_weight` is 0 for the label of every"):
        sk.ConvNetGPClassifier(class_weight={0: 0, 1: 0, 2: 0}).fit(X, y)


@every_growing
def test_batches_take_weights_of_classes_by_label(estimator):
    X, labels = digits(48)
    y, by_class = labels % 3, {0: 0.5, 2: 2.0}
    factors = np.array([by_class.get(label, 1.0) for label in y.tolist()])
    found = clone(estimator).set_params(class_weight=by_class)
    expected = clone(estimator)
    for part in slice(0, 30), slice(30, 48):
        found.partial_fit(X[part], y[part], classes=[0, 1, 2])
        expected.partial_fit(
            X[part], y[part], classes=[0, 1, 2], sample_weight=factors[part]
        )
    results = [offered(gp, X) for gp in (found, expected)]
    assert_same_bits(*results)


def offered(gp, X):
    """Return what two methods say."""
    names = [name for name in ("predict_proba", "predict_latent") if offers(gp, name)]
    return {name: [getattr(gp, name)(X)] for name in names}


@every_growing
def test_batches_are_not_balanced(estimator):
    X, labels = digits(30)
    new = clone(estimator).set_params(class_weight="balanced")
    with pytest.raises(ValueError, match="'balanced' needs the labels of all calls"):
        new.partial_fit(X, labels % 3, classes=[0, 1, 2])
    assert not hasattr(new, "classes_")
    begun = clone(estimator).partial_fit(X, labels % 3, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="'balanced' needs the labels of all calls"):
        begun.set_params(class_weight="balanced").partial_fit(X, labels % 3)


def test_a_search_chooses_weights_of_classes():
    X, y = blobs(60, 2)
    y[:40] = 0
    search = GridSearchCV(
        sk.ConvNetGPClassifier(rbf()),
        {"class_weight": [None, "balanced", {0: 1.0, 1: 50.0}]},
        scoring="recall",
        cv=3,
    ).fit(X, y)
    assert search.best_params_["class_weight"] is not None
    assert (
        clone(search.best_estimator_).class_weight
        == search.best_params_["class_weight"]
    )
