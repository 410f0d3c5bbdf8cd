"""Any way of cutting pulls back what one big tile pulls back."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skconvgp.backends import ReversePullback
from skconvgp.engine import FactoredWeights, pull_back
from skconvgp.exceptions import TileMemoryError
from skconvgp.kernels import convnet
from tests.helpers.kernels import random_images
from tests.helpers.tiles import (
    PlacePullback,
    config,
    numbered_images,
    run_in_threads,
    run_shuffled,
    small_pullback,
)

KERNEL = convnet(depth=2, kernel_size=3)


def random_weights(n_rows, n_cols):
    generator = torch.Generator().manual_seed(2)
    return torch.randn(n_rows, n_cols, generator=generator, dtype=torch.float64)


def whole_weights(n_rows, n_cols):
    """Return weights of which sums are exact."""
    generator = torch.Generator().manual_seed(2)
    return torch.randint(-9, 9, (n_rows, n_cols), generator=generator).double()


@settings(deadline=None, max_examples=60)
@given(
    n=st.integers(1, 24),
    n_others=st.integers(1, 24),
    block=st.integers(1, 27),
    tile=st.integers(1, 27),
    n_workers=st.integers(1, 3),
    runner=st.sampled_from([run_shuffled, run_in_threads]),
)
def test_every_weight_is_pulled_back_to_its_place(
    n, n_others, block, tile, n_workers, runner
):
    images, others = numbered_images(n), numbered_images(n_others)
    x, y = images[:, 0, 0, 0], others[:, 0, 0, 0]
    weights, square = whole_weights(n, n_others), whole_weights(n, n)
    place = config(n_workers=n_workers)
    with small_pullback(block, tile):
        by_theta, by_rows = pull_back(
            PlacePullback(), images, others, weights, place, runner
        )
        assert by_theta.tolist() == [float(x @ weights @ y)]
        assert torch.equal(by_rows[:, 0, 0, 0], weights @ y)
        by_theta, by_rows = pull_back(
            PlacePullback(), images, None, square, place, runner
        )
    assert by_theta.tolist() == [float(x @ square @ x)]
    assert torch.equal(by_rows[:, 0, 0, 0], (square + square.mT) @ x)


@pytest.mark.parametrize("block", [3, 7, 40])
def test_factored_weights_are_those_of_their_matrix(block):
    images = numbered_images(23)
    factored = FactoredWeights(
        whole_weights(23, 4), whole_weights(4, 23).mT, whole_weights(1, 23)[0]
    )
    dense = factored.left @ factored.right.mT + factored.diag.diag()
    with small_pullback(block, 3):
        found, expected = (
            pull_back(PlacePullback(), images, None, weights, config())
            for weights in (factored, dense)
        )
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("memory_budget", [1400, 3000, 10**6])
def test_a_small_budget_pulls_back_the_same(memory_budget):
    images, square = numbered_images(23), whole_weights(23, 23)
    x = images[:, 0, 0, 0]
    by_theta, by_rows = pull_back(
        PlacePullback(), images, None, square, config(memory_budget=memory_budget)
    )
    assert by_theta.tolist() == [float(x @ square @ x)]
    assert torch.equal(by_rows[:, 0, 0, 0], (square + square.mT) @ x)


def test_a_budget_too_small_for_a_pair_is_refused():
    images = numbered_images(3)
    with pytest.raises(TileMemoryError, match=r"needs .* bytes for each of 2 blocks"):
        pull_back(
            PlacePullback(),
            images,
            None,
            whole_weights(3, 3),
            config(memory_budget=200, n_workers=2),
        )


@pytest.mark.parametrize("is_symmetric", [True, False])
@pytest.mark.parametrize("runner", [run_shuffled, run_in_threads])
def test_sums_have_one_order_however_the_blocks_run(runner, is_symmetric):
    images = random_images(23, 1, 5, 6)
    others = None if is_symmetric else random_images(17, 1, 5, 6, seed=1)
    weights = random_weights(23, 23 if is_symmetric else 17)
    backend = ReversePullback(KERNEL)
    with small_pullback(7, 3):
        serial = pull_back(backend, images, others, weights, config())
        other = pull_back(backend, images, others, weights, config(n_workers=3), runner)
    for expected, got in zip(serial, other, strict=True):
        assert torch.equal(expected, got)


@pytest.mark.parametrize("is_symmetric", [True, False])
def test_progress_only_grows_and_ends_at_the_number_of_pairs(is_symmetric):
    calls = []
    images, others = numbered_images(23), numbered_images(17)
    weights = whole_weights(23, 23 if is_symmetric else 17)
    with small_pullback(7, 3):
        pull_back(
            PlacePullback(),
            images,
            None if is_symmetric else others,
            weights,
            config(),
            run_shuffled,
            lambda done, total: calls.append((done, total)),
        )
    n_pairs = 23 * 24 // 2 if is_symmetric else 23 * 17
    done = [pairs for pairs, _ in calls]
    assert done == sorted(set(done))
    assert len(calls) == 1 + (10 if is_symmetric else 12)
    assert calls[-1] == (n_pairs, n_pairs)
