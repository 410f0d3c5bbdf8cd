"""The picture of several processes side by side."""

import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest

from skconvgp.display import SelectionDisplay
from skconvgp.estimators import SelectionReport

SCORES = ("rho", "evidence", "accuracy", "log_density", "calibration_error")
VALUES = np.array([[0.1, 5.0, 0.9, -0.5, 0.02], [0.2, 9.0, 0.9, np.nan, 0.01]])


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def report(values=VALUES, scores=SCORES):
    names = ("first", "second")
    return SelectionReport(names, scores, values, (None, None))


def drawn(axes):
    """Return values and rows of the other candidates, and of the best."""
    return [
        np.column_stack([line.get_xdata(), line.get_ydata()]) for line in axes.lines
    ]


def test_each_score_has_a_panel_with_the_best_apart():
    display = SelectionDisplay.from_report(report())
    assert len(display.axes_) == 5
    others, best = drawn(display.axes_[1])
    np.testing.assert_array_equal(others, [[5.0, 0.0]])
    np.testing.assert_array_equal(best, [[9.0, 1.0]])
    titles = [axes.get_title() for axes in display.axes_]
    assert titles[:3] == ["rho", "log evidence", "accuracy"]
    names = [label.get_text() for label in display.axes_[0].get_yticklabels()]
    assert names == ["first", "second"]
    colors = {line.get_color() for line in display.axes_[1].lines}
    assert len(colors) == 2


def test_ties_and_undefined_values():
    display = SelectionDisplay.from_report(report())
    assert len(drawn(display.axes_[2])[1]) == 2
    others, best = drawn(display.axes_[3])
    np.testing.assert_array_equal(best, [[-0.5, 0.0]])
    assert np.isnan(others[0, 0])


def test_scores_of_regressors():
    scores = ("rho", "evidence", "rmse", "log_density", "coverage")
    display = SelectionDisplay.from_report(report(np.abs(VALUES), scores))
    assert display.axes_[4].get_xlabel() == "0.95 is best"


def test_draws_into_a_figure_that_is_given():
    figure = plt.figure()
    display = SelectionDisplay(report()).plot(figure=figure)
    assert display.figure_ is figure
    figure.canvas.draw()


def test_says_how_to_get_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"\.\[display\]"):
        SelectionDisplay.from_report(report())
