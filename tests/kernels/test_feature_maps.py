"""Random features against the kernels that they approximate."""

import math
import re
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy.special import hyp2f1
from sklearn.kernel_approximation import PolynomialCountSketch, RBFSampler

from skconvgp import gram_matrix
from skconvgp.kernels import (
    Conv2d,
    Dense,
    Erf,
    Flatten,
    FlipAverage,
    Kernel,
    MaxNormalization,
    PatchKernel,
    ReLU,
    Residual,
    Sequential,
    Sum,
    arcsine,
    convnet,
    dense,
    dot_product,
    matern,
    optical,
    polynomial,
    rbf,
    residual_convnet,
)
from skconvgp.kernels._capabilities import sample_network
from skconvgp.kernels._feature_maps import feature_map
from tests.helpers.kernels import assert_close, cross, diag, random_images
from tests.helpers.kernels import name as name_of

VECTORS = random_images(4, 3, 1, 1)
# The mean of so many maps is compared with its standard error.
DRAWS, STANDARD_ERRORS = 250, 4.0
UNBIASED = [
    rbf(1.5),
    rbf((1.0, 2.0, 3.0)),
    matern(2.0, nu=0.5),
    matern(2.0, nu=2.5),
    arcsine(0.7, 0.3),
    polynomial(3, 0.5, 0.2),
    optical(),
    optical(1.0),
    optical(3.0, centered=True),
    2.0 * rbf(1.5) + dot_product(),
    rbf(1.5) * arcsine(),
    dense(1, weight_variance=1.7, bias_variance=0.3),
    Sequential(Flatten(), Dense(1.4), ReLU()),
    Sequential(Erf(), Dense(bias_variance=0.5)),
    Sequential(),
]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def shape_of(images):
    return tuple(images.shape[1:])


def approximations(kernel, images, n_features, count=DRAWS, **settings):
    """Return Gram matrices (count, n, n) of independent maps."""
    generator = seeded()
    maps = (
        feature_map(kernel, shape_of(images), n_features, generator, **settings)
        for _ in range(count)
    )
    features = torch.stack([draw(images) for draw in maps])
    return features @ features.mT


def assert_unbiased(grams, expected):
    error = grams.std(0) / math.sqrt(len(grams))
    excess = (grams.mean(0) - expected).abs() - STANDARD_ERRORS * error
    assert float(excess.max()) < 1e-9 * float(expected.abs().max())
    assert float(error.max()) < 0.15 * float(expected.abs().max())


@pytest.mark.parametrize("kernel", UNBIASED, ids=name_of)
def test_features_are_unbiased(kernel):
    grams = approximations(kernel, VECTORS, 12, exact_diag=False)
    assert_unbiased(grams, cross(kernel, VECTORS))


def test_powers_of_numpy_are_numbers():
    X = np.ones((2, 3))
    for power in (np.int64(2), np.float32(2.0)):
        found = gram_matrix(optical(power), X)
        np.testing.assert_array_equal(found, gram_matrix(optical(2), X))


def test_features_of_a_linear_kernel_have_no_error():
    kernel = dot_product(bias_variance=0.3)
    (gram,) = approximations(kernel, VECTORS, 2, 1, exact_diag=False)
    assert_close(gram, cross(kernel, VECTORS))


def test_fourier_features_have_the_mean_of_scikit_learn():
    X = VECTORS.reshape(4, -1).numpy()
    theirs = []
    for seed in range(200):
        sampler = RBFSampler(gamma=0.5 / 1.5**2, n_components=12, random_state=seed)
        features = sampler.fit_transform(X)
        theirs.append(features @ features.T)
    theirs = torch.as_tensor(np.stack(theirs))
    ours = approximations(rbf(1.5), VECTORS, 12, 200)
    error = ((ours.var(0) + theirs.var(0)) / 200).sqrt()
    assert float(((ours.mean(0) - theirs.mean(0)).abs() / error).max()) < 4.0
    off = ~torch.eye(4, dtype=torch.bool)
    assert float(ours.var(0)[off].mean()) < float(theirs.var(0)[off].mean())


