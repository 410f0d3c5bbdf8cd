"""A lengthscale for each feature, against scikit-learn and finite differences."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process import kernels as sk
from sklearn.model_selection import GridSearchCV

from skconvgp import (
    ConvNetGPRegressor,
    KernelFlowsRegressor,
    as_sklearn_kernel,
    gram_gradient,
    gram_matrix,
    gram_vjp,
)
from skconvgp.flows import Adam
from skconvgp.kernels import convnet, matern, rbf

RNG = np.random.default_rng(0)
LENGTHS = np.array([0.7, 3.0, 1.5])
X, Y = RNG.normal(size=(9, 3)), RNG.normal(size=(5, 3))
PAIRS = [
    (rbf(LENGTHS), sk.RBF(LENGTHS)),
    (matern(LENGTHS, nu=0.5), sk.Matern(LENGTHS, nu=0.5)),
    (matern(LENGTHS), sk.Matern(LENGTHS, nu=1.5)),
    (matern(LENGTHS, nu=2.5), sk.Matern(LENGTHS, nu=2.5)),
    (2.0 * rbf(tuple(LENGTHS)), 2.0 * sk.RBF(LENGTHS)),
]
IDS = [repr(twin) for _, twin in PAIRS]


@pytest.mark.parametrize(("kernel", "twin"), PAIRS, ids=IDS)
def test_values_are_those_of_scikit_learn(kernel, twin):
    np.testing.assert_allclose(gram_matrix(kernel, X), twin(X), atol=1e-7)
    np.testing.assert_allclose(gram_matrix(kernel, X, Y), twin(X, Y), rtol=1e-10)
    single = gram_matrix(kernel, X, Y, dtype="float32")
    np.testing.assert_allclose(single, twin(X, Y), rtol=1e-5)


@pytest.mark.parametrize(("kernel", "twin"), PAIRS[1:4], ids=IDS[1:4])
def test_derivatives_are_those_of_scikit_learn(kernel, twin):
    _, expected = twin(X, eval_gradient=True)
    np.testing.assert_allclose(gram_gradient(kernel, X)[1], expected, atol=1e-7)


@pytest.mark.parametrize(("kernel", "twin"), PAIRS, ids=IDS)
def test_derivatives_are_finite_differences(kernel, twin):
    step, theta = 1e-5, kernel.theta
    pulled, by_inputs = gram_vjp(kernel, X, Y, weights := RNG.normal(size=(9, 5)))
    gradient = gram_gradient(kernel, X, Y)[1]
    assert gradient.shape == (9, 5, len(theta))
    for i, shift in enumerate(step * np.eye(len(theta))):
        high, low = (
            gram_matrix(kernel.with_theta(theta + s), X, Y) for s in (shift, -shift)
        )
        np.testing.assert_allclose(
            gradient[..., i], (high - low) / (2 * step), atol=1e-8
        )
    np.testing.assert_allclose(pulled, np.einsum("ij,ijp->p", weights, gradient))
    for feature in range(3):
        moved = step * np.eye(3)[feature]
        high, low = (gram_matrix(kernel, X + m, Y) for m in (moved, -moved))
        slope = (weights * (high - low)).sum(axis=1) / (2 * step)
        np.testing.assert_allclose(by_inputs[:, feature], slope, atol=1e-8)


def test_a_common_length_is_that_of_the_number():
    gram = gram_matrix(rbf(np.full(3, 1.7)), X)
    np.testing.assert_allclose(gram, gram_matrix(rbf(1.7), X), rtol=1e-12)


def test_hyperparameters_have_a_place_each():
    kernel = rbf(LENGTHS, lengthscale_bounds=(0.1, 9.0))
    np.testing.assert_allclose(kernel.theta, np.log(LENGTHS))
    np.testing.assert_allclose(np.exp(kernel.bounds), [[0.1, 9.0]] * 3)
    labels = [item.label for item in kernel.hyperparameters]
    assert labels == ["lengthscale[0]", "lengthscale[1]", "lengthscale[2]"]
    moved = kernel.with_theta(kernel.theta + np.log([1.0, 2.0, 3.0]))
    assert moved.lengthscale == pytest.approx((0.7, 6.0, 4.5))
    assert rbf(LENGTHS, lengthscale_bounds="fixed").theta.shape == (0,)


def test_copies_are_equal_and_print():
    kernel = 2.0 * rbf(LENGTHS) + matern(list(LENGTHS), nu=0.5)
    for copied in (
        clone(kernel),
        copy.deepcopy(kernel),
        pickle.loads(pickle.dumps(kernel)),
        2.0 * rbf(tuple(LENGTHS)) + matern(tuple(LENGTHS), nu=0.5),
    ):
        assert copied == kernel
    assert repr(rbf(LENGTHS)) == "rbf(lengthscale=[0.7, 3.0, 1.5])"
    assert rbf(LENGTHS) != rbf(LENGTHS + 1.0)
    assert rbf(LENGTHS) != rbf(1.0)
    assert rbf(LENGTHS) != rbf()
    assert rbf(LENGTHS[:1]) != matern(LENGTHS[:1])
    set_later = rbf().set_params(lengthscale=LENGTHS)
    assert set_later == rbf(LENGTHS)
    np.testing.assert_array_equal(set_later.get_params()["lengthscale"], LENGTHS)
    assert set_later.resolve(X) is set_later


def test_another_number_than_of_features_is_named():
    words = "one for each of the 3 features of X, got 5"
    with pytest.raises(ValueError, match=words):
        ConvNetGPRegressor(rbf(np.ones(5))).fit(X, X[:, 0])
    with pytest.raises(ValueError, match=words):
        gram_matrix(rbf(2.0) + matern(np.ones(5)), X)
    with pytest.raises(ValueError, match="each of the 192 features of X, got 64"):
        (convnet(depth=1) * rbf(np.ones(64))).check((3, 8, 8))


@pytest.mark.parametrize(
    "wrong", [[], (1.0, 0.0, 1.0), np.array([1.0, -2.0, 1.0]), np.ones((3, 1)), "mean"]
)
def test_wrong_lengths_are_named(wrong):
    with pytest.raises(ValueError, match="`lengthscale` must be a finite number > 0"):
        ConvNetGPRegressor(rbf(wrong)).fit(X, X[:, 0])


def relevant_first(n=60):
    """Return samples whose second feature has next to no effect."""
    x = RNG.normal(size=(n, 2))
    return x, np.sin(2.0 * x[:, 0]) + 0.1 * x[:, 1]


@pytest.mark.parametrize(
    "kernel", [rbf([1.0, 1.0]), matern([1.0, 1.0], nu=2.5)], ids=repr
)
def test_a_search_finds_what_hardly_matters(kernel):
    x, y = relevant_first()
    gp = ConvNetGPRegressor(kernel, optimizer="evidence", noise_variance=1e-3)
    first, second = gp.fit(x, y).kernel_.lengthscale
    assert second > 4.0 * first
    assert gp.optimizer_result_.theta == pytest.approx(np.log([first, second]))
    common = ConvNetGPRegressor(rbf(), optimizer="evidence", noise_variance=1e-3)
    assert gp.log_marginal_likelihood() > common.fit(x, y).log_marginal_likelihood()


def test_flows_learn_each():
    x, y = relevant_first()
    flow = KernelFlowsRegressor(rbf([1.0, 1.0]), optimizer=Adam(20), random_state=0)
    first, second = flow.fit(x, y).kernel_.lengthscale
    assert first < second


@pytest.mark.filterwarnings("ignore:All covariances of different samples")
def test_arrays_can_be_searched_and_fitted_models_kept():
    x, y = relevant_first()
    lengths = [np.array([1.0, 30.0]), np.array([30.0, 1.0]), "median", 1e-3]
    grid = {"kernel__lengthscale": lengths}
    gp = ConvNetGPRegressor(rbf(), noise_variance=1e-3)
    search = GridSearchCV(gp, grid, cv=3).fit(x, y)
    assert search.best_params_["kernel__lengthscale"] is lengths[0]
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    assert again.kernel_ == rbf(lengths[0])
    np.testing.assert_array_equal(again.predict(x), search.predict(x))


def test_scikit_learn_learns_each():
    x, y = relevant_first(30)
    kernel = as_sklearn_kernel(rbf([1.0, 1.0]))
    assert kernel.n_dims == 2
    ours = GaussianProcessRegressor(kernel, alpha=1e-3).fit(x, y)
    theirs = GaussianProcessRegressor(sk.RBF([1.0, 1.0], (1e-4, 1e4)), alpha=1e-3)
    assert ours.log_marginal_likelihood_value_ == pytest.approx(
        theirs.fit(x, y).log_marginal_likelihood_value_, abs=1e-3
    )
