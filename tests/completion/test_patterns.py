"""Which entries are evaluated: how many, where, and what is held out."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from skconvgp.completion._patterns import PATTERNS, draw_pattern, evaluate
from skconvgp.exceptions import CompletionError
from tests.helpers.oracles import PlainOracle, low_rank, seeded

every_pattern = pytest.mark.parametrize("name", PATTERNS)


def n_pairs(n):
    return n * (n - 1) // 2


def drawn(name, n, fraction, check_fraction=0.05, seed=0):
    return draw_pattern(name, n, fraction, check_fraction, seeded(seed))


def off_diagonal(mask):
    return mask & ~torch.eye(len(mask), dtype=torch.bool)


@every_pattern
@given(
    n=st.integers(3, 90),
    fraction=st.floats(0.01, 1.0),
    check_fraction=st.floats(0.001, 0.5),
    seed=st.integers(0, 1000),
)
@settings(max_examples=60, deadline=None)
def test_patterns_keep_to_the_fraction(name, n, fraction, check_fraction, seed):
    try:
        pattern = drawn(name, n, fraction, check_fraction, seed)
    except CompletionError as error:
        smallest = float(re.findall(r"is ([\d.]+)\.$", str(error))[0])
        assert fraction < smallest <= 1.0
        pattern = drawn(name, n, smallest, check_fraction, seed)
        fraction = smallest
    mask = pattern.mask()
    held_out = torch.zeros_like(mask)
    held_out[pattern.check()] = True
    assert torch.equal(mask, mask.mT)
    assert bool(mask.diagonal().all())
    n_observed = int(mask.triu(1).sum())
    assert n_observed <= fraction * n_pairs(n) * (1 + 1e-9)
    assert int(held_out.sum()) <= check_fraction * fraction * n_pairs(n) * (1 + 1e-9)
    assert bool((held_out <= mask.triu(1)).all())
    kept = mask & ~(held_out | held_out.mT)
    assert bool(off_diagonal(kept).any(1).all())
    reached = np.linalg.matrix_power(kept.double().numpy(), n) > 0
    assert reached.all()  # every sample is connected with every other


@every_pattern
@pytest.mark.parametrize("n", [47, 150])
@pytest.mark.parametrize("fraction", [0.2, 0.5])
def test_patterns_use_nearly_all_that_is_allowed(name, n, fraction):
    pattern = drawn(name, n, fraction)
    n_observed = int(pattern.mask().triu(1).sum())
    allowed = fraction * n_pairs(n)
    # One landmark or one tile is what may be left over.
    assert allowed - n < n_observed <= allowed
    assert len(pattern.check()[0]) == pytest.approx(0.05 * allowed, rel=0.25)


@every_pattern
@pytest.mark.parametrize("n", [1, 2, 3, 40])
def test_all_entries(name, n):
    pattern = drawn(name, n, 1.0)
    assert bool(pattern.mask().all())


@every_pattern
@pytest.mark.parametrize("fraction", [0.2, 1.0])
def test_only_the_entries_of_a_pattern_are_asked_for(name, fraction):
    n = 61
    oracle = PlainOracle(low_rank(n, 3, noise=0.1))
    pattern = drawn(name, n, fraction)
    entries = evaluate(oracle, pattern)
    asked = (oracle.asked | oracle.asked.mT).fill_diagonal_(True)
    assert torch.equal(asked, pattern.mask())
    assert oracle.n_evaluated == entries.n_evaluated


@every_pattern
def test_entries_are_those_of_the_matrix(name):
    gram = low_rank(50, 3, noise=0.1)
    entries = evaluate(PlainOracle(gram), drawn(name, 50, 0.3))
    rows, cols = entries.check_rows, entries.check_cols
    assert torch.equal(entries.check_values, gram[rows, cols])
    assert not bool(entries.mask[rows, cols].any() | entries.mask[cols, rows].any())
    assert torch.equal(entries.values, gram * entries.mask)
    entries.put_back_()
    assert bool(entries.mask[rows, cols].all() & entries.mask[cols, rows].all())
    assert torch.equal(entries.values, gram * entries.mask)


def test_landmarks_are_whole_rows_and_the_check_lies_outside():
    pattern = drawn("landmarks", 200, 0.2)
    mask = pattern.mask()
    is_landmark = mask.all(1)
    share = float(is_landmark.double().mean())
    # docs/maths.rst, "Entries that are known", of 95 % of the entries
    assert share == pytest.approx(1 - (1 - 0.2 * 0.95) ** 0.5, abs=1 / 200)
    rows, cols = pattern.check()
    assert not bool((is_landmark[rows] | is_landmark[cols]).any())
    others = mask[~is_landmark][:, ~is_landmark]
    assert int(others.triu(1).sum()) == len(rows)


def test_blocks_are_tiles_of_random_samples():
    pattern = drawn("blocks", 500, 0.2)
    side = int(pattern.sizes[0])
    assert side > 4
    assert 500 % side  # the last tiles are ragged
    ordered = pattern.mask()[pattern.order][:, pattern.order]
    tile = ordered[:side, 2 * side : 3 * side]
    assert bool((tile == tile[0, 0]).all())
    assert not torch.equal(pattern.order, torch.arange(500))
    assert not torch.equal(pattern.mask(), drawn("blocks", 500, 0.2, seed=1).mask())


def test_random_entries_are_spread_evenly():
    counts = sum(
        drawn("random", 12, 0.5, seed=seed).mask().double() for seed in range(500)
    )
    shares = off_diagonal(torch.ones(12, 12, dtype=torch.bool)) * counts / 500
    allowed = int(0.5 * n_pairs(12)) / n_pairs(12)
    upper = shares[torch.triu_indices(12, 12, 1).unbind()]
    # Five standard deviations of a share of 500 draws.
    assert float((upper - allowed).abs().max()) < 5 * (0.25 / 500) ** 0.5


@every_pattern
def test_not_finite_entries_are_refused(name):
    gram = low_rank(30, 3, noise=0.1)
    gram[:, 4] = gram[4, :] = torch.nan
    with pytest.raises(CompletionError, match="not finite"):
        evaluate(PlainOracle(gram), drawn(name, 30, 0.5))


def test_not_finite_variances_are_refused():
    gram = low_rank(30, 3)
    gram[2, 2] = torch.inf
    with pytest.raises(CompletionError, match="1 of 30 covariances are not finite"):
        evaluate(PlainOracle(gram), drawn("random", 30, 0.3))
