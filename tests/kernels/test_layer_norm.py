"""LayerNorm and Dropout, against closed forms and finite networks."""

import math

import numpy as np
import pytest
import torch

from skconvgp import ConvNetGPRegressor, gram_diag, gram_gradient, gram_matrix, gram_vjp
from skconvgp.kernels import (
    Conv2d,
    Dense,
    Dropout,
    Erf,
    Flatten,
    FlipAverage,
    GlobalAvgPool2d,
    LayerNorm,
    MaxNormalization,
    OrbitAverage,
    ReLU,
    Residual,
    Sequential,
    Sum,
    Tanh,
)
from skconvgp.kernels._feature_maps import feature_map
from tests.helpers.kernels import assert_close, cross, diag, last_maps, random_images
from tests.kernels.test_finite_networks import (
    BIAS,
    CONV,
    DRAWS,
    STANDARD_ERRORS,
    WIDTH,
    assert_is_the_limit,
)

EXACT = {"dtype": "float64"}
SHAPE = (2, 3, 4)


class WithMean(LayerNorm):
    """Layer normalization as finite networks have it, whose mean is subtracted."""

    def function(self, maps):
        size = maps.shape[1:2] if self.over == "channels" else maps.shape[1:]
        if self.over == "all":
            return torch.nn.functional.layer_norm(maps, size, eps=0.0)
        moved = maps.movedim(1, -1)
        return torch.nn.functional.layer_norm(moved, size, eps=0.0).movedim(-1, 1)


def closed(*layers, **settings):
    return Sequential(*layers, Flatten(), Dense(1.3, bias_variance=0.1), **settings)


NORMALIZED = [
    closed(Conv2d(3, **CONV), LayerNorm(), ReLU()),
    closed(Conv2d(2, **CONV), LayerNorm("all"), Tanh(), Conv2d(3), LayerNorm()),
    closed(Conv2d(1, **CONV), Residual(Erf(), Conv2d(3), LayerNorm("all")), ReLU()),
]
DROPPED = [
    closed(Conv2d(3, **CONV), ReLU(), Dropout(0.3), Conv2d(2, **CONV), Erf()),
    closed(Conv2d(3), Erf(), Sum(Sequential(Dropout(), Conv2d(1)), Conv2d(2)), ReLU()),
    closed(Conv2d(3), Residual(ReLU(), Dropout(), Conv2d(3)), Tanh()),
]
BOTH = closed(
    Conv2d(3, **CONV), LayerNorm(), ReLU(), Dropout(0.4), LayerNorm(), Conv2d(2), Erf()
)
each = pytest.mark.parametrize("kernel", [*NORMALIZED, *DROPPED, BOTH], ids=repr)


@pytest.mark.parametrize("over", ["channels", "all"])
def test_covariances_are_divided_by_deviations(over):
    images = random_images(5, *SHAPE)
    conv = Conv2d(3, **CONV)
    before = last_maps(conv, images)
    var = before.diagonal(dim1=2, dim2=3)
    size = var if over == "channels" else var.mean((0, 1), keepdim=True)
    expected = before / (size[..., None] * size[..., None, :]).sqrt()
    found = last_maps(Sequential(conv, LayerNorm(over)), images)
    assert_close(found, expected, rtol=1e-12, scale=1.0)
    ones = found.diagonal(dim1=2, dim2=3)
    mean = ones if over == "channels" else ones.mean((0, 1))
    assert_close(mean, torch.ones_like(mean), rtol=1e-12)


@pytest.mark.parametrize(
    "network",
    [
        Sequential(Conv2d(3, **CONV), WithMean(), ReLU(), Conv2d(1)),
        Sequential(Conv2d(3, **CONV), WithMean("all"), ReLU(), Conv2d(1)),
        Sequential(Conv2d(3, **CONV), LayerNorm(), Erf(), LayerNorm("all"), Conv2d(1)),
        Sequential(Flatten(), Dense(**CONV), WithMean(), ReLU(), LayerNorm(), Dense()),
    ],
    ids=repr,
)
def test_layer_norm_is_the_limit_of_finite_networks(network):
    assert_is_the_limit(network, random_images(3, *SHAPE))


def test_what_is_divided_has_no_scale():
    images = random_images(4, *SHAPE)
    gram = cross(closed(Conv2d(3), LayerNorm(), ReLU()), images)
    wide = closed(Conv2d(3, weight_variance=9.0), LayerNorm(), ReLU())
    assert_close(cross(wide, images), gram, rtol=1e-12)
    assert_close(cross(wide, 7.0 * images), gram, rtol=1e-12)


def test_an_image_without_values_keeps_none():
    images = random_images(3, *SHAPE)
    images[1] = 0.0
    kernel = Sequential(Flatten(), Dense(), LayerNorm(), Erf(), Dense())
    gram = cross(kernel, images)
    assert bool((gram[1] == 0.0).all())
    assert bool(torch.isfinite(gram).all())
    X = images.flatten(1).numpy()
    assert np.isfinite(gram_gradient(kernel, X)[1]).all()


