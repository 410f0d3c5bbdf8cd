"""Calibration error, its table and the Brier parts against loops over samples."""

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss, make_scorer

from skconvgp.metrics import (
    brier_decomposition,
    expected_calibration_error,
    reliability_table,
)

BY_BINS = [expected_calibration_error, brier_decomposition, reliability_table]


def by_hand(y_true, y_prob, labels, n_bins, weights):
    total = 0.0
    for i in range(n_bins):
        low, high = i / n_bins, (i + 1) / n_bins
        is_last = i == n_bins - 1
        weight = right = confidence = 0.0
        for truth, row, w in zip(y_true, y_prob, weights, strict=True):
            top = int(np.argmax(row))
            if low <= row[top] < high or (is_last and row[top] == 1.0):
                weight += w
                right += w * (labels[top] == truth)
                confidence += w * row[top]
        total += abs(right - confidence)
    return total / sum(weights)


def predictions(n=200, n_classes=4, seed=0):
    rng = np.random.default_rng(seed)
    y_prob = rng.dirichlet(np.full(n_classes, 0.5), size=n)
    return rng.integers(0, n_classes, n), y_prob


@pytest.mark.parametrize("n_bins", [1, 7, 15, np.int64(100)])
def test_equals_the_sum_by_hand(n_bins):
    y_true, y_prob = predictions()
    error = expected_calibration_error(y_true, y_prob, n_bins=n_bins)
    expected = by_hand(y_true, y_prob, range(4), n_bins, np.ones(200))
    assert error == pytest.approx(expected)
    assert 0.0 < error < 1.0


def test_weights_count_as_repetitions():
    y_true, y_prob = predictions(60)
    weights = np.arange(60) % 4
    error = expected_calibration_error(y_true, y_prob, sample_weight=weights)
    repeated = (np.repeat(values, weights, axis=0) for values in (y_true, y_prob))
    assert error == pytest.approx(expected_calibration_error(*repeated))
    expected = by_hand(y_true, y_prob, range(4), 15, weights)
    assert error == pytest.approx(expected)


def test_columns_are_the_sorted_labels_unless_named():
    y_true, y_prob = predictions(50)
    words = np.array(["d", "b", "a", "c"])
    error = expected_calibration_error(y_true, y_prob)
    named = expected_calibration_error(words[y_true], y_prob, labels=words)
    order = np.argsort(words)
    by_default = expected_calibration_error(words[y_true], y_prob[:, order])
    assert named == pytest.approx(error)
    assert by_default == pytest.approx(error)


