"""gram_gradient and gram_vjp, against autograd of the whole and differences."""

import numpy as np
import pytest
import torch

from skconvgp import gram_gradient, gram_matrix, gram_vjp
from skconvgp.exceptions import ImageShapeWarning, TileMemoryError
from skconvgp.kernels import (
    GELU,
    Abs,
    Conv2d,
    Dense,
    Erf,
    Flatten,
    LeakyReLU,
    MaxNormalization,
    ReLU,
    Residual,
    Sequential,
    Sin,
    convnet,
    dense,
    dot_product,
    matern,
    rbf,
    residual_convnet,
    resnet32,
)
from tests.helpers.estimators import digits, tiny_network
from tests.helpers.kernels import name
from tests.helpers.tiles import small_pullback, small_tiles

N, N_OTHERS = 11, 8
BLOCK, TILE = 4, 3  # blocks of 4, 4, 3 images; tiles of 3, 1
SMALL = {"weight_variance": 0.7, "bias_variance": 0.3}
KERNELS = [
    convnet(depth=2, kernel_size=3, **SMALL),
    convnet(depth=2, kernel_size=3, **SMALL).unshared(),
    residual_convnet(depth=2, kernel_size=2, **SMALL),
    resnet32(bias_variance=0.2),
    Sequential(
        Conv2d(2, bias_variance=0.1),
        Erf(),
        Residual(Conv2d(3, dilation=2), GELU(), Conv2d(1)),
        Sin(),
        Flatten(),
        Dense(bias_variance=0.3),
    ),
    Sequential(Conv2d(3, stride=2), LeakyReLU(0.2), Conv2d(3), Abs(), Flatten()),
    dense(depth=3),
    rbf(lengthscale=6.0),
    matern(lengthscale=6.0, nu=2.5),
    matern(lengthscale=6.0, nu=0.5),
    2.0 * convnet(depth=1, kernel_size=2, **SMALL) + rbf(5.0) * dot_product(),
    MaxNormalization(convnet(depth=2, kernel_size=3, **SMALL)),
]
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=name)
both_shapes = pytest.mark.parametrize("is_symmetric", [True, False])


def samples(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 2, 8, 8))


def sides(is_symmetric):
    return samples(N), None if is_symmetric else samples(N_OTHERS, seed=1)


def weights_for(X, Y, seed=2):
    shape = (len(X), len(X if Y is None else Y))
    return np.random.default_rng(seed).normal(size=shape)


def dense_gram(kernel, images, others):
    """Return the covariances by the formulas in one piece, with exact variances."""
    one = kernel.prepare(images)
    if others is not None:
        return kernel.cross(one, kernel.prepare(others))
    off = 1.0 - torch.eye(len(images), dtype=images.dtype)
    return kernel.cross(one, one) * off + torch.diag(kernel.diag(one))


def autograd(kernel, X, Y, G):
    """Return derivatives of <G, K> by theta and X, by autograd of the whole."""
    theta = torch.tensor(kernel.theta, requires_grad=True)
    images = torch.tensor(X, requires_grad=True)
    others = None if Y is None else torch.tensor(Y)
    gram = dense_gram(kernel.with_theta(theta), images, others)
    total = (torch.tensor(G) * gram).sum()
    found = torch.autograd.grad(total, [theta, images], materialize_grads=True)
    return tuple(part.numpy() for part in found)


def assert_near(got, expected, rtol=1e-10):
    scale = np.abs(expected).max(initial=0.0)
    np.testing.assert_allclose(got, expected, rtol=0.0, atol=rtol * scale)


@every_kernel
@pytest.mark.parametrize(
    "is_symmetric", [True, pytest.param(False, marks=pytest.mark.slow)]
)
def test_gradient_is_that_of_autograd(kernel, is_symmetric):
    X, Y = sides(is_symmetric)
    # With torch, which holds eight copies of two maps for each pair; else the blocks.
    pair_bytes = 8 * 2 * 8 * kernel.n_positions((2, 8, 8))
    with small_tiles(BLOCK, TILE, pair_bytes):
        gram, gradient = gram_gradient(kernel, X, Y)
    assert gradient.shape == (*gram.shape, len(kernel.theta))
    for seed in (2, 3, 4):
        G = weights_for(X, Y, seed)
        got = np.einsum("ij,ijp->p", G, gradient)
        assert_near(got, autograd(kernel, X, Y, G)[0])
    assert_near(gram, gram_matrix(kernel, X, Y, dtype="float64"), rtol=1e-12)
    if is_symmetric:
        np.testing.assert_array_equal(gram, gram.T)
        np.testing.assert_array_equal(gradient, gradient.swapaxes(0, 1))