def test_the_tangent_kernel_is_divided_too():
    X = random_images(4, 5, 1, 1).flatten(1)
    kernel = Sequential(
        Flatten(), Dense(1.7), LayerNorm(), ReLU(), Dense(0.9), kind="ntk"
    )
    inner = 1.7 * X @ X.T / 5
    root = inner.diagonal().sqrt()
    size = root[:, None] * root
    t = (inner / size).clamp(-1.0, 1.0)
    slope = (math.pi - t.arccos()) / (2.0 * math.pi)
    value = ((1.0 - t**2).clamp(min=0.0).sqrt() / (2.0 * math.pi)) + slope * t
    expected = 0.9 * (value + inner / size * slope)
    found = gram_matrix(kernel, X.numpy(), **EXACT)
    np.testing.assert_allclose(found, expected, rtol=1e-7)
    variances = gram_diag(kernel, X.numpy(), **EXACT)
    np.testing.assert_allclose(variances, 0.9 * np.ones(4), rtol=1e-12)


def test_layer_norm_in_front_of_a_pool():
    images = random_images(3, *SHAPE)
    kernel = Sequential(
        Conv2d(1, weight_variance=1.5), LayerNorm(), ReLU(), GlobalAvgPool2d(), Dense()
    )
    flat = images.flatten(2)  # (n, c, positions)
    c = 1.5 * torch.einsum("ncp,mcq->npmq", flat, flat) / 2
    root = torch.einsum("npnp->np", c).sqrt()
    t = (c / (root[:, :, None, None] * root)).clamp(-1.0, 1.0)
    value = (1.0 - t**2).clamp(min=0.0).sqrt() + (math.pi - t.arccos()) * t
    expected = value.mean((1, 3)) / (2.0 * math.pi)
    assert_close(cross(kernel, images), expected, rtol=1e-7)
    assert_close(diag(kernel, images), expected.diagonal(), rtol=1e-7)


def test_dropout_has_a_closed_form():
    X = random_images(4, 5, 1, 1).flatten(1)
    hidden = Dense(1.7), Erf(), Dropout(0.3), Dense(0.9), Erf()
    kernel = Sequential(Flatten(), *hidden, Dense(1.1))
    inner = 1.7 * X @ X.T / 5
    first = 0.9 * arcsines(inner, inner.diagonal())
    expected = 1.1 * arcsines(first, first.diagonal() / 0.7)
    found = gram_matrix(kernel, X.numpy(), **EXACT)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    variances = gram_diag(kernel, X.numpy(), **EXACT)
    np.testing.assert_allclose(variances, expected.diagonal(), rtol=1e-12)


def arcsines(cov, var):
    root = (1.0 + 2.0 * var).sqrt()
    return 2.0 / math.pi * (2.0 * cov / (root[:, None] * root)).asin()


def two_passes(layers, images, generator):
    """Return outputs of one finite network with two sets of masks."""
    passes = [images.float(), images.float()]
    for layer in layers:
        if isinstance(layer, Dropout):
            keep = 1.0 - layer.rate
            masks = [
                torch.empty_like(one).bernoulli_(keep, generator=generator)
                for one in passes
            ]
            passes = [
                one * mask / keep for one, mask in zip(passes, masks, strict=True)
            ]
        elif hasattr(layer, "sample"):
            both = torch.cat(passes)
            both = layer.sample(both, width=WIDTH, generator=generator)
            passes = list(both.chunk(2))
        else:
            passes = [layer.function(one) for one in passes]
    return [one.double() for one in passes]


@pytest.mark.parametrize(
    "network",
    [
        Sequential(Conv2d(3, **CONV), ReLU(), Dropout(), Conv2d(2), ReLU(), Conv2d(1)),
        Sequential(
            *(Conv2d(3, **CONV), Erf(), Dropout(0.3), Conv2d(1), LayerNorm(), ReLU()),
            *(Dropout(0.2), LayerNorm(), Conv2d(1, **CONV), Erf(), Conv2d(1)),
        ),
    ],
    ids=repr,
)
def test_dropout_is_the_limit_of_two_passes_of_finite_networks(network):
    generator, images = torch.Generator().manual_seed(0), random_images(3, *SHAPE)
    grams = []
    for _ in range(DRAWS):
        one, two = two_passes(network.layers, images, generator)
        grams.append(torch.einsum("nkhw,mkhw->hwnm", one, two) / WIDTH)
    sample = torch.stack(grams)
    error = sample.std(0) / DRAWS**0.5
    expected = last_maps(network, images)
    var = expected.diagonal(dim1=-2, dim2=-1)
    scale = (var.unsqueeze(-1) * var.unsqueeze(-2)).sqrt()
    excess = (sample.mean(0) - expected).abs() - STANDARD_ERRORS * error - BIAS * scale
    assert float(excess.max()) <= 0.0
    assert float((error / scale).mean()) < 0.03


