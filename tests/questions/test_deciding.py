"""Thresholds of confidence, and how often their promise is kept."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.special import bdtr
from scipy.stats import binom, binomtest
from sklearn.datasets import make_moons

from skconvgp import ConvNetGPClassifier
from skconvgp.kernels import rbf
from skconvgp.questions import _deciding, select_threshold

unreachable = pytest.mark.filterwarnings("ignore:A risk of")


def answers(n, seed=0, noise=0.02):
    """Return labels, and probabilities of the second class that are nearly right."""
    rng = np.random.default_rng(seed)
    p = 1.0 / (1.0 + np.exp(-4.0 * rng.normal(size=n)))
    y = rng.uniform(size=n) < noise / 2.0 + (1.0 - noise) * p
    return y.astype(int), p


def risk_of(threshold, y, p):
    """Return the share of wrong answers."""
    is_answered = np.maximum(p, 1.0 - p) >= threshold
    return ((p > 0.5) != y)[is_answered].mean() if is_answered.any() else 0.0


def bound(y, p, threshold, confidence):
    """Return the upper bound of Clopper and Pearson for the share of wrong answers."""
    is_answered = np.maximum(p, 1.0 - p) >= threshold
    wrong = int(((p > 0.5) != y)[is_answered].sum())
    test = binomtest(wrong, int(is_answered.sum()), alternative="less")
    return test.proportion_ci(confidence).high


@pytest.mark.parametrize(("risk", "confidence"), [(0.05, 0.9), (0.1, 0.95)])
def test_the_bound_is_that_of_clopper_and_pearson(risk, confidence):
    y, p = answers(1000)
    threshold = select_threshold(y, p, risk=risk, confidence=confidence)
    assert 0.5 < threshold < 1.0
    assert bound(y, p, threshold, confidence) <= risk
    odds = np.log(threshold / (1.0 - threshold))
    lower = 1.0 / (1.0 + np.exp(_deciding.STEP - odds))
    assert bound(y, p, lower, confidence) > risk
    stricter = 1.0 / (1.0 + np.exp(-np.arange(odds, 14.0, _deciding.STEP)))
    tested = [one for one in stricter if (np.maximum(p, 1.0 - p) >= one).sum() >= 100]
    assert len(tested) > 20
    assert all(bound(y, p, one, confidence) <= risk for one in tested)


@unreachable
@pytest.mark.parametrize("n", [150, 600])
@pytest.mark.parametrize("risk", [0.03, 0.1])
def test_the_promise_is_kept(n, risk):
    """Of 200 draws, up to a number of four deviations."""
    truth, confidence = answers(200_000, seed=10**6), 0.9
    broken, reached = 0, 0
    for seed in range(200):
        threshold = select_threshold(
            *answers(n, seed=seed), risk=risk, confidence=confidence
        )
        broken += risk_of(threshold, *truth) > risk
        reached += np.isfinite(threshold)
    assert broken <= binom.isf(1e-4, 200, 1.0 - confidence)
    if risk == 0.1:
        assert reached > 150


@unreachable
@pytest.mark.parametrize("n_draws", [40, pytest.param(200, marks=pytest.mark.slow)])
def test_the_promise_is_nearly_kept_by_left_out_answers(n_draws):
    broken, reached, risk, confidence = 0, 0, 0.1, 0.9
    for seed in range(n_draws):
        X, y = make_moons(1150, noise=0.35, random_state=seed)
        gp = ConvNetGPClassifier(rbf(0.7)).fit(X[:150], y[:150])
        threshold = select_threshold(
            y[:150], gp.loo_predict_proba(), risk=risk, confidence=confidence
        )
        broken += risk_of(threshold, y[150:], gp.predict_proba(X[150:])[:, 1]) > risk
        reached += np.isfinite(threshold)
    assert broken <= binom.isf(1e-3, n_draws, 1.0 - confidence)
    assert reached > n_draws // 2


def in_turn(y, p, risk, confidence):
    """Return the threshold by single samples, one after the other."""

    def enough(n_wrong):
        n = n_wrong + 1
        while bdtr(n_wrong, n, risk) > 1.0 - confidence:
            n += 1
        return n

    first, n_wrong = enough(0), 1
    while enough(n_wrong) <= 0.1 * len(y):
        first, n_wrong = enough(n_wrong), n_wrong + 1
    few = [enough(spare) for spare in (1, 2) if enough(spare) <= 0.5 * len(y)]
    first = max([first, *few])
    sure, found = np.maximum(p, 1.0 - p), np.inf
    odds = np.arange(_deciding.STRICTEST, _deciding.LENIENT, -_deciding.STEP)
    for threshold in np.append(1.0 / (1.0 + np.exp(-odds)), 0.0):
        is_answered = sure >= threshold
        n, wrong = is_answered.sum(), ((p > 0.5) != y)[is_answered].sum()
        if n >= first and bdtr(wrong, n, risk) > 1.0 - confidence:
            break
        if n >= first:
            found = threshold
    return found


@unreachable
@pytest.mark.parametrize("risk", [0.004, 0.05, 0.5, 0.8])
@pytest.mark.parametrize("confidence", [0.5, 0.75, 0.95])
def test_thresholds_are_those_of_single_steps(risk, confidence):
    found, expected = [], []
    for seed, n in enumerate([1, 2, 3, 10, 59, 60, 200, 700, 3000]):
        y, p = answers(n, seed)
        given = {"labels": [0, 1], "risk": risk, "confidence": confidence}
        found.append(select_threshold(y, p, **given))
        expected.append(in_turn(y, p, risk, confidence))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@unreachable
@pytest.mark.parametrize(("n", "risk"), [(20_000, 0.05), (100, 1e-4), (100, 1e-30)])
def test_few_bounds_are_computed_whatever_the_numbers_are(n, risk, monkeypatch):
    calls = []

    def counted(*given):
        calls.append(given)
        assert len(calls) < 2000
        return bdtr(*given)

    monkeypatch.setattr(_deciding, "bdtr", counted)
    select_threshold(*answers(n), risk=risk)
    assert len(calls) > 1


def test_numbers_of_other_types_are_the_same():
    y, p = answers(1000)
    expected = select_threshold(y, p, risk=0.125, confidence=0.75)
    for kind in (np.float32, np.float16, Fraction):
        found = select_threshold(y, p, risk=kind(0.125), confidence=kind(0.75))
        assert found == expected


def told_number(told):
    """Return how many samples a warning says may be enough."""
    return int(str(told[0].message).split("some ")[1].split()[0])


def test_all_are_answered_if_all_are_right():
    y, p = np.arange(100) % 2, np.where(np.arange(100) % 2, 0.6, 0.3)
    assert select_threshold(y, p, risk=0.05) == 0.0
    assert select_threshold(y[:59], p[:59], risk=0.05) == 0.0


def test_labels_are_those_of_columns():
    y, p = answers(500)
    expected = select_threshold(y, p, risk=0.1)
    three = np.stack([1.0 - p, np.zeros(500), p], 1)
    names = np.array(["no", "yes"])[y]
    labels = ["no", "perhaps", "yes"]
    found = select_threshold(names, three, risk=0.1, labels=labels)
    assert found == expected


@pytest.mark.parametrize("n", [58, 20])
def test_too_few_samples_are_told(n):
    y, p = np.arange(n) % 2, np.where(np.arange(n) % 2, 1.0 - 1e-9, 1e-9)
    with pytest.warns(UserWarning, match=f"not reachable with {n} samples") as told:
        assert select_threshold(y, p, risk=0.05) == np.inf
    assert 59 <= told_number(told) < 300


def test_the_samples_that_are_told_are_often_enough():
    y, p = answers(100, seed=3, noise=0.0)
    with pytest.warns(UserWarning, match="some .* may be enough") as told:
        assert select_threshold(y, p, risk=0.02) == np.inf
    n = told_number(told)
    assert 100 < n < 2000
    found = [
        select_threshold(*answers(2 * n, seed, noise=0.0), risk=0.02)
        for seed in range(20)
    ]
    assert np.isfinite(found).mean() > 0.5


@pytest.mark.parametrize(
    ("risk", "least"), [(1e-3, "2995 "), (1e-6, "2995731 "), (1e-30, "10000001 ")]
)
def test_samples_without_an_error_are_told_how_many_it_takes(risk, least):
    y, p = np.arange(100) % 2, np.where(np.arange(100) % 2, 0.9, 0.1)
    with pytest.warns(UserWarning, match=f"it takes at least {least}without an error"):
        assert select_threshold(y, p, risk=risk) == np.inf


@pytest.mark.parametrize("place", [0, 1, 5, 20, 100])
@pytest.mark.parametrize("risk", [0.05, 0.1])
def test_a_wrong_label_does_not_end_the_search(risk, place):
    """Of 400 answers one is wrong, which may be the most confident one."""
    p, y = 1.0 - np.linspace(0.999, 0.9, 400), np.zeros(400, int)
    y[place] = 1
    assert select_threshold(y, p, risk=risk) == 0.0


def test_confident_errors_are_told():
    p, y = 1.0 - np.linspace(0.999, 0.9, 400), np.zeros(400, int)
    y[:12] = 1
    told = "12 of its .* most confident answers are wrong. Look at the labels"
    with pytest.warns(UserWarning, match=told):
        assert select_threshold(y, p, risk=0.1) == np.inf


def test_a_bad_model_is_told():
    rng = np.random.default_rng(0)
    with pytest.warns(UserWarning, match="wrong too often. Train it on more images"):
        threshold = select_threshold(
            rng.integers(0, 2, 500), rng.uniform(size=500), risk=0.1
        )
    assert threshold == np.inf


@pytest.mark.parametrize("value", [0.0, 1.0, -0.1, np.nan, "a", True, None])
def test_wrong_settings_are_refused(value):
    y, p = answers(100)
    with pytest.raises(ValueError, match="`risk` must be between 0 and 1"):
        select_threshold(y, p, risk=value)
    with pytest.raises(ValueError, match="`confidence` must be between 0 and 1"):
        select_threshold(y, p, risk=0.1, confidence=value)


def test_wrong_probabilities_are_refused():
    with pytest.raises(ValueError, match="sum to 1"):
        select_threshold([0, 1], [[0.5, 0.1], [0.2, 0.8]], risk=0.1)
