"""Batches: different samples, each class in each part."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skconvgp.flows._batches import Batches, spread_order
from tests.helpers.oracles import seeded

CODES = torch.tensor([0] * 50 + [1] * 30 + [2] * 15 + [3] * 5)


def drawn(size, codes=CODES, seed=0):
    return Batches(len(CODES), codes, seeded(seed)).draw(size)


class_codes = st.lists(st.integers(0, 4), min_size=1, max_size=60).map(torch.tensor)


@given(class_codes, st.integers(0, 1000))
@settings(deadline=None, max_examples=60)
def test_order_holds_everything_once(codes, seed):
    order = spread_order(codes, seeded(seed))
    assert sorted(order.tolist()) == list(range(len(codes)))


@given(class_codes, st.integers(0, 1000))
@settings(deadline=None, max_examples=60)
def test_every_beginning_holds_each_class_in_its_share(codes, seed):
    ordered = codes[spread_order(codes, seeded(seed))]
    n, n_classes = len(codes), len(torch.unique(codes))
    assert len(torch.unique(ordered[:n_classes])) == n_classes
    for code in torch.unique(codes):
        is_member = ordered == code
        share = float(is_member.sum()) / n
        for size in range(n_classes, n + 1):
            # one by rounding, and as many as the first ones of each class delay
            allowed = 1.0 + share * n_classes
            assert abs(int(is_member[:size].sum()) - share * size) <= allowed


@pytest.mark.parametrize("size", [4, 20, 57, 100])
def test_batches_hold_different_samples(size):
    indices = drawn(size).indices
    assert len(drawn(size)) == len(set(indices.tolist())) == size
    assert set(indices.tolist()) <= set(range(100))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("size", [20, 40])
def test_classes_have_their_share_of_batch_and_sample(size, seed):
    codes = CODES[drawn(size, seed=seed).indices]
    for n in (size // 2, size):
        counts = torch.bincount(codes[:n], minlength=4)
        assert (counts >= 1).all()
        shares = torch.tensor([0.5, 0.3, 0.15, 0.05]) * n
        assert (counts - shares).abs().max() <= 2.0


def test_each_sample_has_its_turn():
    batches = Batches(100, CODES, seeded())
    counts = torch.zeros(100)
    firsts = torch.zeros(100)
    for _ in range(600):
        indices = batches.draw(20).indices
        counts[indices] += 1
        firsts[indices[:10]] += 1
    for code, size in enumerate((50, 30, 15, 5)):
        for seen in (counts, firsts):
            own = seen[code == CODES]
            assert float(own.min()) > 0.5 * float(own.mean())
            assert float(own.max()) < 1.5 * float(own.mean())
        assert float(counts[code == CODES].sum()) / 12000 == pytest.approx(
            max(size / 100, 0.05), abs=0.03
        )


def test_without_classes_every_sample_is_as_likely():
    batches = Batches(100, None, seeded())
    counts = torch.zeros(100)
    for _ in range(600):
        counts[batches.draw(20).indices] += 1
    assert float(counts.min()) > 80
    assert float(counts.max()) < 160


@pytest.mark.parametrize("codes", [CODES, None])
def test_the_generator_decides(codes):
    one, again, other = (drawn(30, codes, seed).indices for seed in (1, 1, 2))
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    batches = Batches(len(CODES), codes, seeded(1))
    assert not torch.equal(batches.draw(30).indices, batches.draw(30).indices)


@pytest.mark.parametrize("codes", [CODES, None])
def test_batch_of_all_samples(codes):
    assert sorted(drawn(100, codes).indices.tolist()) == list(range(100))
