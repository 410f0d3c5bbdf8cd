"""Precision of saturated kernels: float64 where float32 is found to be wrong."""

import numpy as np
import pytest
import torch
from sklearn.base import clone

from skconvgp import (
    ConvNetGPRegressor,
    NystromCompletedGPRegressor,
    gram_diag,
    gram_matrix,
)
from skconvgp.estimators.compute import _steep
from skconvgp.kernels import (
    Abs,
    Conv2d,
    Dense,
    Erf,
    Flatten,
    GlobalAvgPool2d,
    LeakyReLU,
    ReLU,
    Sequential,
    Tanh,
    convnet,
    convnet_gap,
)
from tests.helpers.estimators import digits
from tests.helpers.fused import needs_extension

pytestmark = needs_extension
X, LABELS = digits(6)
NEAR = 1e-6 * np.random.default_rng(0).normal(size=X.shape)
BOTH = np.concatenate([X, X + NEAR])
ALLOWED = 3e-5


def network(layer, weight_variance):
    conv = Conv2d(3, weight_variance=weight_variance)
    return Sequential(conv, layer, conv, layer, Flatten(), Dense())


def error(kernel, **settings):
    exact = gram_matrix(kernel, BOTH, dtype="float64", backend="torch")
    found = gram_matrix(kernel, BOTH, **settings)
    scale = np.sqrt(np.diag(exact))
    return (np.abs(found - exact) / np.outer(scale, scale)).max()


@pytest.mark.parametrize("weight", [1e-4, 1e-2, 1.0, 1e2, 1e4, 1e6])
@pytest.mark.parametrize("layer", [Erf(), ReLU(), LeakyReLU(), Abs()], ids=repr)
def test_errors_up_to_the_bounds_of_learning(layer, weight):
    assert error(network(layer, weight)) < ALLOWED


def test_single_precision_would_not_do():
    assert error(network(Erf(), 1e4), dtype="float32") > ALLOWED


@pytest.mark.parametrize(
    ("layer", "weight", "dtype"),
    [(Erf(), 1.0, "float32"), (ReLU(), 1e4, "float32"), (Erf(), 1e4, "float64")],
)
def test_the_report_says_why_it_is_not_single(layer, weight, dtype):
    for gp in (
        ConvNetGPRegressor(network(layer, weight), noise_variance=1e-2),
        NystromCompletedGPRegressor(
            network(layer, weight), n_landmarks=4, noise_variance=1e-2
        ),
    ):
        gp.fit(X, LABELS.astype(float))
        assert gp.dtype_ == dtype
        reason = gp.fit_report_.dtype_reason
        assert reason == "" or "close to each other" in reason
        assert bool(reason) == (dtype == "float64")
        assert ("not float32" in str(gp.fit_report_)) == bool(reason)
        assert gp.set_params(dtype="float32").fit(X, LABELS * 1.0).dtype_ == "float32"


@pytest.mark.parametrize(
    ("layer", "side", "n_tried"),
    [(Tanh(), 16, 4), (Tanh(), 17, 1), (ReLU(), 17, 4), (ReLU(), 48, 4)],
    ids=repr,
)
def test_one_sample_is_tried_where_torch_takes_long(layer, side, n_tried, monkeypatch):
    tried = []

    def count(_, few):
        tried.append(len(few))
        return (torch.zeros(len(few)),) * 3

    monkeypatch.setattr(_steep, "_errors", count)
    network = Sequential(Conv2d(3), layer, GlobalAvgPool2d(), Dense())
    images = torch.arange(8.0)[:, None, None, None].expand(8, 1, side, side)
    assert _steep.why_double(network, images) == ""
    assert sum(tried) == n_tried


SHALLOW = convnet(depth=2, kernel_size=3)
AVERAGED = convnet(depth=4, kernel_size=3, pooling="local")


@pytest.mark.parametrize("kernel", [SHALLOW, AVERAGED, convnet_gap(2)], ids=repr)
@pytest.mark.parametrize("scale", [1.0, 1e-4])
def test_samples_that_differ_by_little_need_double_precision(kernel, scale):
    for images in (X * scale, X + 0.1 / scale):
        exact = gram_matrix(kernel, images, dtype="float64", backend="torch")
        found = gram_matrix(kernel, images)
        variances = np.diag(exact)
        distances = variances[:, None] + variances - 2.0 * exact
        share = np.abs(found - exact).max() / np.median(distances[distances > 0.0])
        assert share < 1e-3


def test_small_numbers_are_as_good_as_others():
    gp = ConvNetGPRegressor(SHALLOW, noise_variance=1e-6)
    images, labels = digits(60)
    expected = gp.fit(images[:50], labels[:50] * 1.0).fit_report_
    assert (gp.dtype_, expected.dtype_reason) == ("float32", "")
    reason = gp.fit(1e-4 * images[:50], labels[:50] * 1.0).fit_report_.dtype_reason
    assert "of what covariances of samples differ by" in reason
    exact = clone(gp).set_params(dtype="float64").fit(1e-4 * images[:50], labels[:50])
    np.testing.assert_allclose(
        gp.predict(1e-4 * images), exact.predict(1e-4 * images), rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("n_copies", [1, 4, 20])
def test_samples_may_be_stacked(n_copies):
    images = torch.from_numpy(1e-4 * digits(20)[0])
    stacked = images.repeat(n_copies, 1, 1, 1)
    for given in (stacked, stacked.repeat_interleave(3, 0), stacked.flip(0)):
        assert "samples differ by" in _steep.why_double(SHALLOW, given)
        assert _steep.why_double(SHALLOW, 1e4 * given) == ""


def test_rows_of_a_matrix_have_the_precision_of_all():
    images = 1e-4 * digits(30)[0]
    whole = gram_matrix(SHALLOW, images)
    assert whole.dtype == np.float64
    one = gram_matrix(SHALLOW, images[3:4], images)
    np.testing.assert_array_equal(one, whole[3:4])
    across = gram_matrix(SHALLOW, images, images[3:4])
    np.testing.assert_array_equal(across, whole[:, 3:4])
    np.testing.assert_array_equal(gram_diag(SHALLOW, images), whole.diagonal())
    assert gram_diag(SHALLOW, 1e4 * images).dtype == np.float32


def test_nothing_is_tried_where_double_precision_is_usual(monkeypatch):
    def refuse(*_):
        raise AssertionError("torch computes in double precision on a processor")

    monkeypatch.setattr("skconvgp.estimators.functions._gram.why_double", refuse)
    images = digits(4)[0]
    for function in (gram_matrix, gram_diag):
        assert function(SHALLOW, images, backend="torch").dtype == np.float64


@pytest.mark.parametrize("n_samples", [1, 2, 3, 9])
def test_equal_samples_are_no_reason(n_samples):
    images = torch.ones(n_samples, 1, 4, 4, dtype=torch.float64)
    assert _steep.why_double(SHALLOW, images) == ""


def test_compiled_code_tries_itself(monkeypatch):
    def refuse(*_):
        raise AssertionError("torch takes minutes for what compiled code does at once")

    monkeypatch.setattr(Sequential, "cross", refuse)
    network = Sequential(Conv2d(3), ReLU(), GlobalAvgPool2d(), Dense())
    gram = gram_matrix(network, torch.ones(2, 1, 8, 8))
    assert gram.shape == (2, 2)
