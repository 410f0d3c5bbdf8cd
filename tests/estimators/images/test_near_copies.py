"""Near copies of images are counted and told, and ordinary images are none."""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    ImageClassifier,
    ImageRegressor,
    NystromCompletedGP,
    PatchGPClassifier,
)
from skconvgp.augmentation import Shift
from skconvgp.datasets import fetch_cifar10, fetch_mnist, make_rectangles
from skconvgp.estimators._repeats import N_COMPARED, near_copies
from skconvgp.kernels import rbf
from tests.helpers.estimators import all_digits, digits
from tests.helpers.public import CONV

FOLDER = Path(os.environ.get("SKCONVGP_DATA", "missing"))
WORDS = "images that were compared with all have another one"
ESTIMATORS = [
    ImageClassifier([CONV, rbf()], flips=False, random_state=0),
    ImageRegressor([CONV, rbf()], flips=False, random_state=0),
    ImageClassifier("patches", flips=False, random_state=0),
    ConvNetGPClassifier(CONV),
    ConvNetGPRegressor(CONV),
    PatchGPClassifier(n_inducing=16, random_state=0),
    NystromCompletedGP(CONV, n_landmarks=20, random_state=0),
]
every = pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)


def versions(images, n, size=0.02):
    """Return n noisy versions of images of values from 0 to 1."""
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(images, size) for _ in range(n)])


def told(estimator, X, y):
    """Return what a fit says of near copies."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(X, y)
    return [str(one.message) for one in caught if WORDS in str(one.message)]


@every
def test_noisy_versions_are_told_once(estimator):
    X, y = digits(40)
    (message,) = told(estimator, versions(X, 3), np.tile(y, 3))
    assert message.startswith("120 of 120 images ")
    assert told(estimator, X, y) == []


def test_copies_and_few_versions_are_not_told():
    X, y = digits(60)
    gp = ConvNetGPClassifier(CONV)
    assert told(gp, np.tile(X, (2, 1, 1, 1)), np.tile(y, 2)) == []
    few = np.concatenate([X, versions(X[:4], 1)])
    assert told(gp, few, np.concatenate([y, y[:4]])) == []
    assert told(ConvNetGPClassifier(CONV, augment=Shift()), X, y) == []


def test_the_count_is_that_of_all_distances():
    X, _ = digits(60)
    rows = np.concatenate([X, versions(X[:20], 1)]).reshape(80, -1)
    apart = np.square(rows[:, None] - rows).sum(-1)
    is_near, own = apart < 0.01 * np.median(apart), np.arange(80)
    expected = (is_near & (own[:, None] != own)).any(1).sum()
    assert near_copies(rows, own) == (expected, 80) == (40, 80)
    own[60:70] = np.arange(10)  # versions that are left out together
    assert near_copies(rows, own) == (20, 80)
    assert near_copies(1e300 * rows, own) == near_copies(rows, own)
    assert near_copies(0.0 * rows, own)[0] == 0


@pytest.mark.parametrize("n_ways", [2, 4])
def test_images_that_vary_in_few_ways_have_no_near_copies(n_ways):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3000, n_ways)) @ rng.normal(size=(n_ways, 64))
    n_near, _ = near_copies(rows, np.arange(3000))
    assert n_near < 0.2 * N_COMPARED


@pytest.mark.parametrize("n_versions", [2, 3, 5, 20])
def test_groups_of_any_size_are_found(n_versions):
    X, _ = digits(50)
    many = versions(X, n_versions).reshape(50 * n_versions, -1)
    found = near_copies(many, np.arange(len(many)))
    assert found[0] > 0.9 * found[1]


def test_all_images_are_compared_with_some():
    X, _ = all_digits()
    rows = versions(X[:500], 3).reshape(1500, -1)
    assert near_copies(rows, np.arange(1500))[0] > 0.8 * N_COMPARED


@pytest.mark.parametrize("load", [load_iris, load_wine])
def test_tables_are_no_images(load):
    X, y = load(return_X_y=True)
    assert told(ConvNetGPClassifier(rbf()), X, y) == []


def test_ordinary_images_have_no_near_copies():
    for images in (all_digits()[0], make_rectangles(1000, random_state=0)[0]):
        rows = images.reshape(len(images), -1)
        own = np.unique(rows, axis=0, return_inverse=True)[1].ravel()
        assert near_copies(rows, own)[0] < 3


@pytest.mark.parametrize(
    ("file", "fetch"), [("mnist.npz", fetch_mnist), ("cifar10.npz", fetch_cifar10)]
)
def test_photographs_and_digits_have_no_near_copies(file, fetch):
    if not (FOLDER / file).is_file():
        pytest.skip(f"SKCONVGP_DATA names no folder with {file}")
    X, _ = fetch(n_samples=5000, return_X_y=True)
    assert near_copies(X.reshape(len(X), -1), np.arange(len(X)))[0] < 3
    many = versions(X[:150] / X.max(), 3)
    assert near_copies(many.reshape(450, -1), np.arange(450))[0] > 0.9 * N_COMPARED
