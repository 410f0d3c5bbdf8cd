"""Nyström completions against known answers and dense twins."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem

from skconvgp._protocols import Completion
from skconvgp.completion import EnsembleNystrom, Nystrom
from skconvgp.completion._budget import column_entries
from skconvgp.completion._landmarks import LANDMARKS
from skconvgp.exceptions import CompletionError
from tests.helpers.oracles import PlainOracle, low_rank, seeded, smooth
from tests.helpers.tolerances import assert_close

PARTS = {"one": Nystrom, "ensemble": EnsembleNystrom}
every_part = pytest.mark.parametrize("cls", PARTS.values(), ids=PARTS)
every_word = pytest.mark.parametrize("word", LANDMARKS)


class Oracle(PlainOracle):
    """Gives all that landmarks may need."""

    def labels(self):
        return torch.arange(self.n_samples) % 3


def oracle_of(n, lengthscale=0.3, seed=0):
    return Oracle(*smooth(n, lengthscale, seed))


def filled(completed):
    return completed.factor @ completed.factor.mT


def completed_smooth(part, n=60, share=0.3, seed=0):
    oracle = oracle_of(n)
    return part.complete(oracle, share, seeded(seed)), oracle


@every_part
def test_is_a_completion_with_settings_only(cls):
    part = cls()
    assert isinstance(part, Completion)
    assert clone(part) == part
    changed = cls(n_landmarks=9, landmarks="kmeans")
    assert repr(changed) == f"{cls.__name__}(n_landmarks=9, landmarks='kmeans')"
    assert clone(part).set_params(**changed.get_params()) == changed


@every_word
@pytest.mark.parametrize("rank", [1, 5])
def test_is_exact_where_the_landmarks_have_the_rank_of_the_matrix(word, rank):
    matrix = low_rank(40, rank)
    points = smooth(40)[1]
    completed = Nystrom(10, landmarks=word).complete(
        Oracle(matrix, points), 0.2, seeded()
    )
    assert_close(filled(completed), matrix, kind="solve")
    assert completed.stats["rank"] == rank == completed.factor.shape[1]
    assert completed.error < 1e-9
    assert completed.relative_rmse < 1e-9
    assert completed.converged


def test_ensemble_is_exact_where_each_member_has_the_rank_of_the_matrix():
    matrix = low_rank(40, 3)
    part = EnsembleNystrom(n_members=3, n_landmarks=11)
    completed = part.complete(Oracle(matrix), 0.2, seeded())
    assert_close(filled(completed), matrix, kind="solve")
    assert completed.stats == {"rank": 9, "n_landmarks": 11, "n_members": 3}


@every_word
def test_agrees_with_the_pseudoinverse(word):
    # So short a lengthscale that no eigenvalue of the landmarks is cut off.
    oracle = oracle_of(50, lengthscale=0.05)
    completed = Nystrom(12, landmarks=word).complete(oracle, 0.2, seeded())
    K, S = oracle.matrix.numpy(), completed.anchors.numpy()
    expected = K[:, S] @ np.linalg.pinv(K[np.ix_(S, S)], hermitian=True) @ K[S]
    assert_close(filled(completed), expected, kind="solve")
    assert_close(filled(completed)[S], K[S], kind="solve")


def test_agrees_with_the_features_of_scikit_learn():
    oracle = oracle_of(50, lengthscale=0.05)
    completed = Nystrom(12).complete(oracle, 0.2, seeded())
    points = smooth(50, 0.05)[1].numpy()
    twin = Nystroem(gamma=0.5 / 0.05**2, n_components=12, random_state=0)
    features = twin.fit(points[completed.anchors.numpy()]).transform(points)
    assert_close(filled(completed), features @ features.T, kind="solve")


@pytest.mark.parametrize("rank", [1, 4, 12])
def test_rank_keeps_the_largest_eigenvalues(rank):
    oracle = oracle_of(50, lengthscale=0.05)
    completed = Nystrom(12, rank=rank).complete(oracle, 0.2, seeded())
    K, S = oracle.matrix.numpy(), completed.anchors.numpy()
    values, vectors = np.linalg.eigh(K[np.ix_(S, S)])
    values, vectors = values[-rank:], vectors[:, -rank:]
    expected = K[:, S] @ (vectors / values) @ vectors.T @ K[S]
    assert completed.factor.shape == (50, rank)
    assert completed.lift_map.shape == (12, rank)
    assert completed.factor.is_contiguous()
    assert completed.lift_map.is_contiguous()
    assert_close(filled(completed), expected, kind="solve")


@pytest.mark.parametrize("n_members", [1, 2, 5])
def test_ensemble_is_the_mean_of_its_members(n_members):
    oracle = oracle_of(50, lengthscale=0.15)
    part = EnsembleNystrom(n_members=n_members, n_landmarks=11)
    completed = part.complete(oracle, 0.2, seeded())
    K, S = oracle.matrix.numpy(), completed.anchors.numpy()
    rows = completed.lift_map.numpy() != 0.0
    members = {tuple(np.flatnonzero(column)) for column in rows.T}
    assert sorted(place for member in members for place in member) == list(range(11))
    assert {len(member) for member in members} <= {11 // n_members, -(-11 // n_members)}
    products = [
        K[:, S[list(m)]]
        @ np.linalg.pinv(K[np.ix_(S[list(m)], S[list(m)])])
        @ K[S[list(m)]]
        for m in members
    ]
    assert len(products) == n_members
    assert_close(filled(completed), np.mean(products, 0), kind="solve")


def test_ensemble_explains_no_more_than_one_completion():
    oracle = oracle_of(80, lengthscale=0.1)
    one = Nystrom(20).complete(oracle, 0.2, seeded())
    ensemble = EnsembleNystrom(n_landmarks=20).complete(oracle, 0.2, seeded())
    assert torch.equal(one.anchors, ensemble.anchors)
    difference = filled(one) - filled(ensemble)
    assert float(torch.linalg.eigvalsh(difference)[0]) > -1e-9
    assert float(difference.trace()) > 0.1


@every_part
@every_word
@pytest.mark.parametrize("n", [1, 3, 30])
def test_landmark_rows_are_what_lifting_gives(cls, word, n):
    oracle = oracle_of(n)
    completed = cls(landmarks=word, n_landmarks=12).complete(oracle, 0.3, seeded())
    S = completed.anchors
    assert len(set(S.tolist())) == len(S)
    assert_close(
        completed.lift(oracle.matrix[S][:, S]), completed.factor[S], kind="solve"
    )
    assert_close(completed.lift(oracle.matrix[:, S]), completed.factor, kind="solve")
    assert completed.factor.is_contiguous()
    assert completed.lift_map.is_contiguous()


@every_part
def test_blocks_of_rows_do_not_matter(cls, monkeypatch):
    whole, _ = completed_smooth(cls())
    monkeypatch.setattr("skconvgp.completion._landmarks.ROWS_AT_ONCE", 7)
    assert_close(completed_smooth(cls())[0].factor, whole.factor)


@every_part
def test_all_samples_as_landmarks_give_the_matrix(cls):
    oracle = oracle_of(20, lengthscale=0.1)
    completed = cls(n_landmarks=20).complete(oracle, 0.3, seeded())
    assert completed.n_evaluated == 210
    assert math.isnan(completed.error)
    assert math.isnan(completed.relative_rmse)
    if cls is Nystrom:
        assert_close(filled(completed), oracle.matrix, kind="solve")


@every_part
@every_word
@pytest.mark.parametrize("share", [0.15, 0.35, 1.0])
def test_what_was_evaluated_is_counted_and_within_the_share(cls, word, share):
    oracle = oracle_of(70, lengthscale=0.1)
    completed = cls(landmarks=word).complete(oracle, share, seeded())
    m = len(completed.anchors)
    assert completed.n_evaluated == oracle.n_evaluated
    # The diagonal beside the columns is free.
    assert completed.n_evaluated - (70 - m) <= share * 70 * 71 / 2
    assert completed.n_evaluated > 0.9 * share * 70 * 71 / 2


@every_part
def test_number_of_landmarks_wins_over_the_share(cls):
    completed, oracle = completed_smooth(cls(n_landmarks=30), share=1e-3)
    assert len(completed.anchors) == completed.stats["n_landmarks"] == 30
    beside = completed.n_evaluated - column_entries(30, 60) - 30
    assert 0 < beside <= 0.05 * column_entries(30, 60)
    assert completed.n_evaluated == oracle.n_evaluated


@every_part
def test_error_of_few_samples_is_measured_on_an_entry_at_least(cls):
    completed, _ = completed_smooth(cls(n_landmarks=4), n=6)
    assert completed.error > 0.0
    assert completed.n_evaluated == column_entries(4, 6) + 2 + 1


def test_ensemble_has_no_more_members_than_samples():
    completed, oracle = completed_smooth(EnsembleNystrom(), n=3, share=1.0)
    assert completed.stats == {"rank": 3, "n_landmarks": 3, "n_members": 3}
    # Each member is one column, and all variances are 1.
    assert_close(filled(completed), oracle.matrix @ oracle.matrix / 3.0)


@every_part
def test_error_is_that_of_the_entries_not_evaluated(cls):
    completed, oracle = completed_smooth(
        cls(n_landmarks=12, check_fraction=0.99), n=400
    )
    assert completed.n_evaluated == column_entries(12, 400) + 388 + 32**2
    others = torch.ones(400, dtype=torch.bool)
    others[completed.anchors] = False
    missing = torch.outer(others, others).triu(1)
    rest = (oracle.matrix - filled(completed))[missing]
    entries = oracle.matrix[missing]
    rmse = float(rest.square().mean().sqrt())
    assert completed.error == pytest.approx(rmse, rel=0.3)
    relative = rmse / float(entries.max() - entries.min())
    assert completed.relative_rmse == pytest.approx(relative, rel=0.3)


@every_part
def test_no_check_evaluates_the_columns_only(cls):
    completed, _ = completed_smooth(cls(n_landmarks=12, check_fraction=0.0))
    assert completed.n_evaluated == column_entries(12, 60) + 48
    assert math.isnan(completed.error)


def test_equal_entries_have_no_relative_error():
    matrix = torch.ones(20, 20, dtype=torch.float64)
    completed = Nystrom(3).complete(PlainOracle(matrix), 0.2, seeded())
    assert completed.error < 1e-12
    assert math.isnan(completed.relative_rmse)


def noisy_oracle(scale):
    """Return a matrix whose entries have rounding errors of a known size."""
    matrix = low_rank(120, 6, seed=1)
    noise = torch.randn(120, 120, generator=seeded(2), dtype=torch.float64) * scale
    return PlainOracle(matrix + (noise + noise.mT) / 2.0), matrix


def test_rank_auto_finds_the_rank_below_the_noise():
    oracle, matrix = noisy_oracle(1e-4)
    full = Nystrom(40, check_fraction=0.2).complete(oracle, 0.2, seeded())
    auto = Nystrom(40, check_fraction=0.2, rank="auto").complete(oracle, 0.2, seeded())
    assert auto.stats["rank"] == 6
    assert auto.lift_map.shape == (40, 6)
    assert auto.factor.is_contiguous()
    assert auto.lift_map.is_contiguous()
    assert auto.error < full.error
    wrong = [float((filled(one) - matrix).norm()) for one in (auto, full)]
    assert wrong[0] < 0.5 * wrong[1]
    assert torch.equal(auto.factor, full.factor[:, :6])


def test_rank_auto_without_entries_to_hold_out_keeps_all():
    completed = Nystrom(5, rank="auto").complete(oracle_of(5, 0.05), 0.2, seeded())
    assert completed.stats["rank"] == 5


def test_cut_follows_the_precision_of_the_entries():
    oracle, _ = noisy_oracle(1e-8)
    assert Nystrom(40).complete(oracle, 0.2, seeded()).stats["rank"] > 6
    oracle.precision = torch.float32
    assert Nystrom(40).complete(oracle, 0.2, seeded()).stats["rank"] == 6


@every_part
def test_a_matrix_of_zeros_is_completed(cls):
    for word in ("uniform", "greedy_pivoted", "random_pivoted", "leverage"):
        oracle = PlainOracle(torch.zeros(20, 20, dtype=torch.float64))
        completed = cls(landmarks=word).complete(oracle, 0.5, seeded())
        assert completed.factor.shape == (20, 0)
        assert completed.n_evaluated == oracle.n_evaluated
        assert completed.error == 0.0


def test_follows_a_permutation_of_the_samples():
    matrix, order = smooth(30, 0.1)[0], torch.randperm(30, generator=seeded(5))
    scale = torch.linspace(0.5, 2.0, 30, dtype=torch.float64)
    matrix = scale[:, None] * matrix * scale
    one = Nystrom(30).complete(PlainOracle(matrix), 1.0, seeded())
    two = Nystrom(30).complete(PlainOracle(matrix[order][:, order]), 1.0, seeded())
    assert_close(filled(two), filled(one)[order][:, order], kind="solve")


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(2, 25),
    rank=st.integers(1, 25),
    share=st.floats(0.3, 1.0),
    word=st.sampled_from(["uniform", "stratified", "greedy_pivoted", "leverage"]),
    cls=st.sampled_from([Nystrom, lambda **kw: EnsembleNystrom(n_members=2, **kw)]),
    seed=st.integers(0, 100),
)
def test_lies_between_zero_and_the_matrix(n, rank, share, word, cls, seed):
    matrix = low_rank(n, rank, seed=seed, noise=1e-3)
    oracle = Oracle(matrix)
    try:
        completed = cls(landmarks=word).complete(oracle, share, seeded(seed))
    except CompletionError as error:
        # Whether it is raised depends on what was drawn.
        assert "smallest usable" in str(error)  # noqa: PT017
        return
    below = matrix - filled(completed)
    assert float(torch.linalg.eigvalsh(below)[0]) > -1e-8
    assert completed.n_evaluated == oracle.n_evaluated


BAD_SETTINGS = [
    (Nystrom(landmarks="best"), "'landmarks' parameter of Nystrom must be one of"),
    (
        EnsembleNystrom(landmarks=None),
        "'landmarks' parameter of EnsembleNystrom must be",
    ),
    (Nystrom(landmarks=["uniform"]), "'landmarks' parameter of Nystrom must be one of"),
    (Nystrom(n_landmarks=0), "'n_landmarks' parameter of Nystrom .* int >= 1. Got 0"),
    (Nystrom(n_landmarks=2.0), "'n_landmarks' parameter of Nystrom"),
    (Nystrom(n_landmarks=True), "'n_landmarks' parameter of Nystrom"),
    (EnsembleNystrom(n_landmarks=3), "'n_landmarks' parameter .* int >= 4. Got 3"),
    (EnsembleNystrom(n_members=0), "'n_members' parameter of EnsembleNystrom must be"),
    (EnsembleNystrom(n_members="4"), "'n_members' parameter of EnsembleNystrom must"),
    (Nystrom(check_fraction=1.0), "'check_fraction' parameter of Nystrom must be"),
    (Nystrom(check_fraction=-0.1), "'check_fraction' parameter of Nystrom must be"),
    (Nystrom(check_fraction=None), "'check_fraction' parameter of Nystrom must be"),
    (Nystrom(check_fraction=math.nan), "'check_fraction' parameter of Nystrom must be"),
    (Nystrom(rank=0), "'rank' parameter of Nystrom must be"),
    (Nystrom(rank="all"), "'rank' parameter of Nystrom must be"),
    (Nystrom(rank=6, n_landmarks=5), "'rank' .* from 1 to the 5 landmarks. Got 6"),
    (Nystrom(rank=31, n_landmarks=99), "'rank' .* from 1 to the 30 landmarks. Got 31"),
    (Nystrom(rank=9), "'rank' parameter of Nystrom .* landmarks. Got 9 instead"),
    (
        Nystrom(rank="auto", check_fraction=0),
        "'check_fraction' .* > 0 with rank='auto'",
    ),
    (Nystrom(landmarks="stratified"), "needs the class codes"),
    (EnsembleNystrom(landmarks="kmeans"), "of EnsembleNystrom needs the samples"),
]


@pytest.mark.parametrize(("part", "message"), BAD_SETTINGS, ids=lambda x: str(x)[:40])
def test_wrong_settings_are_refused_before_an_entry_is_asked_for(part, message):
    oracle = PlainOracle(low_rank(30, 30))
    with pytest.raises(ValueError, match=message):
        part.complete(oracle, 0.2, seeded())
    assert not oracle.asked.any()


@every_part
def test_a_share_too_small_names_the_smallest(cls):
    oracle = PlainOracle(low_rank(30, 30))
    with pytest.raises(CompletionError, match="smallest usable value is") as caught:
        cls().complete(oracle, 0.01, seeded())
    remedy = {Nystrom: "set `n_landmarks`", EnsembleNystrom: "lower `n_members`"}[cls]
    assert str(caught.value).endswith(f"Raise `observed_fraction` or {remedy}.")
    smallest = float(str(caught.value).split("value is ")[1].split(". ")[0])
    completed = cls().complete(oracle, smallest, seeded())
    assert len(completed.anchors) == (1 if cls is Nystrom else 4)
    assert not PlainOracle(oracle.matrix).asked.any()


@every_part
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_entries_that_are_not_finite_are_refused(cls, value):
    matrix = low_rank(30, 30)
    matrix[4, 5] = matrix[5, 4] = value
    with pytest.raises(CompletionError, match="not finite"):
        cls(n_landmarks=29).complete(PlainOracle(matrix), 0.2, seeded())


def test_held_out_entries_that_are_not_finite_are_refused():
    matrix = torch.full((30, 30), math.nan, dtype=torch.float64).fill_diagonal_(1.0)
    first = torch.randperm(30, generator=seeded())[0]
    matrix[first] = matrix[:, first] = 1.0
    with pytest.raises(CompletionError, match="not finite"):
        Nystrom(1).complete(PlainOracle(matrix), 0.2, seeded())


def test_the_oracle_keeps_its_matrix():
    class Sharing(PlainOracle):
        """Gives views of its matrix where it can."""

        def diag(self):
            return self.matrix.diagonal()

        def block(self, rows, cols):
            start, stop = int(cols[0]), int(cols[-1]) + 1
            if rows is None and cols.tolist() == list(range(start, stop)):
                return self.matrix[:, start:stop]
            return super().block(rows, cols)

    oracle = Sharing(smooth(20, 0.1)[0])
    before = oracle.matrix.clone()
    for word in ("uniform", "greedy_pivoted", "random_pivoted", "leverage"):
        Nystrom(1, landmarks=word).complete(oracle, 1.0, seeded())
    assert torch.equal(oracle.matrix, before)
