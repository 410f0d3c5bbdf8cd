"""What all completions from a mask of entries do."""

import dataclasses

import numpy as np
import pytest
import torch
from sklearn.base import clone

from skconvgp._protocols import Completion
from skconvgp.completion import (
    IterativeSVD,
    MatrixFactorization,
    Nystrom,
    SoftImpute,
)
from skconvgp.completion import _masked as masked
from skconvgp.completion._patterns import PATTERNS
from skconvgp.exceptions import CompletionError
from tests.helpers.oracles import PlainOracle, low_rank, seeded, smooth
from tests.helpers.tolerances import assert_close

TO_RANK = [
    IterativeSVD(rank=3),
    IterativeSVD(rank=3, rule="row_regression"),
    MatrixFactorization(rank=3, ridge=1e-9),
    MatrixFactorization(rank=3, algorithm="elementwise", ridge=1e-9),
]
METHODS = [*TO_RANK, SoftImpute()]
every_method = pytest.mark.parametrize("method", METHODS, ids=repr)
every_pattern = pytest.mark.parametrize("pattern", PATTERNS)


def completed(method, gram, fraction=0.4, seed=0, **settings):
    oracle = PlainOracle(gram)
    method = clone(method).set_params(**settings)
    return method.complete(oracle, fraction, seeded(seed)), oracle


def missing(oracle):
    seen = oracle.asked | oracle.asked.mT
    return ~seen.fill_diagonal_(True)


def dense(result):
    return result.factor @ result.factor.mT


@every_method
def test_is_a_completion_that_scikit_learn_can_copy(method):
    assert isinstance(method, Completion)
    assert clone(method).get_params() == method.get_params()
    assert type(method)() == type(method)()


@every_pattern
@pytest.mark.parametrize("method", TO_RANK, ids=repr)
def test_completion_is_exact_where_the_rank_allows(method, pattern):
    gram = low_rank(90, 3)
    result, oracle = completed(
        method, gram, 0.6, pattern=pattern, rtol=1e-12, max_iter=5000
    )
    assert result.converged
    assert bool(missing(oracle).any())
    assert_close(dense(result), gram, kind="root")
    assert result.relative_rmse < 1e-7
    assert result.stats["rank"] == 3
    assert result.stats["observed_change"] < 1e-7
    assert result.stats["explained"] == pytest.approx(1.0)


@every_pattern
@every_method
def test_facts_of_a_completion(method, pattern):
    gram, _ = smooth(70)
    result, oracle = completed(method, gram, pattern=pattern)
    assert result.n_evaluated == oracle.n_evaluated
    assert result.n_evaluated <= 0.4 * 70 * 71 / 2 + 70
    rank = result.factor.shape[1]
    assert result.stats["rank"] == rank
    assert result.lift_map.shape == (70, rank)
    seen = ~missing(oracle)
    if pattern == "landmarks":  # the held-out block is not put back
        is_landmark = seen.all(1)
        seen = (is_landmark[:, None] | is_landmark).fill_diagonal_(True)
    change = ((dense(result) - gram) * seen).norm() / (gram * seen).norm()
    assert result.stats["observed_change"] == pytest.approx(float(change))


