"""Which columns are evaluated: how many, and chosen how."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from skconvgp.completion._budget import column_entries, columns_within, count_landmarks
from skconvgp.completion._landmarks import (
    LANDMARKS,
    check_capability,
    check_finite,
    choose_landmarks,
)
from skconvgp.exceptions import CompletionError
from tests.helpers.oracles import PlainOracle, low_rank, seeded, smooth
from tests.helpers.tolerances import assert_close

every_word = pytest.mark.parametrize("word", LANDMARKS)


class LabelledOracle(PlainOracle):
    """Knows the classes of its samples too."""

    def __init__(self, matrix, points=None, codes=None):
        super().__init__(matrix, points)
        self.codes = torch.arange(len(matrix)) % 3 if codes is None else codes

    def labels(self):
        return self.codes


def smooth_oracle(n, seed=0, lengthscale=0.1):
    matrix, points = smooth(n, lengthscale, seed)
    return LabelledOracle(matrix, points)


def chosen(word, n, m, seed=0):
    oracle = smooth_oracle(n)
    return choose_landmarks(word, oracle, m, seeded(seed)), oracle


@given(n=st.integers(1, 60), share=st.floats(1e-3, 1.0))
def test_number_is_the_largest_that_the_share_allows(n, share):
    allowed = share * n * (n + 1) / 2
    fitting = [
        m for m in range(n + 1) if m * n - m * (m - 1) / 2 <= allowed * (1 + 1e-9)
    ]
    if fitting[-1]:
        assert count_landmarks(None, share, n) == fitting[-1]
    else:
        with pytest.raises(CompletionError, match="smallest usable value"):
            count_landmarks(None, share, n)


@given(n=st.integers(1, 10**6), m=st.integers(0, 10**6))
def test_columns_within_counts_back(n, m):
    m = min(m, n)
    assert columns_within(column_entries(m, n), n) == m
    assert m == 0 or columns_within(column_entries(m, n) - 1, n) == m - 1


@given(n=st.integers(1, 10**5), m=st.integers(1, 10**5))
def test_rounding_of_the_share_costs_no_landmark(n, m):
    m = min(m, n)
    share = column_entries(m, n) / (n * (n + 1) / 2)
    assert count_landmarks(None, share, n) == m


def test_fraction_follows_maths():
    n = 10_000
    assert count_landmarks(None, 0.2, n) / n == pytest.approx(1 - 0.8**0.5, abs=1e-4)
    assert count_landmarks(None, 1.0, n) == n


def test_number_asked_for_wins_and_is_cut():
    assert count_landmarks(7, 1e-6, 100) == 7
    assert count_landmarks(700, 0.1, 100) == 100


@pytest.mark.parametrize("least", [1, 3])
@pytest.mark.parametrize("n", [4, 1234])
def test_the_smallest_fraction_named_is_usable(n, least):
    with pytest.raises(CompletionError, match="less than") as caught:
        count_landmarks(None, 1e-5, n, least)
    message = str(caught.value)
    assert f"{least} landmark column" in message
    smallest = float(message.split("value is ")[1].split(". ")[0])
    assert count_landmarks(None, smallest, n, least) == least
    with pytest.raises(CompletionError):
        count_landmarks(None, 0.98 * smallest, n, least)


@pytest.mark.parametrize("share", [0.0, -0.1, 1.01, float("nan")])
def test_share_is_above_0_and_at_most_1(share):
    with pytest.raises(ValueError, match=r"`observed_fraction` must be .* got"):
        count_landmarks(5, share, 100)


@every_word
@pytest.mark.parametrize(
    ("n", "m"), [(50, 12), (50, 1), (3, 2), (3, 3), (1, 1), (20, 20)]
)
def test_landmarks_are_different_and_come_with_their_columns(word, n, m):
    landmarks, oracle = chosen(word, n, m)
    indices = landmarks.indices.tolist()
    assert len(indices) == len(set(indices)) == m
    assert all(0 <= index < n for index in indices)
    assert torch.equal(landmarks.columns, oracle.matrix[:, indices])
    assert oracle.n_evaluated == column_entries(m, n) + n - m


@every_word
def test_the_generator_decides(word):
    first, second, other = (chosen(word, 60, 20, seed)[0] for seed in (1, 1, 2))
    assert torch.equal(first.indices, second.indices)
    assert torch.equal(first.indices, other.indices) == (word == "greedy_pivoted")


@every_word
def test_columns_of_many_calls_keep_their_places(word, monkeypatch):
    whole, _ = chosen(word, 60, 20)
    monkeypatch.setattr("skconvgp.completion._landmarks.COLUMNS_AT_ONCE", 3)
    monkeypatch.setattr("skconvgp.completion._landmarks.ROWS_AT_ONCE", 7)
    landmarks, oracle = chosen(word, 60, 20)
    assert torch.equal(landmarks.indices, whole.indices)
    assert torch.equal(landmarks.columns, oracle.matrix[:, whole.indices])


def trace_error(landmarks, oracle):
    square = landmarks.columns[landmarks.indices]
    inverse = torch.linalg.pinv(square, rtol=1e-10, hermitian=True)
    product = landmarks.columns @ inverse @ landmarks.columns.mT
    return float((oracle.matrix - product).trace())


def clustered_oracle(seed=0):
    """Return 380 samples near one point and 20 far from it and from each other."""
    generator = seeded(seed)
    near = torch.rand(380, 3, generator=generator, dtype=torch.float64) * 0.3 + 1.0
    far = torch.randn(20, 3, generator=generator, dtype=torch.float64) * 3.0
    points = torch.cat([near, far])
    matrix = torch.exp(-0.5 * torch.cdist(points, points).square() / 0.5**2)
    return PlainOracle(matrix, points)


@pytest.mark.parametrize(
    "word", ["kmeans", "greedy_pivoted", "random_pivoted", "leverage"]
)
def test_beats_uniform_on_samples_that_lie_unevenly(word):
    def mean_error(some):
        errors = []
        for seed in range(10):
            oracle = clustered_oracle()
            landmarks = choose_landmarks(some, oracle, 30, seeded(seed))
            errors.append(trace_error(landmarks, oracle))
        return sum(errors) / len(errors)

    assert mean_error(word) < 0.8 * mean_error("uniform")


def test_greedy_beats_uniform_on_a_smooth_matrix():
    oracle = smooth_oracle(200, lengthscale=0.3)
    greedy, uniform = (
        trace_error(choose_landmarks(word, oracle, 20, seeded()), oracle)
        for word in ("greedy_pivoted", "uniform")
    )
    assert greedy < 0.5 * uniform


@pytest.mark.parametrize("word", ["greedy_pivoted", "random_pivoted", "leverage"])
def test_variances_do_not_matter_only_correlations_do(word):
    matrix, _ = smooth(60, 0.1)
    scale = torch.logspace(-2, 2, 60, dtype=torch.float64)
    plain, scaled = PlainOracle(matrix), PlainOracle(scale[:, None] * matrix * scale)
    first, second = (choose_landmarks(word, o, 15, seeded()) for o in (plain, scaled))
    assert torch.equal(first.indices, second.indices)


@pytest.mark.parametrize("word", ["greedy_pivoted", "random_pivoted"])
def test_pivots_stop_where_nothing_is_left_to_explain(word):
    oracle = PlainOracle(low_rank(50, 4))
    landmarks = choose_landmarks(word, oracle, 20, seeded())
    m = len(landmarks.indices)
    assert 4 <= m <= 5  # a block of two may hold one too many
    assert oracle.n_evaluated == column_entries(m, 50) + 50 - m
    assert trace_error(landmarks, oracle) < 1e-9


@pytest.mark.parametrize("word", ["greedy_pivoted", "random_pivoted", "leverage"])
def test_samples_without_variance_are_left_to_the_last(word):
    matrix = low_rank(20, 20)
    matrix[5:] = matrix[:, 5:] = 0.0
    landmarks = choose_landmarks(word, PlainOracle(matrix), 2, seeded())
    drawn = landmarks.indices if word != "leverage" else landmarks.indices[1:]
    assert (drawn < 5).all()


def test_precision_of_the_oracle_bounds_the_pivots():
    matrix = low_rank(50, 4) + 1e-8 * torch.eye(50, dtype=torch.float64)
    oracle = PlainOracle(matrix)
    assert len(choose_landmarks("greedy_pivoted", oracle, 20, seeded()).indices) == 20
    oracle.precision = torch.float32
    assert len(choose_landmarks("greedy_pivoted", oracle, 20, seeded()).indices) == 4


def test_leverage_finds_the_odd_ones_out():
    """Of 400 samples 6 are like no other: their scores are the largest."""
    same = torch.ones(394, 394, dtype=torch.float64) * 0.99
    same.fill_diagonal_(1.0)
    matrix = torch.block_diag(same, torch.eye(6, dtype=torch.float64))

    def found(word):
        oracle = PlainOracle(matrix)
        drawn = [
            choose_landmarks(word, oracle, 20, seeded(s)).indices for s in range(10)
        ]
        return int((torch.cat(drawn) >= 394).sum())

    assert found("leverage") > 3 * found("uniform")


def test_leverage_scores_are_those_of_a_dense_formula(monkeypatch):
    given = []

    def draw(weights, taken, count, generator):
        given.append((weights.numpy(), taken.numpy()))
        others = torch.ones(len(weights), dtype=torch.bool)
        others[taken] = False
        return torch.nonzero(others)[:count, 0]

    monkeypatch.setattr("skconvgp.completion._landmarks._draw", draw)
    matrix, _ = smooth(40, 0.2)
    scale = torch.linspace(0.5, 3.0, 40, dtype=torch.float64)
    oracle = PlainOracle(scale[:, None] * matrix * scale)
    choose_landmarks("leverage", oracle, 16, seeded())
    ((scores, pilot),) = given
    K, square = matrix.numpy(), matrix.numpy()[np.ix_(pilot, pilot)]
    ridge = np.linalg.eigvalsh(square)[:4].sum() / 4
    inverse = np.linalg.inv(square + ridge * np.eye(8))
    expected = 1.0 - np.einsum("ij,jk,ik->i", K[:, pilot], inverse, K[:, pilot])
    expected[pilot] = 0.0
    assert len(pilot) == 8
    assert_close(scores, expected, kind="solve")


@pytest.mark.parametrize("m", [3, 9, 10, 17])
def test_classes_have_equal_shares(m):
    codes = torch.tensor([0] * 80 + [1] * 15 + [4] * 5)
    oracle = LabelledOracle(low_rank(100, 5), codes=codes)
    indices = choose_landmarks("stratified", oracle, m, seeded()).indices
    counts = codes[indices].bincount(minlength=5)[[0, 1, 4]]
    small = min(5, -(-m // 3))
    assert counts.sum() == m
    assert counts[2] in (small - 1, small)
    assert abs(int(counts[0] - counts[1])) <= 1


def test_a_class_that_is_used_up_leaves_its_share_to_others():
    codes = torch.tensor([0] * 80 + [1] * 2)
    oracle = LabelledOracle(low_rank(82, 5), codes=codes)
    indices = choose_landmarks("stratified", oracle, 30, seeded()).indices
    assert codes[indices].bincount().tolist() == [28, 2]


def test_every_member_of_a_class_may_be_drawn():
    codes = torch.tensor([0, 0, 0, 1, 1, 1])
    oracle = LabelledOracle(low_rank(6, 2), codes=codes)
    drawn = [
        choose_landmarks("stratified", oracle, 2, seeded(seed)).indices.tolist()
        for seed in range(40)
    ]
    assert {index for pair in drawn for index in pair} == set(range(6))


def test_kmeans_takes_one_of_each_cluster():
    angles = torch.tensor([0.0, 1.0, 2.0, 3.0]).double().repeat_interleave(25)
    angles += 0.02 * torch.randn(100, generator=seeded(), dtype=torch.float64)
    lengths = 1.0 + torch.rand(100, generator=seeded(1), dtype=torch.float64)
    points = lengths[:, None] * torch.stack([angles.cos(), angles.sin()], 1)
    oracle = PlainOracle(low_rank(100, 5), points)
    indices = choose_landmarks("kmeans", oracle, 4, seeded()).indices
    assert sorted((indices // 25).tolist()) == [0, 1, 2, 3]


def uneven_points(n, seed=0):
    """Return points of many lengths, more of them in some directions."""
    generator = seeded(seed)
    points = torch.randn(n, 3, generator=generator, dtype=torch.float64)
    points[:, 0] += 1.0
    return points * torch.rand(n, 1, generator=generator, dtype=torch.float64) * 9.0


def dense_kmeans(points, centres, n_rounds):
    unit = points / np.linalg.norm(points, axis=1, keepdims=True)
    for _ in range(n_rounds):
        nearest = ((unit[:, None] - centres) ** 2).sum(2).argmin(1)
        means = [unit[nearest == j].mean(0) for j in range(len(centres))]
        centres = np.array(means)
    found = []
    for distances in ((centres[:, None] - unit) ** 2).sum(2):
        distances[found] = np.inf
        found.append(int(distances.argmin()))
    return found


@pytest.mark.parametrize("m", [1, 8])
@pytest.mark.parametrize("rows_at_once", [7, 1000])
def test_kmeans_is_that_of_a_dense_formula(m, rows_at_once, monkeypatch):
    monkeypatch.setattr("skconvgp.completion._landmarks.ROWS_AT_ONCE", rows_at_once)
    points = uneven_points(90)
    oracle = PlainOracle(low_rank(90, 5), points)
    landmarks = choose_landmarks("kmeans", oracle, m, seeded())
    monkeypatch.setattr("skconvgp.completion._landmarks.LLOYD_ROUNDS", 0)
    seeds = choose_landmarks("kmeans", oracle, m, seeded()).indices
    unit = points / points.norm(dim=1, keepdim=True)
    expected = dense_kmeans(points.numpy(), unit[seeds].numpy(), 10)
    assert landmarks.indices.tolist() == expected


def test_kmeans_seeds_are_drawn_by_squared_distance(monkeypatch):
    monkeypatch.setattr("skconvgp.completion._landmarks.LLOYD_ROUNDS", 0)
    cosines = torch.tensor([1.0, 0.9, 0.2], dtype=torch.float64)
    points = torch.stack([cosines, (1.0 - cosines.square()).sqrt()], 1)
    oracle = PlainOracle(low_rank(3, 3), points)
    pairs = [
        choose_landmarks("kmeans", oracle, 2, seeded(seed)).indices.tolist()
        for seed in range(1500)
    ]
    second = [pair[1] for pair in pairs if pair[0] == 0]
    # Squared distances from the first: 2 - 2 * 0.9 and 2 - 2 * 0.2.
    assert second.count(1) / len(second) == pytest.approx(0.1 / 0.9, abs=0.06)


@pytest.mark.parametrize("point", [1.0, 0.0])
def test_kmeans_of_equal_points_takes_different_samples(point):
    points = torch.full((10, 3), point, dtype=torch.float64)
    oracle = PlainOracle(low_rank(10, 5), points)
    indices = choose_landmarks("kmeans", oracle, 7, seeded()).indices
    assert len(set(indices.tolist())) == 7


@pytest.mark.parametrize(
    ("word", "needs"), [("stratified", "class codes"), ("kmeans", "points")]
)
def test_what_an_oracle_cannot_give_is_named_with_both_parties(word, needs):
    with pytest.raises(CompletionError, match=f"{needs}.*PlainOracle") as caught:
        check_capability("Nystrom", word, PlainOracle(low_rank(5, 2)))
    assert f"landmarks={word!r} of Nystrom" in str(caught.value)


@every_word
def test_entries_that_are_not_finite_are_refused(word):
    matrix, points = smooth(20)
    matrix[:, 7] = matrix[7] = torch.nan
    oracle = LabelledOracle(matrix, points)
    oracle.diag = lambda: torch.ones(20, dtype=torch.float64)
    with pytest.raises(CompletionError, match="not finite"):
        choose_landmarks(word, oracle, 4, seeded())


def test_large_entries_are_finite_though_their_sum_is_not():
    values = torch.full((2, 2), 1e308, dtype=torch.float64)
    assert check_finite(values) is values


def test_variances_that_are_not_finite_are_refused():
    matrix = low_rank(5, 2)
    matrix[2, 2] = torch.inf
    with pytest.raises(CompletionError, match="1 of 5 covariances are not finite"):
        choose_landmarks("uniform", PlainOracle(matrix), 1, seeded())
