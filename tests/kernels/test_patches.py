"""PatchKernel against double loops over patches, networks and differences."""

import itertools

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.svm import SVC

from skconvgp import (
    ConvNetGPClassifier,
    NystromCompletedGP,
    as_sklearn_kernel,
    gram_diag,
    gram_gradient,
    gram_matrix,
    gram_vjp,
)
from skconvgp.backends._reference import count_bytes
from skconvgp.kernels import (
    Conv2d,
    Dense,
    Flatten,
    PatchContrast,
    PatchKernel,
    PatchWhitening,
    ReLU,
    Sequential,
    matern,
    rbf,
)
from skconvgp.kernels._from_data import median_distance
from tests.helpers.naive_kernels import wave_images

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 2, 6, 5))
EXACT = {"dtype": "float64"}
SHAPE = (1, 8, 8)


def gram(kernel, images=X, **options):
    return gram_matrix(kernel, images, **(EXACT | options))


def by_loops(images, size, stride, length, weights, color):
    """Sum an rbf of lengthscale 1.3 over all pairs of patches, one by one."""
    n, c, h, w = images.shape
    spots = list(
        itertools.product(
            range(0, h - size[0] + 1, stride), range(0, w - size[1] + 1, stride)
        )
    )

    def patch(image, spot, channel):
        rows, columns = (slice(a, a + b) for a, b in zip(spot, size, strict=True))
        return image[channel, rows, columns].ravel()

    everything = [(slice(None), spot) for spot in spots]
    channels = [(slice(i, i + 1), spot) for i in range(c) for spot in spots]
    parts = everything if color == "patches" else channels
    given = np.ones(len(parts)) if weights is None else np.resize(weights, len(parts))
    total = np.zeros((n, n))
    for (p, (cp, tp)), (q, (cq, tq)) in itertools.product(enumerate(parts), repeat=2):
        if color in ("channels", "additive") and cp != cq:
            continue
        apart = np.subtract(tp, tq) @ np.subtract(tp, tq)
        near = 1.0 if length is None else np.exp(-apart / 2 / length**2)
        one = np.array([patch(image, tp, cp) for image in images])
        two = np.array([patch(image, tq, cq) for image in images])
        squares = ((one[:, None] - two) ** 2).sum(2)
        total += given[p] * given[q] * near * np.exp(-squares / 2 / 1.3**2)
    return total / len(parts)


