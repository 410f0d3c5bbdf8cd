"""Hyperparameters: theta, bounds, names, copies."""

import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from skconvgp.kernels import (
    Conv2d,
    Dense,
    Elementwise,
    Flatten,
    LeakyReLU,
    ReLU,
    Residual,
    Scale,
    Sequential,
    Sum,
    arcsine,
    convnet,
    dense,
    dot_product,
    matern,
    polynomial,
    rbf,
    residual_convnet,
    resnet32,
)
from tests.helpers.kernels import QUICK, cross, name, random_images

NESTED = Sequential(
    Conv2d(3, weight_variance=2.0, bias_variance=0.5),
    LeakyReLU(slope=0.2),
    Sum(Scale(Conv2d(1), factor=3.0), Residual(ReLU(), Conv2d(2, bias_variance=0.1))),
    Flatten(),
    Dense(weight_variance=1.5, weight_variance_bounds="fixed"),
)
NESTED_FREE = {
    "layer0__weight_variance": 2.0,
    "layer0__bias_variance": 0.5,
    "layer2__term0__factor": 3.0,
    "layer2__term0__kernel__weight_variance": 1.0,
    "layer2__term1__layer1__weight_variance": 1.0,
    "layer2__term1__layer1__bias_variance": 0.1,
}
KERNELS = [
    NESTED,
    convnet(depth=2),
    convnet(depth=2).unshared(),
    residual_convnet(depth=2),
    resnet32(bias_variance=0.1),
    dense(),
    rbf(lengthscale=2.0),
    matern(1.0, nu=2.5),
    dot_product(),
    polynomial(degree=3),
    arcsine(),
    2.0 * rbf(1.0) + convnet(depth=1) * dot_product(bias_variance=0.3),
]


def test_free_hyperparameters_by_name_and_value():
    free = {item.name: item.value for item in NESTED.hyperparameters if item.is_free}
    assert free == NESTED_FREE
    np.testing.assert_array_equal(
        np.sort(NESTED.theta), np.sort(np.log(list(free.values())))
    )


def test_names_are_those_of_settings():
    params = NESTED.get_params()
    for item in NESTED.hyperparameters:
        assert params[item.name] == item.value
        assert item.label == item.name


def test_fixed_hyperparameters_are_listed_but_not_free():
    held = {item.name for item in NESTED.hyperparameters if not item.is_free}
    assert "layer4__weight_variance" in held
    assert "layer4__bias_variance" in held


def test_zero_variance_is_absent_and_stays_so():
    kernel = dense(bias_variance=0.0)
    assert len(kernel.theta) == 1
    assert kernel.with_theta([0.5]).bias_variance == 0.0


def test_zero_variance_of_one_layer_stays_so():
    kernel = dense(depth=1).unshared().replace(bias_variance=(0.0, 0.3))
    moved = kernel.with_theta(kernel.theta + 1.0)
    assert moved.bias_variance == (0.0, pytest.approx(0.3 * np.e))
    assert moved.weight_variance == pytest.approx((2.0 * np.e,) * 2)


def test_default_bounds():
    np.testing.assert_array_equal(rbf(1.0).bounds, np.log([[1e-4, 1e4]]))
    assert rbf(1.0, lengthscale_bounds="fixed").bounds.shape == (0, 2)
    assert rbf(1.0, lengthscale_bounds="fixed").theta.shape == (0,)


def test_bounds_follow_theta():
    kernel = convnet(depth=1, weight_variance_bounds=(0.1, 3.0)) + rbf(
        1.0, lengthscale_bounds=[2, 5]
    )
    expected = np.log([[0.1, 3.0], [1e-4, 1e4], [2.0, 5.0]])
    np.testing.assert_array_equal(kernel.bounds, expected)
    own = kernel.replace(term0=kernel.parts[0].unshared())
    np.testing.assert_array_equal(own.bounds, expected[[0, 0, 1, 1, 2]])


@pytest.mark.parametrize("kernel", KERNELS, ids=name)
def test_theta_and_bounds_have_matching_shapes(kernel):
    (n_free,) = kernel.theta.shape
    assert kernel.bounds.shape == (n_free, 2)
    assert kernel.theta.dtype == kernel.bounds.dtype == np.float64
    assert n_free == sum(item.is_free for item in kernel.hyperparameters)