def test_sketches_have_the_variance_of_scikit_learn():
    X, kernel = VECTORS.reshape(4, -1).numpy(), polynomial(2, 0.5, 0.2)
    theirs = []
    for seed in range(DRAWS):
        sketch = PolynomialCountSketch(
            gamma=0.5, degree=2, coef0=0.2, n_components=30, random_state=seed
        )
        features = sketch.fit_transform(X)
        theirs.append(features @ features.T)
    theirs = np.stack(theirs).var(0)
    ours = approximations(kernel, VECTORS, 30, exact_diag=False).var(0)
    ratio = float(ours.mean()) / float(theirs.mean())
    assert 0.6 < ratio < 1.6


def test_errors_fall_with_the_root_of_the_number_of_features():
    sizes, expected = (16, 64, 256), cross(matern(2.0), VECTORS)
    errors = [
        float(
            (approximations(matern(2.0), VECTORS, size, 60) - expected).square().mean()
        )
        for size in sizes
    ]
    slope = np.polyfit(np.log(sizes), 0.5 * np.log(errors), 1)[0]
    assert abs(slope + 0.5) < 0.1


def test_orthogonal_frequencies_have_a_smaller_variance():
    images = random_images(4, 8, 1, 1)
    variances = [
        float(
            approximations(rbf(3.0), images, 16, 200, orthogonal=orthogonal)
            .var(0)
            .mean()
        )
        for orthogonal in (True, False)
    ]
    assert variances[0] < 0.5 * variances[1]


@pytest.mark.parametrize(
    "kernel", [rbf(2.0) * arcsine(), convnet(2, 3), dense(2)], ids=name_of
)
def test_features_do_not_depend_on_batches(kernel):
    images = random_images(5, 1, 4, 4)
    one, two = (feature_map(kernel, (1, 4, 4), 20, seeded(3)) for _ in range(2))
    whole = one(images)
    assert whole.shape == (5, one.n_features)
    assert one.n_values >= one.n_features
    assert_close(torch.cat([two(images[:2]), two(images[2:])]), whole)
    assert_close(one(images.float()), whole, rtol=1e-5, scale=whole.abs().max())
    assert one(images.float()).dtype == torch.float32
    other = feature_map(kernel, (1, 4, 4), 20, seeded(4))
    assert not torch.allclose(other(images), whole)


@pytest.mark.parametrize("kernel", [*UNBIASED[4:8], convnet(1, 3)], ids=name_of)
def test_lengths_of_features_are_prior_variances(kernel):
    images = random_images(4, 3, 1, 1)
    images[0] = 0.0
    features = feature_map(kernel, (3, 1, 1), 8, seeded())(images)
    assert_close(features.square().sum(1), diag(kernel, images))


WIDE = Sequential(
    Conv2d(3, weight_variance=1.6, bias_variance=0.2),
    Residual(ReLU(), Conv2d(3)),
    ReLU(),
    Sum(Conv2d(1, stride=2), Conv2d(3, stride=2)),
    Flatten(),
    Dense(1.3, bias_variance=0.1),
)


@pytest.mark.parametrize("readout", ["draw", "exact"])
def test_features_of_networks_approach_the_kernel(readout):
    images, errors = random_images(4, 1, 4, 4), []
    for width in (8, 128):
        grams = approximations(
            WIDE, images, 400, 20, readout=readout, width=width, exact_diag=False
        )
        errors.append(float((grams - cross(WIDE, images)).square().mean().sqrt()))
    assert errors[1] < 0.5 * errors[0]