@pytest.mark.parametrize("color", ["patches", "channels", "additive", "stacked"])
@pytest.mark.parametrize("length", [None, 1.5])
@pytest.mark.parametrize(
    ("size", "stride", "n_weights"), [((3, 3), 1, 0), ((2, 3), 2, 6), ((4, 1), 1, 0)]
)
def test_it_is_a_sum_over_pairs_of_patches(color, length, size, stride, n_weights):
    weights = np.linspace(-1.0, 2.0, n_weights) if n_weights else None
    kernel = PatchKernel(
        rbf(1.3),
        patch_size=size,
        stride=stride,
        location_lengthscale=length,
        weights=weights,
        color=color,
        normalization=None,
    )
    expected = by_loops(X, size, stride, length, weights, color)
    np.testing.assert_allclose(gram(kernel), expected, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(gram_diag(kernel, X), np.diag(expected), rtol=1e-11)


def test_weights_of_each_channel():
    weights = RNG.normal(size=2 * 12)
    kernel = PatchKernel(
        rbf(1.3),
        patch_size=3,
        weights=weights,
        color="channels",
        normalization=None,
        location_lengthscale=None,
    )
    expected = by_loops(X, (3, 3), 1, None, weights, "channels")
    np.testing.assert_allclose(gram(kernel), expected, rtol=1e-11, atol=1e-13)


def test_a_network_is_its_special_case():
    settings = {"weight_variance": 1.7, "bias_variance": 0.1}
    layers = Conv2d(3, padding="valid", **settings), ReLU()
    kernel = PatchKernel(
        Sequential(*layers), patch_size=3, location_lengthscale=0.02, normalization=None
    )
    network = Sequential(*layers, Flatten(), Dense())
    np.testing.assert_allclose(gram(kernel), gram(network), rtol=1e-12)


def test_a_large_location_lengthscale_is_none():
    kernel = PatchKernel(rbf(2.0), patch_size=3, location_lengthscale=None)
    far = kernel.replace(location_lengthscale=1e5)
    np.testing.assert_allclose(gram(kernel), gram(far), rtol=1e-8)


def test_tiles_do_not_matter():
    kernel = PatchKernel(rbf(2.0), patch_size=3, location_lengthscale=1.0)
    images = RNG.normal(size=(9, 1, 6, 6))
    whole, small = (gram(kernel, images, memory_budget=b) for b in (None, 200_000))
    np.testing.assert_allclose(whole, small, rtol=1e-13)
    assert np.linalg.eigvalsh(whole)[0] > 0.0
    single = gram_matrix(kernel, images, dtype="float32")
    np.testing.assert_allclose(whole, single, rtol=1e-5)


@pytest.mark.parametrize("normalization", [None, "center", "contrast", "whitening"])
def test_derivatives_are_limits_of_differences(normalization):
    if normalization == "whitening":
        normalization = PatchWhitening()
    kernel = PatchKernel(
        rbf(2.0), patch_size=3, location_lengthscale=1.5, normalization=normalization
    ).resolve(X)
    values, gradient = gram_gradient(kernel, X)
    assert gradient.shape == (3, 3, 2)
    for i, step in enumerate(1e-5 * np.eye(2)):
        up, down = (gram(kernel.with_theta(kernel.theta + s)) for s in (step, -step))
        slope = (up - down) / 2e-5
        np.testing.assert_allclose(gradient[..., i], slope, rtol=1e-6, atol=1e-8)
    weights = RNG.normal(size=values.shape)
    _, by_inputs = gram_vjp(kernel, X, None, weights)
    step = 1e-5 * RNG.normal(size=X.shape)
    slope = ((gram(kernel, X + step) - gram(kernel, X - step)) * weights).sum() / 2
    assert (by_inputs * step).sum() == pytest.approx(slope, rel=1e-5)


@pytest.mark.parametrize("shape", [(3, 7, 7), (3, 7, 1), (3, 1, 7)])
def test_patches_of_colours_are_whitened(shape):
    assert isinstance(PatchKernel().patch_map(shape), PatchWhitening)
    assert PatchKernel().patch_map((1, *shape[1:])) is None
    assert PatchKernel().patch_map((3, 1, 1)) is None


def test_what_follows_from_data():
    images = RNG.normal(size=(5, 3, 8, 8))
    kernel = PatchKernel()
    resolved = kernel.resolve(images)
    assert resolved.location_lengthscale == 1.0
    assert isinstance(resolved.normalization, PatchWhitening)
    again = kernel.resolve(np.concatenate([images[::-1], images[:2]]))
    assert again.base.lengthscale == pytest.approx(resolved.base.lengthscale)
    assert resolved.resolve(images[:2]) is resolved
    patches = resolved.normalized_patches(torch.as_tensor(images)).flatten(0, 2)
    median = median_distance(patches.flatten(1))
    assert resolved.base.lengthscale == pytest.approx(0.5 * median)
    assert gram(kernel, images) == pytest.approx(gram(resolved, images))
    with pytest.raises(ValueError, match=r"kernel\.resolve\(X_train\)"):
        gram_matrix(kernel, images, images[:2])
    assert gram_matrix(resolved, images, images[:2]).shape == (5, 2)
    assert clone(resolved) == resolved
    assert "fitted PatchWhitening()" in repr(resolved)
    assert len(repr(resolved)) < 200


def test_a_base_kernel_sees_normalized_patches():
    images = RNG.normal(size=(6, 1, 8, 8))
    kernel = PatchKernel(
        matern(), normalization="contrast", location_lengthscale=None
    ).resolve(images)
    assert isinstance(kernel.normalization, PatchContrast)
    patches = kernel.normalized_patches(torch.as_tensor(images)).flatten(0, 2)
    length = median_distance(patches.flatten(1))
    assert kernel.base.lengthscale == pytest.approx(length)
    assert kernel.get_params()["base__lengthscale"] == kernel.base.lengthscale


@pytest.mark.parametrize("color", ["patches", "channels", "additive", "stacked"])
def test_drawn_patches_are_those_of_all_at_their_indices(color):
    images = torch.as_tensor(RNG.normal(size=(3, 2, 7, 6)))
    kernel = PatchKernel(patch_size=(3, 2), stride=2, color=color).resolve(images)
    every = kernel.normalized_patches(images).flatten(1, 2)
    spots = torch.as_tensor([[0, 3], [8, every.shape[1] - 1], [5, 5]])
    drawn = kernel.drawn_patches(images, spots)
    for image, indices, found in zip(every, spots, drawn, strict=True):
        torch.testing.assert_close(found, image[indices], rtol=1e-12, atol=1e-13)


def test_whitened_patches_have_unit_covariance():
    patches = torch.as_tensor(RNG.normal(size=(4000, 1, 2, 2)) @ np.diag([1.0, 3.0]))
    fitted = PatchWhitening(eps=1e-9, contrast=1e-9).fit(patches)
    vectors = fitted.apply(patches).flatten(1)
    values = np.linalg.eigvalsh(np.cov(vectors.numpy().T))
    np.testing.assert_allclose(values, [0.0, 1.0, 1.0, 1.0], atol=2e-3)


@pytest.mark.parametrize("images", [np.ones((3, 1, 6, 6)), np.ones((3, 3, 6, 6))])
def test_flat_images_have_no_contrast_and_are_no_error(images):
    kernel = PatchKernel(normalization="contrast", location_lengthscale=None)
    assert np.isfinite(gram(kernel, images)).all()
    assert np.isfinite(gram(PatchKernel(location_lengthscale=None), images)).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda kernel: ConvNetGPClassifier(kernel, image_shape=SHAPE),
        lambda kernel: NystromCompletedGP(kernel, image_shape=SHAPE, random_state=0),
        lambda kernel: SVC(kernel=as_sklearn_kernel(kernel, image_shape=SHAPE)),
    ],
    ids=["exact", "nystrom", "svc"],
)
def test_it_is_an_ordinary_kernel(make):
    y = np.arange(24) % 2
    images = 0.3 * RNG.normal(size=(24, 1, 8, 8))
    images[y == 1, 0, 2] += 1.0
    kernel = PatchKernel(rbf(1.0), patch_size=3, location_lengthscale=None)
    model = make(kernel).fit(images[:16].reshape(16, -1), y[:16])
    assert model.score(images[16:].reshape(8, -1), y[16:]) >= 0.75