def test_dropout_of_nothing_changes_nothing():
    images = random_images(4, *SHAPE)
    plain = closed(Conv2d(3, **CONV), Conv2d(3), ReLU())
    for other in (
        closed(Conv2d(3, **CONV), Dropout(0.0), Conv2d(3), ReLU()),
        closed(Conv2d(3, **CONV), Conv2d(3), ReLU(), Dropout(0.4)),  # and no activation
    ):
        assert_close(cross(other, images), cross(plain, images), rtol=1e-12)
        assert_close(diag(other, images), diag(plain, images), rtol=1e-12)


@each
def test_derivatives_are_finite_differences(kernel):
    step, theta = 1e-5, kernel.theta
    X = random_images(4, *SHAPE).numpy()
    weights = np.random.default_rng(0).normal(size=(4, 4))
    gradient = gram_gradient(kernel, X)[1]
    for i, shift in enumerate(step * np.eye(len(theta))):
        up, down = (
            gram_matrix(kernel.with_theta(theta + s), X, **EXACT)
            for s in (shift, -shift)
        )
        np.testing.assert_allclose(
            gradient[..., i], (up - down) / (2 * step), atol=1e-8
        )
    by_theta, by_X = gram_vjp(kernel, X, X, weights)
    np.testing.assert_allclose(
        by_theta, np.einsum("ij,ijp->p", weights, gradient), atol=1e-12
    )
    for index in ((0, 0, 1, 2), (3, 1, 2, 3)):
        shift = np.zeros_like(X)
        shift[index] = step
        up, down = (
            (weights * gram_matrix(kernel, X + s, X, **EXACT)).sum()
            for s in (shift, -shift)
        )
        slope = (up - down) / (2 * step)
        assert by_X.reshape(X.shape)[index] == pytest.approx(slope, abs=1e-7)


@each
def test_estimators_and_averages_take_them(kernel):
    X = random_images(12, 1, 4, 4).numpy()
    y = X.sum((1, 2, 3))
    gp = ConvNetGPRegressor(kernel, noise_variance=0.01).fit(X[:9], y[:9])
    assert np.isfinite(gp.predict(X[9:])).all()
    assert gp.backend_ == "torch"
    average = OrbitAverage(kernel)
    turned = np.ascontiguousarray(np.rot90(X, axes=(2, 3)))
    np.testing.assert_allclose(
        gram_matrix(average, X, turned, **EXACT), gram_matrix(average, X, **EXACT), 1e-9
    )


def test_bad_settings_are_named():
    images = random_images(3, 1, 5, 5)
    for over in ("positions", None, 1):
        with pytest.raises(ValueError, match="`over` must be one of 'channels', 'all'"):
            cross(closed(Conv2d(3), LayerNorm(over), ReLU()), images)
    for rate in (1.0, -0.1, math.nan, "half", None, True):
        with pytest.raises(ValueError, match="`rate` is the probability"):
            cross(closed(Conv2d(3), ReLU(), Dropout(rate)), images)
    pooled = Sequential(Conv2d(3), ReLU(), GlobalAvgPool2d(), Dropout(), Dense())
    with pytest.raises(ValueError, match=r"Dropout.* averages over positions"):
        cross(pooled, images)
    tangent = closed(Conv2d(3), ReLU(), Dropout(), kind="ntk")
    with pytest.raises(ValueError, match=r"Dropout.* has no neural tangent kernel"):
        cross(tangent, images)
    with pytest.raises(TypeError, match=r"Dropout.* has no finite twin"):
        feature_map(DROPPED[0], (1, 5, 5), 10, torch.Generator())
    with pytest.raises(ValueError, match="piecewise linear"):
        MaxNormalization(NORMALIZED[0], mode="exact").check((1, 5, 5))
    FlipAverage(NORMALIZED[0]).check((1, 5, 5))


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ((Dropout(), Conv2d(3), ReLU()), "between these and the images"),
        ((Flatten(), Dropout(), Dense(), ReLU()), "between these and the images"),
        ((Residual(Conv2d(3)), Dropout(), Conv2d(3)), "between these and the images"),
        ((Conv2d(3), Dropout(), ReLU()), r"between these and ReLU\(\)"),
        ((Conv2d(3), Dropout(), LayerNorm(), Erf()), r"and Erf\(\)"),
        ((Conv2d(3), Residual(ReLU(), Dropout()), Erf()), r"and Erf\(\)"),
        ((Conv2d(3), Sum(Dropout(), Conv2d(3)), Erf()), r"and Erf\(\)"),
        ((Conv2d(3), 2.0 * Dropout(), Erf()), r"and Erf\(\)"),
    ],
    ids=str,
)
def test_dropout_at_another_place_is_refused(layers, words):
    with pytest.raises(ValueError, match=words):
        closed(*layers).check((1, 4, 4))