def test_labels_allow_classes_that_do_not_occur():
    y_prob = [[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]
    error = expected_calibration_error([0, 2], y_prob, labels=[0, 1, 2])
    assert error == pytest.approx((0.5 + 0.3) / 2)


def test_extremes():
    sure = np.eye(3)
    assert expected_calibration_error([0, 1, 2], sure) == 0.0
    assert expected_calibration_error([1, 2, 0], sure) == 1.0


def bins_by_hand(probabilities, n_bins, strategy):
    """Return the bin of each sample; distinct probabilities, n a multiple of n_bins."""
    n = len(probabilities)
    if strategy == "uniform":
        edges = [i / n_bins for i in range(1, n_bins)]
        return [sum(p >= edge for edge in edges) for p in probabilities]
    below = [sum(q < p for q in probabilities) for p in probabilities]
    return [count // (n // n_bins) for count in below]


def class_sums(y_true, y_prob, n_bins, strategy):
    """Yield the class, and number, mean probability and share of each of its bins."""
    for c in range(y_prob.shape[1]):
        bins = bins_by_hand(y_prob[:, c], n_bins, strategy)
        for b in set(bins):
            rows = [i for i in range(len(bins)) if bins[i] == b]
            forecast = sum(y_prob[i, c] for i in rows) / len(rows)
            share = sum(y_true[i] == c for i in rows) / len(rows)
            yield c, len(rows), forecast, share


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_classwise_error_is_the_mean_over_the_classes(strategy):
    y_true, y_prob = predictions(120, 3)
    error = expected_calibration_error(
        y_true, y_prob, n_bins=6, strategy=strategy, kind="classwise"
    )
    sums = class_sums(y_true, y_prob, 6, strategy)
    expected = sum(n * abs(forecast - share) for _, n, forecast, share in sums)
    assert error == pytest.approx(expected / 120 / 3)


def test_bins_of_equal_weight_by_hand():
    y_prob = np.array([0.55, 0.6, 0.7, 0.8, 0.9, 1.0])
    y_true = [1, 0, 1, 1, 1, 0]
    error = expected_calibration_error(y_true, y_prob, n_bins=3, strategy="quantile")
    # Two samples a bin: 1 of 1.15 expected, 2 of 1.5, 1 of 1.9.
    assert error == pytest.approx((0.15 + 0.5 + 0.9) / 6)


def test_two_classes_have_the_same_error_class_by_class():
    rng = np.random.default_rng(3)
    y_prob, y_true = rng.uniform(size=90), rng.integers(0, 2, 90)
    prob_true, prob_pred = calibration_curve(y_true, y_prob, n_bins=5)
    number = np.histogram(y_prob, 5, (0.0, 1.0))[0]
    error = expected_calibration_error(y_true, y_prob, n_bins=5, kind="classwise")
    assert error == pytest.approx(number @ np.abs(prob_true - prob_pred) / 90)


def test_equal_probabilities_stay_in_one_bin():
    # All of probability 0.9, of which 0.6 are right: in any order the gap is 0.3.
    y_prob = np.full(100, 0.9)
    y_true = np.arange(100) < 60
    error = expected_calibration_error(y_true, y_prob, strategy="quantile")
    assert error == pytest.approx(0.3)
    table = reliability_table(y_true, y_prob, strategy="quantile")
    assert list(table["weight"]) == [100.0]


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("score", BY_BINS)
def test_weights_count_as_repetitions_in_all_bins(score, strategy):
    y_true, y_prob = predictions(80)
    y_prob = (y_prob * 20).round() / 20
    y_prob[:, 0] += 1.0 - y_prob.sum(axis=1)
    y_prob = y_prob[keep := (y_prob >= 0.0).all(axis=1)]
    y_true = y_true[keep]
    weights = np.arange(len(y_true)) % 4
    settings = {"labels": range(4), "strategy": strategy, "n_bins": 7}
    weighted = score(y_true, y_prob, sample_weight=weights, **settings)
    scaled = score(y_true, y_prob, sample_weight=weights / 30.0, **settings)
    repeated = score(
        np.repeat(y_true, weights), np.repeat(y_prob, weights, axis=0), **settings
    )
    if score is reliability_table:
        scaled["weight"] *= 30.0
        weighted, scaled, repeated = (
            np.array(list(table.values())) for table in (weighted, scaled, repeated)
        )
    np.testing.assert_allclose(weighted, repeated)
    np.testing.assert_allclose(scaled, weighted)


@pytest.mark.parametrize("settings", [{}, {"kind": "classwise"}])
@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_order_of_samples_and_classes_is_of_no_effect(strategy, settings):
    y_true, y_prob = predictions(101, 3)
    rows, columns = np.random.default_rng(1).permutation(101), [2, 0, 1]
    settings = settings | {"strategy": strategy}
    error = expected_calibration_error(y_true, y_prob, **settings)
    moved = expected_calibration_error(
        y_true[rows], y_prob[rows][:, columns], labels=columns, **settings
    )
    assert moved == pytest.approx(error)


@pytest.mark.parametrize("kind", ["top", "classwise"])
def test_calibrated_probabilities_have_a_small_error(kind):
    rng = np.random.default_rng(0)
    y_prob = rng.dirichlet(np.ones(3), size=20000)
    y_true = (rng.uniform(size=(20000, 1)) > y_prob.cumsum(axis=1)).sum(axis=1)
    error = expected_calibration_error(y_true, y_prob, kind=kind)
    assert 0.0 < error < 0.015
    sharper = y_prob**2 / (y_prob**2).sum(axis=1, keepdims=True)
    assert expected_calibration_error(y_true, sharper, kind=kind) > 0.05


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
@pytest.mark.parametrize("kind", ["top", "classwise"])
def test_constant_forecasts_of_the_shares_are_calibrated(kind, strategy):
    y_true = np.repeat([0, 1, 2], [50, 30, 20])
    y_prob = np.tile([0.5, 0.3, 0.2], (100, 1))
    error = expected_calibration_error(y_true, y_prob, kind=kind, strategy=strategy)
    assert error == pytest.approx(0.0, abs=1e-12)


def test_class_that_does_not_occur_counts_with_its_probability():
    y_prob = np.tile([0.5, 0.3, 0.2], (10, 1))
    y_true = np.repeat([0, 1], [5, 5])
    error = expected_calibration_error(
        y_true, y_prob, labels=[0, 1, 2], kind="classwise"
    )
    assert error == pytest.approx((0.0 + 0.2 + 0.2) / 3)


def test_probability_of_the_second_class_is_enough():
    rng = np.random.default_rng(2)
    second, y_true = rng.uniform(size=40), rng.integers(0, 2, 40)
    both = np.column_stack((1.0 - second, second))
    for score in (expected_calibration_error, brier_decomposition):
        assert score(y_true, second) == score(y_true, both)


def test_error_is_a_scorer():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.repeat(["no", "yes"], 30)
    classifier = LogisticRegression().fit(X, y)
    scorer = make_scorer(
        expected_calibration_error,
        response_method="predict_proba",
        greater_is_better=False,
    )
    expected = expected_calibration_error(y, classifier.predict_proba(X))
    assert scorer(classifier, X, y) == pytest.approx(-expected)


def test_table_by_hand():
    y_prob = [[0.9, 0.1], [0.5, 0.5], [0.2, 0.8], [1.0, 0.0]]
    table = reliability_table(
        [0, 1, 1, 1], y_prob, n_bins=5, sample_weight=[1, 2, 3, 3]
    )
    np.testing.assert_allclose(table["low"], [0.0, 0.2, 0.4, 0.6, 0.8])
    np.testing.assert_allclose(table["high"], [0.2, 0.4, 0.6, 0.8, 1.0])
    np.testing.assert_allclose(table["weight"], [0, 0, 2, 0, 7])
    nan = np.nan
    np.testing.assert_allclose(
        table["confidence"], [nan, nan, 0.5, nan, (0.9 + 3 * 0.8 + 3) / 7]
    )
    np.testing.assert_allclose(table["accuracy"], [nan, nan, 0.0, nan, 4 / 7])


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_table_has_the_error(strategy):
    y_true, y_prob = predictions()
    table = reliability_table(y_true, y_prob, strategy=strategy)
    gaps = table["weight"] * np.abs(table["accuracy"] - table["confidence"])
    error = expected_calibration_error(y_true, y_prob, strategy=strategy)
    assert np.nansum(gaps) / 200 == pytest.approx(error)
    np.testing.assert_array_equal(table["low"][1:], table["high"][:-1])
    assert (table["confidence"] >= table["low"])[table["weight"] > 0].all()
    assert (table["confidence"] <= table["high"])[table["weight"] > 0].all()


def test_bins_of_equal_weight_have_it():
    y_true, y_prob = predictions(205)
    table = reliability_table(y_true, y_prob, n_bins=10, strategy="quantile")
    assert len(table["weight"]) == 10
    assert set(table["weight"]) == {20.0, 21.0}
    top = y_prob.max(axis=1)
    assert (table["low"][0], table["high"][-1]) == (top.min(), top.max())


def test_equal_probabilities_go_where_the_middle_of_their_weight_lies():
    # The middles lie at 5 %, 50 % and 95 % of the weight.
    y_prob = [0.6, 0.7, 0.9]
    table = reliability_table(
        [0, 1, 1], y_prob, n_bins=2, strategy="quantile", sample_weight=[1, 8, 1]
    )
    assert list(table["weight"]) == [1.0, 9.0]


def test_rounding_of_weights_moves_no_sample():
    y_true, y_prob = predictions(11)
    settings = {"labels": range(4), "n_bins": 2, "strategy": "quantile"}
    table = reliability_table(y_true, y_prob, **settings)
    tenths = np.full(11, 0.1)
    scaled = reliability_table(y_true, y_prob, sample_weight=tenths, **settings)
    np.testing.assert_allclose(scaled["weight"], table["weight"] / 10.0)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_brier_parts_equal_the_sums_by_hand(strategy):
    y_true, y_prob = predictions(120, 3)
    reliability = resolution = 0.0
    shares = np.bincount(y_true) / 120
    for c, n, forecast, share in class_sums(y_true, y_prob, 6, strategy):
        reliability += n / 120 * (forecast - share) ** 2
        resolution += n / 120 * (share - shares[c]) ** 2
    expected = reliability, resolution, 1.0 - (shares**2).sum()
    parts = brier_decomposition(y_true, y_prob, n_bins=6, strategy=strategy)
    assert parts == pytest.approx(expected)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("weighted", [False, True])
def test_brier_parts_sum_to_the_score_of_discrete_forecasts(n_classes, weighted):
    rng = np.random.default_rng(4)
    y_prob = rng.multinomial(10, np.ones(n_classes) / n_classes, size=300) / 10
    y_true = rng.integers(0, n_classes, 300)
    weights = rng.uniform(size=300) if weighted else np.ones(300)
    parts = brier_decomposition(y_true, y_prob, n_bins=97, sample_weight=weights)
    reliability, resolution, uncertainty = parts
    score = weights @ ((np.eye(n_classes)[y_true] - y_prob) ** 2).sum(axis=1)
    score /= weights.sum() * (2 if n_classes == 2 else 1)
    assert reliability - resolution + uncertainty == pytest.approx(score)
    if n_classes == 2:
        known = brier_score_loss(y_true, y_prob[:, 1], sample_weight=weights)
        assert known == pytest.approx(score)


def test_brier_parts_by_hand():
    # Bins {0.1}, {0.6}; shares 0 of 1 and 2 of 3; half of all are of the class.
    parts = brier_decomposition([0, 0, 1, 1], [0.1, 0.6, 0.6, 0.6], n_bins=10)
    reliability = (0.1**2 + 3 * (0.6 - 2 / 3) ** 2) / 4
    resolution = (0.5**2 + 3 * (2 / 3 - 0.5) ** 2) / 4
    assert parts == pytest.approx((reliability, resolution, 0.25))


def test_brier_parts_at_their_limits():
    y_true = np.repeat([0, 1, 2], [5, 3, 2])
    uncertainty = 1.0 - 0.25 - 0.09 - 0.04
    shares = np.tile([0.5, 0.3, 0.2], (10, 1))
    constant = brier_decomposition(y_true, shares)
    assert constant == pytest.approx((0.0, 0.0, uncertainty), abs=1e-12)
    perfect = brier_decomposition(y_true, np.eye(3)[y_true])
    assert perfect == pytest.approx((0.0, uncertainty, uncertainty))
    only_one = brier_decomposition([0, 0], [[1.0, 0.0]] * 2, labels=[0, 1])
    assert only_one == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("score", BY_BINS)
@pytest.mark.parametrize("n_bins", [0, -1, 2.0, None, "15"])
def test_wrong_number_of_bins_is_refused(n_bins, score):
    with pytest.raises(ValueError, match=r"`n_bins` must be an int >= 1"):
        score([0, 1], np.eye(2), n_bins=n_bins)


@pytest.mark.parametrize("score", BY_BINS)
def test_unknown_strategy_is_refused(score):
    with pytest.raises(ValueError, match=r"`strategy` must be one of 'uniform', 'qu"):
        score([0, 1], np.eye(2), strategy="width")


def test_unknown_kind_is_refused():
    with pytest.raises(ValueError, match=r"`kind` must be one of 'top', 'classwise'"):
        expected_calibration_error([0, 1], np.eye(2), kind="all")


BAD = {
    "columns": ([0, 1, 2], [[0.5, 0.5]] * 3, {}, "a column for each of the 3"),
    "length": ([0, 1, 1], np.eye(2), {}, "inconsistent numbers of samples"),
    "sums": ([0, 1], [[0.9, 0.9], [0.1, 0.1]], {}, r"sum to 1.*0\.2 to 1\.8"),
    "negative": ([0, 1], [[1.5, -0.5], [0.5, 0.5]], {}, "probabilities"),
    "unknown": ([0, 5], np.eye(2), {"labels": [0, 1]}, r"not in `labels`: .*5"),
    "NaN": ([0, 1], [[np.nan, 1.0], [0.5, 0.5]], {}, "y_prob contains NaN"),
    "one class": ([0, 0], [[0.5, 0.5]] * 2, {}, "pass `labels`"),
    "second class": ([0, 1], [0.5, 1.5], {}, "probabilities.*-0.5"),
    "same labels": ([0, 1], np.eye(2), {"labels": [1, 1]}, "`labels` must differ"),
    "2-D labels": (np.eye(2), np.eye(2), {}, "1d array"),
    "no weight": ([0, 1], np.eye(2), {"sample_weight": [0, 0]}, "not 0 for all"),
    "weight < 0": ([0, 1], np.eye(2), {"sample_weight": [2, -1]}, "must be >= 0"),
    "weights": (
        [0, 1],
        np.eye(2),
        {"sample_weight": [1.0]},
        r"`sample_weight`.*2 n.*1",
    ),
}


@pytest.mark.parametrize("score", BY_BINS)
@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(case, score):
    y_true, y_prob, settings, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        score(y_true, y_prob, **settings)