@pytest.mark.parametrize(
    ("kernel", "settings", "n_features"),
    [
        (convnet(2, 3), {}, 100),
        (convnet(2, 3), {"readout": "exact"}, 96 + 1),
        (convnet(2, 3), {"readout": "exact", "n_networks": 3}, 3 * (32 + 1)),
        (convnet(2, 3, bias_variance=0.0), {"readout": "exact"}, 96),
        (convnet(2, 3), {"n_networks": 3}, 3 * 34),
        (dense(2), {}, 100 + 1),
        (dense(2), {"readout": "draw"}, 100),
        (WIDE, {"readout": "exact", "width": 7}, 7 * 4 + 1),
        (Sequential(Flatten(), Dense()), {}, 16),
        (rbf(1.0), {}, 100),
        (rbf(1.0) + dot_product(), {}, 50 + 17),
    ],
    ids=name_of,
)
def test_features_are_as_many_as_expected(kernel, settings, n_features):
    shape = (1, 4, 4)
    drawn = feature_map(kernel, shape, 100, seeded(), **settings)
    assert drawn.n_features == n_features
    assert drawn(random_images(2, *shape)).shape == (2, n_features)


def test_all_outputs_of_a_network_share_its_hidden_layers():
    kernel, images = dense(1), random_images(12, 3, 1, 1)
    drawn = feature_map(kernel, (3, 1, 1), 200, seeded(), readout="draw", width=4)
    assert torch.linalg.matrix_rank(drawn(images)) <= 5


def test_more_networks_are_nearer_to_the_kernel():
    images, errors = random_images(4, 1, 4, 4), []
    expected = cross(residual_convnet(), images)
    for n_networks in (1, 8):
        grams = approximations(
            residual_convnet(), images, 200, 10, width=8, n_networks=n_networks
        )
        errors.append(float((grams - expected).square().mean()))
    assert errors[1] < 0.5 * errors[0]


@dataclass(repr=False)
class Doubled(Kernel):
    """Third-party kernel that draws its features itself."""

    is_spatial = False

    def check(self, image_shape):
        pass

    def n_positions(self, image_shape):
        return 1

    def prepare(self, images):
        return 2.0 * images.flatten(1)

    def cross(self, one, two):
        return one @ two.mT

    def diag(self, one):
        return one.square().sum(1)

    def feature_map(self, image_shape, n_features, generator, *, orthogonal):
        return Doubling(math.prod(image_shape))


@dataclass(frozen=True)
class Doubling:
    n_features: int

    @property
    def n_values(self):
        return self.n_features

    def __call__(self, images):
        return 2.0 * images.flatten(1)


def test_kernels_of_others_can_draw_their_features():
    drawn = feature_map(3.0 * Doubled(), (3, 1, 1), 10, seeded())
    assert_close(drawn(VECTORS), math.sqrt(3.0) * 2.0 * VECTORS.flatten(1))


@pytest.mark.parametrize(
    "kernel",
    [
        PatchKernel(patch_size=2),
        FlipAverage(rbf(1.0)),
        MaxNormalization(convnet(1, 3)),
        rbf(1.0) + PatchKernel(patch_size=2),
    ],
    ids=name_of,
)
def test_kernels_without_features_are_refused(kernel):
    with pytest.raises(TypeError, match=r"no random features.*rbf, matern"):
        feature_map(kernel, (1, 4, 4), 10, seeded())


def test_layers_without_a_finite_twin_are_named():
    layer = MaxNormalization(Dense(), mode="fixed")
    network = Sequential(Flatten(), layer, Dense())
    with pytest.raises(TypeError, match=r"MaxNormalization.* has no finite twin"):
        feature_map(network, (1, 4, 4), 10, seeded())
    with pytest.raises(TypeError, match="has no finite twin"):
        sample_network(layer, VECTORS, width=1, generator=seeded())


