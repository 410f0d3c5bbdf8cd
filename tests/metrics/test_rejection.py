"""Accuracy when samples are rejected, against plain loops."""

import numpy as np
import pytest

from skconvgp.metrics import accuracy_rejection_auc_score, accuracy_rejection_curve

SCORES = [accuracy_rejection_curve, accuracy_rejection_auc_score]


def predictions(n=60, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y_prob = rng.dirichlet(np.full(n_classes, 0.7), size=n)
    return rng.integers(0, n_classes, n), y_prob


def test_curve_by_hand():
    # Confidences 0.9, 0.9, 0.6, 0.6, 0.7; answers 0, 1, 1, 1, 0.
    y_prob = [0.1, 0.9, 0.6, 0.6, 0.3]
    rejected, accuracy, thresholds = accuracy_rejection_curve([0, 1, 1, 0, 1], y_prob)
    np.testing.assert_allclose(rejected, [0.0, 0.4, 0.6])
    np.testing.assert_allclose(accuracy, [3 / 5, 2 / 3, 1.0])
    np.testing.assert_allclose(thresholds, [0.6, 0.7, 0.9])
    area = accuracy_rejection_auc_score([0, 1, 1, 0, 1], y_prob)
    assert area == pytest.approx(0.4 * 3 / 5 + 0.2 * 2 / 3 + 0.4)


def test_curve_equals_a_loop():
    y_true, y_prob = predictions()
    order = sorted(range(60), key=lambda i: max(y_prob[i]))
    rejected, accuracy, thresholds = accuracy_rejection_curve(y_true, y_prob)
    for k in range(60):
        rest = order[k:]
        right = sum(int(np.argmax(y_prob[i])) == y_true[i] for i in rest)
        assert rejected[k] == pytest.approx(k / 60)
        assert accuracy[k] == pytest.approx(right / len(rest))
        assert thresholds[k] == max(y_prob[order[k]])


def test_area_is_the_mean_accuracy_over_the_number_of_rejected_samples():
    y_true, y_prob = predictions()
    is_right = y_prob.argmax(axis=1) == y_true
    surest_first = is_right[np.argsort(-y_prob.max(axis=1))]
    accuracies = [surest_first[:n].mean() for n in range(1, 61)]
    area = accuracy_rejection_auc_score(y_true, y_prob)
    assert area == pytest.approx(np.mean(accuracies))


def test_weights_count_as_repetitions():
    y_true, y_prob = predictions()
    y_prob[::3] = y_prob[0]
    weights = np.arange(60) % 4
    repeated = [np.repeat(values, weights, axis=0) for values in (y_true, y_prob)]
    for weighted, expected in zip(
        accuracy_rejection_curve(y_true, y_prob, sample_weight=weights),
        accuracy_rejection_curve(*repeated),
        strict=True,
    ):
        np.testing.assert_allclose(weighted, expected)
    area = accuracy_rejection_auc_score(y_true, y_prob, sample_weight=weights)
    assert area == pytest.approx(accuracy_rejection_auc_score(*repeated))


def test_order_of_equally_confident_samples_is_of_no_effect():
    y_prob = np.array([0.8, 0.8, 0.8, 0.2, 0.2, 0.6])
    y_true = np.array([1, 0, 1, 1, 0, 0])
    order = np.random.default_rng(0).permutation(6)
    area = accuracy_rejection_auc_score(y_true, y_prob)
    assert accuracy_rejection_auc_score(y_true[order], y_prob[order]) == area


def test_constant_confidence_has_the_accuracy_as_area():
    y_prob = np.tile([0.7, 0.3], (10, 1))
    y_true = np.repeat([0, 1], [6, 4])
    rejected, accuracy, thresholds = accuracy_rejection_curve(y_true, y_prob)
    assert (list(rejected), list(accuracy), list(thresholds)) == ([0.0], [0.6], [0.7])
    assert accuracy_rejection_auc_score(y_true, y_prob) == pytest.approx(0.6)


def test_extremes():
    y_true, y_prob = predictions()
    answers = y_prob.argmax(axis=1)
    assert accuracy_rejection_auc_score(answers, y_prob) == pytest.approx(1.0)
    wrong = (answers + 1) % 3
    assert accuracy_rejection_auc_score(wrong, y_prob, labels=range(3)) == 0.0
    is_right = answers == y_true
    best = accuracy_rejection_auc_score(y_true, y_prob, confidence=is_right)
    usual = accuracy_rejection_auc_score(y_true, y_prob)
    worst = accuracy_rejection_auc_score(y_true, y_prob, confidence=~is_right)
    assert worst < usual < best


def test_other_confidence_decides_the_order_and_not_the_answers():
    y_prob, y_true = [0.9, 0.8, 0.3], [0, 1, 0]
    rejected, accuracy, thresholds = accuracy_rejection_curve(
        y_true, y_prob, confidence=[-3.0, -2.0, -1.0]
    )
    np.testing.assert_allclose(rejected, [0.0, 1 / 3, 2 / 3])
    np.testing.assert_allclose(accuracy, [2 / 3, 1.0, 1.0])
    np.testing.assert_allclose(thresholds, [-3.0, -2.0, -1.0])


def test_labels_name_the_columns():
    y_true, y_prob = predictions()
    words = np.array(["c", "a", "b"])
    area = accuracy_rejection_auc_score(words[y_true], y_prob, labels=words)
    assert area == accuracy_rejection_auc_score(y_true, y_prob)


BAD = {
    "confidence": ([0, 1], np.eye(2), {"confidence": [1.0]}, "`confidence`.*2 n.* 1"),
    "NaN": ([0, 1], np.eye(2), {"confidence": [1.0, np.nan]}, "confidence contains"),
    "weights": ([0, 1], np.eye(2), {"sample_weight": [1.0]}, "`sample_weight`.* 1"),
    "unknown": ([0, 5], np.eye(2), {"labels": [0, 1]}, "not in `labels`: .*5"),
    "sums": ([0, 1], np.ones((2, 2)), {}, "sum to 1"),
}


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(case, score):
    y_true, y_prob, settings, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        score(y_true, y_prob, **settings)
