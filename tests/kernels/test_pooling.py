"""Networks that average over positions."""

import numpy as np
import pytest
import torch

from skconvgp.kernels import (
    AvgPool2d,
    Conv2d,
    Dense,
    Elementwise,
    Erf,
    Flatten,
    FlipAverage,
    GlobalAvgPool2d,
    Identity,
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
    literal_max_normalization,
    rbf,
)
from tests.helpers.all_pairs import all_pairs_gram, waves
from tests.helpers.kernels import (
    assert_close,
    cross,
    deviations,
    diag,
    load_forward_mode,
    name,
    random_images,
)


def conv(size=3, **settings) -> Conv2d:
    return Conv2d(size, weight_variance=2.0, bias_variance=0.1, **settings)


def around(size=3, **settings) -> Conv2d:
    return conv(size, padding="circular", **settings)


def blur(radius=1, step=1) -> AvgPool2d:
    return AvgPool2d(2 * radius + 1, stride=1, padding="same", dilation=step)


def closed(*layers) -> Sequential:
    return Sequential(*layers, Dense(1.5, bias_variance=0.2))


THIN = Conv2d(3, weight_variance=2.0)
VALUES = {  # of neural-tangents 0.6.5, except those of the lattice
    "A": (
        [THIN, ReLU(), THIN, ReLU(), AvgPool2d(2), THIN, ReLU(), AvgPool2d(2)]
        + [THIN, ReLU(), GlobalAvgPool2d(), Dense(2.0)],
        (0.0985326175019, 0.0966666442701, 0.0937925918454),
        8,
    ),
    "B": (
        [*(conv(), ReLU()) * 3, GlobalAvgPool2d(), Dense(2.0, bias_variance=0.1)],
        (0.7099801241570, 0.7002455598371, 0.6832248632315),
        8,
    ),
    "C": (
        [conv(), ReLU(), AvgPool2d(3, stride=2), conv(), ReLU(), Flatten()]
        + [Dense(1.5, bias_variance=0.2)],
        (0.7117552959394, 0.6577257741092, 0.5546890998509),
        9,
    ),
    "D": (
        [conv(), ReLU(), AvgPool2d(2), conv(), ReLU(), GlobalAvgPool2d()]
        + [Dense(1.5, bias_variance=0.2)],
        (0.5256832523836, 0.4864411210627, 0.4531474662775),
        7,
    ),
    "E": (
        [*(conv(), ReLU()) * 3, GlobalAvgPool2d(2), Dense(2.0, bias_variance=0.1)],
        (0.7195719673570, 0.7087061481134, 0.6895080285403),
        8,
    ),
    "F": (
        [*(conv(), ReLU()) * 2, AvgPool2d(4), Flatten(), Dense(1.5, bias_variance=0.2)],
        (0.7272954290313, 0.6916825260992, 0.6103350891695),
        8,
    ),
}


@pytest.mark.parametrize("letter", VALUES)
def test_published_program_gives_the_same_values(letter):
    layers, expected, size = VALUES[letter]
    network = Sequential(*layers)
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
    closed(conv(3, dilation=2), ReLU(), AvgPool2d(2), conv(), ReLU(), GlobalAvgPool2d()),
    closed(conv(3, stride=2), ReLU(), conv(2, padding=1), ReLU(), GlobalAvgPool2d()),
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
