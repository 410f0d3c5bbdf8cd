"""Averages over orbits, against the double sum over all pairs of versions."""

import pickle
import re

import numpy as np
import pytest
import torch
from sklearn.base import clone

from skconvgp import (
    ConvNetGPClassifier,
    ConvNetGPRegressor,
    KernelFlowsRegressor,
    NystromCompletedGPRegressor,
    gram_gradient,
    gram_matrix,
    gram_vjp,
)
from skconvgp.augmentation import Flip, Shift
from skconvgp.flows import Adam
from skconvgp.kernels import (
    AvgPool2d,
    Conv2d,
    Dense,
    Flatten,
    FlipAverage,
    MaxNormalization,
    OrbitAverage,
    PatchKernel,
    ReLU,
    Sequential,
    convnet,
    convnet_gap,
    matern,
    rbf,
    residual_convnet,
    three_layer_convnet,
)
from tests.helpers.kernels import assert_close, cross, deviations, diag, random_images
from tests.kernels.test_flips import KERNELS as FLIPPED

SHAPE = (2, 5, 5)
SWAP = [1, 0, *range(2, 25)]  # of the first two pixels
ROLL = np.roll(np.arange(50), 5)  # of all values of both channels


def turned(images):
    return torch.rot90(images, 1, (2, 3))


def moved(images, rows=slice(None), cols=slice(None)):
    return images[:, :, rows][..., cols]


LEFT, RIGHT = [1, 2, 3, 4, 4], [0, 0, 1, 2, 3]
TURNS = [lambda x: x, turned, lambda x: x.flip(2, 3), lambda x: turned(x).flip(2, 3)]
VERSIONS = [
    ("flips", [lambda x: x, lambda x: x.flip(3)]),
    ("quarter_turns", TURNS),
    (
        "symmetries",
        [
            lambda x: x,
            lambda x: x.flip(2),
            lambda x: x.flip(3),
            lambda x: x.flip(2, 3),
            lambda x: x.mT,
            lambda x: x.mT.flip(2),
            lambda x: x.mT.flip(3),
            lambda x: x.mT.flip(2, 3),
        ],
    ),
    (
        Shift(1),
        [
            lambda x: x,
            lambda x: moved(x, cols=LEFT),
            lambda x: moved(x, cols=RIGHT),
            lambda x: moved(x, rows=LEFT),
            lambda x: moved(x, rows=RIGHT),
        ],
    ),
    ([turned], TURNS[:2]),
    (
        [SWAP, ROLL, torch.abs],
        [
            lambda x: x,
            lambda x: x.flatten(2)[..., SWAP].reshape(x.shape),
            lambda x: torch.roll(x.flatten(1), 5, 1).reshape(x.shape),
            lambda x: x.abs(),
        ],
    ),
]
KERNELS = [
    convnet(depth=2, kernel_size=3),
    residual_convnet(depth=2),  # even windows
    rbf(3.0) + 0.5 * matern(np.linspace(1.0, 3.0, 50)),
    MaxNormalization(convnet_gap(depth=1, kernel_size=3)) * rbf(4.0),
    PatchKernel(rbf(2.0), patch_size=2, normalization=None, location_lengthscale=1.0),
]
each_maps = pytest.mark.parametrize(
    ("maps", "versions"), VERSIONS, ids=[str(i) for i in range(len(VERSIONS))]
)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@each_maps
def test_value_is_the_mean_over_all_pairs_of_versions(kernel, maps, versions):
    one, two = random_images(3, *SHAPE), random_images(4, *SHAPE, seed=1)
    all_pairs = [
        cross(kernel, first(one), second(two))
        for first in versions
        for second in versions
    ]
    average = OrbitAverage(kernel, maps)
    expected = sum(all_pairs) / len(versions) ** 2
    assert_close(cross(average, one, two), expected, rtol=1e-12, scale=all_pairs[0])
    gram = cross(average, one)
    assert_close(diag(average, one), gram.diagonal(), rtol=1e-12)
    if isinstance(maps, str):
        for version in versions:
            again = cross(average, version(one), two)
            assert_close(again, expected, rtol=1e-12, scale=all_pairs[0])


