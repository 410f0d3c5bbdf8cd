"""Averages over flips from tiles of the fused backend."""

import re

import pytest
import torch

from skconvgp.augmentation import Shift
from skconvgp.backends import TangentBackend, choose_backend
from skconvgp.backends._orbits import STRIP, OrbitBackend, averages_outside
from skconvgp.kernels import (
    FlipAverage,
    MaxNormalization,
    OrbitAverage,
    convnet,
    dense,
    rbf,
    residual_convnet,
)
from skconvgp.kernels._prepared import take
from tests.helpers.fused import (
    BOUNDS,
    TANGENT_BOUNDS,
    assert_within,
    both_dtypes,
    hard_images,
    needs_extension,
    reference,
    tile,
    variances,
)
from tests.helpers.kernels import random_images

pytestmark = needs_extension
SHAPE = (1, 9, 7)
ONE = convnet(depth=3, kernel_size=3)
TWO = residual_convnet(depth=2, kernel_size=3).unshared()
KERNELS = [
    FlipAverage(ONE),
    FlipAverage(TWO),
    0.3 * FlipAverage(ONE),
    FlipAverage(ONE) + 2.0 * (0.5 * FlipAverage(TWO) + FlipAverage(dense(depth=1))),
    FlipAverage(MaxNormalization(ONE)),
    MaxNormalization(0.3 * FlipAverage(ONE)),
]
every_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)


def choose(kernel):
    kernel.check(SHAPE)
    choice = choose_backend(kernel, SHAPE, "fused", torch.device("cpu"))
    assert (choice.name, choice.kernel) == ("fused", kernel)
    return choice


@both_dtypes
@every_kernel
def test_values_are_those_of_torch(kernel, dtype):
    given = hard_images(SHAPE).to(dtype)
    backend = choose(kernel).tiles()
    expected, diag = reference(kernel, given)
    assert_within(tile(backend, given), expected, diag, BOUNDS[dtype])
    assert_within(variances(backend, given).diag(), diag.diag(), diag, BOUNDS[dtype])
    upper = backend.gram(backend.prepare(given)).triu(1)
    assert_within(upper, expected.triu(1), diag, BOUNDS[dtype])


@both_dtypes
@every_kernel
def test_derivatives_are_those_of_torch(kernel, dtype):
    given = hard_images(SHAPE)[4:8].to(dtype)
    backend, exact = choose(kernel).tangents(), TangentBackend(kernel)
    expected, diag = tile(exact, given.double()), variances(exact, given.double())
    assert expected.shape == (4, 4, 1 + len(kernel.theta))
    scale, bound = diag[:, 0], 2.0 * TANGENT_BOUNDS[dtype]
    assert_within(tile(backend, given), expected, scale, bound)
    found = variances(backend, given)
    assert_within(on_diagonal(found), on_diagonal(diag), scale, bound)


def on_diagonal(values):
    """Return (n, n, q) matrices of values (n, q)."""
    return values.mT.diag_embed().movedim(0, -1)


def test_tables_are_not_changed_and_strips_make_the_whole():
    images = random_images(2 * STRIP + 5, *SHAPE)
    backend = choose(KERNELS[0]).tiles()
    tree = backend.prepare(images)
    whole, diag = backend.cross(tree, tree), backend.diag(tree)
    upper = torch.ones_like(whole, dtype=torch.bool).triu(1)
    assert torch.equal(backend.gram(tree)[upper], whole[upper])
    assert torch.equal(backend.diag(tree), diag)
    part = slice(3, STRIP + 1)
    assert torch.equal(backend.diag(take(tree, part)), diag[part])


def test_bytes_of_both_tables_are_counted():
    for kind in ("tiles", "tangents"):
        backend = getattr(choose(KERNELS[0]), kind)()
        assert isinstance(backend, OrbitBackend)
        image = hard_images(SHAPE)[:1]
        inner, costs = backend.backend.measure(image), backend.measure(image)
        assert costs.image_bytes == 2 * inner.image_bytes
        assert costs.pair_bytes > inner.pair_bytes
        assert costs.value_shape == inner.value_shape


def test_averages_come_to_the_outside_with_their_hyperparameters_in_order():
    kernel = KERNELS[3]
    outside = averages_outside(kernel)
    assert type(outside) is FlipAverage
    assert outside.theta.tolist() == kernel.theta.tolist()
    mixed = FlipAverage(ONE) + TWO
    assert averages_outside(mixed) is mixed


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (FlipAverage(rbf(1.0)), "no fused kernels for rbf"),
        (FlipAverage(ONE) + rbf(1.0), "FlipAverage.*only fused if"),
    ],
    ids=["all of it", "a term"],
)
def test_the_reason_is_told_if_torch_computes(kernel, reason):
    choice = choose_backend(kernel, SHAPE, "auto", torch.device("cpu"))
    assert choice.name == "torch"
    assert re.search(reason, choice.reason)


@both_dtypes
@pytest.mark.parametrize(
    "kernel",
    [
        OrbitAverage(TWO),
        OrbitAverage(residual_convnet(depth=2), "quarter_turns"),
        0.3 * OrbitAverage(convnet(1), Shift(1)) + OrbitAverage(dense(1), Shift(1)),
        OrbitAverage(MaxNormalization(TWO), [torch.abs]),
    ],
    ids=["layers", "turns", "sum of shifts", "function"],
)
def test_values_and_derivatives_of_other_orbits_are_those_of_torch(kernel, dtype):
    shape = (1, 5, 5)
    given = hard_images(shape)[4:8].to(dtype)
    kernel.check(shape)
    choice = choose_backend(kernel, shape, "fused", torch.device("cpu"))
    backend = choice.tiles()
    expected, diag = reference(kernel, given)
    assert_within(tile(backend, given), expected, diag, BOUNDS[dtype])
    assert_within(variances(backend, given).diag(), diag.diag(), diag, BOUNDS[dtype])
    upper = backend.gram(backend.prepare(given)).triu(1)
    assert_within(upper, expected.triu(1), diag, BOUNDS[dtype])
    backend, exact = choice.tangents(), TangentBackend(kernel)
    expected, diag = tile(exact, given.double()), variances(exact, given.double())
    scale, bound = diag[:, 0], 2.0 * TANGENT_BOUNDS[dtype]
    assert_within(tile(backend, given), expected, scale, bound)
    found = variances(backend, given)
    assert_within(on_diagonal(found), on_diagonal(diag), scale, bound)


def test_averages_over_other_maps_stay_apart():
    mixed = OrbitAverage(ONE, "flips") + OrbitAverage(TWO, "symmetries")
    assert averages_outside(mixed) is mixed
    alike = OrbitAverage(ONE, "flips") + 2.0 * OrbitAverage(TWO, "flips")
    assert averages_outside(alike) == OrbitAverage(ONE + 2.0 * TWO, "flips")