@every_kernel
@both_shapes
def test_contraction_is_that_of_autograd(kernel, is_symmetric):
    X, Y = sides(is_symmetric)
    G = weights_for(X, Y)
    with small_pullback(BLOCK, TILE):
        by_theta, by_X = gram_vjp(kernel, X, Y, G)
        alone, nothing = gram_vjp(kernel, X, Y, G, inputs=False)
    expected_theta, expected_X = autograd(kernel, X, Y, G)
    assert by_X.shape == X.shape
    assert by_theta.dtype == by_X.dtype == np.float64
    assert_near(by_theta, expected_theta)
    assert_near(by_X, expected_X)
    assert_near(alone, expected_theta)
    assert nothing is None


# Sixteen blocks are differentiated as two are.
DEEP = pytest.param(KERNELS[3], marks=pytest.mark.slow)


@pytest.mark.parametrize("kernel", [*KERNELS[:3], DEEP, *KERNELS[4:]], ids=name)
@both_shapes
def test_contraction_is_that_of_differences(kernel, is_symmetric):
    X, Y = sides(is_symmetric)
    G = weights_for(X, Y)

    def total(theta, X):
        kernel_there = kernel.with_theta(theta)
        return (G * gram_matrix(kernel_there, X, Y, dtype="float64")).sum()

    def difference(along_theta, along_X, step=1e-5):
        ahead = total(kernel.theta + step * along_theta, X + step * along_X)
        behind = total(kernel.theta - step * along_theta, X - step * along_X)
        return (ahead - behind) / (2.0 * step)

    by_theta, by_X = gram_vjp(kernel, X, Y, G)
    rng = np.random.default_rng(3)
    direction = rng.normal(size=len(by_theta)), rng.normal(size=X.shape)
    size = np.abs(gram_matrix(kernel, X, Y, dtype="float64")).max() * len(X)
    for along_theta, along_X in (
        (direction[0], np.zeros_like(X)),
        (np.zeros_like(by_theta), direction[1]),
    ):
        expected = difference(along_theta, along_X)
        got = by_theta @ along_theta + (by_X * along_X).sum()
        assert got == pytest.approx(expected, rel=1e-5, abs=1e-7 * size)


@both_shapes
@pytest.mark.parametrize("backend", ["auto", "torch"])
def test_contraction_is_the_gradient_contracted(is_symmetric, backend):
    X, Y = sides(is_symmetric)
    G = weights_for(X, Y)
    kernel = convnet(depth=3, kernel_size=3).unshared()
    gradient = gram_gradient(kernel, X, Y, backend=backend)[1]
    expected = np.einsum("ij,ijp->p", G, gradient)
    for inputs in (True, False):
        by_theta = gram_vjp(kernel, X, Y, G, inputs=inputs, backend=backend)[0]
        assert_near(by_theta, expected)


def test_weights_need_not_be_symmetric():
    X, kernel = samples(5), KERNELS[0]
    G = weights_for(X, None)
    for got, expected in zip(
        gram_vjp(kernel, X, None, G), gram_vjp(kernel, X, None, G.T), strict=True
    ):
        assert_near(got, expected)


@every_kernel
def test_equal_and_nearly_equal_images(kernel):
    X = samples(6)
    X[1] = X[0]
    X[3] = X[2] * (1.0 + 1e-9)
    X[4], X[5] = -X[2], X[2] + 1e-13
    G = weights_for(X, None)
    for Y in (None, X[:3]):
        G = weights_for(X, Y)
        by_theta, by_X = gram_vjp(kernel, X, Y, G)
        assert np.isfinite(by_theta).all()
        assert np.isfinite(by_X).all()
        # Reverse and forward mode differ where a distance is all rounding.
        gradient = gram_gradient(kernel, X, Y)[1]
        assert np.isfinite(gradient).all()
        assert_near(by_theta, np.einsum("ij,ijp->p", G, gradient), rtol=1e-6)


def test_copies_of_an_image_move_as_one():
    # Moving both copies is moving the image of which the matrix has two rows.
    kernel, X = convnet(depth=2, kernel_size=3, **SMALL), samples(4)
    doubled = np.concatenate([X, X])
    G = weights_for(doubled, None)
    summed = sum(G[i : i + 4, j : j + 4] for i in (0, 4) for j in (0, 4))
    by_theta, by_X = gram_vjp(kernel, X, None, summed)
    by_theta_2, by_doubled = gram_vjp(kernel, doubled, None, G)
    # The variance of an image is exact, a pair of copies is rounded.
    assert_near(by_theta_2, by_theta, rtol=1e-6)
    assert_near(by_doubled[:4] + by_doubled[4:], by_X, rtol=1e-6)


