"""Odd but legal input, and settings at their limits."""

import re
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process.kernels import RBF

from skconvgp import ConvNetGPClassifier, ConvNetGPRegressor, gram_matrix
from skconvgp.kernels import (
    Conv2d,
    Dense,
    Elementwise,
    Flatten,
    LeakyReLU,
    ReLU,
    Scale,
    Sequential,
    Sum,
    convnet,
    dense,
    dot_product,
    matern,
    rbf,
)
from skconvgp.likelihoods import Targets
from skconvgp.solvers import Cholesky, Solution
from tests.helpers.estimators import digits


def one(x):
    return torch.ones_like(x)


LINE = np.linspace(0.0, 3.0, 12)[:, None]


@pytest.mark.parametrize("where", [LINE, np.linspace(-1, 4, 60)[:, None], LINE[:1]])
@pytest.mark.parametrize("noise", [0.0, 1e-12])
def test_noise_free_models_draw_samples_through_the_data(where, noise):
    y = np.sin(LINE[:, 0])
    gp = ConvNetGPRegressor(rbf(1.0), noise_variance=noise).fit(LINE, y)
    draws = gp.sample_y(where, 5, random_state=0)
    mean, std = gp.predict(where, return_std=True)
    assert np.abs(draws - mean[:, None]).max() < 6.0 * std.max() + 1e-2


def test_prior_samples_of_a_network_that_overflows_are_refused():
    gp = ConvNetGPRegressor(dense(depth=300, weight_variance=1e4))
    with pytest.raises(ValueError, match="not finite"):
        gp.sample_y(LINE)


@pytest.mark.parametrize("n_samples", [0, -1, 1.5])
def test_numbers_of_samples_that_are_none_are_refused(n_samples):
    with pytest.raises(ValueError, match="`n_samples` must be an int >= 1"):
        ConvNetGPRegressor(rbf(1.0)).sample_y(LINE, n_samples)


@pytest.mark.parametrize("kernel", [dot_product(), dot_product(bias_variance=0.0)])
@pytest.mark.parametrize("size", [1e-6, 1e-3, 255.0, 1e6])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_samples_far_from_the_training_data_have_its_covariance(kernel, size, dtype):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    settings = {"solve_dtype": dtype, "noise_variance": 1e-2}
    gp = ConvNetGPRegressor(kernel, **settings).fit(X, X[:, 0])
    where = rng.normal(size=(5, 3)) * size
    draws = gp.sample_y(where, 4000, random_state=0)
    cov = gp.predict(where, return_cov=True)[1]
    assert draws.var(axis=1) == pytest.approx(np.diag(cov), rel=0.15)


@pytest.mark.parametrize("outlier", [1e5, 1e7])
def test_an_outlier_does_not_spoil_the_distances_of_the_others(outlier):
    X = np.random.default_rng(0).normal(size=(40, 3))
    X[0] = outlier
    np.testing.assert_allclose(gram_matrix(rbf(1.0), X), RBF()(X), atol=1e-14)


@pytest.mark.parametrize("kernel", [rbf(1.0), matern(1.0, nu=2.5)])
def test_distances_far_from_the_origin_keep_their_digits(kernel):
    X = np.random.default_rng(0).normal(size=(40, 3))
    near, far = gram_matrix(kernel, X), gram_matrix(kernel, X + 1e7)
    np.testing.assert_allclose(far, near, atol=1e-7)  # X + 1e7 itself is rounded


def test_the_model_keeps_its_own_copy_of_the_data():
    X, y = LINE.copy(), np.sin(LINE[:, 0])
    gp = ConvNetGPRegressor(rbf(1.0)).fit(X, y)
    expected = gp.predict(LINE)
    X[:] = 0.0
    np.testing.assert_array_equal(gp.predict(LINE), expected)


@pytest.mark.parametrize("wrap", [pd.DataFrame, torch.from_numpy])
def test_the_model_keeps_its_own_copy_of_what_wraps_an_array(wrap):
    X = LINE.copy()
    gp = ConvNetGPRegressor(rbf(1.0)).fit(wrap(X), np.sin(LINE[:, 0]))
    assert not np.may_share_memory(gp.X_train_, X)


def test_the_model_keeps_its_own_copy_of_the_weights():
    weights = np.ones(12)
    gp = ConvNetGPRegressor(rbf(1.0)).fit(LINE, LINE[:, 0], sample_weight=weights)
    expected = gp.loo_predict()
    weights[:] = 5.0
    np.testing.assert_array_equal(gp.loo_predict(), expected)


def test_a_constant_activation_is_a_constant_kernel():
    net = Sequential(Flatten(), Elementwise(one), Dense(weight_variance=3.0))
    np.testing.assert_allclose(gram_matrix(net, LINE), np.full((12, 12), 3.0))


@pytest.mark.parametrize("padding", [True, np.array([1, 1]), [1], -1, "full"])
def test_paddings_that_are_none_are_named(padding):
    with pytest.raises(ValueError, match="`padding` must be"):
        Conv2d(3, padding=padding).out_shape((8, 8))


@pytest.mark.filterwarnings("ignore:All targets are the same:UserWarning")
def test_constant_targets_in_float32_have_an_evidence():
    gp = ConvNetGPRegressor(rbf(1.0), solve_dtype="float32", noise_variance="evidence")
    gp.fit(LINE, np.ones(12))
    assert np.isfinite(gp.log_marginal_likelihood())
    assert gp.predict(LINE) == pytest.approx(np.ones(12))


