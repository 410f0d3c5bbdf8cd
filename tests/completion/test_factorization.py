"""Factorisation: the updates of rows, the objective, restarts."""

import numpy as np
import pytest
import torch

from skconvgp.completion import MatrixFactorization
from skconvgp.completion._observed import MOST_COLS, MOST_GROUPS, Filled, Observed
from skconvgp.completion._patterns import PATTERNS, draw_pattern, evaluate
from skconvgp.completion._regression import solve_rows, sweep_rows
from tests.helpers.oracles import PlainOracle, low_rank, seeded, smooth
from tests.helpers.tolerances import assert_close

RIDGE = 0.3
each_pattern = pytest.mark.parametrize("pattern", PATTERNS)
each_algorithm = pytest.mark.parametrize("algorithm", ["als", "elementwise"])


def problem(pattern="blocks", n=140, rank=4):
    drawn = draw_pattern(pattern, n, 0.4, 0.05, seeded())
    entries = evaluate(PlainOracle(smooth(n)[0]), drawn)
    one, two = torch.randn(2, n, rank, generator=seeded(1), dtype=torch.float64)
    return entries, one, two


def objective(entries, left, right):
    misfit = (entries.values - left @ right.mT) * entries.mask
    return float(misfit.square().sum() + RIDGE * (left.square() + right.square()).sum())


@each_pattern
def test_row_update_is_a_ridge_solve(pattern):
    entries, _, right = problem(pattern)
    made = solve_rows(Observed.of(entries), right, RIDGE)
    for row, mask, values in zip(made, entries.mask, entries.values, strict=True):
        known = right[mask]
        system = known.mT @ known + RIDGE * torch.eye(4)
        assert_close(
            row, torch.linalg.solve(system, known.mT @ values[mask]), kind="solve"
        )


@each_pattern
def test_elementwise_update_is_that_of_the_paper(pattern):
    entries, left, right = problem(pattern)
    made = sweep_rows(Observed.of(entries), right, left, RIDGE)
    expected = left.numpy().copy()
    V, K = right.numpy(), entries.values.numpy()
    for r, mask in enumerate(entries.mask.numpy()):
        for s in range(4):
            others = [k for k in range(4) if k != s]
            rest = K[r, mask] - V[mask][:, others] @ expected[r, others]
            v = V[mask, s]
            expected[r, s] = (v @ rest) / (v @ v + RIDGE)
    assert_close(made, expected, kind="solve")


@each_pattern
@each_algorithm
def test_objective_never_increases(algorithm, pattern):
    entries, left, right = problem(pattern)
    method = MatrixFactorization(algorithm=algorithm)
    known = Observed.of(entries)
    values = [objective(entries, left, right)]
    for _ in range(15):
        left = method._update(known, RIDGE, right, left)
        values.append(objective(entries, left, right))
        right = method._update(known, RIDGE, left, right)
        values.append(objective(entries, left, right))
    assert (np.diff(values) <= 1e-12 * values[0]).all()
    assert values[-1] < 0.9 * values[2]


@each_pattern
def test_observed_entries_are_gathered(pattern):
    entries, left, right = problem(pattern)
    known = Observed.of(entries)
    values = entries.values * entries.mask
    assert torch.equal(known.dense(), values)
    assert_close(known @ right, values @ right, kind="solve")
    misfit = (entries.values - left @ right.mT) * entries.mask
    assert_close(known.minus(left, right).dense(), misfit, kind="solve")
    left, right = torch.cat([left, right], 1), torch.cat([right, left], 1)
    filled = Filled.of(known, left, right)
    expected = torch.where(entries.mask, entries.values, left @ right.mT)
    assert_close(filled.dense(), expected, kind="solve")
    assert_close(filled @ right, expected @ right, kind="solve")


@pytest.mark.parametrize(("n", "fraction"), [(140, 0.05), (140, 0.4), (700, 0.05)])
def test_single_samples_are_worked_on_together(n, fraction):
    drawn = draw_pattern("random", n, fraction, 0.05, seeded())
    blocks = Observed.of(evaluate(PlainOracle(smooth(n)[0]), drawn)).blocks
    samples = torch.cat([block.rows.flatten() for block in blocks])
    assert sorted(samples.tolist()) == list(range(n))
    n_cols = max(block.cols.shape[1] for block in blocks)
    assert len(blocks) <= 1 + n / min(MOST_GROUPS, MOST_COLS // n_cols)
    assert max(block.cols.numel() for block in blocks) <= MOST_COLS
    assert any(float(block.is_col.min()) == 0.0 for block in blocks)  # of other lengths


@each_algorithm
def test_ridge_shrinks_what_is_all_observed(algorithm):
    # |K - U V^T|^2 + ridge (|U|^2 + |V|^2) is least where eigenvalues lose the ridge.
    gram = torch.diag(torch.tensor([4.0, 3.0, 2.0, 1.0]).double())
    method = MatrixFactorization(
        4, algorithm=algorithm, ridge=0.2, rtol=1e-13, max_iter=5000
    )
    result = method.complete(PlainOracle(gram), 1.0, seeded())
    expected = (gram.diagonal() - 0.2 * 2.5).diag()
    assert_close(result.factor @ result.factor.mT, expected, kind="root")


@pytest.mark.parametrize("n", [60, pytest.param(100, marks=pytest.mark.slow)])
def test_restarts_are_no_worse(n):
    gram, _ = smooth(n)
    changes = [
        MatrixFactorization(8, pattern="random", max_iter=15, n_restarts=n)
        .complete(PlainOracle(gram), 0.2, seeded(2))
        .stats["observed_change"]
        for n in (1, 6)
    ]
    assert changes[1] < changes[0]


def test_mean_may_be_negative():
    factor = torch.randn(80, 2, generator=seeded(4), dtype=torch.float64)
    factor[::2] = -factor[1::2]
    gram = factor @ factor.mT
    assert float(gram.mean()) < 1e-12
    result = MatrixFactorization(2, ridge=1e-9).complete(
        PlainOracle(gram), 0.5, seeded()
    )
    assert result.relative_rmse < 1e-4


@pytest.mark.parametrize("seed", [0, 20, 38, 68, 73])  # where that led away
def test_acceleration_leads_to_no_other_minimum(seed):
    x = torch.randn(60, 4, generator=seeded(seed), dtype=torch.float64)
    oracle = PlainOracle(torch.exp(-0.5 * torch.cdist(x, x).square()))
    completion = MatrixFactorization(pattern="landmarks")
    result = completion.complete(oracle, 0.0351, seeded(seed))
    landmark = int((oracle.asked | oracle.asked.mT).sum(0).argmax())
    made = result.factor @ result.factor[landmark]
    assert made[landmark].item() == pytest.approx(1.0, abs=0.01)


def test_wrong_settings_are_refused():
    for settings, allowed in [
        ({"algorithm": "sgd"}, "one of 'als', 'elementwise'"),
        ({"ridge": 0.0}, "a number > 0"),
        ({"n_restarts": 0}, "an int >= 1"),
    ]:
        method = MatrixFactorization(**settings)
        with pytest.raises(ValueError, match=f"{next(iter(settings))!r} .*{allowed}"):
            method.complete(PlainOracle(low_rank(9, 2)), 0.5, seeded())
