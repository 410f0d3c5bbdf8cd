"""The reliability diagram."""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from skconvgp.display import ReliabilityDisplay
from skconvgp.metrics import expected_calibration_error, reliability_table


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def predictions(n=200):
    rng = np.random.default_rng(0)
    return rng.integers(0, 3, n), rng.dirichlet(np.full(3, 0.7), size=n)


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_bars_are_the_table(strategy):
    y_true, y_prob = predictions()
    settings = {"n_bins": 5, "strategy": strategy, "sample_weight": np.arange(200.0)}
    table = reliability_table(y_true, y_prob, **settings)
    display = ReliabilityDisplay.from_predictions(y_true, y_prob, **settings)
    shares = table["weight"] / table["weight"].sum()
    heights = (table["accuracy"], shares)
    for axes, expected in zip(display.axes_, heights, strict=True):
        low = [bar.get_x() for bar in axes.patches]
        width = [bar.get_width() for bar in axes.patches]
        np.testing.assert_allclose(low, table["low"])
        np.testing.assert_allclose(np.add(low, width), table["high"])
        np.testing.assert_allclose([b.get_height() for b in axes.patches], expected)


def test_gaps_go_from_accuracy_to_confidence():
    y_true, y_prob = predictions()
    display = ReliabilityDisplay.from_predictions(y_true, y_prob, n_bins=5)
    table = reliability_table(y_true, y_prob, n_bins=5)
    (gaps,) = display.axes_[0].collections
    drawn = [line for line in gaps.get_segments() if len(line)]
    is_used = table["weight"] > 0.0
    confidence, accuracy = table["confidence"][is_used], table["accuracy"][is_used]
    starts = np.column_stack((confidence, accuracy))
    ends = np.column_stack((confidence, confidence))
    assert 0 < is_used.sum() < 5
    np.testing.assert_allclose(drawn, np.stack((starts, ends), axis=1))


def test_error_is_told():
    y_true, y_prob = predictions()
    display = ReliabilityDisplay.from_predictions(y_true, y_prob, n_bins=8)
    error = expected_calibration_error(y_true, y_prob, n_bins=8)
    assert display.expected_calibration_error == pytest.approx(error)
    told = [text.get_text() for text in display.axes_[0].get_legend().get_texts()]
    assert f"gap, mean {error:.3f}" in told


def test_estimator_is_asked_for_its_probabilities():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.repeat(["x", "y", "z"], 20)
    classifier = LogisticRegression().fit(X, y)
    display = ReliabilityDisplay.from_estimator(classifier, X[:40], y[:40], n_bins=4)
    expected = reliability_table(
        y[:40], classifier.predict_proba(X[:40]), labels=["x", "y", "z"], n_bins=4
    )
    for name, column in expected.items():
        np.testing.assert_array_equal(display.table[name], column)
    assert display.axes_[0].get_title() == "LogisticRegression"
    named = ReliabilityDisplay.from_estimator(classifier, X, y, name="mine")
    assert named.axes_[0].get_title() == "mine"


def test_figure_of_the_user_is_drawn_on_and_can_be_saved(tmp_path):
    figure = plt.figure(layout="constrained")
    left, right = figure.subfigures(1, 2)
    for part in (left, right):
        display = ReliabilityDisplay.from_predictions(*predictions(), figure=part)
        assert display.figure_ is part
    figure.savefig(tmp_path / "reliability.png")
    assert (tmp_path / "reliability.png").stat().st_size > 1000


def test_plot_can_be_repeated():
    display = ReliabilityDisplay.from_predictions(*predictions())
    first = display.figure_
    assert display.plot() is display
    assert display.figure_ is not first


def test_constant_forecasts_can_be_drawn():
    y_prob = np.tile([0.6, 0.4], (10, 1))
    display = ReliabilityDisplay.from_predictions(
        [0, 1] * 5, y_prob, strategy="quantile"
    )
    assert display.expected_calibration_error == pytest.approx(0.1)
    assert len(display.axes_[1].patches) == 1


def test_wrong_probabilities_are_refused():
    with pytest.raises(ValueError, match="sum to 1"):
        ReliabilityDisplay.from_predictions([0, 1], np.ones((2, 2)))


def test_without_matplotlib_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"ReliabilityDisplay.*\.\[display\]"):
        ReliabilityDisplay.from_predictions(*predictions())