@pytest.mark.parametrize("size", [6, 7])
@pytest.mark.parametrize(
    "kernel",
    [
        *FLIPPED,
        *KERNELS,
        Sequential(Conv2d((1, 3)), ReLU(), Flatten(), Dense()),
        Sequential(Conv2d(3), ReLU(), AvgPool2d((1, 3)), Flatten(), Dense()),
        PatchKernel(rbf(2.0), patch_size=(3, 1), normalization=None),
        PatchKernel(rbf(2.0), patch_size=3, normalization=None, weights=(1.0,) * 16),
        OrbitAverage(residual_convnet(depth=2), "symmetries"),
        OrbitAverage(convnet(depth=1, kernel_size=3), "quarter_turns"),
        OrbitAverage(residual_convnet(depth=2), "quarter_turns"),
        OrbitAverage(rbf(2.0), "flips"),
    ],
    ids=repr,
)
def test_one_sum_is_taken_only_if_no_map_changes_the_kernel(kernel, size):
    shape = (2, size, size)
    images = random_images(4, *shape)
    for maps, generators in (
        ("flips", [lambda x: x.flip(3)]),
        ("symmetries", [turned, lambda x: x.flip(3)]),
    ):
        try:
            kernel.check(shape)
            gram = cross(kernel, images)
        except ValueError:  # does not fit
            return
        scale = deviations(gram)
        errors = [
            (cross(kernel, one(images)) - gram).abs() / scale for one in generators
        ]
        is_invariant = max(float(error.max()) for error in errors) < 1e-12
        is_one_sum = OrbitAverage(kernel, maps).is_one_sum(shape)
        assert is_invariant or not is_one_sum
        if "Patch" not in repr(kernel) and "Average" not in repr(kernel):
            assert is_one_sum == is_invariant


@pytest.mark.parametrize(
    ("kernel", "maps", "n_terms"),
    [
        (convnet(), "flips", 2),
        (convnet(), "quarter_turns", 4),
        (convnet(), "symmetries", 8),
        (residual_convnet(), "symmetries", 64),
        (convnet(), Shift(1), 25),
        (convnet(), [turned, torch.abs], 9),
    ],
)
def test_number_of_evaluations(kernel, maps, n_terms):
    shape, average = (1, 9, 9), OrbitAverage(kernel, maps)
    assert average.n_terms(shape) == n_terms
    assert average.n_position_pairs(shape) == n_terms * 81


def test_flips_are_those_of_flip_average():
    images = random_images(5, *SHAPE)
    for kernel in (KERNELS[0], PatchKernel(patch_size=3, location_lengthscale=None)):
        one, two = OrbitAverage(kernel, "flips"), FlipAverage(kernel)
        one, two = one.resolve(images), two.resolve(images)
        assert one.kernel == two.kernel
        assert torch.equal(cross(one, images), cross(two, images))
        assert torch.equal(diag(one, images), diag(two, images))


def test_settings_and_hyperparameters():
    kernel = OrbitAverage(rbf(2.0), [SWAP, ROLL])
    for twin in (
        clone(kernel),
        pickle.loads(pickle.dumps(kernel)),
        OrbitAverage(rbf(2.0), (np.array(SWAP), ROLL.tolist())),
    ):
        assert twin == kernel
    assert kernel != OrbitAverage(rbf(2.0), [SWAP])
    assert kernel != OrbitAverage(rbf(2.0))
    assert OrbitAverage(rbf(2.0), Shift(1)) == OrbitAverage(rbf(2.0), Shift(1))
    assert repr(OrbitAverage(rbf(2.0), "flips")) == (
        "OrbitAverage(kernel=rbf(lengthscale=2.0), maps='flips')"
    )
    free = (3.0 * kernel).hyperparameters
    assert [one.label for one in free] == ["kernel__kernel__lengthscale", "factor"]
    images = random_images(5, *SHAPE)
    resolved = OrbitAverage(rbf()).resolve(images)
    assert resolved == OrbitAverage(rbf().resolve(images))
    assert resolved.resolve(images) is resolved