@pytest.mark.parametrize("n", [60, pytest.param(150, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "method",
    [
        IterativeSVD(),
        IterativeSVD(rule="row_regression"),
        MatrixFactorization(),
        pytest.param(
            MatrixFactorization(algorithm="elementwise"), marks=pytest.mark.slow
        ),
    ],
    ids=repr,
)
def test_columns_of_landmarks_are_completed_as_well_as_by_nystrom(method, n):
    # With prior variances beside them, and from a product that had never been fitted
    # there, errors were up to those of no matrix at all.
    gram, _ = smooth(n)
    result, oracle = completed(method, gram, 0.3, pattern="landmarks", max_iter=400)
    unseen = missing(oracle)
    error = float((dense(result) - gram)[unseen].square().mean().sqrt())
    m = int((~unseen).all(1).sum())
    theirs = Nystrom(n_landmarks=m).complete(PlainOracle(gram), 0.3, seeded())
    nystrom = float((dense(theirs) - gram)[unseen].square().mean().sqrt())
    assert error < 3.0 * nystrom + 1e-3
    assert result.error == pytest.approx(error, rel=1.0, abs=1e-4)
    assert result.stats["explained"] > 0.9


@every_method
def test_lift_takes_the_samples_to_their_rows(method):
    gram = low_rank(60, 3)
    result, oracle = completed(method, gram, 0.5)
    rows = as_new(result, oracle, method, gram)
    assert lift_error(result, rows) < allowed(method)


@every_method
def test_few_anchors_lift_as_well_as_all(method):
    gram = low_rank(60, 3)
    result, oracle = completed(method, gram, 0.5, rank=3, n_anchors=5)
    assert result.anchors.shape == (5,)
    assert len(set(result.anchors.tolist())) == 5
    rows = as_new(result, oracle, method, gram)
    assert lift_error(result, rows) < allowed(method)


def as_new(result, oracle, method, gram):
    """Return rows (n, n) whose features are those of the samples.

    Soft-Impute shrinks its matrix, but not what comes in.
    """
    made = dense(result)
    if isinstance(method, SoftImpute):
        return torch.where(missing(oracle), made, gram)
    return made


def lift_error(result, rows):
    lifted = result.lift(rows[:, result.anchors])
    return float((lifted - result.factor).norm() / result.factor.norm())


def allowed(method):
    return 0.1 if isinstance(method, SoftImpute) else 1e-7


@every_method
def test_same_generator_same_completion(method):
    gram, _ = smooth(60)
    one, two = (completed(method, gram)[0] for _ in range(2))
    assert torch.equal(one.factor, two.factor)
    assert one.error == two.error
    other, _ = completed(method, gram, seed=1)
    assert not torch.allclose(dense(one), dense(other))


@every_pattern
@every_method
def test_everything_observed(method, pattern):
    gram = low_rank(40, 3)
    result, oracle = completed(method, gram, 1.0, pattern=pattern, rtol=1e-10)
    assert result.n_evaluated == 40 * 41 // 2 == oracle.n_evaluated
    assert result.converged
    assert float((dense(result) - gram).norm() / gram.norm()) < 0.01


@pytest.mark.parametrize("method", [TO_RANK[0], TO_RANK[1], SoftImpute()], ids=repr)
def test_order_of_samples_does_not_matter(method, monkeypatch):
    gram, _ = smooth(50)
    order = torch.randperm(50, generator=seeded(3))
    one, _ = completed(method, gram)
    draw = masked.draw_pattern

    def draw_permuted(*args):
        pattern = draw(*args)
        return dataclasses.replace(pattern, order=order.argsort()[pattern.order])

    monkeypatch.setattr(masked, "draw_pattern", draw_permuted)
    two, _ = completed(method, gram[order][:, order])
    assert_close(dense(two), dense(one)[order][:, order], kind="root")


@every_pattern
@every_method
def test_measured_error_is_that_of_missing_entries(method, pattern):
    gram = low_rank(150, 3, noise=0.0) + 0.05 * low_rank(150, 150, seed=5)
    result, oracle = completed(method, gram, 0.5, pattern=pattern)
    lost = missing(oracle)
    error = float((dense(result) - gram)[lost].square().mean().sqrt())
    assert result.error == pytest.approx(error, rel=0.3)
    assert result.error / 20 < result.relative_rmse < result.error / 2


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(IterativeSVD(), marks=pytest.mark.slow),
        MatrixFactorization(),
        SoftImpute(),
    ],
    ids=repr,
)
def test_nothing_is_learnt_from_a_random_matrix(method):
    # 1 / sqrt(12), the deviation of U(0, 1): docs/maths.rst, "Errors of a completion"
    upper = torch.rand(200, 200, generator=seeded(), dtype=torch.float64).triu()
    result, _ = completed(method, upper + upper.triu(1).mT, 0.3, check_fraction=0.2)
    assert result.relative_rmse == pytest.approx(12**-0.5, rel=0.1)