@pytest.mark.parametrize("activation", [ReLU(), LeakyReLU(0.1), Abs(), GELU()])
def test_blank_images_without_bias_have_finite_derivatives(activation):
    kernel = Sequential(Conv2d(3), activation, Conv2d(3), activation, Flatten())
    X = samples(4)
    X[1] = 0.0
    X[2, :, :4] = 0.0
    for Y in (None, X[::-1].copy()):
        G = weights_for(X, Y)
        by_theta, by_X = gram_vjp(kernel, X, Y, G)
        gram, gradient = gram_gradient(kernel, X, Y)
        for part in (by_theta, by_X, gram, gradient):
            assert np.isfinite(part).all()
        assert_near(by_theta, np.einsum("ij,ijp->p", G, gradient))
    assert not gram[1].any()


def test_samples_may_be_rows_or_images():
    images, kernel = digits(7)[0], tiny_network()
    G = weights_for(images, None)
    by_theta, by_images = gram_vjp(kernel, images, None, G)
    assert by_images.shape == (7, 1, 8, 8)
    rows, planes = images.reshape(7, 64), images.reshape(7, 8, 8)
    for X, settings in (
        (rows, {"image_shape": (8, 8)}),
        (rows.tolist(), {"image_shape": (8, 8)}),
        (planes, {}),
        (planes.tolist(), {}),
        (np.asfortranarray(planes), {}),
    ):
        by_theta_X, by_X = gram_vjp(kernel, X, None, G, **settings)
        assert by_X.shape == np.shape(X)
        np.testing.assert_array_equal(by_theta_X, by_theta)
        np.testing.assert_array_equal(by_X.reshape(by_images.shape), by_images)
        gradient = gram_gradient(kernel, X, **settings)[1]
        np.testing.assert_array_equal(gradient, gram_gradient(kernel, images)[1])


def test_vectors_of_a_network_for_images():
    X = samples(5)
    rows = X.reshape(5, -1)
    G = weights_for(X, None)
    by_theta, by_X = gram_vjp(dense(depth=2), X, None, G)
    by_theta_rows, by_rows = gram_vjp(dense(depth=2), rows, None, G, image_shape=None)
    np.testing.assert_array_equal(by_theta, by_theta_rows)
    np.testing.assert_array_equal(by_X.reshape(5, -1), by_rows)


FIXED = {"weight_variance_bounds": "fixed", "bias_variance_bounds": "fixed"}


@both_shapes
@pytest.mark.parametrize(
    "kernel",
    [rbf(4.0, lengthscale_bounds="fixed"), convnet(2, 3, **SMALL, **FIXED)],
    ids=name,
)
def test_a_kernel_with_nothing_to_learn(kernel, is_symmetric):
    X, Y = sides(is_symmetric)
    G = weights_for(X, Y)
    gram, gradient = gram_gradient(kernel, X, Y)
    assert gradient.shape == (*G.shape, 0)
    assert_near(gram, gram_matrix(kernel, X, Y, dtype="float64"), rtol=1e-12)
    by_theta, by_X = gram_vjp(kernel, X, Y, G)
    assert by_theta.shape == (0,)
    assert_near(by_X, autograd(kernel, X, Y, G)[1])
    assert gram_vjp(kernel, X, Y, G, inputs=False)[0].shape == (0,)


def test_fixed_hyperparameters_have_no_entry():
    X = samples(5)
    G = weights_for(X, None)
    free = convnet(depth=2, kernel_size=3, **SMALL)
    fixed = free.replace(weight_variance_bounds="fixed")
    whole, part = (gram_vjp(kernel, X, None, G)[0] for kernel in (free, fixed))
    labels = [item.label for item in free.hyperparameters]
    assert part.shape == (1,)
    assert_near(part[0], whole[labels.index("bias_variance")])


@both_shapes
def test_single_precision(is_symmetric):
    X, Y = sides(is_symmetric)
    G = weights_for(X, Y)
    single = X.astype(np.float32), None if Y is None else Y.astype(np.float32)
    kernel = KERNELS[0]
    exact = gram_vjp(kernel, X, Y, G)
    # Single numbers are computed with in double precision, unless asked otherwise.
    for settings, rtol in (({}, 1e-6), ({"dtype": "float32"}, 1e-4)):
        got = gram_vjp(kernel, *single, G.astype(np.float32), **settings)
        for part, expected in zip(got, exact, strict=True):
            assert part.dtype == np.float64
            assert_near(part, expected, rtol=rtol)
    assert gram_gradient(kernel, *single)[0].dtype == np.float64
    gram, gradient = gram_gradient(kernel, *single, dtype="float32")
    assert gram.dtype == gradient.dtype == np.float32
    assert_near(gradient, gram_gradient(kernel, X, Y)[1], rtol=1e-4)