USUAL = {"base": rbf(1.0), "patch_size": 3, "location_lengthscale": None}
BAD = [
    ({"patch_size": 7}, r"`patch_size`=7 is larger than images of 6x5 pixels"),
    ({"patch_size": (3, 3, 3)}, "`patch_size` must be 'auto', an int"),
    ({"patch_size": 0}, "`patch_size` must be an int from 1 to"),
    ({"stride": 0}, "`stride` must be an int from 1 to"),
    ({"location_lengthscale": 0.0}, "None means that the response is the same"),
    ({"weights": np.ones(5)}, r"P = 12 = 4 x 3 positions .* got 5"),
    ({"weights": np.zeros(12)}, "must be finite, and not all 0"),
    ({"weights": np.full(12, np.nan)}, "must be finite, and not all 0"),
    ({"color": "gray"}, "`color` must be one of"),
    ({"normalization": "zca"}, "`normalization` must be 'auto', None"),
    ({"normalization": PatchWhitening(eps=-1.0)}, "`eps` is a variance"),
    ({"base": "rbf"}, "must be made of kernels, got 'rbf'"),
]


@pytest.mark.parametrize(("settings", "message"), BAD)
def test_what_cannot_be_used_is_said(settings, message):
    kernel = PatchKernel(**(USUAL | settings))
    with pytest.raises(ValueError, match=message):
        gram(kernel)