def test_noise_is_not_chosen_below_the_precision_of_the_solve():
    X, y = digits(60)
    gp = ConvNetGPClassifier(
        convnet(1, 3), noise_variance="loo", solve_dtype="float32"
    ).fit(X, y)
    assert gp.noise_variance_ >= 9.9e-7
    gram = gram_matrix(convnet(1, 3), X).astype(np.float32)
    given = ConvNetGPClassifier("precomputed", noise_variance="loo").fit(gram, y)
    assert given.noise_variance_ >= 9.9e-7


def test_weights_so_small_that_noise_overflows_are_refused():
    weights = np.ones(12)
    weights[3] = 1e-320
    with pytest.raises(ValueError, match="set tiny weights to 0"):
        ConvNetGPRegressor(rbf(1.0)).fit(LINE, LINE[:, 0], sample_weight=weights)


@dataclass(repr=False)
class Unfinished(Cholesky):
    """A solver that says that it has not converged."""

    def solve(self, state, rhs):
        return Solution(super().solve(state, rhs).value, False, {"residual": 0.5})


def test_a_solver_that_did_not_converge_warns_with_its_residual():
    gp = ConvNetGPRegressor(rbf(1.0), solver=Unfinished())
    with pytest.warns(ConvergenceWarning, match=r"residual.*0\.5"):
        gp.fit(LINE, LINE[:, 0])


@dataclass(repr=False)
class Spread:
    """A likelihood that reads the variance."""

    needs_variance: bool = True

    def targets(self, codes, n_classes, weights):
        one_hot = torch.nn.functional.one_hot(codes, n_classes).double()
        return Targets(one_hot, torch.full((n_classes,), 1 / n_classes).double())

    def probabilities(self, mean, var):
        return torch.softmax(mean / (1.0 + var).sqrt(), dim=1)


def test_leave_one_out_with_variances_takes_weights_as_repetitions():
    X, y = digits(40)
    weights = np.random.default_rng(0).integers(1, 4, size=40)
    settings = {"kernel": convnet(1, 3), "noise_variance": 0.1, "likelihood": Spread()}
    weighted = ConvNetGPClassifier(**settings).fit(X, y, sample_weight=weights)
    repeated = ConvNetGPClassifier(**settings).fit(
        np.repeat(X, weights, axis=0), np.repeat(y, weights)
    )
    first = np.cumsum(weights) - weights
    np.testing.assert_allclose(
        weighted.loo_predict_proba(), repeated.loo_predict_proba()[first], atol=1e-8
    )


def test_numpy_integers_are_settings_of_a_convolution():
    one = np.int64(1)
    net = Sequential(
        Conv2d(np.int64(3), stride=one, padding=one, dilation=one), Flatten(), Dense()
    )
    X, _ = digits(3)
    same = Sequential(Conv2d(3, padding=1), Flatten(), Dense())
    np.testing.assert_array_equal(gram_matrix(net, X), gram_matrix(same, X))


def test_an_image_shape_is_ignored_by_kernels_that_know_no_images():
    X = np.random.default_rng(0).normal(size=(9, 3))
    gp = ConvNetGPRegressor(rbf(1.0), image_shape=(2, 2)).fit(X, X[:, 0])
    assert gp.image_shape_ == (3, 1, 1)


def test_the_same_layer_given_twice_has_variances_of_its_own():
    conv = Conv2d(3)
    net = Sequential(conv, ReLU(), conv, Flatten(), Dense())
    net.set_params(layer0__weight_variance=2.0)
    assert net.parts[2].weight_variance == 1.0
    kernel = rbf(1.0)
    assert len(np.unique((kernel + kernel).with_theta(np.array([0.0, 1.0])).theta)) == 2


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (Sum(rbf(1.0), 3), "must be made of kernels, got 3"),
        (Scale(3), "must be made of kernels, got 3"),
        (Sequential(Flatten(), Elementwise(3), Dense()), "`function` must be"),
        (Sequential(Flatten(), LeakyReLU(np.nan), Dense()), "`slope` must be a finite"),
        (Sequential(Flatten(), LeakyReLU("a"), Dense()), "`slope` must be a finite"),
        (convnet(weight_variance=[1.0, 2.0]), "`weight_variance`"),
    ],
)
def test_wrong_settings_are_named(kernel, message):
    with pytest.raises(ValueError, match=message):
        ConvNetGPRegressor(kernel, image_shape=None).fit(LINE, LINE[:, 0])


@pytest.mark.parametrize(
    "out",
    [
        np.zeros((12, 12))[::-1],
        [[0.0]],
        np.zeros((12, 12), dtype=int),
        np.zeros((12, 12), dtype=">f8"),
        "r",
    ],
)
def test_results_that_cannot_be_written_to_are_refused(out, tmp_path):
    if isinstance(out, str):
        np.save(tmp_path / "out.npy", np.zeros((12, 12)))
        out = np.load(tmp_path / "out.npy", mmap_mode="r")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match="`out` must be"):
            gram_matrix(rbf(1.0), LINE, out=out)


@pytest.mark.parametrize("shape", [(12, 11), (12, 12, 1), (144,)])
def test_shape_of_the_result_is_told(shape):
    told = rf"must have shape \(12, 12\), .*got shape {re.escape(repr(shape))}\.$"
    with pytest.raises(ValueError, match=told):
        gram_matrix(rbf(1.0), LINE, out=np.zeros(shape))


def test_a_budget_that_is_enough_to_fit_is_enough_to_predict():
    X = np.random.default_rng(0).random((6, 1, 28, 28))
    kernel = convnet(depth=1, kernel_size=3)
    for budget in range(450_000, 700_000, 25_000):
        gp = ConvNetGPRegressor(kernel, memory_budget=budget)
        try:
            gp.fit(X, X[:, 0, 0, 0])
        except MemoryError:
            continue
        assert gp.predict(X).shape == (6,)
