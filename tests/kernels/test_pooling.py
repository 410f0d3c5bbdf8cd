"""Networks that average over positions."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from skconvgp import gram_matrix
from skconvgp.backends._pullback import ReversePullback
from skconvgp.backends._reference import TangentBackend
from skconvgp.backends._reverse_tangents import ReverseTangentBackend
from skconvgp.kernels import (
    AvgPool2d,
    Conv2d,
    Dense,
    Elementwise,
    Erf,
    Flatten,
    FlipAverage,
    GlobalAvgPool2d,
    Kernel,
    Layer,
    LeakyReLU,
    MaxNormalization,
    Product,
    ReLU,
    Residual,
    Scale,
    Sequential,
    Sum,
    Tanh,
    convnet,
    convnet_gap,
    literal_max_normalization,
    myrtle,
    rbf,
)
from skconvgp.kernels._capabilities import sample_network
from skconvgp.kernels._passes import n_passes
from tests.helpers.all_pairs import all_pairs_gram, waves
from tests.helpers.kernels import (
    assert_close,
    cross,
    deviations,
    diag,
    double,
    name,
    random_images,
)
from tests.helpers.published_pools import PUBLISHED


def conv(size=3, **settings) -> Conv2d:
    return Conv2d(size, weight_variance=2.0, bias_variance=0.1, **settings)


def around(size=3, **settings) -> Conv2d:
    return conv(size, padding="circular", **settings)


def blur(radius=1, step=1) -> AvgPool2d:
    return AvgPool2d(2 * radius + 1, stride=1, padding="same", dilation=step)


def closed(*layers) -> Sequential:
    return Sequential(*layers, Dense(1.5, bias_variance=0.2))


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_program_gives_the_same_values(name):
    network, expected, size = PUBLISHED[name]
    images = waves(3, 3, size, size)
    found = cross(network, images[:1], images)[0]
    assert_close(found, expected, rtol=1e-12)
    assert_close(diag(network, images[:1]), expected[:1], rtol=1e-12)


NETWORKS = [
    closed(GlobalAvgPool2d()),
    closed(conv(), ReLU(), GlobalAvgPool2d()),
    closed(conv(), ReLU(), GlobalAvgPool2d(2)),
    closed(conv(), ReLU(), GlobalAvgPool2d(5)),
    closed(conv(), ReLU(), blur(), Flatten()),
    closed(conv(), ReLU(), blur(1, step=2), Flatten()),
    closed(conv((2, 4)), LeakyReLU(0.2), AvgPool2d((3, 2), stride=(1, 2)), Flatten()),
    closed(conv(), ReLU(), AvgPool2d(2, padding=1), conv(), Erf(), GlobalAvgPool2d()),
    closed(blur(), ReLU(), conv(2, padding="valid"), ReLU(), blur(), Flatten()),
    closed(AvgPool2d(1, stride=2), ReLU(), conv(), ReLU(), GlobalAvgPool2d()),
    closed(conv(dilation=2), ReLU(), AvgPool2d(2), conv(), ReLU(), GlobalAvgPool2d()),
    closed(conv(3, stride=2), ReLU(), conv(3, padding=1), ReLU(), GlobalAvgPool2d()),
    closed(around(), ReLU(), around(2), ReLU(), GlobalAvgPool2d()),
    closed(around(), ReLU(), conv(), ReLU(), AvgPool2d(2), conv(), ReLU(), blur())
    .replace(layer8=Flatten()),
    closed(around(3, stride=2), ReLU(), conv(), ReLU(), GlobalAvgPool2d(2)),
    closed(conv(), ReLU(), AvgPool2d(2), around(), ReLU(), GlobalAvgPool2d()),
    closed(
        conv(), Residual(ReLU(), conv()), AvgPool2d(2), Residual(ReLU(), conv()),
        Sum(conv(1), Sequential(conv(), ReLU(), conv())), GlobalAvgPool2d(), ReLU(),
    ),
    closed(
        Sequential(conv(), Scale(ReLU(), 1.5)), AvgPool2d(1), AvgPool2d(2),
        MaxNormalization(conv(), mode="fixed", scale=3.0), ReLU(), blur(), Flatten(),
        Dense(), ReLU(),
    ),
]  # fmt: skip


@pytest.mark.parametrize("network", NETWORKS, ids=name)
def test_all_pairs_of_positions_give_the_same_covariances(network):
    images = random_images(3, 2, 6, 4)
    expected = all_pairs_gram(network, images)
    found = cross(network, images)
    assert_close(found, expected, rtol=1e-12)
    assert_close(diag(network, images), expected.diagonal().copy(), rtol=1e-12)
    crossed = cross(network, images[:1], images[1:])
    assert_close(crossed, expected[:1, 1:], rtol=1e-12)


def test_correlations_and_complete_kernels_of_networks_with_pools():
    images = random_images(4, 2, 4, 4)
    local = closed(conv(), ReLU(), blur(), Flatten())
    pooled = closed(conv(), ReLU(), AvgPool2d(2), ReLU(), GlobalAvgPool2d())
    first, second = cross(local, images), cross(pooled, images)
    assert_close(cross(Sum(local, pooled), images), first + second)
    assert_close(diag(Product(local, pooled), images), (first * second).diagonal())
    assert_close(
        cross(Scale(local, 2.0) * rbf(3.0), images).diagonal(), 2.0 * first.diagonal()
    )
    assert_close(cross(MaxNormalization(local), images), first / deviations(first))
    exact = MaxNormalization(pooled, mode="exact", scale=4.0)
    assert_close(cross(exact, images), second)


def test_activations_of_all_kinds_read_tables_at_both_positions():
    images = random_images(3, 2, 4, 4)

    def network(activation):
        return closed(conv(), activation, blur(), activation, GlobalAvgPool2d())

    exact = cross(network(Erf()), images)
    assert_close(cross(network(Elementwise(torch.erf)), images), exact, rtol=1e-5)
    series = cross(network(Elementwise(torch.tanh)), images)
    assert_close(series, cross(network(Tanh()), images), rtol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_lattice_of_the_size_of_the_map_is_flatten(dtype):
    images = random_images(3, 2, 4, 6).to(dtype)
    body = conv(), ReLU(), AvgPool2d(2), ReLU()
    flat = closed(*body, Flatten())
    for lattice in (3, 7):
        network = closed(*body, GlobalAvgPool2d(lattice))
        assert torch.equal(cross(network, images), cross(flat, images))
        assert torch.equal(diag(network, images), diag(flat, images))


def test_heads_that_average_over_everything_agree():
    images = random_images(3, 2, 4, 6)
    body = conv(), ReLU(), conv(), ReLU()
    expected = cross(closed(*body, GlobalAvgPool2d()), images)
    assert_close(cross(closed(*body, AvgPool2d((4, 6)), Flatten()), images), expected)
    halves = closed(*body, AvgPool2d(2), GlobalAvgPool2d())
    assert_close(cross(halves, images), expected)


def test_the_largest_window_averages_over_everything_at_each_position():
    images = random_images(3, 2, 4, 3)
    body = conv(), ReLU()
    largest = AvgPool2d((7, 5), stride=1, padding="same")
    expected = cross(Sequential(*body, GlobalAvgPool2d(), Dense()), images)
    found = cross(Sequential(*body, largest, Flatten(), Dense()), images)
    assert_close(found, expected * (4 * 3 / (7 * 5)) ** 2)


def test_global_average_of_circular_convolutions_is_a_mean_over_shifts():
    images = random_images(2, 1, 4, 3)
    body = around(), ReLU(), around(2), ReLU()
    shifted = torch.cat(
        [images.roll((row, col), (2, 3)) for row in range(4) for col in range(3)]
    )
    by_shift = cross(closed(*body, Flatten()), images, shifted).reshape(2, 12, 2)
    expected = by_shift.mean(1)
    assert_close(cross(closed(*body, GlobalAvgPool2d()), images), expected)


def test_matrices_are_symmetric_and_positive_semi_definite():
    images = random_images(8, 1, 5, 4)
    images[4:] = images[:4] + 1e-3 * images[4:]
    for head in ([GlobalAvgPool2d(3)], [blur(1, step=2), Flatten()]):
        gram = cross(closed(conv(), ReLU(), conv(), ReLU(), *head), images)
        assert_close(gram, gram.T)
        smallest = torch.linalg.eigvalsh((gram + gram.T) / 2.0)[0]
        assert float(smallest) > -1e-12 * float(gram.trace())


def test_single_precision_and_large_tiles():
    images = random_images(70, 1, 4, 4)
    network = closed(conv(), ReLU(), AvgPool2d(2), conv(), ReLU(), GlobalAvgPool2d())
    exact = cross(network, images)
    assert_close(exact[64:, :3], cross(network, images[64:], images[:3]))
    assert_close(diag(network, images), exact.diagonal())
    single = cross(network, images.float())
    assert single.dtype == torch.float64  # of the mean over all positions
    assert_close(single, exact, rtol=2e-6, scale=deviations(exact))


def test_flips_of_both_images_change_nothing_but_for_dropped_columns():
    images = random_images(3, 2, 4, 6)
    network = closed(conv(), ReLU(), AvgPool2d(2), conv(), ReLU(), blur(), Flatten())
    gram, flipped = cross(network, images), images.flip(-1)
    assert_close(cross(network, flipped), gram)
    expected = (gram + cross(network, images, flipped)) / 2.0
    assert_close(cross(FlipAverage(network), images), expected)
    assert_close(diag(FlipAverage(network), images), expected.diagonal())
    odd = FlipAverage(closed(conv(), ReLU(), AvgPool2d(2), Flatten()))
    with pytest.raises(ValueError, match=r"layer2.*leave out 1 of its columns"):
        odd.check((2, 4, 5))
    FlipAverage(closed(conv(), AvgPool2d(2), GlobalAvgPool2d())).check((2, 5, 4))


@pytest.mark.parametrize("kind", ["nngp", "ntk"])
@pytest.mark.parametrize(
    ("layers", "width"),
    [
        ([GlobalAvgPool2d(2)], 5),
        ([GlobalAvgPool2d(3)], 4),
        ([AvgPool2d(3, stride=2), conv(), ReLU(), GlobalAvgPool2d()], 5),
        ([Residual(conv(), ReLU(), conv()), AvgPool2d(2), Flatten()], 4),
        ([MaxNormalization(conv(), mode="fixed", scale=3.0), blur(), Flatten()], 4),
    ],
    ids=str,
)
def test_flip_averages_are_means_of_four_evaluations(layers, width, kind):
    network = closed(conv(), ReLU(), *layers).replace(kind=kind)
    kernel, images = FlipAverage(network), random_images(3, 2, 5, width)
    kernel.check((2, 5, width))
    both = images, images.flip(-1)
    four = [cross(network, one, two) for one in both for two in both]
    assert_close(cross(kernel, images), sum(four) / 4.0)
    assert_close(diag(kernel, images), (sum(four) / 4.0).diagonal())


def derivatives(kernel, images) -> torch.Tensor:
    """Return the derivatives (p, n, n) by `theta`, by differences."""
    theta, step = torch.as_tensor(kernel.theta), 1e-5
    return torch.stack(
        [
            (
                cross(kernel.with_theta(theta + move), images)
                - cross(kernel.with_theta(theta - move), images)
            )
            / (2.0 * step)
            for move in step * torch.eye(len(theta), dtype=torch.float64)
        ]
    )


DEEP = closed(conv(), ReLU(), AvgPool2d(2), conv(), ReLU(), GlobalAvgPool2d(), ReLU())


@pytest.mark.parametrize("mode", [TangentBackend, ReverseTangentBackend])
def test_derivatives_by_hyperparameters_forward_and_backward(mode):
    images = random_images(2, 1, 4, 4)
    expected = derivatives(DEEP, images)
    tangents = mode(DEEP)
    prepared = tangents.prepare(images)
    found = tangents.cross(prepared, prepared)[..., 1:].permute(2, 0, 1)
    assert_close(found, expected, rtol=1e-7, scale=expected.abs().max())
    by_diag = tangents.diag(prepared)[:, 1:]
    assert_close(by_diag, expected.diagonal(0, 1, 2).T, rtol=1e-7, scale=expected.max())
    weights = double([[0.3, -1.0], [0.7, 0.4]])
    pulled = ReversePullback(DEEP).pull(images, images.clone(), weights)
    by_theta = (expected * weights).sum((1, 2))
    assert_close(pulled.by_theta, by_theta, rtol=1e-7, scale=by_theta.abs().max())


def test_derivatives_by_images():
    images, others = random_images(1, 1, 4, 4), random_images(2, 1, 4, 4, seed=1)
    weights = double([[0.3, -1.0]])

    def value(one):
        return float((cross(DEEP, one, others) * weights).sum())

    found = ReversePullback(DEEP).pull(images, others, weights).by_one
    step = 1e-5
    for position in (0, 6, 15):
        move = torch.zeros(16, dtype=torch.float64)
        move[position] = step
        move = move.reshape(1, 1, 4, 4)
        difference = (value(images + move) - value(images - move)) / (2.0 * step)
        assert abs(float(found.reshape(-1)[position]) - difference) < 1e-8


def test_wide_random_networks_have_these_covariances():
    images = random_images(2, 1, 5, 4)
    generator = torch.Generator().manual_seed(0)
    body = conv(), ReLU(), AvgPool2d(3, stride=2, padding=1), conv(), ReLU()
    for head in ([GlobalAvgPool2d(2)], [blur(), Flatten()]):
        network = Sequential(*body, *head, Dense(2.0))
        expected = cross(network, images)
        draws = torch.cat(
            [
                sample_network(network, images, width=256, generator=generator)
                for _ in range(24)
            ],
            1,
        ).flatten(1)
        found = draws @ draws.T / draws.shape[1]
        assert_close(found, expected, rtol=0.1, scale=deviations(expected))


@dataclass(repr=False)
class Opaque(Layer):
    """Third-party activation that does not know of displacements."""

    is_spatial = False

    def out_shape(self, shape):
        return shape

    def image_pass(self, var):
        return var, None

    def pair_pass(self, maps, one, two):
        return maps


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ([AvgPool2d(7)], "a map of size 6x4: take a smaller window, or `GlobalAvg"),
        ([AvgPool2d((2, 5))], "does not fit into a map of size 6x4"),
        ([AvgPool2d(3, padding=2)], "`padding` must be an int from 0 to 1"),
        ([AvgPool2d(9, stride=1, padding="same")], "larger than a map of size 6x4"),
        ([AvgPool2d((2, 5), padding="same")], "larger than a map of size 6x4"),
        ([blur(2, step=2)], "larger than a map of size 6x4"),
        ([AvgPool2d((3, 1), padding=1)], "at most half a window along each axis"),
        ([AvgPool2d(3, padding="valid")], "`padding` must be 'same' or an int"),
        ([AvgPool2d(3, stride=0)], "`stride` must be an int from 1"),
        ([AvgPool2d((3, 3, 3))], r"`window` must be an int from 1 .* or a pair"),
        ([AvgPool2d(2, stride=9, padding=1, dilation=20)], "does not fit"),
        ([AvgPool2d(2, padding=3, dilation=7)], "has no position on a map"),
        ([GlobalAvgPool2d(0)], "`lattice` must be an int from 1 to"),
        ([GlobalAvgPool2d(1.5)], "`lattice` must be an int from 1 to"),
        ([Residual(ReLU(), blur())], "Put one pool into the chain"),
        ([Residual(ReLU(), AvgPool2d(2))], "Put one pool into the chain"),
        ([Sum(conv(), Sequential(conv(), blur()))], "Put one pool into the chain"),
        ([Sum(conv(), AvgPool2d(2))], "Put one pool into the chain"),
        ([AvgPool2d(2)] * 4, "leave it out, or put it where maps are larger"),
        ([Scale(blur(), 2.0)], "Put one pool into the chain"),
        ([Opaque(), blur()], "give its class the attribute `map_strides`"),
        ([conv(padding=3), blur()], "take less padding"),
        ([around(), conv(padding="valid"), blur()], "padding='circular'"),
        (
            [Sum(conv(1, stride=4), conv(1, stride=5)), AvgPool2d((2, 1), stride=1)],
            "same strides",
        ),
    ],
    ids=repr,
)
def test_networks_that_cannot_be_computed_say_why(layers, words):
    with pytest.raises(ValueError, match=words):
        closed(*layers, Flatten()).check((2, 6, 4))


def test_pools_work_in_chains_only():
    images = random_images(2, 1, 4, 4)
    network = closed(conv(), ReLU(), GlobalAvgPool2d())
    with pytest.raises(ValueError, match="take a network without pools"):
        literal_max_normalization(network, images, images)
    with pytest.raises(ValueError, match="only a `Sequential` computes"):
        AvgPool2d(2).image_pass(torch.ones(4, 4, 1))


NAMED = [
    myrtle(),
    convnet_gap(depth=2, lattice=2),
    convnet(depth=1, kernel_size=3, pooling="local", radius=1, step=2),
    convnet(depth=1, kernel_size=3, pooling="global"),
]


@pytest.mark.parametrize("kernel", NAMED, ids=repr)
def test_named_networks(kernel):
    images = random_images(3, 1, 4, 5)
    expected = all_pairs_gram(kernel.layers, images)
    assert_close(cross(kernel, images), expected, rtol=1e-12)
    assert_close(cross(kernel.unshared(), images), expected, rtol=1e-12)
    exact = MaxNormalization(kernel, mode="exact", scale=4.0)
    assert_close(cross(exact, images), expected, rtol=1e-12)


def test_layers_of_named_networks():
    assert myrtle().layers == PUBLISHED["two pools"][0]
    for depth in (7, 10):
        layers = myrtle(depth).layers.layers
        assert sum(isinstance(one, Conv2d | Dense) for one in layers) == depth
    assert convnet(depth=1, pooling="local", radius=1).layers.layers[2] == blur(1)
    assert convnet().layers.layers[-2] == Flatten()
    FlipAverage(convnet_gap(depth=1)).check((1, 4, 4))
    with pytest.raises(ValueError, match="leave out 1 of its columns"):
        FlipAverage(myrtle()).check((1, 8, 6))
    assert myrtle(np.int64(7)).layers == myrtle(7).layers


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (myrtle(6), "`depth` must be 5, 7 or 10, got 6"),
        (myrtle(pooling="max"), "`pooling` must be 'average', got 'max'"),
        (myrtle(weight_variance=(1.0, 2.0)), "shared_variances"),
        (convnet_gap(lattice=0), "`lattice` must be an int from 1 to"),
        (convnet_gap(0), "`depth` must be an int from 1 to"),
        (convnet(pooling="max"), "`pooling` must be 'global', 'local' or None"),
        (convnet(pooling="local", radius=0), "`radius` must be an int from 1 to"),
        (convnet(step=1.5), "`step` must be an int from 1 to"),
    ],
    ids=repr,
)
def test_settings_of_named_networks(kernel, words):
    with pytest.raises(ValueError, match=words):
        kernel.check((1, 8, 8))


@pytest.mark.parametrize(
    ("size", "words"),
    [
        ((8, 3), "4x4 pixels at least, got 8x3: take `convnet_gap`"),
        ((1, 1), "got 1x1: samples that are vectors .* the `image_shape` of rows"),
    ],
)
def test_images_that_are_too_small_to_be_halved_twice(size, words):
    for depth in (5, 7, 10):
        with pytest.raises(ValueError, match=words):
            myrtle(depth).check((1, *size))
        myrtle(depth).check((1, 4, 4))


def test_position_pairs_are_those_of_the_table_of_costs():
    n_positions = 16 * 16
    gap = closed(conv(), ReLU(), GlobalAvgPool2d())
    assert gap.n_position_pairs((1, 16, 16)) == n_positions**2
    sparse = closed(conv(), ReLU(), GlobalAvgPool2d(4))
    assert sparse.n_position_pairs((1, 16, 16)) == n_positions**2 // 16
    level = n_positions**2 // 16
    pairs = myrtle().n_position_pairs((1, 16, 16))
    assert pairs == n_positions**2 + level + level // 16
    assert FlipAverage(gap).n_position_pairs((1, 16, 16)) == 2 * n_positions**2
    assert (gap * gap + 2.0 * gap).n_position_pairs((1, 16, 16)) == 3 * n_positions**2
    assert rbf(1.0).n_position_pairs((1, 16, 16)) == 1
    assert MaxNormalization(closed(Flatten())).n_position_pairs((1, 3, 2)) == 6


@dataclass(repr=False)
class Filtered(Kernel):
    """A kernel of a user, whose attributes have the names of others."""

    filter: float = 2.0
    parts = 4

    @property
    def kernel(self):
        return np.ones(3)

    is_spatial = False

    def check(self, image_shape):
        pass

    def n_positions(self, image_shape):
        return 1

    def prepare(self, images):
        return images.flatten(1).mT * self.filter

    def cross(self, one, two):
        return one.mT @ two

    def diag(self, one):
        return (one * one).sum(0)


def test_kernels_of_users_may_have_attributes_of_any_names():
    images = np.random.default_rng(0).random((4, 2, 3))
    rows = 2.0 * images.reshape(4, -1)
    gram = gram_matrix(Filtered(), images, image_shape=(2, 3), dtype="float64")
    np.testing.assert_allclose(gram, rows @ rows.T, rtol=1e-12)
    assert gram_matrix(Filtered(), images, image_shape=(2, 3)).shape == (4, 4)


def test_passes_count_the_layers_of_each_displacement():
    shape = 1, 16, 16
    assert n_passes(rbf(1.0), (4, 1, 1)) == 1
    assert n_passes(closed(*(conv(), ReLU()) * 4, Flatten()), shape) == 5
    gap = closed(*(conv(), ReLU()) * 20, GlobalAvgPool2d())
    assert n_passes(gap, shape) == 20 * 16**2
    assert n_passes(gap, shape, 2 * 16**2) == 10 * 16**2
    assert n_passes(FlipAverage(gap), shape) == 40 * 16**2
    flat = closed(*(conv(), ReLU()) * 4, Flatten())
    assert n_passes(FlipAverage(gap) + 2.0 * flat, shape) == 40 * 16**2 + 5
    assert n_passes(MaxNormalization(gap), shape) == 20 * 16**2
    # Two layers at all pairs of positions, one each at a sixteenth and a 256th of them,
    # are 1.93 layers at 1.07 times as many pairs, of which means are rounded up.
    assert n_passes(myrtle(), shape) == 2 * (16**2 + 16 + 1)