def test_published_values():
    images = wave_images(2, 6, 6, 1)
    values = 16 * gram(
        PatchKernel(rbf(1.0), patch_size=3, location_lengthscale=None), images
    )  # sums, not means
    np.testing.assert_allclose(
        values[0], [135.354124734658, 100.316499527778], rtol=1e-12
    )


def test_equal_weights_of_channels_are_additive():
    weights = RNG.normal(size=12)
    kernel = PatchKernel(
        rbf(1.3),
        patch_size=3,
        weights=weights,
        color="additive",
        location_lengthscale=None,
    )
    each = kernel.replace(color="channels", weights=np.tile(weights, 2))
    np.testing.assert_allclose(gram(kernel), gram(each), rtol=1e-12)


@pytest.mark.parametrize("normalization", [None, "center", "contrast", "whitening"])
def test_images_of_whole_numbers_are_resolved(normalization):
    if normalization == "whitening":
        normalization = PatchWhitening()
    images = RNG.integers(0, 256, size=(5, 1, 6, 6))
    kernel = PatchKernel(
        patch_size=3, normalization=normalization, location_lengthscale=None
    )
    assert kernel.resolve(images) == kernel.resolve(images.astype(np.float64))


def test_a_patch_kernel_inside_sees_patches():
    images = RNG.normal(size=(5, 3, 6, 6))
    for inner in (
        PatchKernel(rbf(), patch_size=2, location_lengthscale=None),
        PatchKernel(rbf(1.0), location_lengthscale=None),
    ):
        kernel = PatchKernel(
            inner, patch_size=4, normalization=None, location_lengthscale=None
        )
        resolved = kernel.resolve(images)
        patches = kernel.normalized_patches(torch.as_tensor(images)).flatten(0, 2)
        expected = inner.resolve(patches)
        assert len(expected.hyperparameters) == len(resolved.base.hyperparameters)
        assert gram(resolved, images).shape == (5, 5)


def test_tables_hold_the_factors_of_pairs_of_patches_once():
    kernel = PatchKernel(rbf(1.0), patch_size=3, location_lengthscale=None)
    tables = kernel.prepare(torch.zeros(5, 1, 16, 16))
    assert count_bytes(tables) <= 5 * 4 * (196 * (9 + 1) + 256)


@pytest.mark.parametrize("weights", ["all", ["a"] * 12, [{}] * 12, [1j] * 12])
def test_weights_that_are_no_numbers_are_named(weights):
    with pytest.raises(ValueError, match="`weights` must be None, or one number"):
        gram(
            PatchKernel(
                rbf(1.0), patch_size=3, weights=weights, location_lengthscale=None
            )
        )


def test_resolve_names_a_base_that_is_no_kernel():
    with pytest.raises(ValueError, match="must be made of kernels, got 'rbf'"):
        PatchKernel("rbf", location_lengthscale=None).resolve(X)


def test_resolve_refuses_rows_of_images():
    with pytest.raises(ValueError, match=r"got an array of shape \(5, 64\)"):
        PatchKernel(location_lengthscale=None).resolve(RNG.normal(size=(5, 64)))


@pytest.mark.parametrize(
    "kernel",
    [
        PatchKernel(location_lengthscale=None),
        PatchKernel(rbf(), location_lengthscale=None),
        2.0 * PatchKernel(location_lengthscale=None) + rbf(1.0),
    ],
)
@pytest.mark.parametrize("name", ["theta", "bounds", "hyperparameters"])
def test_a_base_that_follows_from_data_has_no_hyperparameters_before(kernel, name):
    with pytest.raises(ValueError, match=r"has not seen.*kernel\.resolve\(X_train\)"):
        getattr(kernel, name)
    images = torch.as_tensor(RNG.normal(size=(5, 1, 6, 6)))
    names = [item.name for item in kernel.resolve(images).hyperparameters]
    assert [name.endswith("base__lengthscale") for name in names].count(True) == 1