@pytest.mark.parametrize(
    ("kernel", "n_features", "message"),
    [
        (rbf(1.0), 1, "at least 2 random features, got 1"),
        (rbf(), 10, "`lengthscale` of rbf() is 'median'"),
        (Dense(-1.0), 10, "`weight_variance` is a variance"),
    ],
    ids=name_of,
)
def test_bad_settings_are_refused(kernel, n_features, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        feature_map(kernel, (3, 1, 1), n_features, seeded())


@pytest.mark.parametrize("power", [1.0, 2, 2.5, 3.0, 4, 7.0])
@pytest.mark.parametrize("centered", [False, True])
def test_optical_kernel_is_a_hypergeometric_function(power, centered):
    X = VECTORS.reshape(4, -1).numpy()
    lengths = np.sqrt((X**2).sum(1))
    size = np.outer(lengths, lengths)
    series = hyp2f1(-power / 2, -power / 2, 1, np.minimum((X @ X.T / size) ** 2, 1.0))
    expected = math.gamma(power / 2 + 1) ** 2 * size**power * (series - centered)
    gram = gram_matrix(optical(power, centered=centered), X)
    tolerance = 1e-12 if power % 2 == 0 else 1e-4
    np.testing.assert_allclose(gram, expected, rtol=tolerance, atol=1e-12)
    np.testing.assert_allclose(np.diag(gram), np.diag(expected), rtol=1e-12)


@pytest.mark.parametrize("centered", [False, True])
def test_moduli_have_finite_derivatives_at_zero(centered):
    kernel = optical(1, centered=centered)
    features = feature_map(kernel, (3, 1, 1), 5, seeded(), exact_diag=False)
    images = torch.zeros(2, 3, 1, 1, dtype=torch.float64)
    images[1] = 1.0
    derivatives = torch.func.jacrev(features)(images)
    assert (derivatives[0] == 0.0).all()
    assert derivatives[1, :, 1].abs().max() > 0.1
    assert derivatives.isfinite().all()


def test_optical_kernel_of_squares_has_its_closed_form():
    X = np.array([[1.0, 2.0], [0.0, 0.0], [-1.0, 0.5]])
    inner, norms = X @ X.T, (X**2).sum(1)
    np.testing.assert_allclose(
        gram_matrix(optical(), X), np.outer(norms, norms) + inner**2, rtol=1e-14
    )
    np.testing.assert_allclose(
        gram_matrix(optical(centered=True), X), inner**2, rtol=1e-14
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"power": 0.5}, "`power` must be a number from 1 to 16, got 0.5"),
        ({"power": "2"}, "`power` must be a number from 1 to 16, got '2'"),
        ({"centered": 1}, "`centered` must be True or False, got 1"),
    ],
)
def test_settings_of_the_optical_kernel_are_checked(settings, message):
    with pytest.raises(ValueError, match=message):
        optical(**settings).check((3, 1, 1))


@pytest.mark.parametrize(
    "kernel", [optical(), optical(centered=True), dot_product()], ids=name_of
)
def test_mean_features_of_bits_are_sums_over_all_codes(kernel):
    features = feature_map(kernel, (3, 1, 1), 5, seeded(), exact_diag=False)
    p = torch.tensor([[0.2, 0.9, 0.5], [0.0, 1.0, 0.7]], dtype=torch.float64)
    codes = torch.cartesian_prod(*[torch.tensor([0.0, 1.0]).double()] * 3)
    bits = codes[:, None]
    weights = (bits * p + (1.0 - bits) * (1.0 - p)).prod(-1)  # (8, 2)
    expected = weights.T @ features(codes)
    torch.testing.assert_close(features.mean_of_bits(p), expected)


def test_only_squares_have_mean_features_of_bits():
    features = feature_map(optical(3), (3, 1, 1), 5, seeded())
    assert not hasattr(features, "mean_of_bits")  # rescaled to exact lengths
    features = feature_map(optical(3), (3, 1, 1), 5, seeded(), exact_diag=False)
    assert features.mean_of_bits(torch.ones(1, 3).double()) is None
