"""The comparison of Markov chains."""

import numpy as np
import pytest

from skconvgp.metrics import split_rhat


def test_halves_are_compared_by_their_variances():
    draws = np.random.default_rng(0).normal(size=(3, 7, 2))
    draws[..., 1] = 1.0
    halves = [chain[part, 0] for chain in draws for part in (slice(3), slice(4, 7))]
    within = np.mean([np.var(half, ddof=1) for half in halves])
    between = 3.0 * np.var([np.mean(half) for half in halves], ddof=1)
    expected = np.sqrt((2.0 / 3.0 * within + between / 3.0) / within)
    found = split_rhat(draws)
    np.testing.assert_allclose(found[0], expected)
    assert np.isnan(found[1])


def test_chains_that_drift_or_differ_are_seen():
    draws = np.random.default_rng(0).normal(size=(4, 200))
    assert split_rhat(draws) < 1.05
    assert split_rhat(draws + np.arange(4.0)[:, None]) > 1.2
    assert split_rhat(draws + np.linspace(0.0, 3.0, 200)) > 1.2
    with pytest.raises(ValueError, match=r"4 draws or more.*\(4, 3\)"):
        split_rhat(draws[:, :3])
