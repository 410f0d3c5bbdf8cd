"""Inputs at which a kernel is the prior, given as an array."""

import numpy as np
import pytest
from sklearn.base import clone, is_regressor

from skconvgp import (
    BayesianNetworkClassifier,
    BayesianNetworkRegressor,
    gram_matrix,
)
from skconvgp.kernels import rbf
from skconvgp.metrics import gaussian_wasserstein
from tests.helpers.estimators import digits
from tests.helpers.public import CASES

NETWORKS = [
    case
    for case in CASES
    if isinstance(case.estimator, BayesianNetworkClassifier | BayesianNetworkRegressor)
]
GRID = np.linspace(-2.0, 3.0, 9)[:, None]


def test_functions_follow_the_gaussian_process_at_given_points():
    """As at samples: a wide network draws from the posterior of the kernel."""
    X = np.linspace(-1.0, 1.0, 4)[:, None]
    y, points = np.cos(2.0 * X[:, 0]), np.array([[-4.0], [-2.0], [2.0], [4.0]])
    noise, added, n_draws = 0.05, 0.02, 200
    model = BayesianNetworkRegressor(
        (60,),
        prior=rbf(1.5),
        optimizer=None,
        noise_variance=noise,
        function_noise=added,
        extra_points=points,
        weight_variance=10.0,
        n_draws=n_draws,
        max_iter=600,
        learning_rate=0.1,
        random_state=0,
    ).fit(X, y)
    C = gram_matrix(rbf(1.5), np.vstack([X, points])) + added * np.eye(8)
    gain = C[:, :4] @ np.linalg.inv(C[:4, :4] + noise * np.eye(4))
    expected = y.mean() + gain @ (y - y.mean())
    std = np.sqrt(np.diag(C - gain @ C[:4])) * y.std()
    mean, found = model.predict(np.vstack([X, points]), return_std=True)
    assert np.abs((mean - expected) / std).max() < 4.0 / np.sqrt(n_draws)
    np.testing.assert_allclose(found, std, rtol=0.2)


def test_layers_are_matched_at_given_points():
    X = np.linspace(-1.0, 1.0, 20)[:, None]
    model = BayesianNetworkRegressor(
        (8,),
        activation="erf",
        prior="matched",
        kernel=rbf(3.0),
        optimizer=None,
        noise_variance=0.1,
        extra_points=GRID,
        max_iter=2,
        n_draws=2,
        random_state=0,
    ).fit(X, np.sin(X[:, 0]))
    covariances = [
        gram_matrix(one, GRID, dtype="float64") for one in (rbf(3.0), model.kernel_)
    ]
    squared = gaussian_wasserstein(*covariances) ** 2
    distance = model.fit_report_.distance
    assert distance == pytest.approx(squared / len(GRID), rel=1e-6)


@pytest.mark.parametrize("case", NETWORKS, ids=lambda case: case.name)
def test_all_networks_take_images_and_rows(case):
    X, y, new = case.data()
    kernel = {"prior": rbf(2.0), "optimizer": None}
    model = case.new(extra_points=X[:3], **kernel)
    found = model.fit(X, y).predict(new)
    rows = clone(model).set_params(extra_points=X[:3].reshape(3, -1).tolist())
    np.testing.assert_array_equal(rows.fit(X, y).predict(new), found)
    other = clone(model).set_params(extra_points=X[3:9])
    if is_regressor(model):
        assert (other.fit(X, y).predict(new) != found).any()
    copy = clone(model)
    np.testing.assert_array_equal(copy.extra_points, X[:3])


@pytest.mark.parametrize(
    ("points", "message"),
    [
        (np.ones((3, 7)), r"of 64 values each, got \(3, 7\)"),
        (np.ones((0, 64)), r"got \(0, 64\)"),
        (np.ones(64), r"got \(64,\)"),
        ([["a"] * 64], "images or vectors like those of X"),
        (np.full((2, 64), np.nan), "must be finite"),
        (-1.0, "or an array of images or vectors"),
        ("grid", "or an array of images or vectors"),
    ],
)
@pytest.mark.parametrize("cls", [BayesianNetworkRegressor, BayesianNetworkClassifier])
def test_other_points_are_refused(cls, points, message):
    X, labels = digits(12)
    model = cls((4,), prior=rbf(2.0), extra_points=points)
    with pytest.raises(ValueError, match=message):
        model.fit(X, labels % 3)


def test_a_prior_of_weights_has_no_points():
    X, labels = digits(12)
    model = BayesianNetworkClassifier((4,), extra_points=X)
    with pytest.raises(ValueError, match="prior='weights' has none"):
        model.fit(X, labels % 3)