@pytest.mark.parametrize("method", [IterativeSVD(), MatrixFactorization()], ids=repr)
def test_rank_is_found(method):
    gram = low_rank(150, 8) + 0.01 * low_rank(150, 150, seed=5)
    result, _ = completed(method, gram, 0.5)
    assert result.stats["rank"] == 8


@every_method
def test_rounds_that_end_too_early_are_told(method):
    gram, _ = smooth(60)
    result, _ = completed(method, gram, max_iter=1, rtol=1e-12)
    assert not result.converged
    assert result.stats["n_iter"] > 1


@every_method
def test_entries_that_are_not_finite_are_refused(method):
    gram = low_rank(30, 3)
    gram[5] = gram[:, 5] = torch.inf
    with pytest.raises(CompletionError, match="not finite"):
        completed(method, gram, 0.5)


@every_method
def test_too_small_a_fraction_names_the_smallest(method):
    with pytest.raises(CompletionError, match=r"smallest usable fraction is 0\.0690\."):
        completed(method, low_rank(30, 3), 0.05)
    result, _ = completed(method, low_rank(30, 3), 0.0690)
    assert bool(result.factor.isfinite().all())


@pytest.mark.parametrize("n", [1, 2, 3])
@every_method
def test_a_few_samples(method, n):
    gram = torch.ones(n, n) + torch.eye(n)
    result, _ = completed(method, gram, 1.0, rank="auto")
    assert bool(result.factor.isfinite().all())
    assert result.factor.shape[0] == n


@pytest.mark.parametrize(
    ("setting", "value", "allowed"),
    [
        ("rank", 0, "'auto' or an int from 1 to 30"),
        ("rank", 31, "'auto' or an int from 1 to 30"),
        ("rank", 2.0, "'auto' or an int from 1 to 30"),
        ("rank", "full", "'auto' or an int from 1 to 30"),
        ("rank", True, "'auto' or an int from 1 to 30"),
        ("n_anchors", 31, "None or an int from 1 to 30"),
        ("pattern", "rows", "one of 'landmarks', 'blocks', 'random'"),
        ("pattern", None, "one of 'landmarks', 'blocks', 'random'"),
        ("max_iter", 0, "an int >= 1"),
        ("rtol", 0.0, "a number > 0"),
        ("rtol", np.nan, "a number > 0"),
        ("check_fraction", 1.0, "a number in (0, 1)"),
        ("check_fraction", 0, "a number in (0, 1)"),
    ],
)
@pytest.mark.parametrize(
    "method", [IterativeSVD(), MatrixFactorization(), SoftImpute()]
)
def test_wrong_settings_are_refused_before_any_entry(method, setting, value, allowed):
    method = clone(method).set_params(**{setting: value})
    sentence = (
        f"The {setting!r} parameter of {type(method).__name__} must be {allowed}. "
        f"Got {value!r} instead."
    )
    with pytest.raises(ValueError, match="parameter") as caught:
        method.complete(Untouchable(), 0.5, seeded())
    assert str(caught.value) == sentence


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.1, np.nan, "all", True, None])
def test_wrong_fractions_are_refused(fraction):
    with pytest.raises(ValueError, match=r"'observed_fraction' .* in \(0, 1\]\. Got"):
        IterativeSVD().complete(Untouchable(), fraction, seeded())


def test_fewer_anchors_than_the_rank_are_refused():
    with pytest.raises(ValueError, match=r"'n_anchors' .* int from 4 to 30"):
        IterativeSVD(rank=4, n_anchors=3).complete(Untouchable(), 0.5, seeded())


def test_a_rank_above_the_number_of_landmarks_is_refused():
    method = IterativeSVD(rank=9, pattern="landmarks")
    with pytest.raises(CompletionError, match="`rank`=9 exceeds the 8 landmarks"):
        method.complete(Untouchable(), 0.5, seeded())


class Untouchable:
    """Thirty samples that are never to be compared."""

    n_samples = 30
