"""Expected calibration error against a loop over samples and bins."""

import numpy as np
import pytest

from skconvgp.metrics import expected_calibration_error


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


@pytest.mark.parametrize("n_bins", [0, -1, 2.0, None, "15"])
def test_wrong_number_of_bins_is_refused(n_bins):
    with pytest.raises(ValueError, match=r"`n_bins` must be an int >= 1"):
        expected_calibration_error([0, 1], np.eye(2), n_bins=n_bins)


BAD = {
    "columns": ([0, 1, 2], [[0.5, 0.5]] * 3, {}, "a column for each of the 3"),
    "length": ([0, 1, 1], np.eye(2), {}, "inconsistent numbers of samples"),
    "sums": ([0, 1], [[0.9, 0.9], [0.1, 0.1]], {}, r"sum to 1.*0\.2 to 1\.8"),
    "negative": ([0, 1], [[1.5, -0.5], [0.5, 0.5]], {}, "probabilities"),
    "unknown": ([0, 5], np.eye(2), {"labels": [0, 1]}, r"`labels` does not.*5"),
    "NaN": ([0, 1], [[np.nan, 1.0], [0.5, 0.5]], {}, "y_prob contains NaN"),
    "one class": ([0, 0], [[0.5, 0.5]] * 2, {}, "pass `labels`"),
    "weights": ([0, 1], np.eye(2), {"sample_weight": [1.0]}, "inconsistent"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(case):
    y_true, y_prob, settings, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        expected_calibration_error(y_true, y_prob, **settings)