@pytest.mark.parametrize("kernel", KERNELS, ids=name)
@given(data=st.data())
@QUICK
def test_theta_round_trip(kernel, data):
    theta = np.array([data.draw(st.floats(-9.0, 9.0)) for _ in kernel.theta])
    before = copy.deepcopy(kernel)
    moved = kernel.with_theta(theta)
    np.testing.assert_allclose(moved.theta, theta, rtol=1e-13, atol=1e-13)
    assert kernel == before
    assert moved.with_theta(kernel.theta).theta == pytest.approx(kernel.theta)
    as_tensor = kernel.with_theta(torch.as_tensor(theta))
    np.testing.assert_allclose(as_tensor.theta, theta, rtol=1e-13, atol=1e-13)


def test_theta_moves_the_covariance():
    images = random_images(2, 1, 3, 3)
    kernel = convnet(depth=1, kernel_size=2)
    moved = kernel.with_theta(np.log([0.5, 0.25]))
    by_hand = convnet(depth=1, kernel_size=2, weight_variance=0.5, bias_variance=0.25)
    torch.testing.assert_close(
        cross(moved, images), cross(by_hand, images), rtol=1e-13, atol=0.0
    )


def test_wrong_length_of_theta_is_refused():
    message = r"`theta` must have 2 values, one for each free hyperparameter.*got 3"
    with pytest.raises(ValueError, match=message):
        convnet().with_theta(np.zeros(3))


@pytest.mark.parametrize(
    "bounds",
    [
        (2.0, 1.0),
        (0.0, 1.0),
        (-1.0, 1.0),
        (1.0, np.inf),
        (1.0, np.nan),
        (1.0,),
        "free",
        None,
        3.0,
    ],
)
def test_wrong_bounds_are_refused(bounds):
    kernel = rbf(1.0, lengthscale_bounds=bounds)
    message = r"must be 'fixed' or a pair \(low, high\) with 0 < low <= high, got"
    with pytest.raises(ValueError, match=message):
        _ = kernel.bounds


def test_replace_leaves_the_original_alone():
    changed = NESTED.replace(layer0__weight_variance=7.0, layer1__slope=0.3)
    assert changed.layers[0].weight_variance == 7.0
    assert changed.layers[1] == LeakyReLU(slope=0.3)
    assert NESTED.layers[0].weight_variance == 2.0
    assert changed.layers[4] is not NESTED.layers[4]
    assert changed.layers[4] == NESTED.layers[4]


def test_replacing_a_part_and_its_setting_at_once():
    changed = NESTED.replace(layer0__weight_variance=7.0, layer0=Conv2d(5))
    assert changed.layers[0] == Conv2d(5, weight_variance=7.0)
    assert len(changed.layers) == len(NESTED.layers)


@pytest.mark.parametrize("kernel", KERNELS, ids=name)
def test_copies_are_equal_and_independent(kernel):
    images = random_images(2, 1, 3, 3)
    gram = cross(kernel, images)
    for twin in (clone(kernel), copy.deepcopy(kernel), kernel.replace()):
        assert twin == kernel
        assert twin is not kernel
        assert repr(twin) == repr(kernel)
        first = next(item for item in twin.hyperparameters if item.is_free)
        value = first.value * 2
        params = twin.get_params()[first.name]
        value = (value, *params[1:]) if first.index is not None else value
        twin.set_params(**{first.name: value})
        assert twin != kernel
    assert torch.equal(cross(kernel, images), gram)


@pytest.mark.parametrize("kernel", KERNELS, ids=name)
def test_pickling(kernel):
    images = random_images(2, 1, 3, 3)
    twin = pickle.loads(pickle.dumps(kernel))
    assert twin == kernel
    assert torch.equal(cross(twin, images), cross(kernel, images))


def test_functions_of_modules_can_be_pickled():
    kernel = Sequential(Flatten(), Dense(), Elementwise(torch.tanh), Dense())
    assert pickle.loads(pickle.dumps(kernel)) == kernel


def test_numbers_of_numpy_are_numbers():
    kernel = convnet(
        depth=np.int64(1),
        kernel_size=np.int64(2),
        weight_variance=np.float32(0.5),
        bias_variance=np.int64(1),
    )
    plain = convnet(depth=1, kernel_size=2, weight_variance=0.5, bias_variance=1.0)
    images = random_images(2, 1, 3, 3)
    assert torch.equal(cross(kernel, images), cross(plain, images))
    np.testing.assert_array_equal(kernel.theta, plain.theta)