@each_maps
def test_derivatives_agree_with_finite_differences(maps, versions):
    inner = convnet(depth=1, kernel_size=3, weight_variance=0.7, bias_variance=0.2)
    even = residual_convnet(depth=2, weight_variance=0.1, bias_variance=0.2)
    kernel, step = OrbitAverage(inner + even, maps), 1e-5
    X = np.array(random_images(3, *SHAPE).tolist())
    theta, weights = kernel.theta, np.arange(9.0).reshape(3, 3)
    _, slopes = gram_gradient(kernel, X, dtype="float64")
    for j, shift in enumerate(step * np.eye(len(theta))):
        up, down = (
            gram_matrix(kernel.with_theta(theta + s), X, dtype="float64")
            for s in (shift, -shift)
        )
        np.testing.assert_allclose(slopes[..., j], (up - down) / (2 * step), rtol=1e-7)
    by_theta, by_X = gram_vjp(kernel, X, X, weights, dtype="float64")
    expected = np.einsum("ij,ijp->p", weights, slopes)
    np.testing.assert_allclose(by_theta, expected, rtol=1e-9)
    for index in ((0, 0, 1, 2), (2, 1, 4, 4)):
        shift = np.zeros_like(X)
        shift[index] = step
        up, down = (
            (weights * gram_matrix(kernel, X + s, X, dtype="float64")).sum()
            for s in (shift, -shift)
        )
        slope = (up - down) / (2 * step)
        assert by_X.reshape(X.shape)[index] == pytest.approx(slope, rel=1e-5, abs=1e-4)


def test_estimators_predict_the_same_for_all_of_an_orbit():
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(20, 1, 5, 5)), rng.normal(size=(4, 1, 5, 5))
    y, network = np.abs(X).mean((1, 2, 3)), convnet(depth=1, kernel_size=3)
    noise = {"noise_variance": 0.01}
    for gp in (
        ConvNetGPRegressor(OrbitAverage(rbf()), optimizer="evidence", **noise),
        ConvNetGPRegressor(OrbitAverage(network), **noise),
        NystromCompletedGPRegressor(OrbitAverage(network), n_landmarks=9),
        KernelFlowsRegressor(OrbitAverage(rbf()), optimizer=Adam(3), random_state=0),
    ):
        fitted = gp.fit(X, y)
        mean = fitted.predict(new)
        for version in (np.rot90(new, axes=(2, 3)), new[..., ::-1]):
            np.testing.assert_allclose(fitted.predict(version), mean, rtol=1e-4)
    labels = ConvNetGPClassifier(OrbitAverage(network, Shift(1))).fit(X, y > 0.8)
    assert pickle.loads(pickle.dumps(labels)).predict(new).shape == (4,)


@pytest.mark.parametrize(
    ("maps", "shape", "words"),
    [
        ("mirror", (1, 4, 4), "one of 'flips', 'quarter_turns', 'symmetries', got"),
        (None, (1, 4, 4), "list of at most 1000 functions or permutations"),
        ([], (1, 4, 4), "got []"),
        (np.arange(16), (1, 4, 4), "`Shift(1)` of skconvgp.augmentation"),
        ("symmetries", (1, 4, 6), "shape (1, 4, 6) (c, h, w) are not square"),
        ("quarter_turns", (3, 4, 6), "take maps='flips'"),
        ("quarter_turns", (9, 1, 1), "single column, as vectors have"),
        ("flips", (9, 1, 1), "set `image_shape`"),
        (Shift(4), (1, 4, 4), "nothing of images"),
        (Flip(), (1, 4, 1), "have a single column"),
        (
            [np.arange(15)],
            (1, 4, 4),
            "map 0 of `maps` must be a function of images, or",
        ),
        ([[0] * 16], (1, 4, 4), "each of the numbers from 0 to 15 once"),
        ([torch.abs, "flip"], (1, 4, 4), "map 1 of `maps`"),
        ([lambda x: x[..., 1:]], (1, 4, 4), "made a tensor of shape (2, 1, 4, 3)"),
        ([lambda x: x.float()], (1, 4, 4), "and torch.float32 of one"),
        ([lambda x: x.numpy()], (1, 4, 4), "made a ndarray of one"),
        ([lambda x: x - x.mean(0)], (1, 4, 4), "map each image by itself"),
    ],
)
def test_wrong_maps_are_named(maps, shape, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        OrbitAverage(rbf(1.0), maps).check(shape)


def test_wrong_kernels_are_named():
    with pytest.raises(ValueError, match="must be made of kernels, got None"):
        OrbitAverage(None).check((1, 4, 4))
    with pytest.raises(ValueError, match="end the network"):
        OrbitAverage(Conv2d(3)).check((1, 4, 4))
    network = Sequential(OrbitAverage(Conv2d(3)), Flatten(), Dense())
    with pytest.raises(ValueError, match="layer0 of a Sequential must be a layer"):
        network.check((1, 4, 4))
    whether = r"whether flips change.*OrbitAverage.*not known"
    with pytest.raises(ValueError, match=whether):
        FlipAverage(OrbitAverage(three_layer_convnet(), [turned])).check((1, 4, 4))