@both_shapes
@pytest.mark.parametrize("inputs", [True, False])
def test_two_threads_give_the_last_bit_of_one(is_symmetric, inputs):
    X, Y = samples(40), None if is_symmetric else samples(30, seed=1)
    G = weights_for(X, Y)
    kernel = convnet(depth=2, kernel_size=3)
    before = torch.get_num_threads()
    results = []
    try:
        for n_threads in (1, 2):
            torch.set_num_threads(n_threads)
            results.append(gram_vjp(kernel, X, Y, G, inputs=inputs))
    finally:
        torch.set_num_threads(before)
    results.append(gram_vjp(kernel, X, Y, G, inputs=inputs, n_jobs=2))
    for by_theta, by_X in results[1:]:
        np.testing.assert_array_equal(by_theta, results[0][0])
        if inputs:
            np.testing.assert_array_equal(by_X, results[0][1])


@pytest.mark.parametrize(
    ("G", "message"),
    [
        (np.ones((3, 2)), r"`G` must have .* shape \(3, 3\), got shape \(3, 2\)"),
        (np.ones(3), "2D array"),
        (np.full((3, 3), np.nan), "G contains NaN"),
        (np.full((3, 3), np.inf), "G contains infinity"),
    ],
)
def test_wrong_weights_are_refused(G, message):
    with pytest.raises(ValueError, match=message):
        gram_vjp(rbf(1.0), np.ones((3, 2)), None, G)


@pytest.mark.parametrize("inputs", ["no", None, 2, [True]])
def test_what_is_wanted_must_be_said_by_a_bool(inputs):
    with pytest.raises(ValueError, match=r"'inputs' .* gram_vjp must be True or False"):
        gram_vjp(rbf(1.0), np.ones((3, 2)), None, np.ones((3, 3)), inputs=inputs)


def test_wrong_weights_of_a_rectangle_are_refused():
    with pytest.raises(ValueError, match=r"shape \(3, 2\), got shape \(2, 3\)"):
        gram_vjp(rbf(1.0), np.ones((3, 2)), np.ones((2, 2)), np.ones((2, 3)))


def test_overflow_is_found_before_any_tile():
    X = np.full((3, 1, 8, 8), 1e200)
    with pytest.raises(ValueError, match="not finite"):
        gram_vjp(tiny_network(), X, None, np.ones((3, 3)))
    with pytest.raises(ValueError, match="not finite"):
        gram_gradient(tiny_network(), X)


@pytest.mark.parametrize("call", [gram_gradient, lambda k, X, **s: gram_vjp(
    k, X, None, np.eye(len(X)), **s)], ids=["gram_gradient", "gram_vjp"])  # fmt: skip
class TestBadInput:
    """Both functions refuse what `gram_matrix` refuses."""

    def test_settings(self, call):
        X = samples(3)
        for settings, message in (
            ({"backend": "best"}, "'backend' parameter of gram_"),
            ({"dtype": "float16"}, "'dtype' parameter of gram_"),
            ({"device": "tpu"}, "'device' parameter of gram_"),
            ({"memory_budget": "much"}, "'memory_budget' parameter of gram_"),
            ({"n_jobs": "a"}, r"'n_jobs' parameter of gram_.* None or an int"),
            ({"verbose": "a"}, r"'verbose' parameter of gram_.* an int >= 0"),
        ):
            with pytest.raises(ValueError, match=message):
                call(rbf(1.0), X, **settings)

    def test_kernel(self, call):
        with pytest.raises(ValueError, match="`kernel` must be a kernel"):
            call("rbf", samples(3))

    def test_too_little_memory(self, call):
        with pytest.raises(TileMemoryError, match="memory_budget"):
            call(convnet(), samples(3), memory_budget=1000)

    def test_a_guessed_shape_warns_in_the_callers_name(self, call):
        with pytest.warns(ImageShapeWarning) as caught:
            call(tiny_network(), digits(3)[0].reshape(3, 64))
        assert len(caught) == 1
        assert caught[0].filename == __file__

    def test_progress_is_shown_on_demand(self, call, capsys):
        call(rbf(1.0), samples(3), verbose=1)
        assert "100%" in capsys.readouterr().err
